//! Every file of `configs/`.

use crate::place::{Place, files_of};
use crate::support::namespace::Namespace;
use crate::support::program::{Running, Switch, two_cores};
use crate::support::{need, tools};

fn text(name: &str) -> String {
    std::fs::read_to_string(crate::place::repository().join(name)).unwrap()
}

fn is_host(name: &str) -> bool {
    text(name).contains("[host]")
}

#[test]
fn every_switch_and_every_lab_starts() {
    let place = Place::new();
    let mut started = 0;
    for name in files_of("configs", "toml") {
        if text(&name).contains("[lab]") {
            let ended = place.ends_well(&["lab", &name, "--for", "500ms"]);
            assert!(ended.stdout.contains("verdict: "), "{name}: {}{}", ended.stdout, ended.stderr);
        } else if text(&name).contains("lcore = 2") && two_cores().is_none() {
            eprintln!("skipped: one core is not enough for {name}");
            continue;
        } else if !is_host(&name) && !text(&name).contains("net_af_packet") {
            place.switch_runs(&name);
        } else {
            continue;
        }
        started += 1;
    }
    assert!(started >= 6, "{started}");
}

/// Those on interfaces of the kernel, which must be there.
#[test]
fn every_switch_on_kernel_interfaces_starts() {
    let ns = need!(Namespace::new());
    for name in files_of("configs", "toml").into_iter().filter(|name| text(name).contains("net_af_packet")) {
        for interface in
            text(&name).split("iface=").skip(1).map(|rest| rest.split(['"', ',']).next().unwrap())
        {
            need!(ns.veth(interface, &format!("{interface}-peer"), 1500));
        }
        Switch::shipped_in(&ns, name.strip_prefix("configs/").unwrap()).stop();
    }
}

/// A host starts if somebody is at the other end of its device: it connects to sockets of a switch.
#[test]
fn every_host_starts() {
    let place = Place::new();
    for name in files_of("configs", "toml").into_iter().filter(|name| is_host(name)) {
        let switch = if name.contains("rclink") { "configs/memif-paxi.toml" } else { "configs/memif.toml" };
        let mut switch = Running::start(&mut place.weir(&["run", switch]));
        switch.says("switch ");
        let ended = place.ends_well(&["host", &name, "--for", "300ms"]);
        assert!(ended.stdout.contains("verdict: "), "{name}: {}{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn every_fabric_and_every_plan_plays() {
    let place = Place::at_rest();
    for name in files_of("configs/sim", "toml") {
        let ended = if name.ends_with(".plan.toml") {
            // Results of two plans do not share a folder.
            let results = name.replace('/', "-");
            place.ends_well(&["sim", "sweep", "--plan", &name, "--out", &results])
        } else {
            place.ends_well(&["sim", &name])
        };
        let said = format!("{name}: {}{}", ended.stdout, ended.stderr);
        // One is there to show a deadlock, and must name it.
        let deadlocks = name.contains("deadlock");
        assert_eq!(ended.code(), Some(i32::from(deadlocks)), "{said}");
        assert_eq!(ended.stdout.contains("verdict: FAIL: PFC deadlock"), deadlocks, "{said}");
        // In scenario C PFC is to act before ECN.
        let warns = name.contains("scenario-c");
        assert_eq!(ended.stderr.contains("warning["), warns, "{said}");
        assert!(!warns || ended.stderr.contains("warning[wred.xoff]"), "{said}");
    }
}

/// What the scripts in `bench/` write for the switch they measure.
#[test]
fn every_configuration_of_a_bench_passes_check() {
    need!(tools(&["python3"]));
    for script in ["bench/side-by-side", "bench/two-lcores"] {
        let program = crate::place::repository().join(script);
        let output = std::process::Command::new(program)
            .args(["--check", "--weir", env!("CARGO_BIN_EXE_weir")])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {said}");
    }
}

/// Without compiling or measuring anything: there is no compiler in the path.
#[test]
fn every_bench_says_how_it_is_called() {
    need!(tools(&["python3", "sh"]));
    let folder = crate::place::repository().join("bench");
    for entry in std::fs::read_dir(folder).unwrap() {
        let program = entry.unwrap().path();
        if program.extension().is_some() || program.is_dir() {
            continue;
        }
        let output = std::process::Command::new(&program)
            .arg("--help")
            .env("PATH", "/usr/bin:/bin")
            .env("CARGO", "/bin/false")
            .output()
            .unwrap();
        let [said, wrong] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let name = format!("bench/{}", program.file_name().unwrap().display());
        assert!(output.status.success() && said.lines().count() > 1, "{name}: {said}{wrong}");
        assert!(said.contains("usage: ") || said.contains(&name), "{name}: {said}");
    }
}

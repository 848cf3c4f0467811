//! What bad input gets: one clear message each, naming file and line where there is one, exit code 2,
//! nothing half started.

use crate::support::program::{Ended, Running, WEIR, floating, turn, two_cores, weir};
use crate::support::{need, tools};
use nix::sys::signal::Signal;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const RING: &str = "[buffer]\nsize = \"2MiB\"\nframes = 4096\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n";

/// `weir run` on a text, which must be refused before anything forwards.
fn refused(text: &str) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, text).unwrap();
    let _turn = turn();
    let summary = folder.path().join("summary.json");
    let ended = weir(&["run".as_ref(), file.as_os_str(), "--summary".as_ref(), summary.as_os_str()]);
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(!ended.stdout.contains("switch "), "it started: {}", ended.stdout);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    assert!(!summary.exists(), "nothing ran, so there is nothing to sum up");
    ended
}

/// Refused with all the words, and by exactly one error at a line of the file.
fn refused_at(line: usize, text: &str, words: &[&str]) {
    let stderr = refused(text).stderr;
    for word in words {
        assert!(stderr.contains(word), "{word} in {stderr}");
    }
    assert!(stderr.contains(&format!("bad.toml:{line}:")), "line {line} in {stderr}");
    assert_eq!(stderr.matches("error[").count(), 1, "{stderr}");
    assert!(stderr.trim_end().ends_with("bad.toml: 1 error"), "{stderr}");
}

fn port(name: &str, device: &str) -> String {
    format!("[[port]]\nname = {name:?}\ndevice = {device:?}\n")
}

/// Two ports behind EAL arguments that work here.
fn with(device: &str) -> String {
    format!("[eal]\nargs = [{:?}]\n{RING}{}{}", floating(), port("a", "ring"), port("b", device))
}

#[test]
fn an_unknown_key() {
    refused_at(
        3,
        "[buffer]\nsize = \"2MiB\"\nsise = 3\n[[port]]\nname = \"a\"\ndevice = \"ring\"\nrate = \"1G\"\n",
        &["sise", "size"],
    );
}

#[test]
fn arguments_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"\xff.toml");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(odd);
    std::fs::write(&path, format!("{RING}{}", port("a", "ring"))).unwrap();
    let ended = weir(&["check".as_ref(), path.as_os_str()]);
    assert_eq!(ended.code(), Some(0), "a file may have any name: {ended:?}");
    for arguments in [&[odd][..], &[odd, "--".as_ref(), "doctor".as_ref()]] {
        let ended = weir(arguments);
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
}

#[test]
fn text_that_is_no_toml() {
    refused_at(2, "[buffer]\nsize = \n", &["error[syntax]"]);
}

#[test]
fn overlapping_maps() {
    let text = format!("{RING}[qos]\ndscp_to_tc = {{ \"0-31\" = 0, \"26\" = 3 }}\n{}", port("a", "ring"));
    refused_at(8, &text, &["26"]);
}

#[test]
fn a_port_named_twice() {
    let text = format!("{RING}{}{}", port("a", "ring"), port("a", "ring"));
    refused_at(11, &text, &["a"]);
}

#[test]
fn an_lcore_that_does_not_exist() {
    let ended = refused(&format!("{RING}{}lcore = 900\n", port("a", "ring")));
    assert!(ended.stderr.contains("lcore") && ended.stderr.contains("900"), "{}", ended.stderr);
    let known = format!("[eal]\nargs = [\"-l\", \"0-0\"]\n{RING}{}lcore = 5\n", port("a", "ring"));
    let ended = refused(&known);
    assert!(ended.stderr.contains("lcore") && ended.stderr.contains('5'), "{}", ended.stderr);
}

/// The first worker runs when the second is found to have no lcore: it has to end, too.
#[test]
fn one_lcore_for_two_workers() {
    let Some([one, other]) = two_cores() else {
        println!("skipped: one core is not enough for two workers");
        return;
    };
    let ports = format!("{}lcore = {one}\n{}lcore = {other}\n", port("a", "ring"), port("b", "ring"));
    let shared = format!("--lcores=0@({one},{other}),1@({one},{other})");
    let ended = refused(&format!("[eal]\nargs = [{shared:?}]\n{RING}{ports}"));
    assert!(ended.stderr.contains(&format!("no idle worker lcore on core {other}")), "{}", ended.stderr);
}

#[test]
fn too_little_memory_is_refused_by_check_and_run_with_the_size_that_does() {
    let given = |mebibytes: &str| {
        with("ring").replace("[eal]\nargs = [", &format!("[eal]\nargs = [\"-m\", \"{mebibytes}\", "))
    };
    let stderr = refused(&given("4")).stderr;
    assert!(stderr.contains("buffer.frames"), "{stderr}");
    let needed = stderr.split_once("set -m ").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or("none");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.toml");
    std::fs::write(&file, given("4")).unwrap();
    let checked = weir(&["check".as_ref(), file.as_os_str()]);
    assert_eq!(checked.code(), Some(2), "{checked:?}");
    assert!(checked.stderr.contains(&format!("set -m {needed} ")), "{checked:?}");
    std::fs::write(&file, given(needed)).unwrap();
    let _turn = turn();
    for args in [
        ["check".as_ref(), file.as_os_str()].as_slice(),
        &["run".as_ref(), file.as_os_str(), "--for".as_ref(), "100ms".as_ref()],
    ] {
        let ended = weir(args);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
    }
}

#[test]
fn a_device_that_is_absent() {
    for device in ["net_af_packet0,iface=nowhere0", "0000:ff:1f.7", "net_pcap0,rx_pcap=/nowhere/in.pcap"] {
        // Without --no-huge a NIC takes hugepages, and what is said of those where there are none would come first.
        let text = with(device).replace("[eal]\nargs = [", "[eal]\nargs = [\"--no-huge\", ");
        let stderr = refused(&text).stderr;
        let name = device.split(',').next().unwrap();
        assert!(stderr.contains(&format!("weir: port b ({device})")) && stderr.contains(name), "{stderr}");
    }
}

#[test]
fn a_driver_that_does_not_exist() {
    refused_at(
        12,
        &format!("{RING}{}{}", port("a", "ring"), port("b", "net_nosuchdriver0")),
        &["net_nosuchdriver0"],
    );
}

/// Capabilities dropped, an ordinary user in all but name: no raw socket for `net_af_packet`.
#[test]
fn no_permission() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, with("net_af_packet0,iface=lo")).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", WEIR, "run"]).arg(&file);
    let _turn = turn();
    let ended = Running::start(&mut command).ended();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("port b (net_af_packet0,iface=lo)"), "{}", ended.stderr);
    assert!(ended.stderr.contains("cap_net_raw"), "{}", ended.stderr);
    assert!(!ended.stdout.contains("switch "), "it started: {}", ended.stdout);
}

#[test]
fn a_file_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("absent.toml"), folder.path().to_path_buf()] {
        for command in ["run", "check", "lab"] {
            let ended = weir(&[command.as_ref(), path.as_os_str()]);
            assert_eq!(ended.code(), Some(2), "{ended:?}");
            assert!(ended.stderr.contains(&*path.to_string_lossy()), "{}", ended.stderr);
        }
    }
}

#[test]
fn every_error_in_one_go() {
    let text = format!("{RING}{}rate = \"fast\"\n{}mtu = 20\n", port("a", "ring"), port("b", "ring"));
    let stderr = refused(&text).stderr;
    assert!(stderr.contains("bad.toml:10:") && stderr.contains("bad.toml:14:"), "{stderr}");
    assert!(stderr.trim_end().ends_with("2 errors"), "{stderr}");
}

/// EAL refuses an argument: DPDK's own words, and nothing more.
#[test]
fn eal_arguments_dpdk_does_not_know() {
    let text = format!("[eal]\nargs = [\"--no-such-option\"]\n{RING}{}", port("a", "ring"));
    let stderr = refused(&text).stderr;
    assert!(stderr.contains("--no-such-option"), "{stderr}");
}

/// What stops the EAL is named by us where DPDK's words do not say what to change.
#[test]
fn what_stops_dpdk_is_said_with_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.toml");
    let prefix = format!("weir-refused-{}", std::process::id());
    let prefixed = with("ring").replace("args = [", &format!("args = [\"--file-prefix={prefix}\", "));
    std::fs::write(&file, prefixed).unwrap();
    let _turn = turn();
    let mut first = Running::start(Command::new(WEIR).arg("run").arg(&file));
    first.says("switch ");
    let second = weir(&["run".as_ref(), file.as_os_str()]);
    assert_eq!(second.code(), Some(2), "{second:?}");
    assert!(second.stderr.contains(&prefix) && second.stderr.contains("--file-prefix=NAME"), "{second:?}");
    assert_eq!(first.stop(Signal::SIGINT).code(), Some(0), "the first has not noticed");

    let mut few = Command::new("prlimit");
    few.args(["--nofile=40:40", WEIR, "run"]).arg(&file);
    let ended = Running::start(&mut few).ended();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("40") && ended.stderr.contains("ulimit -n"), "{ended:?}");

    let endless = weir(&["check", "/dev/zero"]);
    assert_eq!(endless.code(), Some(2), "{endless:?}");
    assert!(endless.stderr.contains("/dev/zero"), "{endless:?}");
}

/// Somebody without a name here, who gets no folder for DPDK's files.
#[test]
fn no_folder_for_runtime_files() {
    need!(tools(&["unshare"]));
    need!(can(Command::new("unshare").args(["--user", "true"])));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.toml");
    std::fs::write(&file, with("ring")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", WEIR, "run"]).arg(&file).env("XDG_RUNTIME_DIR", "/proc");
    let ended = Running::start(&mut command).ended();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("/proc/dpdk") && ended.stderr.contains("XDG_RUNTIME_DIR"), "{ended:?}");
}

/// Hugepages are free, as far as the files of a mount namespace tell, and no hugetlbfs is mounted in it.
#[test]
fn hugepages_that_are_not_mounted() {
    need!(tools(&["unshare", "mount", "umount"]));
    need!(can(Command::new("unshare").args([
        "--mount",
        "mount",
        "-t",
        "tmpfs",
        "weir-test",
        "/sys/kernel/mm/hugepages"
    ])));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.toml");
    std::fs::write(&file, with("ring").replace("args = [", "args = [\"--legacy-mem\", ")).unwrap();
    let pages = folder.path().join("pages/hugepages-2048kB");
    std::fs::create_dir_all(&pages).unwrap();
    for (name, count) in [("nr", 64), ("free", 64), ("resv", 0), ("surplus", 0)] {
        std::fs::write(pages.join(format!("{name}_hugepages")), format!("{count}\n")).unwrap();
    }
    let script =
        "umount -a -t hugetlbfs; mount --bind \"$1\" /sys/kernel/mm/hugepages && exec \"$2\" run \"$3\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(folder.path().join("pages")).arg(WEIR).arg(&file);
    let ended = Running::start(&mut command).ended();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("mount -t hugetlbfs"), "{ended:?}");
}

/// Whether this machine lets us.
fn can(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// Hosts of a lab stand on one port each.
#[test]
fn a_lab_behind_a_lag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.toml");
    let lag = "[[lag]]\nname = \"po1\"\nmembers = [\"a\", \"b\"]\n";
    std::fs::write(&path, format!("{RING}{}{}{lag}", port("a", "ring"), port("b", "ring"))).unwrap();
    let ended = weir(&["lab".as_ref(), path.as_os_str()]);
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("LAG po1: a lab host stands on one port"), "{}", ended.stderr);
}

/// Files with secrets: `check` says beforehand what `run` will say.
#[test]
fn files_of_tokens_and_keys_that_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = write("good", "0123456789abcdef\n", 0o600);
    let same = write("same", "0123456789abcdef\n", 0o600);
    let open = write("open", "0123456789abcdef\n", 0o644);
    let [short, empty] = [("short", "secret\n"), ("empty", "")].map(|(name, text)| write(name, text, 0o600));
    let absent = folder.path().join("absent");
    let key = write("key", "-----BEGIN PRIVATE KEY-----\n", 0o644);
    let file = |mgmt: &str| {
        let port = port("a", "net_null0");
        let text = format!(
            "[eal]\nargs = [{:?}]\n{RING}{port}[mgmt]\nlisten = \"127.0.0.1:0\"\nsocket = \"off\"\n",
            floating()
        );
        write("switch.toml", &(text + mgmt), 0o600)
    };
    let _turn = turn();
    for (mgmt, said) in [
        (format!("token_file = {open:?}\n"), "mgmt.token_file: ".to_owned() + &open + ": others may read it"),
        (
            format!("operate_token_file = {short:?}\n"),
            format!("mgmt.operate_token_file: {short}: its first line"),
        ),
        (
            format!("admin_token_file = {empty:?}\n"),
            format!("mgmt.admin_token_file: {empty}: its first line"),
        ),
        (format!("token_file = {absent:?}\n"), "mgmt.token_file: ".to_owned()),
        (
            format!("token_file = {good:?}\nadmin_token_file = {same:?}\n"),
            "mgmt.admin_token_file: the same token as mgmt.token_file".to_owned(),
        ),
        (
            format!("token_file = {good:?}\noperate_token_file = {good:?}\n"),
            "mgmt.operate_token_file: the same token as mgmt.token_file, so whoever has that one is let in as \
             operate; name another file"
                .to_owned(),
        ),
        (
            format!("tls_cert = {good:?}\ntls_key = {key:?}\n"),
            format!("mgmt.tls_cert, mgmt.tls_key: {key}: others may read it"),
        ),
    ] {
        let path = file(&mgmt);
        let check = weir(&["check", &path]);
        let line = format!("warning: here `weir run` will be refused: {said}");
        assert!(check.code() == Some(0) && check.stderr.contains(&line), "{said}: {check:?}");
        let run = weir(&["run", &path, "--for", "1s"]);
        assert!(run.code() == Some(2) && run.stderr.contains(&said), "{said}: {run:?}");
    }
}

/// A certificate that clients turn down is no reason not to start, and a warning wherever somebody asks.
#[test]
fn a_certificate_that_has_expired_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mgmt/tests/tls");
    let copy = |name: &str| {
        let path = folder.path().join(name);
        std::fs::copy(shipped.join(name), &path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    };
    let key = copy("first.key");
    let file = |cert: &str| {
        let (cert, port) = (copy(cert), port("a", "net_null0"));
        let text = format!(
            "[eal]\nargs = [{:?}]\n{RING}{port}[mgmt]\nlisten = \"127.0.0.1:0\"\nsocket = \"off\"\ntls_cert = {cert:?}\n\
             tls_key = {key:?}\n",
            floating()
        );
        let path = folder.path().join("switch.toml");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let path = file("expired.crt");
    let words = "the certificate expired at 2020-02-01T00:00:00Z";
    let check = weir(&["check", &path]);
    let line = format!("warning: mgmt.tls_cert: {words}; renew it");
    assert!(check.code() == Some(0) && check.stderr.contains(&line), "{check:?}");
    assert!(check.stdout.contains("2 warnings"), "{check:?}");
    let json = weir(&["check", "--json", &path]);
    assert!(json.stdout.contains(words) && json.stdout.contains("\"mgmt.tls_cert\""), "{json:?}");
    let doctor = weir(&["doctor", &path]);
    assert!(doctor.stdout.contains(words), "{doctor:?}");
    let _turn = turn();
    let run = weir(&["run", &path, "--for", "300ms", "--log", "text"]);
    assert!(run.code() == Some(0) && run.stderr.contains("tls_certificate"), "{run:?}");
    let path = file("version1.crt");
    for command in [&["check", &path][..], &["run", &path], &["doctor", &path]] {
        let ended = weir(command);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains("not X.509 version 3"), "{ended:?}");
    }
}

#[test]
fn a_question_about_what_no_switch_can_hold() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    let ports = ["a", "b"].map(|name| port(name, "ring")).concat();
    std::fs::write(&file, format!("[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"16MiB\"\n{ports}"))
        .unwrap();
    let ask = |options: &[&str]| {
        let all = ["explain", file.to_str().unwrap(), "--port", "a", "--to", "b", "--dscp", "26"];
        weir(&[&all[..], options].concat())
    };
    for (options, says) in [
        (&["--used", "17MB"][..], "--used: 17 000 000 bytes are more than"),
        (
            &["--headroom-used", "15MB"],
            "--headroom-used: 15 000 000 bytes are more than the headroom of its group",
        ),
        (&["--others", "17MB"], "--others: 17 000 000 bytes are more than the shared pool"),
        (&["--used", "10MB", "--others", "10MB"], "--used and --others: 20 000 000 bytes are more than"),
        (&["--queued", "17MB"], "--queued: 17 000 000 bytes are more than the buffer, 16 777 216"),
    ] {
        let ended = ask(options);
        assert_eq!((ended.code(), ended.stderr.contains(says)), (Some(2), true), "{ended:?}");
    }
    assert_eq!(ask(&["--used", "1MB", "--others", "1MB", "--queued", "1MB"]).code(), Some(0));
    // The control pool is beside what all share: both may be full.
    let refused = ask(&["--others", "17MB"]).stderr;
    let (_, shared) = refused.split_once("the shared pool, ").unwrap();
    let shared: String = shared.lines().next().unwrap().chars().filter(char::is_ascii_digit).collect();
    let full = ask(&["--kind", "cnp", "--used", "262144", "--others", &shared]);
    assert_eq!(full.code(), Some(0), "{full:?}");
}

/// What others hold is held by other ports, so a limit of the port that is asked about has nothing to do with it.
#[test]
fn what_others_hold_is_not_held_by_the_port_of_a_question() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    let ports = ["a", "b"].map(|name| port(name, "ring")).concat();
    let limit = "[[buffer.port]]\nports = [\"a\", \"b\"]\ningress_limit = 60000\n";
    let text = format!("[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"16MiB\"\n{limit}{ports}");
    std::fs::write(&file, text).unwrap();
    for (port, to) in [("a", "b"), ("b", "a")] {
        let of = ["--port", port, "--to", to, "--dscp", "26", "--used", "10KB", "--others", "1MB"];
        let said = weir(&[&["explain", file.to_str().unwrap()][..], &of].concat());
        assert!(said.stdout.contains("admitted") && !said.stdout.contains("Xoff reached"), "{said:?}");
    }
}

/// Of the buffer workers do not know from each other what a burst of each may have taken: nobody shares that, on paper either.
#[test]
fn a_question_about_a_file_is_answered_with_the_division_of_check() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    let ports =
        ["a", "b"].iter().zip(0..).map(|(name, lcore)| port(name, "ring") + &format!("lcore = {lcore}\n"));
    let ports: String = ports.collect();
    std::fs::write(&file, format!("[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"16MiB\"\n{ports}"))
        .unwrap();
    let file = file.to_str().unwrap();
    let json = |args: &[&str]| serde_json::from_str::<serde_json::Value>(&weir(args).stdout).unwrap();
    let config = weir_config::load("t.toml", &std::fs::read_to_string(file).unwrap()).unwrap().config;
    assert!(config.buffer.staleness > 0);
    let said = json(&["explain", file, "--port", "a", "--to", "b", "--dscp", "26", "--json"]);
    assert_eq!(said["pool"]["shared_size_bytes"], config.buffer.shared, "{said:#}");
}

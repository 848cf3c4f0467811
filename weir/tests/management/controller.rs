//! `weir inc controller` between hosts that speak over TCP and switches that only answer over HTTP.

use crate::support::program::{Running, WEIR, weir};
use crate::support::{PATIENCE, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Jobs of a switch, or that it is dead.
#[derive(Default)]
struct State {
    jobs: BTreeMap<u64, Value>,
    dead: bool,
    /// All jobs have failed.
    failed: bool,
    /// What is said to a job instead of taking it.
    refuses: Option<&'static str>,
}

/// The management interface of a switch, as far as a controller uses it.
struct Switch {
    address: String,
    state: Arc<Mutex<State>>,
}

/// Writes a file that nobody else may read.
fn secret(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

impl Switch {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if !shared.lock().unwrap().dead {
                    answer(&stream, &shared);
                }
            }
        });
        Self { address, state }
    }

    fn jobs(&self) -> Vec<u64> {
        self.state.lock().unwrap().jobs.keys().copied().collect()
    }
}

fn answer(mut stream: &TcpStream, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let of = |name: &str| {
        let mut headers = head.iter().filter_map(|line| line.split_once(": "));
        headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let length = of("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    lines.read_exact(&mut body).unwrap();
    let mut state = state.lock().unwrap();
    let request: Vec<&str> = head[0].split(' ').collect();
    let allowed = of("authorization") == Some("Bearer admin");
    let (status, said) = match (request[0], request[1]) {
        _ if !allowed => ("401 Unauthorized", json!({ "detail": "present the token" })),
        ("GET", "/v1/inc/jobs") => {
            let (now, reason, rank) = if state.failed {
                ("failing", "unreachable", json!(1))
            } else {
                ("running", "", json!(null))
            };
            let row =
                |id: &u64| json!({ "port": "inc0", "job": id, "state": now, "reason": reason, "rank": rank });
            ("200 OK", json!({ "inc": state.jobs.keys().map(row).collect::<Vec<_>>() }))
        }
        ("GET", "/v1/inc/ranks") => {
            let ranks = state.jobs.iter().flat_map(|(id, job)| {
                let children = job["children"].as_array().into_iter().flatten();
                children.map(move |child| json!({ "port": "inc0", "job": id, "qpn": child["qpn"] }))
            });
            ("200 OK", json!({ "inc_ranks": ranks.collect::<Vec<_>>() }))
        }
        ("POST", "/v1/inc/jobs") => match state.refuses {
            Some(why) => ("409 Conflict", json!({ "detail": why })),
            None => {
                let job: Value = serde_json::from_slice(&body).unwrap();
                state.jobs.insert(job["id"].as_u64().unwrap(), job);
                ("200 OK", json!({}))
            }
        },
        ("DELETE", target) => {
            let id = target.strip_prefix("/v1/inc/jobs/").and_then(|t| t.strip_suffix("?port=inc0"));
            match state.jobs.remove(&id.unwrap().parse().unwrap()) {
                Some(_) => ("200 OK", json!({})),
                None => ("404 Not Found", json!({ "detail": "no such job" })),
            }
        }
        other => panic!("{other:?}"),
    };
    write!(stream, "HTTP/1.0 {status}\r\n\r\n{said}").unwrap();
}

/// A fabric of two leaves with two hosts each, and a spine; its switches.
struct Place {
    folder: TempDir,
    switches: [Switch; 3],
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let switches = [(); 3].map(|()| Switch::start());
        let token = folder.path().join("admin.token");
        secret(&token, "admin\n");
        secret(&folder.path().join("token"), "s3cret\n");
        let mut text = String::new();
        for (i, (name, switch)) in ["leaf0", "leaf1", "spine"].iter().zip(&switches).enumerate() {
            text += &format!(
                "[[switch]]\nname = \"{name}\"\napi = \"{}\"\ntoken_file = \"{}\"\nengine = {{ port = \"inc0\", mac = \
                 \"02:00:00:00:01:0{i}\", ip = \"10.0.1.{i}\" }}\n",
                switch.address,
                token.display()
            );
        }
        for host in 0..4 {
            text += &format!(
                "[[host]]\nname = \"h{host}\"\nip = \"10.0.0.{host}\"\nswitch = \"leaf{}\"\n",
                host / 2
            );
        }
        text += "[[link]]\na = \"leaf0\"\nb = \"spine\"\n[[link]]\na = \"leaf1\"\nb = \"spine\"\n";
        std::fs::write(folder.path().join("fabric.toml"), text).unwrap();
        Self { folder, switches }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// A controller and where it listens.
    fn controller(&self, listen: &str) -> (Running, String) {
        self.controller_with(listen, &[])
    }

    fn controller_with(&self, listen: &str, more: &[&str]) -> (Running, String) {
        let mut command = Command::new(WEIR);
        command.args(["inc", "controller", &self.path("fabric.toml"), "--listen", listen]).args(more);
        command.args(["--token-file", &self.path("token"), "--state", &self.path("state.json")]);
        let mut program = Running::start(&mut command);
        let said = program.line("controller ");
        let address = said.split(' ').nth(1).unwrap().trim_end_matches(':').to_owned();
        (program, address)
    }
}

struct Host {
    lines: BufReader<TcpStream>,
}

impl Host {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { lines: BufReader::new(stream) }
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.lines.get_mut(), "{line}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    fn join(address: &str, job: &str, host: u64, (index, hosts): (u64, u64)) -> Self {
        let mut new = Self::connect(address);
        new.say(&json!({ "join": {
            "token": "s3cret", "job": job, "hosts": hosts, "index": index, "ip": format!("10.0.0.{host}"),
            "mac": format!("02:00:00:00:00:0{host}"), "qpn": 17 + job.len(),
            "operation": { "kind": "all_reduce", "operator": "sum", "type": "f32" }, "mtu": 1024, "window": 64,
        } }));
        new
    }
}

fn why(answer: &Value, kind: &str) -> String {
    answer[kind]["why"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn jobs_outlive_their_controller_and_end_when_all_have_left() {
    let place = Place::new();
    let (controller, address) = place.controller("127.0.0.1:0");
    let mut stranger = Host::connect(&address);
    stranger.say(&json!({ "resume": { "token": "guess", "id": 1, "index": 0 } }));
    assert_eq!(why(&stranger.hear(), "refused"), "the token is wrong");
    let mut odd = Host::connect(&address);
    odd.say(&json!({ "join": 7 }));
    assert!(why(&odd.hear(), "refused").starts_with("not understood"));
    let mut hosts: Vec<Host> = (0..4).map(|h| Host::join(&address, "train", h, (h, 4))).collect();
    let seats: Vec<Value> = hosts.iter_mut().map(Host::hear).collect();
    let ranks: Vec<&Value> = seats.iter().map(|seat| &seat["seat"]["rank"]).collect();
    assert_eq!(ranks, [0, 1, 2, 3], "{seats:?}");
    assert_eq!(seats[0]["seat"]["tree"], json!([[0, 1], [2, 3]]));
    assert!(place.switches.iter().all(|switch| switch.jobs() == [1]));
    controller.stop(Signal::SIGKILL);
    // The same address, as hosts know it.
    let (_controller, address) = place.controller(&address);
    let mut hosts: Vec<Host> = (0..4).map(|_| Host::connect(&address)).collect();
    for (index, host) in hosts.iter_mut().enumerate() {
        host.say(&json!({ "resume": { "token": "s3cret", "id": 1, "index": index } }));
        assert_eq!(host.hear(), json!({ "resumed": {} }));
    }
    assert!(place.switches.iter().all(|switch| switch.jobs() == [1]), "nothing was touched");
    hosts.iter_mut().for_each(|host| host.say(&json!({ "leave": {} })));
    wait_for("switches to forget the job", || {
        (place.switches.iter().all(|switch| switch.jobs().is_empty())).then_some(())
    });
}

/// Ranks that hear of a failure from their engine leave before the controller looks: it says why all the same.
#[test]
fn why_a_job_failed_is_said_where_its_hosts_left_first() {
    let place = Place::new();
    let (mut controller, address) = place.controller("127.0.0.1:0");
    let mut hosts: Vec<Host> = (0..2).map(|h| Host::join(&address, "tree", h, (h, 2))).collect();
    hosts.iter_mut().for_each(|host| assert!(host.hear()["seat"].is_object()));
    let leaf0 = &place.switches[0];
    leaf0.state.lock().unwrap().failed = true;
    hosts.iter_mut().for_each(|host| host.say(&json!({ "leave": {} })));
    controller.says("job 1 (`tree`) had failed: switch `leaf0`: unreachable, rank 1");
    wait_for("the switch to forget the job", || leaf0.jobs().is_empty().then_some(()));
}

#[test]
fn a_dead_switch_fails_its_jobs_and_no_others() {
    let place = Place::new();
    let (_controller, address) = place.controller("127.0.0.1:0");
    let mut all: Vec<Host> =
        [0, 2].into_iter().zip(0..).map(|(h, i)| Host::join(&address, "wide", h, (i, 2))).collect();
    all.iter_mut().for_each(|host| assert!(host.hear()["seat"].is_object()));
    let mut few: Vec<Host> = (0..2).map(|h| Host::join(&address, "small", h, (h, 2))).collect();
    few.iter_mut().for_each(|host| assert!(host.hear()["seat"].is_object()));
    let [leaf0, _, spine] = &place.switches;
    assert_eq!((leaf0.jobs(), spine.jobs()), (vec![2], vec![1]), "one host of a leaf is summed at the spine");
    spine.state.lock().unwrap().dead = true;
    for host in &mut all {
        let said = why(&host.hear(), "failed");
        assert!(said.starts_with("switch `spine` does not answer: "), "{said}");
    }
    // It comes back with what it had, is told to forget that, and takes jobs again.
    spine.state.lock().unwrap().dead = false;
    wait_for("the spine to forget the job", || (spine.jobs().is_empty()).then_some(()));
    assert_eq!(leaf0.jobs(), [2]);
    // A switch that was started anew has no jobs.
    leaf0.state.lock().unwrap().jobs.clear();
    for host in &mut few {
        assert!(why(&host.hear(), "failed").starts_with("switch `leaf0` has lost the job"));
    }
    leaf0.state.lock().unwrap().refuses = Some("no memory is left");
    let mut few: Vec<Host> = (0..2).map(|h| Host::join(&address, "small", h, (h, 2))).collect();
    for host in &mut few {
        let said = why(&host.hear(), "refused");
        assert_eq!(said, "switch `leaf0`: /v1/inc/jobs: 409 (no memory is left)");
    }
    // The next number is that of somebody else's job, which is not ours to end.
    leaf0.state.lock().unwrap().refuses = Some("job 4 exists already");
    leaf0.state.lock().unwrap().jobs.insert(4, json!({}));
    let mut few: Vec<Host> = (0..2).map(|h| Host::join(&address, "small", h, (h, 2))).collect();
    for host in &mut few {
        assert!(why(&host.hear(), "refused").contains("job 4 exists already"));
    }
    leaf0.state.lock().unwrap().refuses = None;
    // By the time it has taken another job it has been told all there was to say of the one before.
    let mut few: Vec<Host> = (0..2).map(|h| Host::join(&address, "small", h, (h, 2))).collect();
    few.iter_mut().for_each(|host| assert!(host.hear()["seat"].is_object()));
    assert_eq!(leaf0.jobs(), [4, 5]);
}

/// As on a full disk.
#[test]
fn a_state_that_cannot_be_written_ends_no_job() {
    let place = Place::new();
    let (_controller, address) = place.controller("127.0.0.1:0");
    let state = place.path("state.json");
    // No file can take the place of a folder that is not empty.
    std::fs::remove_file(&state).unwrap();
    std::fs::create_dir_all(place.path("state.json/full")).unwrap();
    let mut hosts: Vec<Host> = (0..4).map(|h| Host::join(&address, "train", h, (h, 4))).collect();
    hosts.iter_mut().for_each(|host| assert!(host.hear()["seat"].is_object()));
    std::fs::remove_dir_all(&state).unwrap();
    let saved = wait_for("what is known to be written", || std::fs::read_to_string(&state).ok());
    assert!(saved.contains("train"), "{saved}");
}

/// The library of `contrib/inc`, on a device that is not there, and a real controller.
#[test]
fn the_library_for_hosts_meets_at_the_controller() {
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/inc");
    let place = Place::new();
    let library = place.path("libweir_inc_fake.so");
    let built = Command::new("make")
        .arg("-C")
        .arg(&contrib)
        .args([format!("OUT={}", place.folder.path().display()), library.clone()])
        .output();
    if !built.is_ok_and(|output| output.status.success()) || !Path::new(&library).exists() {
        eprintln!("skipped: no C compiler, or libibverbs-dev is not installed");
        return;
    }
    let (_controller, address) = place.controller("127.0.0.1:0");
    // The address of the device is that of h1; a second host comes by hand.
    let program = "import os, weir_inc\nfrom array import array\n\
                   g = weir_inc.Group(os.environ['CONTROLLER'], token='s3cret', job='both', hosts=2, index=1, window=64)\n\
                   data = array('f', [1.5] * 3000)\nprint(g.rank, g.ranks, g.tree, g.allreduce(data).count, data[2999])\n\
                   g.leave()\n";
    let mut other = Host::join(&address, "both", 0, (0, 2));
    let output = Command::new("python3")
        .args(["-c", program])
        .current_dir(&contrib)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("WEIR_INC_LIBRARY", &library)
        .env("CONTROLLER", &address)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: python3 is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "1 2 [0, 1] 2 6.0\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(other.hear()["seat"]["rank"], 0);
    other.say(&json!({ "leave": {} }));
    wait_for("the job to end", || {
        (place.switches.iter().all(|switch| switch.jobs().is_empty())).then_some(())
    });
}

#[test]
fn what_is_wrong_is_said_at_once() {
    let place = Place::new();
    let fabric = std::fs::read_to_string(place.path("fabric.toml")).unwrap();
    let says = |text: &str, token: &str, what: &str| {
        std::fs::write(place.path("wrong.toml"), text).unwrap();
        secret(Path::new(&place.path("wrong.token")), token);
        let args =
            ["inc", "controller", &place.path("wrong.toml"), "--token-file", &place.path("wrong.token")];
        let ended = weir(&args);
        assert!(
            ended.stderr.contains(what) && !ended.status.success(),
            "{}\n--- should say: {what}",
            ended.stderr
        );
    };
    says(&fabric, "\n", "write a token into it");
    std::fs::write(place.path("open.token"), "x").unwrap();
    std::fs::set_permissions(place.path("open.token"), Permissions::from_mode(0o644)).unwrap();
    let open = ["inc", "controller", &place.path("fabric.toml"), "--token-file", &place.path("open.token")];
    let said = weir(&open).stderr;
    assert!(said.contains("others may read it (mode 644): chmod 600"), "{said}");
    says(&fabric.replace("name = \"spine\"", "name = \"leaf0\""), "x", "`leaf0` is there twice");
    says(&fabric.replacen("switch = \"leaf1\"", "switch = \"leaf9\"", 1), "x", "there is no switch `leaf9`");
    says(&fabric.replacen("api =", "ap =", 1), "x", "unknown field `ap`");
    let (_controller, _) = place.controller("127.0.0.1:0");
    let output = Command::new(WEIR)
        .args(["inc", "controller", &place.path("fabric.toml"), "--listen", "127.0.0.1:0"])
        .args(["--token-file", &place.path("token"), "--state", &place.path("state.json")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("state.json: another controller keeps its jobs there"), "{said}");
}

#[test]
fn hosts_of_inccl_are_seated() {
    let place = Place::new();
    let mut fabric = std::fs::read_to_string(place.path("fabric.toml")).unwrap();
    let stranger = ["inc", "controller", &place.path("fabric.toml"), "--token-file", &place.path("token")];
    let refused = Command::new(WEIR).args(stranger).args(["--inccl", "127.0.0.1:0"]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("give each [[host]] of the topology its `mac`")
    );
    for host in 0..4 {
        let ip = format!("ip = \"10.0.0.{host}\"\n");
        fabric = fabric.replace(&ip, &format!("{ip}mac = \"02:00:00:00:00:0{host}\"\n"));
    }
    std::fs::write(place.path("fabric.toml"), fabric).unwrap();
    let (mut controller, _) = place.controller_with("127.0.0.1:0", &["--inccl", "127.0.0.1:0"]);
    let said = controller.line("INCCL ");
    let address = said.split(' ').nth(1).unwrap().trim_end_matches(':').to_owned();
    let mut first = TcpStream::connect(address).unwrap();
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = b"G\x03\0\0\0".to_vec();
    (0..3).for_each(|host| said.extend([10, 0, 0, host]));
    first.write_all(&said).unwrap();
    let mut number = [0; 4];
    first.read_exact(&mut number).unwrap();
    assert_eq!(u32::from_le_bytes(number), 1);
    first.write_all(b"C\x11\0\0\0\x12\0\0\0\x13\0\0\0").unwrap();
    first.read_exact(&mut number).unwrap();
    let mut file = vec![0; u32::from_be_bytes(number) as usize];
    first.read_exact(&mut file).unwrap();
    let file = String::from_utf8(file).unwrap();
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    let peers: Vec<&&str> = lines.iter().filter(|line| line.starts_with("peer_qp")).collect();
    assert_eq!(peers, [&"peer_qp: 17", &"peer_qp: 18", &"peer_qp: 19"], "{file}");
    assert!(lines.contains(&"host_id: 2"), "{file}");
    // The job was posted as these hosts need it.
    let posted = |switch: &Switch| switch.state.lock().unwrap().jobs.values().next().cloned();
    let job = place.switches.iter().find_map(posted).unwrap();
    assert_eq!(
        (&job["operation"]["type"], &job["operation"]["byte_order"]),
        (&json!("i32"), &json!("big")),
        "{job}"
    );
}

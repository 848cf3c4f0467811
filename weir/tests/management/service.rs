//! A service manager hears when the switch forwards, that it goes on, and that it ends; logs are lines of JSON.

use crate::support::PATIENCE;
use crate::support::program::{Running, WEIR, turn, weir};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

const TWO_RINGS: &str = r#"
[buffer]
size = "2MiB"
frames = 4096
[port_defaults]
rate = "1G"
mtu = 1518
[[port]]
name = "left"
device = "ring"
[[port]]
name = "right"
device = "ring"
[mgmt]
listen = "off"
socket = "off"
"#;

#[test]
fn a_service_manager_is_kept_informed() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = (folder.path().join("switch.toml"), folder.path().join("notify"));
    std::fs::write(&config, TWO_RINGS).unwrap();
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut message = [0; 4096];
        let n = socket.recv(&mut message).expect("a message in time");
        String::from_utf8_lossy(&message[..n]).into_owned()
    };
    let switch = Running::start(
        Command::new(WEIR).arg("run").arg(&config).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000"),
    );
    let first = heard();
    assert!(first.starts_with("READY=1\nSTATUS="), "{first}");
    for _ in 0..3 {
        let fed = heard();
        assert!(
            fed.starts_with("WATCHDOG=1\nSTATUS=forwarding: received 0,") || fed.contains("stand still"),
            "{fed}"
        );
    }
    switch.signal(Signal::SIGTERM);
    let last = std::iter::repeat_with(heard).find(|message| message.starts_with("STOPPING=1"));
    assert!(last.is_some());
    let ended = switch.ended();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn a_log_on_request_is_one_object_per_line() {
    let _turn = turn();
    let short = |more: &[&str]| weir(&[&["lab", "--for", "1s"], more].concat()).stderr;
    let log = short(&["--log", "json"]);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(
        (&lines[0]["message"], &lines[0]["ports"]),
        (&Value::from("forwarding"), &Value::from(4)),
        "{log}"
    );
    assert!(lines.iter().any(|line| line["message"] == "draining" && line["seconds"].is_number()), "{log}");
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()), "{log}");
    assert!(short(&["--log", "text"]).lines().all(|line| line.contains(" INFO ") || line.contains(" WARN ")));
    assert_eq!(short(&[]), "");
}

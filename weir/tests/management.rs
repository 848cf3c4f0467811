//! A lab is looked at from all sides while it runs, and flooded with bad requests: it does not mind.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Asks over TCP; what comes back, head and body.
fn ask(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = stream.write_all(request).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(address: &str, path: &str) -> String {
    ask(address, format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())
}

#[test]
fn a_lab_is_looked_at_and_a_flood_of_bad_requests_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (config, socket) = (dir.path().join("lab.toml"), dir.path().join("lab.sock"));
    let mgmt = format!("\n[mgmt]\nlisten = \"127.0.0.1:0\"\nsocket = {:?}\n", socket.to_str().unwrap());
    std::fs::write(&config, format!("{}{mgmt}", include_str!("../../configs/lab.toml"))).unwrap();
    let mut lab = Command::new(WEIR).arg("lab").arg(&config).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find(|line| line.starts_with("management on ")).expect("an address in the first lines");
    let address = said.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(said.ends_with(socket.to_str().unwrap()), "{said}");
    // Somebody has to read what it prints.
    let rest = std::thread::spawn(move || lines.collect::<Vec<_>>());

    let show = |what: &str, more: &[&str]| {
        let out =
            Command::new(WEIR).args(["show", what, "--socket"]).arg(&socket).args(more).output().unwrap();
        assert!(out.status.success(), "{what}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let sent = || {
        let ports: Value = serde_json::from_str(&show("ports", &["-j"])).unwrap();
        ports["ports"][0]["tx_packets"].as_u64().unwrap()
    };
    while sent() == 0 {
        std::thread::sleep(Duration::from_millis(100));
    }
    for (what, head) in [
        ("switch", "Lossless drops"),
        ("ports", "RX_OK"),
        ("queues", "Counter/pkts"),
        ("pgs", "Xoff at"),
        ("buffer", "shared"),
        ("pfc", "Rx Xoff"),
        ("ecn", "EcnMarked/pkts"),
        ("drops", "What to check"),
        ("reasons", "ingress.headroom_exhausted"),
        ("latency", "p99/ns"),
        ("lcores", "Turns/s"),
    ] {
        let text = show(what, &["--all"]);
        assert!(text.contains(head), "{what}:\n{text}");
    }
    show("events", &[]);
    assert!(show("queues", &["--port", "p0", "--all"]).lines().skip(2).all(|line| line.starts_with("p0 ")));
    let nowhere = Command::new(WEIR)
        .args(["show", "queues", "--port", "p9", "--socket"])
        .arg(&socket)
        .output()
        .unwrap();
    assert_eq!(nowhere.status.code(), Some(2));

    for n in 0..300u32 {
        match n % 4 {
            0 => ask(&address, b"\x00\xff\x16garbage\r\n\r\n"),
            1 => ask(&address, b"POST /v1/ports HTTP/1.0\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n{]{"),
            2 => get(&address, &format!("/v1/{n}")),
            _ => ask(&address, b"GET /v1/ports HTTP/1.0\r\nHost: evil.example\r\n\r\n"),
        };
    }
    let metrics = get(&address, "/metrics");
    for counted in ["code=\"404\"} 75", "code=\"405\"} 75", "code=\"421\"} 75", "malformed_requests_total 75"]
    {
        assert!(metrics.contains(counted), "{counted}: {metrics}");
    }
    assert!(metrics.contains("weir_conservation_error_packets 0"), "{metrics}");

    // SIGINT, as Ctrl-C sends it.
    Command::new("kill").args(["-INT", &lab.id().to_string()]).status().unwrap();
    let status = lab.wait().unwrap();
    let rest = rest.join().unwrap().join("\n");
    assert!(status.success() && rest.contains("verdict: PASS"), "{status}\n{rest}");
    assert!(!socket.exists(), "the socket goes with the switch");
}

//! A lab is looked at from all sides while it runs, and flooded with bad requests: it does not mind.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// How long anything here may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// A child that does not outlive its test, however that ends.
struct Lab(Child);

impl Lab {
    /// Waits until it ends by itself.
    fn ended(&mut self) -> ExitStatus {
        wait_for("the lab to end", || self.0.try_wait().unwrap())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // If it has ended already there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

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
    let child = Command::new(WEIR).arg("lab").arg(&config).stdout(Stdio::piped()).spawn().unwrap();
    let mut lab = Lab(child);
    // Somebody has to read what it prints, to its end.
    let lines = BufReader::new(lab.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (told, heard) = std::sync::mpsc::channel();
    let rest = std::thread::spawn(move || {
        let mut all = Vec::new();
        for line in lines {
            let _ = told.send(line.clone());
            all.push(line);
        }
        all
    });
    let said = std::iter::from_fn(|| heard.recv_timeout(PATIENCE).ok())
        .find(|line| line.starts_with("management on "))
        .expect("an address in the first lines");
    let address = said.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(said.ends_with(socket.to_str().unwrap()), "{said}");
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
    wait_for("a frame", || (sent() > 0).then_some(()));
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
    // One of them is the port that is not there.
    for counted in ["code=\"404\"} 76", "code=\"405\"} 75", "code=\"421\"} 75", "malformed_requests_total 75"]
    {
        assert!(metrics.contains(counted), "{counted}: {metrics}");
    }
    assert!(metrics.contains("weir_conservation_error_packets 0"), "{metrics}");

    // SIGINT, as Ctrl-C sends it.
    Command::new("kill").args(["-INT", &lab.0.id().to_string()]).status().unwrap();
    let status = lab.ended();
    let rest = rest.join().unwrap().join("\n");
    assert!(status.success() && rest.contains("verdict: PASS"), "{status}\n{rest}");
    assert!(!socket.exists(), "the socket goes with the switch");
}

//! A lab under lossless load is given orders, good ones and bad ones: it loses nothing.

#[path = "support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod support;

#[path = "support/running.rs"]
#[allow(dead_code)]
mod running;

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use running::Lab;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::program::{Running, WEIR, weir};
use support::{PATIENCE, run, tool, wait_for};

impl Lab {
    /// Status and body of a request as it is.
    fn ask(&self, head: &str, body: &[u8]) -> (u16, Value) {
        let answer = self.text(head, body);
        let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// The answer to a request as it is.
    fn text(&self, head: &str, body: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn post(&self, target: &str, kind: &str, body: &[u8]) -> (u16, Value) {
        let head = format!(
            "POST {target} HTTP/1.0\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.ask(&head, body)
    }

    fn value(&self, key: &str) -> String {
        let shown: Value = serde_json::from_str(&self.good(&["config", "show", "-j"])).unwrap();
        let row = shown["values"].as_array().unwrap().iter().find(|row| row["key"] == key);
        row.map_or("none", |row| row["value"].as_str().unwrap()).to_owned()
    }

    /// Ctrl-C: it has lost nothing; all it said.
    fn has_lost_nothing(self) -> String {
        let ended = self.stop();
        assert!(ended.status.success() && ended.stdout.contains("verdict: PASS"), "{ended:?}");
        ended.stdout
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A lab whose headroom covers a worker that is not scheduled for a while: what is lost is the order's fault.
fn config(size_mib: u64, more: &str, profile: &str, rate: &str) -> String {
    let mut text = format!(
        "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"{size_mib}MiB\"\nframes = 32768\ncell_bytes = 256\n\
         [[buffer.profile]]\nname = \"lossless\"\nxoff = \"1MiB\"\n{profile}\n\
         [port_defaults]\nrate = \"{rate}\"\nmtu = 1600\n"
    );
    for i in 0..4 {
        text += &format!("[[port]]\nname = \"p{i}\"\ndevice = \"ring\"\n");
    }
    text + "[lab]\npattern = \"incast\"\nload = \"60%\"\nframe_bytes = 1082\n" + more
}

#[test]
fn fifty_changes_under_load_lose_nothing() {
    let lab = Lab::of(&config(8, "", "", "1G"));
    let mut state = 12345u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for n in 0..50 {
        let more = format!(
            "[[wred]]\nname = \"roce\"\nkmin = \"{}KB\"\nkmax = \"{}KB\"\npmax = \"{}%\"\n\
             [[scheduler]]\nname = \"roce\"\nweight = {}\n[watchdog]\ndetection_time = \"{}ms\"\n\
             [fdb]\nageing = \"{}s\"\n",
            5 + below(40),
            60 + below(400),
            1 + below(100),
            1 + below(100),
            // A worker that is not scheduled must not look like a storm.
            4_000 + below(900),
            10 + below(500),
        );
        let profile = format!("dynamic_th = {}\nxon_offset = \"{}KiB\"", below(8) as i64 - 5, below(64));
        let rate = ["800M", "1G", "1200M"][below(3) as usize];
        let file = lab.write("next.toml", &config(6 + below(3), &more, &profile, rate));
        let said = lab.good(&["apply", text(&file)]);
        assert!(said.contains("applied: "), "{n}: {said}");
    }
    let told = || lab.good(&["show", "events"]).matches("reload       applied").count();
    wait_for("fifty events", || (told() == 50).then_some(()));
    let said = lab.has_lost_nothing();
    assert!(!said.contains("ingress.headroom_exhausted"), "{said}");
}

#[test]
fn bad_orders_are_refused_with_the_place_of_the_fault_and_change_nothing() {
    let lab = Lab::of(&config(8, "", "", "1G"));
    const TOML: &str = "application/toml";
    let fault = |answer: &(u16, Value)| {
        let fault = &answer.1["faults"][0];
        (answer.0, fault["path"].as_str().unwrap_or("").to_owned(), fault["line"].as_u64().unwrap_or(0))
    };
    assert_eq!(fault(&lab.post("/v1/config?name=x.toml", TOML, b"x = [\n")), (422, "syntax".into(), 1));
    let bad = config(8, "[watchdog]\ndetection_time = \"1ms\"\npoll_interval = \"5s\"\n", "", "1G");
    let (status, rule, line) = fault(&lab.post("/v1/config", TOML, bad.as_bytes()));
    assert!(status == 422 && rule.starts_with("watchdog") && line > 20, "{status} {rule} {line}");
    let file =
        std::fs::read_to_string(lab.write("mtu.toml", &config(8, "", "", "1G").replace("1600", "1500")))
            .unwrap();
    let answer = lab.post("/v1/config", TOML, file.as_bytes());
    assert_eq!(fault(&answer), (409, "port.p0.mtu".into(), 13), "{answer:?}");
    for (want, answer) in [
        (422, lab.post("/v1/config", TOML, b"\xff\xfe")),
        (400, lab.post("/v1/config?confirm=soon", TOML, file.as_bytes())),
        (400, lab.post("/v1/config?colour=red", TOML, file.as_bytes())),
        (413, lab.post("/v1/config", TOML, &vec![b'#'; (1 << 20) + 1])),
        (413, lab.post("/v1/config/confirm", TOML, b"x")),
        (415, lab.post("/v1/config", "text/plain", file.as_bytes())),
        (411, lab.ask("POST /v1/config HTTP/1.0\r\nHost: localhost\r\n\r\n", b"")),
        (
            411,
            lab.ask(
                "POST /v1/config HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"0\r\n\r\n",
            ),
        ),
        (409, lab.post("/v1/config/confirm", "", b"")),
        (409, lab.post("/v1/config/rollback", "", b"")),
        (405, lab.ask("DELETE /v1/config HTTP/1.0\r\nHost: localhost\r\n\r\n", b"")),
    ] {
        assert_eq!((answer.0, &answer.1["status"]), (want, &json!(want)), "{answer:?}");
    }
    assert_eq!(lab.value("port.p0.rate"), "1G");
    let wrong = lab.write("wrong.toml", "x = [");
    assert_eq!(lab.weir(&["apply", text(&wrong)]).code(), Some(2));
    lab.has_lost_nothing();
}

#[test]
fn a_change_waits_to_be_confirmed_and_is_taken_back() {
    let lab = Lab::of(&config(8, "", "", "1G"));
    let slow = lab.write("slow.toml", &config(8, "", "", "700M"));
    let rate = || lab.value("port.p0.rate");
    assert!(lab.good(&["apply", text(&slow), "--dry-run"]).contains("port.p0.rate"));
    assert_eq!(rate(), "1G");
    // Nobody confirms.
    lab.good(&["apply", text(&slow), "--confirm", "300ms"]);
    wait_for("the old rate", || (rate() == "1G").then_some(()));
    // Somebody takes it back.
    lab.good(&["apply", text(&slow), "--confirm", "10m"]);
    assert_eq!(rate(), "700M");
    assert_eq!(lab.weir(&["apply", text(&slow)]).code(), Some(2), "one order at a time");
    lab.good(&["apply", "--rollback"]);
    assert_eq!(rate(), "1G");
    // Somebody keeps it.
    lab.good(&["apply", text(&slow), "--confirm", "10m"]);
    lab.good(&["apply", "--confirm"]);
    assert_eq!(lab.weir(&["apply", "--rollback"]).code(), Some(2));
    assert_eq!(rate(), "700M");
    // PFC goes and comes back; so does a longer gap between two polls.
    let good = config(8, "", "", "1G");
    let without = good.replacen("name = \"p0\"\n", "name = \"p0\"\npfc = { enable = [] }\n", 1);
    for text in [&without, &format!("{good}[pfc]\npoll_gap = \"20us\"\n"), &good] {
        let file = lab.write("pfc.toml", text);
        lab.good(&["apply", file.to_str().unwrap()]);
    }
    lab.good(&["apply", text(&slow)]);
    // SIGHUP: the file it was started with.
    lab.program.signal(Signal::SIGHUP);
    wait_for("the first file", || (rate() == "1G").then_some(()));
    for phase in ["applied", "rolled_back", "confirmed"] {
        let told = || lab.good(&["show", "events"]).contains(&format!("reload       {phase}"));
        wait_for(phase, || told().then_some(()));
    }
    lab.has_lost_nothing();
}

/// Stops one thread of a program, as a machine does that has something better to do. It goes on when dropped.
struct Stalled(Pid);

impl Stalled {
    fn worker_of(program: u32) -> Self {
        let threads = std::fs::read_dir(format!("/proc/{program}/task")).unwrap().flatten();
        let name = |thread: &PathBuf| std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
        let worker =
            threads.map(|entry| entry.path()).find(|thread| name(thread).contains("worker")).unwrap();
        let thread = Pid::from_raw(worker.file_name().unwrap().to_str().unwrap().parse().unwrap());
        ptrace::seize(thread, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(thread).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        Self(thread)
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        // Where it is gone there is nothing to let go.
        let _ = ptrace::detach(self.0, None);
    }
}

#[test]
fn a_worker_that_stalls_leaves_the_switch_as_it_was_and_not_ready_until_it_says_so() {
    let lab = Lab::of(&config(8, "", "", "1G"));
    let slow = lab.write("slow.toml", &config(8, "", "", "700M"));
    let ready = || {
        let answer = lab.text("GET /readyz?verbose HTTP/1.0\r\nHost: localhost\r\n\r\n", b"");
        answer.contains("[+] configuration")
    };
    assert!(ready());
    let stalled = Stalled::worker_of(lab.program.id());
    let refused = |args: &[&str]| {
        let out = lab.weir(args);
        assert_eq!(out.code(), Some(2));
        out.stderr
    };
    let said = refused(&["apply", text(&slow)]);
    assert!(said.contains("503") && said.contains("worker 0 has not answered"), "{said}");
    assert_eq!(lab.value("port.p0.rate"), "1G");
    assert!(!ready());
    assert!(refused(&["apply", text(&slow)]).contains("503"), "one trouble at a time");
    drop(stalled);
    wait_for("all to agree", || ready().then_some(()));
    assert_eq!(lab.value("port.p0.rate"), "1G");
    lab.good(&["apply", text(&slow)]);
    assert_eq!(lab.value("port.p0.rate"), "700M");
    let told = lab.good(&["show", "events"]);
    assert!(told.contains("reload       unsettled") && told.contains("reload       settled"), "{told}");
    lab.stop();
}

/// A capture of a switch that runs, once more in virtual time: the same, and where it was changed that is found.
fn replayed(lab: &Lab) {
    let file = lab.path("replay.pcapng");
    lab.good(&["capture", "--port", "p1", "-w", text(&file), "--count", "100"]);
    let replay = |file: &Path| weir(&["sim", "replay", text(file), "--config", text(&lab.path("lab.toml"))]);
    let same = replay(&file);
    let said = &same.stdout;
    assert!(
        same.status.success() && said.contains("100 frames that came to p1") && said.contains("PASS"),
        "{said}"
    );
    let some = lab.path("filtered.pcapng");
    lab.good(&["capture", "--port", "p1", "-w", text(&some), "--dscp", "26", "--count", "20"]);
    assert!(String::from_utf8_lossy(&std::fs::read(&some).unwrap()).contains("only frames of: dscp 26"));
    let filtered = replay(&some);
    let said = &filtered.stdout;
    let lacking = said.lines().find(|line| line.contains("the capture lacks frames"));
    assert!(lacking.is_some_and(|line| line.ends_with("verdict of 20")), "{said}");
    assert!(filtered.status.success() && said.contains("PASS: as captured: class of 20"), "{said}");
    let mut bytes = std::fs::read(&file).unwrap();
    let (was, is) = (b"frame 40; arrived p1; tc 3 pg 3 queue 3", b"frame 40; arrived p1; tc 3 pg 3 queue 6");
    let at = bytes.windows(was.len()).position(|w| w == was).unwrap();
    bytes[at..at + is.len()].copy_from_slice(is);
    std::fs::write(&file, &bytes).unwrap();
    let differs = replay(&file);
    let said = &differs.stdout;
    assert_eq!(differs.code(), Some(1), "{said}");
    assert!(
        said.contains("frame 40: class: captured tc 3 pg 3 queue 6; replayed tc 3 pg 3 queue 3"),
        "{said}"
    );
    std::fs::write(&file, &bytes[..bytes.len() - 30]).unwrap();
    let short = replay(&file);
    let said = &short.stderr;
    assert!(short.code() == Some(2) && said.contains("replay.pcapng: cut short after frame 100"), "{said}");
}

/// Ctrl-C ends a capture like its count: the file is whole, and what was told until then is said.
fn stopped(lab: &Lab) {
    let file = lab.path("stopped.pcapng");
    let socket = lab.socket.to_str().unwrap();
    let args = ["capture", "--port", "p1", "-w", text(&file), "--count", "1000000", "--socket", socket];
    let capture = Running::start(Command::new(WEIR).args(args));
    wait_for("frames", || std::fs::metadata(&file).is_ok_and(|file| file.len() > 20_000).then_some(()));
    let ended = capture.stop(Signal::SIGINT);
    let told = ended.stderr.strip_prefix("stopped: ").and_then(|rest| rest.split_once(" frames"));
    let frames = told.unwrap_or_else(|| panic!("{ended:?}")).0;
    assert!(ended.status.success(), "{ended:?}");
    let replay = weir(&["sim", "replay", text(&file), "--config", text(&lab.path("lab.toml"))]);
    assert!(replay.stdout.contains(&format!("{frames} frames that came to p1")), "{replay:?}");
    let trace = Running::start(
        Command::new(WEIR).args(["trace", "--port", "p1", "--count", "1000000", "--socket", socket]),
    );
    wait_for("lines", || trace.stdout().contains("left").then_some(()));
    let ended = trace.stop(Signal::SIGHUP);
    assert!(
        ended.status.success()
            && ended.stdout.lines().last().is_some_and(|line| line.starts_with("stopped: ")),
        "{ended:?}"
    );
}

#[test]
fn frames_are_followed_and_captured_and_nobody_is_lost_for_it() {
    // Nothing is marked or paused, whatever the other ports send and however late a worker is: what is captured of one
    // port is all that matters to it.
    let quiet = "[[wred]]\nname = \"roce\"\nkmin = \"100MB\"\nkmax = \"100MB\"\npmax = \"100%\"\n";
    let lab = Lab::of(&config(64, quiet, "", "1G").replace("60%", "10%"));
    let trace = lab.good(&["trace", "--port", "p1", "--dscp", "26", "--count", "3", "-j"]);
    let events: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|e| e["event"] == kind).collect::<Vec<_>>();
    assert_eq!((of("arrived").len(), of("left").len(), of("end").len()), (3, 3, 1), "{trace}");
    for (arrived, left) in of("arrived").iter().zip(of("left")) {
        assert_eq!((&arrived["lookup"], &arrived["class"]["queue"]), (&json!("port p0"), &json!(3)));
        assert_eq!((&left["port"], &left["queue"]), (&json!("p0"), &json!(3)));
        assert!(left["at_ns"].as_u64() >= arrived["at_ns"].as_u64());
    }
    // What the filter does not mean is not told.
    let none = lab.good(&["trace", "--port", "p1", "--udp-port", "59999", "--for", "300ms"]);
    assert!(none.contains("time is over: 0 frames"), "{none}");

    let file = lab.path("frames.pcapng");
    lab.good(&["capture", "--port", "p1", "-w", text(&file), "--count", "100"]);
    let captured = std::fs::read(&file).unwrap();
    assert_eq!(captured[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let comments = String::from_utf8_lossy(&captured).matches("; admitted").count();
    assert_eq!(comments, 100);
    // Where the tool is installed it can read the file.
    if tool(&["tcpdump"]).is_some() {
        let said = run(Command::new("tcpdump").args(["-nn", "-r", text(&file)]));
        assert_eq!(said.lines().filter(|line| line.contains("IP ")).count(), 100, "{said}");
    }

    replayed(&lab);
    stopped(&lab);

    // Whoever goes away disarms what he armed; until then nobody else may.
    let body = br#"{"port":"p2","filter":{"udp_port":59999},"count":9}"#;
    let head = format!(
        "POST /v1/watch HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut first = UnixStream::connect(&lab.socket).unwrap();
    first.write_all(head.as_bytes()).and_then(|()| first.write_all(body)).unwrap();
    let mut heard = [0; 12];
    first.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"HTTP/1.0 200");
    assert_eq!(lab.post("/v1/watch", "application/json", body).0, 409);
    drop(first);
    let one = || lab.weir(&["trace", "--port", "p1", "--count", "1"]).status.success();
    wait_for("the tap to be free", || one().then_some(()));

    for (want, path, body) in [
        (400, "", &b"{"[..]),
        (400, "/count", b"{\"port\":\"p1\",\"count\":\"many\"}"),
        (400, "/filter/dst", b"{\"port\":\"p1\",\"filter\":{\"dst\":\"x\"}}"),
        (404, "/port", b"{\"port\":\"p9\"}"),
    ] {
        let (status, answer) = lab.post("/v1/watch", "application/json", body);
        assert_eq!((status, answer["faults"][0]["path"].as_str()), (want, Some(path)), "{answer}");
    }
    let told = lab.good(&["explain", "--port", "p1", "--dscp", "26", "--to", "p0"]);
    assert!(told.contains("priority group 3 (lossless), queue 3 of p0"), "{told}");
    assert_eq!(lab.weir(&["explain", "--port", "p9"]).code(), Some(2));
    lab.has_lost_nothing();
}

//! Over real sockets: what a good client gets, and what bad ones do not get.

use super::*;
use crate::client;
use crate::fake::Fake;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

const LOCAL: &str = "127.0.0.1:0";

pub(super) struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    fn has(&self, header: &str) -> bool {
        self.head.to_lowercase().contains(&header.to_lowercase())
    }
}

fn start(options: Options) -> Server {
    Server::start(Options { listen: LOCAL.parse().ok(), ..options }, Fake::default()).unwrap()
}

fn reading() -> Tokens {
    Tokens { read: Some(crate::token::Token::new("0123456789abcdef")), ..Tokens::default() }
}

/// Sends bytes as they are and reads until the server closes.
pub(super) fn raw(server: &Server, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may close while we still send: what counts is what it says.
    let _ = stream.write_all(bytes);
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn ask(server: &Server, method: &str, target: &str, headers: &str) -> Answer {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n");
    raw(server, head.as_bytes())
}

fn get(server: &Server, target: &str) -> Answer {
    ask(server, "GET", target, "")
}

/// Asks until `good`, at most half a minute: tests do not depend on speed.
pub(super) fn until(mut good: impl FnMut() -> bool) {
    for _ in 0..600 {
        if good() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("never came true");
}

#[test]
fn every_table_is_served_and_agrees_with_the_whole() {
    let server = start(Options::default());
    let whole = get(&server, "/v1/snapshot").json();
    for table in crate::table::ALL {
        let answer = get(&server, table.path);
        assert_eq!(answer.status, 200, "{}", table.path);
        assert!(answer.has("content-type: application/json") && answer.has("nosniff"), "{}", answer.head);
        let rows = answer.json()[table.name].as_array().unwrap().len();
        assert_eq!(rows, whole[table.name].as_array().unwrap().len());
    }
    let index = get(&server, "/v1").json();
    assert_eq!(index["tables"].as_array().unwrap().len(), crate::table::ALL.len());
    for target in index["other"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()) {
        let target = if target == "/v1/events" { "/v1/events?follow=false" } else { target };
        assert_ne!(get(&server, target).status, 404, "{target}");
    }
    let one = get(&server, "/v1/queues?port=p%221%5C").json();
    assert!(one["queues"].as_array().unwrap().iter().all(|row| row["port"] == "p\"1\\"));
    assert_eq!(get(&server, "/v1/openapi.json").json(), crate::openapi::json(true));
    for page in ["/", "/page.js", "/page.css"] {
        let answer = get(&server, page);
        assert!(answer.status == 200 && answer.has("content-security-policy: default-src 'self'"), "{page}");
    }
    let head = ask(&server, "HEAD", "/v1/ports", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[test]
fn the_snapshot_goes_on_and_health_is_told() {
    let server = start(Options::default());
    let received = || get(&server, "/v1/switch").json()["switch"][0]["received"].as_u64().unwrap();
    let first = received();
    until(|| received() > first);
    until(|| get(&server, "/readyz").status == 200);
    let ready = get(&server, "/readyz?verbose");
    assert!(ready.body.contains("[+] workers: 2 publish") && ready.body.ends_with("ok\n"), "{}", ready.body);
    assert_eq!((get(&server, "/healthz").status, get(&server, "/readyz").body.as_str()), (200, "ok\n"));
}

/// Forwards, but its workers stand still and one has lost count.
struct Stuck;

impl Source for Stuck {
    fn info(&self) -> crate::snapshot::SwitchInfo {
        crate::fake::info()
    }

    fn read(&mut self) -> crate::snapshot::Reading {
        let mut reading = crate::fake::reading(1);
        reading.loops[0].received += 1;
        reading.phase = crate::snapshot::Phase::Drain;
        reading
    }
}

#[test]
fn not_ready_comes_with_reasons() {
    let server = Server::start(Options { listen: LOCAL.parse().ok(), ..Options::default() }, Stuck).unwrap();
    let first = get(&server, "/readyz");
    assert_eq!(first.status, 503);
    assert!(first.body.contains("[-] workers: lcore 1, 2 "), "{}", first.body);
    until(|| get(&server, "/readyz").body.contains("has not published"));
    let answer = get(&server, "/readyz");
    assert_eq!(answer.status, 503);
    for reason in [
        "[-] phase: draining",
        "[-] workers: lcore 1, 2 has not",
        "[-] conservation: accounting error: 1 frame",
    ] {
        assert!(answer.body.contains(reason), "{reason}: {}", answer.body);
    }
    assert!(!answer.body.contains("[+]") && answer.body.ends_with("not ok\n"));
}

#[test]
fn metrics_come_in_the_form_asked_for() {
    let server = start(Options::default());
    let plain = get(&server, "/metrics");
    assert!(plain.has("content-type: text/plain; version=0.0.4") && !plain.body.contains("# EOF"));
    let open = ask(&server, "GET", "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(open.has("application/openmetrics-text; version=1.0.0") && open.body.ends_with("# EOF\n"));
    assert!(open.body.contains("weir_http_requests_total{code=\"200\"} 1"), "the first scrape is counted");
}

#[test]
fn faults_are_named_in_the_right_status() {
    let server = start(Options::default());
    let cases = [
        ("GET", "/v2/ports", "", 404, None),
        ("GET", "/v1/queues?port=nowhere", "", 404, Some("port")),
        ("GET", "/v1/queues?colour=red", "", 400, Some("colour")),
        ("GET", "/v1/queues?port=%zz", "", 400, Some("port=%zz")),
        ("GET", "/v1/queues?port=%ff", "", 400, Some("port=%ff")),
        ("GET", "/v1/queues?port=p0&port=p0", "", 400, Some("port")),
        ("GET", "/v1/switch?port=p0", "", 400, Some("port")),
        ("GET", "/v1/events?since=soon", "", 400, Some("since")),
        ("GET", "/v1/events?port=zz&follow=false", "", 404, Some("port")),
        ("GET", "/v1/events?format=xml", "", 400, Some("format")),
        ("GET", "/v1/events?follow=maybe", "", 400, Some("follow")),
        ("POST", "/v1/ports", "Content-Length: 9\r\n", 403, None),
        ("DELETE", "/v1/ports", "", 403, None),
        ("PUT", "/v1/ports", "Content-Length: 99999999999999\r\n", 403, None),
        ("GET", "/v1/ports", "Transfer-Encoding: chunked\r\n", 413, None),
        ("GET", "/v1/ports", "Content-Length: 1\r\n", 413, None),
        ("GET", "/v1/ports", "Content-Length: 50000\r\n", 413, None),
    ];
    for (method, target, headers, status, parameter) in cases {
        let answer = ask(&server, method, target, headers);
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.body);
        assert!(answer.has("content-type: application/problem+json"), "{method} {target}: {}", answer.head);
        let problem = answer.json();
        assert_eq!(problem["status"], status);
        assert_eq!(problem["instance"], target.split('?').next().unwrap());
        assert_eq!(problem["parameter"].as_str(), parameter, "{target}");
    }
    // Malformed JSON in a body changes nothing: there is nothing that would read it.
    assert_eq!(ask(&server, "GET", "/v1/ports", "Content-Length: 0\r\n").status, 200);
    let body =
        b"POST /v1/ports HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 5\r\n\r\n{]{]{";
    assert_eq!(raw(&server, body).status, 403);
}

#[test]
fn what_is_not_http_or_too_long_is_refused() {
    let server = start(Options::default());
    assert_eq!(raw(&server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").status, 400);
    let many: String = (0..100).map(|i| format!("X-{i}: 1\r\n")).collect();
    assert_eq!(ask(&server, "GET", "/v1", &many).status, 431);
    let long = format!("X-Long: {}\r\n", "a".repeat(40_000));
    assert_eq!(ask(&server, "GET", "/v1", &long).status, 431);
    assert!([414, 431].contains(&get(&server, &format!("/{}", "a".repeat(70_000))).status));
    until(|| get(&server, "/metrics").body.contains("weir_http_malformed_requests_total 4"));
}

#[test]
fn a_host_that_is_not_ours_is_misdirected() {
    let server = start(Options::default());
    for (first, host, status) in [
        ("/v1/ports HTTP/1.1", "Host: localhost:1", 200),
        ("/v1/ports HTTP/1.1", "Host: evil.example", 421),
        ("/v1/ports HTTP/1.1", "Host: 10.0.0.1", 421),
        ("/v1/ports HTTP/1.1", "Host: localhost\r\nHost: localhost", 400),
        ("/v1/ports HTTP/1.1", "X: y", 400),
        ("http://evil.example/v1/ports HTTP/1.1", "Host: localhost", 400),
        // Whoever looks whether a server is there often speaks HTTP/1.0, which needs no Host.
        ("/v1/ports HTTP/1.0", "X: y", 200),
        ("/v1/ports HTTP/1.0", "Host: evil.example", 421),
        ("http://evil.example/v1/ports HTTP/1.0", "X: y", 421),
    ] {
        let head = format!("GET {first}\r\n{host}\r\nConnection: close\r\n\r\n");
        assert_eq!(raw(&server, head.as_bytes()).status, status, "{first} {host}");
    }
}

#[test]
fn a_token_is_asked_for_over_tcp_only() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("w.sock");
    let server = start(Options { socket: Some(socket.clone()), tokens: reading(), ..Options::default() });
    let wrong = r#"www-authenticate: Bearer error="invalid_token""#;
    for (given, wanted) in [
        ("", "www-authenticate: Bearer"),
        ("Authorization: Bearer 0123456789abcdeX\r\n", wrong),
        ("Authorization: Basic 0123456789abcdef\r\n", "www-authenticate: Bearer"),
        ("Authorization: Bearer\r\n", "www-authenticate: Bearer"),
    ] {
        let answer = ask(&server, "GET", "/v1/ports", given);
        assert_eq!((answer.status, answer.has(&format!("{wanted}\r\n"))), (401, true), "{given}");
    }
    assert_eq!(get(&server, "/metrics").status, 401);
    assert_eq!(get(&server, "/readyz").status, 401);
    assert_eq!(ask(&server, "GET", "/v1/ports", "Authorization: bearer 0123456789abcdef\r\n").status, 200);
    assert_eq!((get(&server, "/").status, get(&server, "/healthz").status), (200, 200), "no data in these");
    assert!(client::get(&socket, "/v1/ports").is_ok(), "the socket belongs to the operator");
}

/// Prometheus asks `leaf1:9470`, and has the token; a page that was rebound to us has none.
#[test]
fn a_token_makes_up_for_a_name() {
    let server = start(Options { tokens: reading(), ..Options::default() });
    let named = |target: &str, more: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: leaf1:9470\r\nConnection: close\r\n{more}\r\n");
        raw(&server, head.as_bytes()).status
    };
    assert_eq!(named("/metrics", "Authorization: Bearer 0123456789abcdef\r\n"), 200);
    assert_eq!(named("/metrics", "Authorization: Bearer 0123456789abcdeX\r\n"), 421);
    assert_eq!(named("/metrics", ""), 421);
    assert_eq!(named("/", ""), 200, "there is no data in the page");
    let open = start(Options::default());
    let head = b"GET / HTTP/1.1\r\nHost: leaf1:9470\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(&open, head).status, 421);
}

#[test]
fn a_folder_others_can_write_to_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    assert!(is_private(dir.path()));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(!is_private(&link), "it leads wherever its owner likes");
    let socket = dir.path().join("w.sock");
    let _server = start(Options { socket: Some(socket), ..Options::default() });
    let find = || client::find(&[dir.path().to_owned()], Some("w"));
    assert!(find().is_ok());
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(!is_private(dir.path()) && find().is_err());
}

/// As `/run/weir` of a unit with `User=`: root may look into it, since nobody but root can have put it there.
#[test]
fn a_folder_root_has_given_to_somebody_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let given = dir.path().join("weir");
    std::fs::create_dir(&given).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o755);
    mode(&given, 0o700);
    if std::os::unix::fs::chown(&given, Some(65534), None).is_err() {
        eprintln!("skipped: only root can give a folder away");
        return;
    }
    assert!(is_private(&given));
    mode(dir.path(), 0o1777);
    assert!(!is_private(&given), "anybody may have made it, as in /tmp");
}

#[test]
fn nobody_else_is_served_without_a_token() {
    let options = Options { listen: "0.0.0.0:0".parse().ok(), ..Options::default() };
    assert!(matches!(Server::start(options, Fake::default()), Err(StartError::Exposed(_))));
}

#[test]
fn a_taken_port_is_an_error_unless_any_will_do() {
    let first = start(Options::default());
    let options = |any_port| Options { listen: first.address(), any_port, ..Options::default() };
    assert!(matches!(Server::start(options(false), Fake::default()), Err(StartError::Tcp(..))));
    let second = Server::start(options(true), Fake::default()).unwrap();
    assert_ne!(second.address(), first.address());
}

#[test]
fn the_socket_is_private_replaced_when_dead_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/leaf1.sock");
    let options = || Options { socket: Some(path.clone()), ..Options::default() };
    let first = Server::start(options(), Fake::default()).unwrap();
    assert_eq!(first.socket(), Some(path.as_path()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let second = Server::start(options(), Fake::default()).unwrap();
    let folder = path.parent().unwrap();
    assert_ne!(second.socket(), Some(path.as_path()), "the first lives: the second has a name of its own");
    assert!(client::find(&[folder.to_owned()], None).is_err_and(|e| e.to_string().contains("--socket")));
    let named = |name| client::find(&[folder.to_owned()], Some(name));
    let several = named("leaf1").unwrap_err().to_string();
    let later = format!("leaf1-{}", std::process::id());
    // What it says works.
    assert!(
        several.ends_with(&format!(": say one of --name {later}, --socket {}", path.display())),
        "{several}"
    );
    assert_eq!(named(&later).unwrap(), second.socket().unwrap());
    drop(first);
    assert!(!path.exists());
    assert_eq!(
        named("leaf1").unwrap(),
        second.socket().unwrap(),
        "with a number in its name it is `leaf1` still"
    );
    let unknown = named("leaf").unwrap_err().to_string();
    assert!(unknown.contains("no switch called `leaf`") && unknown.ends_with("--name leaf1"), "{unknown}");
    assert_eq!(client::find(&[folder.to_owned()], None).unwrap(), second.socket().unwrap());
    drop(second);
    assert!(
        client::find(&[folder.to_owned()], None)
            .is_err_and(|e| e.to_string().contains("no switch runs here"))
    );
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a socket nobody answers on");
    let third = Server::start(options(), Fake::default()).unwrap();
    assert!(client::get(third.socket().unwrap(), "/healthz").is_ok());
}

#[test]
fn what_is_no_socket_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("leaf1.key"), dir.path().join("link"));
    std::fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link] {
        let options = Options { socket: Some(path.clone()), ..Options::default() };
        let refused = Server::start(options, Fake::default()).unwrap_err().to_string();
        assert!(refused.contains("is not a socket") && refused.contains("[mgmt] socket"), "{refused}");
    }
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "precious");
}

#[test]
fn a_folder_that_takes_no_socket_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (path, told) in [
        (file.join("w.sock"), format!("its folder {} takes no files: ", file.display())),
        (file.join("sub/w.sock"), format!("its folder {}/sub cannot be made: ", file.display())),
        // No user makes files there.
        ("/proc/w.sock".into(), "its folder /proc takes no files: ".to_owned()),
    ] {
        let options = Options { socket: Some(path), ..Options::default() };
        let refused = Server::start(options, Fake::default()).unwrap_err().to_string();
        assert!(refused.contains(&told), "{refused}");
    }
}

#[test]
fn a_client_learns_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(Options { socket: Some(dir.path().join("w.sock")), ..Options::default() });
    let error = client::get(server.socket().unwrap(), "/v1/queues?port=x").err().map(|e| e.to_string());
    assert!(error.as_ref().is_some_and(|e| e.contains("404") && e.contains("name one of p0")), "{error:?}");
    let target = format!("/v1/queues?port={}", client::encode("p\"1\\"));
    assert!(client::get(server.socket().unwrap(), &target).is_ok());
}

/// What is said before a request is read is said as all other errors are.
fn is_a_problem(answer: &Answer) {
    let said = answer.json();
    assert!(answer.has("application/problem+json") && said["status"] == answer.status, "{said}");
    assert!(said["faults"][0]["remedy"].as_str().is_some_and(|text| !text.is_empty()), "{said}");
}

#[test]
fn a_slow_client_is_sent_away() {
    let server = start(Options { patience: Some(Duration::from_millis(300)), ..Options::default() });
    let half = raw(&server, b"GET /v1/ports HTTP/1.1\r\nHost: local");
    assert_eq!(half.status, 408);
    is_a_problem(&half);
    assert_eq!(raw(&server, b"").status, 0, "silence is not a request");
    // Byte by byte does not buy time.
    let mut drip = TcpStream::connect(server.address().unwrap()).unwrap();
    let mut sent = 0;
    while sent < 400 && drip.write_all(b"G").is_ok() {
        sent += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(sent < 400, "still connected after {sent} bytes");
    until(|| get(&server, "/metrics").body.contains("weir_http_slow_connections_total 2"));
}

#[test]
fn a_client_that_does_not_read_is_sent_away() {
    let server = start(Options { patience: Some(Duration::from_millis(300)), ..Options::default() });
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = b"GET /v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // Answers fill the buffers between us until the server can write no more.
    while stream.write_all(request).is_ok() {}
    until(|| get(&server, "/metrics").body.contains("weir_http_slow_connections_total 1"));
}

#[test]
fn a_crowd_leaves_the_operator_a_place() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(Options { socket: Some(dir.path().join("w.sock")), ..Options::default() });
    let crowd: Vec<_> = (0..64).map(|_| TcpStream::connect(server.address().unwrap()).unwrap()).collect();
    let own = || client::get(server.socket().unwrap(), "/metrics").unwrap();
    until(|| raw(&server, b"").status == 503);
    is_a_problem(&raw(&server, b""));
    assert!(!own().contains("weir_http_refused_connections_total 0"));
    drop(crowd);
    until(|| get(&server, "/healthz").status == 200);
}

#[test]
fn a_flood_of_bad_requests_changes_nothing_but_counters() {
    let server = start(Options::default());
    let config = |server: &Server| {
        let mut document = get(server, "/v1/snapshot").json();
        let ports: Vec<_> =
            document["ports"].as_array_mut().unwrap().iter().map(|p| p["port"].clone()).collect();
        (ports, document["buffer"][1]["size_bytes"].clone())
    };
    let before = config(&server);
    let mut rng = weir_dataplane::rng::Rng::new(1);
    let seeds: [&[u8]; 6] = [
        b"GET /v1/ports?port=p0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"POST /v1/fdb HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{}{",
        b"GET /v1/events?follow=false&since=1 HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ];
    for n in 0..300usize {
        let mut bytes = seeds[n % seeds.len()].to_vec();
        for _ in 0..n % 7 {
            let at = rng.next_u64() as usize % bytes.len();
            bytes[at] = rng.next_u64() as u8;
        }
        let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 5"), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(config(&server), before);
    until(|| get(&server, "/readyz").status == 200);
    let counted = get(&server, "/metrics").body;
    assert!(
        counted.contains("weir_http_requests_total{code=\"403\"}") || counted.contains("code=\"404\""),
        "{counted}"
    );
}

/// A queue that fills at the third look.
struct Burst(u64);

impl Source for Burst {
    fn info(&self) -> crate::snapshot::SwitchInfo {
        crate::fake::info()
    }

    fn read(&mut self) -> crate::snapshot::Reading {
        self.0 += 1;
        let mut reading = crate::fake::reading(1);
        if self.0 >= 3 {
            reading.ports[0].gauges.queue_bytes[3] = 70_000;
            reading.ports[0].gauges.queue_peak[3] = 70_000;
        }
        reading
    }
}

#[test]
fn events_come_as_they_happen_and_can_be_resumed() {
    let server =
        Server::start(Options { listen: LOCAL.parse().ok(), ..Options::default() }, Burst(0)).unwrap();
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok).skip_while(|line| !line.is_empty());
    assert_eq!(lines.by_ref().find(|line| line.starts_with("id:")).as_deref(), Some("id: 1"));
    let data = lines.next().unwrap();
    let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(
        (&event["event"], &event["phase"], &event["port"]),
        (&"burst".into(), &"start".into(), &"p0".into())
    );
    let kept = get(&server, "/v1/events?follow=false&format=ndjson");
    assert!(kept.has("application/x-ndjson") && kept.body.contains("\"burst\""), "{}", kept.body);
    // Of a port at which something has happened, and of one at which nothing has.
    for (port, some) in [("p0", true), ("p%221%5C", false)] {
        let body = get(&server, &format!("/v1/events?follow=false&format=ndjson&port={port}")).body;
        let events: Vec<&str> = body.lines().filter(|line| line.starts_with('{')).collect();
        let there = |event: &&str| event.contains("\"port\":\"p0\"");
        assert!(events.iter().all(there) && events.is_empty() != some, "{port}: {body}");
    }
    let resumed = ask(&server, "GET", "/v1/events?follow=false", "Last-Event-ID: 1\r\n");
    assert!(!resumed.body.contains("id: 1\n"), "{}", resumed.body);
    // A number from before a restart: all that is kept is new.
    assert!(get(&server, "/v1/events?follow=false&since=999").body.contains("id: 1\n"));
}

#[test]
fn streams_are_limited_and_places_come_back() {
    let server = start(Options::default());
    let open = || {
        let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut status = String::new();
        BufReader::new(&stream).read_line(&mut status).unwrap();
        (stream, status)
    };
    let streams: Vec<_> = (0..16).map(|_| open()).collect();
    assert!(streams.iter().all(|(_, status)| status.contains("200")));
    assert!(open().1.contains("503"));
    drop(streams);
    until(|| open().1.contains("200"));
}

/// Whoever is refused a stream does not keep the connection, and those over TCP do not take the places of the local socket.
#[test]
fn those_who_listen_for_ever_leave_room_for_those_who_ask() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(Options { socket: Some(dir.path().join("w.sock")), ..Options::default() });
    let watch = b"POST /v1/watch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let events = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let readers: Vec<_> = (0..80)
        .map(|n| {
            let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
            // Nothing of the answer is read, and nothing is closed.
            let _ = stream.write_all(if n % 5 == 0 { &watch[..] } else { events });
            stream
        })
        .collect();
    until(|| get(&server, "/metrics").body.contains("weir_http_requests_total{code=\"503\"}"));
    for _ in 0..20 {
        assert_eq!(get(&server, "/metrics").status, 200);
    }
    let mut own = client::open(server.socket().unwrap(), "/v1/events").unwrap();
    let mut line = String::new();
    own.read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    drop(readers);
}

/// Sum of the frames of a distribution, from its foot.
fn total(hgrm: &str) -> u64 {
    let number = hgrm.split("Total count    =").nth(1).and_then(|rest| rest.split(']').next());
    number.and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("{hgrm}"))
}

#[test]
fn the_parts_of_latency_are_told_in_every_form() {
    let server = start(Options::default());
    until(|| get(&server, "/v1/latency.hlog").body.contains("Tag=p0-prio3"));
    // Of the frames of the source every tenth of 50 us was held by a pause for 20 us.
    let row = get(&server, "/v1/latency?port=p0").json()["latency"][3].clone();
    let of = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
    assert_eq!((of("paused_frames") * 10, of("pause_ns")), (of("frames"), of("paused_frames") * 20_000));
    assert!((20_000..23_000).contains(&of("pause_max_ns")) && of("pause_p50_ns") == 0);
    assert!((50_000..57_000).contains(&of("queueing_max_ns")), "{row}");
    for (part, longest) in [("residence", 50.0..57.0), ("queueing", 50.0..57.0), ("pause", 20.0..23.0)] {
        let text = get(&server, &format!("/v1/latency.hgrm?part={part}&port=p0&queue=3&window=true")).body;
        let max: f64 =
            text.split("#[Max     =").nth(1).unwrap().split(',').next().unwrap().trim().parse().unwrap();
        assert!(longest.contains(&max) && total(&text) > 0, "{part}: {text}");
        let log = get(&server, &format!("/v1/latency.hlog?part={part}&cumulative=true"));
        assert!(log.status == 200 && log.body.contains(&format!("#[{part} in leaf1")), "{}", log.body);
    }
    let parts = get(&server, "/v1/history").json()["latency"].as_array().unwrap().clone();
    let names: Vec<_> = parts.iter().map(|l| l["part"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["residence", "queueing", "pause"]);
    let metrics = get(&server, "/metrics").body;
    for family in ["residence", "queueing", "pause"] {
        assert!(
            metrics.contains(&format!("weir_{family}_seconds_count{{port=\"p0\",priority=\"3\"}} ")),
            "{family}"
        );
    }
    let wrong = get(&server, "/v1/latency.hgrm?part=waiting");
    assert_eq!((wrong.status, wrong.json()["parameter"].clone()), (400, serde_json::json!("part")));
}

#[test]
fn long_answers_say_how_long_they_are_and_come_whole() {
    let server = start(Options::default());
    for target in ["/v1/snapshot", "/v1/history", "/metrics", "/v1/latency.hlog"] {
        let answer = get(&server, target);
        assert!(answer.has(&format!("content-length: {}", answer.body.len())), "{target}: {}", answer.head);
    }
}

//! Roles, names and TLS, over real sockets; and requests that are broken in every way.

use super::orders_tests::in_force;
use super::tests::{raw, until};
use crate::access::{Role, TokenFiles, Tokens};
use crate::admin::{self, Done, Order, Orders, Refusal, Shown};
use crate::api::endpoints;
use crate::fake::Fake;
use crate::server::{Options, Server, StartError, TlsFiles};
use crate::token::Token;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto::ring};
use serde_json::json;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

const TOKENS: [(Role, &str); 3] = [
    (Role::Read, "reader-reader-reader"),
    (Role::Operate, "operate-operate-operate"),
    (Role::Admin, "admin-admin-admin-admin"),
];

fn tokens() -> Tokens {
    let [read, operate, admin] = TOKENS.map(|(_, text)| Some(Token::new(text)));
    Tokens { read, operate, admin }
}

/// A server with a desk; `answers` says what becomes of each order.
fn start(options: Options, answers: impl Fn(&Order) + Send + 'static) -> Server {
    let (desk, orders) = admin::desk(Shown::new(in_force()));
    std::thread::spawn(move || answer_all(&orders, &answers));
    let options = Options { listen: "127.0.0.1:0".parse().ok(), desk: Some(desk), ..options };
    Server::start(options, Fake::default()).unwrap()
}

/// Until the server is gone: its end of the desk is what keeps this thread busy.
fn answer_all(orders: &Orders, answers: &dyn Fn(&Order)) {
    for _ in 0..2_000 {
        let Some(call) = orders.next(Duration::from_millis(20)) else { continue };
        answers(&call.order);
        let answer = match &call.order {
            Order::Watch(_) | Order::Fdb(_) => Err(Refusal::new(503, "nobody looks")),
            _ => Ok(Done::said(&json!({}))),
        };
        call.answer(answer);
    }
}

fn request(method: &str, target: &str, token: &str, kind: &str, body: &str) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if !token.is_empty() {
        head += &format!("Authorization: Bearer {token}\r\n");
    }
    if method != "GET" {
        head += &format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    }
    format!("{head}\r\n{body}").into_bytes()
}

#[test]
fn every_endpoint_is_open_to_its_role_and_those_above() {
    let server = start(Options { tokens: tokens(), ..Options::default() }, |_| ());
    let nobody = [(Role::Anybody, "")];
    for endpoint in endpoints() {
        // A stream that goes on says who it lets in as any other.
        let target = match endpoint.path {
            "/v1/events" => "/v1/events?follow=false",
            "/v1/inc/jobs/{id}" => "/v1/inc/jobs/7",
            path => path,
        };
        for (role, token) in nobody.iter().chain(&TOKENS) {
            let kind = endpoint.body.map_or("text/plain", |body| body.media);
            let answer = raw(&server, &request(endpoint.method, target, token, kind, ""));
            let refused = [401, 403].contains(&answer.status);
            let scheme = answer.head.to_lowercase().contains("\r\nwww-authenticate: bearer\r\n");
            assert_eq!(scheme, answer.status == 401, "{} {target}: {}", endpoint.method, answer.head);
            assert_eq!(
                refused,
                *role < endpoint.role,
                "{} {target} as {role:?}: {}",
                endpoint.method,
                answer.status
            );
            for (_, secret) in TOKENS {
                assert!(!answer.head.contains(secret) && !answer.body.contains(secret), "{target}: {secret}");
            }
        }
    }
}

#[test]
fn a_refusal_names_the_key_of_the_role_that_is_needed() {
    let server = start(Options { tokens: tokens(), ..Options::default() }, |_| ());
    let [(_, read), (_, operate), _] = TOKENS;
    let told = |server: &Server, method: &str, target: &str, token: &str| {
        let answer = raw(server, &request(method, target, token, "application/json", ""));
        (answer.status, answer.body)
    };
    for (method, target, token, status, words) in [
        ("GET", "/v1/ports", "", 401, "mgmt.token_file"),
        ("POST", "/v1/watch", "", 401, "mgmt.operate_token_file"),
        ("POST", "/v1/watch", read, 403, "for `read`: present that of mgmt.operate_token_file"),
        ("POST", "/v1/config/confirm", operate, 403, "for `operate`: present that of mgmt.admin_token_file"),
    ] {
        let (got, body) = told(&server, method, target, token);
        assert!(got == status && body.contains(words), "{method} {target}: {got} {body}");
    }
    let open = start(Options::default(), |_| ());
    let (status, body) = told(&open, "POST", "/v1/watch", "");
    assert!(status == 403 && body.contains("or set mgmt.operate_token_file"), "{status} {body}");
}

/// Nobody learns from an order that is not his to give what it would have to look like.
#[test]
fn rights_are_looked_at_before_what_comes_with_a_request() {
    let server = start(Options { tokens: tokens(), ..Options::default() }, |_| ());
    let [(_, read), (_, operate), _] = TOKENS;
    let long = format!("Content-Length: {}", 1 << 30);
    for (method, target, token, status) in [
        ("POST", "/v1/watch", "", 401),
        ("POST", "/v1/inc/jobs", "nobody-nobody-nobody", 401),
        ("POST", "/v1/watch", read, 403),
        ("POST", "/v1/config", operate, 403),
        ("GET", "/v1/ports", "", 401),
    ] {
        for length in ["", "Transfer-Encoding: chunked", "Content-Length: many", &long] {
            let head = format!(
                "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{length}"
            );
            let head = format!("{}\r\nConnection: close\r\n\r\n", head.trim_end());
            let answer = raw(&server, head.as_bytes());
            // What is no length at all is no request.
            let want = if length.ends_with("many") { 400 } else { status };
            assert_eq!(answer.status, want, "{method} {target} {length}: {}", answer.body);
        }
    }
    let head = |length| {
        format!(
            "POST /v1/watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {operate}\r\n{length}\r\n"
        )
    };
    assert_eq!(raw(&server, head("").as_bytes()).status, 411);
    assert_eq!(raw(&server, head("Transfer-Encoding: chunked\r\n").as_bytes()).status, 411);
    assert_eq!(raw(&server, head("Content-Length: 9999999\r\n").as_bytes()).status, 413);
}

#[test]
fn names_that_are_listed_need_no_token() {
    let server = start(Options { hosts: vec!["leaf1.example".into()], ..Options::default() }, |_| ());
    let named = |host: &str| {
        let head = format!("GET /v1/ports HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        raw(&server, head.as_bytes()).status
    };
    assert_eq!((named("leaf1.example:9470"), named("Leaf1.Example")), (200, 200));
    assert_eq!((named("leaf1"), named("leaf1.example.evil.example")), (421, 421));
}

/// Whoever speaks HTTP/1.0 names nobody, and may do what a token lets it.
#[test]
fn without_a_host_the_token_decides() {
    let server = start(Options { tokens: tokens(), ..Options::default() }, |_| ());
    let status = |token: &str| {
        let head = format!("GET /v1/ports HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n");
        raw(&server, head.as_bytes()).status
    };
    assert_eq!((status(TOKENS[0].1), status("somebody")), (200, 401));
}

fn shipped(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls")).join(name)
}

/// A folder with a certificate and a key, as a program that renews them writes them.
struct Renewed(tempfile::TempDir, SystemTime);

impl Renewed {
    fn new() -> (Self, TlsFiles) {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles { cert: folder.path().join("crt"), key: folder.path().join("key") };
        let mut renewed = Self(folder, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        for kind in ["crt", "key"] {
            renewed.put("first", kind);
        }
        (renewed, files)
    }

    /// Each file is newer than the one before, whatever the clock of the file system can tell apart.
    fn put(&mut self, name: &str, kind: &str) {
        let path = self.0.path().join(kind);
        std::fs::copy(shipped(&format!("{name}.{kind}")), &path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        self.1 += Duration::from_secs(1);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(self.1).unwrap();
    }
}

/// What a client is answered that trusts this certificate alone; `Err`: another one was presented.
fn over_tls(server: &Server, trusted: &str, request: &[u8]) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(shipped(&format!("{trusted}.crt"))).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client =
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut tcp = TcpStream::connect(server.address().unwrap())?;
    tcp.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = rustls::Stream::new(&mut client, &mut tcp);
    stream.write_all(request)?;
    let mut text = Vec::new();
    // The server closes when it has said all; that it does not say goodbye loses nothing that has a length.
    match stream.read_to_end(&mut text) {
        Err(error) if text.is_empty() => Err(error),
        _ => Ok(String::from_utf8_lossy(&text).into_owned()),
    }
}

#[test]
fn with_a_certificate_tcp_speaks_tls_alone_and_presents_the_newest() {
    let (mut renewed, files) = Renewed::new();
    let options = Options { tls: Some(files), tokens: tokens(), ..Options::default() };
    let server = start(options, |_| ());
    let ports = request("GET", "/v1/ports", TOKENS[0].1, "", "");
    assert_eq!(server.url().unwrap(), format!("https://{}", server.address().unwrap()));
    let good = |name: &str| over_tls(&server, name, &ports).is_ok_and(|text| text.contains("200 OK"));
    assert!(good("first") && !good("second"));
    let stranger = over_tls(&server, "first", &request("GET", "/v1/ports", "", "", "")).unwrap();
    assert!(stranger.contains("401 Unauthorized"), "{stranger}");
    let clear = raw(&server, &ports);
    assert!(clear.status == 0 && !clear.head.contains("HTTP"), "{}", clear.head);
    // In the middle of a renewal the files do not fit each other.
    renewed.put("second", "crt");
    assert!(good("first"));
    renewed.put("second", "key");
    assert!(good("second") && !good("first"));
}

/// What is not TLS reads like a wrong version of it: who finds no place is told nothing.
#[test]
fn a_full_server_with_tls_says_nothing_in_the_clear() {
    let (_renewed, files) = Renewed::new();
    let server = start(Options { tls: Some(files), tokens: tokens(), ..Options::default() }, |_| ());
    let crowd: Vec<_> = (0..64).map(|_| TcpStream::connect(server.address().unwrap()).unwrap()).collect();
    let mut next = TcpStream::connect(server.address().unwrap()).unwrap();
    next.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut said = Vec::new();
    assert!(next.read_to_end(&mut said).is_ok() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    drop(crowd);
}

#[test]
fn what_is_no_certificate_or_no_key_of_it_is_refused_at_start() {
    let refused = |change: &dyn Fn(&mut Renewed)| {
        let (mut renewed, files) = Renewed::new();
        change(&mut renewed);
        let options = Options { tls: Some(files), ..Options::default() };
        match Server::start(options, Fake::default()) {
            Err(StartError::Tls(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let at = |renewed: &Renewed, kind: &str| renewed.0.path().join(kind);
    let open = Permissions::from_mode(0o644);
    let told = refused(&|r| std::fs::set_permissions(at(r, "key"), open.clone()).unwrap());
    assert!(told.contains("others may read it"), "{told}");
    let told = refused(&|r| r.put("second", "key"));
    assert!(told.contains("/crt: not a certificate of the key"), "{told}");
    let told = refused(&|r| r.put("version1", "crt"));
    assert!(told.contains("/crt: not X.509 version 3") && told.contains("subjectAltName"), "{told}");
    let told = refused(&|r| std::fs::write(at(r, "crt"), "nothing").unwrap());
    assert!(told.contains("there is no certificate in it"), "{told}");
    let told = refused(&|r| std::fs::write(at(r, "key"), "nothing").unwrap());
    assert!(told.contains("no private key in PEM") && !told.contains("nothing"), "{told}");
    let told = refused(&|r| std::fs::remove_file(at(r, "crt")).unwrap());
    assert!(told.contains("/crt: "), "{told}");
    for kind in ["crt", "key"] {
        let told = refused(&|r| {
            std::fs::remove_file(at(r, kind)).unwrap();
            // Nobody ever writes to it.
            assert!(std::process::Command::new("mkfifo").arg(at(r, kind)).status().unwrap().success());
        });
        assert!(told.contains(&format!("/{kind}: it is not a regular file")), "{told}");
    }
}

/// Over the socket, too, where an operator looks: clients have been turned away by then.
#[test]
fn what_is_wrong_with_a_certificate_is_told_while_the_switch_runs() {
    let (mut renewed, files) = Renewed::new();
    renewed.put("expired", "crt");
    let server = start(Options { tls: Some(files), ..Options::default() }, |_| ());
    let faults = || server.latest().get().faults();
    until(|| faults() == ["the TLS certificate expired at 2020-02-01T00:00:00Z"]);
    assert_eq!(server.latest().get().credentials.validity.unwrap().not_after, 1_580_515_200);
    renewed.put("second", "crt");
    until(|| {
        faults().iter().any(|fault| fault.contains("mgmt.tls_cert: what was written last is not used: "))
    });
    assert!(faults()[0].contains("expired"), "that is still presented");
    renewed.put("second", "key");
    until(|| faults().is_empty());
}

#[test]
fn a_token_is_renewed_while_the_switch_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("read");
    let put = |token: &str| {
        let new = folder.path().join("new");
        std::fs::write(&new, token).unwrap();
        std::fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&new, &path).unwrap();
    };
    put("reader-of-old-0123");
    let token_files = TokenFiles { read: Some(path.clone()), ..TokenFiles::default() };
    let server = start(Options { tokens: token_files.read().0, token_files, ..Options::default() }, |_| ());
    let status = |token: &str| raw(&server, &request("GET", "/v1/ports", token, "", "")).status;
    assert_eq!((status("reader-of-old-0123"), status("reader-of-new-0123")), (200, 401));
    put("reader-of-new-0123");
    assert_eq!((status("reader-of-old-0123"), status("reader-of-new-0123")), (401, 200));
    put("short");
    assert_eq!(status("reader-of-new-0123"), 200);
    until(|| server.latest().get().faults().iter().any(|fault| fault.starts_with("mgmt.token_file: ")));
}

/// Cuts, repeats and changes of bytes.
fn broken(whole: &[u8], changes: &[(u8, u16, u8)]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for (what, at, byte) in changes {
        let at = usize::from(*at) % (bytes.len() + 1);
        match what % 5 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, *byte),
            2 if at < bytes.len() => bytes[at] ^= byte,
            3 => drop(bytes.drain(at..(at + usize::from(*byte)).min(bytes.len()))),
            _ => bytes.extend_from_within(at..),
        }
    }
    bytes
}

/// Whatever is made of requests of those who may only read: nothing is done for them that changes something, and the server
/// goes on answering.
#[test]
fn fuzz_broken_requests_change_nothing() {
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let changes = move |order: &Order| {
        if !matches!(order, Order::Fdb(_)) {
            counted.fetch_add(1, SeqCst);
        }
    };
    let patience = Some(Duration::from_millis(300));
    let server = start(Options { tokens: tokens(), patience, ..Options::default() }, changes);
    let reader = TOKENS[0].1;
    let whole = [
        request("GET", "/v1/ports?port=p0", reader, "", ""),
        request("GET", "/v1/latency.hgrm?part=pause&queue=3&window=true", reader, "", ""),
        request("GET", "/v1/history?after=5&since=7", reader, "", ""),
        request("GET", "/v1/explain?port=p0&len=1024&dscp=26", reader, "", ""),
        request("GET", "/v1/fdb?limit=7&vlan=3", reader, "", ""),
        request("GET", "/metrics", reader, "", ""),
        request("POST", "/v1/config?confirm=1500", reader, "application/toml", "[buffer]\nsize = \"1MiB\"\n"),
        request("POST", "/v1/config/rollback", reader, "", ""),
        request("POST", "/v1/watch", "", "application/json", "{\"port\": \"p0\"}"),
    ];
    let address = server.address().unwrap();
    type Changes = (u8, Vec<(u8, u16, u8)>);
    bolero::check!().with_iterations(400).with_type::<Changes>().for_each(|(which, changes)| {
        let bytes = broken(&whole[usize::from(*which) % whole.len()], changes);
        let answer = raw_and_close(address, &bytes);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
    });
    assert_eq!(done.load(SeqCst), 0);
    assert_eq!(raw(&server, &request("GET", "/healthz", "", "", "")).status, 200);
    assert_eq!(raw(&server, &request("GET", "/v1/ports", reader, "", "")).status, 200);
}

/// As [`raw`], for requests whose end nobody knows: the server is told that no more comes.
fn raw_and_close(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Bodies of any kind from somebody who may do all: each is answered, and arrives as it was sent or not at all.
#[test]
fn fuzz_bodies_of_orders_are_answered_and_arrive_as_they_were_sent() {
    let arrived: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&arrived);
    let note = move |order: &Order| {
        if let Order::Apply { text, .. } = order {
            told.lock().unwrap().push(text.clone());
        }
    };
    let server = start(Options { tokens: tokens(), ..Options::default() }, note);
    let admin = TOKENS[2].1;
    let toml = "[[port]]\nname = \"p0\"\ndevice = \"ring\"\n[buffer]\nsize = \"1MiB\"\n";
    let json = "{\"port\": \"p0\", \"count\": 3, \"milliseconds\": 10, \"dst\": \"02:00:00:00:00:01\", \"drops\": false}";
    let address = server.address().unwrap();
    type Changes = (bool, Vec<(u8, u16, u8)>);
    bolero::check!().with_iterations(150).with_type::<Changes>().for_each(|(is_watch, changes)| {
        let (path, kind, whole) = match is_watch {
            true => ("/v1/watch", "application/json", json),
            false => ("/v1/config?dry_run=true", "application/toml", toml),
        };
        let body = broken(whole.as_bytes(), changes);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {admin}\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = raw_and_close(address, &[head.as_bytes(), &body].concat());
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        assert!([200, 400, 404, 413, 422, 503].contains(&status), "{answer}: {}", String::from_utf8_lossy(&body));
        if !is_watch && status == 200 {
            assert_eq!(arrived.lock().unwrap().last().map(String::as_bytes), Some(&body[..]));
        }
    });
}

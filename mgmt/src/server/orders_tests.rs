//! Who may give orders over TCP, and what they must look like. Over real sockets.

use crate::access::Tokens;
use crate::admin::fdb::Page;
use crate::admin::{self, Done, InForce, Order, Refusal, Shown};
use crate::fake::Fake;
use crate::server::{Options, Server};
use crate::snapshot::{Marking, News, Reading, Source, SwitchInfo};
use crate::token::Token;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::fdb::{Fdb, FdbPage};
use weir_dataplane::types::{Mac, PortId};

const READ: &str = "reader-reader-reader";
const OPERATE: &str = "operate-operate-operate";
const ADMIN: &str = "admin-admin-admin";

pub(crate) fn in_force() -> InForce {
    let text = "[[port]]\nname = \"p0\"\ndevice = \"ring\"\n[[port]]\nname = \"p1\"\ndevice = \"ring\"\n\
                [qos]\npreset = \"roce-lossless\"\n";
    let config = weir_config::load("t.toml", text).unwrap().config;
    let device = Device { mac: Mac::from_u64(1), pfc: true, ..Device::default() };
    let params = switch_params(&config, &[device, device], 1).unwrap();
    InForce { source: "t.toml".into(), config, params, unconfirmed: None, unsettled: None }
}

/// A switch whose limits change when somebody says so.
struct Changing(Fake, Arc<Mutex<Vec<News>>>);

impl Source for Changing {
    fn info(&self) -> SwitchInfo {
        self.0.info()
    }

    fn read(&mut self) -> Reading {
        self.0.read()
    }

    fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }
}

/// Once an order is answered everybody is shown what has become of it: no look at what was before.
#[test]
fn what_is_shown_after_an_order_is_what_holds_then() {
    let (desk, orders) = admin::desk(Shown::new(in_force()));
    let tokens = Tokens { admin: Some(Token::new(ADMIN)), ..Tokens::default() };
    let news: Arc<Mutex<Vec<News>>> = Arc::default();
    let source = Changing(Fake::default(), Arc::clone(&news));
    std::thread::spawn(move || {
        for kmin in 1..=20 {
            let Some(call) = orders.next(Duration::from_secs(20)) else { return };
            let mut info = crate::fake::info();
            info.ports[0].marking[3] = Some(Marking { kmin, kmax: 50_000, pmax: 1 });
            news.lock().unwrap().push(News::Info(Box::new(info)));
            call.answer(Ok(Done::said(&json!({}))));
        }
    });
    let listen = "127.0.0.1:0".parse().ok();
    let server =
        Server::start(Options { listen, tokens, desk: Some(desk), ..Options::default() }, source).unwrap();
    for kmin in 1..=20 {
        assert_eq!(apply(&server, &bearer(ADMIN), "x"), 200);
        let (_, ecn) = ask(&server, "GET", "/v1/ecn", "", "");
        assert_eq!(ecn["ecn"][3]["kmin_bytes"], json!(kmin));
    }
}

/// A server whose orders are answered with what they are; every second one is refused.
fn start(token: Option<&str>, admin: Option<&str>) -> Server {
    let (desk, orders) = admin::desk(Shown::new(in_force()));
    std::thread::spawn(move || {
        for _ in 0..1000 {
            let Some(call) = orders.next(Duration::from_millis(20)) else { continue };
            let answer = match &call.order {
                Order::Apply { text, .. } if text.is_empty() => Err(Refusal::new(422, "empty")),
                order => Ok(Done::said(&json!({ "order": format!("{order:?}") }))),
            };
            call.answer(answer);
        }
    });
    let options = Options {
        listen: "127.0.0.1:0".parse().ok(),
        tokens: Tokens {
            read: token.map(Token::new),
            operate: admin.map(|_| Token::new(OPERATE)),
            admin: admin.map(Token::new),
        },
        desk: Some(desk),
        ..Options::default()
    };
    Server::start(options, Fake::default()).unwrap()
}

fn ask(server: &Server, method: &str, target: &str, headers: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(request.as_bytes());
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn apply(server: &Server, headers: &str, body: &str) -> u16 {
    let headers = format!("Content-Type: application/toml\r\n{headers}");
    ask(server, "POST", "/v1/config", &headers, body).0
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn over_tcp_only_the_token_for_orders_gives_orders() {
    let open = start(None, None);
    assert_eq!(apply(&open, "", "x"), 403);
    assert_eq!(apply(&open, &bearer(ADMIN), "x"), 403);
    let both = start(Some(READ), Some(ADMIN));
    assert_eq!(apply(&both, "", "x"), 401);
    assert_eq!(apply(&both, &bearer("wrong-wrong-wrong"), "x"), 401);
    assert_eq!(apply(&both, &bearer(READ), "x"), 403);
    assert_eq!(apply(&both, &bearer(ADMIN), "x"), 200);
    assert_eq!(apply(&both, &bearer(ADMIN), ""), 422);
    // Whoever may give orders may read.
    assert_eq!(ask(&both, "GET", "/v1/config", &bearer(ADMIN), "").0, 200);
    assert_eq!(ask(&both, "GET", "/v1/config", &bearer(READ), "").0, 200);
    assert_eq!(ask(&both, "GET", "/v1/config", "", "").0, 401);
    // Reading needs no token here; orders do.
    let orders = start(None, Some(ADMIN));
    assert_eq!(ask(&orders, "GET", "/v1/config", "", "").0, 200);
    assert_eq!(apply(&orders, "", "x"), 401);
    let other = "Content-Type: application/toml\r\nHost: evil.example\r\n";
    assert_ne!(ask(&orders, "POST", "/v1/config", &format!("{other}{}", bearer(ADMIN)), "x").0, 200);
}

/// Who may is decided before it is known what is asked: a route nobody has thought of is closed.
#[test]
fn whatever_does_more_than_read_needs_the_token_for_orders() {
    let (open, server) = (start(Some(READ), None), start(Some(READ), Some(ADMIN)));
    let document = crate::openapi::json(true);
    let known = document["paths"].as_object().unwrap().keys().map(String::as_str);
    let mut orders = 0;
    for path in known.chain(["/", "/v1/explain", "/v1/watch", "/v1/there/is/no/such/thing"]) {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "MAKEITSO"] {
            let asked = |server: &Server, token: &str| ask(server, method, path, token, "").0;
            assert_eq!(asked(&open, &bearer(READ)), 403, "{method} {path}");
            assert_eq!(asked(&server, ""), 401, "{method} {path}");
            assert_eq!(asked(&server, &bearer(READ)), 403, "{method} {path}");
            assert!(![401, 403].contains(&asked(&server, &bearer(ADMIN))), "{method} {path}");
            orders += 1;
        }
    }
    assert!(orders > 60, "{orders}");
}

#[test]
fn another_method_is_answered_with_those_there_are() {
    let server = start(None, Some(ADMIN));
    let (status, problem) = ask(&server, "PUT", "/v1/inc/jobs", &bearer(ADMIN), "");
    let told = "not this method: /v1/inc/jobs takes GET and POST, /v1/inc/jobs/{id} takes DELETE";
    assert_eq!((status, problem["detail"].as_str()), (405, Some(told)));
}

#[test]
fn an_order_arrives_as_it_was_given() {
    let server = start(None, Some(ADMIN));
    let headers = format!("Content-Type: application/toml; charset=utf-8\r\n{}", bearer(ADMIN));
    let (status, answer) =
        ask(&server, "POST", "/v1/config?name=a%20b&confirm=1500&dry_run=true", &headers, "text");
    let want = Order::Apply {
        name: "a b".into(),
        text: "text".into(),
        confirm: Some(Duration::from_millis(1500)),
        dry_run: true,
    };
    assert_eq!((status, answer["order"].as_str()), (200, Some(format!("{want:?}").as_str())));
    for (path, order) in [("confirm", "Confirm"), ("rollback", "Rollback")] {
        let answer = ask(&server, "POST", &format!("/v1/config/{path}"), &bearer(ADMIN), "");
        assert_eq!((answer.0, answer.1["order"].as_str()), (200, Some(order)));
    }
}

#[test]
fn the_configuration_in_force_is_shown_with_its_origins() {
    let server = start(None, None);
    let (status, document) = ask(&server, "GET", "/v1/config", "", "");
    assert_eq!((status, document["source"].as_str()), (200, Some("t.toml")));
    let row =
        document["values"].as_array().unwrap().iter().find(|row| row["key"] == "qos.control_tc").unwrap();
    assert_eq!(row["origin"], "preset roce-lossless");
}

/// A switch of two workers that have learned 5000 addresses each; a page of the second never comes.
fn start_with_tables() -> Server {
    let (desk, orders) = admin::desk(Shown::new(in_force()));
    std::thread::spawn(move || {
        let table = |worker: u16| {
            let mut fdb = Fdb::new(1 << 14, 16, 5);
            fdb.set_learning(PortId(worker), true, u32::MAX);
            for n in 0..5000 {
                fdb.learn(1 << 60 | 0x0200_0000_0000 | u64::from(worker) << 16 | n, PortId(worker), 0);
            }
            fdb.add_static(1 << 60 | 7 << 48 | 0x0200_00ff_0000, PortId(1)).unwrap();
            fdb
        };
        let tables = [table(0), table(1)];
        for _ in 0..1000 {
            let Some(call) = orders.next(Duration::from_millis(20)) else { continue };
            let answer = match &call.order {
                Order::Fdb(q) if q.filter.vid == Some(4095) => Err(Refusal::new(503, "it does not answer")),
                Order::Fdb(q) => {
                    let mut page = FdbPage::new(1, q.filter, q.next, q.most);
                    while !page.is_full() {
                        tables[q.worker].read(&mut page, 16, 2);
                    }
                    Ok(Done::Fdb(Page { worker: q.worker, workers: 2, page: Box::new(page) }))
                }
                _ => Err(Refusal::new(500, "not asked for")),
            };
            call.answer(answer);
        }
    });
    let options = Options { listen: "127.0.0.1:0".parse().ok(), desk: Some(desk), ..Options::default() };
    Server::start(options, Fake::default()).unwrap()
}

fn pages(server: &Server, query: &str) -> (Vec<Value>, usize) {
    let (mut rows, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let (status, page) = ask(server, "GET", &format!("/v1/fdb?{query}{after}"), "", "");
        assert_eq!(status, 200, "{page}");
        rows.extend(page["fdb"].as_array().unwrap().iter().cloned());
        pages += 1;
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (rows, pages),
        }
    }
}

#[test]
fn the_forwarding_table_is_read_page_by_page_by_whoever_may_read() {
    let server = start_with_tables();
    for (query, at_least) in [("limit=4096", 4), ("", 10), ("limit=500", 20)] {
        let (rows, count) = pages(&server, query);
        let told: std::collections::HashSet<&str> =
            rows.iter().map(|row| row["mac"].as_str().unwrap()).collect();
        assert_eq!((rows.len(), told.len()), (10_001, 10_001), "{query}");
        assert!(
            count >= at_least && told.contains("02:00:00:00:13:87") && told.contains("02:00:00:01:00:00")
        );
    }
    let (one, _) = pages(&server, "mac=02:00:00:01:00:2a");
    assert_eq!(
        (one.len(), &one[0]["port"], &one[0]["lcore"], &one[0]["type"]),
        (1, &json!("p\"1\\"), &json!(2), &json!("dynamic"))
    );
    let (fixed, _) = pages(&server, "vlan=7");
    assert_eq!((fixed.len(), &fixed[0]["type"]), (1, &json!("static")));
    assert_eq!(pages(&server, "port=p0&limit=4096").0.len(), 5000);
    let faults = [
        ("limit=0", 400, "limit"),
        ("after=9-0", 404, "after"),
        ("after=9", 400, "after"),
        ("port=p9", 404, "port"),
        ("colour=red", 400, "colour"),
    ];
    for (query, status, parameter) in faults {
        let (got, body) = ask(&server, "GET", &format!("/v1/fdb?{query}"), "", "");
        assert_eq!((got, &body["parameter"]), (status, &json!(parameter)), "{query}");
    }
    assert_eq!(ask(&server, "GET", "/v1/fdb?vlan=4095", "", "").0, 503);
    assert_eq!(ask(&server, "POST", "/v1/fdb", "", "").0, 403);
}

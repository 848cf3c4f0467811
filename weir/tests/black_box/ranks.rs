//! `weir host` as ranks of a job: an engine of a switch sums for them over shared memory, and they check every sum.

use super::host::{Host, memif, number, passed, port, switch_ports};
use crate::support::program::{Switch, WEIR, weir};
use crate::support::wait_for;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Queue pairs of the engine begin here.
const QPN: u64 = 0x100;

/// PSNs of both ways wrap soon.
const UP: u64 = 0xff_ffe0;
const DOWN: u64 = 0xff_fff0;

/// A switch with an engine and shared memory for so many hosts.
struct Rig {
    switch: Switch,
    folder: TempDir,
}

impl Rig {
    fn new(hosts: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s.sock");
        let config = switch_ports((1..=hosts).map(|n| memif(folder.path(), n, "server")))
            .replace("socket = \"off\"", &format!("socket = {socket:?}"))
            + "[[port]]\nname = \"inc0\"\ndevice = \"inc\"\n\
               inc = { mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\", quota = \"4MiB\" }\n";
        Self { switch: Switch::start(&config), folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn socket(&self) -> String {
        self.path().join("s.sock").to_str().unwrap().to_owned()
    }

    /// A job of hosts 1, 2, ... as ranks 0, 1, ...
    fn add(&self, ranks: u64, operation: &Value, window: u32) {
        let child = |rank: u64| {
            json!({
                "rank": rank, "qpn": QPN + rank, "mac": format!("02:00:00:00:00:0{}", rank + 1),
                "ip": format!("10.0.0.{}", rank + 1), "dest_qpn": 17, "send_psn": DOWN, "recv_psn": UP,
            })
        };
        // Times longer than a busy machine keeps anybody from a core.
        let job = json!({
            "id": 7, "ranks": ranks, "operation": operation, "children": (0..ranks).map(child).collect::<Vec<_>>(),
            "window": window, "ack_timeout_ns": 1_000_000_000u64, "patience_ns": 100_000_000_000u64,
            "probe_after_ns": 1_000_000_000u64,
        });
        let file = self.path().join("job.json");
        std::fs::write(&file, job.to_string()).unwrap();
        let ended = weir(&["inc", "add", file.to_str().unwrap(), "--socket", &self.socket()]);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
    }

    /// Hosts `1 + rank` of these ranks in one process; `sums`: keys of every connection.
    fn hosts(&self, ranks: impl Iterator<Item = u8> + Clone, sums: &str) -> Host {
        let name = format!("rank-{}", ranks.clone().next().unwrap());
        let mut file: String =
            ranks.clone().map(|rank| port(rank + 1, &memif(self.path(), rank + 1, "client"))).collect();
        file += &format!(
            "[qp_defaults]\npeer_ip = \"10.0.0.200\"\nsend_psn = {UP}\nrecv_psn = {DOWN}\nack_timeout = \"1s\"\n\
             retries = 50\nsend = \"allreduce\"\n{sums}"
        );
        for rank in ranks {
            file += &format!(
                "[[qp]]\nport = \"h{}\"\npeer_qpn = {}\ninc.rank = {rank}\n",
                rank + 1,
                QPN + u64::from(rank)
            );
        }
        Host::start(Command::new(WEIR), self.path(), &name, &file)
    }

    /// Rows of a table.
    fn rows(&self, table: &str) -> Vec<Value> {
        let ended = weir(&["show", table, "--json", "--socket", &self.socket()]);
        let shown: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
        shown[table].as_array().unwrap().clone()
    }

    fn wait_for_sums(&self, more_than: u64) {
        wait_for("sums", || (number(&self.rows("inc")[0], "folded") > more_than).then_some(()));
    }
}

fn rank(connection: &Value) -> [u64; 4] {
    ["rank", "received", "corrupted", "unanswered"].map(|key| number(connection, key))
}

#[test]
fn four_ranks_check_every_sum_and_end_with_their_rounds() {
    let rig = Rig::new(4);
    rig.add(4, &json!({ "kind": "all_reduce", "operator": "sum", "type": "f32" }), 256);
    // Messages of several packets, the last of them odd.
    let sums = "message = 5000\nmessages = 300\ninc.tree = [0, 1, 2, 3]\n";
    let (one, other) = (rig.hosts(0..2, sums), rig.hosts(2..4, sums));
    let (one, other) = (one.ended(), other.ended());
    let connections = passed(&one).iter().chain(passed(&other));
    for (nth, connection) in connections.enumerate() {
        assert_eq!(rank(connection), [nth as u64, 300, 0, 0], "{connection:#}");
        assert!(connection["sums_per_second"].as_f64() > Some(0.0) && number(connection, "received_bps") > 0);
    }
    assert!(one.0.stdout.contains("rank 1 (h2 17): 300 sums of sum f32, "), "{}", one.0.stdout);
    assert_eq!(number(&rig.rows("inc")[0], "folded"), 5 * 300);
    rig.switch.stop_after_links_came_up();
}

#[test]
fn ranks_end_with_the_same_round_when_one_is_told_to() {
    let rig = Rig::new(2);
    rig.add(2, &json!({ "kind": "all_reduce", "operator": "max", "type": "i64", "byte_order": "big" }), 16);
    // Further ahead than the engine has room for, which is what RNR NAKs are for.
    let sums = "message = 4096\nwindow = 256\n\
                inc = { tree = [0, 1], operator = \"max\", type = \"i64\", byte_order = \"big\" }\n";
    let one = rig.hosts(0..1, sums);
    wait_for("an RNR NAK", || (number(&rig.rows("inc_ranks")[0], "rnr_sent") > 0).then_some(()));
    let other = rig.hosts(1..2, sums);
    rig.wait_for_sums(400);
    one.program.signal(Signal::SIGINT);
    let (one, other) = (one.ended(), other.ended());
    let [mine, theirs] = [&one, &other].map(|ended| rank(&passed(ended)[0]));
    assert_eq!((mine[0], theirs[0]), (0, 1));
    assert_eq!(mine[1..], theirs[1..], "the same rounds");
    assert!(mine[1] > 100 && mine[2..] == [0, 0], "{mine:?}");
    assert!(number(&one.1["ports"][0], "rx_nak_rnr") > 0, "{:#}", one.1);
    rig.switch.stop_after_links_came_up();
}

#[test]
fn sums_that_are_not_those_are_counted_and_a_failed_job_is_named() {
    let rig = Rig::new(2);
    rig.add(2, &json!({ "kind": "all_reduce", "operator": "sum", "type": "f32" }), 256);
    // They hold sums against products.
    let sums = "message = 1024\nmessages = 20\ninc = { tree = [0, 1], operator = \"prod\" }\n";
    let (one, other) = (rig.hosts(0..1, sums), rig.hosts(1..2, sums));
    for (ended, results, _) in [one.ended(), other.ended()] {
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        assert_eq!(number(&results["connections"][0], "corrupted"), 20);
    }
    assert_eq!(weir(&["inc", "end", "7", "--socket", &rig.socket()]).code(), Some(0));
    wait_for("the job to go", || rig.rows("inc").is_empty().then_some(()));
    rig.add(2, &json!({ "kind": "all_reduce", "operator": "sum", "type": "f32" }), 256);
    let sums = "message = 1024\ninc.tree = [0, 1]\n";
    let (one, other) = (rig.hosts(0..1, sums), rig.hosts(1..2, sums));
    rig.wait_for_sums(20);
    assert_eq!(weir(&["inc", "end", "7", "--socket", &rig.socket()]).code(), Some(0));
    for (ended, results, _) in [one.ended(), other.ended()] {
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        // Whichever came first: the word, or the refusal of what was on its way.
        let findings = results["findings"].to_string();
        assert!(findings.contains("the engine says stopped") || findings.contains("failed"), "{findings}");
        assert_eq!(number(&results["connections"][0], "corrupted"), 0);
    }
    rig.switch.stop_after_links_came_up();
}

//! `weir host` as ranks of a job: an engine of a switch sums for them over shared memory, and they check every sum.

use super::host::{Host, memif, number, passed, port, switch_ports};
use crate::support::program::{Ended, Running, Switch, WEIR, floating, two_cores, weir};
use crate::support::wait_for;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Queue pairs of the engine begin here.
const QPN: usize = 0x100;

/// What lets hosts in at a controller.
const TOKEN: &str = "s3cret\n";

/// PSNs of both ways wrap soon.
const UP: u64 = 0xff_ffe0;
const DOWN: u64 = 0xff_fff0;

/// A switch with engines and shared memory for hosts 1, 2, ...
struct Rig {
    switch: Switch,
    folder: TempDir,
    /// What it was started with.
    config: String,
}

impl Rig {
    /// One engine, and everything on one lcore.
    fn new(hosts: u8) -> Self {
        Self::with(hosts, &floating(), &[String::new()])
    }

    /// An engine for each of these, which are keys of its port and of every other host's.
    fn with(hosts: u8, eal: &str, lcores: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s.sock");
        let mut config = switch_ports([])
            .replace("socket = \"off\"", &format!("socket = {socket:?}"))
            .replace("\"32MiB\"", "\"64MiB\"");
        for (n, lcore) in (1..=hosts).zip(lcores.iter().cycle()) {
            let device = memif(folder.path(), n, "server");
            config += &format!("[[port]]\nname = \"p{n}\"\ndevice = {device:?}\n{lcore}");
        }
        for (n, lcore) in lcores.iter().enumerate() {
            config += &format!(
                "[[port]]\nname = \"inc{n}\"\ndevice = \"inc\"\n{lcore}\
                 inc = {{ mac = \"02:00:00:00:01:0{n}\", ip = \"10.0.0.20{n}\", quota = \"4MiB\" }}\n"
            );
        }
        let config = format!("[eal]\nargs = [{eal:?}]\n{config}");
        Self { switch: Switch::start_as_it_is(&config), folder, config }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn weir(&self, words: &[&str]) -> Ended {
        weir(&[words, &["--socket", self.path().join("s.sock").to_str().unwrap()]].concat())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A file that nobody else may read.
    fn secret(&self, name: &str, text: &str) -> String {
        let path = self.write(name, text);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// A job of these hosts, as ranks 0, 1, ..., at an engine.
    fn add(&self, engine: usize, hosts: &[u8], operation: &Value, window: u32) {
        self.add_with(engine, hosts, operation, window, |_| json!({}));
    }

    /// The same; `more`: further keys of a child.
    fn add_with(
        &self,
        engine: usize,
        hosts: &[u8],
        operation: &Value,
        window: u32,
        more: impl Fn(usize) -> Value,
    ) {
        let child = |(rank, host): (usize, &u8)| {
            let mut child = more(rank);
            let usual = json!({
                "rank": rank, "qpn": QPN + rank, "mac": format!("02:00:00:00:00:0{host}"),
                "ip": format!("10.0.0.{host}"), "dest_qpn": 17, "send_psn": DOWN, "recv_psn": UP,
            });
            child.as_object_mut().unwrap().extend(usual.as_object().unwrap().clone());
            child
        };
        // A busy machine keeps nobody from a core until a rank counts as gone: for the 16 s that sums are sent again, which are
        // 79 times this `ack_timeout`.
        let job = json!({
            "id": 7 + engine, "port": format!("inc{engine}"), "ranks": hosts.len(), "operation": operation,
            "children": hosts.iter().enumerate().map(child).collect::<Vec<_>>(), "window": window,
            "ack_timeout_ns": 200_000_000u64, "patience_ns": 100_000_000_000u64,
            "probe_after_ns": 1_000_000_000u64,
        });
        let ended = self.weir(&["inc", "add", &self.write("job.json", &job.to_string())]);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
    }

    /// Hosts and their ranks at an engine, in one process; `sums`: keys of every connection.
    fn hosts(&self, engine: usize, hosts: &[(u8, usize)], sums: &str) -> Host {
        self.hosts_with(engine, hosts, sums, |_| "")
    }

    /// The same; `more`: further keys of the connection of a rank.
    fn hosts_with<'a>(
        &self,
        engine: usize,
        hosts: &[(u8, usize)],
        sums: &str,
        more: impl Fn(usize) -> &'a str,
    ) -> Host {
        let patience = if sums.contains("retries") { "" } else { "ack_timeout = \"1s\"\nretries = 50\n" };
        let mut file: String =
            hosts.iter().map(|(host, _)| port(*host, &memif(self.path(), *host, "client"))).collect();
        file += &format!(
            "[qp_defaults]\npeer_ip = \"10.0.0.20{engine}\"\nsend_psn = {UP}\nrecv_psn = {DOWN}\n{patience}\
             send = \"allreduce\"\n{sums}"
        );
        for (host, rank) in hosts {
            file += &format!(
                "[[qp]]\nport = \"h{host}\"\npeer_qpn = {}\ninc.rank = {rank}\n{}",
                QPN + rank,
                more(*rank)
            );
        }
        Host::start(Command::new(WEIR), self.path(), &format!("rank-{}", hosts[0].0), &file)
    }

    /// Rows of a table.
    fn rows(&self, table: &str) -> Vec<Value> {
        let ended = self.weir(&["show", table, "--json"]);
        let shown: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
        shown[table].as_array().unwrap().clone()
    }

    /// A controller of this switch and its hosts 1 and 2, and where it listens; `more`: arguments.
    fn controller(&self, listen: &str, more: &[&str]) -> (Running, String) {
        let api = self.path().join("s.sock");
        let mut fabric = format!(
            "[[switch]]\nname = \"weir\"\napi = {api:?}\n\
             engine = {{ port = \"inc0\", mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\" }}\n"
        );
        for host in [1, 2] {
            fabric += &format!("[[host]]\nname = \"h{host}\"\nip = \"10.0.0.{host}\"\nswitch = \"weir\"\n");
        }
        let (fabric, token) = (self.write("fabric.toml", &fabric), self.secret("token", TOKEN));
        let mut command = Command::new(WEIR);
        command.args(["inc", "controller", &fabric, "--listen", listen, "--token-file", &token]).args(more);
        let mut controller = Running::start(&mut command);
        controller.says("switch with engines");
        let said = controller.stdout();
        let said = said.lines().find_map(|line| line.strip_prefix("controller "));
        let address = said.unwrap().split(' ').next().unwrap().trim_end_matches(':').to_owned();
        (controller, address)
    }

    /// A host that meets the others at a controller. Nothing of the numbers in its file is so.
    fn joins(&self, address: &str, (host, index): (u8, usize), job: &str, sums: &str) -> Host {
        let file = format!(
            "{}[[qp]]\nport = \"h{host}\"\npeer_ip = \"10.0.0.9\"\npeer_qpn = 5\nack_timeout = \"1s\"\nretries = 50\n\
             send = \"allreduce\"\n{sums}inc.rank = {index}\ninc.tree = [0, 1]\n",
            port(host, &memif(self.path(), host, "client"))
        );
        let token = self.secret("token", TOKEN);
        let at = ["--controller", address, "--token-file", &token, "--job", job];
        Host::start_with(Command::new(WEIR), &at, self.path(), &format!("rank-{host}"), &file)
    }

    fn wait_for_sums(&self, more_than: u64) {
        wait_for("sums", || {
            self.rows("inc").first().filter(|job| number(job, "folded") > more_than).map(|_| ())
        });
    }
}

fn rank(connection: &Value) -> [u64; 4] {
    ["rank", "received", "corrupted", "unanswered"].map(|key| number(connection, key))
}

#[test]
fn four_ranks_check_every_sum_and_end_with_their_rounds() {
    let rig = Rig::new(4);
    rig.add(0, &[1, 2, 3, 4], &json!({ "kind": "all_reduce", "operator": "sum", "type": "f32" }), 256);
    // Messages of several packets, the last of them odd.
    let sums = "message = 5000\nmessages = 300\ninc.tree = [0, 1, 2, 3]\n";
    let (one, other) = (rig.hosts(0, &[(1, 0), (2, 1)], sums), rig.hosts(0, &[(3, 2), (4, 3)], sums));
    let (one, other) = (one.ended(), other.ended());
    let connections = passed(&one).iter().chain(passed(&other));
    for (nth, connection) in connections.enumerate() {
        assert_eq!(rank(connection), [nth as u64, 300, 0, 0], "{connection:#}");
        assert!(connection["sums_per_second"].as_f64() > Some(0.0) && number(connection, "received_bps") > 0);
    }
    assert!(one.0.stdout.contains("rank 1 (h2 17): 300 sums of sum f32, "), "{}", one.0.stdout);
    assert_eq!(number(&rig.rows("inc")[0], "folded"), 5 * 300);
    rig.switch.stop_after_hosts_came_and_went();
}

#[test]
fn ranks_end_with_the_same_round_when_one_is_told_to() {
    let rig = Rig::new(2);
    rig.add(
        0,
        &[1, 2],
        &json!({ "kind": "all_reduce", "operator": "max", "type": "i64", "byte_order": "big" }),
        16,
    );
    // Further ahead than the engine has room for, which is what RNR NAKs are for.
    let sums = "message = 4096\nwindow = 256\n\
                inc = { tree = [0, 1], operator = \"max\", type = \"i64\", byte_order = \"big\" }\n";
    let one = rig.hosts(0, &[(1, 0)], sums);
    wait_for("an RNR NAK", || (number(&rig.rows("inc_ranks")[0], "rnr_sent") > 0).then_some(()));
    let other = rig.hosts(0, &[(2, 1)], sums);
    rig.wait_for_sums(400);
    one.program.signal(Signal::SIGINT);
    let (one, other) = (one.ended(), other.ended());
    let [mine, theirs] = [&one, &other].map(|ended| rank(&passed(ended)[0]));
    assert_eq!((mine[0], theirs[0]), (0, 1));
    assert_eq!(mine[1..], theirs[1..], "the same rounds");
    assert!(mine[1] > 100 && mine[2..] == [0, 0], "{mine:?}");
    assert!(number(&one.1["ports"][0], "rx_nak_rnr") > 0, "{:#}", one.1);
    rig.switch.stop_after_hosts_came_and_went();
}

#[test]
fn sums_that_are_not_those_are_counted_and_a_failed_job_is_named() {
    let rig = Rig::new(2);
    rig.add(0, &[1, 2], &json!({ "kind": "all_reduce", "operator": "sum", "type": "f32" }), 256);
    // They hold sums against products.
    let sums = "message = 1024\nmessages = 20\ninc = { tree = [0, 1], operator = \"prod\" }\n";
    let (one, other) = (rig.hosts(0, &[(1, 0)], sums), rig.hosts(0, &[(2, 1)], sums));
    for (ended, results, _) in [one.ended(), other.ended()] {
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        assert_eq!(number(&results["connections"][0], "corrupted"), 20);
    }
    assert_eq!(rig.weir(&["inc", "end", "7"]).code(), Some(0));
    wait_for("the job to go", || rig.rows("inc").is_empty().then_some(()));
    rig.add(0, &[1, 2], &sum_f32(), 256);
    let sums = "message = 1024\ninc.tree = [0, 1]\n";
    let (one, other) = (rig.hosts(0, &[(1, 0)], sums), rig.hosts(0, &[(2, 1)], sums));
    rig.wait_for_sums(20);
    assert_eq!(rig.weir(&["inc", "end", "7"]).code(), Some(0));
    for (ended, results, _) in [one.ended(), other.ended()] {
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        // Whichever came first: the word, or the refusal of what was on its way.
        let findings = results["findings"].to_string();
        assert!(findings.contains("the engine says stopped") || findings.contains("failed"), "{findings}");
        assert_eq!(number(&results["connections"][0], "corrupted"), 0);
    }
    rig.switch.stop_after_hosts_came_and_went();
}

/// AllReduce, sums of f32.
fn sum_f32() -> Value {
    json!({ "kind": "all_reduce", "operator": "sum", "type": "f32" })
}

/// What a host says it failed for, and what it says of it.
fn failed((ended, results, _): &(Ended, Value, String)) -> (String, String) {
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(
        results["connections"].as_array().unwrap().iter().map(|c| number(c, "corrupted")).max(),
        Some(0)
    );
    for remedy in results["remedies"].as_array().unwrap() {
        assert!(
            ended.stdout.contains(&format!("   = help: {}", remedy.as_str().unwrap())),
            "{}",
            ended.stdout
        );
    }
    (results["findings"].to_string(), results["remedies"][0].as_str().unwrap_or_default().to_owned())
}

#[test]
fn ranks_write_and_have_sums_written_beside_others_that_send() {
    let rig = Rig::new(4);
    let write = json!({ "addr": 1 << 20, "rkey": 9, "bytes": 5000 });
    // Five packets for each of sixteen messages.
    let results = |key: u32| json!({ "addr": 0x7000_0000u32, "rkey": key, "bytes": 16 * 5 * 1024 });
    rig.add_with(0, &[1, 2, 3, 4], &sum_f32(), 256, |rank| match rank {
        0 => json!({}),
        1 => json!({ "write": write }),
        2 => json!({ "results_to": results(1) }),
        _ => json!({ "write": write, "results_to": results(8) }),
    });
    let sums = "message = 5000\nmessages = 300\ninc.tree = [0, 1, 2, 3]\n";
    let way = |rank| match rank {
        0 => "",
        1 => "inc.write = true\nremote_address = 0x100000\nremote_key = 9\n",
        2 => "inc.write_results = true\nmemory_address = 0x70000000\n",
        _ => {
            "inc.write = true\nremote_address = 0x100000\nremote_key = 9\n\
             inc.write_results = true\nmemory_address = 0x70000000\nmemory_key = 8\n"
        }
    };
    let one = rig.hosts_with(0, &[(1, 0), (2, 1)], sums, way);
    let other = rig.hosts_with(0, &[(3, 2), (4, 3)], sums, way);
    let (one, other) = (one.ended(), other.ended());
    for (nth, connection) in passed(&one).iter().chain(passed(&other)).enumerate() {
        assert_eq!(rank(connection), [nth as u64, 300, 0, 0], "{connection:#}");
    }
    assert_eq!(number(&rig.rows("inc")[0], "folded"), 5 * 300);
    rig.switch.stop_after_hosts_came_and_went();
}

#[test]
fn a_rank_and_a_job_that_disagree_about_writes_say_what_to_change() {
    let rig = Rig::new(2);
    let sums = "message = 3000\nmessages = 40\ninc.tree = [0, 1]\n";
    // The first rank fails; the job is made anew for the next try.
    let fails = |child: Value, keys: &str| {
        rig.add_with(0, &[1, 2], &sum_f32(), 256, |rank| if rank == 0 { child.clone() } else { json!({}) });
        let host = rig.hosts_with(0, &[(1, 0), (2, 1)], sums, |rank| if rank == 0 { keys } else { "" });
        let ended = host.ended();
        let drops: Vec<Value> =
            rig.rows("inc_drops").into_iter().filter(|row| number(row, "packets") > 0).collect();
        assert!(drops.iter().all(|row| row["reason"] != "out_of_sequence"), "nothing was lost: {drops:?}");
        assert_eq!(rig.weir(&["inc", "end", "7"]).code(), Some(0));
        // The other rank does not wait for ever for the sums of who has left: it is told, or refused.
        let findings = ended.1["findings"].to_string();
        assert!(
            ["because of rank 0", "connection h2 17 failed"].iter().any(|end| findings.contains(end)),
            "{findings}"
        );
        failed(&ended)
    };
    let memory = |bytes: u32| json!({ "addr": 4096, "rkey": 9, "bytes": bytes });
    let (found, remedy) = fails(json!({}), "inc.write = true\n");
    assert!(found.contains("RemoteInvalidRequest") || found.contains("protocol"), "{found}");
    assert!(remedy.contains("no `write` for rank 0"), "{remedy}");
    // Another memory, and one that a message does not fit into.
    for (bytes, key) in [(3000, 8), (2999, 9)] {
        let keys = format!("inc.write = true\nremote_address = 4096\nremote_key = {key}\n");
        let (found, remedy) = fails(json!({ "write": memory(bytes) }), &keys);
        assert!(found.contains("RemoteAccess") || found.contains("protocol"), "{found}");
        assert!(remedy.contains("is another memory") && remedy.contains("weir inc add"), "{remedy}");
    }
    let (found, remedy) =
        fails(json!({ "results_to": { "addr": 1u64 << 40, "rkey": 1, "bytes": 1 << 20 } }), "");
    assert!(found.contains("a sum was written that was to be sent"), "{found}");
    assert!(remedy.contains("set inc.write_results = true"), "{remedy}");
    let (_, remedy) = fails(json!({ "results_to": memory(1 << 20) }), "inc.write_results = true\n");
    assert!(remedy.contains("are written elsewhere"), "{remedy}");
    let (found, remedy) = fails(json!({}), "inc.write_results = true\n");
    assert!(found.contains("a sum was sent that was to be written"), "{found}");
    // What it says is what helps.
    let (from, to) = (remedy.find('{').unwrap(), remedy.find('}').unwrap());
    let memory: Value = serde_json::from_str(&remedy[from..=to]).unwrap();
    assert!(remedy.contains("add \"results_to\": "), "{remedy}");
    rig.add_with(0, &[1, 2], &sum_f32(), 256, |rank| match rank {
        0 => json!({ "results_to": memory }),
        _ => json!({}),
    });
    let keys = |rank| if rank == 0 { "inc.write_results = true\n" } else { "" };
    let ended = rig.hosts_with(0, &[(1, 0), (2, 1)], sums, keys).ended();
    assert_eq!(passed(&ended).iter().map(rank).collect::<Vec<_>>(), [[0, 40, 0, 0], [1, 40, 0, 0]]);
    assert_eq!(ended.1["remedies"], json!([]));
    rig.switch.stop_after_hosts_came_and_went();
}

#[test]
fn a_second_run_of_the_ranks_of_a_job_says_that_the_job_is_made_anew() {
    let rig = Rig::new(2);
    rig.add(0, &[1, 2], &sum_f32(), 256);
    let sums = "message = 4096\nmessages = 200\ninc.tree = [0, 1]\nack_timeout = \"50ms\"\nretries = 9\n";
    passed(&rig.hosts(0, &[(1, 0), (2, 1)], sums).ended());
    let (found, remedy) = failed(&rig.hosts(0, &[(1, 0), (2, 1)], sums).ended());
    assert!(found.contains("failed: Request(RetryExceeded)"), "{found}");
    assert!(remedy.contains("`weir inc end ID` and `weir inc add FILE`"), "{remedy}");
    let drops = rig.rows("inc_drops");
    assert!(drops.iter().any(|row| row["reason"] == "duplicate" && number(row, "packets") > 0), "{drops:?}");
    assert_eq!(rig.weir(&["inc", "end", "7"]).code(), Some(0));
    // Its ranks are gone and do not hear of it: the new one waits until the old one has given up.
    rig.add(0, &[1, 2], &sum_f32(), 256);
    passed(&rig.hosts(0, &[(1, 0), (2, 1)], sums).ended());
    rig.switch.stop_after_hosts_came_and_went();
}

#[test]
fn ranks_meet_at_a_controller_and_hear_from_it_that_their_switch_is_gone() {
    let mut rig = Rig::new(2);
    let (_controller, address) = rig.controller("127.0.0.1:0", &[]);
    let token = rig.secret("token", TOKEN);
    // One that waits for another who never comes can be ended.
    let alone = format!(
        "[eal]\nargs = [\"--no-huge\", \"--no-pci\", {:?}, \"--file-prefix=weir-alone-{}\"]\n{}[[qp]]\nport = \"h1\"\n\
         peer_ip = \"10.0.0.9\"\npeer_qpn = 5\nsend = \"allreduce\"\ninc = {{ rank = 0, tree = [0, 1] }}\n",
        floating(),
        std::process::id(),
        port(1, "net_ring0")
    );
    let alone = rig.write("alone.toml", &alone);
    let ended = weir(&[
        "host",
        &alone,
        "--for",
        "1s",
        "--controller",
        &address,
        "--token-file",
        &token,
        "--job",
        "alone",
    ]);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stdout.contains("waiting for the other ranks of job `alone`"), "{ended:?}");
    let start = |who: (u8, usize), job: &str, sums: &str| rig.joins(&address, who, job, sums);
    // One sends and is sent to, one writes and is written to, where the controller says and is told.
    let sums = "message = 5000\nmessages = 100\n";
    let writes = "message = 5000\nmessages = 100\ninc.write = true\ninc.write_results = true\n";
    for [of_one, of_other] in [[sums, sums], [sums, writes], [writes, writes]] {
        let (one, other) = (start((2, 0), "counted", of_one), start((1, 1), "counted", of_other));
        for (nth, ended) in [one.ended(), other.ended()].iter().enumerate() {
            assert_eq!(rank(&passed(ended)[0]), [nth as u64, 100, 0, 0], "{:#}", ended.1);
        }
        wait_for("the job to go", || rig.rows("inc").is_empty().then_some(()));
    }
    // Longer than the memory of an engine, which is a window.
    let long = "message = 300000\nmessages = 100\ninc.write = true\n";
    for host in [start((2, 0), "long", long), start((1, 1), "long", long)] {
        let ended = host.program.ended();
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains("the memory of the engine has 262144: use shorter ones"), "{ended:?}");
    }
    wait_for("the job to go", || rig.rows("inc").is_empty().then_some(()));
    let (one, other) =
        (start((1, 0), "endless", "message = 5000\n"), start((2, 1), "endless", "message = 5000\n"));
    rig.wait_for_sums(10);
    rig.switch.program().signal(Signal::SIGKILL);
    for (ended, results, _) in [one.ended(), other.ended()] {
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        let findings = results["findings"].to_string();
        assert!(findings.contains("the controller says: switch `weir` does not answer"), "{findings}");
    }
}

#[test]
fn a_controller_that_was_started_anew_has_its_ranks_back() {
    let rig = Rig::new(2);
    let state = rig.write("state.json", "");
    std::fs::remove_file(&state).unwrap();
    let more = ["--state", &state];
    let (controller, address) = rig.controller("127.0.0.1:0", &more);
    // The number of a host at the controller is its index, not its rank.
    let [mut one, other] = [(2, 0), (1, 1)].map(|who| rig.joins(&address, who, "train", "message = 5000\n"));
    rig.wait_for_sums(10);
    controller.stop(Signal::SIGKILL);
    one.program.says("the connection has ended");
    let (mut controller, _) = rig.controller(&address, &more);
    controller.says("host 0 (`h2`) is back");
    controller.says("host 1 (`h1`) is back");
    one.program.says("has us again");
    let folded = number(&rig.rows("inc")[0], "folded");
    rig.wait_for_sums(folded + 100);
    one.program.signal(Signal::SIGINT);
    let [mine, theirs] = [one.ended(), other.ended()].map(|ended| rank(&passed(&ended)[0]));
    assert_eq!(mine[1..], theirs[1..], "the same rounds");
    controller.says("all hosts have left");
    assert!(!controller.stdout().contains("failed"), "{}", controller.stdout());
    wait_for("the job to go", || rig.rows("inc").is_empty().then_some(()));
    // One that knows nothing of the job says so.
    let (controller, address) = rig.controller("127.0.0.1:0", &[]);
    let hosts = [(1, 0), (2, 1)].map(|who| rig.joins(&address, who, "lost", "message = 5000\n"));
    rig.wait_for_sums(10);
    controller.stop(Signal::SIGKILL);
    let _controller = rig.controller(&address, &[]);
    // Who hears of it first ends, and the other one with the same round, whether it has heard of it or not.
    let mut heard = 0;
    for (ended, results, _) in hosts.map(Host::ended) {
        let findings = results["findings"].to_string();
        match ended.code() {
            Some(1) => assert!(findings.contains("has ended"), "{findings}"),
            _ => assert_eq!((ended.code(), findings.as_str()), (Some(0), "[]"), "{ended:?}"),
        }
        heard += i32::from(ended.code() == Some(1));
    }
    assert!(heard > 0);
    rig.switch.stop_after_hosts_came_and_went();
}

#[test]
fn engines_on_two_lcores_sum_for_hosts_of_both() {
    let Some([one, other]) = two_cores() else {
        eprintln!("skipped: one core is not enough for two workers");
        return;
    };
    let lcores = [one, other].map(|core| format!("lcore = {core}\n"));
    let rig = Rig::with(4, &format!("--lcores=0@{one},1@{one},2@{other}"), &lcores);
    // Hosts 1 and 3 are on the lcore of the first engine, 2 and 4 on that of the second; each job has one of either.
    let sum = json!({ "kind": "all_reduce", "operator": "sum", "type": "bf16" });
    rig.add(0, &[1, 2], &sum, 256);
    rig.add(1, &[3, 4], &sum, 256);
    let sums = "message = 5000\nmessages = 200\ninc = { tree = [0, 1], type = \"bf16\" }\n";
    let (one, other) = (rig.hosts(0, &[(1, 0), (2, 1)], sums), rig.hosts(1, &[(3, 0), (4, 1)], sums));
    for ended in [one.ended(), other.ended()] {
        for (nth, connection) in passed(&ended).iter().enumerate() {
            assert_eq!(rank(connection), [nth as u64, 200, 0, 0], "{connection:#}");
        }
    }
    let folded: Vec<_> = rig.rows("inc").iter().map(|job| number(job, "folded")).collect();
    assert_eq!(folded, [1000, 1000]);
    rig.switch.stop_after_hosts_came_and_went();
}

#[test]
fn sums_go_on_while_the_configuration_changes() {
    let rig = Rig::new(2);
    rig.add(0, &[1, 2], &json!({ "kind": "all_reduce", "operator": "sum", "type": "f32" }), 256);
    let sums = "message = 5000\ninc.tree = [0, 1]\n";
    let (one, other) = (rig.hosts(0, &[(1, 0)], sums), rig.hosts(0, &[(2, 1)], sums));
    rig.wait_for_sums(100);
    for (rate, xoff) in [("200M", "5MiB"), ("50M", "6MiB"), ("1G", "4MiB")] {
        let next = rig
            .config
            .replacen("rate = 100000000", &format!("rate = {rate:?}"), 1)
            .replace("xoff = \"6MiB\"", &format!("xoff = {xoff:?}"));
        let ended = rig.weir(&["apply", &rig.write("next.toml", &next)]);
        assert!(ended.code() == Some(0) && ended.stdout.contains("applied: "), "{ended:?}");
        let folded = number(&rig.rows("inc")[0], "folded");
        rig.wait_for_sums(folded + 200);
    }
    one.program.signal(Signal::SIGINT);
    let (one, other) = (one.ended(), other.ended());
    let [mine, theirs] = [&one, &other].map(|ended| rank(&passed(ended)[0]));
    assert_eq!(mine[1..], theirs[1..]);
    assert!(mine[1] > 100 && mine[2..] == [0, 0], "{mine:?}");
    assert_eq!(rig.switch.stop_after_links_came_up().total("lossless_drops"), 0);
}

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
        let child = |(rank, host): (usize, &u8)| {
            json!({
                "rank": rank, "qpn": QPN + rank, "mac": format!("02:00:00:00:00:0{host}"),
                "ip": format!("10.0.0.{host}"), "dest_qpn": 17, "send_psn": DOWN, "recv_psn": UP,
            })
        };
        // Times longer than a busy machine keeps anybody from a core.
        let job = json!({
            "id": 7 + engine, "port": format!("inc{engine}"), "ranks": hosts.len(), "operation": operation,
            "children": hosts.iter().enumerate().map(child).collect::<Vec<_>>(), "window": window,
            "ack_timeout_ns": 1_000_000_000u64, "patience_ns": 100_000_000_000u64,
            "probe_after_ns": 1_000_000_000u64,
        });
        let ended = self.weir(&["inc", "add", &self.write("job.json", &job.to_string())]);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
    }

    /// Hosts and their ranks at an engine, in one process; `sums`: keys of every connection.
    fn hosts(&self, engine: usize, hosts: &[(u8, usize)], sums: &str) -> Host {
        let mut file: String =
            hosts.iter().map(|(host, _)| port(*host, &memif(self.path(), *host, "client"))).collect();
        file += &format!(
            "[qp_defaults]\npeer_ip = \"10.0.0.20{engine}\"\nsend_psn = {UP}\nrecv_psn = {DOWN}\nack_timeout = \"1s\"\n\
             retries = 50\nsend = \"allreduce\"\n{sums}"
        );
        for (host, rank) in hosts {
            file += &format!("[[qp]]\nport = \"h{host}\"\npeer_qpn = {}\ninc.rank = {rank}\n", QPN + rank);
        }
        Host::start(Command::new(WEIR), self.path(), &format!("rank-{}", hosts[0].0), &file)
    }

    /// Rows of a table.
    fn rows(&self, table: &str) -> Vec<Value> {
        let ended = self.weir(&["show", table, "--json"]);
        let shown: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
        shown[table].as_array().unwrap().clone()
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
    rig.switch.stop_after_links_came_up();
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
    rig.switch.stop_after_links_came_up();
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
    rig.add(0, &[1, 2], &json!({ "kind": "all_reduce", "operator": "sum", "type": "f32" }), 256);
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
    rig.switch.stop_after_links_came_up();
}

#[test]
fn ranks_meet_at_a_controller_and_hear_from_it_that_their_switch_is_gone() {
    let mut rig = Rig::new(2);
    let api = rig.path().join("s.sock");
    let mut fabric = format!(
        "[[switch]]\nname = \"weir\"\napi = {api:?}\n\
         engine = {{ port = \"inc0\", mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\" }}\n"
    );
    for host in [1, 2] {
        fabric += &format!("[[host]]\nname = \"h{host}\"\nip = \"10.0.0.{host}\"\nswitch = \"weir\"\n");
    }
    let (fabric, token) = (rig.write("fabric.toml", &fabric), rig.secret("token", "s3cret\n"));
    let mut command = Command::new(WEIR);
    command.args(["inc", "controller", &fabric, "--listen", "127.0.0.1:0", "--token-file", &token]);
    let mut controller = Running::start(&mut command);
    controller.says("switches with engines");
    let said = controller.stdout();
    let address = said.split(' ').nth(1).unwrap().trim_end_matches(':').to_owned();
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
    // Nothing of the numbers in the file is so.
    let start = |(host, index): (u8, usize), job: &str, sums: &str| {
        let file = format!(
            "{}[[qp]]\nport = \"h{host}\"\npeer_ip = \"10.0.0.9\"\npeer_qpn = 5\nack_timeout = \"1s\"\nretries = 50\n\
             send = \"allreduce\"\n{sums}inc = {{ rank = {index}, tree = [0, 1] }}\n",
            port(host, &memif(rig.path(), host, "client"))
        );
        let at = ["--controller", &address, "--token-file", &token, "--job", job];
        Host::start_with(Command::new(WEIR), &at, rig.path(), &format!("rank-{host}"), &file)
    };
    let sums = "message = 5000\nmessages = 100\n";
    let (one, other) = (start((2, 0), "counted", sums), start((1, 1), "counted", sums));
    for (nth, ended) in [one.ended(), other.ended()].iter().enumerate() {
        assert_eq!(rank(&passed(ended)[0]), [nth as u64, 100, 0, 0], "{:#}", ended.1);
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
    rig.switch.stop_after_links_came_up();
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

//! In-network aggregation through a running switch: ranks on veth pairs sum by an engine that is a port, jobs come over the command
//! line, and other traffic passes meanwhile.

#[path = "../../../inc/tests/support/rank.rs"]
#[allow(dead_code, reason = "the tests of the engine need more of it")]
mod rank;

use crate::support::namespace::Namespace;
use crate::support::program::{Ended, Running, Switch, WEIR, floating, two_cores, weir};
use crate::support::wire::Socket;
use crate::support::{PATIENCE, need, wait_for};
use rank::{Message, Rank};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_dataplane::types::Mac;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::hca::FIRST_QPN;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::{Bth, Extensions, Opcode, Packet, Qpn};
use weir_endpoint::station::roce::arp::Arp;
use weir_inc::immediate::{Failure, Immediate};

const ENGINE: (Mac, Ipv4Addr) = (Mac([2, 0, 0, 0, 1, 0]), Ipv4Addr::new(10, 0, 0, 200));

/// Queue pairs of the engine begin here.
const QPN: u32 = 0x100;

/// Sums of a run.
const MESSAGES: u64 = 200;

/// Frames of each kind that a third host sends meanwhile, and how many of them at once.
const OTHERS: usize = 320;
const BATCH: usize = 20;

/// Longer than a busy machine keeps anybody from a core; the least a queue pair has before it gives up is seven of these, ns.
const ACK_TIMEOUT: u64 = 1_000_000_000;

fn host(n: u8) -> (Mac, IpAddr) {
    (Mac([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n).into())
}

/// A switch with three hosts `h0` to `h2` and an engine, and where it is spoken to.
struct Rig {
    ns: Namespace,
    switch: Switch,
    folder: TempDir,
}

impl Rig {
    /// `lcores`: the EAL's, and those of `p0` and `p1`; `p2` and the engine are on the last.
    fn new(eal: &str, lcores: [Option<usize>; 2]) -> Result<Self, String> {
        let ns = Namespace::new()?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("s.sock");
        let mut config = format!(
            "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"16MiB\"\nframes = 16384\n\
             [mgmt]\nlisten = \"off\"\nsocket = {socket:?}\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n"
        );
        let lcore = |at: usize| lcores[at].map(|core| format!("lcore = {core}\n")).unwrap_or_default();
        for i in 0..3 {
            ns.veth(&format!("w{i}"), &format!("h{i}"), 1518)?;
            let device = format!("net_af_packet{i},iface=w{i}");
            config += &format!("[[port]]\nname = \"p{i}\"\ndevice = {device:?}\n{}", lcore(i.min(1)));
        }
        config += &format!(
            "[[port]]\nname = \"inc0\"\ndevice = \"inc\"\n{}inc = {{ mac = \"{}\", ip = \"{}\", quota = \"1MiB\" }}\n",
            lcore(1),
            ENGINE.0,
            ENGINE.1
        );
        let switch = Switch::start_with(&ns, eal, &config);
        Ok(Self { ns, switch, folder })
    }

    fn weir(&self, words: &[&str]) -> Ended {
        let socket = self.folder.path().join("s.sock");
        weir(&[words, &["--socket", socket.to_str().unwrap()]].concat())
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("job.json");
        std::fs::write(&path, text).expect("room on disk");
        path
    }

    /// `weir inc add`
    fn add(&self, job: &Value) -> Ended {
        self.weir(&["inc", "add", self.file(&job.to_string()).to_str().unwrap()])
    }

    /// `weir trace` of the next frame that arrives at a port, once it has begun.
    fn trace(&self, port: &str) -> Running {
        let socket = self.folder.path().join("s.sock");
        let mut command = Command::new(WEIR);
        command.args(["trace", "--json", "--port", port, "--count", "1", "--for", "100s", "--socket"]);
        let mut trace = Running::start(command.arg(socket));
        trace.says("armed");
        trace
    }

    /// Rows of a table.
    fn rows(&self, table: &str) -> Vec<Value> {
        let ended = self.weir(&["show", table, "--json"]);
        let document: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
        document[table].as_array().expect("rows").clone()
    }
}

/// A switch whose engine has 2 MiB.
const CHECKED: &str = r#"
[port_defaults]
rate = "1G"
mtu = 1518
[[port]]
name = "p0"
device = "ring"
[[port]]
name = "inc0"
device = "inc"
inc = { mac = "02:00:00:00:01:00", ip = "10.0.0.200", memory = "2MiB", quota = "1MiB" }
"#;

/// A job of two ranks: AllReduce, sums of little-endian i32.
fn job() -> Value {
    let child = |rank: u8| {
        let (mac, ip) = host(rank);
        json!({
            "rank": rank, "qpn": QPN + u32::from(rank), "mac": mac.to_string(), "ip": ip.to_string(),
            "dest_qpn": FIRST_QPN, "send_psn": 0xff_fff0u32, "recv_psn": 0xff_fff8u32,
        })
    };
    json!({
        "id": 7, "ranks": 2, "operation": { "kind": "all_reduce", "operator": "sum", "type": "i32" },
        "children": [child(0), child(1)], "window": 32, "results": 64,
        "ack_timeout_ns": ACK_TIMEOUT, "patience_ns": 100 * ACK_TIMEOUT, "probe_after_ns": ACK_TIMEOUT,
    })
}

/// A rank behind its socket; `others`: frames from the third host.
struct Seat {
    socket: Socket,
    rank: Rank,
    others: usize,
}

/// Element `i` of message `n` of a rank.
fn element(rank: u8, n: u64, i: i32) -> i32 {
    i32::from(rank) * 1_000_000 + n as i32 * 1000 + i
}

fn message(value: impl Fn(i32) -> i32) -> Vec<u8> {
    (0..256).flat_map(|i| value(i).to_le_bytes()).collect()
}

impl Seat {
    fn new(ns: &Namespace, rank: u8) -> Self {
        let (send_psn, recv_psn) = (Psn::new(0xff_fff8), Psn::new(0xff_fff0));
        let engine = (ENGINE.0, ENGINE.1.into());
        let path = Path { send_psn, recv_psn, ..Path::new(host(rank), engine, Qpn(QPN + u32::from(rank))) };
        let mut host = Rank::with_timeout(rank.into(), 1024, path, ACK_TIMEOUT);
        host.play(move |n| (n < MESSAGES).then(|| Message::data(message(|i| element(rank, n, i)))));
        host.check = Box::new(|n, bytes, _| {
            assert!(bytes == message(|i| element(0, n, i) + element(1, n, i)), "sum {n}");
            false
        });
        Self { socket: Socket::open(ns, &format!("h{rank}")), rank: host, others: 0 }
    }

    /// Takes what has come, sends what is due.
    fn turn(&mut self, now: u64) {
        let mut buffer = [0; 2048];
        while let Some(frame) = self.socket.receive(&mut buffer) {
            match frame[6..12] == host(2).0.0 {
                // Its question for the engine came, too.
                true => self.others += usize::from(Arp::read(frame).is_none()),
                false => self.rank.receive(frame, now),
            }
        }
        let mut out = Vec::new();
        self.rank.run(now, &mut out);
        out.iter().for_each(|frame| self.socket.send(frame));
    }
}

/// Moves the ranks until that is so.
fn move_until(seats: &mut [Seat; 2], start: Instant, what: &str, is_so: impl Fn(&[Seat; 2]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so(seats) {
        let now = start.elapsed().as_nanos() as u64;
        seats.iter_mut().for_each(|seat| seat.turn(now));
        assert!(Instant::now() < deadline, "{what}: {:?} {:?}", seats[0].rank, seats[1].rank);
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A frame of the third host in RoCE's class, or in none.
fn other(to: (Mac, IpAddr), qpn: u32, lossless: bool) -> Vec<u8> {
    let mut path = Path::new(host(2), to, Qpn(qpn));
    if !lossless {
        path.data.dscp = 0;
    }
    let bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn(qpn), Psn::new(0));
    let packet = Packet { bth, ext: Extensions::default(), payload: &[7; 512] };
    let mut bytes = Vec::new();
    Frame { outer: path.outer(path.data, 1).unwrap(), packet }.emit(&mut bytes);
    bytes
}

/// Two ranks sum through the switch while a third host sends to both of them.
fn ranks_sum(rig: Rig) {
    let added = rig.add(&job());
    assert_eq!(added.code(), Some(0), "{added:?}");
    assert!(added.stdout.contains("job 7 on inc0: "), "{}", added.stdout);
    let mut seats = [0, 1].map(|rank| Seat::new(&rig.ns, rank));
    let third = Socket::open(&rig.ns, "h2");
    let start = Instant::now();
    // It finds the engine by ARP. Hosts are known once they have sent.
    let mut frame = Vec::new();
    let IpAddr::V4(own) = host(2).1 else { unreachable!() };
    Arp { reply: false, vlan: None, sender: (host(2).0, own), target: (Mac([0; 6]), ENGINE.1) }
        .write(&mut frame);
    third.send(&frame);
    let answer =
        wait_for("an answer to ARP", || Arp::read(third.receive(&mut [0; 2048])?).filter(|arp| arp.reply));
    assert_eq!(answer.sender, ENGINE);
    // A contribution is followed to the engine.
    let trace = rig.trace("p0");
    move_until(&mut seats, start, "a first sum", |seats| seats.iter().all(|seat| seat.rank.results > 0));
    let followed = trace.ended().stdout;
    assert!(followed.contains("\"inc0\""), "{followed}");
    // What the engine did with it is told, too, to the last result that was sent for it.
    let lines = followed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let told: Vec<Value> = lines.filter(|line| line["event"] == "engine").collect();
    let came = told.first().unwrap_or_else(|| panic!("nothing of the engine: {followed}"));
    assert_eq!((&came["step"], &came["what"], &came["job"]), (&json!("came"), &json!("stored"), &json!(7)));
    assert_eq!((&came["rank"], &came["engine_qp"]), (&json!(0), &json!(QPN)), "{came}");
    let sent = |what: &str| {
        let sent = told.iter().filter(|line| line["step"] == "sent" && line["what"] == what);
        sent.map(|line| line["rank"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!((sent("ack"), sent("result")), (vec![Some(0)], vec![Some(0), Some(1)]), "{followed}");
    assert!(told.iter().any(|line| line["step"] == "folded"), "{followed}");
    let lasts = told.iter().map(|line| line["last"] == true);
    assert!(lasts.clone().next_back().unwrap() && lasts.filter(|last| *last).count() == 1, "{followed}");
    let trace = rig.trace("inc0");
    // As many at once as every receive ring holds while nobody looks.
    for sent in (BATCH..=OTHERS).step_by(BATCH) {
        for n in 0..BATCH {
            third.send(&other(host(0), 99, true));
            third.send(&other(host(1), 99, false));
            third.send(&other((ENGINE.0, ENGINE.1.into()), QPN + 40, n % 2 == 0));
        }
        move_until(&mut seats, start, "frames of the third host", |seats| {
            seats.iter().all(|seat| seat.others == sent)
        });
    }
    move_until(&mut seats, start, "all sums", |seats| seats.iter().all(|seat| seat.rank.is_complete()));
    // What the engine sends can be followed to a host.
    let followed = trace.ended().stdout;
    assert!(followed.contains("\"p0\"") || followed.contains("\"p1\""), "{followed}");
    // What is shown is what happened.
    let row = wait_for("the last sum in the table", || {
        rig.rows("inc").into_iter().find(|row| row["folded"] == json!(MESSAGES))
    });
    assert_eq!(
        (&row["state"], &row["port"], &row["children"]),
        (&json!("running"), &json!("inc0"), &json!(2))
    );
    assert_eq!(row["folded_bytes"], json!(MESSAGES * 2 * 1024));
    let ranks = rig.rows("inc_ranks");
    assert_eq!(
        ranks.iter().map(|row| row["taken"].clone()).collect::<Vec<_>>(),
        [json!(MESSAGES), json!(MESSAGES)]
    );
    let unknown = wait_for("frames for nobody", || {
        rig.rows("inc_drops")
            .into_iter()
            .find(|row| row["reason"] == "unknown_qp" && row["packets"] == json!(OTHERS))
    });
    assert!(unknown["what"].as_str().unwrap().contains("no queue pair"), "{unknown}");
    assert!(rig.weir(&["inc", "list"]).stdout.contains("running"));
    let listed: Value = serde_json::from_str(&rig.weir(&["inc", "list", "--json"]).stdout).unwrap();
    assert_eq!(listed["inc"][0]["state"], "running");
    // Whoever ends it is heard by all, and it is gone.
    let ended = rig.weir(&["inc", "end", "7"]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    move_until(&mut seats, start, "the end", |seats| seats.iter().all(|seat| seat.rank.told.is_some()));
    let words = seats.each_ref().map(|seat| seat.rank.told);
    assert!(
        words.iter().all(|word| matches!(word, Some(Immediate::Failed(Failure::Stopped, _)))),
        "{words:?}"
    );
    let gone =
        |seats: &[Seat; 2]| seats.iter().all(|seat| seat.rank.error.is_none()) && rig.rows("inc").is_empty();
    move_until(&mut seats, start, "no job", gone);
    let events = rig.weir(&["show", "events"]).stdout;
    assert!(events.contains("added") && events.contains("ended"), "{events}");
    let summary = rig.switch.stop();
    assert_eq!(summary.all_drops(), [""; 0], "{summary:?}");
    assert!(summary.port("inc0", "rx_packets") >= 2 * MESSAGES, "{summary:?}");
    assert!(summary.port("inc0", "tx_packets") >= 2 * MESSAGES + OTHERS as u64, "{summary:?}");
}

#[test]
fn ranks_sum_through_the_switch_while_other_traffic_passes() {
    ranks_sum(need!(Rig::new(&floating(), [None; 2])));
}

#[test]
fn an_engine_on_another_lcore_sums_all_the_same() {
    let Some([one, other]) = two_cores() else {
        eprintln!("skipped: one core is not enough for two workers");
        return;
    };
    let eal = format!("--lcores=0@{one},1@{one},2@{other}");
    ranks_sum(need!(Rig::new(&eal, [Some(one), Some(other)])));
}

#[test]
fn bad_jobs_are_refused_and_disturb_nobody() {
    let rig = need!(Rig::new(&floating(), [None; 2]));
    assert_eq!(rig.add(&job()).code(), Some(0));
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 14] = [
        (|_| (), "job 7 exists already"),
        (|job| job["id"] = json!(8), "queue pair 256 of the engine is one of job"),
        (
            |job| {
                job["id"] = json!(8);
                (0..2).for_each(|at| job["children"][at]["qpn"] = json!(QPN + 8 + at as u32));
            },
            "peer 0 has queue pair 17 of 10.0.0.0, which is connected to the engine by job 7",
        ),
        (|job| job["children"][1]["send_psn"] = json!("5"), "children[1].send_psn: invalid type: string"),
        (|job| job["port"] = json!("p0"), "port `p0` is not an engine; there are inc0"),
        (|job| job["window"] = json!(1024), "a job may take 1048576"),
        (|job| job["window"] = json!(33), "window is 33; it is a power of two"),
        (|job| job["mtu"] = json!(2048), "frames of up to 2134, the port's mtu is 1518"),
        (|job| job["children"][1]["rank"] = json!(0), "a child with rank 1 was expected, it has 0"),
        (|job| job["ranks"] = json!(3), "children have the ranks below 2, the job has 3"),
        (|job| job["operation"]["type"] = json!("f8"), "unknown variant `f8`"),
        (|job| job["operation"]["operator"] = json!(null), "`operator` is missing"),
        (|job| job["children"][0]["recv_psn"] = json!(1 << 24), "recv_psn is 0x1000000; it has 24 bits"),
        (|job| job["colour"] = json!(1), "unknown field `colour`"),
    ];
    for (change, why) in changes {
        let mut job = job();
        change(&mut job);
        let ended = rig.add(&job);
        assert_eq!(ended.code(), Some(2), "{why}: {ended:?}");
        assert!(ended.stderr.contains(why), "{why}: {}", ended.stderr);
    }
    // What would not fit is known beforehand.
    let check = |files: usize| {
        let files = (0..files).flat_map(|n| {
            let mut job = job();
            let first = QPN + 2 * n as u32;
            (job["id"], job["window"], job["results"]) = (json!(n), json!(256), json!(256));
            (job["children"][0]["qpn"], job["children"][1]["qpn"]) = (json!(first), json!(first + 1));
            (0..2).for_each(|at| job["children"][at]["dest_qpn"] = json!(first));
            let path = rig.folder.path().join(format!("{n}.json"));
            std::fs::write(&path, job.to_string()).expect("room on disk");
            ["--job".to_owned(), path.to_str().unwrap().to_owned()]
        });
        let config = rig.folder.path().join("check.toml");
        std::fs::write(&config, CHECKED).expect("room on disk");
        weir(
            &["check".to_owned(), config.to_str().unwrap().to_owned()]
                .into_iter()
                .chain(files)
                .collect::<Vec<_>>(),
        )
    };
    let fits = check(2);
    assert_eq!(fits.code(), Some(0), "{fits:?}");
    assert!(
        fits.stdout.contains("2 jobs using 1") && fits.stdout.contains(" of 2MiB, up to 64"),
        "{}",
        fits.stdout
    );
    let too_many = check(3);
    assert_eq!(too_many.code(), Some(2), "{too_many:?}");
    assert!(too_many.stderr.contains("2.json: port inc0: job 2 needs"), "{}", too_many.stderr);
    for words in [["inc", "end", "8"].as_slice(), &["inc", "end", "7", "--port", "inc1"]] {
        let ended = rig.weir(words);
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains("404"), "{}", ended.stderr);
    }
    let rows = rig.rows("inc");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["job"], &rows[0]["state"]), (&json!(7), &json!("running")));
    rig.switch.stop();
}

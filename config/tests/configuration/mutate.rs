//! Configurations somebody mistyped: 4000 changes to files that are right, of a fixed seed. None ends in a panic,
//! every fault says what is wrong and what to do, and what is accepted makes a switch.

use std::panic::catch_unwind;
use weir_config::runtime::{Device, switch_params};
use weir_config::{Diagnostic, load, schema};
use weir_dataplane::frame::OwnedFrame;
use weir_dataplane::rng::Rng;
use weir_dataplane::switch::Switch;

const ROUNDS: usize = 4000;

/// Files to begin with: those that ship, and one with a table of every kind.
const FILES: &[&str] = &[
    include_str!("../../../configs/lab.toml"),
    include_str!("../../../configs/lab-paxi.toml"),
    include_str!("../../../configs/two-nics.toml"),
    include_str!("../../../configs/af-packet.toml"),
    include_str!("../../../configs/memif.toml"),
    include_str!("../../../configs/inc.toml"),
    r#"
[switch]
name = "t"
[format.x]
inherit = "afh_gen2_16b"
header_len = 14
tc = [48, 8]
[[port]]
name = "a"
device = "net_null0"
rate = "25G"
cable = "5m"
pfc = { enable = [3], rx = "all" }
maps = "edge"
[[port]]
name = "b"
device = "net_null1"
rate = "100M"
trust = ["pcp", "port"]
[[port]]
name = "c"
device = "ring"
format = "x"
[qos]
preset = "roce-lossless"
tc_to_pg = { "0-2" = 0, "3" = 3 }
[map.edge]
pfc_to_queue = { "*" = 3 }
[buffer]
size = "8MiB"
over_subscribe_ratio = 2
[[buffer.profile]]
name = "lossless"
static_th = "50%"
xon = 0
[[buffer.pg]]
pgs = "3"
profile = "lossless"
[[scheduler]]
name = "s"
type = "DWRR"
weight = 3
pir = "1G"
[[wred]]
name = "w"
kmin = "10%"
kmax = "1MB"
[[queue]]
ports = ["a", "b"]
queues = "0-2,5"
scheduler = "s"
wred = "w"
[watchdog]
action = "forward"
reoccurrence = { count = 3, window = "10s" }
[fdb]
ageing = "300s"
[[fdb.static]]
mac = "02:00:00:00:00:01"
port = "a"
[[fdb.group]]
mac = "01:00:5e:00:00:01"
ports = ["a", "b"]
[pfc]
refresh = "40%"
poll_gap = "5us"
[lab]
pattern = "incast"
[[lab.flow]]
from = "a"
to = "b"
"#,
];

/// What somebody may write where something else belongs.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "255",
    "9223372036854775807",
    "1.5",
    "true",
    "\"\"",
    "\"*\"",
    "\"0-7\"",
    "\"7-0\"",
    "\"auto\"",
    "\"100%\"",
    "\"0%\"",
    "\"1ns\"",
    "\"18446744073709551615B\"",
    "\"100G\"",
    "\"unlimited\"",
    "[]",
    "[[]]",
    "[3, 3]",
    "{}",
    "{ a = 1 }",
    "\"\\u001b[31m\"",
    "\"../../etc\"",
    "\"a\"",
    "\"lossless\"",
    "\"p0\"",
    "1979-05-27",
];

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.next_u64() as usize % of.len()]
}

/// One change: a value, a key, a line, or a byte.
fn mutate(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = rng.next_u64() as usize % lines.len();
    let keys: Vec<&str> = schema::ALL.iter().flat_map(|t| t.keys.iter().map(|k| k.name)).collect();
    match rng.next_u64() % 8 {
        0..=3 => {
            if let Some((key, _)) = lines[at].clone().split_once('=') {
                lines[at] = format!("{key}= {}", pick(rng, VALUES));
            }
        }
        4 => lines.insert(at, format!("{} = {}", pick(rng, &keys), pick(rng, VALUES))),
        5 => {
            lines.remove(at);
        }
        6 => {
            let again = lines[at].clone();
            lines.insert(at, again);
        }
        _ => {
            let mut bytes = lines[at].clone().into_bytes();
            if !bytes.is_empty() {
                let i = rng.next_u64() as usize % bytes.len();
                bytes[i] = b' ' + (rng.next_u64() % 95) as u8;
            }
            lines[at] = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    lines.join("\n")
}

/// It names what is wrong and what to do, and nothing in it moves a terminal's cursor.
fn is_good(d: &Diagnostic) -> bool {
    let shown = d.to_string();
    let plain = shown.chars().all(|c| c == '\n' || !c.is_control());
    !d.rule.is_empty() && !d.message.is_empty() && !d.remedy.is_empty() && plain
}

fn attempt(text: &str) -> Result<bool, String> {
    match load("t.toml", text) {
        Err(found) => {
            let errors = found.iter().filter(|d| d.is_error()).count();
            let bad = found.iter().find(|d| !is_good(d));
            match bad {
                Some(d) => Err(format!("{d:?}")),
                None if errors == 0 => Err("refused without an error".into()),
                None => Ok(false),
            }
        }
        Ok(loaded) => {
            if let Some(d) = loaded.warnings.iter().find(|d| !is_good(d)) {
                return Err(format!("{d:?}"));
            }
            let config = loaded.config;
            // Memory is not what is tried here.
            if config.buffer.frames > 1 << 18 || config.fdb.capacity > 1 << 16 {
                return Ok(true);
            }
            let devices = vec![
                Device { pfc: true, rate: Some(10_000_000_000), ..Device::default() };
                config.ports.len()
            ];
            let params = switch_params(&config, &devices, 1)
                .map_err(|e| format!("accepted, and no parameters: {e}"))?;
            Switch::<OwnedFrame>::new(params)
                .map(|_| true)
                .map_err(|e| format!("accepted, and no switch: {e}"))
        }
    }
}

#[test]
fn mistyped_configurations_are_refused_with_a_remedy_or_make_a_switch() {
    let mut rng = Rng::new(13);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut text = pick(&mut rng, FILES).to_owned();
        for _ in 0..=rng.next_u64() % 3 {
            text = mutate(&text, &mut rng);
        }
        match catch_unwind(|| attempt(&text)) {
            Ok(Ok(true)) => accepted += 1,
            Ok(Ok(false)) => refused += 1,
            Ok(Err(why)) => panic!("round {round}: {why}\n{text}"),
            Err(_) => panic!("round {round}: a panic\n{text}"),
        }
    }
    assert!(accepted > ROUNDS / 20 && refused > ROUNDS / 4, "{accepted} accepted, {refused} refused");
}

//! The tables as commands of DPDK's telemetry socket: `dpdk-telemetry.py`, then `/weir/queues,p0`.
//!
//! Its answers are small (16 384 bytes, 256 entries per dictionary, 512 per list, 127 bytes per text) and know neither
//! fractions nor null: rates are whole numbers, shares are texts, what there is none of is left out.

use crate::snapshot::Snapshot;
use crate::table::{Form, Table};
use serde_json::{Map, Value, json};

/// What a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Names of the ports.
    Ports,
    /// The row of one port.
    Port,
    /// The only row of a table.
    Row(&'static str),
    /// Rows of a table of one port, by their second column.
    Lanes(&'static str),
    /// Rows of a table, by their first column.
    Rows(&'static str),
    /// Frames lost on one port, by reason.
    Drops,
}

/// A command.
#[derive(Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub help: &'static str,
    shows: Shows,
}

const fn command(name: &'static str, help: &'static str, shows: Shows) -> Command {
    Command { name, help, shows }
}

/// Every command.
pub const COMMANDS: &[Command] = &[
    command("/weir/switch", "The switch and its books. Takes no parameters", Shows::Row("switch")),
    command("/weir/ports", "Names of the ports. Takes no parameters", Shows::Ports),
    command("/weir/port", "A port. Parameters: name or number of the port", Shows::Port),
    command("/weir/queues", "Egress queues. Parameters: name or number of the port", Shows::Lanes("queues")),
    command(
        "/weir/pgs",
        "Ingress priority groups. Parameters: name or number of the port",
        Shows::Lanes("pgs"),
    ),
    command("/weir/pfc", "Pauses by priority. Parameters: name or number of the port", Shows::Lanes("pfc")),
    command("/weir/ecn", "Marking by queue. Parameters: name or number of the port", Shows::Lanes("ecn")),
    command(
        "/weir/latency",
        "Latency by queue. Parameters: name or number of the port",
        Shows::Lanes("latency"),
    ),
    command("/weir/drops", "Frames lost by reason. Parameters: name or number of the port", Shows::Drops),
    command("/weir/buffer", "Parts of the buffer. Takes no parameters", Shows::Rows("buffer")),
    command("/weir/lcores", "Workers. Takes no parameters", Shows::Rows("lcores")),
];

/// The answer; `None`: there is no such port.
pub fn answer(command: &Command, snapshot: &Snapshot, parameters: &str) -> Option<Value> {
    let named = |name: &str| snapshot.info.ports.iter().position(|port| port.name == name);
    let port = || {
        let wanted = parameters.trim();
        named(wanted).or_else(|| wanted.parse().ok().filter(|n| *n < snapshot.info.ports.len()))
    };
    let rows = |table: &str, port: Option<usize>| {
        let table = Table::named(table)?;
        Some((table, table.rows(snapshot, port)))
    };
    let keyed = |table: &'static str, port: Option<usize>, key: usize| {
        let (table, rows) = rows(table, port)?;
        let parts = rows.iter().map(|row| (word(&row[table.columns[key].name]), entry(table, row, key + 1)));
        Some(Value::Object(parts.collect()))
    };
    match command.shows {
        Shows::Ports => Some(snapshot.info.ports.iter().map(|port| json!(port.name)).collect()),
        Shows::Port => {
            let (table, rows) = rows("ports", Some(port()?))?;
            Some(entry(table, rows.first()?, 0))
        }
        Shows::Row(table) => {
            let (table, rows) = rows(table, None)?;
            Some(entry(table, rows.first()?, 0))
        }
        Shows::Lanes(table) => keyed(table, Some(port()?), 1),
        Shows::Rows(table) => keyed(table, None, 0),
        Shows::Drops => {
            let (_, rows) = rows("drops", Some(port()?))?;
            let parts = rows.iter().map(|row| (word(&row["reason"]), row["frames"].clone()));
            Some(Value::Object(parts.collect()))
        }
    }
}

/// A name of letters, digits, `_` and `/`: all that 22.11 allows.
fn word(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '/' }).collect()
}

/// A row from its column `first` on.
fn entry(table: &Table, row: &Value, first: usize) -> Value {
    let parts = table.columns[first..].iter().filter_map(|column| {
        let value = &row[column.name];
        let value = match column.form {
            _ if value.is_null() => return None,
            Form::Rate => json!(value.as_f64().unwrap_or(0.0).round() as u64),
            Form::Share => json!(value.to_string()),
            Form::Flag => json!(u64::from(value.as_bool().unwrap_or(false))),
            // Above 2^53 a count is text in JSON; here it has room.
            Form::Count | Form::Maybe => {
                value.as_str().and_then(|s| s.parse().ok()).map_or(value.clone(), |n: u64| json!(n))
            }
            Form::Text => value.clone(),
        };
        Some((column.name.to_owned(), value))
    });
    Value::Object(parts.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn ask(name: &str, parameters: &str) -> Option<Value> {
        answer(COMMANDS.iter().find(|c| c.name == name).unwrap(), &fake::snapshot(), parameters)
    }

    #[test]
    fn ports_are_found_by_name_and_by_number() {
        assert_eq!(ask("/weir/ports", ""), Some(json!(["p0", "p\"1\\"])));
        let port = ask("/weir/port", "1").unwrap();
        assert_eq!(
            (&port["port"], &port["rx_packets"], &port["rx_pps"]),
            (&json!("p\"1\\"), &json!(2000), &json!(10_000))
        );
        assert_eq!(ask("/weir/port", "p0").unwrap()["port"], json!("p0"));
        for bad in ["", "2", "p2", "-1", "99999999999999999999"] {
            assert_eq!(ask("/weir/pfc", bad), None, "{bad}");
        }
    }

    #[test]
    fn lanes_are_named_by_number_and_hold_what_the_table_holds() {
        let pfc = ask("/weir/pfc", "p0").unwrap();
        assert_eq!(pfc.as_object().unwrap().len(), 8);
        assert_eq!((&pfc["3"]["tx_xoff"], &pfc["3"]["enabled"]), (&json!(4), &json!(1)));
        assert_eq!((&pfc["3"]["tx_paused_share"], &pfc["3"].get("port")), (&json!("0.5"), &None));
        let queues = ask("/weir/queues", "p0").unwrap();
        assert_eq!((&queues["3"]["kmin_bytes"], queues["0"].get("kmin_bytes")), (&json!(10_000), None));
        assert_eq!(ask("/weir/buffer", "").unwrap()["headroom"]["size_bytes"], json!(120_000));
        assert_eq!(ask("/weir/lcores", "").unwrap()["2"]["alive"], json!(1));
    }

    /// The limits of DPDK 22.11, with the largest numbers there are.
    #[test]
    fn every_answer_fits() {
        let mut snapshot = fake::snapshot();
        let mut reading = (*snapshot.now).clone();
        for port in &mut reading.ports {
            use crate::times::Times;
            use weir_dataplane::stats::{Histogram, PauseStats, Words};
            port.stats.words(&mut |words| words.fill(u64::MAX >> 12));
            port.gauges.words(&mut |words| words.fill(u64::MAX >> 12));
            let (mut residence, mut pauses) = (Histogram::default(), PauseStats::default());
            for queue in 0..8 {
                residence.note(u64::MAX, u64::MAX >> 12);
                pauses.note(queue, u64::MAX, u64::MAX >> 1, 1);
                port.latency[queue] = Times::of(&residence, &pauses, queue);
            }
        }
        snapshot.now = std::sync::Arc::new(reading);
        for command in COMMANDS {
            let answer = answer(command, &snapshot, "1").unwrap();
            let text = answer.to_string();
            assert!(text.len() < 16_000, "{}: {} bytes", command.name, text.len());
            let Some(parts) = answer.as_object() else { continue };
            assert!(parts.len() <= 256);
            for (name, part) in parts {
                assert!(
                    name.len() < 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_/".contains(c)),
                    "{name}"
                );
                assert!(
                    part.is_u64() || part.is_object() || part.as_str().is_some_and(|t| t.len() < 128),
                    "{name}: {part}"
                );
            }
        }
    }
}

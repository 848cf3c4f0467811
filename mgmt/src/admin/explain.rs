//! `/v1/explain` and `weir explain`: a question about a frame, and the answer of the pipeline's own code.

use crate::admin::Fault;
use serde_json::{Value, json};
use std::fmt::Write;
use weir_config::{Config, show_flood_limit};
use weir_dataplane::ecn::ONE_Q32;
use weir_dataplane::explain::{Asked, Explanation, Occupancy, explain};
use weir_dataplane::mmu::AdmitVerdict;
use weir_dataplane::parse::Kind;
use weir_dataplane::storm_control::FloodKind;
use weir_dataplane::switch::SwitchParams;
use weir_dataplane::types::{PRIORITIES, PortId};

/// Parameters of a question, in the query as on the command line.
pub const PARAMETERS: [&str; 10] = ["port", "to", "len", "dscp", "pcp", "vid", "tc", "ecn", "kind", "flood"];

/// ECN code points, by value.
const ECN: [&str; 4] = ["not-ect", "ect1", "ect0", "ce"];

/// A question: each parameter and its value, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question(pub Vec<(String, String)>);

impl Question {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str, most: u32) -> Result<Option<u32>, Box<Fault>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|n| *n <= most);
        number.map(Some).ok_or_else(|| wrong(name, &format!("`{text}` is no number from 0 to {most}")))
    }

    fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Box<Fault>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        found.map(Some).ok_or_else(|| wrong(name, &format!("`{text}` is none of {}", known.join(", "))))
    }

    /// The frame it asks about, on a switch of this configuration.
    ///
    /// # Errors
    /// The parameter at fault.
    pub fn asked(&self, config: &Config) -> Result<Asked, Box<Fault>> {
        let port = |name: &str| -> Result<Option<PortId>, Box<Fault>> {
            let Some(text) = self.text(name) else { return Ok(None) };
            let names: Vec<_> = config.ports.iter().map(|port| port.name.as_str()).collect();
            let no_such =
                || wrong(name, &format!("no port is called `{text}`; there are {}", names.join(", ")));
            config.port(text).map(Some).ok_or_else(no_such)
        };
        let small = |name: &str, most: u32| self.number(name, most).map(|n| n.map(|n| n as u8));
        let code = [("not-ect", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)];
        let kinds = [("data", Kind::Data), ("cnp", Kind::Cnp), ("ack", Kind::Ack)];
        Ok(Asked {
            port: port("port")?.ok_or_else(|| wrong("port", "say on which port the frame arrives"))?,
            to: port("to")?,
            len: self.number("len", 16_128)?.unwrap_or(1024).max(1),
            dscp: small("dscp", 63)?,
            pcp: small("pcp", 7)?,
            vid: self.number("vid", 4095)?.map(|vid| vid as u16),
            tc: small("tc", 255)?,
            ecn: self.word("ecn", &code)?.unwrap_or(2),
            kind: self.word("kind", &kinds)?.unwrap_or(Kind::Data),
            flood: self.word("flood", &FloodKind::ALL.map(|kind| (kind.word(), kind)))?,
        })
    }
}

fn wrong(name: &str, detail: &str) -> Box<Fault> {
    Box::new(Fault { path: name.to_owned(), detail: detail.to_owned(), ..Fault::default() })
}

/// The answer, as a document.
///
/// # Errors
/// The parameter at fault.
pub fn answer(
    config: &Config,
    params: &SwitchParams,
    seen: &Occupancy,
    question: &Question,
) -> Result<Value, Box<Fault>> {
    let asked = question.asked(config)?;
    let told = explain(params, seen, &asked).map_err(|error| wrong("buffer", &error.to_string()))?;
    Ok(document(config, &asked, &told))
}

fn document(config: &Config, asked: &Asked, e: &Explanation) -> Value {
    let name = |port: PortId| config.ports[port.index()].name.clone();
    let (verdict, reason) = match e.verdict {
        AdmitVerdict::Refused(reason) => ("dropped", Some(reason)),
        AdmitVerdict::AdmittedXoff => ("admitted, Xoff is sent", None),
        AdmitVerdict::Admitted if e.takes[2] > 0 => ("admitted into headroom", None),
        AdmitVerdict::Admitted => ("admitted", None),
    };
    let limit = |bytes: u64| if bytes >= u64::MAX >> 3 { Value::Null } else { json!(bytes) };
    let of_one = |share: u64| json!((share as f64 / ONE_Q32 as f64 * 1e6).round() / 1e6);
    let priorities: Vec<usize> = (0..PRIORITIES).filter(|p| e.pauses >> p & 1 == 1).collect();
    let pg = &e.pg;
    json!({
        "port": name(asked.port),
        "to": name(e.to),
        "len_bytes": asked.len,
        "dscp": asked.dscp,
        "pcp": asked.pcp,
        "vid": asked.vid,
        "vlan": e.vlan.map(|(vid, retag)| json!({ "vid": vid, "tag": retag.word() })),
        "ecn": ECN[usize::from(asked.ecn & 3)],
        "flood": asked.flood.map(|kind| json!({
            "kind": kind.word(),
            "limit": e.flood_limit.map(|(limit, _)| show_flood_limit(&limit)),
            "exceeded": e.flood_limit.is_some_and(|(_, exceeded)| exceeded),
        })),
        "class": { "tc": e.class.tc, "pg": e.class.pg, "queue": e.class.queue },
        "lossless": pg.lossless,
        "charge_bytes": e.charge,
        "group": {
            "used_bytes": pg.used,
            "reserved_bytes": pg.reserved,
            "shared_bytes": pg.shared,
            "limit_bytes": limit(pg.limit),
            "headroom_bytes": pg.headroom,
            "headroom_size_bytes": pg.headroom_limit,
            "xon_bytes": limit(pg.xon_at),
            "xoff": pg.xoff,
        },
        "pool": {
            "shared_size_bytes": e.pools.shared_size,
            "shared_free_bytes": e.pools.shared_size.saturating_sub(e.pools.shared_used),
            "headroom_size_bytes": e.pools.headroom_size,
            "headroom_free_bytes": e.pools.headroom_size.saturating_sub(e.pools.headroom_used),
        },
        "queue": { "used_bytes": e.queue.used, "limit_bytes": limit(e.queue.limit) },
        "verdict": verdict,
        "reason": reason.map(|reason| reason.name()),
        "remedy": reason.map(|reason| reason.remedy()),
        "takes": { "reserved_bytes": e.takes[0], "shared_bytes": e.takes[1], "headroom_bytes": e.takes[2] },
        "headroom_left_bytes": e.after.headroom_limit.saturating_sub(e.after.headroom),
        "pauses": priorities,
        "mark": e.mark.map(|(wred, share)| json!({
            "kmin_bytes": wred.kmin,
            "kmax_bytes": wred.kmax,
            "pmax": of_one(wred.pmax),
            "probability": if matches!(asked.ecn, 1 | 2) { of_one(share) } else { json!(0.0) },
        })),
        "early_drop_probability": of_one(e.early_drop),
    })
}

/// The document for people.
pub fn text(d: &Value) -> String {
    let mut text = String::new();
    let n = |value: &Value| value.as_u64().map_or_else(|| "no limit".to_owned(), grouped);
    let word = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut line = |head: &str, rest: String| {
        let _ = writeln!(text, "{head:10}  {rest}");
    };
    let field = |name: &str| d[name].as_u64().map(|v| format!(", {name} {v}")).unwrap_or_default();
    line(
        "frame",
        format!(
            "{} bytes on {}{}{}{}, {}",
            n(&d["len_bytes"]),
            word(&d["port"]),
            field("dscp"),
            field("pcp"),
            field("vid"),
            word(&d["ecn"])
        ),
    );
    let vlan = &d["vlan"];
    if vlan.is_object() {
        line("vlan", format!("{}, tag {}", vlan["vid"], word(&vlan["tag"])));
    }
    let flood = &d["flood"];
    if flood.is_object() {
        let limit = flood["limit"].as_str().map_or("no limit".to_owned(), |limit| format!("at most {limit}"));
        let state = if flood["exceeded"] == true { ", which is exceeded now" } else { "" };
        line("flooded", format!("{}, {limit}{state}; what follows is of one copy", word(&flood["kind"])));
    }
    let class = &d["class"];
    let kind = if d["lossless"] == true { "lossless" } else { "lossy" };
    line(
        "class",
        format!(
            "tc {}, priority group {} ({kind}), queue {} of {}",
            class["tc"],
            class["pg"],
            class["queue"],
            word(&d["to"])
        ),
    );
    let (g, p, q) = (&d["group"], &d["pool"], &d["queue"]);
    line("charge", format!("{} bytes", n(&d["charge_bytes"])));
    line(
        "group",
        format!(
            "holds {} of {} reserved, {} of {} shared, {} of {} headroom",
            grouped(g["used_bytes"].as_u64().unwrap_or(0) - g["shared_bytes"].as_u64().unwrap_or(0)),
            n(&g["reserved_bytes"]),
            n(&g["shared_bytes"]),
            n(&g["limit_bytes"]),
            n(&g["headroom_bytes"]),
            n(&g["headroom_size_bytes"])
        ),
    );
    line(
        "pool",
        format!(
            "{} free of {} shared, {} free of {} headroom",
            n(&p["shared_free_bytes"]),
            n(&p["shared_size_bytes"]),
            n(&p["headroom_free_bytes"]),
            n(&p["headroom_size_bytes"])
        ),
    );
    line("queue", format!("holds {} bytes of {}", n(&q["used_bytes"]), n(&q["limit_bytes"])));
    let takes = &d["takes"];
    let verdict = match d["reason"].as_str() {
        Some(reason) => format!("DROPPED: {reason}: {}", word(&d["remedy"])),
        None => format!(
            "{}: takes {} reserved, {} shared, {} headroom",
            word(&d["verdict"]),
            n(&takes["reserved_bytes"]),
            n(&takes["shared_bytes"]),
            n(&takes["headroom_bytes"])
        ),
    };
    line("verdict", verdict);
    let paused: Vec<String> = d["pauses"].as_array().into_iter().flatten().map(Value::to_string).collect();
    let pause = match (paused.as_slice(), g["xoff"] == true) {
        ([], _) if d["lossless"] == true => {
            let left = g["limit_bytes"]
                .as_u64()
                .unwrap_or(0)
                .saturating_sub(g["shared_bytes"].as_u64().unwrap_or(0));
            format!("no: {} bytes of shared use below the line", grouped(left))
        }
        ([], _) => "no: the group is not lossless, or PFC is off".to_owned(),
        (list, true) => format!(
            "the peer is paused already (priority {}); resumes at {}; {} bytes of headroom left",
            list.join(", "),
            n(&g["xon_bytes"]),
            n(&d["headroom_left_bytes"])
        ),
        (list, false) => format!(
            "Xoff for priority {}; {} bytes of headroom left",
            list.join(", "),
            n(&d["headroom_left_bytes"])
        ),
    };
    line("pause", pause);
    let percent = |value: &Value| format!("{:.2} %", value.as_f64().unwrap_or(0.0) * 100.0);
    let mark = &d["mark"];
    if mark.is_object() {
        let (kmin, kmax) = (n(&mark["kmin_bytes"]), n(&mark["kmax_bytes"]));
        line(
            "mark",
            format!(
                "{} at this depth (Kmin {kmin}, Kmax {kmax}, Pmax {})",
                percent(&mark["probability"]),
                percent(&mark["pmax"])
            ),
        );
    } else {
        line("mark", "never: the queue does not mark".to_owned());
    }
    if d["early_drop_probability"].as_f64().is_some_and(|p| p > 0.0) {
        line("early drop", percent(&d["early_drop_probability"]));
    }
    text
}

/// Digits in threes.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests_in_force as in_force;
    use weir_dataplane::mmu::Held;

    fn question(text: &str) -> Question {
        let pair = |part: &str| part.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        Question(text.split('&').map(pair).collect())
    }

    #[test]
    fn a_question_names_what_is_wrong_with_it() {
        let f = in_force();
        for (text, path) in [
            ("dscp=3", "port"),
            ("port=p9", "port"),
            ("port=p0&to=p9", "to"),
            ("port=p0&dscp=64", "dscp"),
            ("port=p0&len=-1", "len"),
            ("port=p0&ecn=red", "ecn"),
            ("port=p0&kind=red", "kind"),
            ("port=p0&flood=red", "flood"),
        ] {
            assert_eq!(question(text).asked(&f.config).unwrap_err().path, path, "{text}");
        }
    }

    #[test]
    fn the_answer_says_what_happens_and_where_the_bytes_go() {
        let f = in_force();
        let ask = |seen: &Occupancy, text: &str| answer(&f.config, &f.params, seen, &question(text)).unwrap();
        let calm = ask(&Occupancy::default(), "port=p0&dscp=26&len=1000");
        assert_eq!(
            (calm["verdict"].as_str(), calm["takes"]["reserved_bytes"].as_u64()),
            (Some("admitted"), Some(1000))
        );
        let mut seen =
            Occupancy { groups: vec![Held::default(); 16], queues: vec![0; 16], ..Occupancy::default() };
        seen.groups[3].used = 1 << 30;
        seen.queues[11] = 1 << 30;
        let full = ask(&seen, "port=p0&dscp=26&len=1000");
        assert_eq!((&full["pauses"], full["mark"]["probability"].as_f64()), (&json!([3]), Some(1.0)));
        assert!(text(&full).contains("Xoff for priority 3"), "{}", text(&full));
        seen.groups[3].headroom = 1 << 30;
        let lost = text(&ask(&seen, "port=p0&dscp=26&len=1000"));
        assert!(lost.contains("DROPPED: ingress.headroom_exhausted"), "{lost}");
        let broadcast = text(&ask(&Occupancy::default(), "port=p0&flood=broadcast"));
        assert!(broadcast.contains("flooded     broadcast, no limit"), "{broadcast}");
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".into(), "1 234 567".into()));
    }
}

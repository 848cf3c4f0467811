//! What an engine of in-network aggregation tells of a frame that is followed, as data and for people.

use crate::api::documents::WatchedEngine;
use weir_endpoint::roce::wire::{Nak, Syndrome, rnr_wait};
use weir_inc::immediate::ALL_RANKS;
use weir_inc::spec::Operation;
use weir_inc::trace::{Became, Record, Step, What, Whom};
use weir_layout::time;

/// A step of frame number `frame`, at the engine behind `port`.
pub(super) fn told(frame: u64, port: String, record: &Record) -> WatchedEngine {
    let since_ns = record.at.saturating_sub(record.key.rx_ns);
    let mut line = WatchedEngine {
        frame,
        at_ns: record.at,
        port,
        since_ns,
        step: "came".to_owned(),
        last: record.last,
        ..WatchedEngine::default()
    };
    match &record.step {
        Step::Came(told) => {
            line.what = became(&told.became, &mut line);
            line.engine_qp = told.packet.map(|(_, qpn, _)| qpn.0);
            line.psn = told.packet.map(|(_, _, psn)| psn.get());
            line.name(told.of);
        }
        Step::Folded(ranks) => {
            (line.step, line.what, line.ranks) = ("folded".to_owned(), "sum".to_owned(), *ranks);
        }
        Step::Sent(sent) => {
            line.step = "sent".to_owned();
            line.what = match sent.what {
                What::Answer(syndrome) => answer(syndrome, &mut line),
                What::Sum => "sum".to_owned(),
                What::Result | What::Other => "result".to_owned(),
            };
            line.psn = Some(sent.psn.get());
            line.name(Some(sent.to));
        }
        Step::Failed(failure, rank) => {
            (line.step, line.what) = ("failed".to_owned(), failure.name().to_owned());
            line.rank = Some(*rank).filter(|rank| *rank != ALL_RANKS);
        }
        Step::Gone => (line.step, line.what) = ("failed".to_owned(), "ended".to_owned()),
        Step::Over => line.step = "over".to_owned(),
    }
    line
}

impl WatchedEngine {
    /// Of a frame, whose it is or for whom.
    fn name(&mut self, whom: Option<Whom>) {
        let Some(Whom { job, rank, qpn, .. }) = whom else { return };
        (self.job, self.qp) = (Some(job), Some(qpn.0));
        self.rank = Some(rank).filter(|rank| *rank != ALL_RANKS);
    }
}

fn became(became: &Became, line: &mut WatchedEngine) -> String {
    match became {
        Became::Stored { number, slot, missing } => {
            (line.number, line.slot) = (Some(*number), Some(*slot));
            line.waits_for = Some(missing.to_vec());
            "stored".to_owned()
        }
        Became::Result => "result".to_owned(),
        Became::Names(operation) => {
            line.text = Some(Operation::from(*operation).to_string());
            "operation".to_owned()
        }
        Became::Ends => "end".to_owned(),
        Became::Answer(syndrome) => answer(*syndrome, line),
        Became::Cnp => "cnp".to_owned(),
        Became::Arp => "arp".to_owned(),
        Became::Dropped(drop) => {
            (line.reason, line.text) = (Some(drop.name().to_owned()), Some(drop.what().to_owned()));
            "dropped".to_owned()
        }
    }
}

fn answer(syndrome: Syndrome, line: &mut WatchedEngine) -> String {
    match syndrome {
        Syndrome::Ack(_) => "ack",
        Syndrome::Rnr(code) => {
            line.wait_ns = Some(rnr_wait(code));
            "rnr_nak"
        }
        Syndrome::Nak(nak) => {
            let reason = match nak {
                Nak::Sequence => "sequence",
                Nak::InvalidRequest => "invalid_request",
                Nak::RemoteAccess => "remote_access",
                Nak::RemoteOperational => "remote_operational",
            };
            line.reason = Some(reason.to_owned());
            "nak"
        }
        Syndrome::Reserved(_) => "reserved",
    }
    .to_owned()
}

/// The stage and what is said of it; `None`: nothing.
pub(super) fn story(line: &WatchedEngine) -> Option<(&'static str, String)> {
    let peer = || match (line.rank, line.job) {
        (Some(rank), _) => format!("rank {rank}"),
        (None, Some(_)) => "the engine above".to_owned(),
        (None, None) => "nobody".to_owned(),
    };
    let number = |n: Option<u64>| n.unwrap_or_default();
    let psn = line.psn.map(|psn| format!("PSN {psn}")).unwrap_or_default();
    let reason = line.reason.as_deref().unwrap_or_default();
    let text = line.text.as_deref().unwrap_or_default();
    let since = time(line.since_ns as f64, 3);
    let answer = || match &*line.what {
        "ack" => format!("ACK of {psn}"),
        "rnr_nak" => format!("RNR NAK of {psn}: to wait {}", time(number(line.wait_ns) as f64, 3)),
        "nak" => format!("NAK `{reason}` of {psn}"),
        _ => format!("a reserved answer, {psn}"),
    };
    Some(match &*line.step {
        "came" => {
            let whose = match line.job {
                Some(job) => format!("job {job}, {}, {psn}: ", peer()),
                None => String::new(),
            };
            let became = match &*line.what {
                "stored" => {
                    let waits = line.waits_for.as_deref().unwrap_or_default();
                    let waits: Vec<_> = waits.iter().map(u16::to_string).collect();
                    let waits = match waits.len() {
                        0 => "it completes the packet".to_owned(),
                        1 => format!("waits for rank {}", waits[0]),
                        _ => format!("waits for ranks {}", waits.join(", ")),
                    };
                    format!("stored as packet {} in slot {}, {waits}", number(line.number), number(line.slot))
                }
                "result" => "a result, taken".to_owned(),
                "operation" => format!("names the operation {text}"),
                "end" => "ends the job".to_owned(),
                "cnp" => "a CNP: it is sent less".to_owned(),
                "arp" => "ARP".to_owned(),
                "dropped" => format!("not used, {reason}: {text}"),
                _ => answer(),
            };
            ("engine", whose + &became)
        }
        "folded" => {
            let ranks = line.ranks.map(|n| format!(", {n} ranks in it")).unwrap_or_default();
            ("summed", format!("after {since}{ranks}"))
        }
        "sent" => {
            let what = match &*line.what {
                "result" => format!("result, {psn},"),
                "sum" => format!("sum, {psn},"),
                _ => answer(),
            };
            let qp = line.qp.unwrap_or_default();
            ("sent", format!("{what} to {} (QP {qp}) after {since}", peer()))
        }
        "failed" => {
            let blame = line.rank.map(|rank| format!(", because of rank {rank}")).unwrap_or_default();
            ("FAILED", format!("the job: {}{blame}; there will be no sum", line.what))
        }
        _ => return None,
    })
}

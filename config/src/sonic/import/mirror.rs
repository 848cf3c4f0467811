//! `MIRROR_SESSION` of type SPAN.

use super::{Importer, Mirror};
use crate::sonic::Outcome::{Approximated, Ignored, Mapped};
use std::collections::BTreeSet;
use weir_dataplane::types::PRIORITIES;

impl Importer<'_> {
    pub(super) fn mirrors(&mut self) {
        for mut row in self.db.take("MIRROR_SESSION") {
            if row.text("type") != Some("SPAN") {
                self.db.whole(&row, Ignored, "weir mirrors to its own ports (SPAN), not through IP".into());
                continue;
            }
            let named = row.text("src_port").unwrap_or_default().to_owned();
            let (mut ports, mut unknown) = (BTreeSet::new(), Vec::new());
            for name in named.split(',').filter(|name| !name.is_empty()) {
                match self.ports_of(name) {
                    Some(found) => ports.extend(found),
                    None => unknown.push(name),
                }
            }
            let ports: Vec<usize> = ports.into_iter().collect();
            let to = row.text("dst_port").unwrap_or_default();
            let Some(to) = self.port(to) else {
                let why = self.absent(to);
                self.db.whole(&row, Ignored, format!("its dst_port: {why}"));
                continue;
            };
            if self.lags.iter().any(|lag| lag.members.contains(&to)) {
                self.db.whole(&row, Ignored, "its dst_port is a member of a PORTCHANNEL".into());
                continue;
            }
            if ports.is_empty() {
                let why = match unknown.as_slice() {
                    [] => "it names no src_port: what an access list chooses, weir has none".into(),
                    _ => format!("there is no {} in PORT or PORTCHANNEL", unknown.join(", ")),
                };
                self.db.whole(&row, Ignored, why);
                continue;
            }
            let words = [("RX", "rx"), ("TX", "tx"), ("BOTH", "both")];
            let direction = self.db.word(&row, "direction", &words).unwrap_or("both");
            let queue = self.db.number(&row, "queue", 0..=PRIORITIES as i64 - 1);
            self.note_missing(&row, "queue", "none: mirror.tc of weir");
            let tc = queue.and_then(|queue| {
                (0..PRIORITIES).find(|tc| self.leads(to, "tc_to_queue", *tc) as i64 == queue)
            });
            row.note(&["type", "dst_port", "direction"], Mapped, "mirror, the same key");
            match unknown.as_slice() {
                [] => row.note(&["src_port"], Mapped, "mirror.ports"),
                _ => row.note(
                    &["src_port"],
                    Approximated,
                    format!("there is no {} in PORT or PORTCHANNEL", unknown.join(", ")),
                ),
            }
            match tc {
                Some(_) => row.note(&["queue"], Mapped, "mirror.tc: a class of that queue"),
                None => row.note(&["queue"], Ignored, "no class leads to that queue"),
            }
            let name = self.fresh(&row, self.mirrors.len());
            let keys = [("ports", "src_port"), ("to", "dst_port"), ("tc", "queue")];
            self.comes_from("[[mirror]]", self.mirrors.len(), &row, &keys);
            self.mirrors.push(Mirror { name, ports, direction, to, tc });
            self.db.done(&row, "copies are neither policed nor sampled here");
        }
    }
}

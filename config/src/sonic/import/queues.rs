//! Schedulers, marking, what binds them, and the watchdog.

use super::{Importer, MOST, Scheduler, Watch, Wred};
use crate::sonic::Outcome::{Approximated, Ignored, Mapped};
use crate::sonic::db::{Row, shown};

/// Slowest rate a shaper keeps, bytes/s: 1 Mbit/s.
const SLOWEST: i64 = 125_000;
/// Fastest rate that is read, bytes/s.
const FASTEST: i64 = 1_250_000_000_000;
/// What holds for the watchdogs of all ports.
const GLOBAL: &str = "GLOBAL";
/// What becomes of fields of a watchdog that no port has.
pub(super) const NO_WATCHDOG: &str = "no row of PFC_WD starts a watchdog";
/// Detection time of a watchdog whose row has none, ms: that of weir and of `pfcwd start_default`.
const DETECTION: i64 = 200;
/// Fields of one colour of frames, without the colour.
const COLOURED: [&str; 3] = ["min_threshold", "max_threshold", "drop_probability"];

impl Importer<'_> {
    pub(super) fn read_schedulers(&mut self) {
        for mut row in self.db.take("SCHEDULER") {
            let kinds = [("STRICT", "STRICT"), ("DWRR", "DWRR"), ("WRR", "WRR")];
            let kind = self.db.word(&row, "type", &kinds).unwrap_or("DWRR");
            row.note(&["type"], Mapped, "scheduler.type");
            let strict = kind == "STRICT";
            let weight = self.db.number(&row, "weight", 1..=100).filter(|_| !strict);
            let priority = self.db.number(&row, "priority", 0..=7).filter(|_| strict);
            row.note(
                &["weight"],
                if strict { Ignored } else { Mapped },
                if strict { "a STRICT queue has no weight" } else { "scheduler.weight" },
            );
            row.note(
                &["priority"],
                if strict { Mapped } else { Ignored },
                if strict { "scheduler.priority" } else { "only STRICT queues have one" },
            );
            let packets = row.text("meter_type").is_some_and(|meter| meter.eq_ignore_ascii_case("packets"));
            if packets {
                row.note(&["meter_type", "cir", "pir"], Ignored, "weir meters bytes, not frames");
            } else {
                row.note(&["meter_type"], Mapped, "rates are in bytes");
            }
            let mut rate = |name: &'static str| {
                let bytes = self.db.number(&row, name, 0..=FASTEST).filter(|_| !packets)?;
                match bytes {
                    0 => row.note(&[name], Mapped, "0: no such rate"),
                    1..SLOWEST => {
                        row.note(&[name], Ignored, "below 1M, the slowest rate a shaper of weir keeps")
                    }
                    _ => row.note(&[name], Mapped, format!("scheduler.{name}, times 8: bit/s")),
                }
                Some(bytes * 8).filter(|_| bytes >= SLOWEST)
            };
            let (cir, pir) = (rate("cir"), rate("pir"));
            if let (Some(cir), Some(pir), Some(field)) = (cir, pir, row.field("cir"))
                && cir > pir
            {
                let message =
                    format!("SCHEDULER|{} guarantees more (cir) than it allows (pir)", shown(&row.key));
                self.db.error(field.at, "sonic.scheduler", message, "keep cir <= pir");
            }
            let name = self.fresh(&row, self.schedulers.len());
            self.names.insert(("SCHEDULER", row.key.clone()), self.schedulers.len());
            let keys = ["weight", "priority", "cir", "pir"].map(|key| (key, key));
            self.comes_from("[[scheduler]]", self.schedulers.len(), &row, &keys);
            self.schedulers.push(Scheduler { name, kind, weight, priority, cir, pir });
            self.db.done(&row, "the burst of a shaper is one turn of the polling loop");
        }
    }

    pub(super) fn read_wreds(&mut self) {
        for mut row in self.db.take("WRED_PROFILE") {
            let kmin = self.db.number(&row, "green_min_threshold", 0..=MOST);
            let kmax = self.db.number(&row, "green_max_threshold", 0..=MOST);
            let pmax = self.db.number(&row, "green_drop_probability", 0..=100);
            if let (Some(kmin), Some(kmax), Some(field)) = (kmin, kmax, row.field("green_min_threshold"))
                && kmin > kmax
            {
                let message = format!(
                    "WRED_PROFILE|{}: green_min_threshold {kmin} is above green_max_threshold {kmax}",
                    shown(&row.key)
                );
                self.db.error(field.at, "sonic.wred", message, "keep the minimum at or below the maximum");
            }
            row.note(&["green_min_threshold"], Mapped, "wred.kmin");
            row.note(&["green_max_threshold"], Mapped, "wred.kmax");
            row.note(&["green_drop_probability"], Mapped, "wred.pmax");
            self.note_missing(&row, "green_min_threshold", "none: wred.kmin = \"auto\"");
            self.note_missing(&row, "green_max_threshold", "none: wred.kmax = \"auto\"");
            self.note_missing(&row, "green_drop_probability", "none: wred.pmax = \"100%\"");
            for colour in ["yellow", "red"] {
                for part in COLOURED {
                    let (name, green) = (format!("{colour}_{part}"), format!("green_{part}"));
                    self.note_missing(&row, &name, "none: an export has that of green frames");
                    match row.text(&name) == row.text(&green) {
                        true => row.note(&[&name], Mapped, "as of green frames, and all are green here"),
                        false => row.note(&[&name], Ignored, "weir has one colour of frames, green"),
                    }
                }
                let name = format!("wred_{colour}_enable");
                self.note_missing(&row, &name, "none: an export has that of green frames");
                row.note(&[&name], Ignored, "weir has one colour of frames, green");
            }
            let ecn = row.text("ecn").unwrap_or("ecn_none").to_owned();
            let marks = match ecn.as_str() {
                "ecn_all" | "ecn_green" | "ecn_green_yellow" | "ecn_green_red" => true,
                "ecn_none" | "ecn_yellow" | "ecn_red" | "ecn_yellow_red" => false,
                _ => {
                    if let Some(field) = row.field("ecn") {
                        let message = format!("WRED_PROFILE|{}|ecn = `{}`", shown(&row.key), shown(&ecn));
                        self.db.error(
                            field.at,
                            "sonic.value",
                            message,
                            "use ecn_all, ecn_none, or ecn_ and colours: ecn_green",
                        );
                    }
                    false
                }
            };
            let enabled =
                self.db.word(&row, "wred_green_enable", &[("true", true), ("false", false)]).unwrap_or(false);
            match ecn.as_str() {
                _ if marks && !enabled => {
                    let why = "wred.ecn = \"none\": without wred_green_enable no green frame is marked there, and all are green here";
                    row.note(&["ecn"], Approximated, why);
                }
                "ecn_all" | "ecn_none" => row.note(&["ecn"], Mapped, "wred.ecn"),
                _ => {
                    row.note(&["ecn"], Approximated, "wred.ecn: that of green frames, and all are green here")
                }
            }
            self.note_missing(&row, "ecn", "none: ecn_none");
            self.note_missing(&row, "wred_green_enable", "none: false");
            let name = self.fresh(&row, self.wreds.len());
            self.names.insert(("WRED_PROFILE", row.key.clone()), self.wreds.len());
            let keys = [
                ("kmin", "green_min_threshold"),
                ("kmax", "green_max_threshold"),
                ("pmax", "green_drop_probability"),
                ("ecn", "ecn"),
            ];
            self.comes_from("[[wred]]", self.wreds.len(), &row, &keys);
            self.wreds.push(Wred {
                name,
                kmin,
                kmax,
                pmax: pmax.unwrap_or(100),
                marks: marks && enabled,
                drops: enabled,
                row,
            });
        }
    }

    /// `QUEUE`.
    pub(super) fn bind_queues(&mut self) {
        for mut row in self.db.take("QUEUE") {
            let Some((ports, queues)) = self.targets(&row) else { continue };
            let scheduler = self.named(&mut row, "scheduler", "SCHEDULER");
            let wred = self.named(&mut row, "wred_profile", "WRED_PROFILE");
            for port in ports {
                for queue in queues.iter().map(|queue| usize::from(*queue)) {
                    let port = &mut self.ports[port];
                    port.schedulers[queue] = scheduler.or(port.schedulers[queue]);
                    port.wreds[queue] = wred.or(port.wreds[queue]);
                }
            }
            self.db.done(&row, "nothing of weir does it");
        }
    }

    fn named(&mut self, row: &mut Row, field: &str, table: &'static str) -> Option<usize> {
        let name = row.reference(field)?.to_owned();
        let found = self.names.get(&(table, name.clone())).copied();
        if found.is_some() {
            row.note(&[field], Mapped, "queue, the profile of that name");
        } else if let Some(at) = row.field(field).map(|field| field.at) {
            let message = format!("QUEUE|{}|{field}: there is no {table}|{}", shown(&row.key), shown(&name));
            self.db.error(
                at,
                "sonic.profile",
                message,
                "name a row of that table, or add the file that has it",
            );
        }
        found
    }

    /// Whether a profile may drop depends on the queues that use it: not on a lossless one.
    pub(super) fn finish_wreds(&mut self) {
        for i in 0..self.wreds.len() {
            let mut queues = self.ports.iter().flat_map(|port| {
                let uses = (0..8).filter(|q| port.wreds[*q] == Some(i));
                uses.map(|q| port.queues[q].is_some_and(|profile| self.profiles[profile].lossless))
            });
            let on_lossless = queues.any(|lossless| lossless);
            let wred = &mut self.wreds[i];
            if wred.drops && on_lossless {
                wred.drops = false;
                let why = "wred.wred_drop = false: it is used on a lossless queue, and what is lossless is never dropped early";
                wred.row.note(&["wred_green_enable"], Approximated, why);
            } else {
                wred.row.note(&["wred_green_enable"], Mapped, "wred.wred_drop");
            }
            self.db.done(&wred.row, "nothing of weir does it");
        }
    }

    /// Some port has one, while nobody has taken its row: `pfcwd stop` leaves what is of no port.
    pub(super) fn has_watchdog(&self) -> bool {
        self.db.rows("PFC_WD").any(|row| row.key != GLOBAL)
    }

    pub(super) fn watchdog(&mut self) {
        let mut watched = vec![false; self.ports.len()];
        let mut first: Option<(String, Watch)> = None;
        let mut unpaused = Vec::new();
        let starts = self.has_watchdog();
        for mut row in self.db.take("PFC_WD") {
            if row.key == GLOBAL {
                self.poll = self.db.number(&row, "POLL_INTERVAL", 100..=1000);
                let switch = [("enable", true), ("disable", false)];
                self.big_red_switch = self.db.word(&row, "BIG_RED_SWITCH", &switch).unwrap_or(false);
                if starts {
                    self.comes_from("[watchdog]", 0, &row, &[("poll_interval", "POLL_INTERVAL")]);
                    row.note(&["POLL_INTERVAL"], Mapped, "watchdog.poll_interval");
                    self.note_missing(&row, "POLL_INTERVAL", "none: watchdog.poll_interval of weir");
                    row.note(&["BIG_RED_SWITCH"], Mapped, "watchdog.big_red_switch");
                } else {
                    row.note(&["POLL_INTERVAL", "BIG_RED_SWITCH"], Ignored, NO_WATCHDOG);
                }
                self.db.done(&row, "nothing of weir does it");
                continue;
            }
            let Some((ports, _)) = self.targets(&row) else { continue };
            ports.iter().for_each(|port| watched[*port] = true);
            let actions = [("drop", "drop"), ("forward", "forward"), ("alert", "alert")];
            let watch = Watch {
                action: self.db.word(&row, "action", &actions).unwrap_or("drop"),
                detection: self.db.number(&row, "detection_time", 100..=5000),
                restoration: self.db.number(&row, "restoration_time", 100..=60_000),
            };
            let fields = ["action", "detection_time", "restoration_time"];
            if first.is_none() {
                self.comes_from("[watchdog]", 0, &row, &fields.map(|field| (field, field)));
            }
            let (name, counts) = first.get_or_insert((row.key.clone(), watch));
            let why = format!("none: {DETECTION} ms, or POLL_INTERVAL where that is longer");
            self.note_missing(&row, "detection_time", &why);
            self.note_missing(
                &row,
                "restoration_time",
                "none: twice detection_time, as `pfcwd start` sets it",
            );
            for port in ports.iter().filter(|port| self.ports[**port].pfc == 0) {
                let name = self.ports[*port].name.clone();
                unpaused.push(name);
            }
            match *counts == watch {
                true => row.note(&fields, Mapped, "watchdog, the same key"),
                false => {
                    let why = format!("weir has one watchdog for all ports: what {name} says counts");
                    row.note(&fields, Approximated, why);
                }
            }
            let kept = "always kept: show pfc, show events";
            let outcome = if row.text("pfc_stat_history") == Some("disable") { Approximated } else { Mapped };
            row.note(&["pfc_stat_history"], outcome, kept);
            self.db.done(&row, "nothing of weir does it");
        }
        self.watch = first.map(|(_, watch)| {
            let detection = watch.detection.unwrap_or(DETECTION.max(self.poll.unwrap_or(0)));
            let restoration = watch.restoration.unwrap_or(2 * detection);
            Watch { detection: Some(detection), restoration: Some(restoration), ..watch }
        });
        for name in unpaused {
            self.note_made(
                Approximated,
                "PFC_WD",
                name,
                "no priority of the port pauses: an export has no such row",
            );
        }
        let unwatched = self.ports.iter().zip(&watched).filter(|(port, watched)| port.pfc != 0 && !**watched);
        let names: Vec<String> = unwatched.map(|(port, _)| port.name.clone()).collect();
        if self.watch.is_some() {
            for name in names {
                self.note_made(
                    Approximated,
                    "PFC_WD",
                    name,
                    "no row: weir's watchdog looks at every lossless queue",
                );
            }
        }
    }
}

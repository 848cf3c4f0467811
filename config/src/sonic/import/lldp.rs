//! `LLDP` and `LLDP_PORT`.

use super::Importer;
use crate::LldpMode;
use crate::sonic::Outcome::{Approximated, Ignored, Mapped};
use crate::sonic::db::Row;

/// `[lldp]`, as far as the tables say.
#[derive(Default)]
pub(super) struct Lldp {
    pub enable: bool,
    /// Seconds.
    pub interval: Option<i64>,
    pub hold: Option<i64>,
    pub system_name: Option<String>,
}

/// What an export makes of it.
const OFF: &str = "lldp.enable is not true, and an export of such a switch has no rows of LLDP";

pub(super) const YES_OR_NO: [(&str, bool); 2] = [("true", true), ("false", false)];

impl Importer<'_> {
    pub(super) fn lldp(&mut self) {
        for mut row in self.db.take("LLDP") {
            if row.key != "GLOBAL" {
                self.db.whole(&row, Ignored, "SONiC has LLDP|GLOBAL".into());
                continue;
            }
            // Where nothing is said SONiC speaks it.
            let enable = self.db.word(&row, "enabled", &YES_OR_NO).unwrap_or(true);
            match enable {
                true => row.note(&["enabled"], Mapped, "lldp.enable"),
                false => self.db.whole(&row, Approximated, OFF.into()),
            }
            let interval = self.db.number(&row, "hello_time", 5..=254);
            row.note(&["hello_time"], Mapped, "lldp.interval");
            let hold = self.db.number(&row, "multiplier", 1..=10);
            row.note(&["multiplier"], Mapped, "lldp.hold");
            let system_name = row.text("system_name").map(str::to_owned);
            row.note(&["system_name"], Mapped, "lldp.system_name");
            for field in ["hello_time", "multiplier", "system_name"] {
                self.note_missing(&row, field, "none: that of weir");
            }
            if let Some(mode) = self.lldp_mode(&mut row, true) {
                self.ports.iter_mut().for_each(|port| port.lldp = Some(mode));
            }
            self.management_address(&mut row);
            self.db.done(&row, "weir sends what it is");
            let keys = [("interval", "hello_time"), ("hold", "multiplier"), ("system_name", "system_name")];
            self.comes_from("[lldp]", 0, &row, &keys);
            self.lldp = Some(Lldp { enable, interval, hold, system_name });
        }
        for mut row in self.db.take("LLDP_PORT") {
            let Some(port) = self.port(&row.key) else {
                self.db.whole(&row, Ignored, self.absent(&row.key).into());
                continue;
            };
            if self.lldp.as_ref().is_none_or(|lldp| !lldp.enable) {
                self.db.whole(&row, Approximated, OFF.into());
            }
            let enabled = self.db.word(&row, "enabled", &YES_OR_NO).unwrap_or(true);
            row.note(&["enabled"], Mapped, "port.lldp");
            if let Some(mode) = self.lldp_mode(&mut row, enabled) {
                self.ports[port].lldp = Some(mode);
            }
            self.management_address(&mut row);
            self.db.done(&row, "weir has no such field");
        }
    }

    /// SONiC sends the address of its management interface or none; weir the one of a key, or that its API listens on.
    fn management_address(&mut self, row: &mut Row) {
        const FIELD: &str = "supp_mgmt_address_tlv";
        match self.db.word(row, FIELD, &YES_OR_NO) {
            Some(false) => row.note(
                &[FIELD],
                Ignored,
                "weir sends lldp.management_address, or what mgmt.listen has: listen = \"off\" sends none",
            ),
            _ => row.note(
                &[FIELD],
                Approximated,
                "set lldp.management_address, unless mgmt.listen names an address",
            ),
        }
    }

    /// What a port does, unless it does both.
    fn lldp_mode(&mut self, row: &mut Row, enabled: bool) -> Option<LldpMode> {
        let receives = self.db.word(row, "mode", &[("RECEIVE", true), ("TRANSMIT", false)]);
        match receives {
            Some(false) => {
                row.note(&["mode"], Approximated, "port.lldp: a port of weir that sends receives, too")
            }
            _ => row.note(&["mode"], Mapped, "port.lldp"),
        }
        match (enabled, receives) {
            (false, _) => Some(LldpMode::Off),
            (true, Some(true)) => Some(LldpMode::Receive),
            (true, _) => None,
        }
    }
}

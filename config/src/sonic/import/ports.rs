//! Ports, cables, class maps and what binds them.

use super::queues::NO_WATCHDOG;
use super::{FASTEST, Importer, Port};
use crate::read::fits_name;
use crate::sonic::Outcome::{Approximated, Ignored, Mapped};
use crate::sonic::db::{Row, shown};
use crate::sonic::{CABLES, HEADERS, MAPS, Rest, STORM_TYPES};
use crate::units;

impl Importer<'_> {
    /// Why a port that is named is not there.
    pub(super) fn absent(&self, name: &str) -> &'static str {
        match self.inside.contains(name.trim()) {
            true => "the port was left out, as it is inside the chip",
            false => "there is no such port in PORT",
        }
    }

    /// Its `admin_status` is down.
    pub(super) fn is_down(&mut self, row: &Row) -> bool {
        self.db.word(row, "admin_status", &[("down", true), ("up", false)]).unwrap_or(false)
    }

    pub(super) fn metadata(&mut self) {
        let rows = self.db.take("DEVICE_METADATA");
        let said = |field: &str| rows.iter().find_map(|row| row.text(field));
        self.find_asic(said("hostname"), said("asic_name"));
        for mut row in rows {
            if self.asic.is_some() {
                let why = "which rows of queues are this switch's: an export has their ports alone";
                row.note(&["asic_name"], Approximated, why);
            }
            if let Some(name) = row.text("hostname").filter(|name| fits_name(name)) {
                self.name = Some(name.to_owned());
                row.note(&["hostname"], Mapped, "switch.name");
            } else {
                row.note(&["hostname"], Ignored, "switch.name has at most 32 letters, digits and _ - . /");
            }
            self.db.done(&row, "weir is a bridge and has one role");
        }
        if self.name.is_none() {
            self.note_field("DEVICE_METADATA", "localhost".into(), "hostname", "none: switch.name of weir");
        }
    }

    pub(super) fn read_ports(&mut self) {
        let rows = self.db.take("PORT");
        let some = !rows.is_empty();
        for mut row in rows {
            // Recirculation, inband and DPU ports carry nothing from outside.
            if let Some(role @ ("Rec" | "Inb" | "Dpc")) = row.text("role") {
                self.db.whole(&row, Ignored, format!("a port of role {role} is inside the chip"));
                self.inside.insert(row.key);
                continue;
            }
            if !fits_name(&row.key) {
                let message = format!("PORT|{} cannot be the name of a port", shown(&row.key));
                self.db.error(row.at, "sonic.name", message, "use 1 to 32 letters, digits and _ - . /");
            }
            let mut port = Port { name: row.key.clone(), ..Port::default() };
            let keys = [("rate", "speed"), ("mtu", "mtu"), ("admin", "admin_status")];
            self.comes_from("[[port]]", self.ports.len(), &row, &keys);
            port.speed = self.db.number(&row, "speed", 1..=FASTEST).map(|n| n as u64);
            row.note(&["speed"], Mapped, "port.rate");
            self.note_missing(&row, "speed", "none: port.rate of weir");
            // weir's frames may be 16128 bytes long.
            port.mtu = self.db.number(&row, "mtu", 68..=16_128 - HEADERS as i64).map(|n| n as u64);
            self.note_missing(&row, "mtu", "none: port.mtu of weir");
            row.note(&["mtu"], Mapped, format!("port.mtu: {HEADERS} bytes more, header and VLAN tag"));
            port.asymmetric =
                self.db.word(&row, "pfc_asym", &[("on", true), ("off", false)]).unwrap_or(false);
            row.note(&["pfc_asym"], Mapped, "port.pfc.rx");
            port.down = self.is_down(&row);
            row.note(&["admin_status"], Mapped, "port.admin");
            row.note(&["tpid"], Ignored, "weir knows the tags 0x8100 and 0x88a8 on every port");
            self.ports.push(port);
            self.db.done(&row, "of the hardware, or of a router: what carries the port is its `device`");
        }
        if self.ports.is_empty() && !self.db.found.has_errors() {
            let at = self.db.start();
            let help = "add PORT rows, { \"Ethernet0\": { \"speed\": \"100000\", \"mtu\": \"9100\" } }, in this file or a further one";
            let message = match some {
                true => "every port in table PORT is inside the chip",
                false => "there is no port in table PORT",
            };
            self.db.error(at, "sonic.ports", message.into(), help);
        }
    }

    /// The number of a port.
    pub(super) fn port(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|port| port.name == name.trim())
    }

    /// The numbers of a port, or of the members of a LAG.
    pub(super) fn ports_of(&self, name: &str) -> Option<Vec<usize>> {
        let lag = || self.lags.iter().find(|lag| lag.of == name.trim()).map(|lag| lag.members.clone());
        self.port(name).map(|port| vec![port]).or_else(lag)
    }

    pub(super) fn cables(&mut self) {
        for mut row in self.db.take("CABLE_LENGTH") {
            let names: Vec<String> = row.fields.iter().map(|field| field.name.clone()).collect();
            for name in names {
                let Some(field) = row.field(&name) else { continue };
                let (value, at) = (field.value.clone(), field.at);
                if units::length(&value).is_err() || value.trim().parse::<u64>().is_ok() {
                    let message = format!(
                        "CABLE_LENGTH|{}|{} = `{}` is no number with a unit",
                        row.key,
                        shown(&name),
                        shown(&value)
                    );
                    self.db.error(at, "sonic.value", message, "write a length in metres, such as \"40m\"");
                } else if let Some(port) = self.port(&name) {
                    self.ports[port].cable = Some(value);
                    self.comes_from("[[port]]", port, &row, &[("cable", &name)]);
                    row.note(&[&name], Mapped, "port.cable");
                } else {
                    row.note(&[&name], Ignored, self.absent(&name));
                }
            }
            self.db.done(&row, "");
            if row.key != CABLES {
                let why = format!("the row has no name here: an export calls it {CABLES}");
                self.db.whole(&row, Approximated, why);
            }
        }
    }

    /// `PORT_STORM_CONTROL|Ethernet0|broadcast`: a limit of one kind at one port.
    pub(super) fn storm_control(&mut self) {
        for mut row in self.db.take("PORT_STORM_CONTROL") {
            let (name, kind) = row.key.split_once('|').unwrap_or((&row.key, ""));
            let Some((_, kind)) = STORM_TYPES.iter().find(|(word, _)| *word == kind) else {
                let message = format!("PORT_STORM_CONTROL|{}", shown(&row.key));
                let words = STORM_TYPES.map(|(word, _)| word).join(", ");
                self.db.error(row.at, "sonic.key", message, &format!("write a port and one of {words}"));
                continue;
            };
            let Some(port) = self.port(name) else {
                self.db.whole(&row, Ignored, self.absent(name).into());
                continue;
            };
            match self.db.number(&row, "kbps", 0..=FASTEST * 1_000) {
                Some(0) => row.note(&["kbps"], Ignored, "a limit of 0 would stop ARP, and weir has none"),
                kbps => {
                    self.ports[port].storm_control[*kind as usize] = kbps.map(|n| n as u64);
                    let why = format!("port.storm_control.{}: preamble and gap count", kind.word());
                    row.note(&["kbps"], Mapped, why);
                }
            }
            self.db.done(&row, "a limit of weir is a rate");
        }
    }

    /// The class maps, complete: what a row does not list leads where SAI sends it.
    pub(super) fn read_maps(&mut self) {
        for (kind, &(table, _, _, inputs, rest)) in MAPS.iter().enumerate() {
            for row in self.db.take(table) {
                let unlisted = |i: usize| if rest == Rest::Same { i as u8 } else { 0 };
                let mut map: Vec<u8> = (0..inputs).map(unlisted).collect();
                for field in &row.fields {
                    let from = field.name.parse::<usize>().ok().filter(|n| *n < inputs);
                    let to = field.value.trim().parse::<u8>().ok().filter(|n| *n < 8);
                    if let (Some(from), Some(to)) = (from, to) {
                        map[from] = to;
                    } else {
                        let message = format!(
                            "{table}|{}: `{}` to `{}`",
                            row.key,
                            shown(&field.name),
                            shown(&field.value)
                        );
                        let help = format!("map numbers from 0 to {} to numbers from 0 to 7", inputs - 1);
                        self.db.error(field.at, "sonic.map", message, &help);
                    }
                }
                let listed = row.fields.len();
                let why = match (listed < inputs, rest) {
                    (true, Rest::Zero) => format!("map: {} it does not list lead to 0", inputs - listed),
                    (true, Rest::Same) => {
                        format!("map: {} it does not list stay what they are", inputs - listed)
                    }
                    _ => "map".to_owned(),
                };
                self.db.whole(&row, Mapped, why);
                self.maps.insert((kind, row.key), map);
            }
        }
    }

    /// `PORT_QOS_MAP`: which maps a port uses, and which of its priorities pause.
    pub(super) fn qos_of_ports(&mut self) {
        for mut row in self.db.take("PORT_QOS_MAP") {
            let global = row.key == "global";
            let ports = match global {
                true => (0..self.ports.len()).collect(),
                false => match self.targets(&row) {
                    Some((ports, _)) => ports,
                    None => continue,
                },
            };
            for (kind, &(table, field, key, ..)) in MAPS.iter().enumerate() {
                let Some(name) = row.reference(field).map(str::to_owned) else { continue };
                if !self.maps.contains_key(&(kind, name.clone())) {
                    let at = row.field(field).map_or(row.at, |field| field.at);
                    let message = format!(
                        "PORT_QOS_MAP|{}|{field}: there is no {table}|{}",
                        shown(&row.key),
                        shown(&name)
                    );
                    self.db.error(
                        at,
                        "sonic.map",
                        message,
                        "name a row of that table, or add the file that has it",
                    );
                    continue;
                }
                for &port in &ports {
                    let chosen = &mut self.ports[port].maps[kind];
                    if !global || chosen.is_none() {
                        *chosen = Some(name.clone());
                    }
                }
                row.note(&[field], Mapped, format!("{key} of the port"));
            }
            if let Some(mask) = self.priorities(&row, "pfc_enable") {
                for &port in &ports {
                    self.ports[port].pfc = mask;
                    let keys = [("pfc", "pfc_enable"), ("trust", "dscp_to_tc_map"), ("maps", "tc_to_pg_map")];
                    self.comes_from("[[port]]", port, &row, &keys);
                }
                row.note(&["pfc_enable"], Mapped, "port.pfc.enable");
            }
            let watched = self.priorities(&row, "pfcwd_sw_enable");
            let (outcome, why) = match watched == self.priorities(&row, "pfc_enable") {
                _ if !self.has_watchdog() => (Ignored, NO_WATCHDOG),
                true => (Mapped, "watchdog: of every lossless queue"),
                false => (Approximated, "weir's watchdog looks at every lossless queue"),
            };
            row.note(&["pfcwd_sw_enable"], outcome, why);
            if self.has_watchdog() {
                self.note_missing(
                    &row,
                    "pfcwd_sw_enable",
                    "none: weir's watchdog looks at every lossless queue",
                );
            }
            let why =
                "the shaper of a port is port.rate here, which is its `speed`: lower that to shape the port";
            row.note(&["scheduler"], Ignored, why);
            self.db.done(&row, "weir changes no DSCP or PCP and has no such map");
        }
    }

    /// Priorities in a field: `3,4`.
    fn priorities(&mut self, row: &Row, name: &str) -> Option<u8> {
        let field = row.field(name)?;
        let parts = field.value.split(',').map(str::trim).filter(|part| !part.is_empty());
        let bit = |part: &str| part.parse::<u8>().ok().filter(|p| *p < 8).map(|p| 1u8 << p);
        let mask = parts.map(bit).try_fold(0, |mask, bit| Some(mask | bit?));
        if mask.is_none() {
            let message = format!("{}|{}|{name} = `{}`", row.table, shown(&row.key), shown(&field.value));
            self.db.error(field.at, "sonic.value", message, "write priorities from 0 to 7, such as \"3,4\"");
        }
        mask
    }

    /// Where a map of a port leads.
    pub(super) fn leads(&self, port: usize, key: &str, from: usize) -> usize {
        let kind = MAPS.iter().position(|(_, _, k, ..)| *k == key);
        let chosen = kind.and_then(|kind| Some((kind, self.ports[port].maps[kind].clone()?)));
        chosen.and_then(|chosen| self.maps.get(&chosen)?.get(from).copied()).map_or(from, usize::from)
    }
}

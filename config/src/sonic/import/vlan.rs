//! `VLAN`, `VLAN_MEMBER` and the static entries of `FDB`.

use super::lag::listed;
use super::{Importer, Port, Station};
use crate::sonic::Outcome::{self, Approximated, Ignored, Mapped};
use crate::sonic::db::Row;
use crate::vlan::LAST;
use std::collections::BTreeSet;
use weir_dataplane::types::Mac;
use weir_dataplane::vlan::{PortVlans, VidSet};

impl Importer<'_> {
    /// Gives ports their VLANs. In SONiC a port of none is routed; in weir it is a trunk without VLANs, with its LAG.
    pub(super) fn vlans(&mut self) {
        let known: BTreeSet<u16> = self.db.rows("VLAN").filter_map(|row| vid_of(&row.key)).collect();
        let mut named = BTreeSet::new();
        for mut row in self.db.take("VLAN_MEMBER") {
            let (outcome, why) = self.vlan_member(&row, &known);
            row.note(&["tagging_mode"], outcome, why.clone());
            match row.fields.is_empty() {
                true => self.db.whole(&row, outcome, why),
                false => self.db.done(&row, ""),
            }
            named.insert(row.key);
        }
        for mut row in self.db.take("VLAN") {
            let Some(vid) = vid_of(&row.key) else {
                let help = "call it Vlan and a number from 1 to 4094";
                self.db.error(row.at, "sonic.key", format!("VLAN|{}", row.key), help);
                continue;
            };
            let said = self.db.number(&row, "vlanid", 1..=i64::from(LAST));
            if said.is_some_and(|said| said != i64::from(vid)) {
                let at = row.field("vlanid").map_or(row.at, |field| field.at);
                let message = format!("VLAN|{} has the vlanid of another", row.key);
                self.db.error(
                    at,
                    "sonic.value",
                    message,
                    "write the number in its name, or leave vlanid out",
                );
            }
            row.note(&["vlanid"], Mapped, "port.vlan");
            // Older files list members in the row, in some beside rows of their own.
            let also: Vec<String> = listed(&row).map(str::to_owned).collect();
            let also = also.into_iter().filter(|name| !named.contains(&format!("{}|{name}", row.key)));
            let not = also
                .filter_map(|name| self.join(vid, &name, false).err().map(|why| format!("{name}: {why}")));
            let not: Vec<String> = not.collect();
            match not.as_slice() {
                [] => row.note(
                    &["members"],
                    Mapped,
                    "port.vlan, without tags where no row of VLAN_MEMBER says more",
                ),
                not => row.note(&["members"], Approximated, format!("port.vlan without {}", not.join("; "))),
            }
            match row.fields.is_empty() {
                true => self.db.whole(&row, Mapped, "port.vlan".into()),
                false => self.db.done(&row, "weir is a bridge: it has no addresses and relays nothing"),
            }
        }
        if known.is_empty() {
            return;
        }
        for vid in known {
            let has = |port: &Port| port.vlans.as_ref().is_some_and(|vlans| vlans.members.contains(vid));
            if !self.ports.iter().any(has) {
                self.note_made(
                    Approximated,
                    "VLAN",
                    format!("Vlan{vid}"),
                    "no port is in it: an export has no such row",
                );
            }
        }
        for i in 0..self.ports.len() {
            if self.ports[i].vlans.is_some() {
                continue;
            }
            let lag = self.lags.iter().find(|lag| lag.members.contains(&i));
            let (name, all) = lag
                .map_or((self.ports[i].name.clone(), vec![i]), |lag| (lag.of.clone(), lag.members.clone()));
            all.into_iter().for_each(|port| self.ports[port].vlans = Some(no_vlan()));
            let why = "it is in no VLAN, so routed there: here it reaches nobody, since weir routes nothing; give it a VLAN \
                       of those it is to reach";
            self.note_made(Approximated, "VLAN_MEMBER", name, why);
        }
    }

    /// One port or LAG of one VLAN, and what became of it.
    fn vlan_member(&mut self, row: &Row, known: &BTreeSet<u16>) -> (Outcome, String) {
        let (vlan, name) = row.key.split_once('|').unwrap_or((&row.key, ""));
        let Some(vid) = vid_of(vlan).filter(|vid| known.contains(vid)) else {
            return (Ignored, "there is no such VLAN".into());
        };
        let tagged = match row.text("tagging_mode") {
            Some("tagged") => true,
            None | Some("untagged" | "priority_tagged") => false,
            Some(other) => return (Ignored, format!("{other} is not a tagging mode")),
        };
        match (self.join(vid, name, tagged), row.text("tagging_mode")) {
            (Err(why), _) => (Ignored, why),
            (Ok(()), Some("priority_tagged")) => (Approximated, "port.vlan, without tags".into()),
            (Ok(()), _) => (Mapped, "port.vlan".into()),
        }
    }

    /// A port, or all of a LAG, is a member of a VLAN.
    ///
    /// # Errors
    /// Why it cannot be.
    fn join(&mut self, vid: u16, name: &str, tagged: bool) -> Result<(), String> {
        let ports = self.ports_of(name).ok_or_else(|| self.absent(name))?;
        let in_lag = |port: usize| self.lags.iter().any(|lag| lag.of != name && lag.members.contains(&port));
        if ports.iter().any(|port| in_lag(*port)) {
            return Err("the port is a member of a PORTCHANNEL, which is what has VLANs".into());
        }
        for port in ports {
            let vlans = self.ports[port].vlans.get_or_insert_with(no_vlan);
            if let (false, Some(other)) = (tagged, vlans.native.filter(|other| *other != vid)) {
                return Err(format!("its frames without a tag are in VLAN {other}"));
            }
            vlans.native = if tagged { vlans.native } else { Some(vid) };
            vlans.members.insert(vid);
        }
        Ok(())
    }

    /// `FDB|Vlan10:00-11-22-33-44-55`: a station that stays where it is.
    pub(super) fn stations(&mut self) {
        for mut row in self.db.take("FDB") {
            let (vlan, mac) = row.key.split_once(['|', ':']).unwrap_or((&row.key, ""));
            let mac: Option<Mac> = mac.parse().ok();
            let (Some(vid), Some(mac)) = (vid_of(vlan), mac.filter(|mac| !mac.is_group())) else {
                let help =
                    "write a VLAN and the MAC address of one station, such as \"Vlan10|00:11:22:33:44:55\"";
                self.db.error(row.at, "sonic.key", format!("FDB|{}", row.key), help);
                continue;
            };
            let name = row.text("port").unwrap_or_default().to_owned();
            let why = match self.ports_of(&name).map(|ports| ports[0]) {
                _ if row.text("type") == Some("dynamic") => "what was learned is learned again".into(),
                None => self.absent(&name).into(),
                Some(port) if !self.ports[port].vlans.as_ref().is_some_and(|v| v.members.contains(vid)) => {
                    "its port is not a member of that VLAN".into()
                }
                Some(port) => {
                    self.comes_from("[[fdb.static]]", self.stations.len(), &row, &[("port", "port")]);
                    self.stations.push(Station { mac, vid, port });
                    row.note(&["port"], Mapped, "fdb.static");
                    match row.text("type") {
                        Some("static") => row.note(&["type"], Mapped, "fdb.static"),
                        _ => {
                            row.note(&["type"], Approximated, "fdb.static: static is the only type of those")
                        }
                    }
                    self.db.done(&row, "an entry of weir says what it says by port, MAC address and VLAN");
                    continue;
                }
            };
            self.db.whole(&row, Ignored, why);
        }
    }
}

/// `Vlan10`.
fn vid_of(name: &str) -> Option<u16> {
    name.strip_prefix("Vlan")?.parse().ok().filter(|vid| (1..=LAST).contains(vid))
}

fn no_vlan() -> PortVlans {
    PortVlans { native: None, members: VidSet::from_iter([]) }
}

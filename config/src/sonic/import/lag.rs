//! `PORTCHANNEL` and `PORTCHANNEL_MEMBER`.

use super::lldp::YES_OR_NO;
use super::{Importer, Lag};
use crate::sonic::Outcome::{Approximated, Ignored, Mapped};
use crate::sonic::db::Row;
use weir_dataplane::lag::MAX_MEMBERS;

impl Importer<'_> {
    pub(super) fn lags(&mut self) {
        let mut rows = self.db.take("PORTCHANNEL_MEMBER");
        for mut row in self.db.take("PORTCHANNEL") {
            let (mine, others) = rows.into_iter().partition(|member| lag_of(&member.key).0 == row.key);
            rows = others;
            let mut members: Vec<usize> = Vec::new();
            let named: Vec<&str> = mine.iter().map(|member| lag_of(&member.key).1).collect();
            let also: Vec<String> =
                listed(&row).filter(|name| !named.contains(name)).map(str::to_owned).collect();
            for member in mine {
                match self.member(&members, lag_of(&member.key).1) {
                    Ok(port) => {
                        members.push(port);
                        self.db.whole(&member, Mapped, "lag.members".into());
                    }
                    Err(why) => self.db.whole(&member, Ignored, why),
                }
            }
            let mut unusable = Vec::new();
            for name in also {
                match self.member(&members, &name) {
                    Ok(port) => members.push(port),
                    Err(why) => unusable.push(format!("{name}: {why}")),
                }
            }
            match unusable.as_slice() {
                [] => row.note(&["members"], Mapped, "lag.members"),
                _ => row.note(
                    &["members"],
                    Approximated,
                    format!("lag.members without {}", unusable.join("; ")),
                ),
            }
            if members.is_empty() {
                self.db.whole(&row, Ignored, "it has no member that weir could use".into());
                continue;
            }
            let (name, down) = (self.fresh(&row, self.lags.len()), self.is_down(&row));
            self.comes_from(
                "[[lag]]",
                self.lags.len(),
                &row,
                &[("min_links", "min_links"), ("lacp_key", "lacp_key")],
            );
            row.note(&["admin_status"], Mapped, "lag.admin");
            let lacp = self.lacp(&mut row, members.len());
            self.lags.push(Lag { of: row.key.clone(), name, members, down, lacp });
            self.db.done(&row, "what a LAG of weir has are its members");
        }
        for member in rows {
            self.db.whole(&member, Ignored, "there is no such PORTCHANNEL".into());
        }
    }

    /// The keys of a LAG that speaks LACP, as SONiC's do unless they are `static`.
    fn lacp(&mut self, row: &mut Row, members: usize) -> Vec<(&'static str, String)> {
        if row.text("static") == Some("true") {
            row.note(&["static"], Mapped, "lag.lacp = \"off\"");
            return Vec::new();
        }
        let mut keys = vec![("lacp", "\"active\"".to_owned())];
        row.note(&["static"], Mapped, "lag.lacp = \"active\"");
        if self.db.word(row, "fast_rate", &YES_OR_NO) == Some(true) {
            keys.push(("lacp_rate", "\"fast\"".to_owned()));
        }
        row.note(&["fast_rate"], Mapped, "lag.lacp_rate");
        // It is of no use to be refused by a number that no link can reach any more.
        let min_links = self.db.number(row, "min_links", 0..=1024).unwrap_or(0);
        match usize::try_from(min_links).is_ok_and(|min_links| min_links <= members) {
            true if min_links == 0 => {
                row.note(&["min_links"], Approximated, "lag.min_links: 1, the least there is")
            }
            true => row.note(&["min_links"], Mapped, "lag.min_links"),
            false => row.note(&["min_links"], Approximated, "lag.min_links: as many as it has members"),
        }
        if min_links > 1 && members > 1 {
            keys.push(("min_links", min_links.min(members as i64).to_string()));
        }
        if self.db.word(row, "fallback", &YES_OR_NO) == Some(true) {
            keys.push(("fallback", true.to_string()));
        }
        row.note(&["fallback"], Mapped, "lag.fallback");
        // `auto`: the number at the end of the name, as here.
        if row.text("lacp_key").is_some_and(|key| key != "auto")
            && let Some(key) = self.db.number(row, "lacp_key", 1..=u16::MAX.into())
        {
            keys.push(("lacp_key", key.to_string()));
        }
        row.note(&["lacp_key"], Mapped, "lag.lacp_key");
        keys
    }

    /// The port of this name, if it may stand for the others of its LAG.
    fn member(&self, others: &[usize], name: &str) -> Result<usize, String> {
        let at = self.port(name).ok_or_else(|| self.absent(name))?;
        let outside = |why: &str| {
            format!(
                "{why}: it is a port by itself now, a loop with the rest of its bundle unless it is unplugged"
            )
        };
        let taken = self.lags.iter().flat_map(|lag| &lag.members).chain(others).any(|port| *port == at);
        if taken {
            return Err("the port is a member already".into());
        }
        if others.len() == MAX_MEMBERS {
            return Err(outside("a LAG of weir has 16 members at most"));
        }
        let like = |port: usize| {
            let port = &self.ports[port];
            (port.speed, port.mtu, port.storm_control)
        };
        match others.first() {
            Some(first) if like(*first) != like(at) => Err(outside(
                "members of a LAG have one speed, MTU and limits on flooding, and this port has others",
            )),
            _ => Ok(at),
        }
    }
}

/// Members in the row of a LAG, where SONiC wrote them once.
pub(super) fn listed(lag: &Row) -> impl Iterator<Item = &str> {
    let listed = lag.text("members").unwrap_or_default().split(',');
    listed.map(str::trim).filter(|name| !name.is_empty())
}

/// LAG and port of a key, `PortChannel1|Ethernet0`.
pub(super) fn lag_of(key: &str) -> (&str, &str) {
    key.split_once('|').unwrap_or((key, ""))
}

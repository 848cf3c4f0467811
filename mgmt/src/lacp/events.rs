//! Members that begin and cease to carry frames, partners that change, and cables that lead to the wrong one, as events.

use super::agent::{LagReading, MemberReading};
use super::frame::{PortInfo, SystemId};
use super::group::Why;
use super::port::Mux;
use crate::events::{Allowance, Log, at_port};
use crate::snapshot::Snapshot;
use serde_json::{Map, Value, json};

/// What has been told of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// The LAG with LACP that it is a member of.
    lag: Option<String>,
    sends: bool,
    partner: Option<(SystemId, u16)>,
    wrong: Option<Why>,
    allowance: Allowance,
}

impl Told {
    fn of(member: Option<(&str, &MemberReading)>) -> Self {
        let Some((lag, member)) = member else { return Self::default() };
        Self {
            lag: Some(lag.to_owned()),
            sends: member.mux == Mux::Distributing,
            partner: member.partner.as_ref().map(identity),
            wrong: Some(member.why).filter(|why| is_wrong(*why)),
            allowance: Allowance::default(),
        }
    }

    /// Whatever is so has been told.
    pub fn at(now: &Snapshot, port: usize) -> Self {
        Self::of(member(now, port).map(|(lag, member)| (lag.name.as_str(), member)))
    }
}

/// A port as a member of a LAG with LACP.
fn member(now: &Snapshot, port: usize) -> Option<(&LagReading, &MemberReading)> {
    let member = now.now.lacp.member(port)?;
    let lag = now.now.lacp.lags.iter().find(|lag| lag.members.iter().any(|one| one.port == member.port))?;
    Some((lag, member))
}

/// The aggregate at the other end.
fn identity(partner: &PortInfo) -> (SystemId, u16) {
    (partner.system, partner.key)
}

/// The cable leads to somebody whom the LAG is not with.
fn is_wrong(why: Why) -> bool {
    matches!(why, Why::OtherPartner | Why::Loop | Why::Individual)
}

/// Adds what has happened at a port since it was last told. Where it has left its LAG, or that speaks no LACP any more, whatever was told of it
/// has ended.
pub(crate) fn observe(told: &mut Told, now: &Snapshot, port: usize, log: &mut Log) {
    let found = member(now, port);
    let is = Told::of(found.map(|(lag, member)| (lag.name.as_str(), member)));
    if (&told.lag, told.sends, told.partner, told.wrong) == (&is.lag, is.sends, is.partner, is.wrong)
        || !told.allowance.may(now.uptime_ms)
    {
        return;
    }
    let of_lag = |lag: &Option<String>, kind: &str, phase: &str, more: &[(&str, Value)]| {
        let mut body: Map<String, Value> = at_port(now, kind, phase, port);
        body.insert("lag".into(), json!(lag));
        body.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        body
    };
    if told.lag != is.lag {
        if told.sends {
            log.push(of_lag(&told.lag, "lacp", "down", &[("why", json!("no_member"))]));
        }
        if told.wrong.is_some() {
            log.push(of_lag(&told.lag, "lacp_wrong_partner", "end", &[]));
        }
        *told = Told { lag: is.lag.clone(), allowance: told.allowance, ..Told::default() };
    }
    let Some((lag, member)) = found else { return };
    let body = |kind: &str, phase: &str, more: &[(&str, Value)]| of_lag(&is.lag, kind, phase, more);
    let who = |partner: Option<(SystemId, u16)>| match partner {
        Some((system, key)) => (json!(system.to_string()), json!(key)),
        None => (Value::Null, Value::Null),
    };
    let (system, key) = who(is.partner);
    let partner = [("partner_system", system), ("partner_key", key)];
    if told.partner != is.partner {
        let (was_system, was_key) = who(told.partner);
        let was = [("was_system", was_system), ("was_key", was_key)];
        log.push(body("lacp_partner", "changed", &[&partner[..], &was].concat()));
    }
    let why = [("why", json!(member.why.word()))];
    if told.sends != is.sends {
        let more: &[_] = if is.sends { &partner } else { &why };
        log.push(body("lacp", if is.sends { "up" } else { "down" }, more));
    }
    match (told.wrong, is.wrong) {
        (Some(_), None) => log.push(body("lacp_wrong_partner", "end", &[])),
        (was, Some(wrong)) if was != is.wrong => {
            let expected = who(lag.partner);
            let expected = [("lag_system", expected.0), ("lag_key", expected.1)];
            let remedy = [("remedy", json!(wrong.remedy()))];
            log.push(body("lacp_wrong_partner", "alarm", &[&why[..], &partner, &expected, &remedy].concat()));
        }
        _ => {}
    }
    *told = Told { allowance: told.allowance, ..is };
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;

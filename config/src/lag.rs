//! `[[lag]]`: ports that are one to the forwarding table, and `[lacp]`.

use super::diag::Span;
use super::fdb::find_port;
use super::host::HOST_MAC;
use super::read::{Ctx, Section, Val};
use super::sched::named;
use super::schema;
use super::types::{
    AdminStatus, LacpConfig, LacpMode, LacpRate, LagConfig, LagHash, LagLacp, MirrorConfig, PortConfig,
};
use super::units::BOOL;
use std::collections::HashMap;
use toml::de::{DeTable, DeValue};
use weir_dataplane::lag::MAX_MEMBERS;
use weir_dataplane::turn::Platform;
use weir_dataplane::types::PortId;

/// Names and members of LAGs as they are written, before any is checked.
pub(super) fn written(root: &DeTable<'_>) -> Vec<(String, Vec<String>)> {
    let text = |value: &DeValue<'_>| value.as_str().map(str::to_owned);
    let listed = root.get("lag").and_then(|lag| lag.get_ref().as_array());
    let tables = listed.into_iter().flat_map(|all| all.iter()).filter_map(|lag| lag.get_ref().as_table());
    tables
        .filter_map(|lag| {
            let members = lag.get("members").and_then(|members| members.get_ref().as_array());
            let members = members.into_iter().flat_map(|all| all.iter());
            let members = members.filter_map(|member| text(member.get_ref())).collect();
            Some((text(lag.get("name")?.get_ref())?, members))
        })
        .collect()
}

/// LAGs, each of ports that may stand for one another.
pub(super) fn read(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    ports: &[PortConfig],
    mirrors: &[(MirrorConfig, Span)],
    platform: Platform,
) -> Vec<LagConfig> {
    let mut keys = HashMap::new();
    let mut all: Vec<LagConfig> = Vec::new();
    for (name, item) in named(ctx, root, "lag", &schema::LAG) {
        let hash =
            item.or(ctx, "hash", &LagHash::KIND, LagHash::L4, "flows of one pair of hosts are divided").v;
        let admin =
            item.or(ctx, "admin", &AdminStatus::KIND, AdminStatus::Up, "its members say themselves").v;
        let (lag, at) = (name.v, item.span(ctx));
        if ports.iter().any(|port| port.name == lag) {
            let message = format!("LAG `{lag}` is called like a port");
            ctx.error(name.span, "lag.name", message, "give the LAG a name of its own");
        }
        let Some(listed) = item.list(ctx, "members").filter(|listed| !listed.is_empty()) else {
            let message = format!("LAG `{lag}` has no members");
            ctx.error(at, "lag.members", message, "add members = [\"p0\", \"p1\"]");
            continue;
        };
        let mut members: Vec<PortId> = Vec::new();
        for listed in listed {
            let Some(text) = listed.v.as_str() else {
                ctx.error(
                    listed.span,
                    "value",
                    "a port is chosen by name",
                    "write members = [\"p0\", \"p1\"]",
                );
                continue;
            };
            let port = Val { v: text.to_owned(), span: listed.span, origin: listed.origin };
            let Some(port) = find_port(ctx, &port, ports) else { continue };
            let before =
                all.iter().find(|other| other.members.contains(&port)).map(|other| other.name.as_str());
            if let Some(other) = before.or(members.contains(&port).then_some(&lag)) {
                let message = format!("`{text}` is a member of LAG `{other}` already");
                ctx.error(listed.span, "lag.twice", message, "name each port in one LAG, once");
                continue;
            }
            members.push(port);
        }
        item.explain_list(ctx, "members", members.iter().map(|port| &ports[port.index()].name));
        if members.len() > MAX_MEMBERS {
            let message = format!("LAG `{lag}` has {} members, more than {MAX_MEMBERS}", members.len());
            ctx.error(at, "lag.members", message, format!("name at most {MAX_MEMBERS} ports"));
        }
        check(ctx, &lag, at, &members, ports, mirrors);
        let lacp = read_lacp(ctx, &item, &lag, (members.len(), platform));
        if let Some(lacp) = &lacp
            && let Some(other) = keys.insert(lacp.key, lag.clone())
        {
            let message = format!(
                "LAG `{lag}` has the LACP key {} of `{other}`: a partner would have both for one",
                lacp.key
            );
            ctx.error(at, "lag.lacp_key", message, "give each a lacp_key of its own");
        }
        all.push(LagConfig { name: lag, members, hash, admin, lacp });
    }
    all
}

/// The key of a LAG, unless it is given: partners tell by it which ports belong together, so it should stay what it is when others come
/// and go. The number at the end of the name, as SONiC has it.
pub(crate) fn key_of(name: &str) -> u16 {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok().filter(|key| *key > 0).unwrap_or(1)
}

/// Keys that mean nothing to a LAG without LACP.
const LACP_KEYS: [&str; 4] = ["lacp_rate", "min_links", "fallback", "lacp_key"];

/// How a LAG with so many members speaks LACP.
fn read_lacp(
    ctx: &mut Ctx<'_>,
    item: &Section<'_>,
    lag: &str,
    (members, platform): (usize, Platform),
) -> Option<LagLacp> {
    let mode =
        item.or(ctx, "lacp", &LacpMode::KIND, LacpMode::Off, "what stands at the other end may not speak it");
    if mode.v == LacpMode::Off {
        for key in LACP_KEYS {
            if let Some(value) = item.raw(ctx, key) {
                let message = format!("{}: LAG `{lag}` speaks no LACP", item.key(key));
                ctx.error(value.span, "lag.static", message, "write lacp = \"active\", or take it out");
            }
        }
        return None;
    }
    let rate = item.or(
        ctx,
        "lacp_rate",
        &LacpRate::KIND,
        LacpRate::Slow,
        "a link that is down is noticed at once either way",
    );
    let min_links = item.int_or(ctx, "min_links", 1..=MAX_MEMBERS as u64, 1, "any link is better than none");
    if min_links.v > members as u64 {
        let message = format!("LAG `{lag}` has {members} members, fewer than min_links = {}", min_links.v);
        ctx.error(min_links.span, "lag.min_links", message, "name more members, or lower min_links");
    }
    let fallback =
        item.or(ctx, "fallback", &BOOL, false, "who speaks no LACP may not know of the other links");
    if fallback.v && min_links.v > 1 {
        let message = format!(
            "LAG `{lag}` never falls back: that is to one link, fewer than min_links = {}",
            min_links.v
        );
        ctx.warn(fallback.span, "lag.fallback", message, "take out one of the two");
    }
    let key = item.int_or(
        ctx,
        "lacp_key",
        1..=u16::MAX.into(),
        key_of(lag).into(),
        "the number at the end of the name, or 1",
    );
    if platform == Platform::Simulated {
        let message = format!(
            "LAG `{lag}`: nobody speaks LACP in virtual time; its members carry frames as if both ends had agreed"
        );
        ctx.warn(
            mode.span,
            "lag.simulated",
            message,
            "nothing, if all its links are to be in use; else leave out those that are not",
        );
    }
    Some(LagLacp {
        active: mode.v == LacpMode::Active,
        fast: rate.v == LacpRate::Fast,
        min_links: min_links.v as u8,
        fallback: fallback.v,
        key: key.v as u16,
    })
}

/// `[lacp]`.
pub(super) fn read_system(ctx: &mut Ctx<'_>, root: &Section<'_>) -> LacpConfig {
    let s = root.table(ctx, "lacp", &schema::LACP);
    let why = "the other end has the say, if it wants it";
    let system_priority =
        s.int_or(ctx, "system_priority", 0..=u16::MAX.into(), u16::MAX.into(), why).v as u16;
    let system_id = s.get(ctx, "system_id", &HOST_MAC).map(|mac| mac.v);
    LacpConfig { system_priority, system_id }
}

fn check(
    ctx: &mut Ctx<'_>,
    name: &str,
    at: Span,
    members: &[PortId],
    ports: &[PortConfig],
    mirrors: &[(MirrorConfig, Span)],
) {
    let mut of = members.iter().map(|port| (*port, &ports[port.index()]));
    let Some((_, first)) = of.clone().next() else { return };
    for (id, port) in of.by_ref() {
        if port.engine.is_some() {
            let message = format!("`{}` of LAG `{name}` is an engine, which has no link", port.name);
            ctx.error(at, "lag.engine", message, "name ports with a device behind them");
        }
        if let Some((mirror, _)) =
            mirrors.iter().find(|(mirror, _)| mirror.port().is_some_and(|(to, _)| to == id))
        {
            let message =
                format!("`{}` of LAG `{name}` is where mirror `{}` sends to", port.name, mirror.name);
            ctx.error(at, "lag.mirror", message, "let the mirror send to a port of no LAG");
        }
        let differs = [
            ("format", port.format != first.format),
            ("rate", port.rate != first.rate),
            ("mtu", port.mtu != first.mtu),
            ("vlan", port.vlans != first.vlans),
            ("learning", (port.learning, port.learn_limit) != (first.learning, first.learn_limit)),
            ("unknown_unicast", port.unknown_unicast != first.unknown_unicast),
            ("storm_control", port.storm_control != first.storm_control),
        ];
        for (key, _) in differs.iter().filter(|(_, differs)| *differs) {
            let message = format!("`{}` and `{}` of LAG `{name}` differ in {key}", first.name, port.name);
            ctx.error(at, "lag.differs", message, format!("give all members the same {key}"));
        }
    }
}

//! `[[lag]]`: ports that are one to the forwarding table.

use super::diag::Span;
use super::fdb::find_port;
use super::read::{Ctx, Section, Val};
use super::sched::named;
use super::schema;
use super::types::{AdminStatus, LagConfig, LagHash, MirrorConfig, PortConfig};
use toml::de::{DeTable, DeValue};
use weir_dataplane::lag::MAX_MEMBERS;
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
) -> Vec<LagConfig> {
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
        all.push(LagConfig { name: lag, members, hash, admin });
    }
    all
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

//! `/v1/explain` and `weir explain`: a question about a frame, and the answer of the pipeline's own code.

use crate::admin::fdb::address_of;
use crate::admin::{Fault, verdict};
use crate::api::documents::{
    ExplainedDown, ExplainedFlood, ExplainedFrame, ExplainedGroup, ExplainedMark, ExplainedMulticast,
    ExplainedPool, ExplainedPortLimit, ExplainedTakes, ExplainedVlan, FrameClass, QueueUse,
};
use crate::api::{Kind as Of, Parameter, parameter};
use crate::mcast::McastReading;
use crate::mcast::route::{Group, Route};
use weir_config::{Config, LagConfig, show_flood_limit};
use weir_dataplane::drops::DropReason;
use weir_dataplane::ecn::ONE_Q32;
use weir_dataplane::explain::{Asked, ControlPool, ExplainError, Explanation, Occupancy, explain};
use weir_dataplane::mmu::{PgView, PortView};
use weir_dataplane::parse::{GROUP_BIT, Kind};
use weir_dataplane::portset::PortSet;
use weir_dataplane::storm_control::FloodKind;
use weir_dataplane::switch::SwitchParams;
use weir_dataplane::types::{PRIORITIES, PortId};
use weir_layout::{Grid, grouped, percent};

/// ECN code points, by value.
const ECN: [&str; 4] = ["not-ect", "ect1", "ect0", "ce"];

/// Kinds that have a class of their own, and all others.
const KINDS: [(&str, Kind); 4] =
    [("data", Kind::Data), ("cnp", Kind::Cnp), ("ack", Kind::Ack), ("lldp", Kind::Reserved)];

/// Parameters of a question, in the query as on the command line.
pub const PARAMETERS: [Parameter; 12] = [
    Parameter { required: true, ..parameter("port", "port the frame arrives on", Of::Port) },
    parameter(
        "to",
        "port or LAG it leaves by, of a LAG the member whose queue is the fullest; the port whose queue is the fullest unless given; of a frame with several copies the one to be shown",
        Of::PortOrLag,
    ),
    parameter(
        "dst",
        "its destination address: six bytes, or a number in the formats with shorter ones; it goes where the forwarding table says",
        Of::Pattern("^(0x0*[0-9a-fA-F]{1,12}|([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2})$"),
    ),
    parameter("len", "bytes, without FCS; 1024 unless given", Of::Integer(1, 16_128)),
    parameter("dscp", "DSCP of its IP header", Of::Integer(0, 63)),
    parameter("pcp", "PCP of its VLAN tag", Of::Integer(0, 7)),
    parameter("vid", "VID of its VLAN tag; with pcp alone it is a priority tag, VID 0", Of::Integer(0, 4095)),
    parameter("tc", "its AFH traffic-class octet", Of::Integer(0, 255)),
    parameter("ecn", "its ECN code point; ect0 unless given, if it is IP", Of::Word(|| ECN.to_vec())),
    parameter(
        "kind",
        "what it is: CNP and ACK frames have a class of their own; lldp: to 01:80:c2:00:00:0e",
        Of::Word(|| KINDS.map(|(word, _)| word).to_vec()),
    ),
    parameter(
        "flood",
        "it is flooded, as this: the limits of the port are asked, too",
        Of::Word(|| FloodKind::ALL.map(FloodKind::word).to_vec()),
    ),
    parameter(
        "group",
        "multicast group it is for, an IP or MAC address: it goes where that is joined",
        Of::Text,
    ),
];

/// A question: each parameter and its value, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question(pub Vec<(String, String)>);

impl Question {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// An integer, in the range of its parameter.
    fn number(&self, name: &str) -> Result<Option<u32>, Box<Fault>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let known = PARAMETERS.iter().find(|known| known.name == name).map(|known| known.kind);
        let (least, most) = match known {
            Some(Of::Integer(least, most)) => (least, most),
            _ => (0, u64::from(u32::MAX)),
        };
        let number = text.parse().ok().filter(|n| (least..=most).contains(n));
        let wrong = || {
            let wanted = format!("a number from {least} to {most}");
            wrong(name, &format!("`{text}` is not {wanted}"), &format!("write {wanted}"))
        };
        number.map(|n| Some(n as u32)).ok_or_else(wrong)
    }

    fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Box<Fault>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        found.map(Some).ok_or_else(|| {
            let wanted = format!("one of {}", known.join(", "));
            wrong(name, &format!("`{text}` is not {wanted}"), &format!("write {wanted}"))
        })
    }

    /// The frame it asks about, on a switch of this configuration that knows these groups, and where its own goes, if it is for one.
    /// `learned`: where its destination was ([`Question::station`]).
    ///
    /// # Errors
    /// The parameter at fault.
    pub fn asked(
        &self,
        config: &Config,
        params: &SwitchParams,
        mcast: &McastReading,
        learned: Option<PortSet>,
    ) -> Result<(Asked, Option<ExplainedMulticast>), Box<Fault>> {
        let mut asked = self.frame(config)?;
        match learned {
            Some(ports) => asked.to = Some(ports),
            // A static station, or one that nobody knows: which of its copies is shown is all that `to` says then.
            None if asked.dst.is_some() && asked.to.is_some() => {
                asked.flood = Some(FloodKind::UnknownUnicast)
            }
            None => {}
        }
        let Some(group) = self.group()? else { return Ok((asked, None)) };
        let vid = vid_of(params, &asked);
        let route = Route::of(config, mcast, vid, &group);
        asked.group = route.ports();
        asked.dst = Some(group.mac.to_u64());
        Ok((asked, Some(multicast(config, vid, &group, &route))))
    }

    /// The key of a destination that was named, if it is no group: where that was learned is for the forwarding table to say.
    ///
    /// # Errors
    /// The parameter at fault.
    pub fn station(&self, config: &Config, params: &SwitchParams) -> Result<Option<u64>, Box<Fault>> {
        let asked = self.frame(config)?;
        let vid = vid_of(params, &asked);
        let profile = &params.ports[asked.port.index()].profile;
        let station = asked.dst.filter(|dst| dst & GROUP_BIT == 0);
        Ok(station.map(|dst| profile.key(dst, vid)))
    }

    fn frame(&self, config: &Config) -> Result<Asked, Box<Fault>> {
        let no_such = |name: &str, text: &str, lags: &[LagConfig]| {
            let ports = config.ports.iter().map(|port| port.name.as_str());
            let names: Vec<_> = ports.chain(lags.iter().map(|lag| lag.name.as_str())).collect();
            let remedy = format!("name one of {}", names.join(", "));
            wrong(name, &format!("no port is called `{text}`"), &remedy)
        };
        let port = self.text("port").ok_or_else(|| {
            wrong("port", "it is not said on which port the frame arrives", "give the name of a port")
        })?;
        let port = config.port(port).ok_or_else(|| no_such("port", port, &[]))?;
        let to = |text: &str| {
            let members = config.lags.iter().find(|lag| lag.name == text).map(|lag| lag.members.clone());
            let ports = config.port(text).map(|port| vec![port]).or(members);
            ports.map(PortSet::from_iter).ok_or_else(|| no_such("to", text, &config.lags))
        };
        let small = |name: &str| self.number(name).map(|n| n.map(|n| n as u8));
        let code = [0, 1, 2, 3].map(|point| (ECN[usize::from(point)], point));
        Ok(Asked {
            port,
            dst: self.dst()?,
            to: self.text("to").map(to).transpose()?,
            len: self.number("len")?.unwrap_or(1024),
            dscp: small("dscp")?,
            pcp: small("pcp")?,
            vid: self.number("vid")?.map(|vid| vid as u16),
            tc: small("tc")?,
            ecn: self.word("ecn", &code)?,
            kind: self.word("kind", &KINDS)?.unwrap_or(Kind::Data),
            flood: self.word("flood", &FloodKind::ALL.map(|kind| (kind.word(), kind)))?,
            group: None,
        })
    }

    fn dst(&self) -> Result<Option<u64>, Box<Fault>> {
        let Some(text) = self.text("dst") else { return Ok(None) };
        if let Some(other) = ["flood", "group"].into_iter().find(|other| self.text(other).is_some()) {
            return Err(wrong("dst", "an address says where its frames go", &format!("leave out `{other}`")));
        }
        let wanted = "six bytes as 02:00:00:00:00:01, or a number as 0x1f";
        let bad = || wrong("dst", &format!("`{text}` is no address"), &format!("write {wanted}"));
        address_of(text).map(Some).ok_or_else(bad)
    }

    /// The group that it is for, if that is asked, by itself or as a destination.
    fn group(&self) -> Result<Option<Group>, Box<Fault>> {
        let of_group = self.dst()?.filter(|dst| dst & GROUP_BIT != 0 && dst + 1 < 1 << 48);
        if let (Some(_), Some(text)) = (of_group, self.text("dst")) {
            // A group of a format with other addresses is none that hosts join.
            return Ok(text.parse().ok());
        }
        let Some(text) = self.text("group") else { return Ok(None) };
        if self.text("flood").is_some() {
            return Err(wrong("group", "a group says where its frames go", "leave out `flood`"));
        }
        let wrong = || {
            let remedy = "write an IP or MAC address of a group, as 239.1.1.1 or 01:00:5e:01:01:01";
            wrong("group", &format!("`{text}` is no address of a multicast group"), remedy)
        };
        text.parse().map(Some).map_err(|()| wrong())
    }
}

/// The VLAN in the key of its destination.
fn vid_of(params: &SwitchParams, asked: &Asked) -> u16 {
    let tag = asked.vid.or(asked.pcp.map(|_| 0));
    match &params.ports[asked.port.index()].vlans {
        Some(vlans) => vlans.of_tag(tag).map_or(0, |vlan| vlan.vid),
        None => tag.unwrap_or(0),
    }
}

fn wrong(name: &str, detail: &str, remedy: &str) -> Box<Fault> {
    let (path, detail, remedy) = (name.to_owned(), detail.to_owned(), remedy.to_owned());
    Box::new(Fault { path, detail, remedy, ..Fault::default() })
}

/// The answer, as a document. `learned`: where the destination was ([`Question::station`]).
///
/// # Errors
/// The parameter at fault.
pub fn answer(
    config: &Config,
    params: &SwitchParams,
    seen: &Occupancy,
    mcast: &McastReading,
    learned: Option<PortSet>,
    question: &Question,
) -> Result<ExplainedFrame, Box<Fault>> {
    let (asked, multicast) = question.asked(config, params, mcast, learned)?;
    let told = explain(params, seen, &asked).map_err(fault)?;
    if let (Some(to), Some(dst), Some(shown)) = (question.frame(config)?.to, question.text("dst"), told.shown)
        && !to.contains(shown.out)
    {
        let detail = format!("frames for {dst} go to `{}`, not there", config.ports[shown.out.index()].name);
        return Err(wrong("to", &detail, "leave it out, or name a port they go to"));
    }
    Ok(ExplainedFrame { multicast, ..document(config, &asked, &told) })
}

/// Why there is no answer.
pub fn fault(error: ExplainError) -> Box<Fault> {
    match error {
        ExplainError::NoField(field) => {
            wrong("port", &field.to_string(), "leave out what asks for it, or name a port of another format")
        }
        error @ ExplainError::Switch(_) => {
            wrong("buffer", &error.to_string(), "ask again: the switch is read while it works")
        }
    }
}

fn multicast(config: &Config, vid: u16, group: &Group, route: &Route) -> ExplainedMulticast {
    let name = |port: PortId| {
        let lag = config.lag_of(port).map(|lag| lag.name.clone());
        lag.unwrap_or_else(|| config.ports[port.index()].name.clone())
    };
    let names = |ports: PortSet| ports.iter().map(name).collect();
    ExplainedMulticast {
        group: group.to_string(),
        mac: group.mac.to_string(),
        why: route.why.word().into(),
        members: names(route.members),
        routers: names(route.routers),
        text: route.text(vid, name),
    }
}

fn document(config: &Config, asked: &Asked, e: &Explanation) -> ExplainedFrame {
    let name = |port: PortId| config.ports[port.index()].name.clone();
    let is_queued = e.copies.iter().any(|copy| copy.lost.is_none());
    let group = e.group.as_ref();
    let reason = e.lost.first().map(|(reason, _)| *reason);
    let in_headroom = group.is_some_and(|group| group.after.headroom > group.before.headroom);
    let verdict = match reason {
        _ if e.consumed => verdict::CONSUMED,
        Some(_) if is_queued => verdict::SOME_DROPPED,
        Some(_) => verdict::DROPPED,
        None if group.is_some_and(|group| group.xoff) => verdict::XOFF_REACHED,
        None if in_headroom => verdict::INTO_HEADROOM,
        None => verdict::ADMITTED,
    };
    let limit = |bytes: u64| (bytes < u64::MAX >> 3).then_some(bytes);
    let of_one = |share: u64| (share as f64 / ONE_Q32 as f64 * 1e6).round() / 1e6;
    let of_port = |port: PortView| ExplainedPortLimit { shared_bytes: port.shared, limit_bytes: port.limit };
    let (pools, to) = (&e.pools, e.shown.map(|copy| copy.out));
    ExplainedFrame {
        port: name(asked.port),
        to: to.map(name),
        lag: to.and_then(|to| config.lag_of(to)).map(|lag| lag.name.clone()),
        len_bytes: asked.len,
        dscp: asked.dscp,
        pcp: asked.pcp,
        vid: asked.vid,
        vlan: e.vlan.map(|(vid, retag)| ExplainedVlan { vid, tag: retag.word().into() }),
        ecn: e.ecn.map(|ecn| ECN[usize::from(ecn & 3)].into()),
        down: e.down.map(|(ports, reason)| {
            let lag = config.lags.iter().find(|lag| PortSet::from_iter(lag.members.iter().copied()) == ports);
            let of_port = || ports.iter().map(name).collect();
            ExplainedDown {
                to: lag.map_or_else(of_port, |lag| lag.name.clone()),
                static_reason: reason.name().into(),
            }
        }),
        flood: e.flood.map(|kind| ExplainedFlood {
            kind: kind.word().into(),
            limit: e.flood_limit.map(|(limit, _)| show_flood_limit(&limit)),
            exceeded: e.flood_limit.is_some_and(|(_, exceeded)| exceeded),
        }),
        multicast: None,
        class: e.class.map(|class| FrameClass { tc: class.tc, pg: class.pg, queue: class.queue }),
        charge_bytes: group.map_or(0, |group| group.charge),
        copies: e.copies.len(),
        group: group.map(|group| {
            let pg = &group.before;
            ExplainedGroup {
                lossless: pg.lossless,
                control_pool: group.control.map(|control| match control {
                    ControlPool::Room => "used".into(),
                    ControlPool::Full(_) => "full".into(),
                }),
                used_bytes: pg.used,
                reserved_bytes: pg.reserved,
                shared_bytes: pg.shared,
                limit_bytes: limit(pg.limit),
                port: pg.port.map(of_port),
                shared_left_bytes: limit(pg.shared_left()),
                headroom_bytes: pg.headroom,
                headroom_size_bytes: pg.headroom_limit,
                xon_bytes: limit(pg.xon_shared()),
                xoff: pg.xoff,
            }
        }),
        pool: ExplainedPool {
            shared_size_bytes: pools.shared_size,
            shared_free_bytes: pools.shared_size.saturating_sub(pools.shared_used),
            headroom_size_bytes: pools.headroom_size,
            headroom_free_bytes: pools.headroom_size.saturating_sub(pools.headroom_used),
        },
        queue: e.shown.map(|copy| QueueUse {
            used_bytes: copy.queue.used,
            limit_bytes: limit(copy.queue.limit),
            port: copy.queue.port.map(of_port),
        }),
        verdict: verdict.into(),
        reason: reason.map(|reason| reason.name().into()),
        remedy: reason.map(|reason| reason.remedy().into()),
        takes: group.map_or_else(ExplainedTakes::default, |group| {
            let ([was, is], reserve) = ([&group.before, &group.after], |pg: &PgView| pg.used - pg.shared);
            ExplainedTakes {
                reserved_bytes: reserve(is) - reserve(was),
                shared_bytes: is.shared - was.shared,
                headroom_bytes: is.headroom - was.headroom,
            }
        }),
        headroom_left_bytes: group
            .map_or(0, |group| group.after.headroom_limit.saturating_sub(group.after.headroom)),
        pauses: (0..PRIORITIES).filter(|p| group.is_some_and(|group| group.pauses >> p & 1 == 1)).collect(),
        mark: e.shown.and_then(|copy| Some((copy.depth, copy.mark?))).map(|(depth, (wred, share))| {
            ExplainedMark {
                kmin_bytes: wred.kmin,
                kmax_bytes: wred.kmax,
                pmax: of_one(wred.pmax),
                depth_bytes: depth,
                probability: of_one(share),
            }
        }),
        early_drop_probability: of_one(e.shown.map_or(0, |copy| copy.early_drop)),
    }
}

/// The document for people.
pub fn text(d: &ExplainedFrame) -> String {
    let mut grid = Grid::new(&["<what", "<how"]).at_least(&[10]);
    let mut line = |head: &str, rest: String| {
        grid.push([head.to_owned(), rest]);
    };
    let field = |name: &str, value: Option<u16>| value.map(|v| format!(", {name} {v}")).unwrap_or_default();
    line(
        "frame",
        format!(
            "{} bytes on {}{}{}{}{}",
            grouped(d.len_bytes.into()),
            d.port,
            field("dscp", d.dscp.map(u16::from)),
            field("pcp", d.pcp.map(u16::from)),
            field("vid", d.vid),
            d.ecn.as_ref().map(|ecn| format!(", {ecn}")).unwrap_or_default()
        ),
    );
    if let Some(vlan) = &d.vlan {
        line("vlan", format!("{}, tag {}", vlan.vid, vlan.tag));
    }
    if let Some(down) = &d.down {
        let (to, reason) = (&down.to, &down.static_reason);
        let state = match DropReason::ALL.iter().find(|known| known.name() == *reason) {
            Some(DropReason::LookupAdminDown) => "is switched off",
            Some(DropReason::LookupLagInactive) => "LACP keeps out (show lag)",
            _ => "is down",
        };
        line(
            "station",
            format!("learned at {to}, which {state}: forgotten; a static one: DROPPED: {reason}"),
        );
    }
    if let Some(multicast) = &d.multicast {
        line("multicast", format!("{} ({}): {}", multicast.group, multicast.mac, multicast.text));
    }
    if let Some(flood) = &d.flood {
        let limit = flood.limit.as_ref().map_or("no limit".to_owned(), |limit| format!("at most {limit}"));
        let state = if flood.exceeded { ", which is exceeded now" } else { "" };
        line("flooded", format!("{}, {limit}{state}", flood.kind));
    }
    let to = d.to.as_deref().unwrap_or("no port");
    if let Some(lag) = &d.lag {
        line("lag", format!("{to} is of {lag}: a hash of the flow says by which member a frame leaves"));
    }
    if let Some(FrameClass { tc, pg, queue }) = d.class {
        let kind = match &d.group {
            Some(ExplainedGroup { control_pool: Some(pool), .. }) if pool == "used" => "",
            Some(ExplainedGroup { lossless: true, .. }) => " (lossless)",
            Some(_) => " (lossy)",
            None => "",
        };
        let of = d.to.as_ref().map(|to| format!(" of {to}")).unwrap_or_default();
        line("class", format!("tc {tc}, priority group {pg}{kind}, queue {queue}{of}"));
    }
    let p = &d.pool;
    if let Some(g) = &d.group {
        let copies = if d.copies > 1 { format!(" for {} copies", d.copies) } else { String::new() };
        line("charge", format!("{} bytes{copies}", grouped(d.charge_bytes.into())));
        match g.control_pool.as_deref() {
            Some("used") => line(
                "group",
                format!("the control pool: holds {} of {}", grouped(g.used_bytes), grouped(g.reserved_bytes)),
            ),
            control => {
                let control = control.map_or("", |_| "the control pool is full; ");
                line(
                    "group",
                    format!(
                        "{control}holds {} of {} reserved, {} of {} shared, {} of {} headroom",
                        grouped(g.used_bytes - g.shared_bytes),
                        grouped(g.reserved_bytes),
                        grouped(g.shared_bytes),
                        limit(g.limit_bytes),
                        grouped(g.headroom_bytes),
                        grouped(g.headroom_size_bytes)
                    ),
                );
                if let Some(port) = &g.port {
                    let (shared, most) = (grouped(port.shared_bytes), grouped(port.limit_bytes));
                    line("port", format!("its groups hold {shared} of {most} shared (ingress_limit)"));
                }
                line(
                    "pool",
                    format!(
                        "{} free of {} shared, {} free of {} headroom",
                        grouped(p.shared_free_bytes),
                        grouped(p.shared_size_bytes),
                        grouped(p.headroom_free_bytes),
                        grouped(p.headroom_size_bytes)
                    ),
                );
            }
        }
    }
    if let Some(queue) = &d.queue {
        let of_port = queue.port.as_ref().map_or_else(String::new, |port| {
            let (shared, most) = (grouped(port.shared_bytes), grouped(port.limit_bytes));
            format!(", lossy ones of its port {shared} of {most} (egress_limit)")
        });
        let (used, most) = (grouped(queue.used_bytes), limit(queue.limit_bytes));
        line("queue", format!("holds {used} bytes of {most}{of_port}"));
    }
    let verdict = match &d.reason {
        Some(reason) => {
            let what = if d.verdict == verdict::DROPPED { "DROPPED" } else { "SOME COPIES DROPPED" };
            format!("{what}: {reason}: {}", d.remedy.as_deref().unwrap_or(""))
        }
        None if d.verdict == verdict::CONSUMED => {
            "consumed: read by LLDP, and nothing is charged (show lldp)".to_owned()
        }
        None => format!(
            "{}: takes {} reserved, {} shared, {} headroom",
            d.verdict,
            grouped(d.takes.reserved_bytes),
            grouped(d.takes.shared_bytes),
            grouped(d.takes.headroom_bytes)
        ),
    };
    line("verdict", verdict);
    if let Some(group) = &d.group {
        line("pause", pause(d, group));
    }
    let share = |of_one: f64| percent(of_one, 2);
    match &d.mark {
        Some(mark) => line(
            "mark",
            format!(
                "{} behind {} bytes of frames (Kmin {}, Kmax {}, Pmax {})",
                share(mark.probability),
                grouped(mark.depth_bytes),
                grouped(mark.kmin_bytes),
                grouped(mark.kmax_bytes),
                share(mark.pmax)
            ),
        ),
        None if d.queue.is_some() => line("mark", "never: the queue does not mark".to_owned()),
        None => {}
    }
    if d.early_drop_probability > 0.0 {
        line("early drop", share(d.early_drop_probability));
    }
    grid.body()
}

fn limit(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "no limit".to_owned(), grouped)
}

/// What the peer is told.
fn pause(d: &ExplainedFrame, g: &ExplainedGroup) -> String {
    let left = grouped(d.headroom_left_bytes);
    let paused: Vec<String> = d.pauses.iter().map(usize::to_string).collect();
    let is_over = g.xoff || d.verdict == verdict::XOFF_REACHED;
    match (paused.join(", "), g.xoff) {
        (list, _) if list.is_empty() && g.lossless && is_over => {
            format!(
                "no: the port sends no PFC for the group, which is over its line; {left} bytes of headroom left"
            )
        }
        (list, _) if list.is_empty() && g.lossless => {
            format!("no: {} bytes of shared use below the line", limit(g.shared_left_bytes))
        }
        (list, _) if list.is_empty() => "no: the group is not lossless, or PFC is off".to_owned(),
        (list, true) => format!(
            "the peer is paused already (priority {list}); resumes at {} shared with no headroom in use; {left} bytes of headroom left",
            limit(g.xon_bytes)
        ),
        (list, false) => format!("Xoff for priority {list}; {left} bytes of headroom left"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests_in_force as in_force;
    use weir_config::{AdminStatus, LagHash};
    use weir_dataplane::mmu::Held;
    use weir_dataplane::vlan::PortVlans;

    fn question(text: &str) -> Question {
        let pair = |part: &str| part.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        Question(text.split('&').map(pair).collect())
    }

    #[test]
    fn a_question_names_what_is_wrong_with_it() {
        let f = in_force();
        for (text, path) in [
            ("dscp=3", "port"),
            ("port=p9", "port"),
            ("port=p0&to=p9", "to"),
            ("port=p0&dscp=64", "dscp"),
            ("port=p0&len=-1", "len"),
            ("port=p0&ecn=red", "ecn"),
            ("port=p0&kind=red", "kind"),
            ("port=p0&flood=red", "flood"),
            ("port=p0&group=10.0.0.1", "group"),
            ("port=p0&group=239.1.2.3&flood=broadcast", "group"),
            ("port=p0&dst=02:00:00:00:00", "dst"),
            ("port=p0&dst=02:00:00:00:00:01&group=239.1.2.3", "dst"),
        ] {
            let fault =
                question(text).asked(&f.config, &f.params, &McastReading::default(), None).unwrap_err();
            assert_eq!(fault.path, path, "{text}");
        }
    }

    /// With an address the forwarding table says where a frame goes, and `to` only which of its copies is shown.
    #[test]
    fn a_port_does_not_move_a_station() {
        let ports =
            ["p0", "p1", "p2"].map(|name| format!("[[port]]\nname = \"{name}\"\ndevice = \"ring\"\n"));
        let fixed = "[[fdb.static]]\nmac = \"02:00:00:00:00:05\"\nport = \"p2\"\n";
        let config = weir_config::load("t.toml", &(ports.concat() + fixed)).unwrap().config;
        let devices = vec![weir_config::runtime::Device { pfc: true, ..Default::default() }; 3];
        let params = weir_config::runtime::switch_params(&config, &devices, 1).unwrap();
        let ask = |text: &str, learned: Option<u16>| {
            let learned = learned.map(|port| PortSet::from_iter([PortId(port)]));
            let seen = Occupancy::default();
            answer(&config, &params, &seen, &McastReading::default(), learned, &question(text))
        };
        let unknown = ask("port=p0&dst=02:00:00:00:00:01&to=p2", None).unwrap();
        assert_eq!((unknown.copies, unknown.to.as_deref()), (2, Some("p2")));
        assert_eq!(unknown.flood.map(|flood| flood.kind).as_deref(), Some("unknown_unicast"));
        let known = ask("port=p0&dst=02:00:00:00:00:01&to=p1", Some(1)).unwrap();
        assert_eq!((known.copies, known.to.as_deref(), known.flood), (1, Some("p1"), None));
        let fixed = ask("port=p0&dst=02:00:00:00:00:05&to=p2", None).unwrap();
        assert_eq!((fixed.copies, fixed.to.as_deref(), fixed.flood), (1, Some("p2"), None));
        for (dst, learned, at) in [("02:00:00:00:00:01", Some(1), "p1"), ("02:00:00:00:00:05", None, "p2")] {
            let other = if at == "p1" { "p2" } else { "p1" };
            let fault = ask(&format!("port=p0&dst={dst}&to={other}"), learned).unwrap_err();
            assert_eq!(
                (fault.path.as_str(), fault.detail),
                ("to", format!("frames for {dst} go to `{at}`, not there"))
            );
        }
    }

    #[test]
    fn the_answer_says_what_happens_and_where_the_bytes_go() {
        let f = in_force();
        let ask = |seen: &Occupancy, text: &str| {
            answer(&f.config, &f.params, seen, &McastReading::default(), None, &question(text)).unwrap()
        };
        let calm = ask(&Occupancy::default(), "port=p0&dscp=26&len=1000");
        assert_eq!((calm.verdict.as_str(), calm.takes.reserved_bytes), ("admitted", 1000));
        let mut seen =
            Occupancy { groups: vec![Held::default(); 16], queues: vec![0; 16], ..Occupancy::default() };
        seen.groups[3].used = 1 << 30;
        seen.queues[11] = 1 << 30;
        let full = ask(&seen, "port=p0&dscp=26&len=1000");
        assert_eq!(
            (&full.pauses[..], full.mark.as_ref().map(|mark| mark.probability)),
            (&[3][..], Some(1.0))
        );
        assert!(text(&full).contains("Xoff for priority 3"), "{}", text(&full));
        let mut silent = f.params.clone();
        silent.ports[0].generate.enabled = 0;
        let asked = question("port=p0&dscp=26&len=1000");
        let silent = answer(&f.config, &silent, &seen, &McastReading::default(), None, &asked).unwrap();
        assert_eq!((silent.verdict.as_str(), silent.pauses.len()), (verdict::XOFF_REACHED, 0));
        assert!(text(&silent).contains("no: the port sends no PFC for the group"), "{}", text(&silent));
        seen.groups[3].headroom = 1 << 30;
        let lost = text(&ask(&seen, "port=p0&dscp=26&len=1000"));
        assert!(lost.contains("DROPPED: ingress.headroom_exhausted"), "{lost}");
        let broadcast = text(&ask(&Occupancy::default(), "port=p0&flood=broadcast"));
        assert!(broadcast.contains("flooded     broadcast, no limit"), "{broadcast}");
        let lldp = |params: &SwitchParams| {
            let question = question("port=p0&kind=lldp");
            text(
                &answer(&f.config, params, &Occupancy::default(), &McastReading::default(), None, &question)
                    .unwrap(),
            )
        };
        let mut params = f.params.clone();
        assert!(lldp(&params).contains("DROPPED: control.reserved_address"), "{}", lldp(&params));
        params.ports[0].link_local = 1 << 14;
        // It is of no VLAN: a trunk that shares one with its port takes it, as it is; where none is shared no bridge is.
        let vlans = |native, vid| Some(PortVlans { native, members: [vid].into_iter().collect() });
        (params.ports[0].vlans, params.ports[1].vlans) = (vlans(Some(10), 10), vlans(None, 20));
        assert!(lldp(&params).contains("DROPPED: lookup.no_port"), "{}", lldp(&params));
        params.ports[1].vlans = vlans(None, 10);
        assert!(!lldp(&params).contains("vlan "), "{}", lldp(&params));
        assert!(lldp(&params).contains("verdict     admitted"), "{}", lldp(&params));
        params.ports[0].lldp = true;
        assert!(lldp(&params).contains("consumed: read by LLDP"), "{}", lldp(&params));
        // Nowhere to go: no port is named, least of all that of arrival.
        let mut off = f.params.clone();
        let flooded = question("port=p0&flood=broadcast");
        for (admin_down, reason) in [(false, "lookup.no_port"), (true, "lookup.admin_down")] {
            off.ports.iter_mut().skip(1).for_each(|port| port.admin_down = admin_down);
            let down = (1..off.ports.len() as u16).map(PortId).collect();
            let alone = answer(
                &f.config,
                &off,
                &Occupancy { down, ..Occupancy::default() },
                &McastReading::default(),
                None,
                &flooded,
            )
            .unwrap();
            assert_eq!((&alone.to, alone.reason.as_deref()), (&None, Some(reason)));
            assert!(!text(&alone).contains("queue  "), "{}", text(&alone));
        }
        let away = Occupancy { down: PortSet::from_iter([PortId(1)]), ..Occupancy::default() };
        let away = ask(&away, "port=p0&to=p1");
        assert_eq!(away.down.as_ref().map(|down| down.to.as_str()), Some("p1"));
        assert!(text(&away).contains("a static one: DROPPED: lookup.port_down"), "{}", text(&away));
        let standby = Occupancy { not_distributing: PortSet::from_iter([PortId(1)]), ..Occupancy::default() };
        let mut asks = f.params.clone();
        asks.ports[1].lacp = true;
        let standby =
            answer(&f.config, &asks, &standby, &McastReading::default(), None, &question("port=p0&to=p1"));
        let standby = text(&standby.unwrap());
        assert!(standby.contains("which LACP keeps out") && !standby.contains("is down"), "{standby}");
        assert!(standby.contains("a static one: DROPPED: lookup.lag_inactive"), "{standby}");
        for (why, reading, group, text_of, verdict) in [
            ("not_snooped", None, "239.1.2.3", "nothing is snooped here", "admitted"),
            ("not_asked", Some(false), "239.1.2.3", "nobody asks for members", "admitted"),
            ("joined", Some(true), "239.1.2.3", "joined at p1; routers at p0", "admitted"),
            ("joined", Some(true), "01:00:5e:01:02:03", "joined at p1; routers at p0", "admitted"),
            (
                "not_joined",
                Some(true),
                "239.1.2.4",
                "nobody has joined it; routers at p0",
                "lookup.no_receiver",
            ),
            ("for_all", Some(true), "224.0.0.251", "for all", "admitted"),
        ] {
            let (mut config, mut known) = (f.config.clone(), crate::mcast::fake::reading(1));
            known.vlans.iter_mut().for_each(|vlan| vlan.vid = 0);
            config.mcast.vlans = reading.iter().map(|_| 0).collect();
            let known = if reading == Some(true) { known } else { McastReading::default() };
            let question = question(&format!("port=p0&group={group}"));
            let told = answer(&config, &f.params, &Occupancy::default(), &known, None, &question).unwrap();
            assert_eq!(told.multicast.as_ref().unwrap().why, why);
            let told = text(&told);
            assert!(told.contains(text_of) && told.contains(verdict), "{told}");
        }
        let mut narrow = f.params.clone();
        narrow.mmu.port_ingress_limit[0] = Some(20_000);
        let mut seen = Occupancy { groups: vec![Held::default(); 16], ..Occupancy::default() };
        // Another group of the port has the most of what there is.
        for (pg, shared) in [(3, 1000), (0, 18_000)] {
            seen.groups[pg].used = narrow.mmu.pgs[pg].reserved + shared;
        }
        let limited = |len: u32| {
            let asked = question(&format!("port=p0&dscp=26&len={len}"));
            answer(&f.config, &narrow, &seen, &McastReading::default(), None, &asked).unwrap()
        };
        let fits = limited(1000);
        assert_eq!((fits.verdict.as_str(), fits.takes.shared_bytes), ("admitted", 1000));
        assert!(text(&fits).contains("its groups hold 19 000 of 20 000 shared"), "{}", text(&fits));
        assert!(text(&fits).contains("no: 1 000 bytes of shared use below the line"), "{}", text(&fits));
        assert_eq!(limited(1001).verdict, verdict::XOFF_REACHED);
        let short = text(&ask(&Occupancy::default(), "port=p0&len=13"));
        assert!(short.contains("DROPPED: parse.too_short"), "{short}");
        let mut config = f.config.clone();
        config.lags = vec![LagConfig {
            name: "po1".into(),
            members: vec![PortId(1)],
            hash: LagHash::L4,
            admin: AdminStatus::Up,
            lacp: None,
        }];
        let of_lag =
            answer(&config, &f.params, &seen, &McastReading::default(), None, &question("port=p0&to=po1"))
                .unwrap();
        assert_eq!((of_lag.to.as_deref(), of_lag.lag.as_deref()), (Some("p1"), Some("po1")));
        assert!(text(&of_lag).contains("lag         p1 is of po1:"), "{}", text(&of_lag));
    }
}

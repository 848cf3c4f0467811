//! Why there was no PFC, why nothing was marked, why something was dropped: in sentences, with numbers.

use super::deadlock::{Place, first_circle};
use super::policy::Policy;
use super::report::{HeadroomPool, HostResult, LinkResult, MarkingQueue, PortResult, Report, SwitchResult};
use super::timeline::Pause;
use std::collections::{BTreeMap, BTreeSet};
use weir_config::{
    Config, EcnMode, MarkPoint, PgConfig, PortConfig, Reoccurrence, SharedLimit, WatchdogAction,
    WatchdogConfig,
};
use weir_dataplane::drops::DropReason;
use weir_layout::counted;

/// What the sentences need beyond the report.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// Configuration of the switches; they differ in ports only. `None`: there are none.
    pub config: Option<Config>,
    /// Ports, by switch and number, whose pauses a peer did not obey.
    pub deaf: BTreeMap<(String, usize), DeafPeer>,
    /// Ports, by switch and number, that lost lossless frames of groups for which they send no PFC.
    pub silent: BTreeSet<(String, usize)>,
    /// Sentences of what does not go together in the file.
    pub notes: Vec<String>,
    /// Hosts send again what is lost.
    pub resent: bool,
    /// Links lose pauses by a `pause_loss`, not by failures alone.
    pub pause_loss: bool,
    /// Links fail.
    pub failures: bool,
    /// Every failure has a repair.
    pub repaired: bool,
    /// Who may hold how much of the buffer of a switch.
    pub policy: Policy,
    /// Hosts hold one another back by credits, not by pauses.
    pub credits: bool,
    /// Pauses that wait for each other in a circle, each for the next, the last for the first.
    pub circle: Vec<CirclePause>,
    /// Hosts that can read no request until their responses go, by the hosts that hold these back; a host itself, by acknowledgements.
    pub unanswered: BTreeMap<String, BTreeSet<String>>,
}

/// A host, or a switch, that goes on sending when it is paused.
#[derive(Clone, Debug)]
pub(super) struct DeafPeer {
    pub name: String,
    pub is_host: bool,
    /// Whose pauses it does not obey, and whose frames were lost.
    pub priorities: Vec<usize>,
    /// Frames of theirs that were lost.
    pub lost: u64,
}

pub(super) fn sentences(report: &Report, context: &Context) -> Vec<String> {
    let Some(config) = &context.config else {
        let by_hosts = pfc_of_hosts(report);
        let no_switch = match by_hosts {
            None => "No PFC, no mark and no drop: there is no switch.",
            Some(_) => "No mark and no drop: there is no switch.",
        };
        let said = unanswered(report, context).into_iter().chain([no_switch.into()]).chain(by_hosts);
        let said = said.chain(full_memories(report)).chain(context.notes.iter().cloned());
        return said.chain(lost_on_links(report, context)).collect();
    };
    let mut all = context.notes.clone();
    all.extend(deadlock(report, &context.circle, config.watchdog.as_ref()));
    all.extend(unanswered(report, context));
    if report.deadlock.is_empty() {
        all.extend(storms(report, config));
    }
    all.extend(no_pfc(report, config, context.policy.limit()));
    all.extend(pfc_of_hosts(report));
    all.extend(full_memories(report));
    all.extend(no_mark(report, config));
    for (switch, port) in report.ports() {
        all.extend(drops(report, context, switch, port));
    }
    all.extend(lost_on_links(report, context));
    all
}

/// What was lost between switches and hosts.
fn lost_on_links(report: &Report, context: &Context) -> Vec<String> {
    let mut all = Vec::new();
    let lost: u64 = report.links.iter().map(|l| l.lost).sum();
    if lost > 0 {
        all.push(format!(
            "Links lost {} (data, acknowledgements, CNPs, credits): their `loss` says so.",
            counted(lost, "frame")
        ));
    }
    // A failure is one of all links between two nodes.
    let mut ways: Vec<(&str, &str, u64)> = Vec::new();
    for LinkResult { from, to, lost_down, .. } in report.links.iter().filter(|l| l.lost_down > 0) {
        match ways.iter_mut().find(|(a, b, _)| (a, b) == (&from.as_str(), &to.as_str())) {
            Some((.., lost)) => *lost += lost_down,
            None => ways.push((from, to, *lost_down)),
        }
    }
    for (from, to, lost) in ways {
        let between = |l: &&LinkResult| (l.from.as_str(), l.to.as_str()) == (from, to);
        let (links, were) = match report.links.iter().filter(between).count() {
            1 => ("link".to_owned(), "it was"),
            n => (format!("{n} links"), "they were"),
        };
        let lost = counted(lost, "frame");
        all.push(format!(
            "The {links} from {from} to {to} lost {lost} (data, acknowledgements, CNPs, credits) while {were} down."
        ));
    }
    let lost: u64 = report.links.iter().map(|l| l.lost_pauses).sum();
    if lost > 0 {
        let cause = match (context.pause_loss, context.failures) {
            (true, true) => "by their `pause_loss`, or while they were down",
            (true, false) => "their `pause_loss` says so",
            (false, _) => "while they were down",
        };
        all.push(format!("Links lost {}: {cause}.", counted(lost, "PFC frame")));
    }
    all
}

/// Hosts that wait for each other to the end of a run: each sends no response until the next reads a request, and the last until the
/// first does. One alone waits for itself.
pub(super) fn circle_of_hosts(report: &Report, context: &Context) -> Vec<String> {
    if report.stopped {
        return Vec::new();
    }
    let waits =
        context.unanswered.iter().map(|(host, by)| (host.as_str(), by.iter().map(String::as_str).collect()));
    first_circle(waits.collect()).into_iter().map(str::to_owned).collect()
}

/// A switch that holds its peer back on a priority, as one of a circle.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CirclePause {
    pub switch: String,
    pub port: usize,
    pub priority: u8,
}

impl CirclePause {
    /// At this place, of nodes with these names.
    pub fn new((node, port, priority): Place, names: &[String]) -> Self {
        Self { switch: names[node].clone(), port, priority }
    }

    fn is(&self, listed: &Pause) -> bool {
        (&self.switch, self.port, self.priority) == (&listed.node, listed.port, listed.priority)
    }
}

/// The switches of a circle.
pub(super) fn switches(circle: &[CirclePause]) -> Vec<String> {
    circle.iter().map(|pause| pause.switch.clone()).collect()
}

fn lasting(report: &Report) -> impl Iterator<Item = &Pause> {
    report.timeline.pauses.iter().filter(|p| p.to_ns == report.end_ns)
}

/// The circle in words, with what the watchdog of the switches has done about it.
pub(super) fn deadlock(
    report: &Report,
    circle: &[CirclePause],
    watchdog: Option<&WatchdogConfig>,
) -> Option<String> {
    let first = circle.first()?;
    let of_circle = |p: &&Pause| circle.iter().any(|pause| pause.is(p));
    let since = lasting(report).filter(of_circle).map(|p| p.from_ns).max()?;
    let watchdog = watchdog_at(report, since, watchdog);
    Some(format!(
        "PFC deadlock: pauses wait for each other in a circle, {} -> {}, since {since} ns. {watchdog}; routes without a \
         cycle avoid it.",
        switches(circle).join(" -> "),
        first.switch
    ))
}

/// The circle of hosts in words.
fn unanswered(report: &Report, context: &Context) -> Option<String> {
    let first = report.deadlock.first().filter(|first| context.unanswered.contains_key(*first))?;
    if report.deadlock.len() == 1 {
        let others =
            context.unanswered.iter().filter(|(host, by)| *host != first && by.contains(*host)).count();
        let others =
            if others > 0 { format!(" So has {}.", counted(others, "other host")) } else { String::new() };
        return Some(format!(
            "Deadlock of requests and acknowledgements: {first} has its memory full of requests, reads the next one when it can send \
             a response, and sends one when others are acknowledged, but the pause of its memory holds back acknowledgements, too.{others} \
             Remedy: a priority for acknowledgements that requests do not have, `priorities.ack` in [host.rclink]."
        ));
    }
    let (full, held, apart) = match context.credits {
        true => (
            "the memory that its credits are worth",
            "have taken the credits of the same channel",
            "a channel",
        ),
        false => ("its memory", "hold back responses of the same priority", "one"),
    };
    Some(format!(
        "Deadlock of requests and responses: {} -> {first}: each has {full} full of requests, reads the next one when it can send \
         a response, and sends one when the next host reads, since requests {held}. \
         Remedy: {apart} for responses alone, `priorities.response` in [host.rclink].",
        report.deadlock.join(" -> ")
    ))
}

/// What the watchdog has done about a circle there is since `since`.
fn watchdog_at(report: &Report, since: u64, watchdog: Option<&WatchdogConfig>) -> String {
    let storms: u64 = report.ports().map(|(_, port)| port.storms).sum();
    let Some(WatchdogConfig { action, detection, .. }) = watchdog else {
        return "The watchdog ([watchdog] of a switch) breaks such a circle at the price of drops".into();
    };
    match action {
        WatchdogAction::Alert => format!(
            "The watchdog has seen {}, and with action = \"alert\" it breaks no circle; \"drop\" does, at the price of \
             drops",
            counted(storms, "storm")
        ),
        _ if storms > 0 => format!(
            "The watchdog has seen {} and dropped {} of lossless classes, and pauses closed the circle again",
            counted(storms, "storm"),
            counted(report.lossless_drops_watchdog, "frame")
        ),
        _ if since.saturating_add(*detection) > report.end_ns => format!(
            "The watchdog acts {detection} ns after a queue has come to a stop (detection_time of [switch.config.watchdog]), and \
             the run ended before, at {} ns: a shorter one, or a later `stop_time`, shows it break the circle at the price of drops",
            report.end_ns
        ),
        _ => format!("The watchdog, whose detection_time is {detection} ns, has seen no storm"),
    }
}

fn fullest(report: &Report, of: impl Fn(&PortResult) -> u64) -> Option<(&SwitchResult, &PortResult)> {
    report.ports().max_by_key(|(_, port)| of(port))
}

fn no_pfc(report: &Report, config: &Config, limit: &str) -> Option<String> {
    if report.pauses() > 0 {
        return None;
    }
    let none = if report.host_pfc() > 0 { "No switch sent PFC" } else { "No PFC was sent" };
    if config.ports.iter().all(|port| port.pfc.enable == 0) {
        return Some(format!("{none}: no port has a priority with PFC enabled."));
    }
    if config.ports.iter().all(|port| port.pfc.enable == 0 || !port.pfc.tx) {
        return Some(format!(
            "{none}: ports with priorities enabled obey it alone (`pfc` has `tx = false`)."
        ));
    }
    let (switch, port) = fullest(report, |p| p.pg_peak)?;
    let lossless = || config.ports.iter().flat_map(|port| &port.pgs).filter(|pg| pg.lossless);
    let fixed = |pg: &PgConfig| matches!(pg.shared, SharedLimit::Static(_));
    let limit = match (lossless().any(fixed), lossless().all(fixed)) {
        (_, true) => "`static_th`".to_owned(),
        (true, false) => format!("`static_th`, or {limit}"),
        (false, false) => limit.to_owned(),
    };
    let is_of_port =
        |port: &PortConfig| port.ingress_limit.is_some() && port.pgs.iter().any(|pg| pg.lossless);
    let limit = match config.ports.iter().any(is_of_port) {
        true => format!("{limit}, or the `ingress_limit` of its port"),
        false => limit,
    };
    let (above, most) = fullest(report, |p| p.headroom_peak)?;
    if most.headroom_peak > 0 {
        return Some(format!(
            "{none}, although a lossless priority group ({} port {}) was above its limit ({limit}) by up to {} bytes of headroom: a port \
             sends no pause that its `pfc` does not enable, nor one that is over before the line to its peer is free.",
            above.name, most.port, most.headroom_peak
        ));
    }
    Some(format!(
        "{none}: the fullest lossless priority group ({} port {}) held {} shared bytes, and no \
         group reached its limit ({limit}) of the {} shared bytes.",
        switch.name,
        port.port,
        port.pg_peak,
        switch.memory_of(port).shared
    ))
}

/// What hosts sent where switches sent none.
fn pfc_of_hosts(report: &Report) -> Option<String> {
    let most = report.hosts.iter().max_by_key(|host| host.pfc_tx)?;
    let (all, HostResult { name, pfc_tx, memory_peak, .. }) = (report.host_pfc(), most);
    (report.pauses() == 0 && all > 0).then(|| {
        format!(
            "Hosts sent {} as their receive memories filled, {name} most, {pfc_tx}: its memories held {} at most.",
            counted(all, "PFC frame"),
            counted(*memory_peak, "byte")
        )
    })
}

/// What hosts threw away because they had no room for it.
fn full_memories(report: &Report) -> Option<String> {
    let HostResult { name, no_room, memory_peak, .. } =
        report.hosts.iter().max_by_key(|host| host.no_room)?;
    let all: u64 = report.hosts.iter().map(|host| host.no_room).sum();
    (all > 0).then(|| {
        format!(
            "Hosts threw away {} because their receive memories were full, {name} most, {no_room}: its memories held \
             {memory_peak} bytes at most. Above its pause a memory has room for what comes in a `round_trip`. Remedy: a longer one in \
             [host.rclink], and senders that obey its pauses.",
            counted(all, "frame")
        )
    })
}

fn no_mark(report: &Report, config: &Config) -> Option<String> {
    if report.marks() > 0 {
        return None;
    }
    let format = |port: &PortConfig| &config.formats[port.format];
    if let Some(first) = config.ports.first()
        && config.ports.iter().all(|port| format(port).ecn == EcnMode::None)
    {
        return Some(format!(
            "Nothing was marked: frames of format {} have no ECN field.",
            format(first).name
        ));
    }
    let queues =
        report.ports().flat_map(|(switch, port)| port.marking.iter().map(move |q| (switch, port, q)));
    // The one whose frames were chosen, that went furthest beyond where its own marking begins, or that was the longest.
    let longest = queues.max_by_key(|(_, _, q)| (q.chosen, q.depth.saturating_sub(q.begins), q.depth));
    let Some((switch, port, MarkingQueue { queue, depth, is_alone, begins: point, is_drawn, mark, chosen })) =
        longest
    else {
        return Some(
            "Nothing was marked: no queue has a marking profile whose `ecn` its frames have.".into(),
        );
    };
    let or_chance = if *is_drawn { ", or chance spared those that did" } else { "" };
    let place = format!("queue {queue} of {} port {}", switch.name, port.port);
    let (begins, met) = match mark {
        MarkPoint::Dequeue => (format!("a frame is marked that leaves more than {point} behind"), "left"),
        MarkPoint::Enqueue => (format!("a frame is marked that finds more than {point}"), "found"),
    };
    Some(if *chosen > 0 {
        let chosen = counted(*chosen, "frame");
        format!(
            "Nothing was marked although {chosen} of {place} should have been ({begins}): they are not ECN capable."
        )
    } else if depth <= point && *is_alone {
        format!("Nothing was marked: {place} held {depth} bytes at most; {begins}.")
    } else if depth <= point {
        format!("Nothing was marked: {place} held no more than {depth} bytes; {begins}.")
    } else if *is_alone {
        format!(
            "Nothing was marked although {place} held up to {depth} bytes ({begins}): no frame {met} more{or_chance}."
        )
    } else {
        format!(
            "Nothing was marked: no frame of {place} {met} more than {point} bytes ({begins}){or_chance}. With what \
             waited beside it, it held up to {depth} bytes."
        )
    })
}

/// PFC frames of a port of a switch that its link lost.
fn lost_pauses(report: &Report, switch: &SwitchResult, port: &PortResult) -> u64 {
    let way = |link: &&LinkResult| link.from == switch.name && link.to == port.peer;
    report.links.iter().filter(way).map(|link| link.lost_pauses).sum()
}

/// The headroom pool of what the port receives into had no room for one more frame, while the groups of the port had some left of their own.
fn dry_pool(context: &Context, switch: &SwitchResult, port: &PortResult) -> Option<HeadroomPool> {
    let longest = longest_frame(context);
    let has_left = port.headroom_peak + longest <= port.headroom;
    switch.memory_of(port).headroom_pool.filter(|pool| has_left && pool.peak + longest > pool.size)
}

/// Bytes of the longest frame that a port takes.
fn longest_frame(context: &Context) -> u64 {
    context.config.iter().flat_map(|c| &c.ports).map(|port| u64::from(port.mtu)).max().unwrap_or_default()
}

/// The switch at the other end of a port, and its port there, if its watchdog does not obey the pauses of a storm.
fn sends_through_pauses<'a>(
    report: &'a Report,
    context: &Context,
    switch: &SwitchResult,
    port: &PortResult,
) -> Option<(&'a SwitchResult, &'a PortResult)> {
    let watchdog = context.config.as_ref()?.watchdog.as_ref()?;
    let is_other_end = |other: &(&SwitchResult, &PortResult)| {
        other.0.name == port.peer && other.1.peer == switch.name && other.1.storms > 0
    };
    report.ports().find(is_other_end).filter(|_| watchdog.action == WatchdogAction::Forward)
}

/// What the watchdogs saw, where no frames tell it: those that are dropped have a reason.
fn storms(report: &Report, config: &Config) -> Option<String> {
    let watchdog = config.watchdog.as_ref()?;
    let (action, does) = match watchdog.action {
        WatchdogAction::Alert => ("alert", "it says so and does nothing"),
        WatchdogAction::Forward => ("forward", "it sends on through the pauses"),
        WatchdogAction::Drop => return None,
    };
    let all: u64 = report.ports().map(|(_, port)| port.storms).sum();
    let (switch, port) = fullest(report, |port| port.storms)?;
    (all > 0).then(|| {
        format!(
            "The watchdog saw {}, most at {} port {}, whose peer paused a queue for {} ns and longer: with action = \"{action}\" {does}.",
            counted(all, "storm"),
            switch.name,
            port.port,
            watchdog.detection
        )
    })
}

/// Reverie refused lossless frames while a group had headroom left for one more: the buffer was full without it.
fn is_full_before_headroom(context: &Context, port: &PortResult) -> bool {
    matches!(context.policy, Policy::Reverie { .. })
        && port.headroom_peak + longest_frame(context) <= port.headroom
}

fn drops(report: &Report, context: &Context, switch: &SwitchResult, port: &PortResult) -> Vec<String> {
    let deaf = context.deaf.get(&(switch.name.clone(), port.port));
    let mut all = Vec::new();
    for (name, count) in &port.drops {
        let deaf = deaf.filter(|_| *name == DropReason::IngressHeadroom.name());
        let unheard = deaf.map_or(0, |deaf| deaf.lost.min(*count));
        if let Some(DeafPeer { name: peer, is_host, priorities, .. }) = deaf {
            let list: Vec<String> = priorities.iter().map(usize::to_string).collect();
            let remedy = match is_host {
                true => {
                    "add it to `pfc_priorities` in [host], or leave that out, and hosts obey what their switch keeps lossless"
                }
                false => "`rx = \"enabled\"` of its `pfc` in [switch.config], which is the default",
            };
            all.push(format!(
                "{} port {} dropped {} ({name}): {peer} went on sending when it was paused, since it does not obey pauses of priority {}. \
                 Remedy: {remedy}.",
                switch.name,
                port.port,
                counted(unheard, "frame"),
                list.join(", ")
            ));
        }
        if *count > unheard {
            all.push(dropped((report, context), switch, port, (name, count - unheard)));
        }
    }
    all
}

/// Why a port of a switch dropped so many frames for this reason.
fn dropped(
    (report, context): (&Report, &Context),
    switch: &SwitchResult,
    port: &PortResult,
    (name, count): (&str, u64),
) -> String {
    let resent =
        if context.resent { "Hosts send again what is lost" } else { "Some of it nobody sends again" };
    let count = counted(count, "frame");
    let of_headroom = name == DropReason::IngressHeadroom.name();
    let lost_pauses = if of_headroom && context.pause_loss { lost_pauses(report, switch, port) } else { 0 };
    if lost_pauses > 0 {
        return format!(
            "{} port {} dropped {count} ({name}): its link to {} lost {}, and what was not asked \
             to stop went on. Remedy: a `pause_loss` of 0 for that link.",
            switch.name,
            port.port,
            port.peer,
            counted(lost_pauses, "PFC frame")
        );
    }
    if of_headroom && context.credits {
        return format!(
            "{} port {} dropped {count} ({name}): with credits nobody is asked to stop, and they let hosts have more on its way than the \
             switch has room for. {resent}. Remedy: fewer `credits` in [host.rclink], or a larger `size` in [switch.config.buffer].",
            switch.name, port.port
        );
    }
    if of_headroom && context.silent.contains(&(switch.name.clone(), port.port)) {
        return format!(
            "{} port {} dropped {count} ({name}): nobody was asked to stop, since the port sends no PFC for that class. Remedy: its \
             priority in `enable`, and `tx = true`, of `pfc` in [switch.config.port_defaults].",
            switch.name, port.port
        );
    }
    if let Some(watchdog) = context.config.as_ref().and_then(|c| c.watchdog.as_ref())
        && name == DropReason::WatchdogDrop.name()
    {
        if watchdog.big_red_switch {
            return format!(
                "{} port {} dropped {count} ({name}): `big_red_switch` of [switch.config.watchdog] is on, which drops what every lossless \
                 queue has, whoever pauses it or not. Remedy: false, which is the default.",
                switch.name, port.port
            );
        }
        if let Some(Reoccurrence { count: most, window }) = &watchdog.reoccurrence
            && port.storms >= u64::from(*most)
        {
            return format!(
                "{} port {} dropped {count} ({name}): the watchdog saw {} there, and with `reoccurrence` of {most} within {window} ns a queue \
                 stays shut until an operator releases it, which nobody does here. Remedy: find out why its peer pauses it, or leave \
                 `reoccurrence` out.",
                switch.name,
                port.port,
                counted(port.storms, "storm")
            );
        }
    }
    if let Some((peer, seen)) = sends_through_pauses(report, context, switch, port).filter(|_| of_headroom) {
        return format!(
            "{} port {} dropped {count} ({name}): the watchdog of {} saw {} at port {} and sent on through the pauses of {}, as \
             action = \"forward\" tells it to. Remedy: \"drop\" or \"alert\" in [switch.config.watchdog], or find out why the pauses \
             last.",
            switch.name,
            port.port,
            peer.name,
            counted(seen.storms, "storm"),
            seen.port,
            switch.name
        );
    }
    if of_headroom && is_full_before_headroom(context, port) {
        return format!(
            "{} port {} dropped {count} ({name}): the buffer was full, and of the headroom {} of {} bytes were in \
             use at most. reverie asks for Xoff by a filtered size, which moves only when frames of the group leave, and more \
             came before. Remedy: another `policy`, as weir or dt, or a larger `size` in [switch.config.buffer].",
            switch.name, port.port, port.headroom_peak, port.headroom
        );
    }
    if let Some(HeadroomPool { size, peak }) = dry_pool(context, switch, port).filter(|_| of_headroom) {
        let whose = if port.memory.is_some() { "input" } else { "switch" };
        return format!(
            "{} port {} dropped {count} ({name}): the headroom pool of the {whose} was empty, with {peak} of its {size} bytes \
             in use at most. The fullest group of the port had {} of the {} bytes it may have. Remedy: a larger `headroom_pool`, or a \
             smaller `over_subscribe_ratio`, in [switch.config.buffer]; without either each group has its own headroom.",
            switch.name, port.port, port.headroom_peak, port.headroom
        );
    }
    if name == DropReason::LookupSamePort.name() {
        return format!(
            "{} port {} dropped {count} ({name}): routes changed behind what was on its way, and the only \
             way left leads back by the port it came by, which no switch uses. {resent}.",
            switch.name, port.port
        );
    }
    if name == DropReason::LookupUnknown.name() {
        let repair = if context.repaired { "an earlier `repair`" } else { "`repair` of the [[failure]]" };
        return format!(
            "{} port {} dropped {count} ({name}): links were down, and none of those left leads to the receiver. \
             {resent}. Remedy: another path, or {repair}.",
            switch.name, port.port
        );
    }
    let reason = DropReason::ALL.iter().find(|reason| reason.name() == name);
    let (meaning, remedy) = reason.map_or(("", ""), |r| (r.meaning().trim(), r.remedy()));
    format!(
        "{} port {} dropped {count} ({name}): {meaning} Most headroom in use was {} of {} bytes. \
         Remedy: {remedy}.",
        switch.name, port.port, port.headroom_peak, port.headroom
    )
}

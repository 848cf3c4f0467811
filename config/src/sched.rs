//! `[[scheduler]]`, `[[wred]]` and `[[queue]]`.

use super::diag::Span;
use super::port::enough;
use super::read::{Ctx, Section, Val, check_name, indices};
use super::schema::{self, Table};
use super::types::{EcnMode, MarkPoint, PortConfig, SchedulerConfig, SchedulerType};
use super::units::{BOOL, RATE, SHARE, TEXT, THRESHOLD, Threshold};
use std::collections::HashSet;

/// A marking profile whose thresholds may still depend on the port.
#[derive(Clone, Debug)]
pub(super) struct Wred {
    pub name: String,
    pub kmin: Threshold,
    pub kmax: Threshold,
    pub pmax: u32,
    pub ecn: EcnMode,
    pub mark: MarkPoint,
    pub wred_drop: bool,
    /// Where `kmax` stands, or the profile.
    pub at: Span,
    /// Where `kmin` does, or the profile.
    pub kmin_at: Span,
    /// Where `wred_drop` does.
    pub drop_at: Span,
}

/// What a queue is bound to: index of the marking profile, where the binding stands.
pub(super) type Marks = Vec<[Option<usize>; 8]>;

/// Tables of an array merged by name: the user's entry over the preset's of the same name.
pub(super) fn named<'a>(
    ctx: &mut Ctx<'_>,
    root: &Section<'a>,
    key: &str,
    schema: &'static Table,
) -> Vec<(Val<String>, Section<'a>)> {
    let mut all: Vec<(Val<String>, Section<'a>)> = Vec::new();
    for item in root.items(ctx, key, schema) {
        let Some(name) = item.need(ctx, "name", &TEXT) else { continue };
        check_name(ctx, &name, &format!("a `{key}`"));
        match all.iter().position(|(known, _)| known.v == name.v) {
            Some(i) if matches!(all[i].0.origin, super::Origin::Preset(_)) => {
                let (_, below) = all.remove(i);
                let mut item = item.over(&below);
                item.path = below.path;
                all.insert(i, (name, item));
            }
            Some(i) => {
                let message = format!("`{}` is already defined", name.v);
                let places = (name.span, all[i].0.span);
                ctx.clash(places, "name.duplicate", message, "give each its own name");
            }
            None => {
                let mut item = item;
                item.path = format!("{}.{}", root.key(key), name.v);
                all.push((name, item));
            }
        }
    }
    all
}

/// Warns of tables of the file whose names nothing goes by: what they say has no effect. `what` they are, `binding` where a name belongs,
/// and all names, each with whether it is used. Beside errors, one of which may be the name that was meant, nothing is said.
pub(super) fn warn_unused<'n>(
    ctx: &mut Ctx<'_>,
    what: &str,
    binding: &str,
    all: impl Iterator<Item = (&'n Val<String>, bool)> + Clone,
) {
    if ctx.found.has_errors() {
        return;
    }
    let in_use: Vec<&str> = all.clone().filter(|(_, used)| *used).map(|(name, _)| name.v.as_str()).collect();
    let in_use = match in_use.is_empty() {
        true => String::new(),
        false => format!("; in use: {}", in_use.join(", ")),
    };
    let unused = all.filter(|(name, used)| !used && matches!(name.origin, super::Origin::File { .. }));
    for (name, _) in unused {
        let message = format!("nothing uses the {what} `{}`, so it has no effect", name.v);
        ctx.warn(name.span, "name.unused", message, format!("name it in {binding}, or remove it{in_use}"));
    }
}

/// Reads profiles and lays the bindings over the ports' queues: names of schedulers, marking profiles, what marks each queue.
pub(super) fn read(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    ports: &mut [PortConfig],
) -> (Vec<String>, Vec<Wred>, Marks) {
    let schedulers: Vec<_> = named(ctx, root, "scheduler", &schema::SCHEDULER)
        .into_iter()
        .map(|(name, s)| (name, read_scheduler(ctx, &s)))
        .collect();
    let (wred_names, wreds): (Vec<_>, Vec<_>) = named(ctx, root, "wred", &schema::WRED)
        .into_iter()
        .map(|(name, s)| (name.clone(), read_wred(ctx, &s, name.v)))
        .unzip();
    let mut marks: Marks = vec![[None; 8]; ports.len()];
    for item in root.items(ctx, "queue", &schema::QUEUE) {
        let (on, queues) = (explained_ports(ctx, &item, ports), select(ctx, &item, "queues"));
        let scheduler = lookup(ctx, &item, "scheduler", schedulers.iter().map(|s| s.0.v.as_str()));
        let none = item.raw(ctx, "wred").is_some_and(|r| r.v.as_str() == Some("none"));
        let wred = match none {
            true => {
                item.explain_list(ctx, "wred", ["none"]);
                None
            }
            false => lookup(ctx, &item, "wred", wreds.iter().map(|w| w.name.as_str())),
        };
        for port in on {
            for &queue in &queues {
                let queue = usize::from(queue);
                if let Some(i) = scheduler {
                    let queue = &mut ports[port].queues[queue];
                    (queue.scheduler, queue.scheduler_profile) = (schedulers[i].1, Some(i));
                }
                if wred.is_some() || none {
                    marks[port][queue] = wred;
                    ports[port].queues[queue].wred_profile = wred;
                }
            }
        }
    }
    let queues = || ports.iter().flat_map(|port| &port.queues);
    let in_use: HashSet<usize> = queues().filter_map(|queue| queue.scheduler_profile).collect();
    let used = schedulers.iter().enumerate().map(|(i, (name, _))| (name, in_use.contains(&i)));
    warn_unused(ctx, "scheduler", "`scheduler` of [[queue]]", used);
    let in_use: HashSet<usize> = queues().filter_map(|queue| queue.wred_profile).collect();
    let used = wred_names.iter().enumerate().map(|(i, name)| (name, in_use.contains(&i)));
    warn_unused(ctx, "marking profile", "`wred` of [[queue]]", used);
    (schedulers.into_iter().map(|(name, _)| name.v).collect(), wreds, marks)
}

fn read_scheduler(ctx: &mut Ctx<'_>, s: &Section<'_>) -> SchedulerConfig {
    let kind = s.or(ctx, "type", &SchedulerType::KIND, SchedulerType::Dwrr, "fair in bytes");
    let weight = s.int_or(ctx, "weight", 1..=100, 1, "equal shares");
    // That of a preset nobody can remove.
    if kind.v == SchedulerType::Strict && matches!(weight.origin, super::Origin::File { .. }) {
        let at = weight.span;
        ctx.warn(at, "scheduler.weight", "a STRICT queue has no weight", "remove it, or use type = \"DWRR\"");
    }
    let priority = s.int(ctx, "priority", 0..=7);
    if let (Some(p), true) = (&priority, kind.v != SchedulerType::Strict) {
        let message = format!("`priority` orders STRICT queues; this one is {}", kind.v.word());
        ctx.warn(p.span, "scheduler.priority", message, "remove it, or use type = \"STRICT\"");
    }
    let cir = s
        .get(ctx, "cir", &RATE)
        .and_then(|v| enough(ctx, s, "cir", v))
        .and_then(|v| v.v.map(|bps| (bps, v.span)));
    let pir = s.get(ctx, "pir", &RATE).and_then(|v| enough(ctx, s, "pir", v)).and_then(|v| v.v);
    if let (Some((cir, at)), Some(pir)) = (cir, pir)
        && cir > pir
    {
        let message =
            format!("cir = {} is more than pir = {}", (RATE.show)(&Some(cir)), (RATE.show)(&Some(pir)));
        ctx.error(at, "scheduler.rates", message, "keep cir <= pir");
    }
    SchedulerConfig {
        kind: kind.v,
        weight: weight.v as u8,
        priority: priority.map(|p| p.v as u8),
        cir: cir.map(|c| c.0),
        pir,
    }
}

fn read_wred(ctx: &mut Ctx<'_>, s: &Section<'_>, name: String) -> Wred {
    let why = "scaled with the rate of the port";
    let kmin = s.or(ctx, "kmin", &THRESHOLD, Threshold::Auto, why);
    let kmax = s.or(ctx, "kmax", &THRESHOLD, Threshold::Auto, why);
    let wred_drop = s.or(ctx, "wred_drop", &BOOL, false, "never drops");
    Wred {
        name,
        kmin: kmin.v,
        kmax: kmax.v,
        pmax: s.or(ctx, "pmax", &SHARE, 200_000, "HPCC's 20% at kmax").v,
        ecn: s.or(ctx, "ecn", &EcnMode::KIND, EcnMode::Ecn, "marks ECT frames").v,
        mark: s.or(ctx, "mark", &MarkPoint::KIND, MarkPoint::Dequeue, "the freshest signal there is").v,
        wred_drop: wred_drop.v,
        at: kmax.span,
        kmin_at: kmin.span,
        drop_at: wred_drop.span,
    }
}

/// Ports named by `ports`, by default all.
pub(super) fn select_ports(ctx: &mut Ctx<'_>, item: &Section<'_>, ports: &[PortConfig]) -> Vec<usize> {
    let Some(listed) = item.list(ctx, "ports") else { return (0..ports.len()).collect() };
    let mut on = Vec::new();
    for name in listed {
        match name.v.as_str() {
            Some("*" | "all") => on.extend(0..ports.len()),
            Some(text) => {
                let name = Val { v: text.to_owned(), span: name.span, origin: name.origin };
                on.extend(super::fdb::find_port(ctx, &name, ports).map(|p| p.index()));
            }
            None => {
                ctx.error(name.span, "value", "a port is chosen by name", "write ports = [\"p0\"] or \"*\"")
            }
        }
    }
    on
}

/// The same, explained.
pub(super) fn explained_ports(ctx: &mut Ctx<'_>, item: &Section<'_>, ports: &[PortConfig]) -> Vec<usize> {
    let on = select_ports(ctx, item, ports);
    item.explain_list(ctx, "ports", on.iter().map(|port| &ports[*port].name));
    on
}

/// Groups or queues named by a key; required.
pub(super) fn select(ctx: &mut Ctx<'_>, item: &Section<'_>, key: &str) -> Vec<u8> {
    let Some(listed) = item.list(ctx, key) else {
        let at = item.span(ctx);
        ctx.error(
            at,
            "required",
            format!("{} is missing", item.key(key)),
            format!("add {key} = 3 or {key} = \"0-2,5\""),
        );
        return vec![];
    };
    let mut all = Vec::new();
    for one in listed {
        match indices(one.v, 8) {
            Ok(list) => all.extend(list),
            Err(bad) => {
                ctx.error(one.span, "value", format!("{}: {}", item.key(key), bad.message), bad.remedy)
            }
        }
    }
    item.explain_list(ctx, key, &all);
    all
}

/// Index of the profile a key names.
pub(super) fn lookup<'n>(
    ctx: &mut Ctx<'_>,
    item: &Section<'_>,
    key: &str,
    mut names: impl Iterator<Item = &'n str> + Clone,
) -> Option<usize> {
    let name = item.get(ctx, key, &TEXT)?;
    let known: Vec<_> = names.clone().collect();
    let found = names.position(|n| n == name.v);
    if found.is_none() {
        let remedy =
            if known.is_empty() { "define it first".into() } else { format!("known: {}", known.join(", ")) };
        ctx.error(name.span, "name.unknown", format!("there is no {key} `{}`", name.v), remedy);
    }
    found
}

//! `[qos]` and `[map.NAME]`: classification for the switch and the maps ports choose by name.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::diag::Span;
use super::read::{Ctx, Section, Val, check_name, indices, ranges};
use super::sched::warn_unused;
use super::schema;
use super::types::{Maps, PortConfig, Trust, Voq};

/// Classification before ports.
pub(super) struct Qos {
    pub trust: Option<Val<Vec<Trust>>>,
    pub control_tc: Option<u8>,
    pub voq: Voq,
    pub maps: ClassMaps,
}

/// The switch's maps and those by name.
pub(super) struct ClassMaps {
    base: Maps,
    named: HashMap<String, Changes>,
    /// Their names in the order of the file.
    names: Vec<Val<String>>,
}

/// What one table of maps changes.
#[derive(Default)]
struct Changes {
    dscp_to_tc: Vec<(u8, u8)>,
    pcp_to_tc: Vec<(u8, u8)>,
    tc_to_queue: Vec<(u8, u8)>,
    tc_to_pg: Vec<(u8, u8)>,
    pfc_to_pg: Vec<(u8, u8)>,
    pfc_to_queue: Vec<(u8, u8)>,
}

impl Changes {
    fn read(ctx: &mut Ctx<'_>, s: &Section<'_>) -> Self {
        Self {
            dscp_to_tc: read_map(ctx, s, "dscp_to_tc", 64),
            pcp_to_tc: read_map(ctx, s, "pcp_to_tc", 8),
            tc_to_queue: read_map(ctx, s, "tc_to_queue", 8),
            tc_to_pg: read_map(ctx, s, "tc_to_pg", 8),
            pfc_to_pg: read_map(ctx, s, "pfc_to_pg", 8),
            pfc_to_queue: read_map(ctx, s, "pfc_to_queue", 8),
        }
    }

    /// Entries by key.
    fn all(&self) -> [(&'static str, &[(u8, u8)]); 6] {
        [
            ("dscp_to_tc", &self.dscp_to_tc),
            ("pcp_to_tc", &self.pcp_to_tc),
            ("tc_to_queue", &self.tc_to_queue),
            ("tc_to_pg", &self.tc_to_pg),
            ("pfc_to_pg", &self.pfc_to_pg),
            ("pfc_to_queue", &self.pfc_to_queue),
        ]
    }

    /// What a table of a name says, without what is below.
    fn explain(&self, ctx: &mut Ctx<'_>, s: &Section<'_>) {
        for (key, entries) in self.all() {
            // Of two entries for a number the later one holds.
            s.explain_list(ctx, key, [show_map(&entries.iter().copied().collect())]);
        }
    }

    fn apply(&self, maps: &mut Maps) {
        let set = |map: &mut [u8], changes: &[(u8, u8)]| {
            for &(from, to) in changes {
                map[usize::from(from)] = to;
            }
        };
        set(&mut maps.dscp_to_tc, &self.dscp_to_tc);
        set(&mut maps.pcp_to_tc, &self.pcp_to_tc);
        set(&mut maps.tc_to_queue, &self.tc_to_queue);
        set(&mut maps.tc_to_pg, &self.tc_to_pg);
        set(&mut maps.pfc_to_pg, &self.pfc_to_pg);
        set(&mut maps.pfc_to_queue, &self.pfc_to_queue);
    }
}

impl Default for Maps {
    /// DSCP class selectors (DSCP / 8), everything else identity.
    fn default() -> Self {
        let identity = [0, 1, 2, 3, 4, 5, 6, 7];
        Self {
            dscp_to_tc: std::array::from_fn(|dscp| (dscp / 8) as u8),
            pcp_to_tc: identity,
            tc_to_queue: identity,
            tc_to_pg: identity,
            pfc_to_pg: identity,
            pfc_to_queue: identity,
        }
    }
}

impl ClassMaps {
    /// Warns of maps that no port has, or of which others leave nothing.
    pub fn warn_unused(&self, ctx: &mut Ctx<'_>, ports: &[PortConfig]) {
        let in_use: HashSet<&String> = ports.iter().flat_map(|port| port.map_names.values()).collect();
        let used = self.names.iter().map(|name| (name, in_use.contains(&name.v)));
        warn_unused(ctx, "map", "`maps` of [[port]] or [port_defaults]", used);
    }

    /// The switch's maps with those a port names laid over them in order; by the key of a map the table it came from last.
    pub fn for_port(&self, ctx: &mut Ctx<'_>, port: &Section<'_>) -> (Maps, BTreeMap<&'static str, String>) {
        let (mut maps, mut names, mut by_key) = (self.base, Vec::new(), BTreeMap::new());
        for item in port.list(ctx, "maps").unwrap_or_default() {
            match item.v.as_str().map(|name| (name, self.named.get(name))) {
                Some((name, Some(changes))) => {
                    changes.apply(&mut maps);
                    let said = changes.all().into_iter().filter(|(_, entries)| !entries.is_empty());
                    by_key.extend(said.map(|(key, _)| (key, name.to_owned())));
                    names.push(name);
                }
                Some((name, None)) => {
                    let mut known: Vec<_> = self.named.keys().map(String::as_str).collect();
                    known.sort_unstable();
                    let remedy = match known.is_empty() {
                        true => format!("add a table [map.{name}]"),
                        false => format!("maps: {}", known.join(", ")),
                    };
                    ctx.error(item.span, "map.unknown", format!("there is no map `{name}`"), remedy);
                }
                None => ctx.error(item.span, "value", "a map is chosen by name", "write maps = [\"NAME\"]"),
            }
        }
        port.explain_list(ctx, "maps", names);
        (maps, by_key)
    }
}

pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>) -> Qos {
    let s = root.table(ctx, "qos", &schema::QOS);
    let mut base = Maps::default();
    Changes::read(ctx, &s).apply(&mut base);
    explain_maps(ctx, &s, &base);
    let named_maps = root.table(ctx, "map", &schema::MAPS);
    let (mut named, mut names) = (HashMap::new(), Vec::new());
    for (name, _) in named_maps.free(ctx) {
        check_name(ctx, &name, "a map");
        let section = named_maps.table(ctx, &name.v, &schema::MAP);
        let changes = Changes::read(ctx, &section);
        changes.explain(ctx, &section);
        named.insert(name.v.clone(), changes);
        names.push(name);
    }
    let trust = s.raw(ctx, "trust").and_then(|raw| {
        let list = super::port::trust_list(ctx, &s, "trust")?;
        Some(Val { v: list, span: raw.span, origin: raw.origin })
    });
    Qos {
        trust,
        control_tc: s.int(ctx, "control_tc", 0..=7).map(|v| v.v as u8),
        voq: s.or(ctx, "voq", &Voq::KIND, Voq::Fair, "no ingress port starves another").v,
        maps: ClassMaps { base, named, names },
    }
}

fn explain_maps(ctx: &mut Ctx<'_>, s: &Section<'_>, maps: &Maps) {
    let all: [(&str, &[u8]); 6] = [
        ("dscp_to_tc", &maps.dscp_to_tc),
        ("pcp_to_tc", &maps.pcp_to_tc),
        ("tc_to_queue", &maps.tc_to_queue),
        ("tc_to_pg", &maps.tc_to_pg),
        ("pfc_to_pg", &maps.pfc_to_pg),
        ("pfc_to_queue", &maps.pfc_to_queue),
    ];
    for (key, map) in all {
        let origin = s.raw(ctx, key).map_or(super::Origin::Default, |r| r.origin);
        ctx.explain(
            s.key(key),
            show_map(&(0..).zip(map.iter().copied()).collect()),
            origin,
            "what is not listed keeps the value of the layer below",
        );
    }
}

/// A map in runs: `0-7:0 8-15:1`.
fn show_map(map: &BTreeMap<u8, u8>) -> String {
    let mut runs: Vec<(u8, u8, u8)> = Vec::new();
    for (&from, &to) in map {
        match runs.last_mut() {
            Some((_, last, of)) if *last + 1 == from && *of == to => *last = from,
            _ => runs.push((from, from, to)),
        }
    }
    let run = |(first, last, to): &(u8, u8, u8)| match first == last {
        true => format!("{first}:{to}"),
        false => format!("{first}-{last}:{to}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(" ")
}

/// The entries of a map table, lowest layer first. Within one table nothing may be said twice, `"*"` apart.
fn read_map(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &str, inputs: u64) -> Vec<(u8, u8)> {
    let table = s.table(ctx, key, &schema::MAP_TABLE);
    let (mut rest, mut entries) = (Vec::new(), Vec::new());
    let mut said: HashMap<(bool, u8), Span> = HashMap::new();
    for (from, to) in table.free(ctx) {
        let to = match indices(to.v, 8) {
            Ok(list) if list.len() == 1 => list[0],
            Ok(_) => {
                ctx.error(to.span, "value", "a map leads to one number", "write { \"0-7\" = 1 }");
                continue;
            }
            Err(bad) => {
                ctx.error(to.span, "value", format!("{}: {}", s.key(key), bad.message), bad.remedy);
                continue;
            }
        };
        let list = match ranges(&from.v, inputs) {
            Ok(list) => list,
            Err(bad) => {
                ctx.error(from.span, "value", format!("{}: {}", s.key(key), bad.message), bad.remedy);
                continue;
            }
        };
        if from.v == "*" {
            rest.extend(list.iter().map(|n| (*n, to)));
            continue;
        }
        let preset = matches!(from.origin, super::Origin::Preset(_));
        let mut clash = None;
        for n in list {
            if let Some(first) = said.insert((preset, n), from.span) {
                clash.get_or_insert((n, first));
            }
            entries.push((preset, n, to));
        }
        if let Some((n, first)) = clash {
            let message = format!("{}: {n} is mapped twice", s.key(key));
            ctx.clash(
                (from.span, first),
                "map.overlap",
                message,
                "map every number once; \"*\" stands for the others",
            );
        }
    }
    // "*" of a layer yields to its own numbers; a user's "*" still wins over the preset's numbers.
    let user_star =
        table.free(ctx).iter().any(|(f, _)| f.v == "*" && !matches!(f.origin, super::Origin::Preset(_)));
    let kept = entries.into_iter().filter(|(preset, ..)| !(*preset && user_star)).map(|(_, n, to)| (n, to));
    rest.into_iter().chain(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_shown_in_runs() {
        let show = |map: &[(u8, u8)]| show_map(&map.iter().copied().collect());
        assert_eq!(show(&[(0, 0), (1, 0), (2, 3), (3, 0)]), "0-1:0 2:3 3:0");
        assert_eq!(
            show(&[(3, 1), (7, 2), (4, 1), (9, 2)]),
            "3-4:1 7:2 9:2",
            "what is not listed is in no run"
        );
    }
}

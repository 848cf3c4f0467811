//! Pools, profiles and what binds them.

use super::{
    AUTO, EGRESS, EGRESS_LOSSLESS, EGRESS_LOSSY, INGRESS, Importer, Limit, MOST, Pool, Port, Profile, Queues,
    UNBOUND,
};
use crate::sonic::Outcome::{Approximated, Ignored, Mapped};
use crate::sonic::db::{Row, shown};
use crate::sonic::lookup::PgLookup;
use crate::units;
use weir_dataplane::types::PRIORITIES;

/// SONiC's pools of lossless queues are called so.
fn is_of_lossless(pool: &Row) -> bool {
    pool.key.contains("lossless")
}

impl Importer<'_> {
    pub(super) fn read_pools(&mut self) {
        let rows = self.db.take("BUFFER_POOL");
        let is_ingress = |row: &Row| !matches!(row.text("type"), Some("egress"));
        let apart = rows.iter().any(|row| !is_ingress(row) && !is_of_lossless(row));
        let queues: Vec<Queues> = rows.iter().map(|row| self.queues_of(row, apart)).collect();
        let sized = |of: &dyn Fn(&Row) -> bool| {
            rows.iter().filter(|row| of(row) && row.field("size").is_some()).count() > 1
        };
        let several = sized(&is_ingress);
        let lossy = |(row, queues): &(&Row, &Queues)| !is_ingress(row) && **queues != Queues::Lossless;
        let several_lossy =
            rows.iter().zip(&queues).filter(lossy).filter(|(row, _)| row.field("size").is_some()).count() > 1;
        for (mut row, queues) in rows.into_iter().zip(queues) {
            let ingress = self
                .db
                .word(&row, "type", &[("ingress", true), ("egress", false), ("both", true)])
                .unwrap_or(true);
            match row.text("type") {
                Some("both") => {
                    row.note(
                        &["type"],
                        Approximated,
                        "direction of its profiles: ingress, but of those of queues",
                    );
                }
                _ => row.note(&["type"], Mapped, "direction of its profiles"),
            }
            self.note_missing(&row, "type", "none: ingress");
            self.note_missing(&row, "mode", "none: its profiles say dynamic_th or static_th");
            let (exported, mode) = match (ingress, queues) {
                (true, _) => (INGRESS, "dynamic"),
                (false, Queues::Lossless | Queues::Both) => (EGRESS_LOSSLESS, "static"),
                (false, Queues::Lossy) => (EGRESS_LOSSY, "dynamic"),
            };
            match row.text("mode") == Some(mode) {
                true => row.note(&["mode"], Mapped, "its profiles say dynamic_th or static_th"),
                false => {
                    let why = format!("its profiles say dynamic_th or static_th; an export has {mode}");
                    row.note(&["mode"], Approximated, why);
                }
            }
            self.note_missing(&row, "size", "none: an export has what it comes to here");
            if row.key != exported {
                let why = format!("pools have no names here: an export calls it {exported}");
                self.db.whole(&row, Approximated, why);
            }
            let size = self.db.number(&row, "size", 0..=MOST);
            let xoff = self.db.number(&row, "xoff", 0..=MOST).unwrap_or(0);
            match (ingress, queues) {
                _ if size.is_none() => {}
                (true, _) if self.options.buffer.is_some() => {
                    row.note(&["size"], Approximated, "the size was given: what that leaves is shared");
                }
                (true, _) if several => {
                    let why = "buffer.size: weir has one ingress pool, of the sum of these";
                    row.note(&["size"], Approximated, why);
                }
                (true, _) => row.note(&["size"], Mapped, "buffer.size: what is left of it to share"),
                (false, Queues::Lossless) => {
                    let why =
                        "a lossless queue has no limit here: what is lossless is held back where it comes in";
                    row.note(&["size"], Ignored, why);
                }
                (false, _) if several_lossy => {
                    let why = "buffer.egress_lossy_pool: weir has one, of the sum of these";
                    row.note(&["size"], Approximated, why);
                }
                (false, _) if size == Some(0) => {
                    row.note(
                        &["size"],
                        Approximated,
                        "0: buffer.egress_lossy_pool of weir, all of the buffer",
                    );
                }
                (false, Queues::Lossy) => row.note(&["size"], Mapped, "buffer.egress_lossy_pool"),
                (false, Queues::Both) => {
                    let why = "buffer.egress_lossy_pool: only lossy queues count in it here";
                    row.note(&["size"], Approximated, why);
                }
            }
            if ingress && xoff > 0 {
                self.headroom_pool = Some(self.headroom_pool.unwrap_or(0) + xoff as u64);
                if self.options.auto_headroom {
                    let why = "it shares out the chip's headrooms; weir's stand in full: set over_subscribe_ratio if you share them";
                    row.note(&["xoff"], Ignored, why);
                } else if several {
                    let why = "buffer.headroom_pool: weir has one, of the sum of these";
                    row.note(&["xoff"], Approximated, why);
                } else {
                    row.note(&["xoff"], Mapped, "buffer.headroom_pool");
                }
            } else if xoff == 0 {
                row.note(&["xoff"], Mapped, "0: each lossless group has its own headroom");
            }
            if size.is_none() && ingress && self.options.buffer.is_none() {
                let message = format!("BUFFER_POOL|{} has no size", shown(&row.key));
                let help = "give its size in bytes, or the size of weir's buffer with --buffer 32MiB";
                self.db.error(row.at, "sonic.pool", message, help);
            }
            match ingress {
                true => self.comes_from("[buffer]", 0, &row, &[("size", "size"), ("headroom_pool", "xoff")]),
                false if queues != Queues::Lossless => {
                    self.comes_from("[buffer]", 0, &row, &[("egress_lossy_pool", "size")]);
                }
                false => {}
            }
            let both = row.text("type") == Some("both");
            let pool = Pool { ingress, both, queues, size: size.unwrap_or(0) as u64 };
            self.pools.insert(row.key.clone(), pool);
            self.db.done(&row, "the pools of weir are of fixed size");
        }
        if !self.pools.values().any(|pool| pool.ingress)
            && self.options.buffer.is_none()
            && !self.ports.is_empty()
        {
            let at = self.db.start();
            let help = "add the file with BUFFER_POOL (buffers.json), or give the size with --buffer 32MiB";
            self.db.error(
                at,
                "sonic.pool",
                "no BUFFER_POOL of type ingress says how large the buffer is".into(),
                help,
            );
        }
    }

    /// Which queues count in an egress pool; `apart`: there is one that is not called lossless.
    fn queues_of(&self, pool: &Row, apart: bool) -> Queues {
        if !is_of_lossless(pool) {
            return Queues::Lossy;
        }
        let profiles =
            || self.db.rows("BUFFER_PROFILE").filter(|profile| profile.reference("pool") == Some(&pool.key));
        let has = |field: &str| profiles().any(|profile| profile.field(field).is_some());
        // With one pool for all, or thresholds of both kinds in it, a moving threshold is that of lossy queues; where all
        // have one the pools are what is different.
        let fixed = pool.text("mode") == Some("static") || has("static_th");
        match has("dynamic_th") && (fixed || !apart) {
            true => Queues::Both,
            false => Queues::Lossless,
        }
    }

    /// Bytes that are for all to share.
    pub(super) fn shared(&self) -> u64 {
        self.pools.values().filter(|pool| pool.ingress).fold(0, |sum, pool| sum.saturating_add(pool.size))
    }

    pub(super) fn lossless_parameters(&mut self) {
        for mut row in self.db.take("DEFAULT_LOSSLESS_BUFFER_PARAMETER") {
            if let Some(n) = self.db.number(&row, "default_dynamic_th", -8..=7) {
                self.default_th = n;
                let why = "dynamic_th of lossless profiles that nothing says more of: an export has it there";
                row.note(&["default_dynamic_th"], Approximated, why);
            }
            if let Some(n) = self.db.number(&row, "over_subscribe_ratio", 0..=64) {
                if self.headroom_pool.is_some() {
                    row.note(&["over_subscribe_ratio"], Ignored, "the pool's xoff sizes the headroom pool");
                } else {
                    self.ratio = Some(n).filter(|n| *n > 0);
                    let why =
                        "buffer.over_subscribe_ratio: an export has the xoff of the pool that it comes to";
                    row.note(&["over_subscribe_ratio"], Approximated, why);
                }
            }
            self.db.done(&row, "weir computes headrooms with a sum of its own (weir headroom)");
        }
    }

    /// Headroom comes out of one pool, so `size` of a profile does not hold it.
    pub(super) fn pooled(&self) -> bool {
        self.headroom_pool.is_some() || self.ratio.is_some()
    }

    pub(super) fn read_profiles(&mut self) {
        for mut row in self.db.take("BUFFER_PROFILE") {
            let pool = row.reference("pool").unwrap_or_default().to_owned();
            let of_queues =
                || self.db.rows("BUFFER_QUEUE").any(|queue| queue.reference("profile") == Some(&row.key));
            let Some((ingress, queues)) = self.pools.get(&pool).map(|pool| match pool.both && of_queues() {
                true => (false, Queues::Both),
                false => (pool.ingress, pool.queues),
            }) else {
                let at = row.field("pool").map_or(row.at, |field| field.at);
                let message = format!(
                    "BUFFER_PROFILE|{} names no pool that is there: `{}`",
                    shown(&row.key),
                    shown(&pool)
                );
                let help = "set `pool` to a row of BUFFER_POOL, or add the file that has it";
                self.db.error(at, "sonic.pool", message, help);
                continue;
            };
            let of_lossless = match queues {
                Queues::Lossless => true,
                Queues::Lossy => false,
                Queues::Both => row.field("dynamic_th").is_none(),
            };
            match [INGRESS, EGRESS_LOSSLESS, EGRESS_LOSSY].contains(&pool.as_str()) {
                true if !ingress && queues == Queues::Both && !of_lossless => {
                    let why =
                        format!("of lossy queues, as it has a dynamic_th: an export has {EGRESS_LOSSY}");
                    row.note(&["pool"], Approximated, why);
                }
                true => row.note(&["pool"], Mapped, "direction of the profile"),
                false => {
                    row.note(&["pool"], Approximated, "direction of the profile: pools have no names here")
                }
            }
            let size = self.db.number(&row, "size", 0..=MOST).unwrap_or(0) as u64;
            let xoff = self.db.number(&row, "xoff", 0..=MOST).unwrap_or(0) as u64;
            let dynamic = row.text("headroom_type").is_some_and(|kind| kind == "dynamic");
            let lossless = if ingress { xoff > 0 || dynamic } else { of_lossless };
            let own = ingress && xoff > 0 && !self.pooled();
            self.note_missing(&row, "size", "none: 0");
            let reserved = if own { size.saturating_sub(xoff) } else { size };
            match own {
                true if size < xoff => {
                    let why =
                        "buffer.profile.reserved = 0: it is less than xoff, and no pool has an xoff to share";
                    row.note(&["size"], Approximated, why);
                }
                true => row.note(&["size"], Mapped, "buffer.profile.reserved: without xoff"),
                false => row.note(&["size"], Mapped, "buffer.profile.reserved"),
            }
            let fixed = self.db.number(&row, "static_th", 0..=MOST).map(Limit::Static);
            let moving = self.db.number(&row, "dynamic_th", -8..=7).map(Limit::Dynamic);
            if let (Some(_), Some(_), Some(field)) = (&fixed, &moving, row.field("static_th")) {
                let message = format!("BUFFER_PROFILE|{} has dynamic_th and static_th", shown(&row.key));
                self.db.error(
                    field.at,
                    "sonic.threshold",
                    message,
                    "keep the one that the mode of its pool asks for",
                );
            }
            let limit = moving.or(fixed);
            if limit.is_none() {
                let why = match !ingress && lossless {
                    true => "none, and none is needed: an export has static_th, all of the buffer",
                    false => "no threshold: dynamic_th = 0",
                };
                self.note_field("BUFFER_PROFILE", row.key.clone(), "dynamic_th, static_th", why);
            }
            if !ingress && lossless {
                let why =
                    "a lossless queue has no limit here: what is lossless is held back where it comes in";
                row.note(&["dynamic_th", "static_th"], Ignored, why);
            } else {
                row.note(&["dynamic_th", "static_th"], Mapped, "buffer.profile, the same key");
            }
            let computed = lossless && ingress && (self.options.auto_headroom || xoff == 0);
            let xon = self.db.number(&row, "xon", 0..=MOST).unwrap_or(0) as u64;
            let xon_offset = self.db.number(&row, "xon_offset", 0..=MOST).map(|n| n as u64);
            if ingress && lossless {
                let auto = "buffer.profile.xoff = \"auto\": for this switch";
                row.note(
                    &["headroom_type"],
                    Approximated,
                    if computed { auto } else { "its xoff is written down" },
                );
                match computed {
                    true => {
                        row.note(&["xoff"], Approximated, auto);
                        self.note_missing(&row, "xoff", auto);
                        row.note(
                            &["size"],
                            Approximated,
                            "buffer.profile.reserved: without xoff, which is \"auto\"",
                        );
                    }
                    false => row.note(&["xoff"], Mapped, "buffer.profile.xoff"),
                }
                row.note(&["xon", "xon_offset"], Mapped, "buffer.profile, the same key");
                self.note_missing(&row, "xon", "none: 0");
                self.note_missing(&row, "xon_offset", "none: two frames of the port's mtu");
            }
            if row.text("packet_discard_action") == Some("drop") {
                row.note(&["packet_discard_action"], Mapped, "what is refused is dropped");
            }
            let name = self.fresh(&row, self.profiles.len());
            self.names.insert(("BUFFER_PROFILE", row.key.clone()), self.profiles.len());
            let keys = ["dynamic_th", "static_th", "xon", "xon_offset", "xoff"].map(|key| (key, key));
            self.comes_from("[[buffer.profile]]", self.profiles.len(), &row, &keys);
            self.profiles.push(Profile {
                name,
                ingress,
                lossless,
                reserved,
                limit,
                xon,
                xon_offset,
                xoff: (!computed).then_some(xoff),
            });
            self.db.done(&row, "nothing of weir does it");
        }
    }

    /// `BUFFER_PG` and `BUFFER_QUEUE`.
    pub(super) fn bind_profiles(&mut self, table: &'static str, ingress: bool) {
        for mut row in self.db.take(table) {
            let Some((ports, indices)) = self.targets(&row) else { continue };
            let name = row.reference("profile").unwrap_or_default().to_owned();
            // SONiC's dynamic buffer model computes the headroom of groups whose profile is NULL.
            let profile = match self.names.get(&("BUFFER_PROFILE", name.clone())) {
                Some(i) if self.profiles[*i].ingress == ingress => Some(*i),
                None if ingress && name == "NULL" => None,
                _ => {
                    let at = row.field("profile").map_or(row.at, |field| field.at);
                    let way = if ingress { "ingress" } else { "egress" };
                    let message =
                        format!("{table}|{} names no {way} profile: `{}`", shown(&row.key), shown(&name));
                    let help = "set `profile` to a row of BUFFER_PROFILE whose pool is of that type, or add the file that has it";
                    self.db.error(at, "sonic.profile", message, help);
                    continue;
                }
            };
            match profile {
                Some(_) => row.note(&["profile"], Mapped, if ingress { "buffer.pg" } else { "buffer.queue" }),
                None => row.note(
                    &["profile"],
                    Approximated,
                    "NULL: a lossless profile for the speed and cable of the port",
                ),
            }
            for port in ports {
                for &i in &indices {
                    let bound = profile.unwrap_or_else(|| self.lossless_for(port));
                    let port = &mut self.ports[port];
                    let slots = if ingress { &mut port.pgs } else { &mut port.queues };
                    slots[usize::from(i)] = Some(bound);
                }
            }
            self.db.done(&row, "nothing of weir does it");
        }
    }

    /// The profile SONiC would make for a lossless group of this port: from the line of `pg_profile_lookup.ini` for its
    /// speed and cable, or with the headroom weir computes.
    fn lossless_for(&mut self, port: usize) -> usize {
        let Port { speed, cable, .. } = &self.ports[port];
        let metres = cable.as_ref().and_then(|cable| units::length(cable).ok()).map(|mm| mm / 1000);
        let line =
            self.lookup.iter().find(|line| (Some(line.speed), Some(line.cable)) == (*speed, metres)).copied();
        let line = line.filter(|_| !self.options.auto_headroom);
        let name =
            line.map_or(AUTO.into(), |line| format!("pg_lossless_{}_{}m_profile", line.speed, line.cable));
        let known = self.profiles.iter().position(|profile| profile.name == name);
        if let (Some(i), Some(_)) = (known, line) {
            return i;
        }
        let pooled = self.pooled();
        let reserved = |line: PgLookup| if pooled { line.size } else { line.size.saturating_sub(line.xoff) };
        let profile = self.own_profile(Profile {
            name,
            ingress: true,
            lossless: true,
            reserved: line.map_or(0, reserved),
            limit: Some(Limit::Dynamic(line.map_or(self.default_th, |line| line.dynamic_th))),
            xon: line.map_or(0, |line| line.xon),
            xon_offset: line.and_then(|line| line.xon_offset),
            xoff: line.map(|line| line.xoff),
        });
        if let Some(line) = line {
            self.origins.entry(("[[buffer.profile]]", profile)).or_default().insert("", line.at);
        }
        profile
    }

    /// What pauses has headroom, what has headroom has queues that do not drop, and what nothing is said of has nothing.
    pub(super) fn hold_promises(&mut self) {
        for port in 0..self.ports.len() {
            for priority in 0..PRIORITIES {
                if self.ports[port].pfc >> priority & 1 == 1 {
                    self.hold_pause(port, priority);
                }
            }
            for pg in 0..PRIORITIES {
                if self.ports[port].pgs[pg].is_none() {
                    self.ports[port].pgs[pg] = Some(self.unreserved(UNBOUND, true));
                }
            }
        }
        let fed = self.fed_by_lossless();
        for queue in 0..PRIORITIES {
            for port in 0..self.ports.len() {
                let bound = self.ports[port].queues[queue].map(|i| self.profiles[i].lossless);
                let tcs = (0..PRIORITIES).filter(|tc| fed >> tc & 1 == 1);
                let reached = tcs.filter(|tc| self.leads(port, "tc_to_queue", *tc) == queue).count() > 0;
                if reached && bound != Some(true) {
                    self.ports[port].queues[queue] = Some(self.unreserved(EGRESS, false));
                    let why = "it carries a lossless class and has no lossless profile: made lossless";
                    self.note_made(
                        Approximated,
                        "BUFFER_QUEUE",
                        format!("{}|{queue}", self.ports[port].name),
                        why,
                    );
                }
            }
        }
    }

    /// A priority that pauses has a lossless group.
    fn hold_pause(&mut self, port: usize, priority: usize) {
        let pg = self.leads(port, "pfc_to_pg", priority);
        let key = format!("{}|{pg}", self.ports[port].name);
        match self.ports[port].pgs[pg] {
            Some(bound) if self.profiles[bound].lossless => {}
            Some(_) if self.waits_lossless(port, pg) => {
                self.ports[port].pgs[pg] = Some(self.lossless_for(port));
                let why = "its profile is lossy, but it pauses and its queues are lossless: bound to a lossless profile";
                self.note_made(Approximated, "BUFFER_PG", key, why);
            }
            Some(_) => {
                self.ports[port].pfc &= !(1 << priority);
                let why = format!("its profile is lossy: priority {priority} is left out of port.pfc.enable");
                self.note_made(Approximated, "BUFFER_PG", key, &why);
            }
            None => {
                let bound = self.lossless_for(port);
                self.ports[port].pgs[pg] = Some(bound);
                let why = match self.profiles[bound].xoff {
                    Some(_) => {
                        "as SONiC does when it starts: the line of pg_profile_lookup.ini for its speed and cable"
                    }
                    None => {
                        "SONiC makes a profile from pg_profile_lookup.ini, which you may add; here xoff = \"auto\""
                    }
                };
                self.note_made(Approximated, "BUFFER_PG", key, why);
            }
        }
    }

    /// A class of this group waits in a lossless queue of some port.
    fn waits_lossless(&self, port: usize, pg: usize) -> bool {
        let queue = |out: usize, tc: usize| self.ports[out].queues[self.leads(out, "tc_to_queue", tc)];
        let lossless = |out: usize, tc: usize| queue(out, tc).is_some_and(|i| self.profiles[i].lossless);
        let mut classes = (0..PRIORITIES).filter(|tc| self.leads(port, "tc_to_pg", *tc) == pg);
        classes.any(|tc| (0..self.ports.len()).any(|out| lossless(out, tc)))
    }

    /// Classes that are lossless on any port, a bit each.
    fn fed_by_lossless(&self) -> u8 {
        let lossless = |port: usize, tc: usize| {
            let bound = self.ports[port].pgs[self.leads(port, "tc_to_pg", tc)];
            bound.is_some_and(|i| self.profiles[i].lossless)
        };
        let is = |tc: &usize| (0..self.ports.len()).any(|port| lossless(port, *tc));
        (0..PRIORITIES).filter(is).fold(0, |mask, tc| mask | 1 << tc)
    }

    /// The profile of that name that weir makes, which guarantees nothing.
    fn unreserved(&mut self, name: &str, ingress: bool) -> usize {
        self.own_profile(Profile {
            name: name.into(),
            ingress,
            lossless: !ingress,
            reserved: 0,
            limit: ingress.then_some(Limit::Dynamic(0)),
            xon: 0,
            xon_offset: None,
            xoff: Some(0),
        })
    }

    /// A profile that no row is of. Where a row has its name and says something else it gets another.
    fn own_profile(&mut self, mut profile: Profile) -> usize {
        let name = profile.name.clone();
        for n in 1.. {
            match self.profiles.iter().position(|known| known.name == profile.name) {
                Some(i) if self.profiles[i] == profile => return i,
                Some(_) => profile.name = format!("{name}_{n}"),
                None => break,
            }
        }
        self.profiles.push(profile);
        self.profiles.len() - 1
    }
}

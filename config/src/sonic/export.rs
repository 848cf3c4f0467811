//! From a checked configuration to tables.

use super::{
    AUTO, CABLES, EGRESS_LOSSLESS, EGRESS_LOSSY, HEADERS, INGRESS, MAPS, Note, Outcome, PRESET, STORM_TYPES,
    UNBOUND, left_out, map_name,
};
use crate::lag::key_of;
use crate::sonic::toml_text::ranges;
use crate::storm_control::BURST;
use crate::vlan::LAST;
use crate::{
    BufferConfig, Config, EcnMode, LldpConfig, LldpMode, MarkPoint, PfcRx, PgConfig, PortConfig, QueueConfig,
    SchedulerConfig, SchedulerType, SharedLimit, Trust, WatchdogAction, WredConfig, queue_of,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use weir_dataplane::storm_control::FloodLimit;
use weir_dataplane::switch::Filter;
use weir_dataplane::types::{Mac, PortId};
use weir_dataplane::vlan::PortVlans;

use Outcome::{Approximated, Ignored, Mapped};

/// The tables a configuration comes to.
#[derive(Clone, Debug)]
pub struct Export {
    /// `config_db.json`.
    pub json: String,
    /// What became of every part of the configuration.
    pub notes: Vec<Note>,
}

/// Writes `config` as SONiC's tables. [`super::import()`] of them makes a switch with the same parameters, but for what
/// the notes name.
pub fn export(config: &Config) -> Export {
    let mut out = Exporter { config, tables: Ordered(Vec::new()), notes: Vec::new() };
    out.ports();
    out.storm_control();
    out.maps();
    out.buffer();
    out.queues();
    out.watchdog();
    out.lags();
    out.vlans();
    out.stations();
    out.mirrors();
    out.lldp();
    out.left_out();
    // A tree of texts always has a text.
    let json = serde_json::to_string_pretty(&out.tables).unwrap_or_default() + "\n";
    Export { json, notes: out.notes }
}

struct Exporter<'c> {
    config: &'c Config,
    tables: Ordered<Ordered<Value>>,
    notes: Vec<Note>,
}

/// An object whose entries stay in the order they were made in: that of the ports is theirs.
struct Ordered<T>(Vec<(String, T)>);

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// Distinct values in the order they were met, each with the name it gets.
struct Distinct<'n, T> {
    /// Value, what it is called here, what it is called there.
    all: Vec<(T, &'n str, String)>,
    /// Names of others.
    taken: Vec<String>,
}

impl<'n, T: PartialEq> Distinct<'n, T> {
    /// None of the names in `taken` is given, but to what is called so here.
    fn beside(taken: &[String]) -> Self {
        Self { all: Vec::new(), taken: taken.to_vec() }
    }

    /// Name of the value that is called `of` here: `name`, or `name_1`, `name_2` where that is another's.
    fn name(&mut self, value: T, of: &'n str, name: &str) -> String {
        if let Some((.., known)) = self.all.iter().find(|(v, known, _)| (v, *known) == (&value, of)) {
            return known.clone();
        }
        let numbered = |n: usize| if n == 0 { name.to_owned() } else { format!("{name}_{n}") };
        let is_free = |name: &String| {
            (name == of || !self.taken.contains(name)) && self.all.iter().all(|(.., given)| given != name)
        };
        let free = (0..).map(numbered).find(is_free).unwrap_or_default();
        self.all.push((value, of, free.clone()));
        free
    }
}

/// What makes one ingress profile: reserved, limit, xon, xon_offset, xoff, lossless.
type PgValue = (u64, SharedLimit, u64, u64, u64, bool);

fn pg_value(pg: &PgConfig) -> PgValue {
    match pg.lossless {
        true => (pg.reserved, pg.shared, pg.xon, pg.xon_offset, pg.xoff, true),
        false => (pg.reserved, pg.shared, 0, 0, 0, false),
    }
}

/// That of [`UNBOUND`].
const UNBOUND_VALUE: PgValue = (0, SharedLimit::Dynamic(0), 0, 0, 0, false);

/// What makes one egress profile: reserved, limit unless lossless.
type QueueValue = (u64, Option<SharedLimit>);

fn queue_value(queue: &QueueConfig) -> QueueValue {
    (queue.reserved, (!queue.lossless).then_some(queue.shared))
}

impl<'c> Exporter<'c> {
    fn row(&mut self, table: &str, key: &str, fields: Value) {
        let tables = &mut self.tables.0;
        let known = tables.iter().position(|(name, _)| name == table);
        let at = known.unwrap_or_else(|| {
            tables.push((table.to_owned(), Ordered(Vec::new())));
            tables.len() - 1
        });
        tables[at].1.0.push((key.to_owned(), fields));
    }

    fn note(&mut self, outcome: Outcome, what: &str, key: &str, why: impl Into<String>) {
        self.notes.push(super::note(outcome, what, key, why));
    }

    fn ports(&mut self) {
        let config = self.config;
        self.row("DEVICE_METADATA", "localhost", json!({ "hostname": config.name }));
        self.note(Mapped, "switch.name", "", "DEVICE_METADATA hostname");
        let mut cables = Map::new();
        for port in &config.ports {
            let asymmetric = if port.pfc.rx == PfcRx::All { "on" } else { "off" };
            let mut fields = json!({ "admin_status": port.admin.word(), "pfc_asym": asymmetric });
            match port.rate.bps() {
                Some(rate) if rate.is_multiple_of(1_000_000) => fields["speed"] = text(rate / 1_000_000),
                Some(rate) => {
                    fields["speed"] = text(rate.div_ceil(1_000_000));
                    self.note(Approximated, "port.rate", &port.name, "SONiC counts whole Mbit/s: rounded up");
                }
                None => self.note(Ignored, "port.rate", &port.name, "that of the link: set PORT speed"),
            }
            let mtu = u64::from(port.mtu);
            match mtu.checked_sub(HEADERS).filter(|mtu| *mtu >= 68) {
                Some(mtu) => fields["mtu"] = text(mtu),
                None => self.note(Ignored, "port.mtu", &port.name, "below the least mtu SONiC has, 68"),
            }
            self.row("PORT", &port.name, fields);
            self.note(Mapped, "port", &port.name, "PORT speed, mtu, pfc_asym, admin_status");
            if let Some(mm) = port.cable_mm {
                if !mm.is_multiple_of(1000) {
                    self.note(
                        Approximated,
                        "port.cable",
                        &port.name,
                        "SONiC counts whole metres: rounded up",
                    );
                }
                cables.insert(port.name.clone(), json!(format!("{}m", mm.div_ceil(1000))));
            }
            if !port.name.starts_with("Ethernet") {
                self.note(
                    Approximated,
                    "port.name",
                    &port.name,
                    "SONiC calls its ports Ethernet0, Ethernet4 and so on: rename it",
                );
            }
            self.note(
                Ignored,
                "port.device",
                &port.name,
                "SONiC has lanes and alias: take them from port_config.ini of the platform",
            );
        }
        if !cables.is_empty() {
            self.row("CABLE_LENGTH", CABLES, Value::Object(cables));
        }
    }

    fn storm_control(&mut self) {
        let config = self.config;
        for port in &config.ports {
            let Some(limits) = port.storm_control else { continue };
            for (word, kind) in STORM_TYPES {
                let key = format!("port.storm_control.{}", kind.word());
                match limits.limit(kind) {
                    Some(FloodLimit::Bits(rate)) => {
                        let kbps = text(rate.div_ceil(1_000));
                        let name = format!("{}|{word}", port.name);
                        self.row("PORT_STORM_CONTROL", &name, json!({ "kbps": kbps }));
                        match rate.is_multiple_of(1_000) {
                            true => self.note(Mapped, &key, &port.name, "PORT_STORM_CONTROL"),
                            false => {
                                let why = "SONiC counts whole kbit/s: rounded up";
                                self.note(Approximated, &key, &port.name, why);
                            }
                        }
                    }
                    Some(FloodLimit::Frames(_)) => {
                        self.note(Ignored, &key, &port.name, "SONiC limits kbit/s, not frames per second");
                    }
                    None => {}
                }
            }
            if limits.burst != BURST {
                self.note(Ignored, "port.storm_control.burst", &port.name, "SONiC has the chip choose it");
            }
        }
    }

    fn maps(&mut self) {
        let config = self.config;
        let of = |port: &'c PortConfig, key: &str| {
            let of = port.map_names.get(key).map_or("", String::as_str);
            of.strip_prefix(&map_name(key, "")).unwrap_or(of)
        };
        let named = |key: &str| config.ports.iter().map(|port| of(port, key).to_owned()).collect::<Vec<_>>();
        let distinct = MAPS.iter().map(|(_, _, key, ..)| Distinct::beside(&named(key)));
        let mut distinct: Vec<Distinct<'_, Vec<u8>>> = distinct.collect();
        for port in &config.ports {
            let maps = &port.maps;
            let values: [&[u8]; 6] = [
                &maps.dscp_to_tc,
                &maps.pcp_to_tc,
                &maps.tc_to_queue,
                &maps.tc_to_pg,
                &maps.pfc_to_queue,
                &maps.pfc_to_pg,
            ];
            let mut fields = Map::new();
            for (kind, &(_, field, key, ..)) in MAPS.iter().enumerate() {
                let trusted = match key {
                    "dscp_to_tc" => port.trust.contains(&Trust::Dscp),
                    "pcp_to_tc" => port.trust.contains(&Trust::Pcp),
                    _ => true,
                };
                if trusted {
                    let of = of(port, key);
                    let name = if of.is_empty() { "AZURE" } else { of };
                    fields.insert(field.into(), json!(distinct[kind].name(values[kind].to_vec(), of, name)));
                }
            }
            let enable = priorities(port.pfc.enable);
            if !enable.is_empty() {
                if config.watchdog.is_some() {
                    fields.insert("pfcwd_sw_enable".into(), json!(enable));
                }
                fields.insert("pfc_enable".into(), json!(enable));
            }
            self.row("PORT_QOS_MAP", &port.name, Value::Object(fields));
            self.note(Mapped, "port.maps, port.pfc.enable", &port.name, "PORT_QOS_MAP");
            let sources: Vec<Trust> = port.trust.iter().copied().filter(|t| *t != Trust::Port).collect();
            if sources.iter().position(|t| *t == Trust::Pcp) < sources.iter().position(|t| *t == Trust::Dscp)
                && sources.contains(&Trust::Pcp)
            {
                self.note(
                    Approximated,
                    "port.trust",
                    &port.name,
                    "SONiC looks at the DSCP of IP frames, then at the PCP",
                );
            }
            if sources.contains(&Trust::Tc) {
                self.note(Ignored, "port.trust", &port.name, "SONiC knows no AFH traffic class");
            }
        }
        for (kind, distinct) in distinct.into_iter().enumerate() {
            let table = MAPS[kind].0;
            for (map, _, name) in distinct.all {
                let entries = map.iter().enumerate().map(|(from, to)| (from.to_string(), text(*to)));
                self.row(table, &name, Value::Object(entries.collect()));
                self.note(Mapped, MAPS[kind].2, &name, table);
            }
        }
    }

    fn buffer(&mut self) {
        let config = self.config;
        let buffer = &config.buffer;
        let mut pool = json!({ "type": "ingress", "mode": "dynamic", "size": text(buffer.shared) });
        if buffer.headroom_pooled {
            pool["xoff"] = text(buffer.headroom);
        }
        self.row("BUFFER_POOL", INGRESS, pool);
        self.note(
            Mapped,
            "buffer.size",
            "",
            format!("BUFFER_POOL|{INGRESS}: what is shared of it, {}", buffer.division()),
        );
        self.row(
            "BUFFER_POOL",
            EGRESS_LOSSLESS,
            json!({ "type": "egress", "mode": "static", "size": text(of_a_chip(buffer)) }),
        );
        let why = format!("BUFFER_POOL|{EGRESS_LOSSLESS}: all of it that a chip has");
        self.note(Mapped, "buffer.size", "", why);
        let lossy = json!({ "type": "egress", "mode": "dynamic", "size": text(buffer.egress_lossy_pool) });
        self.row("BUFFER_POOL", EGRESS_LOSSY, lossy);
        self.note(Mapped, "buffer.egress_lossy_pool", "", format!("BUFFER_POOL|{EGRESS_LOSSY}"));
        if buffer.control_bytes > 0 {
            self.note(Ignored, "buffer.control_bytes", "", "SONiC sets nothing aside for CNPs");
        }
        if buffer.staleness > 0 {
            self.note(
                Ignored,
                "port.lcore",
                "",
                "a chip has no lcores: what they may not know of each other is not set aside",
            );
        }
        if buffer.cell_bytes > 1 {
            self.note(Ignored, "buffer.cell_bytes", "", "the chip has its own cells");
        }
        let mut groups = Distinct::beside(&buffer.profiles);
        for port in &config.ports {
            let name = |pg: &PgConfig| {
                let of = buffer.profiles[pg.profile].as_str();
                let bound = !(of == UNBOUND && pg_value(pg) == UNBOUND_VALUE);
                bound.then(|| groups.name(pg_value(pg), of, &pg_name(config, port, pg)))
            };
            let names: Vec<Option<String>> = port.pgs.iter().map(name).collect();
            self.bind("BUFFER_PG", port, &names);
            if port.ingress_limit.is_some() || port.egress_limit.is_some() {
                let why = "limits per port are profiles of the chip: BUFFER_PORT_INGRESS_PROFILE_LIST";
                self.note(Ignored, "buffer.port", &port.name, why);
            }
        }
        let given = groups.all.iter().map(|(.., name)| name);
        let mut queues = Distinct::beside(&buffer.profiles.iter().chain(given).cloned().collect::<Vec<_>>());
        for port in &config.ports {
            let name = |queue: &QueueConfig| {
                let of = buffer.profiles[queue.profile].as_str();
                Some(queues.name(queue_value(queue), of, &sonic_name(of)))
            };
            let names: Vec<Option<String>> = port.queues.iter().map(name).collect();
            self.bind("BUFFER_QUEUE", port, &names);
        }
        for ((reserved, limit, xon, xon_offset, xoff, lossless), _, name) in groups.all {
            let mut fields = threshold(limit);
            fields["pool"] = json!(INGRESS);
            fields["size"] = text(if buffer.headroom_pooled { reserved } else { reserved + xoff });
            if lossless {
                fields["xon"] = text(xon);
                fields["xon_offset"] = text(xon_offset);
                fields["xoff"] = text(xoff);
            }
            self.row("BUFFER_PROFILE", &name, fields);
            self.note(Mapped, "buffer.profile", &name, "BUFFER_PROFILE");
        }
        for ((reserved, limit), _, name) in queues.all {
            // In a static pool a threshold of all of it is none.
            let mut fields = threshold(limit.unwrap_or(SharedLimit::Static(of_a_chip(buffer))));
            fields["pool"] = json!(if limit.is_some() { EGRESS_LOSSY } else { EGRESS_LOSSLESS });
            fields["size"] = text(reserved);
            self.row("BUFFER_PROFILE", &name, fields);
            self.note(Mapped, "buffer.profile", &name, "BUFFER_PROFILE");
        }
    }

    /// Runs of groups or queues with one profile, if they have one.
    fn bind(&mut self, table: &str, port: &PortConfig, names: &[Option<String>]) {
        for run in runs(names) {
            if let Some(profile) = &names[usize::from(run[0])] {
                self.row(table, &format!("{}|{}", port.name, ranges(&run)), json!({ "profile": profile }));
            }
        }
        self.note(Mapped, if table == "BUFFER_PG" { "buffer.pg" } else { "buffer.queue" }, &port.name, table);
    }

    fn queues(&mut self) {
        let config = self.config;
        let (mut schedulers, mut wreds) =
            (Distinct::beside(&config.schedulers), Distinct::beside(&config.wreds));
        for port in &config.ports {
            let bound: Vec<(String, Option<String>)> = port
                .queues
                .iter()
                .map(|queue| {
                    let of = queue.scheduler_profile.map_or("", |i| config.schedulers[i].as_str());
                    let name = if of.is_empty() { "scheduler" } else { of };
                    let scheduler = schedulers.name(plain(queue.scheduler), of, name);
                    // AFH traffic classes cannot be marked there.
                    let wred = queue.wred.filter(|w| w.ecn != EcnMode::Tc || w.wred_drop);
                    let of = queue.wred_profile.map_or("", |i| config.wreds[i].as_str());
                    (scheduler, wred.map(|wred| wreds.name(wred, of, of)))
                })
                .collect();
            for run in runs(&bound) {
                let (scheduler, wred) = &bound[usize::from(run[0])];
                let mut fields = json!({ "scheduler": scheduler });
                if let Some(wred) = wred {
                    fields["wred_profile"] = json!(wred);
                }
                self.row("QUEUE", &format!("{}|{}", port.name, ranges(&run)), fields);
            }
            self.note(Mapped, "queue", &port.name, "QUEUE");
            if port.queues.iter().any(|q| q.wred.is_some_and(|w| w.ecn == EcnMode::Tc)) {
                self.note(Ignored, "wred.ecn", &port.name, "SONiC marks no AFH traffic class");
            }
        }
        for (scheduler, _, name) in schedulers.all {
            let mut fields = json!({ "type": scheduler.kind.word() });
            match scheduler.kind {
                SchedulerType::Strict => {}
                _ => fields["weight"] = text(scheduler.weight),
            }
            if let Some(priority) = scheduler.priority {
                fields["priority"] = text(priority);
            }
            for (key, rate) in [("cir", scheduler.cir), ("pir", scheduler.pir)] {
                if let Some(rate) = rate {
                    fields["meter_type"] = json!("bytes");
                    fields[key] = text(rate.div_ceil(8));
                    if !rate.is_multiple_of(8) {
                        self.note(
                            Approximated,
                            "scheduler",
                            &name,
                            "SONiC counts whole bytes per second: rounded up",
                        );
                    }
                }
            }
            self.row("SCHEDULER", &name, fields);
            self.note(Mapped, "scheduler", &name, "SCHEDULER");
        }
        for (wred, _, name) in wreds.all {
            self.wred(&wred, &name);
        }
    }

    fn wred(&mut self, wred: &WredConfig, name: &str) {
        let percent = wred.pmax.div_ceil(10_000);
        if !wred.pmax.is_multiple_of(10_000) {
            self.note(Approximated, "wred.pmax", name, "SONiC counts whole percent: rounded up");
        }
        if wred.mark == MarkPoint::Enqueue {
            self.note(Ignored, "wred.mark", name, "where a chip marks is not set in SONiC");
        }
        let marks = wred.ecn == EcnMode::Ecn;
        if marks && !wred.wred_drop {
            let why = "WRED_PROFILE wred_green_enable is true, since a profile that is not enabled marks nothing there: a \
                       chip may drop what it cannot mark";
            self.note(Approximated, "wred.wred_drop", name, why);
        }
        let mut fields = Map::new();
        for colour in ["green", "yellow", "red"] {
            let enable = if wred.wred_drop || marks { "true" } else { "false" };
            fields.insert(format!("wred_{colour}_enable"), json!(enable));
            fields.insert(format!("{colour}_min_threshold"), text(wred.kmin));
            fields.insert(format!("{colour}_max_threshold"), text(wred.kmax));
            fields.insert(format!("{colour}_drop_probability"), text(percent));
        }
        fields.insert("ecn".into(), json!(if marks { "ecn_all" } else { "ecn_none" }));
        self.row("WRED_PROFILE", name, Value::Object(fields));
        self.note(Mapped, "wred", name, "WRED_PROFILE: thresholds in bytes, as they are on these ports");
    }

    fn watchdog(&mut self) {
        let config = self.config;
        let Some(watchdog) = &config.watchdog else { return };
        let ms = |ns: u64| ns.div_ceil(1_000_000);
        let action = match watchdog.action {
            WatchdogAction::Drop => "drop",
            WatchdogAction::Forward => "forward",
            WatchdogAction::Alert => "alert",
        };
        let global = json!({
            "POLL_INTERVAL": text(ms(watchdog.poll)),
            "BIG_RED_SWITCH": if watchdog.big_red_switch { "enable" } else { "disable" },
        });
        self.row("PFC_WD", "GLOBAL", global);
        for port in config.ports.iter().filter(|port| port.pfc.enable != 0) {
            let fields = json!({
                "action": action,
                "detection_time": text(ms(watchdog.detection)),
                "restoration_time": text(ms(watchdog.restoration)),
            });
            self.row("PFC_WD", &port.name, fields);
        }
        self.note(Mapped, "watchdog", "", "PFC_WD");
        if watchdog.reoccurrence.is_some() {
            self.note(Ignored, "watchdog.reoccurrence", "", "SONiC restores a queue however often it storms");
        }
        if watchdog.allow_short {
            self.note(Ignored, "watchdog.allow_short", "", "SONiC's times are 100 ms at least: check these");
        }
    }

    fn lldp(&mut self) {
        const SECOND: u64 = 1_000_000_000;
        let config = self.config;
        let LldpConfig { enable, interval, hold, system_name, .. } = &config.lldp;
        if !enable {
            return;
        }
        let (hello, multiplier) = (interval.div_ceil(SECOND).clamp(5, 254), (*hold).clamp(1, 10));
        self.row(
            "LLDP",
            "GLOBAL",
            json!({
                "enabled": "true",
                "hello_time": hello.to_string(),
                "multiplier": multiplier.to_string(),
                "system_name": system_name,
            }),
        );
        let same = hello * SECOND == *interval && multiplier == *hold;
        match same {
            true => self.note(Mapped, "lldp", "", "LLDP hello_time, multiplier, system_name"),
            false => self.note(
                Approximated,
                "lldp",
                "",
                "SONiC's hello_time is 5 to 254 s, its multiplier 1 to 10",
            ),
        }
        for port in &config.ports {
            let fields = match port.lldp {
                LldpMode::Both => continue,
                LldpMode::Receive => json!({ "enabled": "true", "mode": "RECEIVE" }),
                LldpMode::Off => json!({ "enabled": "false" }),
            };
            self.row("LLDP_PORT", &port.name, fields);
            self.note(Mapped, "port.lldp", &port.name, "LLDP_PORT");
        }
    }

    fn lags(&mut self) {
        let config = self.config;
        for lag in &config.lags {
            let mut fields = json!({ "admin_status": lag.admin.word() });
            match &lag.lacp {
                None => fields["static"] = json!("true"),
                Some(lacp) => {
                    fields["fast_rate"] = json!(lacp.fast.to_string());
                    fields["min_links"] = json!(lacp.min_links.to_string());
                    fields["fallback"] = json!(lacp.fallback.to_string());
                    if lacp.key != key_of(&lag.name) {
                        fields["lacp_key"] = json!(lacp.key.to_string());
                    }
                }
            }
            self.row("PORTCHANNEL", &lag.name, fields);
            for port in &lag.members {
                let key = format!("{}|{}", lag.name, config.ports[port.index()].name);
                self.row("PORTCHANNEL_MEMBER", &key, json!({}));
            }
            self.note(Mapped, "lag", &lag.name, "PORTCHANNEL, PORTCHANNEL_MEMBER");
            let why = "SONiC chooses a member by a hash of its own";
            self.note(Approximated, "lag.hash", &lag.name, why);
            if lag.lacp.is_some_and(|lacp| !lacp.active) {
                self.note(Approximated, "lag.lacp", &lag.name, "LACP is active there");
            }
            if !lag.name.starts_with("PortChannel") {
                let why = "SONiC calls its LAGs PortChannel1 and so on: rename it";
                self.note(Approximated, "lag.name", &lag.name, why);
            }
        }
    }

    /// VLANs of ports; those of a LAG are said of the LAG.
    fn vlans(&mut self) {
        let config = self.config;
        let all = |vlans: &PortVlans| vlans.members.iter().count() == usize::from(LAST);
        let of = |port: &PortConfig| port.vlans.clone().map(|vlans| (all(&vlans), vlans));
        let ports: Vec<_> = config.ports.iter().map(of).collect();
        // A trunk of all VLANs carries those that some other port is in.
        let some = ports.iter().flatten().filter(|(all, _)| !all).flat_map(|(_, vlans)| vlans.members.iter());
        let natives = ports.iter().flatten().filter_map(|(_, vlans)| vlans.native);
        let used: BTreeSet<u16> = some.chain(natives).collect();
        if used.is_empty() && ports.iter().flatten().any(|(all, _)| !all) {
            let (name, why) = (
                format!("Vlan{LAST}"),
                "a VLAN without members: a port of weir that is in none reaches nobody",
            );
            self.row("VLAN", &name, json!({ "vlanid": text(LAST) }));
            self.note(Approximated, "port.vlan", &name, format!("VLAN: {why}"));
        }
        for vid in &used {
            self.row("VLAN", &format!("Vlan{vid}"), json!({ "vlanid": text(vid) }));
        }
        for (i, (port, vlans)) in config.ports.iter().zip(&ports).enumerate() {
            let Some((all, vlans)) = vlans else { continue };
            let id = PortId(i as u16);
            let lag = config.lag_of(id);
            if lag.is_some_and(|lag| lag.members[0] != id) {
                continue;
            }
            let name = lag.map_or(&port.name, |lag| &lag.name);
            for vid in used.iter().filter(|vid| vlans.members.contains(**vid)) {
                let mode = if vlans.native == Some(*vid) { "untagged" } else { "tagged" };
                self.row("VLAN_MEMBER", &format!("Vlan{vid}|{name}"), json!({ "tagging_mode": mode }));
            }
            match all {
                false => self.note(Mapped, "port.vlan", name, "VLAN_MEMBER"),
                true => self.note(
                    Approximated,
                    "port.vlan",
                    name,
                    "VLAN_MEMBER, of the VLANs that other ports are in",
                ),
            }
        }
    }

    /// Static entries: there each is of a VLAN.
    fn stations(&mut self) {
        let config = self.config;
        for entry in &config.fdb.statics {
            let (port, mac) = (&config.ports[entry.port.index()], Mac::from_u64(entry.key));
            // That of an engine is no entry that somebody wrote.
            if port.engine.is_some_and(|engine| engine.address.mac == mac) {
                continue;
            }
            if entry.vlan == 0 || entry.format != 0 {
                let why = "an entry of SONiC has a VLAN and a MAC address";
                self.note(Ignored, "fdb.static", &format!("{:#x}", entry.key), why);
                continue;
            }
            let name = config.lag_of(entry.port).map_or(&port.name, |lag| &lag.name);
            self.row("FDB", &format!("Vlan{}|{mac}", entry.vlan), json!({ "port": name, "type": "static" }));
            self.note(Mapped, "fdb.static", &mac.to_string(), "FDB");
        }
    }

    fn mirrors(&mut self) {
        let config = self.config;
        for mirror in &config.mirrors {
            if mirror.filter != Filter::default() {
                let why = "SONiC chooses what to mirror with access lists: table ACL_RULE";
                self.note(Ignored, "mirror", &mirror.name, why);
                continue;
            }
            let Some((to, tc)) = mirror.port() else {
                self.note(Ignored, "mirror", &mirror.name, "SONiC writes no files of frames");
                continue;
            };
            let name = |port: &PortId| config.ports[port.index()].name.as_str();
            let fields = json!({
                "type": "SPAN",
                "src_port": mirror.ports.iter().map(name).collect::<Vec<_>>().join(","),
                "direction": mirror.direction.word().to_ascii_uppercase(),
                "dst_port": name(&to),
                "queue": text(queue_of(tc, &config.ports[to.index()])),
            });
            self.row("MIRROR_SESSION", &mirror.name, fields);
            self.note(Mapped, "mirror", &mirror.name, "MIRROR_SESSION of type SPAN");
        }
        if config.buffer.mirror_bytes > 0 {
            self.note(Ignored, "buffer.mirror_bytes", "", "SONiC sets nothing aside for copies");
        }
    }

    /// What no table is for.
    fn left_out(&mut self) {
        let config = self.config;
        if config.control_tc.is_some() {
            self.note(Ignored, "qos.control_tc", "", "SONiC has CNPs go by their DSCP");
        }
        for port in &config.ports {
            let odd = [
                (!port.pfc.tx, "port.pfc.tx", "SONiC sends what it obeys"),
                (
                    matches!(port.pfc.rx, PfcRx::Link | PfcRx::None),
                    "port.pfc.rx",
                    "SONiC obeys PFC of the priorities it sends",
                ),
                (port.format != 0, "port.format", "SONiC's frames are those of Ethernet"),
            ];
            for (_, what, why) in odd.into_iter().filter(|(is, ..)| *is) {
                self.note(Ignored, what, &port.name, why);
            }
        }
        if !config.fdb.groups.is_empty() {
            self.note(Ignored, "fdb.group", "", "SONiC learns groups by IGMP");
        }
        for key in ["pfc.pause_quanta", "pfc.poll_gap", "pfc.refresh"] {
            self.note(Ignored, key, "", "fixed in the chip");
        }
        self.notes.extend(left_out::notes(config));
    }
}

/// SONiC's name for a lossless profile, by speed and cable, where its headroom is that of the port; else that of
/// weir's profile.
fn pg_name(config: &Config, port: &PortConfig, pg: &PgConfig) -> String {
    let of = config.buffer.profiles[pg.profile].as_str();
    let all = config.ports.iter().flat_map(|port| &port.pgs).filter(|other| other.profile == pg.profile);
    let computed = [AUTO, PRESET].contains(&of) || all.map(pg_value).any(|value| value != pg_value(pg));
    match (pg.lossless && computed, port.rate.bps(), port.cable_mm) {
        (true, Some(rate), Some(mm)) => {
            format!("pg_lossless_{}_{}m_profile", rate.div_ceil(1_000_000), mm.div_ceil(1000))
        }
        _ => sonic_name(of),
    }
}

/// The name of a profile: those of weir that nobody wrote are called as SONiC calls its own.
fn sonic_name(profile: &str) -> String {
    profile.replace("_default", "_profile")
}

/// Without what has no effect: the weight of a strict queue, the level of a weighted one.
fn plain(scheduler: SchedulerConfig) -> SchedulerConfig {
    match scheduler.kind {
        SchedulerType::Strict => SchedulerConfig { weight: 1, ..scheduler },
        _ => SchedulerConfig { priority: None, ..scheduler },
    }
}

/// The buffer without what a chip does not set aside: bytes for CNPs, for copies, for what lcores do not know of each other.
fn of_a_chip(buffer: &BufferConfig) -> u64 {
    buffer.shared.saturating_add(buffer.reserved).saturating_add(buffer.headroom)
}

fn threshold(limit: SharedLimit) -> Value {
    match limit {
        SharedLimit::Dynamic(n) => json!({ "dynamic_th": text(n) }),
        SharedLimit::Static(bytes) => json!({ "static_th": text(bytes) }),
    }
}

/// Numbers of entries that follow each other and are equal.
fn runs<T: PartialEq>(all: &[T]) -> Vec<Vec<u8>> {
    let mut runs: Vec<Vec<u8>> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if all[usize::from(run[0])] == *one => run.push(i as u8),
            _ => runs.push(vec![i as u8]),
        }
    }
    runs
}

/// SONiC writes numbers as texts.
fn text(n: impl std::fmt::Display) -> Value {
    json!(n.to_string())
}

/// `3,4`
fn priorities(mask: u8) -> String {
    let all: Vec<_> = (0..8).filter(|p| mask >> p & 1 == 1).map(|p| p.to_string()).collect();
    all.join(",")
}

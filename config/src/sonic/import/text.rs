//! The configuration as TOML.

use super::{Importer, Limit, Port, Queues, Station, map_name};
use crate::AdminStatus;
use crate::device_of;
use crate::read::fits_name;
use crate::sonic::MAPS;
use crate::sonic::toml_text::{TomlText, Written, class_map, key, list, quoted, ranges};
use std::collections::BTreeMap;
use weir_dataplane::storm_control::FloodKind;
use weir_dataplane::vlan::{PortVlans, VidSet};

/// What is to be written of one port, or of all: key and value.
type Keys = Vec<(&'static str, String)>;

impl Importer<'_> {
    /// With a buffer of `size` bytes, the ports on `lcores` lcores, an equal part each; of one nothing is said.
    pub(super) fn text(&self, size: u64, lcores: usize) -> Written {
        let mut out = TomlText::default();
        out.comment("Made from SONiC's tables by `weir config import sonic`.");
        if lcores > 1 {
            out.table("[eal]");
            out.key("args", list(["-l", &format!("0-{lcores}")]));
        }
        if let Some(name) = &self.name {
            out.table("[switch]");
            out.key("name", quoted(name));
        }
        self.write_ports(&mut out, lcores);
        self.write_maps(&mut out);
        self.write_buffer(&mut out, size);
        self.write_queues(&mut out);
        for (i, lag) in self.lags.iter().enumerate() {
            self.entry(&mut out, "[[lag]]", i);
            out.key("name", quoted(&lag.name));
            out.key("members", list(lag.members.iter().map(|port| self.ports[*port].name.as_str())));
            if lag.down {
                out.key("admin", quoted(AdminStatus::Down.word()));
            }
            lag.lacp.iter().for_each(|(key, value)| out.key(key, value));
        }
        for (i, Station { mac, vid, port }) in self.stations.iter().enumerate() {
            self.entry(&mut out, "[[fdb.static]]", i);
            out.key("mac", quoted(&mac.to_string()));
            out.key("vlan", vid);
            out.key("port", quoted(&self.ports[*port].name));
        }
        for (i, mirror) in self.mirrors.iter().enumerate() {
            let name = |port: usize| self.ports[port].name.as_str();
            self.entry(&mut out, "[[mirror]]", i);
            out.key("name", quoted(&mirror.name));
            out.key("ports", list(mirror.ports.iter().map(|port| name(*port))));
            out.key("direction", quoted(mirror.direction));
            out.key("to", quoted(name(mirror.to)));
            out.maybe("tc", mirror.tc);
        }
        if let Some(lldp) = &self.lldp {
            self.entry(&mut out, "[lldp]", 0);
            out.key("enable", lldp.enable);
            out.maybe("interval", lldp.interval.map(|seconds| format!("\"{seconds}s\"")));
            out.maybe("hold", lldp.hold);
            out.maybe("system_name", lldp.system_name.as_deref().map(quoted));
        }
        if let Some(watch) = &self.watch {
            let ms = |n: i64| format!("\"{n}ms\"");
            self.entry(&mut out, "[watchdog]", 0);
            out.key("action", quoted(watch.action));
            out.maybe("detection_time", watch.detection.map(ms));
            out.maybe("restoration_time", watch.restoration.map(ms));
            out.maybe("poll_interval", self.poll.map(ms));
            if self.big_red_switch {
                out.key("big_red_switch", true);
            }
        }
        out.into_written()
    }

    /// Begins an entry: where number `i` of those under this header comes from is known.
    fn entry(&self, out: &mut TomlText, header: &'static str, i: usize) {
        out.entry(header, self.origins.get(&(header, i)));
    }

    fn keys_of(&self, port: &Port) -> Keys {
        let mut keys = Keys::new();
        if port.down {
            keys.push(("admin", quoted(AdminStatus::Down.word())));
        }
        if let Some(mode) = port.lldp {
            keys.push(("lldp", quoted(mode.word())));
        }
        if let Some(speed) = port.speed {
            keys.push(("rate", quoted(&crate::show_rate(speed * 1_000_000))));
        }
        if let Some(mtu) = port.mtu {
            keys.push(("mtu", (mtu + super::super::HEADERS).to_string()));
        }
        if let Some(cable) = &port.cable {
            keys.push(("cable", quoted(cable)));
        }
        if let Some(PortVlans { native, members }) = &port.vlans {
            let tagged: VidSet = members.iter().filter(|vid| Some(*vid) != *native).collect();
            let trunk = (tagged.iter().next().is_some()).then(|| quoted(&crate::show_vids(&tagged)));
            keys.push((
                "vlan",
                match (trunk, native) {
                    (None, Some(native)) => format!("{{ access = {native} }}"),
                    (Some(trunk), Some(native)) => format!("{{ trunk = {trunk}, native = {native} }}"),
                    (Some(trunk), None) => format!("{{ trunk = {trunk} }}"),
                    (None, None) => "{ trunk = [] }".to_owned(),
                },
            ));
        }
        let limits = FloodKind::ALL.iter().zip(port.storm_control);
        let limits: Vec<String> =
            limits.filter_map(|(kind, kbps)| Some(format!("{} = \"{}Kbps\"", kind.word(), kbps?))).collect();
        if !limits.is_empty() {
            keys.push(("storm_control", format!("{{ {} }}", limits.join(", "))));
        }
        let chosen = |key: &str| {
            MAPS.iter().position(|(_, _, k, ..)| *k == key).is_some_and(|k| port.maps[k].is_some())
        };
        let mut trust: Vec<&str> = Vec::new();
        trust.extend(chosen("dscp_to_tc").then_some("dscp"));
        trust.extend(chosen("pcp_to_tc").then_some("pcp"));
        if trust.is_empty() {
            trust.push("port");
        }
        keys.push(("trust", list(trust)));
        let enable: Vec<u8> = (0..8).filter(|p| port.pfc >> p & 1 == 1).collect();
        let rx = if port.asymmetric { ", rx = \"all\"" } else { "" };
        keys.push(("pfc", format!("{{ enable = [{}]{rx} }}", join(&enable))));
        let maps: Vec<String> = self.maps_of(port);
        if !maps.is_empty() {
            keys.push(("maps", list(maps.iter().map(String::as_str))));
        }
        keys
    }

    fn write_ports(&self, out: &mut TomlText, lcores: usize) {
        let all: Vec<Keys> = self.ports.iter().map(|port| self.keys_of(port)).collect();
        let common = |entry: &&(&'static str, String)| all.iter().all(|keys| keys.contains(entry));
        let common: Keys =
            all.first().map_or(Keys::new(), |keys| keys.iter().filter(common).cloned().collect());
        out.entry("[port_defaults]", self.origins.get(&("[[port]]", 0)));
        common.iter().for_each(|(key, value)| out.key(key, value));
        for (i, (port, keys)) in self.ports.iter().zip(&all).enumerate() {
            let device = device_of(self.options.device, &port.name, i);
            self.entry(out, "[[port]]", i);
            out.key("name", quoted(&port.name));
            out.key("device", quoted(&device));
            if lcores > 1 {
                out.key("lcore", 1 + i / self.ports.len().div_ceil(lcores));
            }
            keys.iter().filter(|entry| !common.contains(entry)).for_each(|(key, value)| out.key(key, value));
        }
    }

    /// Names of the maps a port uses.
    fn maps_of(&self, port: &Port) -> Vec<String> {
        let chosen = port.maps.iter().enumerate().filter_map(|(kind, name)| Some((kind, name.as_ref()?)));
        chosen.map(|(kind, name)| self.map_name(kind, name)).collect()
    }

    /// What a map is called: SONiC's name behind the key of weir, since those of different tables may be one; a number where
    /// weir has no such name.
    fn map_name(&self, kind: usize, name: &str) -> String {
        let key = MAPS[kind].2;
        let own = map_name(key, name);
        if fits_name(&own) {
            return own;
        }
        let same = self.maps.keys().filter(|(k, _)| *k == kind).position(|(_, n)| n == name).unwrap_or(0);
        format!("{key}_{same}")
    }

    fn write_maps(&self, out: &mut TomlText) {
        for ((kind, name), map) in &self.maps {
            out.table(&format!("[map.{}]", key(&self.map_name(*kind, name))));
            out.comment(&format!(
                "{}|{}",
                MAPS[*kind].0,
                name.chars().filter(|c| !c.is_control()).take(80).collect::<String>()
            ));
            out.key(MAPS[*kind].2, class_map(map));
        }
    }

    fn write_buffer(&self, out: &mut TomlText, size: u64) {
        let lossy = self.pools.values().filter(|pool| !pool.ingress && pool.queues != Queues::Lossless);
        let lossy = lossy.map(|pool| pool.size).filter(|size| *size > 0).reduce(u64::saturating_add);
        self.entry(out, "[buffer]", 0);
        out.key("size", size);
        out.comment("SONiC sets nothing aside for CNPs: they go by their DSCP.");
        out.key("control_bytes", 0);
        if !self.options.auto_headroom {
            out.maybe("headroom_pool", self.headroom_pool);
            out.maybe("over_subscribe_ratio", self.ratio.filter(|_| self.headroom_pool.is_none()));
        }
        out.maybe("egress_lossy_pool", lossy);
        for (i, profile) in self.profiles.iter().enumerate() {
            self.entry(out, "[[buffer.profile]]", i);
            out.key("name", quoted(&profile.name));
            if !profile.ingress {
                out.key("direction", "\"egress\"");
            }
            out.key("reserved", profile.reserved);
            match profile.limit {
                _ if profile.lossless && !profile.ingress => {}
                Some(Limit::Dynamic(n)) => out.key("dynamic_th", n),
                Some(Limit::Static(bytes)) => out.key("static_th", bytes),
                None => {}
            }
            if profile.lossless && profile.ingress {
                out.key("xon", profile.xon);
                out.maybe("xon_offset", profile.xon_offset);
                out.key("xoff", profile.xoff.map_or("\"auto\"".into(), |xoff| xoff.to_string()));
            }
            if profile.lossless {
                out.key("lossless", true);
            }
        }
        let names: Vec<&str> = self.profiles.iter().map(|profile| profile.name.as_str()).collect();
        self.bind(out, "[[buffer.pg]]", "pgs", "profile", &names, |port| port.pgs);
        self.bind(out, "[[buffer.queue]]", "queues", "profile", &names, |port| port.queues);
    }

    fn write_queues(&self, out: &mut TomlText) {
        for (i, scheduler) in self.schedulers.iter().enumerate() {
            self.entry(out, "[[scheduler]]", i);
            out.key("name", quoted(&scheduler.name));
            out.key("type", quoted(scheduler.kind));
            out.maybe("weight", scheduler.weight);
            out.maybe("priority", scheduler.priority);
            out.maybe("cir", scheduler.cir);
            out.maybe("pir", scheduler.pir);
        }
        for (i, wred) in self.wreds.iter().enumerate() {
            self.entry(out, "[[wred]]", i);
            out.key("name", quoted(&wred.name));
            out.maybe("kmin", wred.kmin);
            out.maybe("kmax", wred.kmax);
            out.key("pmax", quoted(&format!("{}%", wred.pmax)));
            out.key("ecn", if wred.marks { "\"ecn\"" } else { "\"none\"" });
            if wred.drops {
                out.key("wred_drop", true);
            }
        }
        let schedulers: Vec<&str> = self.schedulers.iter().map(|s| s.name.as_str()).collect();
        let wreds: Vec<&str> = self.wreds.iter().map(|w| w.name.as_str()).collect();
        self.bind(out, "[[queue]]", "queues", "scheduler", &schedulers, |port| port.schedulers);
        self.bind(out, "[[queue]]", "queues", "wred", &wreds, |port| port.wreds);
    }

    /// One entry for each profile and each set of groups or queues, with all ports that have it.
    fn bind(
        &self,
        out: &mut TomlText,
        header: &str,
        which: &str,
        key: &str,
        names: &[&str],
        slots: impl Fn(&Port) -> [Option<usize>; 8],
    ) {
        let mut groups: BTreeMap<(usize, Vec<u8>), Vec<&str>> = BTreeMap::new();
        for port in &self.ports {
            let slots = slots(port);
            for profile in 0..names.len() {
                let bound: Vec<u8> = (0..8u8).filter(|i| slots[usize::from(*i)] == Some(profile)).collect();
                if !bound.is_empty() {
                    groups.entry((profile, bound)).or_default().push(&port.name);
                }
            }
        }
        for ((profile, bound), ports) in groups {
            out.table(header);
            if ports.len() < self.ports.len() {
                out.key("ports", list(ports));
            }
            out.key(which, quoted(&ranges(&bound)));
            out.key(key, quoted(names[profile]));
        }
    }
}

fn join(numbers: &[u8]) -> String {
    numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

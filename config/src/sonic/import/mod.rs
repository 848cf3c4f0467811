//! From tables to TOML.

mod buffer;
mod lag;
mod lldp;
mod mirror;
mod ports;
mod queues;
mod settle;
mod text;
mod vlan;

use super::db::{Db, Row, shown};
use super::lookup::{self, PgLookup};
use super::toml_text::{Origin, ranges as listed_ranges};
use super::{
    AUTO, CABLES, EGRESS_LOSSLESS, EGRESS_LOSSY, INGRESS, MAPS, Note, Outcome, PRESET, UNBOUND, map_name,
};
use crate::LldpMode;
use crate::diag::{Diagnostic, Severity};
use crate::read::{fits_name, ranges};
use crate::{Loaded, load};
use lldp::Lldp;
use settle::MADE;
use std::collections::{BTreeMap, HashMap, HashSet};
use weir_dataplane::types::{Mac, PRIORITIES};
use weir_dataplane::vlan::PortVlans;

/// What the tables cannot say.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// `device` of every port; `{port}` stands for its name, `{n}` for its number.
    pub device: &'a str,
    /// `buffer.size`, instead of what the pools come to.
    pub buffer: Option<u64>,
    /// Lossless groups get the headroom weir computes for itself, not the one written for a chip.
    pub auto_headroom: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { device: "ring", buffer: None, auto_headroom: false }
    }
}

/// A configuration of weir that was made from SONiC's.
#[derive(Clone, Debug)]
pub struct Import {
    /// The text; [`load`] accepts it.
    pub toml: String,
    /// What became of every row.
    pub notes: Vec<Note>,
    /// What [`load`] says about it.
    pub warnings: Vec<Diagnostic>,
}

/// Makes a configuration from files of tables (`config_db.json`, `buffers.json`, `qos.json`) and `pg_profile_lookup.ini`
/// (a name that ends in `.ini`), each a name and a text. Of what is said twice the later one counts.
///
/// # Errors
/// What is wrong with the files, or with the configuration they come to.
pub fn import(sources: &[(&str, &str)], options: &Options<'_>) -> Result<Import, Vec<Diagnostic>> {
    let is_ini = |name: &str| name.to_ascii_lowercase().ends_with(".ini");
    let mut db = Db::read(sources, |name| !is_ini(name));
    let mut lookup = Vec::new();
    for (i, (_, text)) in sources.iter().enumerate().filter(|(_, (name, _))| is_ini(name)) {
        lookup.extend(lookup::read(&mut db, i, text));
    }
    let mut importer = Importer::new(db, lookup, options);
    importer.read();
    if importer.db.found.has_errors() {
        return Err(importer.db.into_found());
    }
    // What is promised does not depend on how much there is: the rest of any size is what would be shared.
    let (lcores, roomy) = match importer.lcores() {
        Ok(found) => found,
        Err((written, found)) => return Err(importer.told(&written, found).1),
    };
    let size = match options.buffer {
        Some(size) => size,
        None => importer.shared().saturating_add(roomy.buffer.promised()).max(LEAST),
    };
    let written = importer.text(size, lcores);
    match load(MADE, &written.text) {
        Ok(Loaded { warnings, .. }) => {
            let (notes, warnings) = importer.told(&written, warnings);
            Ok(Import { toml: written.text, notes, warnings })
        }
        Err(found) => Err(importer.told(&written, found).1),
    }
}

/// A buffer in which everything has room, bytes.
const ROOMY: u64 = crate::buffer::LARGEST;
/// The smallest there may be.
const LEAST: u64 = 64 << 10;
/// Most bytes a number may mean: an export has no more.
const MOST: i64 = crate::buffer::LARGEST as i64;
/// Mbit/s, at most.
const FASTEST: i64 = 10_000_000;
/// What a lossless queue gets that nothing says to be.
const EGRESS: &str = "egress_lossless_weir";

#[derive(Default)]
struct Port {
    name: String,
    /// Its `admin_status` is down.
    down: bool,
    lldp: Option<LldpMode>,
    /// Mbit/s.
    speed: Option<u64>,
    mtu: Option<u64>,
    cable: Option<String>,
    asymmetric: bool,
    pfc: u8,
    /// Limits on what is flooded, kbit/s, by kind.
    storm_control: [Option<u64>; 3],
    vlans: Option<PortVlans>,
    maps: [Option<String>; MAPS.len()],
    pgs: [Option<usize>; PRIORITIES],
    queues: [Option<usize>; PRIORITIES],
    schedulers: [Option<usize>; PRIORITIES],
    wreds: [Option<usize>; PRIORITIES],
}

struct Pool {
    ingress: bool,
    /// Its profiles are for groups and for queues, as of chips that buffer before the fabric.
    both: bool,
    /// Of an egress pool.
    queues: Queues,
    size: u64,
}

/// Whose bytes count in an egress pool.
#[derive(Clone, Copy, PartialEq)]
enum Queues {
    Lossless,
    Lossy,
    /// Of platforms with one pool: those whose profile has a moving threshold are lossy.
    Both,
}

#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Dynamic(i64),
    Static(i64),
}

#[derive(Clone, PartialEq)]
struct Profile {
    name: String,
    ingress: bool,
    lossless: bool,
    reserved: u64,
    limit: Option<Limit>,
    xon: u64,
    xon_offset: Option<u64>,
    /// `None`: computed.
    xoff: Option<u64>,
}

/// A LAG: its name and its members, by number.
struct Lag {
    /// SONiC's name for it.
    of: String,
    name: String,
    members: Vec<usize>,
    /// Its `admin_status` is down.
    down: bool,
    /// Keys of LACP, as they are written.
    lacp: Vec<(&'static str, String)>,
}

/// A static entry of the forwarding table.
struct Station {
    mac: Mac,
    vid: u16,
    port: usize,
}

/// A port mirror.
struct Mirror {
    name: String,
    ports: Vec<usize>,
    direction: &'static str,
    to: usize,
    tc: Option<usize>,
}

struct Scheduler {
    name: String,
    kind: &'static str,
    weight: Option<i64>,
    priority: Option<i64>,
    /// bit/s.
    cir: Option<i64>,
    pir: Option<i64>,
}

struct Wred {
    name: String,
    kmin: Option<i64>,
    kmax: Option<i64>,
    pmax: i64,
    marks: bool,
    /// May drop; where the row stands in the notes that are to be.
    drops: bool,
    row: Row,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Watch {
    action: &'static str,
    detection: Option<i64>,
    restoration: Option<i64>,
}

struct Importer<'t> {
    db: Db<'t>,
    lookup: Vec<PgLookup>,
    options: &'t Options<'t>,
    name: Option<String>,
    /// HOST and ASIC in the keys of queues that are this switch's, where keys have them.
    asic: Option<(String, String)>,
    ports: Vec<Port>,
    /// Ports that were left out.
    inside: HashSet<String>,
    maps: BTreeMap<(usize, String), Vec<u8>>,
    pools: HashMap<String, Pool>,
    headroom_pool: Option<u64>,
    ratio: Option<i64>,
    default_th: i64,
    /// Rows of profiles, by table and key: where they are in the lists below.
    names: HashMap<(&'static str, String), usize>,
    profiles: Vec<Profile>,
    schedulers: Vec<Scheduler>,
    wreds: Vec<Wred>,
    mirrors: Vec<Mirror>,
    lags: Vec<Lag>,
    stations: Vec<Station>,
    lldp: Option<Lldp>,
    watch: Option<Watch>,
    poll: Option<i64>,
    big_red_switch: bool,
    /// Where entries of the text come from, by header and number.
    origins: HashMap<(&'static str, usize), Origin>,
}

impl<'t> Importer<'t> {
    fn new(db: Db<'t>, lookup: Vec<PgLookup>, options: &'t Options<'t>) -> Self {
        Self {
            db,
            lookup,
            options,
            name: None,
            asic: None,
            ports: Vec::new(),
            inside: HashSet::new(),
            maps: BTreeMap::new(),
            pools: HashMap::new(),
            headroom_pool: None,
            ratio: None,
            default_th: 0,
            names: HashMap::new(),
            profiles: Vec::new(),
            schedulers: Vec::new(),
            wreds: Vec::new(),
            mirrors: Vec::new(),
            lags: Vec::new(),
            stations: Vec::new(),
            lldp: None,
            watch: None,
            poll: None,
            big_red_switch: false,
            origins: HashMap::new(),
        }
    }

    /// An entry of the text comes from this row, and keys of it from those of its fields.
    fn comes_from(&mut self, header: &'static str, i: usize, row: &Row, keys: &[(&'static str, &str)]) {
        let origin = self.origins.entry((header, i)).or_default();
        origin.entry("").or_insert(row.at);
        origin.extend(keys.iter().filter_map(|(key, field)| Some((*key, row.field(field)?.at))));
    }

    fn read(&mut self) {
        self.metadata();
        self.read_ports();
        self.cables();
        self.storm_control();
        self.read_pools();
        self.lossless_parameters();
        self.read_profiles();
        self.bind_profiles("BUFFER_PG", true);
        self.bind_profiles("BUFFER_QUEUE", false);
        self.read_maps();
        self.qos_of_ports();
        self.hold_promises();
        self.read_schedulers();
        self.read_wreds();
        self.bind_queues();
        self.finish_wreds();
        self.watchdog();
        self.lags();
        self.vlans();
        self.stations();
        self.mirrors();
        self.lldp();
        self.nothing_said();
        self.nothing_uses();
        for row in self.db.rest() {
            let why = why_ignored(&row.table);
            self.db.whole(&row, Outcome::Ignored, why.into());
        }
    }

    /// In keys of queues this HOST and ASIC are this switch.
    fn is_asic(&self, host: &str, asic: &str) -> bool {
        self.asic.as_ref().is_some_and(|(h, a)| h == host && a.eq_ignore_ascii_case(asic))
    }

    /// Which HOST and ASIC of the keys of queues are this switch: what DEVICE_METADATA calls it, as far as it does, and if
    /// that leaves one.
    fn find_asic(&mut self, name: Option<&str>, asic_name: Option<&str>) {
        let rows = || ["BUFFER_QUEUE", "QUEUE"].into_iter().flat_map(|table| self.db.rows(table));
        let first = rows().find(|row| asic_of(&row.key).is_some()).map(|row| row.at);
        let mut named: Vec<(&str, &str)> = rows()
            .filter_map(|row| asic_of(&row.key))
            .map(|(host, asic, _)| (host, asic))
            .filter(|(host, _)| name.is_none_or(|name| name == *host))
            .filter(|(_, asic)| asic_name.is_none_or(|name| name.eq_ignore_ascii_case(asic)))
            .collect();
        named.sort_unstable();
        named.dedup_by(|a, b| a.0 == b.0 && a.1.eq_ignore_ascii_case(b.1));
        self.asic = match named[..] {
            [(host, asic)] => Some((host.to_owned(), asic.to_owned())),
            _ => None,
        };
        if let Some(at) = first.filter(|_| self.asic.is_none()) {
            let message = format!("queues are those of HOST|ASIC, and {UNKNOWN_ASIC}: none of them is read");
            let help = "set both in DEVICE_METADATA|localhost to those in the keys of this switch's queues";
            self.db.tell(Severity::Warning, at, "sonic.asic", message, help);
        }
    }

    /// Ports and groups or queues of a key: `Ethernet0,Ethernet4|3-4`. What is not there here is reported.
    fn targets(&mut self, row: &Row) -> Option<(Vec<usize>, Vec<u8>)> {
        let key = match asic_of(&row.key) {
            Some((host, asic, _)) if !self.is_asic(host, asic) => {
                let why = match &self.asic {
                    Some((host, asic)) => format!("of another switch or ASIC: this one is {host}|{asic}"),
                    None => UNKNOWN_ASIC.to_owned(),
                };
                self.db.whole(row, Outcome::Ignored, why);
                return None;
            }
            Some((.., key)) => {
                let why = "its key names this switch and ASIC: an export has PORT|QUEUES alone".to_owned();
                self.db.whole(row, Outcome::Approximated, why);
                key
            }
            None => &row.key,
        };
        let (names, indices) = key.split_once('|').unwrap_or((key, ""));
        let mut ports = Vec::new();
        for name in names.split(',').map(str::trim) {
            match self.port(name) {
                Some(port) => ports.push(port),
                None => {
                    let key = if names == name { row.key.clone() } else { name.to_owned() };
                    self.note_made(Outcome::Ignored, &row.table, key, self.absent(name));
                }
            }
        }
        if ports.is_empty() {
            return None;
        }
        if indices.is_empty() {
            return Some((ports, Vec::new()));
        }
        let Some(all) = (indices.len() < 64).then(|| ranges(indices, 256).ok()).flatten() else {
            let help = "write ports and numbers, such as \"Ethernet0|3-4\"";
            self.db.error(row.at, "sonic.key", format!("{}|{}", row.table, shown(&row.key)), help);
            return None;
        };
        let (here, beyond): (Vec<u8>, Vec<u8>) = all.into_iter().partition(|i| usize::from(*i) < PRIORITIES);
        if !beyond.is_empty() {
            let why = format!("a port has {PRIORITIES} queues and groups, 0 to 7");
            self.note_made(Outcome::Ignored, &row.table, row.key.clone(), &why);
        }
        (!here.is_empty()).then_some((ports, here))
    }

    /// Notes something that is no row of the files.
    fn note_made(&mut self, outcome: Outcome, table: &str, key: String, why: &str) {
        let note = Note { outcome, table: table.into(), key, fields: String::new(), why: why.into() };
        self.db.notes.push(note);
    }

    /// A name weir accepts, made from a row's.
    fn fresh(&mut self, row: &Row, number: usize) -> String {
        // These are names of weir's own profiles.
        let own = ["ingress_default", "egress_default", PRESET, UNBOUND];
        if fits_name(&row.key) && !(row.table == "BUFFER_PROFILE" && own.contains(&row.key.as_str())) {
            return row.key.clone();
        }
        let name = format!("{}_{number}", row.table.to_ascii_lowercase());
        let why = format!(
            "called {name}: a name has at most 32 letters, digits and _ - . /, and is not that of a profile of weir"
        );
        self.db.whole(row, Outcome::Approximated, why);
        name
    }

    /// Notes what a row does not say, and what holds here instead.
    fn note_missing(&mut self, row: &Row, field: &str, why: &str) {
        if row.field(field).is_none() {
            self.note_field(&row.table, row.key.clone(), field, why);
        }
    }

    fn note_field(&mut self, table: &str, key: String, field: &str, why: &str) {
        let (table, fields) = (table.to_owned(), field.to_owned());
        self.db.notes.push(Note { outcome: Outcome::Approximated, table, key, fields, why: why.into() });
    }

    /// What no row says of a port, and what holds here.
    fn nothing_said(&mut self) {
        for i in 0..self.ports.len() {
            let port = &self.ports[i];
            let name = port.name.clone();
            let free = |slots: &[Option<usize>; PRIORITIES]| -> Vec<u8> {
                (0..PRIORITIES as u8).filter(|i| slots[usize::from(*i)].is_none()).collect()
            };
            let (queues, schedulers) = (free(&port.queues), free(&port.schedulers));
            let unset = MAPS.iter().zip(&port.maps).filter(|(_, map)| map.is_none());
            let unset: Vec<_> = unset.map(|((_, field, key, ..), _)| (*field, *key)).collect();
            if port.cable.is_none() {
                self.note_field("CABLE_LENGTH", CABLES.into(), &name, "no length: port.cable of weir, 5 m");
            }
            for (field, key) in unset {
                // Where no such map is there the field is not looked at.
                if !["dscp_to_tc", "pcp_to_tc"].contains(&key) {
                    let why = "no such map: each number leads to itself";
                    self.note_field("PORT_QOS_MAP", name.clone(), field, why);
                }
            }
            if !queues.is_empty() {
                let why = "no row: weir's profile for lossy queues, without a reserve";
                let key = format!("{name}|{}", listed_ranges(&queues));
                self.note_made(Outcome::Approximated, "BUFFER_QUEUE", key, why);
            }
            if !schedulers.is_empty() {
                let key = format!("{name}|{}", listed_ranges(&schedulers));
                self.note_field("QUEUE", key, "scheduler", "none: weir's, DWRR of weight 1");
            }
        }
    }

    /// Rows that nothing refers to: they are written, and no switch has them.
    fn nothing_uses(&mut self) {
        const UNUSED: &str =
            "nothing that is imported refers to it: it is written down, but is no part of the switch";
        let uses = |slots: fn(&Port) -> &[Option<usize>; PRIORITIES], i: usize| {
            self.ports.iter().any(|port| slots(port).contains(&Some(i)))
        };
        let used = |table: &str, i: usize| match table {
            "BUFFER_PROFILE" => uses(|port| &port.pgs, i) || uses(|port| &port.queues, i),
            "SCHEDULER" => uses(|port| &port.schedulers, i),
            _ => uses(|port| &port.wreds, i),
        };
        let rows = self.names.iter().filter(|((table, _), i)| !used(table, **i));
        let mut unused: Vec<(&str, String)> = rows.map(|((table, key), _)| (*table, key.clone())).collect();
        let chosen =
            |kind: usize, name: &String| self.ports.iter().any(|port| port.maps[kind].as_ref() == Some(name));
        let maps = self.maps.keys().filter(|(kind, name)| !chosen(*kind, name));
        unused.extend(maps.map(|(kind, name)| (MAPS[*kind].0, name.clone())));
        unused.sort_unstable();
        for (table, key) in unused {
            self.note_made(Outcome::Approximated, table, key, UNUSED);
        }
    }
}

/// Why rows of queues are not known to be this switch's.
const UNKNOWN_ASIC: &str = "hostname and asic_name of DEVICE_METADATA do not say which is this switch";

/// HOST, ASIC and the rest of a key of a switch with several ASICs, or one of a chassis: `leaf1|Asic0|Ethernet0|3-4`.
fn asic_of(key: &str) -> Option<(&str, &str, &str)> {
    let (host, rest) = key.split_once('|')?;
    let (asic, rest) = rest.split_once('|')?;
    (rest.matches('|').count() == 1).then_some((host, asic, rest))
}

/// Why weir has nothing like a table.
fn why_ignored(table: &str) -> &'static str {
    match table {
        "VLAN_INTERFACE"
        | "INTERFACE"
        | "LOOPBACK_INTERFACE"
        | "PORTCHANNEL_INTERFACE"
        | "VLAN_SUB_INTERFACE" => "weir is a bridge: it has no addresses and routes nothing",
        "BUFFER_PORT_INGRESS_PROFILE_LIST" | "BUFFER_PORT_EGRESS_PROFILE_LIST" => {
            "limits per port are bytes here: [[buffer.port]] ingress_limit, egress_limit"
        }
        "LOSSLESS_TRAFFIC_PATTERN" => "weir computes headrooms with a sum of its own (weir headroom)",
        "TC_TO_DSCP_MAP" | "TC_TO_DOT1P_MAP" => "weir changes no DSCP or PCP",
        "ACL_TABLE" | "ACL_RULE" => "weir has no access lists",
        _ => "nothing of weir does it",
    }
}

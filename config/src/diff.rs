//! Two configurations compared: what differs, and what of it cannot change while the switch runs.

use super::types::Config;
use super::{Explained, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A value that is not the same in two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Dotted key, e.g. `port.p0.rate`.
    pub key: String,
    /// What it was; `None`: it was not there.
    pub was: Option<String>,
    /// What it is; `None`: it is gone.
    pub is: Option<String>,
    /// Where the new value comes from.
    pub origin: Option<Origin>,
}

/// A value that cannot change while the switch runs, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Dotted key.
    pub key: String,
    /// Line of the new configuration on which it stands, if it is written there.
    pub line: Option<usize>,
    /// What it was and what it would be.
    pub message: String,
    /// Why it stays.
    pub why: &'static str,
}

/// What holds for each key: of several rows the last.
fn holding(config: &Config) -> BTreeMap<&str, &Explained> {
    config.explained.iter().map(|row| (&*row.key, row)).collect()
}

/// What differs, in the order of `new`; what is gone behind.
pub fn differences(old: &Config, new: &Config) -> Vec<Difference> {
    let (was, is) = (holding(old), holding(new));
    let mut told = BTreeSet::new();
    let rows = new.explained.iter().filter(|row| told.insert(&row.key)).map(|row| is[&*row.key]);
    let changed = rows.filter_map(|row| {
        let was = was.get(&*row.key).map(|was| was.value.clone());
        let (key, origin) = (row.key.clone(), Some(row.origin.clone()));
        (was.as_ref() != Some(&row.value)).then(|| Difference {
            key,
            was,
            is: Some(row.value.clone()),
            origin,
        })
    });
    let gone = was.values().filter(|row| !is.contains_key(&*row.key));
    let gone = gone.map(|row| Difference {
        key: row.key.clone(),
        was: Some(row.value.clone()),
        is: None,
        origin: None,
    });
    changed.chain(gone).collect()
}

/// What keeps `new` from being applied to a switch that was started with `old`, whatever it has been given since; empty:
/// nothing.
pub fn fixed(old: &Config, new: &Config) -> Vec<Fixed> {
    const MEMORY: &str = "its memory is set aside at start";
    const DEVICE: &str = "devices are opened at start";
    const SERVER: &str = "management listens where it was told at start";
    let mut found = Found { old, new, all: Vec::new() };
    let names = |config: &Config| config.ports.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    found.compare("switch.name", &old.name, &new.name, "files and metrics are named after it");
    found.compare("switch.seed", &old.seed, &new.seed, "tables are laid out by it");
    found.compare("eal.args", &old.eal_args, &new.eal_args, "DPDK is started once");
    found.compare("fdb.capacity", &old.fdb.capacity, &new.fdb.capacity, MEMORY);
    found.compare("flows.enable", &old.flows.enable, &new.flows.enable, MEMORY);
    found.compare("flows.sample", &old.flows.sample, &new.flows.sample, "chosen at start, with the memory");
    found.compare("qos.voq", &old.voq, &new.voq, "queues are built one way or the other");
    let cells = "frames that wait were charged by it";
    found.compare("buffer.cell_bytes", &old.buffer.cell_bytes, &new.buffer.cell_bytes, cells);
    if new.buffer.frames > old.buffer.frames {
        found.compare("buffer.frames", &old.buffer.frames, &new.buffer.frames, MEMORY);
    }
    // Frames that wait are charged their part of the buffer there was at start.
    if new.buffer.size.div_ceil(old.buffer.frames) > u64::from(old.buffer.least_charge()) {
        found.compare("buffer.size", &old.buffer.size, &new.buffer.size, MEMORY);
    }
    if new.pfc.poll_gap < old.pfc.poll_gap {
        let turns = "turns of the polling loop are as long as it was at start, and headroom must do for them";
        found.compare("pfc.poll_gap", &old.pfc.poll_gap, &new.pfc.poll_gap, turns);
    }
    found.compare("mgmt.listen", &old.mgmt.listen, &new.mgmt.listen, SERVER);
    found.compare("mgmt.socket", &old.mgmt.socket, &new.mgmt.socket, SERVER);
    found.compare("mgmt.token_file", &old.mgmt.token_file, &new.mgmt.token_file, SERVER);
    let operate = (&old.mgmt.operate_token_file, &new.mgmt.operate_token_file);
    found.compare("mgmt.operate_token_file", operate.0, operate.1, SERVER);
    found.compare("mgmt.hosts", &old.mgmt.hosts, &new.mgmt.hosts, SERVER);
    found.compare("mgmt.tls_cert", &old.mgmt.tls, &new.mgmt.tls, SERVER);
    found.compare("mgmt.admin_token_file", &old.mgmt.admin_token_file, &new.mgmt.admin_token_file, SERVER);
    found.compare("mgmt.dumpcap", &old.mgmt.dumpcap, &new.mgmt.dumpcap, SERVER);
    let (was, is, hosts) = (&old.lab, &new.lab, "the hosts of a lab are made at start");
    found.compare("lab.pattern", &was.pattern, &is.pattern, hosts);
    found.compare("lab.load", &was.load, &is.load, hosts);
    found.compare("lab.frame_bytes", &was.frame_bytes, &is.frame_bytes, hosts);
    found.compare("lab.dscp", &was.dscp, &is.dscp, hosts);
    found.compare("lab.dcqcn", &was.dcqcn, &is.dcqcn, hosts);
    found.compare("lab.hosts", &was.hosts, &is.hosts, hosts);
    if was.flows != is.flows {
        found.add("lab.flow", "they would become others".to_owned(), hosts);
    }
    found.compare("port", &names(old), &names(new), "ports cannot come, go or change their order");
    if names(old) != names(new) {
        return found.all;
    }
    for (a, b) in old.ports.iter().zip(&new.ports) {
        let key = |what: &str| format!("port.{}.{what}", b.name);
        found.compare(&key("device"), &a.device, &b.device, DEVICE);
        if let (Some(a), Some(b)) = (&a.engine, &b.engine) {
            const JOBS: &str = "jobs live in its memory, by its addresses";
            let key = |what: &str| key(&format!("inc.{what}"));
            let (was, is) = (&a.address, &b.address);
            found.compare(&key("mac"), &was.mac.to_string(), &is.mac.to_string(), JOBS);
            found.compare(&key("ip"), &was.ip, &is.ip, JOBS);
            found.compare(&key("vlan"), &was.vlan.unwrap_or(0), &is.vlan.unwrap_or(0), JOBS);
            let (was, is) = (&a.params, &b.params);
            found.compare(&key("jobs"), &was.jobs, &is.jobs, JOBS);
            found.compare(&key("memory"), &was.memory, &is.memory, JOBS);
            found.compare(&key("quota"), &was.quota, &is.quota, JOBS);
            found.compare(&key("first_qpn"), &was.first_qpn.0, &is.first_qpn.0, JOBS);
            found.compare(&key("qpns"), &was.qpns, &is.qpns, JOBS);
        }
        found.compare(&key("lcore"), &a.lcore, &b.lcore, "a port belongs to one worker");
        found.compare(&key("mtu"), &a.mtu, &b.mtu, DEVICE);
        let (was, is, learned) =
            (&old.formats[a.format], &new.formats[b.format], "addresses learned are of the format");
        if was.name != is.name {
            found.compare(&key("format"), &was.name, &is.name, learned);
        } else if was != is {
            found.add(&key("format"), format!("{} would have other fields", is.name), learned);
        }
        found.compare(&key("rx_descriptors"), &a.rx_descriptors, &b.rx_descriptors, DEVICE);
        found.compare(&key("tx_descriptors"), &a.tx_descriptors, &b.tx_descriptors, DEVICE);
        found.compare(&key("pfc.mode"), &a.pfc.mode, &b.pfc.mode, DEVICE);
        found.compare(&key("pfc.visible"), &a.pfc.visible, &b.pfc.visible, DEVICE);
        if a.pfc.enable == 0 && b.pfc.enable != 0 {
            found.compare(&key("pfc.enable"), &0, &b.pfc.enable, "the device was opened without PFC");
        }
    }
    found.all
}

struct Found<'a> {
    old: &'a Config,
    new: &'a Config,
    all: Vec<Fixed>,
}

impl Found<'_> {
    fn compare<T: Debug + PartialEq>(&mut self, key: &str, was: &T, is: &T, why: &'static str) {
        if was == is {
            return;
        }
        let told = |config: &Config| {
            let row = config.explained.iter().rev().find(|row| row.key == key)?;
            Some(row.value.clone())
        };
        // As people write it, where that tells the two apart.
        let message = match (told(self.old), told(self.new)) {
            (Some(was), Some(is)) if was != is => format!("{was} would become {is}"),
            _ => format!("{} would become {}", shown(was), shown(is)),
        };
        self.add(key, message, why);
    }

    fn add(&mut self, key: &str, message: String, why: &'static str) {
        let line = self.new.explained.iter().find_map(|row| match &row.origin {
            Origin::File { line, .. } if row.key == key || row.key.starts_with(&format!("{key}[")) => {
                Some(*line)
            }
            _ => None,
        });
        self.all.push(Fixed { key: key.to_owned(), line, message, why });
    }
}

/// A value as people write it: what is not set is no word of Rust's.
fn shown(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.strip_prefix("Some(").and_then(|rest| rest.strip_suffix(')')) {
        Some(value) => value.to_owned(),
        None if text == "None" => "nothing".to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    const BASE: &str = "[[port]]\nname = \"a\"\ndevice = \"ring\"\n[[port]]\nname = \"b\"\ndevice = \"ring\"\n\
                        [qos]\npreset = \"roce-lossless\"\n";

    fn config(text: &str) -> Config {
        load("t.toml", text).unwrap_or_else(|e| panic!("{e:?}")).config
    }

    #[test]
    fn what_is_not_set_is_called_nothing() {
        let found = fixed(&config(BASE), &config(&format!("{BASE}[port_defaults]\nlcore = 1\n")));
        assert!(found.iter().any(|f| f.message == "nothing would become 1"), "{found:?}");
    }

    #[test]
    fn the_same_twice_differs_in_nothing() {
        let one = config(BASE);
        assert!(differences(&one, &one).is_empty() && fixed(&one, &one).is_empty());
    }

    #[test]
    fn what_differs_is_told_with_its_place_and_what_follows_from_it() {
        let new = config(&format!("{BASE}[[wred]]\nname = \"roce\"\nkmin = \"10KB\"\nkmax = \"20KB\"\n"));
        let found = differences(&config(BASE), &new);
        let kmin = found.iter().find(|d| d.key == "wred.roce.kmin").unwrap();
        assert_eq!((kmin.was.as_deref(), kmin.is.as_deref()), (Some("auto"), Some("10KB")));
        assert_eq!(kmin.origin, Some(Origin::File { file: "t.toml".into(), line: 11 }));
        // The automatic value is gone with what made it.
        let effective =
            found.iter().find(|d| d.key == "port.a.queue.3.kmin").expect("what holds for the queue");
        assert_eq!(effective.is.as_deref(), Some("10KB"), "not gone: {effective:?}");
        assert!(fixed(&config(BASE), &new).is_empty());
    }

    /// Whatever of a configuration changes what a switch does is told: each change makes another [`Config`], and a row.
    #[test]
    fn nothing_changes_without_a_word() {
        let all = include_str!("diff_base.toml");
        let old = config(all);
        let what = |config: &Config| format!("{:?}", Config { explained: Vec::new(), ..config.clone() });
        let changes: Vec<(&str, &str)> = all.lines().filter_map(|line| line.split_once(" #> ")).collect();
        assert!(changes.len() > 100, "{}", changes.len());
        let mut wrong = Vec::new();
        for (line, becomes) in changes {
            let changed = all.replacen(&format!("\n{line} #>"), &format!("\n{becomes} #>"), 1);
            let new = match load("t.toml", &changed) {
                Ok(loaded) => loaded.config,
                Err(found) => {
                    let errors: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
                    wrong.push(format!("`{line}` to `{becomes}` is refused: {errors:?}"));
                    continue;
                }
            };
            let key = line.split(" = ").next().unwrap_or(line);
            // Two keys are told as the limit they make.
            let key = if key.ends_with("_th") { "limit" } else { key };
            let found = differences(&old, &new);
            if what(&old) == what(&new) || !found.iter().any(|row| row.key.contains(key)) {
                wrong.push(format!("`{line}` to `{becomes}`: {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn what_cannot_change_is_named_with_its_line() {
        for (more, key, line) in [
            ("[switch]\nname = \"other\"\n", "switch.name", Some(10)),
            ("[switch]\nseed = 9\n", "switch.seed", Some(10)),
            ("[fdb]\ncapacity = 99\n", "fdb.capacity", Some(10)),
            ("[buffer]\nframes = 1000000\n", "buffer.frames", Some(10)),
            ("[pfc]\npoll_gap = \"5us\"\n", "pfc.poll_gap", Some(10)),
            ("[buffer]\ncell_bytes = 256\n", "buffer.cell_bytes", Some(10)),
            ("[port_defaults]\nmtu = 2000\n", "port.a.mtu", Some(10)),
            ("[port_defaults.pfc]\nmode = \"hardware\"\n", "port.a.pfc.mode", Some(10)),
            ("[port_defaults]\nlcore = 1\n", "port.b.lcore", Some(10)),
            ("[port_defaults]\nrx_descriptors = 512\n", "port.a.rx_descriptors", Some(10)),
            ("[port_defaults]\ntx_descriptors = 512\n", "port.b.tx_descriptors", Some(10)),
            ("[port_defaults]\npfc.visible = true\n", "port.a.pfc.visible", Some(10)),
            ("[mgmt]\nlisten = \"off\"\n", "mgmt.listen", Some(10)),
            ("[flows]\nenable = false\n", "flows.enable", Some(10)),
            ("[flows]\nsample = 9\n", "flows.sample", Some(10)),
            ("[lab]\nload = \"10%\"\n", "lab.load", Some(10)),
            ("[[lab.flow]]\nfrom = \"a\"\nto = \"b\"\n", "lab.flow", Some(10)),
            ("[port_defaults]\nformat = \"afh_gen1\"\n", "port.a.format", Some(10)),
            ("[[port]]\nname = \"c\"\ndevice = \"ring\"\n", "port", Some(2)),
        ] {
            let found = fixed(&config(BASE), &config(&format!("{BASE}{more}")));
            let one = found.iter().find(|f| f.key == key).unwrap_or_else(|| panic!("{key}: {found:?}"));
            assert_eq!(one.line, line, "{one:?}");
        }
    }

    /// None of it is a structure of the program.
    #[test]
    fn what_cannot_change_is_told_as_people_write_it() {
        let paxi = config(&BASE.replace("roce-lossless", "paxi-standard"));
        let found = fixed(&config(BASE), &paxi);
        let said: Vec<_> = found.iter().map(|f| format!("{}: {}", f.key, f.message)).collect();
        let want = [
            "lab.hosts: rocev2 would become rclink",
            "port.a.format: standard would become paxi_standard",
            "port.b.format: standard would become paxi_standard",
        ];
        assert_eq!(said, want);
        let own = |off: u8| {
            config(&format!(
                "{BASE}[port_defaults]\nformat = \"f\"\n[format.f]\ninherit = \"afh_gen1\"\ndst = [{off}, 40]\n"
            ))
        };
        let found = fixed(&own(8), &own(0));
        assert!(found.iter().any(|f| f.message == "f would have other fields"), "{found:?}");
    }

    #[test]
    fn keys_of_an_engine_are_named_one_by_one() {
        let engine = |more: &str| {
            let inc = format!("inc = {{ mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\"{more} }}");
            config(&format!("{BASE}[[port]]\nname = \"i\"\ndevice = \"inc\"\n{inc}\n"))
        };
        for (more, keys) in [
            (", vlan = 7", &["port.i.inc.vlan: 0 would become 7"][..]),
            (", jobs = 3", &["port.i.inc.jobs: 64 would become 3"]),
            (", memory = \"64MiB\", quota = \"64MiB\"", &["port.i.inc.memory: 256MiB would become 64MiB"]),
            (", quota = \"1MiB\"", &["port.i.inc.quota: 64MiB would become 1MiB"]),
            (
                ", first_qpn = 2, qpns = 9",
                &["port.i.inc.first_qpn: 256 would become 2", "port.i.inc.qpns: 4160 would become 9"],
            ),
        ] {
            let found = fixed(&engine(""), &engine(more));
            let said: Vec<_> = found.iter().map(|f| format!("{}: {}", f.key, f.message)).collect();
            assert_eq!(said, keys, "{found:?}");
            assert_eq!(found[0].line, Some(12), "{found:?}");
        }
    }
}

//! Keys that would have no effect beside the rest of a file. They are refused, each with what to do.

use super::FabricError;
use super::faults::Faults;
use super::ns3;
use super::rclink;
use super::routes::Routes;
use super::spec::{
    Congestion, FabricSpec, FlowControlKind, FrameType, Pattern, Profile, Protocol, RoutingMode, Topology,
};
use super::topology::{Plan, joins_switches};

/// Keys that are set without effect, and what they must be.
#[derive(Debug, Default)]
pub(super) struct Idle(Vec<(String, String)>);

impl Idle {
    /// Tells of `key` if the file sets it, unless it has an effect, or its section has been told of.
    fn unless(&mut self, spec: &FabricSpec, has_effect: bool, key: &str, why: impl Into<String>) {
        let says_nothing = |value: &toml::Value| value.as_table().is_some_and(toml::Table::is_empty);
        let is_set = spec.source.get(key).is_some_and(|value| !says_nothing(value));
        if is_set && !has_effect && !self.holds(key) {
            self.0.push((key.to_owned(), format!("absent: {}", why.into())));
        }
    }

    /// A key, or the section it is in, has no effect.
    pub fn holds(&self, key: &str) -> bool {
        self.0.iter().any(|(idle, _)| {
            key.strip_prefix(&**idle).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// # Errors
    /// All of them.
    pub fn refuse(self) -> Result<(), FabricError> {
        let fault = |(what, must)| Err(FabricError::Range { what, got: "set".into(), must });
        self.0.into_iter().map(fault).collect::<Faults>().refuse()
    }
}

/// Names in a row, the last after "or".
pub(super) fn any_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Of `[host]`.
pub(super) fn of_hosts(spec: &FabricSpec) -> Idle {
    use Congestion::{Backoff, Dcqcn, Dctcp, FixedWindow, Hpcc, HpccPint, None, Nscc, Swift, Timely};
    let (host, link) = (&spec.host, &spec.host.rclink);
    let speaks_rclink = host.protocol == Protocol::Rclink;
    // Others are not for congestion control, and nobody acknowledges them.
    let pairs = || spec.workloads.iter().filter(|w| w.frames == FrameType::Type1);
    let used = |all: &[Congestion]| pairs().any(|w| all.contains(&w.cc()));
    let mut idle = Idle::default();
    let mut unless = |has_effect: bool, key: &str, why: String| {
        // The published simulator has words of its own for what it does not know.
        if spec.profile == Profile::Weir || ns3::has_a_choice(key) {
            idle.unless(spec, has_effect, key, why);
        }
    };
    unless(speaks_rclink, "host.rclink", "hosts speak RoCEv2".into());
    unless(!speaks_rclink, "host.cnp_priority", "RC Link has a class for CNPs".into());
    let algorithms: [(&str, &[Congestion]); 17] = [
        ("host.dcqcn", &[Dcqcn]),
        ("host.hpcc", &[Hpcc, HpccPint]),
        ("host.hpcc.log_base", &[HpccPint]),
        ("host.hpcc.probability", &[HpccPint]),
        ("host.hpcc.fast_react", &[Hpcc]),
        ("host.hpcc.multi_rate", &[Hpcc]),
        ("host.hpcc.sample_feedback", &[Hpcc]),
        ("host.hpcc.int_multi", &[Hpcc]),
        ("host.timely", &[Timely]),
        ("host.dctcp", &[Dctcp]),
        ("host.swift", &[Swift]),
        ("host.nscc", &[Nscc]),
        ("host.window", &[Hpcc, HpccPint, Timely, Dctcp]),
        ("host.window_bytes", &[Hpcc, HpccPint, Timely, Dctcp, FixedWindow]),
        ("host.base_rtt", &[Hpcc, HpccPint, Nscc]),
        ("host.rclink.cut_period", &[Backoff]),
        ("host.rclink.raise_period", &[Backoff]),
    ];
    for (key, all) in algorithms {
        let names = any_of(&all.iter().map(|cc| cc.word()).collect::<Vec<_>>());
        let why = match speaks_rclink && !all.contains(&Backoff) {
            true => "hosts speak RC Link, whose congestion control is backoff; take it out".into(),
            false => format!("no flow has congestion_control = {names}; take it out, or set that"),
        };
        unless(used(all), key, why);
    }
    let counted = used(&[Backoff]) || pairs().any(|w| w.rate.is_some());
    let all_at_once = "no flow has a `rate` or congestion_control = backoff; take it out, or set one";
    unless(counted, "host.rclink.cc_window", all_at_once.into());
    let no_window =
        "timely without `window` goes by its rate alone; set window = fixed or variable, or take it out";
    let has_one = host.window.is_some() || used(&[Hpcc, HpccPint, Dctcp, FixedWindow]);
    unless(has_one, "host.window_bytes", no_window.into());
    let takes_that_of_hosts =
        |(at, w): (usize, &super::Workload)| w.frames == FrameType::Type1 && !spec.source.sets_in(at, "cc");
    let common = spec.workloads.iter().enumerate().any(takes_that_of_hosts);
    unless(common, "host.congestion_control", "every workload says its own `cc`; take one out".into());
    // Whoever goes by acknowledgements is told of marks by these.
    let (hears_cnps, why) = match speaks_rclink {
        true => (rclink::is_marked(spec), "frames of that `format` cannot be marked; take it out"),
        false => (
            pairs().any(|w| w.reliable && matches!(w.cc(), Dcqcn | None)),
            "no flow is answered with CNPs; take it out, or set congestion_control = dcqcn",
        ),
    };
    unless(hears_cnps, "host.cnp_interval", why.into());
    let acknowledged =
        |w: &&super::Workload| if speaks_rclink { rclink::is_acknowledged(spec) } else { w.reliable };
    let as_cnps = pairs().any(|w| acknowledged(&w) && host.acks_as_cnps(w.cc()));
    unless(hears_cnps || as_cnps, "host.cnp_priority", why.into());
    let nobody = || "no workload is acknowledged".to_owned();
    unless(pairs().any(|w| acknowledged(&w)), "host.timeout", nobody());
    // Ranks that engines sum for have an acknowledgement of each packet.
    let of_hosts = pairs().filter(|w| w.kind != Pattern::IncAllReduce).any(|w| acknowledged(&w));
    unless(of_hosts, "host.ack_every", nobody());
    let why = if speaks_rclink { "RC Link has a class for ACKs".into() } else { nobody() };
    unless(of_hosts && !speaks_rclink, "host.ack_class", why);
    if speaks_rclink {
        let has = |frames: FrameType| spec.workloads.iter().any(|w| w.frames == frames);
        let of_type = |word: &str| format!("no workload has type = \"{word}\"");
        unless(has(FrameType::Type3), "host.rclink.priorities.raw", of_type("type3"));
        unless(has(FrameType::Type2), "host.rclink.priorities.multicast", of_type("type2"));
        let lite = "nothing is acknowledged, and any number of packets is in flight; take it out";
        // Responses that wait to be sent are counted without acknowledgements, too.
        let queues = spec.workloads.iter().any(|w| w.response.is_some());
        unless(rclink::is_acknowledged(spec) || queues, "host.rclink.window", lite.into());
        // With credits there are other words for it.
        let fills = link.read_rate.is_some() || link.flow_control == FlowControlKind::Cbfc;
        let as_they_come =
            "messages are read as they come, and no memory fills; give read_rate, or take it out";
        unless(fills, "host.rclink.round_trip", as_they_come.into());
    }
    idle
}

/// Of links and switches, in this fabric.
pub(super) fn of_network(spec: &FabricSpec, plan: &Plan) -> Idle {
    let mut idle = Idle::default();
    let mut unless = |has_effect: bool, key: &str, why: &str| idle.unless(spec, has_effect, key, why);
    if let Topology::Custom(custom) = &spec.topology {
        unless(false, "trunk", "links of a custom topology are like `[link]`; give them `rate` and `delay`");
        let each = "every link of the topology says its own";
        unless(custom.links.iter().any(|link| link.rate.is_none()), "link.rate", each);
        unless(custom.links.iter().any(|link| link.delay.is_none()), "link.delay", each);
        for at in 0..custom.links.len() {
            let key = format!("topology.links.{at}.weight");
            unless(joins_switches(plan, at), &key, "a host has one link, and no other path to share with");
        }
    }
    let has_trunks = (0..plan.links.len()).any(|link| joins_switches(plan, link));
    unless(has_trunks, "trunk", "no link joins two switches; links of hosts are `[link]`");
    if plan.hosts == plan.names.len() {
        let keys = spec.source.keys("switch").into_iter().filter(|key| key != "config");
        let keys = keys.map(|key| format!("switch.{key}")).chain(["routing.mode".to_owned()]);
        keys.for_each(|key| unless(false, &key, "there is no switch; take it out, or use another topology"));
    }
    idle
}

/// Of paths, in this fabric. Where links fail nobody knows which will be equal.
pub(super) fn of_paths(spec: &FabricSpec, plan: &Plan, routes: &Routes) -> Idle {
    let mut idle = Idle::default();
    if !spec.failures.is_empty() {
        return idle;
    }
    if spec.routing.mode == RoutingMode::Spray {
        let why = "no switch has more than one shortest path to a host; take it out, or use a topology with equal \
                   paths, e.g. kind = \"leaf_spine\" or \"fat_tree\"";
        idle.unless(spec, routes.has_choices(), "routing.mode", why);
    }
    if let Topology::Custom(_) = spec.topology {
        let ways = |at: usize| plan.links[at].ends.into_iter().filter(|end| end.node >= plan.hosts);
        for at in (0..plan.links.len()).filter(|at| joins_switches(plan, *at)) {
            let shares = ways(at).any(|end| routes.shares(end.node - plan.hosts, end.port));
            let why = "no switch chooses between this link and others of equal paths; take it out, or give the \
                       topology another path of as many links";
            idle.unless(spec, shares, &format!("topology.links.{at}.weight"), why);
        }
    }
    idle
}

#[cfg(test)]
mod tests {
    use crate::fabric::{load, run};

    /// What is said of a fabric of four hosts at two leaves, or of another one.
    fn said(topology: &str, host: &str, workload: &str, more: &str) -> String {
        let topology = if topology.is_empty() {
            "kind = \"leaf_spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2"
        } else {
            topology
        };
        let text = format!(
            "name = \"x\"\nstop_time = \"2ms\"\n[[workload]]\nkind = \"permutation\"\nbytes = 10000\n{workload}\n\
             [topology]\n{topology}\n[host]\n{host}\n{more}"
        );
        load("x.toml", &text).and_then(|spec| run(&spec)).map_or_else(|e| e.to_string(), |r| r.verdict.into())
    }

    #[test]
    fn keys_of_hosts_without_effect_are_refused_and_with_it_they_are_not() {
        for (host, workload, key, with_host, with_workload) in [
            ("dcqcn = { gain = 9 }", "", "host.dcqcn", "", "cc = \"dcqcn\""),
            ("swift = { beta = 0.5 }", "", "host.swift", "", "cc = \"swift\""),
            ("window_bytes = \"9KB\"", "", "host.window_bytes", "", "cc = \"fixed_window\""),
            (
                "window_bytes = \"9KB\"",
                "cc = \"timely\"",
                "host.window_bytes",
                "window = \"fixed\"\n",
                "cc = \"timely\"",
            ),
            ("base_rtt = \"9us\"", "", "host.base_rtt", "", "cc = \"nscc\""),
            ("cnp_interval = \"9us\"", "cc = \"dctcp\"", "host.cnp_interval", "", "cc = \"dcqcn\""),
            ("cnp_interval = \"9us\"", "reliable = false", "host.cnp_interval", "", ""),
            ("cnp_priority = 5", "cc = \"swift\"", "host.cnp_priority", "", "cc = \"none\""),
            (
                "cnp_priority = 5",
                "cc = \"swift\"",
                "host.cnp_priority",
                "ack_class = \"cnp\"\n",
                "cc = \"swift\"",
            ),
            ("ack_class = \"cnp\"", "reliable = false", "host.ack_class", "", ""),
            ("congestion_control = \"dcqcn\"", "cc = \"none\"", "host.congestion_control", "", ""),
            ("ack_every = 4", "reliable = false", "host.ack_every", "", ""),
            ("timeout = \"9us\"", "reliable = false", "host.timeout", "", ""),
            ("rclink.cc_window = \"8us\"", "", "host.rclink.cc_window", "", "cc = \"backoff\""),
            ("rclink.cc_window = \"8us\"", "", "host.rclink.cc_window", "", "rate = \"1G\""),
            ("rclink.cut_period = \"8us\"", "", "host.rclink.cut_period", "", "cc = \"backoff\""),
            ("rclink.raise_period = \"8us\"", "", "host.rclink.raise_period", "", "cc = \"backoff\""),
            ("rclink.window = 9", "", "host.rclink.window", "", ""),
            ("rclink.round_trip = \"9us\"", "", "host.rclink.round_trip", "rclink.read_rate = \"9G\"\n", ""),
            ("rclink.priorities.raw = 2", "", "host.rclink.priorities.raw", "", "type = \"type3\""),
        ] {
            let of_rclink = key.starts_with("host.rclink");
            let lite = if key == "host.rclink.window" { "rclink.retransmit = false\n" } else { "" };
            let before = if of_rclink { "protocol = \"rclink\"\n" } else { "" };
            let refused = said("", &format!("{before}{lite}{host}"), workload, "");
            let line = 13 + usize::from(of_rclink) + usize::from(!lite.is_empty());
            let start = format!("x.toml:{line}: {key} is set; it must be absent: ");
            assert!(refused.starts_with(&start) && refused.lines().count() == 1, "{refused}\n{start}");
            let played = said("", &format!("{before}{with_host}{host}"), with_workload, "");
            assert!(played == "PASS" || played == "FAIL", "{key}: {played}");
        }
        let both = said("", "dcqcn = { gain = 9 }\nhpcc = { target = 0.9 }\nswift = { beta = 0.5 }", "", "");
        assert_eq!(both.lines().count(), 3, "{both}");
        let rclink = said("", "protocol = \"rclink\"\ndcqcn = { gain = 9 }", "", "");
        assert!(rclink.contains("hosts speak RC Link") && rclink.lines().count() == 1, "{rclink}");
        let lite = "protocol = \"rclink\"\nrclink.retransmit = false\nrclink.window = 9";
        assert_eq!(said("", lite, "response = 64", ""), "PASS");
        let interval = "protocol = \"rclink\"\ncnp_interval = \"9us\"";
        assert_eq!(said("", interval, "", ""), "PASS");
        let unmarked = said("", &format!("{interval}\nrclink.format = \"afh_gen1\""), "", "");
        assert!(
            unmarked.contains("host.cnp_interval is set; it must be absent: frames of that"),
            "{unmarked}"
        );
    }

    #[test]
    fn keys_of_links_and_switches_without_effect_are_refused() {
        let custom = |links: &str| {
            format!(
                "kind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\", \"t\"]\nlinks = [{{ a = \"s\", b = \"t\" }}, \
                 {{ a = \"b\", b = \"t\", rate = \"9G\" }}, {links}]"
            )
        };
        let plain = custom("{ a = \"a\", b = \"s\" }");
        assert_eq!(said(&plain, "", "", "[link]\nrate = \"9G\""), "PASS");
        let star = "kind = \"star\"\nhosts = 4";
        for (topology, more, what) in [
            (star, "[trunk]\nrate = \"9G\"", "trunk is set; it must be absent: no link joins two switches"),
            ("kind = \"chain\"\nswitches = 1\nhosts_per_switch = 3", "[trunk]\ndelay = 9", "trunk is set"),
            ("kind = \"direct\"", "[trunk]\nrate = \"9G\"", "trunk is set"),
            (
                "kind = \"direct\"",
                "[switch]\ningress = \"1us\"",
                "switch.ingress is set; it must be absent: there is no switch",
            ),
            ("kind = \"direct\"", "[routing]\nmode = \"spray\"", "routing.mode is set"),
            (&plain, "[trunk]\nrate = \"9G\"", "trunk is set; it must be absent: links of a custom topology"),
            (
                &custom("{ a = \"a\", b = \"s\", weight = 2 }"),
                "",
                "topology.links.2.weight is set; it must be absent: a host has one",
            ),
            (&custom("{ a = \"a\", b = \"s\" }, { a = \"s\", b = \"s\" }"), "", "link s - s"),
            (
                &plain
                    .replace("b = \"t\" }", "b = \"t\", rate = 9000 }")
                    .replace("b = \"s\" }", "b = \"s\", rate = 9000 }"),
                "[link]\nrate = \"9G\"",
                "link.rate is set; it must be absent: every link",
            ),
        ] {
            let refused = said(topology, "", "", more);
            assert!(
                refused.contains(what) && refused.lines().count() == 1,
                "{refused}\n--- should say: {what}"
            );
        }
    }

    #[test]
    fn spraying_and_weights_where_there_is_one_path_are_refused() {
        let (any_order, spray) = ("transport = \"selective_repeat\"", "[routing]\nmode = \"spray\"\n");
        let custom = |weights: [&str; 3]| {
            let link = |a: &str, b: &str, weight: &str| format!("{{ a = \"{a}\", b = \"{b}\"{weight} }}");
            let links = [
                link("s", "t", weights[0]),
                link("s", "t", weights[1]),
                link("t", "u", weights[2]),
                link("a", "s", ""),
                link("b", "u", ""),
            ];
            format!(
                "kind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\", \"t\", \"u\"]\nlinks = [{}]",
                links.join(", ")
            )
        };
        let weight = ", weight = 3";
        let fails = "[[failure]]\na = \"s\"\nb = \"t\"\nat = \"1us\"\n";
        for (topology, line) in [
            ("kind = \"star\"\nhosts = 4", 13),
            ("kind = \"dumbbell\"\npairs = 2", 13),
            ("kind = \"chain\"\nswitches = 3\nhosts_per_switch = 2", 14),
            ("kind = \"ring\"\nswitches = 3\nhosts_per_switch = 2", 14),
            ("kind = \"leaf_spine\"\nleaves = 3\nspines = 1\nhosts_per_leaf = 2", 15),
        ] {
            let refused = said(topology, any_order, "", spray);
            let start =
                format!("x.toml:{line}: routing.mode is set; it must be absent: no switch has more than one");
            assert!(refused.starts_with(&start) && refused.lines().count() == 1, "{refused}\n{start}");
        }
        let refused = said(&custom(["", weight, weight]), "", "", "");
        let start = "x.toml:11: topology.links.2.weight is set; it must be absent: no switch chooses between";
        assert!(refused.starts_with(start) && refused.lines().count() == 1, "{refused}");
        for (topology, more) in [
            ("", spray),
            ("kind = \"leaf_spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 2\nlinks_per_spine = 2", spray),
            (&custom(["", "", ""]), spray),
            (&custom([weight, weight, ""]), ""),
            // Who knows what is left of a fabric when its links fail.
            (&custom([weight, "", weight]), fails),
        ] {
            let played = said(topology, any_order, "", more);
            assert!(played == "PASS" || played == "FAIL", "{topology}: {played}");
        }
    }

    /// Weir has none; of the published models some have them.
    #[test]
    fn limits_of_lossless_queues_are_refused() {
        let of = |policy: &str, limit: &str| {
            let config = format!(
                "[switch.config.buffer]\npolicy = \"{policy}\"\n[[switch.config.buffer.profile]]\nname = \"egress_lossless\"\n{limit}"
            );
            said("", "", "", &config)
        };
        for limit in ["static_th = 1000", "dynamic_th = -8"] {
            let refused = of("weir", limit);
            assert!(refused.starts_with("x.toml:18: ") && refused.contains("limits nothing"), "{refused}");
        }
        assert!(!of("weir", "reserved = 0").contains("limits nothing"));
        assert!(!of("dt", "dynamic_th = -1").contains("limits nothing"));
    }

    /// Each with its line and why; the schema has none of them.
    #[test]
    fn keys_of_switches_that_a_fabric_has_an_answer_for_are_refused() {
        let schema = crate::fabric::json_schema();
        let config = &schema["$defs"]["SwitchSpec"]["properties"]["config"];
        for (key, why) in crate::fabric::switches::NOT_OF_A_FABRIC {
            let refused = said("", "", "", &format!("[switch.config]\n{key} = {{}}"));
            let start = format!("x.toml:15: switch.config.{key} is set; it must be absent: {why}");
            assert!(refused.starts_with(&start), "{refused}\n{start}");
            let at = key.split('.').fold(config, |at, key| &at["properties"][key]);
            assert!(at.is_null(), "{key}");
        }
    }
}

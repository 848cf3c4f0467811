//! Orders to queue pairs at a virtual time: what they do to rates and to the run, what they record, what is refused.

use super::{OrderResult, Report, load, run};

/// Three hosts send 2 MB each to a fourth with DCQCN: marks, cuts, increases.
fn file(orders: &str) -> String {
    format!(
        "name = \"orders\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[link]\nrate = \"40G\"\n\
         [switch.config.buffer]\nsize = \"4MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
         [[switch.config.wred]]\nname = \"roce\"\nkmin = \"5KB\"\nkmax = \"50KB\"\npmax = \"50%\"\n\
         [host]\ncongestion_control = \"dcqcn\"\n[host.dcqcn]\nscheme = \"hardware\"\n\
         [[workload]]\nkind = \"incast\"\nto = \"h3\"\nbytes = \"2MB\"\n{orders}"
    )
}

fn played(orders: &str) -> Report {
    let text = file(orders);
    run(&load("orders.toml", &text).unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn order(body: &str) -> String {
    format!("[[order]]\n{body}\n")
}

/// What flows came to, without what orders say of themselves.
fn flows(report: &Report) -> Vec<(Option<u64>, u64, Option<u64>)> {
    report.flows.iter().map(|f| (f.fct_ns, f.packets, f.rate_bps)).collect()
}

fn register(order: &OrderResult, qp: usize, name: &str) -> u32 {
    order.queue_pairs[qp].registers.iter().find(|r| r.name == name).unwrap().value
}

#[test]
fn cc024_parameters_are_set_while_flows_run() {
    let plain = played("");
    let slow = "set = { min_rate = \"100M\", rate_shift = 0, gain = 1 }";
    let changed = played(&order(&format!("at = \"100us\"\nhost = \"h0\"\n{slow}")));
    assert_eq!(changed.verdict, "PASS", "{:?}", changed.findings);
    assert_ne!(flows(&plain), flows(&changed));
    assert_eq!(changed.orders[0].queue_pairs.len(), 1);
    // Only from then on, and only there.
    let later = played(&order(&format!("at = \"200us\"\nhost = \"h0\"\n{slow}")));
    let other = played(&order(&format!("at = \"100us\"\nhost = \"h1\"\n{slow}")));
    let all = played(&order(&format!("at = \"100us\"\n{slow}")));
    for run in [&later, &other, &all] {
        assert_ne!(flows(run), flows(&changed));
    }
    assert_eq!(all.orders[0].queue_pairs.len(), 3);
    assert_eq!(all.orders[0].queue_pairs[2].host, "h2");
}

/// The algorithm of firmware is one of the parameters, and its record says what it does.
#[test]
fn cc024_firmware_goes_over_to_a_second_algorithm() {
    let text = |orders: &str| {
        file(orders)
            .replace("scheme = \"hardware\"", "scheme = \"firmware_rate\"\nfirmware_period = \"20us\"")
    };
    let played = |orders: &str| run(&load("orders.toml", &text(orders)).unwrap()).unwrap();
    let backoff = "at = \"30us\"\nset = { firmware_algorithm = \"backoff\" }\nshow = true";
    let trace = order("at = \"30us\"\nhost = \"h0\"\ntrace = \"start\"");
    let report = played(&(order(backoff) + &trace));
    assert_eq!(report.verdict, "PASS", "{:?}", report.findings);
    let shown = &report.orders[0].queue_pairs[0];
    let units = register(&report.orders[0], 0, "RATE_MEM");
    assert_eq!(u64::from(units & 0xffff), (shown.rate_bps + 3_906_250) / 7_812_500, "RATE_MEM has its rate");
    // Every cut is one half, which no alpha leaves.
    let mut rate = report.traces[0].initial.rate_bps;
    for entry in &report.traces[0].entries {
        match entry.event {
            "decrease" => assert_eq!(entry.rate_bps, rate / 2),
            other => assert_eq!(other, "timer.additive_increase"),
        }
        rate = entry.rate_bps;
    }
    let counts = &report.traces[0].counts;
    assert!(counts.decrease > 0 && counts.timer > 0, "{counts:?}");
    assert_ne!(flows(&report), flows(&played("")));
    let error = load("orders.toml", &text(&order("set = { firmware_algorithm = \"backoff\", gain = 3 }")));
    let error = error.and_then(|spec| run(&spec)).unwrap_err().to_string();
    assert!(error.contains("order 1: `set` is refused") && error.contains("no such constant"), "{error}");
}

/// An order after another holds over what that one has set.
#[test]
fn orders_add_up() {
    let one = order("at = \"50us\"\nset = { gain = 100 }");
    let two = order("at = \"60us\"\nset = { additive = \"1G\" }");
    let both = order("at = \"60us\"\nset = { gain = 100, additive = \"1G\" }");
    let alone = played(&two);
    assert_ne!(flows(&played(&(one.clone() + &two))), flows(&alone));
    assert_ne!(flows(&played(&both)), flows(&alone));
}

/// A `set` that one queue pair of a host refuses, or a register, changes none there, as that of a host that runs.
#[test]
fn cc024_a_set_is_carried_out_for_all_queue_pairs_of_a_host_or_for_none() {
    let more = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h3\"\nbytes = \"2MB\"\n";
    let high =
        more.to_owned() + &order("at = \"50us\"\nhost = \"h0\"\nqpn = 1\nset = { min_rate = \"30G\" }");
    let set = |set: &str| played(&(high.clone() + &order(&format!("at = \"60us\"\nset = {{ {set} }}"))));
    let before = flows(&played(&high));
    // The second queue pair of h0 has a higher `min_rate`; no host has the queue pair of that register.
    for (report, refused, hosts) in [
        (set("first_cnp_rate = \"20G\", gain = 100"), "h0: ", vec!["h1", "h2"]),
        (set("gain = 100, \"0x600208\" = 5"), "h0: 0x600208", vec![]),
    ] {
        let result = &report.orders[1];
        assert!(result.refused.as_ref().is_some_and(|why| why.starts_with(refused)), "{result:?}");
        let met: Vec<&str> = result.queue_pairs.iter().map(|pair| &*pair.host).collect();
        assert_eq!(met, hosts);
    }
    let of_h0 = |set: &str| {
        let order = order(&format!("at = \"60us\"\nhost = \"h0\"\nset = {{ {set} }}"));
        flows(&played(&(high.clone() + &order)))
    };
    assert_eq!(of_h0("first_cnp_rate = \"20G\", gain = 100"), before);
    assert_eq!(of_h0("gain = 100, \"0x600208\" = 5"), before);
    assert_ne!(of_h0("gain = 100"), before);
}

#[test]
fn cc015_registers_are_written_and_shown() {
    // RATE_MEM of the first queue pair of h1: target and rate 5120 and 3200 units.
    let write =
        order("at = \"100us\"\nhost = \"h1\"\nset = { \"0x600008\" = 0x14000c80, \"0x600010\" = 0x155 }");
    let show = order("at = \"100us\"\nshow = true");
    let report = played(&(write + &show));
    assert_eq!(report.verdict, "PASS", "{:?}", report.findings);
    let shown = &report.orders[1];
    assert_eq!(shown.queue_pairs.iter().map(|q| &*q.host).collect::<Vec<_>>(), ["h0", "h1", "h2"]);
    assert_eq!(register(shown, 1, "RATE_MEM"), 5_120 << 16 | 3_200);
    assert_eq!(register(shown, 1, "ALPHA_MEM"), 0x155);
    assert_eq!(shown.queue_pairs[1].rate_bps, 25_000_000_000);
    assert_eq!(shown.queue_pairs[1].registers[1].address, 0x60_0008);
    assert_ne!(register(shown, 0, "RATE_MEM"), 5_120 << 16 | 3_200);
    assert_ne!(flows(&report), flows(&played("")));
    // A look changes nothing.
    assert_eq!(flows(&played(&order("at = \"100us\"\nshow = true"))), flows(&played("")));
}

/// At full rate firmware has nothing to look at; what it did before, at a lower rate, does not stay.
#[test]
fn cc024_firmware_goes_to_full_rate_by_order() {
    let by_register = ("initial_rate = \"1G\"", "set = { \"0x600008\" = 0x14001400 }");
    let by_parameter = ("", "set = { min_rate = \"40G\" }");
    for scheme in ["firmware", "firmware_rate"] {
        for (begin, set) in [by_register, by_parameter] {
            let table = format!("scheme = \"{scheme}\"\nfirmware_period = \"20us\"\n{begin}");
            let text = file(&order(&format!("at = \"100us\"\nhost = \"h0\"\n{set}")));
            let text = text.replace("scheme = \"hardware\"", &table);
            let report = run(&load("orders.toml", &text).unwrap()).unwrap();
            let fct = report.flows[0].fct_ns;
            assert!(fct.is_some_and(|fct| fct < 2_500_000), "{scheme} {set}: {fct:?}");
        }
    }
}

/// What was recorded before another one decides stays, and the record goes on.
#[test]
fn cc021_a_trace_outlives_a_change_of_scheme() {
    let text = |orders: &str| {
        file(orders).replace("scheme = \"hardware\"", "scheme = \"hardware\"\ninitial_rate = \"30G\"")
    };
    let start = order("at = \"0ns\"\nhost = \"h0\"\ntrace = \"start\"");
    let change = order("at = \"300us\"\nset = { scheme = \"firmware\", firmware_period = \"20us\" }");
    let report = run(&load("orders.toml", &text(&(start + &change))).unwrap()).unwrap();
    let [trace] = &report.traces[..] else { panic!("{:?}", report.traces) };
    let before = trace.entries.iter().filter(|entry| entry.time_ns < 300_000).count();
    assert!(before > 0 && before < trace.entries.len(), "{:?}", trace.entries);
}

/// `sq_arb_mask` stops a queue pair, and a later order lets it go on (CC-017).
#[test]
fn cc017_a_masked_queue_pair_waits() {
    let mask = order("at = \"10us\"\nhost = \"h0\"\nset = { \"0x400000\" = 2 }");
    let go = order("at = \"3ms\"\nhost = \"h0\"\nset = { \"0x400000\" = 0 }");
    let stopped = played(&mask);
    assert_eq!((stopped.flows_done, stopped.verdict), (2, "FAIL"), "{:?}", stopped.findings);
    let went = played(&(mask + &go));
    assert_eq!(went.verdict, "PASS", "{:?}", went.findings);
    assert!(went.flows[0].fct_ns.unwrap() > 3_000_000);
}

#[test]
fn cc021_cc023_a_window_is_recorded() {
    let start = order("at = \"0us\"\nhost = \"h0\"\ntrace = \"start\"");
    let whole = played(&start);
    assert_eq!(whole.verdict, "PASS", "{:?}", whole.findings);
    let [trace] = &whole.traces[..] else { panic!("{:?}", whole.traces) };
    assert_eq!((&*trace.host, trace.qpn, trace.initial.rate_bps), ("h0", 0, 40_000_000_000));
    let entries = trace.entries.len() as u32;
    let counts = &trace.counts;
    assert!(counts.decrease > 0 && counts.decrease + counts.byte_counter + counts.timer == entries);
    let first = &trace.entries[0];
    assert_eq!((first.code, first.event), (0, "decrease"));
    assert_eq!(first.dcqcn_dfx_info >> 19, first.time_ns);
    // It ends where it is told to, and begins where it is told to.
    let stop = order(&format!("at = \"{}ns\"\nhost = \"h0\"\ntrace = \"stop\"", first.time_ns + 1));
    let short = played(&(start.clone() + &stop));
    assert_eq!((short.traces[0].entries.len(), short.traces[0].running), (1, false));
    let late = order(&format!("at = \"{}ns\"\nhost = \"h0\"\ntrace = \"start\"", first.time_ns + 1));
    let late = &played(&late).traces[0];
    assert!(late.initial.rate_bps < 40_000_000_000 && late.entries[0].time_ns > first.time_ns);
    // A record changes nothing, and is a table of its own.
    assert_eq!(flows(&whole), flows(&played("")));
    let csv = whole.traces_csv().unwrap();
    let rows: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!((rows[0], rows[1]), ("host,qpn,time_ns,code,event,rate_bps", "h0,0,,,start,40000000000"));
    assert_eq!(rows.len() as u32, 2 + entries);
    assert!(played("").traces_csv().is_none());
}

/// An order that could not be carried out is a finding.
#[test]
fn orders_that_meet_nobody_are_found() {
    let cases = [
        (order("at = \"10us\"\nqpn = 7\nshow = true"), "no such queue pair"),
        (order("at = \"4ms\"\nshow = true"), "the run ended before"),
        (order("at = \"10us\"\nhost = \"h0\"\nset = { \"0x600108\" = 5 }"), "0x600108: no register, or none"),
        (order("at = \"10us\"\nset = { \"0x600008\" = 0x100000000 }"), "does not fit"),
    ];
    for (orders, why) in cases {
        let report = played(&orders);
        assert_eq!(report.verdict, "FAIL", "{orders}");
        assert!(
            report.findings.iter().any(|f| f.starts_with("order 1 ") && f.contains(why)),
            "{:?}",
            report.findings
        );
    }
}

#[test]
fn orders_that_cannot_be_are_refused() {
    let cases = [
        (
            order("at = \"1us\""),
            "orders.toml:26: order 1: there is nothing to do",
            "one of `set`, `trace` and `show = true`",
        ),
        (
            order("set = { gain = 1 }\ntrace = \"stop\""),
            "order 1: it says both",
            "write an [[order]] for each",
        ),
        (order("at = \"6ms\"\nshow = true"), "order.0.at", "stop_time"),
        (order("host = \"h9\"\nshow = true"), "order.0.host", "name of a host"),
        (order("host = \"h3\"\nshow = true"), "order 1: no flow of `h3` has cc = \"dcqcn\"", "take it out"),
        (order("set = { gian = 1 }"), "order 1: `set` is refused", "unknown field `gian`"),
        (order("set = { gain = 2000 }"), "order 1: `set` is refused", "above one"),
        (order("set = { message = \"1KB\" }"), "order.0.set.message", "start of a queue pair"),
        (order("set = {}"), "order.0.set", "keys of [host.dcqcn]"),
        (order("set = { \"0x600009\" = 1 }"), "order.0.set.0x600009", "docs/host.md"),
        (order("set = { \"0x600008\" = \"1\" }"), "order.0.set.0x600008", "a number"),
        (order("qpn = 0\nset = { \"0x600008\" = 1 }"), "order.0.qpn", "absent"),
    ];
    for (orders, key, must) in cases {
        let error = load("orders.toml", &file(&orders)).and_then(|spec| run(&spec)).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(must), "`{error}` lacks `{key}` or `{must}`");
        assert!(error.starts_with("orders.toml:"), "{error}");
    }
    let text = file(&order("set = { scheme = \"firmware\" }")).replace("scheme = \"hardware\"", "");
    let error = load("orders.toml", &text).and_then(|spec| run(&spec)).unwrap_err().to_string();
    assert!(error.contains("order.0.set.scheme") && error.contains("no work requests"), "{error}");
}

//! The parts of a frame's time are the whole, and each is what it should be (SW-120 to SW-126).

use super::{Latency, LatencyOf, Report, load, run};

fn play(text: &str) -> Report {
    run(&load("latency.toml", text).unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn latency(report: &Report) -> &Latency {
    report.latency.as_ref().unwrap()
}

/// Sums of the parts are the sum of the whole, of all frames and on every leg, and the legs are all there is.
fn add_up(latency: &Latency) {
    let parts = |of: &LatencyOf| of.parts.values().map(|d| d.sum_ps).sum::<u64>();
    for of in latency.end_to_end.iter().chain(&latency.legs) {
        assert_eq!(parts(of), of.total.sum_ps, "{}", of.name);
        let frames: u64 = of.total.histogram.iter().map(|(_, n)| n).sum();
        assert_eq!(frames, of.frames, "{}", of.name);
    }
    let sum = |all: &[LatencyOf]| all.iter().map(|of| of.total.sum_ps).sum::<u64>();
    assert_eq!(sum(&latency.end_to_end), sum(&latency.legs));
}

/// SW-120, SW-121: a frame that meets nobody, each part by hand.
#[test]
fn sw121_a_frame_alone_takes_the_sum_of_its_parts() {
    for (forwarding, first_line) in [("store_and_forward", 1094), ("cut_through", 72)] {
        let r = play(&format!(
            "name = \"x\"\nstop_time = \"1ms\"\nlatency = true\n[topology]\nkind = \"star\"\nhosts = 2\n[link]\nrate = \"100G\"\n\
             delay = \"1us\"\n[host]\ntx_delay = \"300ns\"\nrx_delay = \"200ns\"\n[switch]\nforwarding = \"{forwarding}\"\n\
             ingress = \"100ns\"\ncrossbar = \"30ns\"\negress = \"80ns\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\n\
             to = \"h1\"\nbytes = 1024\nreliable = false\n"
        ));
        let all = latency(&r);
        add_up(all);
        let data = &all.end_to_end[0];
        // 1024 bytes of payload, 58 of headers, FCS and preamble at 80 ps each; cutting through, a shortest frame.
        let line = (first_line + 1094) * 80;
        let parts: Vec<(&str, u64)> = data.parts.iter().map(|(name, d)| (*name, d.max_ps)).collect();
        let expected = [
            ("crossbar", 30_000),
            ("egress", 80_000),
            ("ingress", 100_000),
            ("propagation", 2_000_000),
            ("rx", 200_000),
            ("serialization", line),
            ("tx", 300_000),
        ];
        // A switch acts at whole nanoseconds; what that takes is waiting.
        let queue = data.parts.get("queue").map_or(0, |d| d.max_ps);
        let other: Vec<_> = parts.into_iter().filter(|(name, _)| *name != "queue").collect();
        assert_eq!((data.frames, &other[..]), (1, &expected[..]), "{forwarding}");
        assert!(queue < 1000, "{queue}");
        assert_eq!(data.total.max_ps, 2_710_000 + line + queue);
        // The flow itself took as long, and that is its ideal time.
        let flow = &r.flows[0];
        assert_eq!(flow.fct_ns, Some(data.total.max_ps.div_ceil(1000)));
        assert!(flow.fct_ns.unwrap().abs_diff(flow.ideal_ns.unwrap()) <= 1, "{flow:?}");
        let names: Vec<&str> = all.legs.iter().map(|leg| &*leg.name).collect();
        assert_eq!(names, ["h0 \u{2192} s0", "s0 port 1 \u{2192} h1"]);
    }
}

/// SW-122, SW-123: one link, frames of the tables.
#[test]
fn sw122_serialization_is_that_of_the_table() {
    // Payload with 58 bytes of headers and 4 of FCS: 1406, 4158 bytes; nanoseconds with the preamble.
    for (payload, frame) in [(1344u64, 1406u64), (4096, 4158)] {
        for gbps in [100, 200, 400] {
            let r = play(&format!(
                "name = \"x\"\nstop_time = \"1ms\"\nlatency = true\n[topology]\nkind = \"direct\"\n[link]\nrate = \"{gbps}G\"\n\
                 delay = \"0ns\"\n[host]\npayload = {payload}\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\n\
                 bytes = {payload}\nreliable = false\n"
            ));
            let data = &latency(&r).end_to_end[0];
            assert_eq!(data.total.max_ps, (frame + 8) * 8000 / gbps, "{frame} B at {gbps}G");
            assert_eq!(data.parts["serialization"].max_ps, data.total.max_ps);
        }
    }
}

/// Many to one over two switches with little buffer: the trunk is paused, and frames say so. Store-and-forward and
/// cut-through (SW-124, SW-125), RoCE and RC Link.
#[test]
fn sw120_parts_add_up_under_pauses() {
    let text = |switch: &str, host: &str, more: &str| {
        format!(
            "name = \"x\"\nstop_time = \"20ms\"\nlatency = true\n[topology]\nkind = \"chain\"\nswitches = 2\nhosts_per_switch = 4\n\
             [host]\ntx_delay = \"150ns\"\nrx_delay = \"50ns\"\n{host}\n[switch]\ningress = \"100ns\"\negress = \"33ns\"\n{switch}\n\
             [switch.config.buffer]\nsize = \"8MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n{more}\n[[workload]]\n\
             kind = \"incast\"\nto = \"h7\"\nbytes = \"4MB\"\n"
        )
    };
    let cases = [
        ("", "", ""),
        ("forwarding = \"cut_through\"", "", ""),
        ("", "congestion_control = \"hpcc\"", ""),
        ("", "protocol = \"rclink\"", ""),
    ];
    for (switch, host, more) in cases {
        let r = play(&text(switch, host, more));
        let all = latency(&r);
        add_up(all);
        let data = &all.end_to_end[0];
        let packets: u64 = r.flows.iter().map(|f| f.delivered.div_ceil(1024)).sum();
        assert_eq!((r.flows_done, data.frames), (7, packets), "{switch}{host}");
        let held = r.pauses() > 0;
        assert_eq!(data.parts.contains_key("pause"), held, "{switch}{host}: {:?}", data.parts.keys());
        if held {
            // Nobody waits longer in a paused queue than its port was paused, and some wait nearly as long.
            let trunk = &r.switches[0].ports.iter().find(|p| p.peer == "s1").unwrap();
            let leg =
                all.legs.iter().find(|leg| leg.name.ends_with("s1") && leg.name.starts_with("s0")).unwrap();
            assert!(leg.parts["pause"].max_ps <= trunk.rx_paused_ns.unwrap() * 1000, "{leg:?}");
            assert!(leg.parts["pause"].sum_ps > 0);
        }
        assert_eq!(data.parts["tx"].min_ps, 150_000);
        assert_eq!(data.parts["rx"].max_ps, 50_000);
    }
}

/// SW-126: Poisson arrivals of equal frames at a port of the real switch, beside W = S rho / (2 (1 - rho)). Thirty-two
/// senders have links of four times the rate, so that no sender spaces them out.
#[test]
fn sw126_waiting_is_that_of_an_m_d_1_queue() {
    let hosts: Vec<String> = (0..32).map(|i| format!("h{i}")).collect();
    let quoted = |names: &[String]| names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ");
    let links: Vec<String> =
        hosts.iter().map(|h| format!("{{ a = \"{h}\", b = \"s\", rate = \"800G\" }}")).collect();
    // 1344 bytes of payload are 1406 with FCS and 1426 on the wire: 57.04 ns at 200G.
    let service = 57.04;
    for (load_of_wire, tolerance) in [(0.5, 0.04), (0.8, 0.05), (0.9, 0.08)] {
        let load_of_payload = load_of_wire * 1344.0 / 1426.0;
        let r = play(&format!(
            "name = \"x\"\nstop_time = \"20ms\"\nlatency = true\n[topology]\nkind = \"custom\"\nhosts = [{}, \"sink\"]\n\
             switches = [\"s\"]\nlinks = [{}, {{ a = \"sink\", b = \"s\" }}]\n[link]\nrate = \"200G\"\ndelay = \"100ns\"\n\
             [host]\npayload = 1344\n[switch.config.buffer]\nsize = \"32MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
             [[workload]]\nkind = \"poisson\"\nto = \"sink\"\nbytes = 1344\nload = {load_of_payload}\nduration = \"8ms\"\n\
             reliable = false\n",
            quoted(&hosts),
            links.join(", "),
        ));
        let all = latency(&r);
        add_up(all);
        let data = &all.end_to_end[0];
        assert_eq!((r.pauses(), data.frames as usize), (0, r.flows_finite));
        let waited = data.parts["queue"].sum_ps as f64 / data.frames as f64 / 1000.0;
        let formula = service * load_of_wire / (2.0 * (1.0 - load_of_wire));
        let off = waited / formula - 1.0;
        println!("load {load_of_wire}: {waited:.2} ns, formula {formula:.2} ns, {} frames", data.frames);
        assert!(off.abs() < tolerance, "load {load_of_wire}: {waited} ns, formula {formula} ns");
    }
}

/// Nothing else changes when it is measured, and tables say what the report says.
#[test]
fn a_run_is_the_same_with_and_without() {
    let text = |extra: &str| {
        format!(
            "name = \"x\"\nstop_time = \"5ms\"\n{extra}[topology]\nkind = \"star\"\nhosts = 5\n[[workload]]\nkind = \"incast\"\n\
             to = \"h4\"\nbytes = \"300KB\"\ncc = \"dcqcn\"\n"
        )
    };
    let (plain, mut measured) = (play(&text("")), play(&text("latency = true\n")));
    assert!(plain.latency.is_none() && plain.latency_csv().is_none());
    let (table, steps) = measured.latency_csv().unwrap();
    let data = &latency(&measured).end_to_end[0];
    assert!(table.contains(&format!("\"data\",total,{},{},", data.frames, data.total.sum_ps)), "{table}");
    let frames = steps.lines().filter(|line| line.starts_with("\"data\",total,"));
    let frames: u64 = frames.map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(frames, data.frames);
    (measured.latency, measured.config_hash) = (None, plain.config_hash.clone());
    assert_eq!(plain, measured);
}

/// What the example says of itself.
#[test]
fn the_example_waits_as_an_m_d_1_queue() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/sim/latency.toml");
    let r = play(&std::fs::read_to_string(path).unwrap());
    let data = &latency(&r).end_to_end[0];
    let waited = data.parts["queue"].sum_ps / data.frames / 1000;
    assert!((105..=120).contains(&waited), "{waited} ns");
    assert!(latency(&r).line().unwrap().contains("queue "));
}

/// SW-120: copies of a multicast frame wait in queues of their own.
#[test]
fn sw120_copies_of_a_multicast_frame_each_have_an_account() {
    let play = |topology: &str, host: &str, traffic: &str| {
        play(&format!(
            "name = \"x\"\nstop_time = \"5ms\"\nlatency = true\n[topology]\n{topology}\n[link]\nrate = \"100G\"\ndelay = \"200ns\"\n\
             [host]\nprotocol = \"rclink\"\ntx_delay = \"300ns\"\nrx_delay = \"200ns\"\n{host}\n[switch.config.buffer]\n\
             size = \"4MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n{traffic}\n"
        ))
    };
    let star = "kind = \"star\"\nhosts = 5";
    let group = "[[workload]]\nkind = \"flow\"\ntype = \"type2\"\nfrom = \"h0\"\n";
    let leg = |all: &Latency, begin: &str, end: &str| {
        let found = all.legs.iter().find(|leg| leg.name.starts_with(begin) && leg.name.ends_with(end));
        found.unwrap_or_else(|| panic!("{begin} to {end}")).clone()
    };
    // Alone: as long as the flow.
    let r = play(star, "", &format!("{group}bytes = 1000\nmembers = [\"h1\", \"h3\"]\n"));
    let all = latency(&r);
    add_up(all);
    let data = &all.end_to_end[0];
    assert_eq!((data.frames, data.total.min_ps), (2, data.total.max_ps));
    assert!(r.flows.iter().all(|f| f.fct_ns == Some(data.total.max_ps.div_ceil(1000))), "{:?}", r.flows);
    assert_eq!((data.parts["tx"].min_ps, data.parts["rx"].max_ps), (300_000, 200_000));
    // One member reads something else, too, and holds back what it is sent; the other does not. A switch with a crossbar has a
    // part for each port.
    for core in ["", "[switch]\ncore = \"islip\"\n"] {
        let other = "[[workload]]\nkind = \"flow\"\nfrom = \"h2\"\nto = \"h3\"\nbytes = \"4MB\"\n";
        let many =
            format!("{core}{group}bytes = \"2MB\"\nrate = \"40G\"\nmembers = [\"h1\", \"h3\"]\n{other}");
        let r = play(star, "[host.rclink]\nread_rate = \"60G\"", &many);
        let all = latency(&r);
        add_up(all);
        let [one, two, request] = &r.flows[..] else { panic!() };
        // Whether a frame waits to be read or not, it is one of data.
        assert_eq!(all.end_to_end[0].frames, one.packets + two.packets + request.packets);
        assert_eq!((r.verdict, one.delivered, two.delivered), ("PASS", 2_000_000, 2_000_000));
        assert_eq!(leg(all, "h0", "s0").frames, one.packets + two.packets);
        let (free, held) = (leg(all, "s0", "h1"), leg(all, "s0", "h3"));
        assert_eq!((free.frames, held.frames), (one.packets, two.packets + request.packets));
        assert!(!free.parts.contains_key("pause"), "{core}: {:?}", free.parts.keys());
        let paused = r.switches[0].ports.iter().find(|p| p.peer == "h3").unwrap().rx_paused_ns.unwrap();
        let pause = &held.parts["pause"];
        assert!(pause.sum_ps > 0 && pause.max_ps <= paused * 1000, "{core}: {pause:?}, {paused} ns");
    }
}

//! What sprayed flows take alone.

use super::{FlowResult, load, run};
use weir_dataplane::rng::Rng;

fn play(text: &str) -> FlowResult {
    let report = load("sprayed.toml", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"));
    report.flows.into_iter().next().unwrap()
}

/// A custom fabric: link `a`, `b`, rate in Gb/s, delay in ns; what a flow from `a` to `b` has besides.
fn fabric(seed: u32, links: &[(&str, &str, u32, u32)], more: &str, flow: &str) -> String {
    let mut switches: Vec<&str> =
        links.iter().flat_map(|(a, b, ..)| [*a, *b]).filter(|n| n.len() > 1).collect();
    switches.sort_unstable();
    switches.dedup();
    let links: String = links
        .iter()
        .map(|(a, b, rate, delay)| {
            format!("[[topology.links]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"{rate}G\"\ndelay = {delay}\n")
        })
        .collect();
    format!(
        "name = \"t\"\nseed = {seed}\nstop_time = \"100ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\n\
         switches = {switches:?}\n{links}[routing]\nmode = \"spray\"\n{more}\n[host]\ntransport = \"selective_repeat\"\n\
         payload = 1024\n[host.selective_repeat]\nreorder_threshold = 4095\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\n\
         to = \"b\"\n{flow}\n"
    )
}

/// Switches `x0` and `y0` with `paths` between them, over one or two switches each; some paths cross.
fn random(rng: &mut Rng, seed: u32) -> String {
    let mut pick = |of: &[u32]| of[rng.next_u32() as usize % of.len()];
    const FIRST: [&str; 4] = ["m0", "m1", "m2", "m3"];
    const SECOND: [&str; 4] = ["n0", "n1", "n2", "n3"];
    let line = [100, 33, 400][pick(&[0, 1, 2]) as usize];
    let mut links = vec![("a", "x0", line, pick(&[0, 1000])), ("b", "y0", line, pick(&[0, 1000]))];
    let (paths, long) = (pick(&[2, 3, 4]) as usize, pick(&[0, 1]) == 1);
    for path in 0..paths {
        let mut link = |a, b| links.push((a, b, pick(&[10, 25, 100, 400]), pick(&[100, 1000, 5000])));
        link("x0", FIRST[path]);
        match long {
            false => link(FIRST[path], "y0"),
            true => {
                link(FIRST[path], SECOND[path]);
                link(FIRST[path], SECOND[(path + 1) % paths]);
                link(SECOND[path], "y0");
            }
        }
    }
    let bytes = pick(&[1, 1025, 2048, 3073, 5000, 20_000, 100_000, 1_000_001]);
    let pace = ["", "", "rate = \"1G\"", "rate = \"37G\""][pick(&[0, 1, 2, 3]) as usize];
    let forwarding = ["store_and_forward", "cut_through"][pick(&[0, 1]) as usize];
    let switch = format!("[switch]\nforwarding = \"{forwarding}\"");
    fabric(seed, &links, &switch, &format!("bytes = {bytes}\n{pace}"))
}

#[test]
fn no_choice_among_paths_is_faster_than_alone() {
    let mut rng = Rng::new(12);
    let mut of_one_frame = 0;
    for number in 0..60 {
        let text = random(&mut rng, number);
        let times = |lots: u32| {
            let text = text.replace(&format!("seed = {number}\n"), &format!("seed = {lots}\n"));
            let flow = play(&text);
            let (fct, alone) = (flow.fct_ns.unwrap(), flow.ideal_ns.unwrap());
            assert!(fct + 1 >= alone, "{fct} ns, alone {alone}: {text}");
            (flow.packets, fct - alone.min(fct))
        };
        let (packets, _) = times(1000);
        (1001..1008).for_each(|lots| _ = times(lots));
        if packets == 1 {
            // One of at most eight paths is the soonest.
            assert!((2000..2100).any(|lots| times(lots).1 <= 1), "{text}");
            of_one_frame += 1;
        }
    }
    assert!(of_one_frame > 4, "{of_one_frame}");
}

#[test]
fn a_long_sprayed_flow_alone_has_what_its_paths_let_through_together() {
    // 10 and 30 Gb/s, the slow link of a path before or behind its switch.
    let links = [
        ("a", "x0", 100, 10),
        ("b", "y0", 100, 10),
        ("x0", "m0", 10, 100),
        ("m0", "y0", 400, 100),
        ("x0", "m1", 400, 100),
        ("m1", "y0", 30, 100),
    ];
    let text = fabric(1, &links, "", "bytes = 1024000");
    // 1000 frames of 1106 bytes on the wire.
    let together = 1000 * 1106 * 8 / 40;
    let even = play(&text);
    assert!((together..together + 2000).contains(&even.ideal_ns.unwrap()), "{even:?}");
    // Half of the frames by each path: the slower one is what it waits for.
    assert!(even.fct_ns.unwrap() > 2 * together * 95 / 100, "{even:?}");
    let weighted = text.replace(
        "rate = \"400G\"\ndelay = 100\n[[topology.links]]\na = \"m1\"",
        "rate = \"400G\"\nweight = 3\ndelay = 100\n[[topology.links]]\na = \"m1\"",
    );
    let flow = play(&weighted);
    assert_eq!(flow.ideal_ns, even.ideal_ns);
    assert!(flow.fct_ns.unwrap() < together * 112 / 100, "{flow:?}");
}

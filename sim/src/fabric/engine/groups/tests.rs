//! A run says the same on any number of threads.

use super::*;
use crate::digest::Digest;
use crate::fabric::{FlowsFormat, load, run_with};
use weir_dataplane::rng::Rng;

/// A small fabric, and whether it falls into groups.
struct Case {
    name: &'static str,
    apart: bool,
    file: String,
}

fn case(name: &'static str, apart: bool, until: &str, topology: &str, rest: &str) -> Case {
    let file = format!("name = \"{name}\"\nstop_time = \"{until}\"\n{{seed}}[topology]\n{topology}\n{rest}");
    Case { name, apart, file }
}

/// PFC and marks begin early.
const SMALL_BUFFER: &str = "[switch.config.buffer]\nsize = \"620KB\"\n[[switch.config.wred]]\nname = \"roce\"\n\
    kmin = \"5KB\"\nkmax = \"50KB\"\npmax = \"20%\"\n";

fn cases() -> Vec<Case> {
    let tree = "kind = \"fat_tree\"\nk = 4";
    let leaves = "kind = \"leaf_spine\"\nleaves = 4\nspines = 3\nhosts_per_leaf = 3";
    vec![
        case(
            "dcqcn, PFC and ECMP in a fat tree",
            true,
            "2ms",
            tree,
            &format!(
                "[[workload]]\nkind = \"permutation\"\nbytes = \"150KB\"\ncc = \"dcqcn\"\n\
                 [[workload]]\nkind = \"incast\"\nto = \"h5\"\nbytes = \"30KB\"\nstart = \"3us\"\n{SMALL_BUFFER}"
            ),
        ),
        case(
            "links that fail between leaves and spines",
            true,
            "3ms",
            leaves,
            "[host]\ntimeout = \"60us\"\n[routing]\nconvergence = \"20us\"\n\
             [[failure]]\na = \"s0\"\nb = \"s4\"\nat = \"20us\"\nrepair = \"90us\"\n\
             [[failure]]\na = \"h4\"\nb = \"s1\"\nat = \"30us\"\nrepair = \"31us\"\n\
             [[workload]]\nkind = \"permutation\"\nbytes = \"300KB\"\ncc = \"dcqcn\"\n",
        ),
        case(
            "a ring all-reduce, steps of which wait for one another",
            true,
            "5ms",
            tree,
            &format!(
                "[[workload]]\nkind = \"all_reduce\"\nbytes = \"160KB\"\nstagger = \"77ns\"\n\
                 [[workload]]\nkind = \"incast\"\nto = \"h9\"\nbytes = \"60KB\"\n{SMALL_BUFFER}"
            ),
        ),
        case(
            "a ring all-reduce whose frames are lost, and come again when the next step has begun",
            true,
            "9ms",
            tree,
            "[host]\ntimeout = \"30us\"\nack_every = 4\n[switch.config.buffer]\nsize = \"1MiB\"\n\
             [[workload]]\nkind = \"all_reduce\"\nbytes = \"320KB\"\npriority = 0\n\
             [[workload]]\nkind = \"incast\"\nto = \"h9\"\nbytes = \"200KB\"\npriority = 0\n",
        ),
        case("all to all", true, "5ms", leaves, "[[workload]]\nkind = \"all_to_all\"\nbytes = \"5KB\"\n"),
        case(
            "selective repeat, over paths drawn by lot",
            true,
            "3ms",
            leaves,
            "[routing]\nmode = \"spray\"\n[host]\ntransport = \"selective_repeat\"\n\
             [[workload]]\nkind = \"permutation\"\nbytes = \"100KB\"\n",
        ),
        case(
            "selective repeat over one path each, with losses of frames when buffers are full",
            true,
            "3ms",
            leaves,
            "[host]\ntransport = \"selective_repeat\"\ntimeout = \"80us\"\n[switch.config.buffer]\nsize = \"1MiB\"\n\
             [[workload]]\nkind = \"permutation\"\nbytes = \"60KB\"\npriority = 0\n\
             [[workload]]\nkind = \"incast\"\nto = \"h1\"\nbytes = \"200KB\"\npriority = 0\n",
        ),
        case(
            "delays that differ, cut-through, and frames that say where their time goes",
            true,
            "2ms",
            "kind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]\nswitches = [\"s\", \"t\", \"u\", \"v\"]\nlinks = [\n\
             { a = \"a\", b = \"s\" }, { a = \"b\", b = \"s\", delay = \"30ns\" }, { a = \"c\", b = \"t\" }, { a = \"d\", b = \"t\", rate = \"40G\" },\n\
             { a = \"e\", b = \"u\" }, { a = \"f\", b = \"u\" }, { a = \"s\", b = \"t\", delay = \"400ns\" }, { a = \"t\", b = \"u\", delay = \"2us\" },\n\
             { a = \"u\", b = \"v\", delay = \"20ns\" }, { a = \"v\", b = \"s\", delay = \"700ns\" } ]",
            "[switch]\nforwarding = \"cut_through\"\n[[workload]]\nkind = \"permutation\"\nbytes = \"120KB\"\ncc = \"dcqcn\"\n\
             [[workload]]\nkind = \"poisson\"\nbytes = \"4KB\"\nload = 0.3\nduration = \"200us\"\n",
        ),
        case(
            "HPCC, and samples that are taken of all together",
            true,
            "1ms",
            tree,
            "[host]\ncongestion_control = \"hpcc\"\n[[workload]]\nkind = \"permutation\"\nbytes = \"100KB\"\n",
        ),
        case(
            "flows without end, ordered about",
            true,
            "200us",
            "kind = \"dumbbell\"\npairs = 4",
            "[[order]]\nat = \"50us\"\nset = { additive = \"40M\" }\n[[order]]\nat = \"120us\"\nshow = true\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h4\"\ncc = \"dcqcn\"\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h4\"\ncc = \"dcqcn\"\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h6\"\nto = \"h3\"\ncc = \"dcqcn\"\n",
        ),
        case(
            "engines that sum",
            true,
            "3ms",
            tree,
            "[[workload]]\nkind = \"inc_all_reduce\"\nbytes = \"64KB\"\n\
             [[workload]]\nkind = \"permutation\"\nbytes = \"100KB\"\ncc = \"dcqcn\"\n",
        ),
        case(
            "sums alone",
            true,
            "3ms",
            leaves,
            "[[workload]]\nkind = \"inc_all_reduce\"\nbytes = \"256KB\"\nstagger = \"2us\"\n",
        ),
        case(
            "sums some of which are given up",
            true,
            "3ms",
            leaves,
            "[host]\ntimeout = \"20us\"\n[link]\nloss = 0.1\n[[workload]]\nkind = \"inc_all_reduce\"\nbytes = \"128KB\"\n\
             [[workload]]\nkind = \"inc_all_reduce\"\nbytes = \"64KB\"\nstart = \"30us\"\n",
        ),
        case(
            "RC Link, trees whose queue pairs wait for others, over credits",
            true,
            "5ms",
            tree,
            "[host]\nprotocol = \"rclink\"\n[host.rclink]\nflow_control = \"cbfc\"\ncredits = 64\n\
             [switch.config.buffer]\nsize = \"4MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
             [[workload]]\nkind = \"tree_all_reduce\"\nbytes = \"90KB\"\nstagger = \"300ns\"\n\
             [[workload]]\nkind = \"halving_doubling_all_reduce\"\nbytes = \"60KB\"\nranks = 8\nplacement = \"random\"\n",
        ),
        case(
            "frames and pauses that links lose, sprayed",
            true,
            "3ms",
            leaves,
            &format!(
                "[routing]\nmode = \"spray\"\n[host]\ntransport = \"selective_repeat\"\ntimeout = \"90us\"\n\
                 [link]\nloss = 0.002\n[trunk]\nloss = 0.001\npause_loss = 0.2\n\
                 [[workload]]\nkind = \"permutation\"\nbytes = \"200KB\"\ncc = \"dcqcn\"\n\
                 [[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = \"50KB\"\n{}",
                SMALL_BUFFER.replace("620KB", "1MiB")
            ),
        ),
        case(
            "datagrams that are lost",
            true,
            "500us",
            tree,
            "[link]\nloss = 0.01\n[[workload]]\nkind = \"permutation\"\nbytes = \"200KB\"\nreliable = false\n",
        ),
        case(
            "HPCC with PINT, whose switches draw",
            true,
            "2ms",
            tree,
            "[host]\ncongestion_control = \"hpcc-pint\"\n[[workload]]\nkind = \"permutation\"\nbytes = \"150KB\"\n\
             [[workload]]\nkind = \"incast\"\nto = \"h3\"\nbytes = \"30KB\"\n",
        ),
        case(
            "RC Link, requests that are answered, and losses",
            true,
            "3ms",
            leaves,
            "[host]\nprotocol = \"rclink\"\ntimeout = \"80us\"\n[link]\nloss = 0.001\n[switch.config.buffer]\nsize = \"4MiB\"\n\
             [switch.config.port_defaults]\nmtu = 1600\n[[workload]]\nkind = \"permutation\"\nbytes = \"200KB\"\ncc = \"backoff\"\n\
             response = 300\n[[workload]]\nkind = \"incast\"\nto = \"h7\"\nbytes = \"100KB\"\ncc = \"backoff\"\n",
        ),
        case(
            "RC Link, an all-reduce over credits, by hosts that read slowly",
            true,
            "5ms",
            tree,
            "[host]\nprotocol = \"rclink\"\n[host.rclink]\nflow_control = \"cbfc\"\ncredits = 64\nread_rate = \"60G\"\n\
             [switch.config.buffer]\nsize = \"4MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
             [[workload]]\nkind = \"all_reduce\"\nbytes = \"160KB\"\n",
        ),
        case(
            "RC Link, multicast and raw frames beside queue pairs, where their time goes",
            true,
            "1ms",
            leaves,
            "[host]\nprotocol = \"rclink\"\n[switch.config.buffer]\nsize = \"4MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
             [[workload]]\nkind = \"flow\"\ntype = \"type2\"\nfrom = \"h1\"\nbytes = \"100KB\"\n\
             [[workload]]\nkind = \"flow\"\ntype = \"type2\"\nfrom = \"h5\"\nbytes = \"100KB\"\nstart = \"7us\"\nmembers = [\"h0\", \"h9\"]\n\
             [[workload]]\nkind = \"permutation\"\ntype = \"type3\"\nbytes = \"50KB\"\n\
             [[workload]]\nkind = \"all_to_all\"\nbytes = \"20KB\"\n",
        ),
        case(
            "a crossbar in every switch",
            true,
            "2ms",
            leaves,
            "[switch]\ncore = \"pim\"\n[[workload]]\nkind = \"permutation\"\nbytes = \"50KB\"\n",
        ),
    ]
}

#[test]
fn a_report_is_the_same_on_any_number_of_threads() {
    let mut rng = Rng::new(16);
    for Case { name, apart, file } in cases() {
        for _ in 0..3 {
            let seed = 1 + rng.next_u32() % 100_000;
            let mut text = file.replace("{seed}", &format!("seed = {seed}\n"));
            if name.contains("samples") {
                text = text.replace("[topology]", "sample = \"40us\"\n[topology]");
            }
            if name.contains("where their time goes") {
                text = text.replace("[topology]", "latency = true\n[topology]");
            }
            let spec = load(name, &text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let whole = Fabric::new(&spec, None).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(Groups::new(&whole, 4).is_ok(), apart, "{name}");
            let report = |threads: usize| {
                run_with(&spec, threads, &mut |_| ControlFlow::Continue(()))
                    .unwrap_or_else(|e| panic!("{name}: {e}"))
            };
            let one = report(1);
            let digest = Digest::of(one.to_json().as_bytes());
            for threads in 2..=4 {
                let other = report(threads);
                if Digest::of(other.to_json().as_bytes()) != digest {
                    let (one, other) = (one.to_json(), other.to_json());
                    let differ = one.lines().zip(other.lines()).find(|(a, b)| a != b);
                    panic!("{name}, seed {seed}, {threads} threads: {differ:?}");
                }
                assert_eq!(
                    other.tables(FlowsFormat::Csv).unwrap(),
                    one.tables(FlowsFormat::Csv).unwrap(),
                    "{name}, seed {seed}, {threads} threads"
                );
            }
        }
    }
}

#[test]
fn a_sum_goes_on_until_somebody_may_be_given_up() {
    let text = "name = \"x\"\nstop_time = \"1ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
                [[workload]]\nkind = \"inc_all_reduce\"\nbytes = \"64KB\"\n";
    let spec = load("x.toml", text).unwrap();
    let mut whole = Fabric::new(&spec, None).unwrap();
    let groups = Groups::new(&whole, 2).unwrap();
    let parts = whole.split(&groups.partition);
    let goes_on = |groups: &Groups, now: Ps| groups.flow_goes_on(&whole, &parts, now, &mut 0);
    assert!(goes_on(&groups, 0));
    // Seven retries, which are never used up here.
    assert!(goes_on(&Groups { go_backs: 7, ..groups.clone() }, 0));
    assert!(!goes_on(&Groups { go_backs: 8, ..groups.clone() }, 0));
    // Engines wait for a second.
    let partition = Partition { lookahead: 1_100_000_000_000, ..groups.partition.clone() };
    assert!(!goes_on(&Groups { partition, nearest: Ps::MAX, ..groups }, 0));
}

//! HPCC, TIMELY, DCTCP and HPCC over PINT of the published simulator: whole runs, one test per scenario.
#[path = "../../dataplane/tests/harness/published.rs"]
mod published;

use std::sync::LazyLock;

use weir_sim::golden::FileReport;
use weir_sim::golden::scenarios::replay::DataSet;
use weir_sim::golden::scenarios::spec::Scenario;
use weir_sim::ns3::config::{Control, WindowRule};

/// The published folder, or `None` with the reason printed.
static SET: LazyLock<Option<DataSet>> =
    LazyLock::new(|| published::published("ns3-cc").map(|folder| DataSet::read(&folder).unwrap()));

/// Digests, completion times, PFC frames, losses, maxima, and the rows that are there.
fn exact(name: &str) {
    let Some(set) = &*SET else { return };
    let reports = set.replay(&set.scenario(name).unwrap()).unwrap();
    for table in ["digests", "fct", "summary", "switch_stats", "port_queue_stats", "largest"] {
        let name = format!("{table}/{name}");
        assert!(reports.iter().any(|r| r.name == name && r.total > 0), "{name} has nothing to compare");
    }
    let wrong: Vec<&FileReport> = reports.iter().filter(|r| !r.is_match()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

macro_rules! scenarios {
    ($($test:ident = $name:literal),* $(,)?) => { $(#[test] fn $test() { exact($name); })* };
}

scenarios! {
    cc_hpcc_incast2_b32 = "hpcc_incast2_b32",
    cc_hpcc_incast8_b32 = "hpcc_incast8_b32",
    cc_hpcc_incast16_b32 = "hpcc_incast16_b32",
    cc_hpcc_incast2_b1 = "hpcc_incast2_b1",
    cc_hpcc_incast8_b1 = "hpcc_incast8_b1",
    cc_hpcc_incast16_b1 = "hpcc_incast16_b1",
    cc_hpcc_stagger8_b32 = "hpcc_stagger8_b32",
    cc_hpcc_dumbbell8_b32 = "hpcc_dumbbell8_b32",
    cc_hpcc_chain_b32 = "hpcc_chain_b32",
    cc_hpcc_chain50_b32 = "hpcc_chain50_b32",
    cc_hpcc_incast8_25g_b8 = "hpcc_incast8_25G_b8",
    cc_hpcc_incast8_4mb_b32 = "hpcc_incast8_4MB_b32",
    cc_timely_incast2_b32 = "timely_incast2_b32",
    cc_timely_incast8_b32 = "timely_incast8_b32",
    cc_timely_incast16_b32 = "timely_incast16_b32",
    cc_timely_incast2_b1 = "timely_incast2_b1",
    cc_timely_incast8_b1 = "timely_incast8_b1",
    cc_timely_incast16_b1 = "timely_incast16_b1",
    cc_timely_stagger8_b32 = "timely_stagger8_b32",
    cc_timely_dumbbell8_b32 = "timely_dumbbell8_b32",
    cc_timely_chain_b32 = "timely_chain_b32",
    cc_timely_chain50_b32 = "timely_chain50_b32",
    cc_timely_incast8_25g_b8 = "timely_incast8_25G_b8",
    cc_timely_incast8_4mb_b32 = "timely_incast8_4MB_b32",
    cc_dctcp_incast2_b32 = "dctcp_incast2_b32",
    cc_dctcp_incast8_b32 = "dctcp_incast8_b32",
    cc_dctcp_incast16_b32 = "dctcp_incast16_b32",
    cc_dctcp_incast2_b1 = "dctcp_incast2_b1",
    cc_dctcp_incast8_b1 = "dctcp_incast8_b1",
    cc_dctcp_incast16_b1 = "dctcp_incast16_b1",
    cc_dctcp_stagger8_b32 = "dctcp_stagger8_b32",
    cc_dctcp_dumbbell8_b32 = "dctcp_dumbbell8_b32",
    cc_dctcp_chain_b32 = "dctcp_chain_b32",
    cc_dctcp_chain50_b32 = "dctcp_chain50_b32",
    cc_dctcp_incast8_25g_b8 = "dctcp_incast8_25G_b8",
    cc_dctcp_incast8_4mb_b32 = "dctcp_incast8_4MB_b32",
    cc_hpcc_chain_multirate_b32 = "hpcc_chain_multirate_b32",
    cc_hpcc_incast8_mi5_b32 = "hpcc_incast8_mi5_b32",
    cc_hpcc_incast4_nofast_b32 = "hpcc_incast4_nofast_b32",
    cc_hpcc_incast2_wrap_b32 = "hpcc_incast2_wrap_b32",
    cc_hpcc_incast4_samplefb_b32 = "hpcc_incast4_samplefb_b32",
    cc_hpcc_incast4_config_b32 = "hpcc_incast4_config_b32",
    cc_timely_incast8_8mb_b32 = "timely_incast8_8MB_b32",
    cc_timelyvwin_incast8_b32 = "timelyvwin_incast8_b32",
    cc_timelyvwin_incast16_4mb_b32 = "timelyvwin_incast16_4MB_b32",
    cc_timelyvwin_dumbbell8_b32 = "timelyvwin_dumbbell8_b32",
    cc_timelyvwin_incast8_25g_4mb_b8 = "timelyvwin_incast8_25G_4MB_b8",
    cc_pint_incast2_b32 = "pint_incast2_b32",
    cc_pint_incast8_b32 = "pint_incast8_b32",
    cc_pint_dumbbell8_b32 = "pint_dumbbell8_b32",
    cc_pint_chain_b32 = "pint_chain_b32",
    cc_pint_incast4_p05_b32 = "pint_incast4_p05_b32",
    cc_hpcc_multiqp_b32 = "hpcc_multiqp_b32",
    cc_timely_multiqp_b32 = "timely_multiqp_b32",
    cc_dctcp_multiqp_b32 = "dctcp_multiqp_b32",
    cc_timelyvwin_multiqp_b32 = "timelyvwin_multiqp_b32",
    cc_pint_multiqp_b32 = "pint_multiqp_b32",
    cc_hpcc_dumbbell8_400_b32 = "hpcc_dumbbell8_400_b32",
    cc_timely_incast6_25g_drops_b1 = "timely_incast6_25G_drops_b1",
    cc_dctcpnowin_incast6_25g_b1 = "dctcpnowin_incast6_25G_b1",
}

/// A change of a scenario.
type Edit = fn(&mut Scenario);

/// A scenario altered by `edit`: whether its digests are still those logged.
fn digests_agree(name: &str, edit: impl FnOnce(&mut Scenario)) -> Option<bool> {
    let set = SET.as_ref()?;
    let mut scenario = set.scenario(name).unwrap();
    edit(&mut scenario);
    let reports = set.replay(&scenario).unwrap();
    Some(reports.iter().filter(|r| r.name.starts_with("digests/")).all(FileReport::is_match))
}

/// Each parameter matters: another value shows in the digests.
#[test]
fn a_changed_parameter_is_noticed() {
    let edits: &[(&str, Edit)] = &[
        ("hpcc_incast2_b32", |s| {
            let Control::Hpcc(p) = &mut s.config.control else { panic!() };
            p.ai_bps += 1;
        }),
        ("hpcc_incast2_b32", |s| {
            let Control::Hpcc(p) = &mut s.config.control else { panic!() };
            p.target = 0.96;
        }),
        ("hpcc_incast2_b32", |s| {
            let Control::Hpcc(p) = &mut s.config.control else { panic!() };
            p.int_multi = 5;
        }),
        ("hpcc_incast8_b32", |s| s.config.window = WindowRule::Fixed),
        ("hpcc_chain_b32", |s| s.config.global_t = false),
        ("timely_incast8_b32", |s| {
            let Control::Timely(p) = &mut s.config.control else { panic!() };
            p.min_rtt += 1;
        }),
        ("dctcp_incast8_b32", |s| {
            let Control::Dctcp(p) = &mut s.config.control else { panic!() };
            p.g = 0.125;
        }),
        ("dctcp_incast8_b32", |s| {
            s.config.marking.iter_mut().for_each(|m| (m.kmin, m.kmax) = (m.kmin + 1048, m.kmax + 1048))
        }),
        ("pint_incast2_b32", |s| {
            let Control::Pint(p) = &mut s.config.control else { panic!() };
            p.log_base = 1.01;
        }),
        ("pint_incast2_b32", |s| {
            let Control::Pint(p) = &mut s.config.control else { panic!() };
            p.probability = 0.999;
        }),
        ("dctcp_incast8_b32", |s| s.config.payload = 999),
        ("hpcc_incast2_b32", |s| s.config.rate_bound = false),
    ];
    for (i, (name, edit)) in edits.iter().enumerate() {
        let Some(agree) = digests_agree(name, edit) else { return };
        assert!(!agree, "edit {i} of {name} changes nothing");
        assert_eq!(digests_agree(name, |_| ()), Some(true), "{name}");
    }
}

/// Every scenario of the folder has a test here.
#[test]
fn no_scenario_is_forgotten() {
    let Some(set) = &*SET else { return };
    let source = include_str!("golden_cc.rs");
    let forgotten: Vec<&str> =
        set.described().names().filter(|n| !source.contains(&format!("\"{n}\""))).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    assert_eq!(set.described().names().count(), 60);
}

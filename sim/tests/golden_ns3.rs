//! The published end-to-end runs, one test per scenario.
use std::path::PathBuf;
use std::sync::LazyLock;

use weir_sim::golden::FileReport;
use weir_sim::golden::scenarios::replay::DataSet;
use weir_sim::golden::scenarios::seeds;

static SET: LazyLock<DataSet> = LazyLock::new(|| {
    let root = std::env::var_os("WEIR_GOLDEN")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden").into(), PathBuf::from);
    DataSet::read(&root.join("ns3-scenarios")).unwrap()
});

fn outcomes(name: &str) -> Vec<FileReport> {
    let scenario = SET.scenario(name).unwrap();
    assert!(scenario.deterministic);
    SET.replay(&scenario).unwrap()
}

fn exact(name: &str) {
    let outcomes = outcomes(name);
    assert!(outcomes.iter().map(|o| o.total).sum::<u64>() > 4, "{name}: nothing to compare");
    let wrong: Vec<&FileReport> = outcomes.iter().filter(|o| !o.is_match()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn random(name: &str) {
    let scenario = SET.scenario(name).unwrap();
    assert!(!scenario.deterministic);
    let spreads = seeds::compare(&SET, &scenario).unwrap();
    assert!(spreads.iter().all(|s| s.logged.len() == 10), "{name}: ten logged seeds");
    let wrong: Vec<_> = spreads.iter().filter(|s| !s.agrees()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

macro_rules! scenarios {
    ($how:ident: $($test:ident = $name:literal),* $(,)?) => { $(#[test] fn $test() { $how($name); })* };
}

scenarios! { exact:
    ns3_base1_nocc_b32 = "base1_nocc_b32",
    ns3_incast8_pfc_b32 = "incast8_pfc_b32",
    ns3_incast8_pfc_b4 = "incast8_pfc_b4",
    ns3_incast8_pfc_b1 = "incast8_pfc_b1",
    ns3_incast8_dcqcnstep_b32 = "incast8_dcqcnstep_b32",
    ns3_incast8_dcqcnstep_b4 = "incast8_dcqcnstep_b4",
    ns3_incast16_pfc_b32 = "incast16_pfc_b32",
    ns3_incast16_pfc_b4 = "incast16_pfc_b4",
    ns3_incast16_dcqcnstep_b32 = "incast16_dcqcnstep_b32",
    ns3_incast8_pfc_2prio_b4 = "incast8_pfc_2prio_b4",
    ns3_incast8_pfc_shortlink_b1 = "incast8_pfc_shortlink_b1",
    ns3_incast16_pfc_shortlink_b1 = "incast16_pfc_shortlink_b1",
    ns3_incast8_pfc_25g_b1 = "incast8_pfc_25g_b1",
    ns3_dumbbell8_pfc_b32 = "dumbbell8_pfc_b32",
    ns3_dumbbell8_pfc_b4 = "dumbbell8_pfc_b4",
    ns3_dumbbell8_pfc_b1 = "dumbbell8_pfc_b1",
    ns3_dumbbell8_incast_victim_pfc_b4 = "dumbbell8_incast_victim_pfc_b4",
    ns3_dumbbell8_incast400_pfc_b4 = "dumbbell8_incast400_pfc_b4",
    ns3_dumbbell16_pfc_b32 = "dumbbell16_pfc_b32",
    ns3_dumbbell16_pfc_b1 = "dumbbell16_pfc_b1",
    ns3_dumbbell16_incast400_pfc_b4 = "dumbbell16_incast400_pfc_b4",
    ns3_dumbbell8_incast400_victim_pfc_b4 = "dumbbell8_incast400_victim_pfc_b4",
    ns3_dumbbell8_dcqcnstep_b4 = "dumbbell8_dcqcnstep_b4",
    ns3_dumbbell16_dcqcnstep_b4 = "dumbbell16_dcqcnstep_b4",
    ns3_dumbbell8_incast400_victim_pfc_b1 = "dumbbell8_incast400_victim_pfc_b1",
    ns3_dumbbell8_incast400_victim_dcqcnstep_b1 = "dumbbell8_incast400_victim_dcqcnstep_b1",
    ns3_dumbbell8_dcqcnstep_b1 = "dumbbell8_dcqcnstep_b1",
    ns3_dumbbell16_dcqcnstep_b1 = "dumbbell16_dcqcnstep_b1",
    ns3_incast8_dcqcnstep50_b1 = "incast8_dcqcnstep50_b1",
    ns3_incast8_dcqcnstep50_4mb_b4 = "incast8_dcqcnstep50_4MB_b4",
    ns3_incast16_dcqcnstep50_4mb_b4 = "incast16_dcqcnstep50_4MB_b4",
    ns3_incast8_pfc_stagger_b4 = "incast8_pfc_stagger_b4",
    ns3_incast16_pfc_10g_b1 = "incast16_pfc_10g_b1",
}

scenarios! { random:
    ns3_incast8_dcqcn_b32 = "incast8_dcqcn_b32",
    ns3_incast8_dcqcn_b4 = "incast8_dcqcn_b4",
    ns3_incast8_dcqcn_b1 = "incast8_dcqcn_b1",
    ns3_incast8_dcqcnpaper_b32 = "incast8_dcqcnpaper_b32",
    ns3_incast8_dcqcnvwin_b32 = "incast8_dcqcnvwin_b32",
    ns3_incast16_dcqcn_b4 = "incast16_dcqcn_b4",
    ns3_incast16_dcqcn_b1 = "incast16_dcqcn_b1",
    ns3_incast16_dcqcnpaper_b32 = "incast16_dcqcnpaper_b32",
    ns3_incast16_dcqcnvwin_b32 = "incast16_dcqcnvwin_b32",
    ns3_dumbbell8_dcqcn_b32 = "dumbbell8_dcqcn_b32",
    ns3_dumbbell8_dcqcn_b1 = "dumbbell8_dcqcn_b1",
    ns3_dumbbell8_incast_victim_dcqcn_b4 = "dumbbell8_incast_victim_dcqcn_b4",
    ns3_dumbbell16_dcqcn_b32 = "dumbbell16_dcqcn_b32",
    ns3_dumbbell16_dcqcn_b4 = "dumbbell16_dcqcn_b4",
    ns3_dumbbell16_dcqcn_b1 = "dumbbell16_dcqcn_b1",
    ns3_dumbbell16_incast_victim_dcqcn_b4 = "dumbbell16_incast_victim_dcqcn_b4",
    ns3_dumbbell8_incast400_victim_dcqcn_b4 = "dumbbell8_incast400_victim_dcqcn_b4",
    ns3_dumbbell8_incast400_victim_dcqcn_b1 = "dumbbell8_incast400_victim_dcqcn_b1",
}

/// What is altered in the model must show in the report, with row and column.
#[test]
fn a_wrong_resume_offset_is_noticed() {
    let mut scenario = SET.scenario("incast8_pfc_b4").unwrap();
    scenario.config.resume_offset += 1048;
    let outcomes = SET.replay(&scenario).unwrap();
    let pfc = outcomes.iter().find(|o| o.name == "pfc_events/incast8_pfc_b4").unwrap();
    let first = pfc.first_mismatch.as_ref().unwrap();
    assert_eq!((first.row, first.column.as_str()), (17, "time_ns"), "the first resume comes later");
    assert!(pfc.matched >= 16 && pfc.matched < pfc.total && !pfc.is_match());
}

#[test]
fn a_wrong_gain_is_noticed() {
    let mut scenario = SET.scenario("incast8_dcqcnstep_b32").unwrap();
    scenario.config.dcqcn.as_mut().unwrap().params.g = 1.0 / 128.0;
    let outcomes = SET.replay(&scenario).unwrap();
    assert!(outcomes.iter().any(|o| o.name.starts_with("rate_events") && !o.is_match()));
    assert!(outcomes.iter().any(|o| o.name.starts_with("fct") && !o.is_match()));
}

#[test]
fn a_wrong_marking_law_is_noticed() {
    let mut scenario = SET.scenario("incast8_dcqcn_b32").unwrap();
    for marking in &mut scenario.config.marking {
        marking.pmax = 0.4;
    }
    assert!(seeds::compare(&SET, &scenario).unwrap().iter().any(|s| !s.agrees()));
}

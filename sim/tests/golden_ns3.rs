//! The published end-to-end runs, one test per scenario.
#[path = "../../dataplane/tests/harness/published.rs"]
mod published;

use std::sync::LazyLock;

use weir_sim::golden::FileReport;
use weir_sim::golden::scenarios::replay::DataSet;
use weir_sim::golden::scenarios::seeds;
use weir_sim::golden::scenarios::spec::Scenario;
use weir_sim::ns3::config::Control;

/// The published folder, or `None` with the reason printed.
static SET: LazyLock<Option<DataSet>> =
    LazyLock::new(|| published::published("ns3-scenarios").map(|folder| DataSet::read(&folder).unwrap()));

fn exact(name: &str) {
    let Some(set) = &*SET else { return };
    let scenario = set.scenario(name).unwrap();
    assert!(scenario.deterministic);
    let reports = set.replay(&scenario).unwrap();
    assert!(reports.iter().map(|r| r.total).sum::<u64>() > 4, "{name}: nothing to compare");
    let wrong: Vec<&FileReport> = reports.iter().filter(|r| !r.is_match()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn random(name: &str) {
    let Some(set) = &*SET else { return };
    let scenario = set.scenario(name).unwrap();
    assert!(!scenario.deterministic);
    let spreads = seeds::compare(set, &scenario).unwrap();
    assert!(spreads.iter().all(|s| s.logged.len() == 10), "{name}: ten logged seeds");
    let wrong: Vec<_> = spreads.iter().filter(|s| !s.agrees()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A scenario altered by `edit`, its reports.
fn altered(name: &str, edit: impl FnOnce(&mut Scenario)) -> Option<Vec<FileReport>> {
    let set = SET.as_ref()?;
    let mut scenario = set.scenario(name).unwrap();
    edit(&mut scenario);
    Some(set.replay(&scenario).unwrap())
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
    let Some(reports) = altered("incast8_pfc_b4", |s| s.config.resume_offset += 1048) else { return };
    let pfc = reports.iter().find(|r| r.name == "pfc_events/incast8_pfc_b4").unwrap();
    let first = pfc.first_mismatch.as_ref().unwrap();
    assert_eq!((first.row, first.column.as_str()), (17, "time_ns"), "the first resume comes later");
    assert!(pfc.matched >= 16 && pfc.matched < pfc.total && !pfc.is_match());
}

#[test]
fn a_wrong_gain_is_noticed() {
    let edit = |s: &mut Scenario| {
        let Control::Dcqcn(params) = &mut s.config.control else { panic!("{:?}", s.config.control) };
        params.g = 1.0 / 128.0;
    };
    let Some(reports) = altered("incast8_dcqcnstep_b32", edit) else { return };
    assert!(reports.iter().any(|r| r.name.starts_with("rate_events") && !r.is_match()));
    assert!(reports.iter().any(|r| r.name.starts_with("fct") && !r.is_match()));
}

#[test]
fn eight_bytes_of_buffer_are_noticed() {
    let Some(reports) = altered("dumbbell8_pfc_b4", |s| s.config.buffer -= 8) else { return };
    assert!(reports.iter().any(|r| r.name.starts_with("pfc_events") && !r.is_match()));
}

#[test]
fn a_wrong_marking_law_is_noticed() {
    let Some(set) = &*SET else { return };
    let mut scenario = set.scenario("incast8_dcqcn_b32").unwrap();
    for marking in &mut scenario.config.marking {
        marking.pmax = 0.4;
    }
    assert!(seeds::compare(set, &scenario).unwrap().iter().any(|s| !s.agrees()));
}

/// Every scenario of the folder has a test here.
#[test]
fn no_scenario_is_forgotten() {
    let Some(set) = &*SET else { return };
    let source = include_str!("golden_ns3.rs");
    let forgotten: Vec<&str> =
        set.described().names().filter(|n| !source.contains(&format!("\"{n}\""))).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    assert_eq!(set.described().names().count(), 51);
}

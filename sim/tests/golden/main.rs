//! Every published table replays with all rows matched, and a changed one is noticed.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tempfile::TempDir;
use weir_sim::golden::{FileReport, replay_dir, replay_each};

mod changed;
mod damaged;
#[path = "../../../dataplane/tests/harness/published.rs"]
mod published;

use published::published;

/// A copy of one table and its description, changed by `edit` as text.
fn changed(data_set: &str, table: &str, edit: impl FnOnce(&mut String, &mut String)) -> Option<TempDir> {
    let folder = published(data_set)?;
    let copy = tempfile::tempdir().unwrap();
    let file = format!("{table}.csv.gz");
    let mut rows = String::new();
    GzDecoder::new(fs::File::open(folder.join(&file)).unwrap()).read_to_string(&mut rows).unwrap();
    let mut params = fs::read_to_string(folder.join("params.json")).unwrap();
    edit(&mut rows, &mut params);
    let mut packed = GzEncoder::new(fs::File::create(copy.path().join(&file)).unwrap(), Compression::fast());
    packed.write_all(rows.as_bytes()).unwrap();
    packed.finish().unwrap();
    fs::write(copy.path().join("params.json"), params).unwrap();
    Some(copy)
}

fn only(dir: &Path) -> FileReport {
    let mut reports = replay_dir(dir).unwrap();
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

fn replays_all(data_set: &str, table: &str, rows: u64) {
    let Some(copy) = changed(data_set, table, |_, _| ()) else { return };
    let report = only(copy.path());
    assert_eq!(report.to_string(), format!("{table} {rows}/{rows} rows"));
    assert!(report.is_match());
}

macro_rules! golden {
    ($($test:ident: $set:literal $table:literal $rows:literal;)+) => {
        $(#[test] fn $test() { replays_all($set, $table, $rows); })+
    };
}

golden! {
    golden_hpcc_a1: "ns3-mmu" "hpcc_a1_p4_b1M" 22_000;
    golden_hpcc_a2: "ns3-mmu" "hpcc_a2_p8_b4M" 24_000;
    golden_hpcc_a3: "ns3-mmu" "hpcc_a3_p16_b12M" 26_000;
    golden_hpcc_a4: "ns3-mmu" "hpcc_a4_p8_b512K_overload" 22_000;
    golden_hpcc_a6: "ns3-mmu" "hpcc_a6_p16_b2M_mixed" 26_000;
    golden_hpcc_a7: "ns3-mmu" "hpcc_a7_p8_b1M_nohdrm" 22_000;
    golden_dc_d1: "ns3-mmu" "dc_d1_p4_allLossless" 22_000;
    golden_dc_d2: "ns3-mmu" "dc_d2_p8_mixed" 24_000;
    golden_dc_d3: "ns3-mmu" "dc_d3_p16_defaultpools" 26_000;
    golden_dc_d4: "ns3-mmu" "dc_d4_p8_allLossy" 22_000;
    golden_dc_d7: "ns3-mmu" "dc_d7_p8_egLLlimited" 22_000;
    golden_dc_d8_reverie: "ns3-mmu" "dc_d8_p8_reverie" 22_000;
    golden_dc_d9_abm: "ns3-mmu" "dc_d9_p8_abm" 22_110;
    golden_dcqcn_r1: "ns3-dcqcn" "r1_mlx_single_cnp" 7_506;
    golden_dcqcn_r2: "ns3-dcqcn" "r2_mlx_burst_then_idle" 10_112;
    golden_dcqcn_r3: "ns3-dcqcn" "r3_mlx_poisson20us" 3_859;
    golden_dcqcn_r4: "ns3-dcqcn" "r4_paper_poisson80us" 1_231;
    golden_dcqcn_r6: "ns3-dcqcn" "r6_clamp" 5_497;
    golden_dcqcn_r8: "ns3-dcqcn" "r8_400G_F5_mixed" 6_414;
}

/// Both data sets in one folder tree: each table once, in the order of the names, all matched.
#[test]
fn golden_folders_are_found_below() {
    let (Some(mmu), Some(dcqcn)) = (published("ns3-mmu"), published("ns3-dcqcn")) else { return };
    let tree = tempfile::tempdir().unwrap();
    for (from, to) in [(&dcqcn, "a/rates"), (&mmu, "b")] {
        fs::create_dir_all(tree.path().join(to)).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), tree.path().join(to).join(entry.file_name())).unwrap();
        }
    }
    let reports = replay_dir(tree.path()).unwrap();
    let names: Vec<_> = reports.iter().map(|report| report.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[6]), (20, "r1_mlx_single_cnp", "dc_d1_p4_allLossless"));
    assert!(reports.iter().all(FileReport::is_match), "{reports:?}");
}

/// The marking law: thirteen depths, each within four standard deviations.
#[test]
fn golden_hpcc_ecn_mark_freq() {
    let Some(folder) = published("ns3-mmu") else { return };
    let reports = replay_dir(&folder).unwrap();
    let marks = reports.iter().find(|report| report.name == "hpcc_ecn_mark_freq").unwrap();
    assert_eq!((marks.matched, marks.total), (13, 13), "{marks}");
}

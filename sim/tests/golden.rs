//! Every published table replays with all rows matched, and a changed one is noticed.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tempfile::TempDir;
use weir_sim::golden::{FileReport, GoldenError, replay_dir};

/// A folder of the published data, or `None` with the reason printed.
fn published(data_set: &str) -> Option<PathBuf> {
    let root = std::env::var_os("WEIR_GOLDEN")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden").into(), PathBuf::from);
    let folder = root.join(data_set);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no folder {} (set WEIR_GOLDEN)", folder.display());
    None
}

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

/// Replaces a cell of a data row (from 1) by `value`.
fn set_cell(rows: &mut String, row: usize, column: &str, value: &str) {
    let mut lines: Vec<String> = rows.lines().map(str::to_owned).collect();
    let position = lines[0].split(',').position(|name| name == column).unwrap();
    let mut cells: Vec<&str> = lines[row].split(',').collect();
    assert_ne!(cells[position], value, "the change must change something");
    cells[position] = value;
    lines[row] = cells.join(",");
    *rows = lines.join("\n") + "\n";
}

fn replaces_all(data_set: &str, table: &str, rows: u64) {
    let Some(copy) = changed(data_set, table, |_, _| ()) else { return };
    let report = only(copy.path());
    assert_eq!(report.to_string(), format!("{table} {rows}/{rows} rows"));
    assert!(report.is_match());
}

macro_rules! golden {
    ($($test:ident: $set:literal $table:literal $rows:literal;)+) => {
        $(#[test] fn $test() { replaces_all($set, $table, $rows); })+
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
}

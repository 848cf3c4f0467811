//! A replay that cannot fail proves nothing: one changed cell or parameter must show.

use super::*;

/// Replaces a cell of a data row (from 1) by `value`.
pub(super) fn set_cell(rows: &mut String, row: usize, column: &str, value: &str) {
    let mut lines: Vec<String> = rows.lines().map(str::to_owned).collect();
    let position = lines[0].split(',').position(|name| name == column).unwrap();
    let mut cells: Vec<&str> = lines[row].split(',').collect();
    assert_ne!(cells[position], value, "the change must change something");
    cells[position] = value;
    lines[row] = cells.join(",");
    *rows = lines.join("\n") + "\n";
}

fn first_difference(copy: &TempDir) -> (u64, String, String, String) {
    let report = only(copy.path());
    assert!(report.matched < report.total, "nothing noticed: {report}");
    let shown = report.to_string();
    let m = report.first_mismatch.unwrap();
    assert!(
        shown
            .contains(&format!("row {}, column {}: expected {}, got {}", m.row, m.column, m.expected, m.got))
    );
    assert!(shown.contains(&m.expected_row) && shown.contains(&m.got_row));
    (m.row, m.column, m.expected, m.got)
}

#[test]
fn a_changed_result_is_shown_with_its_row() {
    for (table, column, got) in [
        ("hpcc_a1_p4_b1M", "thr", "110274"),
        ("hpcc_a1_p4_b1M", "ecn", "N"),
        ("dc_d2_p8_mixed", "thr_in", "720896"),
        ("dc_d8_p8_reverie", "shpool", "653"),
        ("dc_d9_p8_abm", "rsvused", "1048"),
    ] {
        let Some(copy) = changed("ns3-mmu", table, |rows, _| set_cell(rows, 1, column, "77")) else { return };
        let report = only(copy.path());
        assert_eq!(report.matched + 1, report.total, "only that row differs");
        assert_eq!(first_difference(&copy), (1, column.into(), "77".into(), got.into()), "{table}");
    }
}

#[test]
fn a_changed_operand_is_noticed() {
    let grown = |rows: &mut String, _: &mut String| set_cell(rows, 4, "size", "9019");
    let Some(copy) = changed("ns3-mmu", "hpcc_a1_p4_b1M", grown) else { return };
    assert_eq!(first_difference(&copy), (4, "ingress".into(), "9018".into(), "9019".into()));
    let moved = |rows: &mut String, _: &mut String| set_cell(rows, 3, "in", "1");
    let Some(copy) = changed("ns3-mmu", "hpcc_a1_p4_b1M", moved) else { return };
    assert_eq!(first_difference(&copy), (3, "in".into(), "1".into(), "3".into()));
    let lossy = |rows: &mut String, _: &mut String| set_cell(rows, 1, "ly", "1");
    let Some(copy) = changed("ns3-mmu", "dc_d2_p8_mixed", lossy) else { return };
    assert_eq!(first_difference(&copy), (1, "ly".into(), "1".into(), "0".into()));
}

/// A dequeue of a queue the model holds empty: shown, no panic.
#[test]
fn a_frame_taken_from_an_empty_queue_is_shown() {
    for table in ["hpcc_a1_p4_b1M", "dc_d1_p4_allLossless"] {
        let dequeue = |rows: &mut String, _: &mut String| set_cell(rows, 1, "op", "D");
        let Some(copy) = changed("ns3-mmu", table, dequeue) else { return };
        let (row, column, _, got) = first_difference(&copy);
        assert_eq!((row, column.as_str(), got.as_str()), (1, "in", "none held"));
    }
}

#[test]
fn a_changed_parameter_is_noticed() {
    let edits = [
        ("ns3-mmu", "hpcc_a1_p4_b1M", "\"reserve\": 4096", "\"reserve\": 4095"),
        ("ns3-mmu", "hpcc_a4_p8_b512K_overload", "\"resume_offset\": 3072", "\"resume_offset\": 3500"),
        ("ns3-mmu", "hpcc_a4_p8_b512K_overload", "\"kmax\": 80000", "\"kmax\": 81000"),
        ("ns3-mmu", "dc_d1_p4_allLossless", "\"xon_offset\": 2496", "\"xon_offset\": 4000"),
        ("ns3-mmu", "dc_d4_p8_allLossy", "\"egress_lossy_pool\": 786432", "\"egress_lossy_pool\": 786434"),
        ("ns3-dcqcn", "r6_clamp", "\"ai_bps\": 5000000", "\"ai_bps\": 5000001"),
        ("ns3-dcqcn", "r3_mlx_poisson20us", "\"clamp_target\": false", "\"clamp_target\": true"),
    ];
    for (data_set, table, from, to) in edits {
        let edit = |_: &mut String, params: &mut String| {
            assert!(params.contains(from), "{from}");
            *params = params.replace(from, to);
        };
        let Some(copy) = changed(data_set, table, edit) else { return };
        first_difference(&copy);
    }
}

/// Rows cut off and rows too many, of a table whose rows the model makes by itself.
#[test]
fn a_shorter_or_longer_run_is_noticed() {
    let edit = |from: u64, to: u64| {
        move |_: &mut String, params: &mut String| {
            *params = params.replacen(&format!("\"end_us\": {from}"), &format!("\"end_us\": {to}"), 1);
        }
    };
    let Some(copy) = changed("ns3-dcqcn", "r1_mlx_single_cnp", edit(6000, 6001)) else { return };
    let report = only(copy.path());
    assert_eq!((report.matched, report.total), (7_506, 7_507));
    assert_eq!(first_difference(&copy).3, "a further row");
    let Some(copy) = changed("ns3-dcqcn", "r1_mlx_single_cnp", edit(6000, 5999)) else { return };
    assert_eq!(first_difference(&copy).3, "the end");
}

#[test]
fn a_wrong_mark_count_is_noticed() {
    let Some(folder) = published("ns3-mmu") else { return };
    let table = fs::read_to_string(folder.join("hpcc_ecn_mark_freq.csv")).unwrap();
    let edits = [
        ("marked", 8, "20600", "20000 within 537"),
        ("marked", 2, "1", "0 within 0"),
        ("p_formula", 5, "0.01000001", "0.01000000"),
        ("kmin", 7, "100100", "0.04994998"),
    ];
    for (column, row, value, got) in edits {
        let copy = tempfile::tempdir().unwrap();
        let mut rows = table.clone();
        set_cell(&mut rows, row, column, value);
        fs::write(copy.path().join("hpcc_ecn_mark_freq.csv"), rows).unwrap();
        fs::copy(folder.join("params.json"), copy.path().join("params.json")).unwrap();
        let (at, _, _, shown) = first_difference(&copy);
        assert_eq!((at, shown.as_str()), (row as u64, got));
    }
}

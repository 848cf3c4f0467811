//! Files that are no data set end in one error that names the file and the place.

use super::*;

const TABLE: &str = "hpcc_a1_p4_b1M";

fn error_of(dir: &Path) -> String {
    replay_dir(dir).unwrap_err().to_string()
}

fn edited(data_set: &str, table: &str, edit: impl FnOnce(&mut String, &mut String)) -> Option<String> {
    changed(data_set, table, edit).map(|copy| error_of(copy.path()))
}

#[track_caller]
fn says(error: Option<String>, parts: &[&str]) {
    let Some(error) = error else { return };
    for part in parts {
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    }
}

#[test]
fn a_truncated_or_corrupt_file_names_the_place() {
    let Some(copy) = changed("ns3-mmu", TABLE, |_, _| ()) else { return };
    let file = copy.path().join(format!("{TABLE}.csv.gz"));
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    says(Some(error_of(copy.path())), &["hpcc_a1_p4_b1M.csv.gz after line "]);
    fs::write(&file, b"this is no gzip file").unwrap();
    says(Some(error_of(copy.path())), &["hpcc_a1_p4_b1M.csv.gz after line 0: invalid gzip header"]);
    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle..middle + 64].fill(0xa5);
    fs::write(&file, flipped).unwrap();
    // A flip may leave a stream that unpacks to nonsense: damage, or a cell that holds nothing.
    says(Some(error_of(copy.path())), &["hpcc_a1_p4_b1M.csv.gz", " line "]);
    fs::write(&file, b"").unwrap();
    says(Some(error_of(copy.path())), &["hpcc_a1_p4_b1M.csv.gz"]);
}

#[test]
fn a_wrong_header_names_the_column() {
    let no_header = |rows: &mut String, _: &mut String| *rows = rows.split_once('\n').unwrap().1.to_owned();
    says(edited("ns3-mmu", TABLE, no_header), &["line 1: column 1 should be `op` but is `E`"]);
    let renamed = |rows: &mut String, _: &mut String| *rows = rows.replacen("hdrm", "headroom", 1);
    says(edited("ns3-mmu", TABLE, renamed), &["column 8 should be `hdrm` but is `headroom`"]);
    let missing = |rows: &mut String, _: &mut String| *rows = rows.replacen(",ecn", "", 1);
    says(edited("ns3-mmu", TABLE, missing), &["column 15 should be `ecn` but is absent"]);
    let further = |rows: &mut String, _: &mut String| *rows = rows.replacen(",stage", ",stage,extra", 1);
    says(edited("ns3-dcqcn", "r6_clamp", further), &["column 7 should be absent but is `extra`"]);
}

#[test]
fn a_wrong_row_names_the_line() {
    let cut = |rows: &mut String, _: &mut String| rows.truncate(rows.len() - 10);
    says(edited("ns3-mmu", TABLE, cut), &["after line 22000: a row of ", " cells where the header has 15"]);
    let empty = |rows: &mut String, _: &mut String| rows.truncate(rows.find('\n').unwrap() + 1);
    says(edited("ns3-mmu", TABLE, empty), &["a table without rows"]);
    let far = |rows: &mut String, _: &mut String| changed::set_cell(rows, 2, "out", "5");
    says(edited("ns3-mmu", TABLE, far), &["line 3: `out` is `5`, not a whole number from 1 to 4"]);
    let tick = |rows: &mut String, _: &mut String| changed::set_cell(rows, 9, "op", "T");
    says(edited("ns3-mmu", TABLE, tick), &["line 10: `op` is `T`, not E or D"]);
    says(edited("ns3-mmu", "dc_d1_p4_allLossless", tick), &["line 10: `op` is `T`, not E or D"]);
    let no_time = |rows: &mut String, _: &mut String| changed::set_cell(rows, 1, "time_ns", "soon");
    says(edited("ns3-dcqcn", "r6_clamp", no_time), &["line 2: `time_ns` is `soon`"]);
}

#[test]
fn a_wrong_description_names_the_entry() {
    let edit = |from: &'static str, to: &'static str| {
        move |_: &mut String, params: &mut String| {
            assert!(params.contains(from));
            *params = params.replacen(from, to, 1);
        }
    };
    says(edited("ns3-mmu", TABLE, edit("{", "[")), &["params.json: "]);
    says(edited("ns3-mmu", TABLE, edit(TABLE, "other")), &["has no entry `hpcc_a1_p4_b1M`"]);
    says(edited("ns3-mmu", TABLE, edit("\"hpcc\"", "\"abc\"")), &[TABLE, "model `abc` is neither"]);
    says(edited("ns3-mmu", TABLE, edit("\"reserve\"", "\"rsv\"")), &[TABLE, "missing field `reserve`"]);
    says(edited("ns3-mmu", TABLE, edit("\"ports\": 4", "\"ports\": 5")), &[TABLE, "5 ports but 4 values"]);
    says(edited("ns3-mmu", TABLE, edit("3,", "32,")), &[TABLE, "shift 32 of port index 0"]);
    let table = "r1_mlx_single_cnp";
    says(edited("ns3-dcqcn", table, edit("0.00390625", "2")), &[table, "`g` is 2"]);
    says(
        edited("ns3-dcqcn", table, edit("100000000000", "9000000000000000")),
        &[table, "`line_bps` is 9000"],
    );
}

#[test]
fn a_table_without_a_data_set_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    says(Some(error_of(dir.path())), &["no known data set here; known are ns3-mmu, ns3-dcqcn"]);
    fs::create_dir(dir.path().join("inner")).unwrap();
    fs::write(dir.path().join("inner/some.csv"), "a,b\n1,2\n").unwrap();
    says(Some(error_of(dir.path())), &["inner/some.csv: no known data set describes this file"]);
    says(Some(error_of(&dir.path().join("absent"))), &["absent: "]);
    says(Some(error_of(&dir.path().join("inner/some.csv"))), &["some.csv: "]);
}

/// What was replayed before the damage is not lost to a caller that takes reports one by one.
#[test]
fn reports_before_the_damage_are_handed_over() {
    let Some(copy) = changed("ns3-mmu", TABLE, |_, _| ()) else { return };
    fs::write(copy.path().join("later.csv"), "op\n").unwrap();
    let mut seen = Vec::new();
    let error = replay_each(copy.path(), &mut |report| seen.push(report.to_string())).unwrap_err();
    assert_eq!(seen, ["hpcc_a1_p4_b1M 22000/22000 rows"]);
    says(Some(error.to_string()), &["later.csv: ", "has no entry `later`"]);
}

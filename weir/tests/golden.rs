//! `weir golden` from outside: one line per file, exit codes, the first row that differs, damaged files.

#[path = "../../dataplane/tests/harness/published.rs"]
mod published;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output};

const TABLE: &str = "hpcc_a1_p4_b1M";

fn golden(dir: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_weir")).arg("golden").arg(dir).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// The same as a document.
fn json(dir: &Path) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_weir")).arg("golden").arg(dir).arg("--json").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A folder with one published table, its rows changed by `edit`, or `None` with the reason printed.
fn copy(edit: impl FnOnce(&mut Vec<String>)) -> Option<tempfile::TempDir> {
    let folder = published::published("ns3-mmu")?;
    let name = format!("{TABLE}.csv.gz");
    let mut text = String::new();
    GzDecoder::new(fs::File::open(folder.join(&name)).unwrap()).read_to_string(&mut text).unwrap();
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    edit(&mut rows);
    let dir = tempfile::tempdir().unwrap();
    let mut packed = GzEncoder::new(fs::File::create(dir.path().join(name)).unwrap(), Compression::fast());
    packed.write_all((rows.join("\n") + "\n").as_bytes()).unwrap();
    packed.finish().unwrap();
    fs::copy(folder.join("params.json"), dir.path().join("params.json")).unwrap();
    Some(dir)
}

#[test]
fn all_rows_matched_is_zero() {
    let Some(dir) = copy(|_| ()) else { return };
    assert_eq!(golden(dir.path()), (Some(0), format!("{TABLE} 22000/22000 rows\n"), String::new()));
    let json = json(dir.path());
    assert_eq!((&json["differing"], &json["files"][0]["matched"]), (&0.into(), &22_000.into()));
    assert_eq!(
        (&json["files"][0]["name"], &json["files"][0]["first_mismatch"]),
        (&TABLE.into(), &Value::Null)
    );
}

#[test]
fn a_wrong_row_is_one_and_the_first_is_shown() {
    let (row, later) = (500, 700);
    let mut right = String::new();
    let wrong = |rows: &mut Vec<String>| {
        right.clone_from(&rows[row]);
        for row in [row, later] {
            let mut cells: Vec<_> = rows[row].split(',').map(str::to_owned).collect();
            cells[10] = format!("{}", cells[10].parse::<u64>().unwrap() + 1);
            rows[row] = cells.join(",");
        }
    };
    let Some(dir) = copy(wrong) else { return };
    let (code, out, err) = golden(dir.path());
    let lines: Vec<_> = out.lines().collect();
    let threshold: u64 = right.split(',').nth(10).unwrap().parse().unwrap();
    assert_eq!((code, err.as_str()), (Some(1), ""));
    let document = json(dir.path());
    let first = &document["files"][0]["first_mismatch"];
    assert_eq!(
        (&document["differing"], first["got"].as_str()),
        (&1.into(), Some(threshold.to_string().as_str())),
        "{document:#}"
    );
    assert_eq!(lines[0], format!("{TABLE} 21998/22000 rows"));
    assert_eq!(lines[1], format!("  row {row}, column thr: expected {}, got {threshold}", threshold + 1));
    assert!(
        lines[2].starts_with("    expected ") && lines[2].contains(&format!(",{},", threshold + 1)),
        "{out}"
    );
    assert_eq!(lines[3], format!("    got      {right}"));
    assert_eq!(lines.len(), 4, "one row is enough to look at");
}

#[test]
fn what_is_damaged_is_two_and_named_once() {
    let Some(dir) = copy(|_| ()) else { return };
    let file = dir.path().join(format!("{TABLE}.csv.gz"));
    let whole = fs::read(&file).unwrap();
    for (bytes, says) in [
        (&whole[..whole.len() / 2], "incomplete deflate stream"),
        (b"no gzip".as_slice(), "unexpected end of file"),
        (b"", "unexpected end of file"),
    ] {
        fs::write(&file, bytes).unwrap();
        let (code, out, err) = golden(dir.path());
        assert_eq!((code, out.as_str()), (Some(2), ""));
        assert!(err.starts_with("weir: replay of ") && err.lines().count() == 1, "{err}");
        assert!(err.contains(&format!("{TABLE}.csv.gz after line ")) && err.contains(says), "{err}");
    }
    fs::write(&file, &whole).unwrap();
    fs::write(dir.path().join("params.json"), "{").unwrap();
    let (code, _, err) = golden(dir.path());
    assert!(code == Some(2) && err.contains("params.json: EOF while parsing"), "{err}");
    let (code, _, err) = golden(&dir.path().join("absent"));
    assert_eq!((code, err.matches("No such file").count()), (Some(2), 1), "{err}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let Some(dir) = copy(|_| ()) else { return };
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["golden".as_ref(), dir.path().as_os_str()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), String::from_utf8(done.stderr).unwrap()), (Some(0), String::new()));
}

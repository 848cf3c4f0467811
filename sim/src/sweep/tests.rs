//! Sharding, ending and going on, broken points, damaged files.

use super::*;
use crate::fabric::FlowsFormat;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

const BASE: &str = "name = \"base\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[switch.config.buffer]\n\
                    size = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n[[workload]]\nkind = \"incast\"\nto = \
                    \"h3\"\nbytes = \"100KB\"\n";
const PLAN: &str = "name = \"small\"\nbase = \"base.toml\"\n[[axis]]\nkey = \"seed\"\nvalues = [1, 2]\n[[axis]]\nkey = \
                    \"link.rate\"\nvalues = [\"100G\", \"0\", \"25G\"]\n[[axis]]\nkey = \"workload.0.bytes\"\nvalues = \
                    [\"10KB\", \"50KB\"]\n";

fn plan(dir: &Path) -> Plan {
    std::fs::write(dir.join("base.toml"), BASE).unwrap();
    std::fs::write(dir.join("plan.toml"), PLAN).unwrap();
    Plan::read(&dir.join("plan.toml")).unwrap()
}

fn play(plan: &Plan, shard: &str, dir: &Path) -> Tally {
    try_play(plan, shard, dir).unwrap()
}

/// Points that were there, played, broken and left.
fn counts(tally: &Tally) -> [usize; 4] {
    [tally.before, tally.now, tally.broken.len(), tally.left]
}

fn orders<'a>(shard: &'a str, dir: &'a Path) -> Orders<'a> {
    let (keep, flows) = (Keep::default(), FlowsFormat::default());
    Orders { shard, dir, keep, flows, jobs: NonZeroUsize::new(3).unwrap() }
}

fn try_play(plan: &Plan, shard: &str, dir: &Path) -> Result<Tally, SweepError> {
    run_shard(plan, &orders(shard, dir), &|_| ControlFlow::Continue(()))
}

#[test]
fn any_sharding_has_one_digest_and_twice_does_nothing() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(root.path());
    assert_eq!(plan.len(), 12);
    let whole = root.path().join("whole");
    assert_eq!(counts(&play(&plan, "1/1", &whole)), [0, 12, 4, 0]);
    let all = merge(std::slice::from_ref(&whole)).unwrap();
    assert!(all.missing.is_empty());
    let again = play(&plan, "1/1", &whole);
    assert_eq!(counts(&again), [12, 0, 4, 0]);
    assert_eq!(again.broken, all.broken, "why, too");

    let shards: Vec<_> = (1..=3).map(|i| root.path().join(format!("part{i}"))).collect();
    for (i, dir) in shards.iter().enumerate() {
        assert_eq!(play(&plan, &format!("{}/3", i + 1), dir).now, 4);
    }
    let (a, b, c) = (shards[0].clone(), shards[1].clone(), shards[2].clone());
    assert_eq!(merge(&[a.clone(), b.clone()]).unwrap().missing, [2, 5, 8, 11]);
    let parts = merge(&[c.clone(), a.clone(), b.clone()]).unwrap();
    assert_eq!(parts, all);
    // Five shards into one folder, in any order; a folder given twice.
    let mixed = root.path().join("mixed");
    for i in [4, 1, 5, 3, 2] {
        play(&plan, &format!("{i}/5"), &mixed);
    }
    assert_eq!(merge(&[mixed.clone(), mixed, a]).unwrap().digest, all.digest);

    assert_eq!(all.broken.len(), 4, "{:?}", all.broken);
    assert!(
        all.broken.iter().all(|(_, why)| why.contains("rate 0") && why.contains("spec of point ")),
        "{:?}",
        all.broken
    );
    let csv = all.csv();
    let table: Vec<&str> = csv.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(table.len(), 13);
    assert!(table[0].starts_with("seed,link.rate,workload.0.bytes,fct_p50_ns,"), "{csv}");
    assert!(table[1].starts_with("1,100G,10KB,"), "{csv}");
    assert!(csv.contains(&all.digest));
}

/// Files that points name go along by content: another content is another point, another folder is not.
#[test]
fn points_take_the_files_they_name_along() {
    let fabric = "name = \"f\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \"htsim_matrix\"\n\
                  file = \"a.cm\"\n";
    // By name, in a table and in an array of them.
    let of_kind = |file: &str| format!("{{ kind = \"htsim_matrix\", file = \"{file}\" }}");
    let by_name = ("workload.0.file", ["a.cm", "b.cm"].map(|file| format!("{file:?}")));
    let in_table = ("workload.0", ["a.cm", "b.cm"].map(of_kind));
    let in_array = ("workload", ["a.cm", "b.cm"].map(|file| format!("[{}]", of_kind(file))));
    let root = tempfile::tempdir().unwrap();
    let digest = |name: &str, (key, [a, b]): &(&str, [String; 2]), bytes: u32| {
        let plan =
            &format!("name = \"p\"\nbase = \"base.toml\"\n[[axis]]\nkey = \"{key}\"\nvalues = [{a}, {b}]\n");
        let dir = root.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        let matrix = |bytes: u32| format!("Nodes 4\nConnections 1\n0->1 start 0 size {bytes}\n");
        for (name, text) in
            [("base.toml", fabric), ("plan.toml", plan), ("a.cm", &matrix(1000)), ("b.cm", &matrix(bytes))]
        {
            std::fs::write(dir.join(name), text).unwrap();
        }
        let plan = Plan::read(&dir.join("plan.toml")).unwrap();
        let out = dir.join("out");
        assert_eq!(counts(&play(&plan, "1/1", &out)), [0, 2, 0, 0]);
        // Without the files they were made of, results can be looked at and points played again.
        std::fs::remove_file(dir.join("a.cm")).unwrap();
        assert_eq!(counts(&play(&plan, "1/1", &out)), [2, 0, 0, 0]);
        let merged = merge(std::slice::from_ref(&out)).unwrap();
        let delivered: Vec<u64> = merged
            .rows
            .iter()
            .map(|(_, result)| result.as_ref().unwrap()["summary"]["delivered_bytes"].as_u64().unwrap())
            .collect();
        assert_eq!(delivered, [1000, u64::from(bytes)]);
        crate::compare::compare(&[out]).unwrap_or_else(|e| panic!("{e}"));
        merged.digest
    };
    for (at, axis) in [by_name, in_table, in_array].iter().enumerate() {
        let one = digest(&format!("{at}-one"), axis, 2000);
        assert_eq!(digest(&format!("{at}-two"), axis, 2000), one);
        assert_ne!(digest(&format!("{at}-three"), axis, 3000), one);
    }
    let plan = root.path().join("0-one/plan.toml");
    let absent = Plan::read(&plan).unwrap_err().to_string();
    assert!(absent.contains("a.cm: No such file"), "{absent}");
}

/// A file of each rank, all of which decide about the name.
#[test]
fn points_take_the_files_of_all_ranks_along() {
    let shipped = |rank: usize| format!("{}/../configs/sim/chakra.{rank}.et", env!("CARGO_MANIFEST_DIR"));
    let base = "name = \"c\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \"chakra\"\nfile = \
                \"t.{rank}.et\"\n";
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("base.toml"), base).unwrap();
    std::fs::write(root.path().join("plan.toml"), "name = \"p\"\nbase = \"base.toml\"\naxis = []\n").unwrap();
    (0..4).for_each(|rank| {
        std::fs::copy(shipped(rank), root.path().join(format!("t.{rank}.et"))).unwrap();
    });
    let read = || Plan::read(&root.path().join("plan.toml")).unwrap();
    let plan = read();
    let out = root.path().join("out");
    assert_eq!(counts(&play(&plan, "1/1", &out)), [0, 1, 0, 0]);
    std::fs::copy(shipped(0), root.path().join("t.3.et")).unwrap();
    assert_ne!(read().point(0).address, plan.point(0).address);
}

#[test]
fn every_key_of_a_plan_has_an_effect() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("base.toml"), BASE).unwrap();
    std::fs::write(root.path().join("other.toml"), BASE.replace("1MiB", "2MiB")).unwrap();
    let read = |text: &str| {
        std::fs::write(root.path().join("plan.toml"), text).unwrap();
        Plan::read(&root.path().join("plan.toml"))
    };
    let said = |text: &str| {
        let plan = read(text).unwrap();
        (plan.name.clone(), plan.points().map(|point| (point.values, point.spec)).collect::<Vec<_>>())
    };
    let one = "name = \"small\"\nbase = \"base.toml\"\n[[axis]]\nkey = \"seed\"\nvalues = [1, 2]\n";
    let cases = [
        ("name", one.replace("small", "large")),
        ("base", one.replace("base.toml", "other.toml")),
        ("axis", one.replace("[[axis]]", "[[axis]]\nkey = \"stop_time\"\nvalues = [\"2ms\"]\n[[axis]]")),
        ("key", one.replace("\"seed\"", "\"measure_from\"")),
        ("values", one.replace("[1, 2]", "[3]")),
    ];
    for (key, changed) in &cases {
        assert_ne!(said(one), said(changed), "`{key}` changes nothing");
    }
    for (odd, of) in [("zzz = 1\n".to_owned() + one, 3), (one.to_owned() + "zzz = 1\n", 2)] {
        let error = read(&odd).unwrap_err().to_string();
        let expected = error.split_once("expected ").unwrap().1.lines().next().unwrap();
        let keys: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        assert_eq!(keys.len(), of, "{error}");
        assert!(keys.iter().all(|key| cases.iter().any(|(case, _)| case == key)), "{keys:?}");
    }
}

#[test]
fn a_sweep_that_was_ended_goes_on_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(root.path());
    let (whole, cut) = (root.path().join("whole"), root.path().join("cut"));
    play(&plan, "1/1", &whole);
    // Told to stop when the fifth point is over.
    let one = Orders { jobs: NonZeroUsize::MIN, ..orders("1/1", &cut) };
    let ended = run_shard(&plan, &one, &|seen| match seen.over {
        5 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(counts(&ended.unwrap()), [0, 5, 2, 7]);
    let before = merge(std::slice::from_ref(&cut)).unwrap();
    assert_eq!(before.missing, [5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(counts(&play(&plan, "1/1", &cut)), [5, 7, 4, 0]);
    assert_eq!(merge(&[cut]).unwrap(), merge(&[whole]).unwrap());
}

#[test]
fn a_damaged_result_is_named_by_merge_and_played_again_by_its_shard() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(root.path());
    let dir = root.path().join("out");
    play(&plan, "1/1", &dir);
    let good = merge(std::slice::from_ref(&dir)).unwrap();
    let path = dir.join(format!("{}.json", plan.point(4).address));
    let text = std::fs::read(&path).unwrap();
    for bad in [&text[..text.len() / 2], b"", b"{}", b"\xff\xfe"] {
        std::fs::write(&path, bad).unwrap();
        let error = merge(std::slice::from_ref(&dir)).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("again"), "{error}");
        assert_eq!(play(&plan, "1/1", &dir).now, 1);
        assert_eq!(merge(std::slice::from_ref(&dir)).unwrap(), good);
    }
    // A result that is whole but of another run: two folders contradict each other.
    let other = root.path().join("other");
    play(&plan, "5/12", &other);
    let changed = String::from_utf8(text).unwrap().replace("\"frames_sent\": ", "\"frames_sent\": 9");
    std::fs::write(&path, changed).unwrap();
    let error = merge(&[dir, other]).unwrap_err();
    assert!(matches!(error, SweepError::Contradiction { .. }), "{error}");
}

#[test]
fn a_folder_holds_one_sweep() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(root.path());
    let dir = root.path().join("out");
    play(&plan, "1/12", &dir);
    std::fs::write(root.path().join("plan.toml"), PLAN.replace("[1, 2]", "[1, 3]")).unwrap();
    let other = Plan::read(&root.path().join("plan.toml")).unwrap();
    let error = try_play(&other, "1/12", &dir).unwrap_err().to_string();
    assert!(error.contains("another folder"), "{error}");
    let second = root.path().join("second");
    play(&other, "1/12", &second);
    let error = merge(&[dir.clone(), second]).unwrap_err().to_string();
    assert!(error.ends_with("merge folders of one plan") && error.contains("second holds"), "{error}");
    for shard in ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"] {
        let error = try_play(&plan, shard, &dir).unwrap_err().to_string();
        assert!(error.contains(shard) && error.contains("2/3"), "{error}");
    }
    let error = merge(&[root.path().to_owned()]).unwrap_err().to_string();
    assert!(error.contains("no plan.json"), "{error}");
    std::fs::write(dir.join("plan.json"), "{\"schema\": ").unwrap();
    assert!(merge(std::slice::from_ref(&dir)).unwrap_err().to_string().contains("plan.json"));
    assert_eq!(play(&plan, "1/12", &dir).before, 1, "half a plan is written again");
}

#[test]
fn flows_are_kept_in_the_format_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path());
    let out = dir.path().join("out");
    let play = |flows: FlowsFormat| {
        run_shard(&plan, &Orders { flows, ..orders("1/1", &out) }, &|_| ControlFlow::Continue(())).unwrap()
    };
    let first = play(FlowsFormat::Parquet);
    assert!(first.now > 0 && first.before == 0);
    let whole = |flows| list(&plan, Some((&out, Keep::Tables, flows))).unwrap().contains("\"open\": []");
    assert!(whole(FlowsFormat::Parquet) && !whole(FlowsFormat::Csv));
    let digest = merge(std::slice::from_ref(&out)).unwrap().digest;
    // The points are played again, with the same results.
    assert_eq!(play(FlowsFormat::Csv).now, first.now - first.broken.len());
    assert!(whole(FlowsFormat::Parquet) && whole(FlowsFormat::Csv));
    assert_eq!(merge(&[out]).unwrap().digest, digest);
}

//! What is built beside the program: what lies in `contrib`, the site of the documents.

use crate::{WEIR, has, repository, said};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The library for hosts and its Python package, on a device that is not there.
#[test]
fn the_library_for_hosts_is_built_and_its_tests_pass() {
    for program in ["make", "cc", "python3"] {
        if !has(program) {
            return;
        }
    }
    let header = "#include <infiniband/verbs.h>\n";
    let folder = tempfile::tempdir().unwrap();
    let probe = folder.path().join("probe.c");
    std::fs::write(&probe, header).unwrap();
    if !Command::new("cc").arg("-fsyntax-only").arg(&probe).output().unwrap().status.success() {
        eprintln!("skipped: libibverbs-dev is not installed");
        return;
    }
    let make = || {
        let mut make = Command::new("make");
        make.arg("-C").arg(repository().join("contrib/inc")).arg(format!("OUT={}", folder.path().display()));
        make
    };
    let said = said(make().arg("test"));
    for test in ["sums: ok", "failures: ok", "comes_back: ok", "refusals: ok"] {
        assert!(said.contains(test), "{said}");
    }
}

/// Beside gloo, in processes of its own; engines are stood in for. `make test-torch` gets PyTorch.
#[test]
fn the_back_end_of_torch_does_what_gloo_does() {
    let python = || Command::new("/usr/bin/python3");
    if !python().args(["-c", "import torch.distributed"]).output().is_ok_and(|output| output.status.success())
    {
        eprintln!("skipped: contrib/inc: PyTorch is not installed: make test-torch");
        return;
    }
    let tests = repository().join("contrib/inc/tests/test_torch.py");
    said(python().arg(tests).env("PYTHONDONTWRITEBYTECODE", "1").env("OMP_NUM_THREADS", "1"));
}

/// Every link between the pages leads to a page and a heading that are there.
#[test]
fn the_site_of_the_documents_has_no_dead_link() {
    if !has("mdbook") {
        return;
    }
    said(&mut Command::new(repository().join("scripts/docs")));
    let book = repository().join("target/book");
    let read = |name: &str| std::fs::read_to_string(book.join(name)).unwrap_or_default();
    let names =
        std::fs::read_dir(&book).unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut followed = 0;
    // The last two are all pages in one, and what is shown for pages that are not there.
    for name in
        names.filter(|name| name.ends_with(".html") && !["print.html", "404.html"].contains(&name.as_str()))
    {
        let page = read(&name);
        let links = page.split("href=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
        for link in links.filter(|link| !link.contains(':')) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { &name } else { file };
            assert!(book.join(file).exists(), "{name}: {link}");
            if !heading.is_empty() && file != "print.html" {
                assert!(read(file).contains(&format!("id=\"{heading}\"")), "{name}: {link}");
                followed += 1;
            }
        }
    }
    assert!(followed > 100, "{followed}");
}

/// Does what sbatch does with a job array and one job, here and now.
const SBATCH: &str = r#"#!/bin/bash
set -eu
array=
while [[ $1 == -* ]]; do
    case $1 in --array=*) array=${1#*=} ;; esac
    shift
done
if [ -z "$array" ]; then bash "$@" >"$0.merge"; else
    for id in $(seq "${array%-*}" "${array#*-}"); do
        SLURM_ARRAY_TASK_ID=$id SLURM_ARRAY_TASK_MIN=${array%-*} SLURM_ARRAY_TASK_COUNT=${array#*-} SLURM_CPUS_PER_TASK=2 \
            bash "$@" >>"$0.shards"
    done
fi
echo "17;cluster"
"#;

#[test]
fn slurm_shares_a_sweep_out_and_merges_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let text = |name: &str| place(name).to_str().unwrap().to_owned();
    std::fs::write(place("sbatch"), SBATCH).unwrap();
    std::fs::set_permissions(place("sbatch"), PermissionsExt::from_mode(0o755)).unwrap();
    let plan = repository().join("contrib/python/examples/busbw.plan.toml");
    let plan = plan.to_str().unwrap();
    said(Command::new(WEIR).args(["sim", "sweep", "--plan", plan, "--out", &text("whole")]));
    let whole = said(Command::new(WEIR).args(["sim", "merge", &text("whole")]));
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let submit = || {
        let mut submit = Command::new(repository().join("contrib/python/slurm/submit"));
        submit.env("PATH", &path).env("WEIR", WEIR);
        submit
    };
    let out = said(submit().args([plan, &text("parts"), "3", "--partition=short"]));
    assert_eq!(out, "array 17, merge 17\n");
    let read = |name: &str| std::fs::read_to_string(place(name)).unwrap();
    assert_eq!(read("sbatch.merge"), whole);
    let shards = read("sbatch.shards");
    for i in 1..=3 {
        assert!(shards.contains(&format!("shard {i}/3, ")), "{shards}");
    }
    assert!(read("parts.csv").contains("busbw"), "{}", read("parts.csv"));
    let odd = submit().args([plan, &text("parts"), "none"]).output().unwrap();
    assert_eq!(odd.status.code(), Some(2), "{odd:?}");
}

/// Types, tables, plots, README, and Ray with two workers, where the packages are: `make test-python` gets them.
#[test]
fn the_python_package_for_sweeps_does_what_its_tests_say() {
    let own = repository().join("target/python/bin/python");
    let python = if own.exists() { own.as_path() } else { Path::new("python3") };
    let packages = "import matplotlib, mypy, pandas, pyarrow, pytest, ray";
    let there = Command::new(python).args(["-c", packages]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: contrib/python: no Ray, pandas, matplotlib and so on: make test-python");
        return;
    }
    let run = |arguments: &[&str]| {
        let mut run = Command::new(python);
        run.current_dir(repository().join("contrib/python")).args(arguments);
        said(run.env("WEIR", WEIR).env("PYTHONPATH", ".").env("PYTHONDONTWRITEBYTECODE", "1"))
    };
    assert!(run(&["-m", "mypy", "--cache-dir=/dev/null"]).contains("no issues found"));
    let tests = run(&["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    assert!(tests.contains(" passed") && !tests.contains("skipped"), "{tests}");
}

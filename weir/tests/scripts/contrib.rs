//! What is built beside the program: what lies in `contrib`, the site of the documents.

use crate::{has, repository, said};
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

//! `scripts/install` and `scripts/deb`, with the program under test.

use crate::{WEIR, has, repository, said};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// `make install` with this prefix into this folder, by an administrator who keeps new files to himself.
fn install(prefix: &str, folder: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(repository().join("scripts/install")).arg(WEIR);
    command.env("DESTDIR", folder).env("PREFIX", prefix);
    command
}

/// Where everything is after `make install` with this prefix.
pub fn installed(prefix: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    said(&mut install(prefix, folder.path()));
    folder
}

/// Commands of the program, as its help lists them.
fn commands() -> Vec<String> {
    let help = said(Command::new(WEIR).arg("--help"));
    let lines =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A description that goes on is indented further.
    let lines = lines.filter(|line| !line.starts_with("   "));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// All files under a folder, relative to it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(entry.path()),
                false => found.push(entry.path().strip_prefix(folder).unwrap().to_owned()),
            }
        }
    }
    found
}

#[test]
fn what_belongs_to_weir_is_installed() {
    let root = installed("/opt/weir");
    let at = |path: &str| root.path().join("opt/weir").join(path);
    let text = |path: &str| std::fs::read_to_string(at(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    said(Command::new(at("bin/weir")).arg("--version"));
    let scripts = [
        text("share/bash-completion/completions/weir"),
        text("share/zsh/site-functions/_weir"),
        text("share/fish/vendor_completions.d/weir.fish"),
    ];
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands.iter().filter(|command| *command != "help") {
        assert!(text(&format!("share/man/man1/weir-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
        assert!(scripts.iter().all(|script| script.contains(command.as_str())), "{command}");
    }
    let unit = text("lib/systemd/system/weir@.service");
    assert!(unit.contains("ExecStart=/opt/weir/bin/weir run") && !unit.contains("/usr/"), "{unit}");
    // What the repository ships, and nothing left out.
    for (folder, place) in [("configs", "share/weir/configs"), ("docs", "share/doc/weir/docs")] {
        let sorted = |folder: &Path| files(folder).into_iter().collect::<BTreeSet<PathBuf>>();
        assert_eq!(sorted(&at(place)), sorted(&repository().join(folder)), "{folder}");
    }
    let schema: serde_json::Value = serde_json::from_str(&text("share/weir/config.schema.json")).unwrap();
    assert_eq!(schema["properties"]["port"]["type"], "array");
    let schema: serde_json::Value = serde_json::from_str(&text("share/weir/fabric.schema.json")).unwrap();
    assert_eq!(schema["properties"]["workload"]["type"], "array");
    for file in ["grafana/weir.json", "prometheus/weir-rules.yml", "systemd/user.conf", "systemd/uio.conf"] {
        assert!(at("share/weir").join(file).is_file(), "{file}");
    }
    // What the unit refers to is there.
    let document = unit.split_whitespace().find_map(|word| word.strip_prefix("file:/")).expect(&unit);
    assert!(root.path().join(document).is_file(), "{document}");
    // Nothing outside the prefix, nothing that only its owner can read.
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    let everything =
        Command::new("find").arg(root.path()).args(["-mindepth", "1", "!", "-perm", "-0004"]).output();
    assert_eq!(String::from_utf8(everything.unwrap().stdout).unwrap(), "");
}

#[test]
fn a_prefix_that_the_unit_cannot_name_is_refused() {
    for prefix in ["relative", "/opt/my weir", "/opt/100%", "/opt/a|b", "/opt/a&b"] {
        let folder = tempfile::tempdir().unwrap();
        let output = install(prefix, folder.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{prefix}: {told}");
        assert!(told.contains(&format!("PREFIX={prefix}: ")), "{told}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{prefix}");
    }
}

#[test]
fn a_package_says_what_it_needs_and_holds_what_is_installed() {
    if !(has("dpkg-deb") && has("dpkg-shlibdeps") && has("strip")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let package = said(Command::new(repository().join("scripts/deb")).arg(WEIR).arg(folder.path()));
    let package = package.trim();
    let field = |name: &str| said(Command::new("dpkg-deb").args(["-f", package, name])).trim().to_owned();
    assert_eq!(field("Package"), "weir");
    assert_eq!(field("Version"), env!("CARGO_PKG_VERSION"));
    let depends = field("Depends");
    // The pools' driver is found at run time; without it no switch starts.
    for needed in ["libc6", "librte-eal", "librte-mempool-ring", "librte-net-memif"] {
        assert!(depends.contains(needed), "{needed}: {depends}");
    }
    let listed = said(Command::new("dpkg-deb").args(["--contents", package]));
    let holds = |path: &str| listed.lines().any(|line| line.ends_with(&format!(" .{path}")));
    for path in [
        "/usr/bin/weir",
        "/usr/lib/systemd/system/weir@.service",
        "/usr/share/man/man1/weir-run.1.gz",
        "/usr/share/zsh/vendor-completions/_weir",
        "/usr/share/doc/weir/copyright",
        "/usr/share/doc/weir/docs/install.md",
        "/usr/share/weir/configs/lab.toml",
        "/etc/weir/",
    ] {
        assert!(holds(path), "{path} is not in\n{listed}");
    }
    assert!(listed.lines().all(|line| line.contains("root/root")), "{listed}");
}

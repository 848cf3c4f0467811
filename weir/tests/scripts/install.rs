//! `scripts/install` and `scripts/deb`, with the program under test.

use crate::{WEIR, has, repository, said};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
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

/// `scripts/deb` with the program under test, and where it has put everything.
fn packaged(options: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(repository().join("scripts/deb"));
    said(command.args(options).arg(WEIR).arg(folder.path()));
    folder
}

/// Rights and paths of all files under a folder.
fn with_rights(folder: &Path) -> BTreeSet<(u32, PathBuf)> {
    let rights = |file: &PathBuf| folder.join(file).metadata().unwrap().permissions().mode() & 0o7777;
    files(folder).into_iter().map(|file| (rights(&file), file)).collect()
}

#[test]
fn what_gets_into_a_package_is_what_is_installed_and_what_it_needs() {
    if !(has("dpkg-shlibdeps") && has("strip")) {
        return;
    }
    let folder = packaged(&["--tree"]);
    let tree = with_rights(&folder.path().join("root"));
    for path in [
        "usr/bin/weir",
        "usr/lib/systemd/system/weir@.service",
        "usr/share/man/man1/weir-run.1.gz",
        "usr/share/zsh/vendor-completions/_weir",
        "usr/share/doc/weir/docs/install.md",
        "usr/share/weir/configs/lab.toml",
        "etc/weir/README",
    ] {
        let rights = if path == "usr/bin/weir" { 0o755 } else { 0o644 };
        assert!(tree.contains(&(rights, PathBuf::from(path))), "{path} is not in {tree:?}");
    }
    let told: toml::Table =
        toml::from_str(&std::fs::read_to_string(folder.path().join("Cargo.toml")).unwrap()).unwrap();
    assert_eq!(told["package"]["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    let depends = told["package"]["metadata"]["deb"]["depends"].as_str().unwrap();
    // The pools' driver is found at run time; without it no switch starts.
    for needed in ["$auto", "librte-mempool-ring", "librte-net-memif"] {
        assert!(depends.contains(needed), "{needed}: {depends}");
    }
}

#[test]
fn a_package_says_what_it_needs_and_holds_what_gets_into_it() {
    if !["cargo-deb", "dpkg-deb", "dpkg-shlibdeps", "strip"].into_iter().all(has) {
        return;
    }
    let folder = packaged(&[]);
    let arch = said(Command::new("dpkg").arg("--print-architecture"));
    let package = format!("weir_{}_{}.deb", env!("CARGO_PKG_VERSION"), arch.trim());
    let package = folder.path().join(package);
    let field = |name: &str| said(Command::new("dpkg-deb").arg("-f").arg(&package).arg(name));
    assert_eq!(field("Package").trim(), "weir");
    assert_eq!(field("Version").trim(), env!("CARGO_PKG_VERSION"));
    let depends = field("Depends");
    for needed in ["libc6", "librte-eal", "librte-mempool-ring", "librte-net-memif"] {
        assert!(depends.contains(needed), "{needed}: {depends}");
    }
    assert!(field("Recommends").contains("librte-meta-net"));
    let listed = said(Command::new("dpkg-deb").arg("--contents").arg(&package));
    assert!(listed.lines().all(|line| line.contains(" 0/0 ") || line.contains(" root/root ")), "{listed}");
    let unpacked = tempfile::tempdir().unwrap();
    said(Command::new("dpkg-deb").arg("-x").arg(&package).arg(unpacked.path()));
    let mut wanted = with_rights(&folder.path().join("root"));
    wanted.insert((0o644, "usr/share/doc/weir/copyright".into()));
    assert_eq!(with_rights(unpacked.path()), wanted);
    let copyright = unpacked.path().join("usr/share/doc/weir/copyright");
    let copyright = std::fs::read_to_string(copyright).unwrap();
    assert!(copyright.contains("MIT License") && copyright.contains("Apache License"), "{copyright}");
}

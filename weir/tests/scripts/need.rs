//! `scripts/need` and `scripts/test` on machines that are made up: a folder in place of `/`, programs that only say what
//! they were asked.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts");

/// What the scripts use of an ordinary system.
const ORDINARY: [&str; 11] =
    ["bash", "cat", "dirname", "mkdir", "mktemp", "readlink", "rm", "sed", "sort", "touch", "cut"];

/// A machine that has what it is given and nothing else.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// One with a C compiler and a DPDK of this version, if any.
    fn new(dpdk: Option<&str>) -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(machine.bin()).unwrap();
        for name in ORDINARY {
            let folder =
                ["/bin", "/usr/bin"].into_iter().find(|f| Path::new(f).join(name).is_file()).unwrap();
            symlink(Path::new(folder).join(name), machine.bin().join(name)).unwrap();
        }
        machine.program("cc", "");
        machine.program("llvm-config", "exit 1");
        machine.user(1000);
        machine.dpdk(dpdk);
        machine
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.bin().join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn user(&self, id: u32) {
        self.program("id", &format!("echo {id}"));
    }

    /// The `pkg-config` of a machine with this DPDK.
    fn dpdk(&self, version: Option<&str>) {
        let real = "/usr/bin/pkg-config";
        let folder = self.folder.path().join("pkgconfig");
        std::fs::create_dir_all(&folder).unwrap();
        if let Some(version) = version {
            let text = format!("prefix=/opt/dpdk\nName: DPDK\nDescription: packets\nVersion: {version}\n");
            std::fs::write(folder.join("libdpdk.pc"), text).unwrap();
        }
        self.program("pkg-config", &format!("PKG_CONFIG_LIBDIR={} exec {real} \"$@\"", folder.display()));
    }

    /// A file under what the machine takes for `/`.
    fn file(&self, path: &str) {
        let path = self.folder.path().join("root").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    /// Its libclang and the headers of it.
    fn libclang(&self) {
        self.file("usr/lib/llvm-14/lib/libclang-14.so.1");
        self.file("usr/lib/llvm-14/lib/clang/14.0.6/include/stddef.h");
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(Path::new(SCRIPTS).join(script));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", self.bin())
            .env("NEED_ROOT", self.folder.path().join("root"));
        command.output().unwrap()
    }

    /// The packages it is said to miss.
    fn missing(&self, groups: &[&str]) -> String {
        let output = self.run("need", &[&["--list"], groups].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).trim().to_owned()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn libclang_is_the_library_bindgen_loads_with_headers_of_its_own() {
    let machine = Machine::new(Some("22.11.1"));
    // The C++ interface, which llvm-14-dev brings.
    machine.file("usr/lib/x86_64-linux-gnu/libclang-cpp.so.14");
    machine.file("usr/lib/llvm-14/lib/libclang-cpp.so.14");
    machine.file("usr/lib/llvm-14/lib/libclangAST.a");
    machine.file("usr/lib/llvm-14/lib/clang/14.0.6/include/stddef.h");
    assert_eq!(machine.missing(&["build"]), "libclang-dev");

    for library in ["libclang.so", "libclang-14.so", "libclang.so.13", "libclang-14.so.1"] {
        for folder in ["usr/lib64", "usr/lib/llvm-14/lib", "usr/local/llvm14/lib", "usr/lib/x86_64-linux-gnu"]
        {
            let machine = Machine::new(Some("22.11.1"));
            machine.file(&format!("{folder}/{library}"));
            assert_eq!(machine.missing(&["build"]), "libclang-dev", "{folder}/{library} without its headers");
            machine.file(&format!("{folder}/clang/14.0.6/include/stddef.h"));
            assert_eq!(machine.missing(&["build"]), "", "{folder}/{library}");
        }
    }
}

#[test]
fn a_dpdk_of_another_version_is_told_before_anything_is_built_or_installed() {
    for (version, works) in [("21.11", false), ("22.11", true), ("25.11.2", true), ("26.03", false)] {
        let machine = Machine::new(Some(version));
        machine.libclang();
        machine.user(0);
        machine.program("apt-get", "echo installing");
        let output = machine.run("need", &["build"]);
        assert_eq!(output.status.success(), works, "{version}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
        assert_eq!(stderr(&output).contains(version), !works, "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("22.11") && stderr(&output).contains("/opt/dpdk"), !works);
    }
}

#[test]
fn what_was_installed_is_looked_for_again() {
    let machine = Machine::new(None);
    machine.libclang();
    machine.user(0);
    // The distribution has no such package; or an old one; or the right one.
    machine.program("apt-get", "");
    let output = machine.run("need", &["build"]);
    assert!(!output.status.success() && stderr(&output).contains("libdpdk-dev"), "{}", stderr(&output));

    let pc = machine.folder.path().join("pkgconfig/libdpdk.pc");
    let installs = |version: &str| {
        let text = format!("prefix=/usr\\nName: DPDK\\nDescription: packets\\nVersion: {version}\\n");
        machine.program(
            "apt-get",
            &format!("case \"$*\" in *libdpdk-dev*) printf '{text}' >{};; esac", pc.display()),
        );
        machine.run("need", &["build"])
    };
    let output = installs("21.11.6");
    assert!(!output.status.success() && stderr(&output).contains("finds 21.11.6"), "{}", stderr(&output));
    std::fs::remove_file(&pc).unwrap();
    let output = installs("22.11.7");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn an_ordinary_user_is_told_what_to_type() {
    let machine = Machine::new(None);
    machine.libclang();
    machine.program("apt-get", "exit 9");
    let output = machine.run("need", &["build"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.contains("apt-get install -y --no-install-recommends libdpdk-dev"), "{told}");
}

#[test]
fn programs_of_single_tests_may_be_missing() {
    let machine = Machine::new(Some("22.11"));
    machine.libclang();
    assert!(machine.missing(&["build", "test"]).contains("chromium"));
    let output = machine.run("need", &["--try", "test"]);
    assert!(output.status.success() && stderr(&output).contains("chromium"), "{}", stderr(&output));
    // As root one that cannot be had does not keep the others away.
    machine.user(0);
    let bin = machine.bin();
    machine.program(
        "apt-get",
        &format!(
            "case \"$*\" in *jq*) touch {0}/jq; chmod +x {0}/jq;; *chromium*) exit 100;; esac",
            bin.display()
        ),
    );
    symlink("/bin/chmod", bin.join("chmod")).unwrap();
    let output = machine.run("need", &["--try", "test"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let missing = machine.missing(&["test"]);
    assert!(missing.contains("chromium") && !missing.contains("jq"), "{missing}");
}

#[test]
fn what_makes_packages_is_compiled_once() {
    let machine = Machine::new(Some("22.11"));
    machine.program("strip", "");
    machine.program("dpkg-shlibdeps", "");
    machine.program("cargo", "[ $1 = install ] && echo $2 $3 || exit 101");
    let output = machine.run("need", &["deb"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "cargo-deb --version\n");
    machine.program("cargo", "echo $*");
    assert_eq!(stdout(&machine.run("need", &["deb"])), "");
    assert_eq!(machine.missing(&["deb"]), "");
}

#[test]
fn the_last_lines_of_the_tests_say_which_skipped_themselves() {
    let machine = Machine::new(Some("22.11"));
    machine.libclang();
    let said = "
running 3 tests
test one ... ok
test two ... ok
test three ... FAILED

successes:

---- one stdout ----
skipped: jq is not installed

---- two stdout ----
a line of no interest


successes:
    one
    two

failures:

---- three stdout ----
it broke

failures:
    three

test result: FAILED. 2 passed; 1 failed; 0 ignored";
    // Of three times that tests are run each may be the one in which some fail.
    for part in ["--bins", "--doc"] {
        machine.program("cargo", &format!("case $* in *{part}*) exit 101 ;; esac"));
        assert_eq!(machine.run("test", &[]).status.code(), Some(101), "{part}");
    }
    machine.program("cargo", "case $* in *--no-run*) exit 101 ;; *) echo tested ;; esac");
    let output = machine.run("test", &[]);
    assert_eq!((output.status.code(), stdout(&output).contains("tested")), (Some(101), false));
    machine.program("cargo", &format!("case $* in *--lib*) cat <<'END'{said}\nEND\nexit 101 ;; esac"));
    let output = machine.run("test", &[]);
    assert_eq!(output.status.code(), Some(101), "the verdict of cargo");
    let text = stdout(&output);
    for kept in ["test one ... ok", "it broke", "test result: FAILED. 2 passed; 1 failed;"] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    assert!(!text.contains("no interest"), "{text}");
    let mut last = text.lines().rev();
    let (count, named) = (last.next().unwrap(), last.next().unwrap());
    assert_eq!(named, "skipped: one: jq is not installed");
    assert!(
        count.starts_with("1 tests skipped themselves; apt-get install ") && count.contains(" jq "),
        "{count}"
    );
}

#[test]
fn plain_cargo_builds_the_program() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path", manifest])
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let members = metadata["workspace_default_members"].as_array().unwrap();
    assert!(members.iter().any(|m| m.as_str().is_some_and(|m| m.contains("/weir#"))), "{members:?}");
}

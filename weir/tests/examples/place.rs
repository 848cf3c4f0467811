//! A folder in which shipped files and shown command lines can be run as they are.

use crate::support::program::{Ended, Running, Turn, WEIR, floating, turn, two_cores};
use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tempfile::TempDir;

/// The folder of the repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// What is not the same on every machine, and what stands in for it: sockets of other runs, NICs, their memory, hugepages,
/// and two cores for a worker each (`ONE`, `OTHER`).
pub const SUBSTITUTES: &[(&str, &str)] = &[
    ("/tmp/weir", "FOLDER/weir"),
    ("\"-l\", \"0-2\"", "\"--no-huge\", \"--no-pci\", \"--lcores=0@(ONE,OTHER),1@ONE,2@OTHER\""),
    ("lcore = 1\n", "lcore = ONE\n"),
    ("lcore = 2\n", "lcore = OTHER\n"),
    ("device = \"0000:3b:00.0\"", "device = \"net_null0\""),
    ("device = \"0000:3b:00.1\"", "device = \"net_null1\""),
    ("size = \"32MiB\"", "size = \"8MiB\""),
    ("/etc/weir/", "FOLDER/"),
    ("0.0.0.0:9470", "0.0.0.0:0"),
    ("\"--socket-mem=256\", \"--huge-dir=/dev/hugepages\"", "\"--no-huge\", \"-m\", \"256\""),
];

/// The folder, with `configs/` in it. While one with a turn is there no other program of these tests polls.
pub struct Place {
    folder: TempDir,
    turn: Option<Turn>,
}

impl Place {
    pub fn new() -> Self {
        Self::with(Some(turn()))
    }

    /// For programs that do not poll: simulations are played while others have their turns.
    pub fn at_rest() -> Self {
        Self::with(None)
    }

    fn with(turn: Option<Turn>) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), turn };
        for folder in ["configs", "configs/sim", "configs/sonic"] {
            std::fs::create_dir(place.path().join(folder)).unwrap();
            let texts = ["toml", "json", "jsonl", "cm", "txt"];
            for name in texts.into_iter().flat_map(|kind| files_of(folder, kind)) {
                let text = std::fs::read_to_string(repository().join(&name)).unwrap();
                place.write(&name, &text);
            }
            for name in files_of(folder, "et") {
                std::fs::copy(repository().join(&name), place.path().join(&name)).unwrap();
            }
        }
        place.secrets();
        std::fs::DirBuilder::new().mode(0o700).create(place.run_time()).unwrap();
        place
    }

    /// Where programs put their sockets and find each other: they do not meet others of this machine.
    pub fn run_time(&self) -> PathBuf {
        self.path().join("run")
    }

    /// What a configuration finds in `/etc/weir`.
    fn secrets(&self) {
        let tls = repository().join("mgmt/tests/tls");
        for (shipped, name) in [("first.crt", "leaf1.crt"), ("first.key", "leaf1.key")] {
            std::fs::copy(tls.join(shipped), self.path().join(name)).unwrap();
        }
        std::fs::write(self.path().join("read.token"), "0123456789abcdef\n").unwrap();
        for name in ["leaf1.key", "read.token"] {
            std::fs::set_permissions(self.path().join(name), Permissions::from_mode(0o600)).unwrap();
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a configuration, with its substitutes.
    pub fn write(&self, name: &str, text: &str) {
        let [one, other] = two_cores().map_or([0; 2], |cores| cores).map(|core| core.to_string());
        let here = [("FOLDER", self.path().to_str().unwrap()), ("ONE", &one), ("OTHER", &other)];
        let used = SUBSTITUTES
            .iter()
            .chain(&here)
            .fold(text.to_owned(), |text, (shown, used)| text.replace(shown, used));
        std::fs::write(self.path().join(name), used).unwrap();
    }

    /// `weir` with these arguments here, as yet to be started.
    pub fn weir(&self, args: &[&str]) -> Command {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut command = Command::new(WEIR);
        command.current_dir(self.path()).env("RUNTIME_DIRECTORY", self.run_time());
        if matches!(args.first(), Some(&("run" | "lab" | "host"))) {
            assert!(self.turn.is_some(), "a program that polls needs a turn: {args:?}");
            let prefix = format!("weir-example-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
            command.arg(format!("--file-prefix={prefix}"));
            let own_lcores = args.get(1).is_some_and(|file| {
                std::fs::read_to_string(self.path().join(file)).is_ok_and(|text| text.contains("--lcores"))
            });
            if !own_lcores {
                command.arg(floating());
            }
            command.arg("--");
        }
        command.args(args);
        command
    }

    /// To its end, which is neither a refusal nor a crash. A verdict may be bad: how fast a machine is proves nothing.
    pub fn ends_well(&self, args: &[&str]) -> Ended {
        let ended = Running::start(&mut self.weir(args)).ended();
        assert!(
            matches!(ended.code(), Some(0 | 1)),
            "{args:?}: {}\n{}{}",
            ended.status,
            ended.stdout,
            ended.stderr
        );
        ended
    }

    /// A switch runs for a moment, and every frame is accounted for.
    pub fn switch_runs(&self, file: &str) {
        let ended = self.ends_well(&["run", file, "--for", "200ms"]);
        let said = format!("{file}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.code() == Some(0) && ended.stdout.contains("switch "), "{said}");
    }
}

/// Names of files with this ending in a folder of the repository, in order, from the repository's root.
pub fn files_of(folder: &str, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(repository().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path: &PathBuf| path.extension().is_some_and(|e| e == ending));
    let mut names: Vec<_> =
        files.map(|path| format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap())).collect();
    names.sort();
    names
}

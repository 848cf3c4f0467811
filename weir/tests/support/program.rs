//! The built program as a child process.

use super::namespace::Namespace;
use super::{PATIENCE, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use tempfile::TempDir;

/// The program under test.
pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A polling worker takes a whole core, so one switch runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

thread_local! {
    /// This thread has a switch.
    static HAS_ONE: Cell<bool> = const { Cell::new(false) };
}

/// The turn of a test that keeps a core busy.
#[derive(Debug)]
pub struct Turn {
    _guard: MutexGuard<'static, ()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        HAS_ONE.set(false);
    }
}

/// Waits for the turn of a test that keeps a core busy.
///
/// # Panics
/// This test has the turn already, and would wait for itself.
pub fn turn() -> Turn {
    assert!(!HAS_ONE.get(), "a test has one switch at a time: use VLANs where two are needed");
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    HAS_ONE.set(true);
    Turn { _guard: guard }
}

/// EAL arguments that let the worker float over all cores we may use: the scheduler of a shared machine
/// knows best which one is free.
pub fn floating() -> String {
    format!("--lcores=0@({0}),1@({0})", allowed())
}

/// Cores we may use, as the kernel lists them.
fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("Linux");
    cores.trim().to_owned()
}

/// Two cores for a worker each, if we may use two.
pub fn two_cores() -> Option<[usize; 2]> {
    let ranges = allowed();
    let mut cores = ranges.split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().expect("a core")..=last.parse().expect("a core")
    });
    Some([cores.next()?, cores.next()?])
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Exit code; a signal has none.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// A child whose output is collected while it runs; killed on drop.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    /// Folder of DPDK's files that only this process uses, and leaves where it is killed.
    folder: Option<PathBuf>,
}

/// The folder of DPDK's files of a program that is told its name, unless it runs in that of another.
fn folder_of(command: &Command) -> Option<PathBuf> {
    let words =
        || std::iter::once(command.get_program()).chain(command.get_args()).filter_map(|word| word.to_str());
    if !words().any(|word| word == WEIR || word == "dpdk-testpmd") {
        return None;
    }
    let mut args = words();
    let prefix = args.find_map(|word| word.strip_prefix("--file-prefix="))?;
    let set = |name: &str| {
        let own = command.get_envs().find(|(key, _)| *key == name).map(|(_, value)| value.map(Into::into));
        own.unwrap_or_else(|| std::env::var_os(name))
    };
    let parent = set("RUNTIME_DIRECTORY").unwrap_or_else(|| "/var/run".into());
    Some(Path::new(&parent).join("dpdk").join(prefix))
}

fn collect(from: impl Read + Send + 'static) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let grows = Arc::clone(&text);
    let reader = std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            grows.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    (text, reader)
}

impl Running {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let folder = folder_of(command);
        let (stdout, one) = collect(child.stdout.take().expect("piped"));
        let (stderr, other) = collect(child.stderr.take().expect("piped"));
        Self { child, stdout, stderr, readers: vec![one, other], folder }
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    /// What it has complained about so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Writes it a line, where it was started with its input piped.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("it reads");
    }

    /// It has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_some()
    }

    /// Waits until it has said `word`, on either stream.
    pub fn says(&mut self, word: &str) {
        wait_for(word, || {
            // What it said last may still be read after it has ended.
            let over = self.has_ended() && self.readers.iter().all(JoinHandle::is_finished);
            let said = self.stdout().contains(word) || self.stderr().contains(word);
            assert!(said || !over, "ended early:\n{}{}", self.stdout(), self.stderr());
            said.then_some(())
        });
    }

    /// The first line of its output that begins with these words, once it has said that.
    pub fn line(&mut self, words: &str) -> String {
        self.says(words);
        wait_for(words, || {
            let said = self.stdout();
            let whole = said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            whole.map(str::to_owned).find(|line| line.starts_with(words))
        })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.id() as i32), signal).expect("our child");
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                break status;
            }
            assert!(Instant::now() < deadline, "does not end:\n{}{}", self.stdout(), self.stderr());
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader does not panic");
        }
        Ended { status, stdout: self.stdout(), stderr: self.stderr() }
    }

    /// Asks it to stop and waits.
    pub fn stop(self, signal: Signal) -> Ended {
        self.signal(signal);
        self.ended()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody waits for it any more; if it has ended already there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Runs the program to its end.
pub fn weir<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Ended {
    Running::start(Command::new(WEIR).args(args)).ended()
}

/// A running switch, forwarding.
#[derive(Debug)]
pub struct Switch {
    program: Running,
    summary: PathBuf,
    _folder: TempDir,
    _turn: Turn,
}

impl Switch {
    /// Starts `weir run` with a configuration and waits until it forwards.
    pub fn start(config: &str) -> Self {
        Self::spawn(Command::new(WEIR), config)
    }

    /// The same with a configuration that says which lcores there are.
    pub fn start_as_it_is(config: &str) -> Self {
        Self::begin(Command::new(WEIR), config)
    }

    /// The same inside a namespace.
    pub fn start_in(namespace: &Namespace, config: &str) -> Self {
        Self::spawn(namespace.command(WEIR), config)
    }

    /// The same with lcores of the test's own, as an argument of the EAL.
    pub fn start_with(namespace: &Namespace, lcores: &str, config: &str) -> Self {
        Self::begin(namespace.command(WEIR), &format!("[eal]\nargs = [{lcores:?}]\n{config}"))
    }

    /// A shipped configuration inside a namespace, as it is but for the cores of its lcores.
    pub fn shipped_in(namespace: &Namespace, name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut command = namespace.command(WEIR);
        // The name of DPDK's files is that of every other start of this configuration.
        command.args([&floating(), &format!("--file-prefix=weir-test-{}", std::process::id()), "--"]);
        Self::begin(command, &text)
    }

    fn spawn(command: Command, config: &str) -> Self {
        Self::begin(command, &format!("[eal]\nargs = [{:?}]\n{config}", floating()))
    }

    fn begin(mut command: Command, config: &str) -> Self {
        let turn = turn();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, summary) = (folder.path().join("switch.toml"), folder.path().join("summary.json"));
        std::fs::write(&file, config).expect("room on disk");
        let mut program = Running::start(command.arg("run").arg(&file).arg("--summary").arg(&summary));
        program.says("switch ");
        Self { program, summary, _folder: folder, _turn: turn }
    }

    /// The process.
    pub fn program(&mut self) -> &mut Running {
        &mut self.program
    }

    /// Where it may be asked.
    pub fn socket(&mut self) -> String {
        self.program.line("management on ").rsplit(' ').next().expect("a path").to_owned()
    }

    /// Waits until it ends by itself, or has obeyed a signal sent before.
    pub fn ended(self) -> Ended {
        self.program.ended()
    }

    /// Ctrl-C: the totals, with exit code 0 and every frame accounted for.
    pub fn stop(self) -> Summary {
        let (ended, summary) = self.interrupt();
        assert_eq!(ended.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
        summary
    }

    /// The same after a start of hosts in no order, which are not waited for: what one sends before the link of the
    /// other is up is lost, and nothing else.
    pub fn stop_after_links_came_up(self) -> Summary {
        self.stop_with_lost(&["lookup.no_port=", "lookup.port_down="])
    }

    /// The same where hosts end while others still answer them: what waits for one that goes is lost, too.
    pub fn stop_after_hosts_came_and_went(self) -> Summary {
        self.stop_with_lost(&["lookup.no_port=", "lookup.port_down=", "egress.port_down="])
    }

    /// The same where frames may be lost for other reasons, each with its `=`, and as it stops.
    pub fn stop_with_lost(self, reasons: &[&str]) -> Summary {
        let (ended, summary) = self.interrupt();
        let lost = summary.all_drops();
        let reasons = reasons.iter().chain(&["run.draining="]);
        let expected = |drop: &String| reasons.clone().any(|reason| drop.starts_with(reason));
        assert!(lost.iter().all(expected), "{lost:?}\n{}{}", ended.stdout, ended.stderr);
        let lossless = summary.total("lossless_drops") > 0;
        assert_eq!(ended.code(), Some(i32::from(lossless)), "{}{}", ended.stdout, ended.stderr);
        summary
    }

    /// The same, with what it has said, whatever its exit code.
    pub fn interrupt(self) -> (Ended, Summary) {
        let Self { program, summary, _folder, _turn } = self;
        let ended = program.stop(Signal::SIGINT);
        let summary = Summary::read(&summary);
        summary.is_conserved();
        (ended, summary)
    }
}

/// `--summary`, read back.
#[derive(Debug)]
pub struct Summary(pub Value);

impl Summary {
    /// From the file.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a summary was written");
        Self(serde_json::from_str(&text).expect("it is JSON"))
    }

    /// A number of the whole switch.
    pub fn total(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {:#}", self.0))
    }

    /// A number of one port.
    pub fn port(&self, name: &str, key: &str) -> u64 {
        let port = self.0["ports"].as_array().expect("ports").iter().find(|port| port["name"] == name);
        let port = port.unwrap_or_else(|| panic!("no port {name} in {:#}", self.0));
        port[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {port:#}"))
    }

    /// Frames dropped for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.0["drops"][reason].as_u64().unwrap_or(0)
    }

    /// The drops, as `reason=frames`, sorted.
    pub fn all_drops(&self) -> Vec<String> {
        let drops = self.0["drops"].as_object().expect("drops");
        drops.iter().map(|(reason, frames)| format!("{reason}={frames}")).collect()
    }

    /// Every frame received was sent, dropped for a reason or is held, and nothing is held.
    pub fn is_conserved(&self) {
        assert_eq!(self.0["conservation_error"].as_i64(), Some(0), "{:#}", self.0);
        assert_eq!(self.total("held"), 0, "{:#}", self.0);
        let dropped: u64 =
            self.0["drops"].as_object().expect("drops").values().filter_map(Value::as_u64).sum();
        assert_eq!(dropped, self.total("dropped"), "{:#}", self.0);
        let (ins, outs) =
            (self.total("received") + self.total("copies"), self.total("transmitted") + dropped);
        assert_eq!(ins, outs, "{:#}", self.0);
    }
}

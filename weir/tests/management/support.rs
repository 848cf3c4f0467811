//! A lab as a child process, and what asks it.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// How long anything here may take on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A polling worker takes a whole core, so one switch runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child that does not outlive its test, however that ends. Its output is read to the end.
pub struct Program {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
    reader: Option<JoinHandle<String>>,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let from = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let (told, lines) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut all = String::new();
            for line in from {
                all.push_str(&line);
                all.push('\n');
                // Nobody may be waiting for lines any more.
                let _ = told.send(line);
            }
            all
        });
        Self { child, lines, reader: Some(reader) }
    }

    /// The first line that begins with these words.
    pub fn says(&self, words: &str) -> String {
        std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok())
            .find(|line| line.starts_with(words))
            .unwrap_or_else(|| panic!("it never said {words}"))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Waits until it ends by itself: how, and all it said.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let status = wait_for("the program to end", || self.child.try_wait().unwrap());
        (status, self.reader.take().unwrap().join().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // If it has ended already there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a tool to its end, within [`PATIENCE`].
pub fn run(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let collect = |from: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What came until it broke off is what there is.
            let _ = from.expect("piped").read_to_end(&mut bytes);
            bytes
        })
    };
    let stdout = collect(child.stdout.take().map(|s| Box::new(s) as _));
    let stderr = collect(child.stderr.take().map(|s| Box::new(s) as _));
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Where a tool is.
pub fn tool(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name))).find(|path| path.is_file())
}

/// Asks over TCP; what comes back, head and body.
pub fn ask(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = stream.write_all(request).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn get(address: &str, path: &str) -> String {
    ask(address, format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())
}

/// A lab that forwards, on an address and a socket of its own.
pub struct Lab {
    pub program: Program,
    pub address: String,
    pub socket: PathBuf,
    pub folder: tempfile::TempDir,
    pub _turn: MutexGuard<'static, ()>,
}

impl Lab {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// With more in its configuration.
    pub fn start_with(more: &str) -> Self {
        let turn = turn();
        let folder = tempfile::tempdir().unwrap();
        let (config, socket) = (folder.path().join("lab.toml"), folder.path().join("lab.sock"));
        let mgmt = format!("\n[mgmt]\nlisten = \"127.0.0.1:0\"\nsocket = {:?}\n", socket.to_str().unwrap());
        std::fs::write(&config, format!("{}{mgmt}{more}", include_str!("../../../configs/lab.toml")))
            .unwrap();
        let program = Program::start(Command::new(WEIR).arg("lab").arg(&config));
        let said = program.says("management on ");
        let address = said.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        assert!(said.ends_with(socket.to_str().unwrap()), "{said}");
        let lab = Self { program, address, socket, folder, _turn: turn };
        wait_for("a frame", || {
            let snapshot = lab.json("/v1/snapshot");
            snapshot["ports"][0]["tx_packets"].as_u64().filter(|n| *n > 0)
        });
        lab
    }

    pub fn get(&self, path: &str) -> String {
        get(&self.address, path)
    }

    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        serde_json::from_str(body).unwrap_or_else(|e| panic!("{path}: {e}: {answer}"))
    }

    /// `weir WHAT ... --socket`.
    pub fn weir(&self, args: &[&str]) -> Output {
        run(Command::new(WEIR).args(args).arg("--socket").arg(&self.socket))
    }

    /// Ctrl-C: the end, with every frame accounted for. Whether hosts that share a busy machine obeyed every pause in
    /// time is not asked here. What it said, and where its socket was.
    pub fn stop(self) -> (String, PathBuf) {
        self.program.signal("-INT");
        let (status, said) = self.program.ended();
        assert!(matches!(status.code(), Some(0 | 1)), "{status}\n{said}");
        assert!(said.contains("held 0: error 0") && said.contains("verdict: "), "{said}");
        (said, self.socket)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }
}

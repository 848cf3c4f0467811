//! A lab that forwards, and what asks it.

use crate::support::program::{Ended, Running, Turn, WEIR, turn, weir};
use crate::support::{PATIENCE, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Asks over TCP; what comes back, head and body.
pub fn ask(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
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
    pub program: Running,
    pub address: String,
    pub socket: PathBuf,
    pub folder: TempDir,
    pub _turn: Turn,
}

/// Writes a configuration into the folder of a lab, with the ways in to it.
fn write(folder: &Path, name: &str, config: &str) -> PathBuf {
    let path = folder.join(name);
    let socket = folder.join("lab.sock");
    std::fs::write(&path, format!("{config}\n[mgmt]\nlisten = \"127.0.0.1:0\"\nsocket = {socket:?}\n"))
        .unwrap();
    path
}

impl Lab {
    /// That of `configs/`.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// The same with more in its configuration.
    pub fn start_with(more: &str) -> Self {
        Self::of(&format!("{}\n{more}", include_str!("../../../configs/lab.toml")))
    }

    /// That of a configuration which does not say how to ask it.
    pub fn of(config: &str) -> Self {
        let turn = turn();
        let folder = tempfile::tempdir().unwrap();
        let config = write(folder.path(), "lab.toml", config);
        let mut program = Running::start(Command::new(WEIR).arg("lab").arg(&config));
        let said = program.line("management on ");
        let address = said.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let socket = folder.path().join("lab.sock");
        assert!(said.ends_with(socket.to_str().unwrap()), "{said}");
        let lab = Self { program, address, socket, folder, _turn: turn };
        wait_for("a frame", || {
            let snapshot = lab.json("/v1/snapshot");
            snapshot["ports"][0]["tx_packets"].as_u64().filter(|n| *n > 0)
        });
        lab
    }

    /// Writes another configuration, with the same ways in.
    pub fn write(&self, name: &str, config: &str) -> PathBuf {
        write(self.folder.path(), name, config)
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
    pub fn weir(&self, args: &[&str]) -> Ended {
        weir(&[args, &["--socket", self.socket.to_str().unwrap()]].concat())
    }

    /// What it says when it does that.
    pub fn good(&self, args: &[&str]) -> String {
        let ended = self.weir(args);
        assert!(ended.status.success(), "{args:?}: {}", ended.stderr);
        ended.stdout
    }

    /// Ctrl-C: the end, with every frame accounted for. Whether hosts that share a busy machine obeyed every pause in
    /// time is not asked here.
    pub fn stop(self) -> Ended {
        let ended = self.program.stop(Signal::SIGINT);
        assert!(matches!(ended.code(), Some(0 | 1)), "{ended:?}");
        assert!(ended.stdout.contains("held 0: error 0") && ended.stdout.contains("verdict: "), "{ended:?}");
        ended
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

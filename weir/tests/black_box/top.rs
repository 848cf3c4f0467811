//! `weir top` on a terminal: of any size, with any key, and given back as it was.

use crate::support::program::{Switch, WEIR};
use crate::support::{PATIENCE, wait_for};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The program on a terminal of its own.
struct Screen {
    child: Child,
    keys: File,
    drawn: Arc<Mutex<String>>,
}

impl Screen {
    fn open(socket: &str, columns: u16, rows: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = openpty(&size, None).unwrap();
        let end = File::from(terminal.slave);
        let mut command = Command::new(WEIR);
        command.args(["top", "--interval", "200ms", "--socket", socket]).env("TERM", "xterm");
        command.stdin(end.try_clone().unwrap()).stdout(end.try_clone().unwrap()).stderr(end);
        let child = command.spawn().unwrap();
        // The command still has the other end.
        drop(command);
        let mut screen = File::from(terminal.master.try_clone().unwrap());
        let drawn = Arc::<Mutex<String>>::default();
        let grows = Arc::clone(&drawn);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal nobody has open any more is an error to read.
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                grows.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Self { child, keys: File::from(terminal.master), drawn }
    }

    fn drawn(&self) -> String {
        self.drawn.lock().unwrap().clone()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// The alternate screen is left, the cursor is back, and it ended well.
    fn give_back(mut self) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(0), "{}", self.drawn());
        wait_for("the terminal as it was", || {
            let drawn = self.drawn();
            let last = |what: &str| drawn.rfind(what);
            (last("\x1b[?1049l") > last("\x1b[?1049h") && last("\x1b[?25h") > last("\x1b[?25l")).then_some(())
        });
        assert!(!self.drawn().contains("panicked"), "{}", self.drawn());
    }
}

#[test]
fn a_terminal_of_any_size_is_drawn_on_and_given_back() {
    let ports = "[buffer]\nsize = \"2MiB\"\nframes = 4096\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n\
                 [[port]]\nname = \"a\"\ndevice = \"ring\"\n[[port]]\nname = \"b\"\ndevice = \"ring\"\n";
    let mut switch = Switch::start(ports);
    let socket = switch.socket();
    for (columns, rows) in [(120, 40), (80, 24), (40, 10), (10, 3), (1, 1), (u16::MAX, u16::MAX)] {
        let mut screen = Screen::open(&socket, columns, rows);
        wait_for("a picture", || screen.drawn().contains("\x1b[?1049h").then_some(()));
        screen.press("23a \x1b[B\x1b[6~9\t?");
        screen.press("q");
        screen.give_back();
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let screen = Screen::open(&socket, 80, 24);
        wait_for("a picture", || screen.drawn().contains("quit").then_some(()));
        kill(Pid::from_raw(screen.child.id() as i32), signal).unwrap();
        screen.give_back();
    }
    // A switch that has gone is said on the screen, not beside it.
    let mut screen = Screen::open(&socket, 80, 24);
    wait_for("a picture", || screen.drawn().contains("quit").then_some(()));
    switch.stop();
    wait_for("that nobody answers", || screen.drawn().contains("No such file").then_some(()));
    screen.press("q");
    screen.give_back();
}

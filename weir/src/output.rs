//! What the program says. The one place that writes text to standard output and standard error: nothing said may end
//! a switch, nor keep it waiting.
//!
//! A command that asks and answers writes as it goes, and waits for whoever reads. A program that forwards frames calls
//! [`detach`] first: from then on lines go through queues of [`WAITING`] lines to threads of their own, and what
//! finds its queue full is lost and counted. Text from outside (names of ports, lines of a file) is made harmless here,
//! once for all: a control character is shown as `\u001b` would be in JSON.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines that wait for a reader, per stream; more are lost.
const WAITING: usize = 1024;

/// At the end nobody waits longer for a reader that reads nothing.
const PATIENCE: Duration = Duration::from_secs(3);

/// A line on standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::OUT.line(format_args!($($text)*)) };
}

/// A line on standard error.
macro_rules! say_err {
    ($($text:tt)*) => { $crate::output::ERR.line(format_args!($($text)*)) };
}

pub(crate) use {say, say_err};

/// Standard output.
pub static OUT: LazyLock<Stream> =
    LazyLock::new(|| Stream::new(io::stdout().as_fd().try_clone_to_owned().map(File::from)));

/// Standard error.
pub static ERR: LazyLock<Stream> =
    LazyLock::new(|| Stream::new(io::stderr().as_fd().try_clone_to_owned().map(File::from)));

/// One of the two.
#[derive(Debug)]
pub struct Stream {
    /// Unbuffered: nothing that could not be written is tried again at the end.
    file: Result<File, io::ErrorKind>,
    queue: Mutex<Option<Queue>>,
    /// Handed to the queue, and taken from it.
    queued: AtomicU64,
    done: AtomicU64,
    lost: AtomicU64,
    /// Something could not be written.
    broken: AtomicBool,
    /// The first reason for that, but that nobody reads any more.
    fault: Mutex<Option<io::Error>>,
}

/// What waits for a reader, and the thread that waits with it.
#[derive(Debug)]
struct Queue {
    lines: SyncSender<Vec<u8>>,
    thread: JoinHandle<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    fn new(file: io::Result<File>) -> Self {
        Self {
            file: file.map_err(|error| error.kind()),
            queue: Mutex::default(),
            queued: AtomicU64::new(0),
            done: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            fault: Mutex::default(),
        }
    }

    /// A line. See [`say!`] and [`say_err!`].
    pub fn line(&'static self, text: std::fmt::Arguments<'_>) {
        let mut line = String::new();
        // Writing to a string does not fail.
        let _ = write!(line, "{text}");
        let mut line = harmless(&line).into_owned();
        line.push('\n');
        self.put(line.into_bytes());
    }

    /// Text as it is: it may hold sequences for a terminal, so none of it comes from outside.
    pub fn raw(&'static self, text: &str) {
        self.put(text.as_bytes().to_vec());
    }

    /// Text as it is, made harmless.
    pub fn text(&'static self, text: &str) {
        self.put(harmless(text).into_owned().into_bytes());
    }

    /// A JSON document, which is all that a command says on this stream.
    pub fn json(&'static self, document: &Value) {
        self.text(&format!("{document:#}\n"));
    }

    /// Nobody reads any more, or there is no room: there is no point in saying more.
    pub fn is_broken(&self) -> bool {
        self.broken.load(SeqCst)
    }

    /// It is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.file.as_ref().is_ok_and(IsTerminal::is_terminal)
    }

    fn put(&'static self, bytes: Vec<u8>) {
        let queue = lock(&self.queue);
        let Some(queue) = &*queue else { return self.write(&bytes) };
        self.queued.fetch_add(1, SeqCst);
        if queue.lines.try_send(bytes).is_err() {
            self.queued.fetch_sub(1, SeqCst);
            self.lost.fetch_add(1, SeqCst);
        }
    }

    fn write(&self, bytes: &[u8]) {
        let written = match &self.file {
            Ok(file) => { file }.write_all(bytes),
            Err(kind) => Err((*kind).into()),
        };
        let Err(error) = written else { return };
        self.lost.fetch_add(1, SeqCst);
        self.broken.store(true, SeqCst);
        if error.kind() != io::ErrorKind::BrokenPipe {
            lock(&self.fault).get_or_insert(error);
        }
    }

    /// From now on what is said waits in a queue, which a new thread empties when the last one is done.
    fn detach(&'static self, name: &str) -> io::Result<()> {
        let mut queue = lock(&self.queue);
        let (sender, lines) = sync_channel(WAITING);
        let before = queue.take().map(|before| before.thread);
        let work = move || {
            // One that panicked has nothing left to write.
            let _ = before.map(JoinHandle::join);
            self.drain(&lines);
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(work)?;
        *queue = Some(Queue { lines: sender, thread });
        Ok(())
    }

    fn drain(&self, lines: &Receiver<Vec<u8>>) {
        let mut told = 0;
        while let Ok(line) = lines.recv() {
            let lost = self.lost.load(SeqCst);
            self.write(&line);
            self.done.fetch_add(1, SeqCst);
            // Whoever reads again learns that something is missing.
            if lost > told && self.lost.load(SeqCst) == lost {
                self.write(
                    format!("weir: {} lines were lost here: they could not be written\n", lost - told)
                        .as_bytes(),
                );
                told = self.lost.load(SeqCst);
            }
        }
    }

    /// Waits until all is written, or nothing is read any more.
    fn finish(&self) {
        let mut seen = (self.done.load(SeqCst), Instant::now());
        while self.done.load(SeqCst) < self.queued.load(SeqCst) {
            if self.done.load(SeqCst) != seen.0 {
                seen = (self.done.load(SeqCst), Instant::now());
            } else if seen.1.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// For a program that forwards frames: what is said from now on is lost rather than waited for. The threads that
/// write run where the caller may run; called again, new ones follow where it may run by then.
///
/// # Errors
/// There are no threads to be had.
pub fn detach() -> io::Result<()> {
    OUT.detach("stdout")?;
    ERR.detach("stderr")
}

/// For a command that follows what comes and keeps none of it: the program ends, and all is well, as soon as nobody reads its
/// standard output any more, and not when it has something to say next.
pub fn end_with_reader() {
    std::thread::spawn(|| {
        let Ok(file) = &OUT.file else { return };
        // Errors are told whether they are asked for or not; files and terminals never have this one.
        let mut reader = [PollFd::new(file.as_fd(), PollFlags::empty())];
        while let Ok(_) | Err(Errno::EINTR) = poll(&mut reader, PollTimeout::NONE) {
            match reader[0].revents() {
                Some(events) if events.contains(PollFlags::POLLERR) => std::process::exit(0),
                Some(events) if events.is_empty() => {}
                _ => return,
            }
        }
    });
}

/// Lines that were lost since the start, on both streams.
pub fn lost() -> u64 {
    OUT.lost.load(SeqCst) + ERR.lost.load(SeqCst)
}

/// The end: what waits is written as far as it is read.
///
/// # Errors
/// Something could not be written to standard output, for another reason than that its reader has seen enough, by a
/// command that was waited for.
pub fn finish() -> io::Result<()> {
    OUT.finish();
    ERR.finish();
    match lock(&OUT.fault).take() {
        Some(error) if lock(&OUT.queue).is_none() => Err(error),
        _ => Ok(()),
    }
}

/// Without control characters but the end of a line and the tab.
fn harmless(text: &str) -> Cow<'_, str> {
    let harms = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(harms) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if harms(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// Where the log goes: standard error, whatever becomes of it.
#[derive(Debug)]
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ERR.put(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    fn piped() -> (std::io::PipeReader, &'static Stream) {
        let (reader, writer) = std::io::pipe().unwrap();
        let stream = Stream::new(Ok(File::from(OwnedFd::from(writer))));
        (reader, Box::leak(Box::new(stream)))
    }

    #[test]
    fn nothing_harmful_reaches_a_terminal() {
        assert_eq!(
            harmless("port \u{1b}[31mred\u{9b}\r\n\tnext"),
            "port \\u001b[31mred\\u009b\\u000d\n\tnext"
        );
        assert!(matches!(harmless("plain ä\n"), Cow::Borrowed(_)));
        let (mut reader, stream) = piped();
        stream.line(format_args!("a\u{7}b"));
        let mut got = [0; 9];
        reader.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"a\\u0007b\n");
    }

    #[test]
    fn a_reader_that_stops_costs_lines_and_nothing_else() {
        let (mut reader, stream) = piped();
        stream.detach("test").unwrap();
        let line = "x".repeat(1000);
        // More than the pipe and the queue can take: returns all the same.
        for _ in 0..4 * WAITING {
            stream.line(format_args!("{line}"));
        }
        let lost = stream.lost.load(SeqCst);
        assert!(lost > WAITING as u64, "{lost}");
        // Who reads again gets what waited, and is told.
        let mut text = String::new();
        let mut piece = [0; 4096];
        while !text.contains("lines were lost here") {
            let n = reader.read(&mut piece).unwrap();
            text.push_str(&String::from_utf8_lossy(&piece[..n]));
        }
        let whole = text.lines().filter(|l| **l == line).count() as u64;
        assert!(whole > 0 && whole <= 4 * WAITING as u64 - lost, "{whole}");
    }

    #[test]
    fn a_closed_pipe_and_a_full_disk_are_survived_and_told_apart() {
        let (reader, stream) = piped();
        drop(reader);
        stream.line(format_args!("nobody"));
        assert!(stream.is_broken() && stream.lost.load(SeqCst) == 1);
        assert!(stream.fault.lock().unwrap().is_none());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let full: &'static Stream = Box::leak(Box::new(Stream::new(Ok(full))));
        full.line(format_args!("too much"));
        let kind = full.fault.lock().unwrap().as_ref().map(io::Error::kind);
        assert_eq!(kind, Some(io::ErrorKind::StorageFull));
    }
}

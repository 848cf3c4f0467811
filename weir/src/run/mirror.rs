//! Mirrors to files of a switch that runs: copies go from the workers through rings to a thread of their own, which waits for the disk so
//! that nobody else does.

use super::mgmt::Bulletin;
use crate::output::say_err;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use weir_config::Config;
use weir_dataplane::switch::{MirrorHead, MirrorReader};
use weir_dataplane::types::PortId;
use weir_dpdk::{Clock, Eal};
use weir_mgmt::admin::{InForce, Shown};
use weir_mgmt::board::Board;
use weir_mgmt::mirror_files::{Copy, Failing, MirrorFileReading, MirrorFiles};
use weir_mgmt::snapshot::News;

/// Between two looks while nothing comes, and while something does.
const IDLE: Duration = Duration::from_millis(10);
const BUSY: Duration = Duration::from_millis(1);

/// What became of files is told anew this often.
const TELL: Duration = Duration::from_millis(200);

/// Copies that are taken from a ring at once: as many as are put in order of time.
const TOGETHER: usize = 8192;

/// Workers go over to a configuration before it is shown: copies of a mirror nobody knows yet wait so long. Those that
/// wait longer are of a configuration that was never in force.
const UNKNOWN: Duration = Duration::from_secs(1);

/// The clocks are compared this often.
const ANCHOR: Duration = Duration::from_secs(1);

/// Starts the thread when the first mirror to a file is there.
#[derive(Debug)]
pub struct Mirrors {
    waiting: Option<Recorder>,
    running: Option<JoinHandle<()>>,
    end: Arc<AtomicBool>,
}

impl Mirrors {
    /// Nothing runs yet. What becomes of files goes to `board`; that one cannot be written, and can be again, to `news`.
    pub fn new(
        readers: Vec<MirrorReader>,
        shown: Shown,
        clock: Clock,
        board: Board<Vec<MirrorFileReading>>,
        news: Bulletin,
    ) -> Self {
        let end = Arc::<AtomicBool>::default();
        let recorder = Recorder {
            readers,
            in_force: shown.get(),
            shown,
            clock,
            board,
            news,
            end: Arc::clone(&end),
            files: BTreeMap::new(),
            gone: BTreeMap::new(),
            unknown: None,
            anchor: None,
        };
        Self { waiting: Some(recorder), running: None, end }
    }

    /// Starts the thread once there is something to write, away from the cores of workers.
    pub fn attend(&mut self, eal: &Eal, cores: &[usize]) {
        if !self.waiting.as_ref().is_some_and(|recorder| wanted(&recorder.shown.get().config)) {
            return;
        }
        let Some(recorder) = self.waiting.take() else { return };
        let spawn = || std::thread::Builder::new().name("mirror".into()).spawn(move || recorder.run());
        match eal.beside_workers(cores, spawn) {
            Ok(thread) => self.running = Some(thread),
            Err(error) => say_err!("weir: no thread to write the files of mirrors: {error}"),
        }
    }

    /// The workers have ended: writes what they have left.
    pub fn end(&mut self) {
        self.end.store(true, Relaxed);
        // A thread that has panicked has said so; there is nothing to add.
        let _ = self.running.take().map(JoinHandle::join);
    }
}

fn wanted(config: &Config) -> bool {
    config.mirrors.iter().any(|mirror| mirror.file().is_some())
}

/// The thread.
#[derive(Debug)]
struct Recorder {
    readers: Vec<MirrorReader>,
    shown: Shown,
    in_force: Arc<InForce>,
    clock: Clock,
    board: Board<Vec<MirrorFileReading>>,
    news: Bulletin,
    end: Arc<AtomicBool>,
    /// By the number of their mirror.
    files: BTreeMap<u64, MirrorFiles>,
    /// What mirrors counted that are gone: one of that name that comes back goes on with it, as counters only grow.
    gone: BTreeMap<u64, MirrorFileReading>,
    /// Since when copies of a mirror wait that nobody knows.
    unknown: Option<Instant>,
    /// ns since 1970 less ns of the workers' clock, and when that was looked at.
    anchor: Option<(i128, Instant)>,
}

impl Recorder {
    fn run(mut self) {
        self.configure();
        let mut told = Instant::now();
        let mut failing = Failing::default();
        loop {
            // In this order: what was put before the end is taken, and what is of mirrors that go is written.
            let end = self.end.load(Relaxed);
            let next = self.shown.get();
            let taken = self.drain();
            if !Arc::ptr_eq(&next, &self.in_force) {
                self.in_force = next;
                // What keeps files from being written ends with them.
                self.tell(&mut failing);
                self.configure();
                self.tell(&mut failing);
            }
            if end && taken == 0 {
                self.files.values_mut().for_each(MirrorFiles::end);
                return self.tell(&mut failing);
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.tell(&mut failing);
            }
            std::thread::sleep(if taken > 0 { BUSY } else { IDLE });
        }
    }

    /// Files of mirrors that are there no longer end; what has changed begins anew.
    fn configure(&mut self) {
        let config = &self.in_force.config;
        let mut before = std::mem::take(&mut self.files);
        for mirror in &config.mirrors {
            let Some(settings) = mirror.file() else { continue };
            let ports: Vec<(PortId, String)> =
                mirror.ports.iter().map(|port| (*port, config.ports[port.index()].name.clone())).collect();
            let number = mirror.number();
            let files = match before.remove(&number) {
                Some(files) if files.is(settings, &ports) => files,
                other => {
                    let counted = other.map(MirrorFiles::into_reading).or_else(|| self.gone.remove(&number));
                    MirrorFiles::new(&mirror.name, settings.clone(), ports, counted)
                }
            };
            self.files.insert(number, files);
        }
        self.gone.extend(before.into_iter().map(|(number, files)| (number, files.into_reading())));
    }

    /// Writes what there is; how many copies were taken.
    fn drain(&mut self) -> usize {
        let (mut heads, mut bytes): (Vec<(MirrorHead, usize)>, Vec<u8>) = (Vec::new(), Vec::new());
        let mut unknown = false;
        for reader in &mut self.readers {
            for _ in 0..TOGETHER {
                let Some(head) = reader.peek() else { break };
                if !self.files.contains_key(&head.mirror) {
                    unknown = true;
                    if self.unknown.is_none_or(|since| since.elapsed() < UNKNOWN) {
                        break;
                    }
                }
                let at = bytes.len();
                reader.next_into(&mut bytes);
                heads.push((head, at));
            }
        }
        self.unknown = unknown.then(|| self.unknown.unwrap_or_else(Instant::now));
        if heads.is_empty() {
            return 0;
        }
        let offset = self.offset();
        heads.sort_by_key(|(head, _)| head.at);
        for (head, at) in &heads {
            let Some(files) = self.files.get_mut(&head.mirror) else { continue };
            files.add(&Copy {
                unix_ns: (i128::from(head.at) + offset).max(0) as u64,
                port: head.port,
                sent: head.sent,
                len: head.len,
                bytes: &bytes[*at..*at + head.kept as usize],
            });
        }
        self.files.values_mut().for_each(MirrorFiles::flush);
        heads.len()
    }

    /// ns since 1970 less ns of the workers' clock. A look at both between which something else ran is no look.
    fn offset(&mut self) -> i128 {
        if let Some((offset, at)) = self.anchor
            && at.elapsed() < ANCHOR
        {
            return offset;
        }
        let look = || {
            let before = self.clock.now();
            let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let after = self.clock.now();
            (after.saturating_sub(before), unix.as_nanos() as i128 - i128::from(before))
        };
        let (_, offset) = std::iter::repeat_with(look).take(5).min().unwrap_or_default();
        self.anchor = Some((offset, Instant::now()));
        offset
    }

    /// For whoever looks; and once, that files cannot be written, or can be again.
    fn tell(&self, failing: &mut Failing) {
        let readings: Vec<_> = self.files.values().map(|files| files.reading.clone()).collect();
        for (phase, fields) in failing.news(readings.iter().chain(self.gone.values()).cloned()) {
            if let Some(error) = fields.get("error").and_then(Value::as_str) {
                say_err!("weir: mirror {}: {error}", fields["mirror"].as_str().unwrap_or_default());
            }
            self.news.push(News::Event { kind: "mirror_file", phase, fields });
        }
        self.board.set(readings);
    }
}

//! Files of mirrors: copies of frames as pcapng, files of a bounded size, of which the last ones are kept.
//!
//! What cannot be written is counted and told; it ends nothing. A file that breaks off ends with a whole packet.

use crate::pcapng::Writer;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_config::MirrorFile;
use weir_dataplane::types::PortId;

/// A file that could not be written is tried again after this time.
const RETRY: Duration = Duration::from_secs(1);

/// Bytes that are written together.
const BATCH: usize = 1 << 20;

/// How every pcapng file begins.
const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// What became of the copies of a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorFileReading {
    /// Name of the mirror.
    pub mirror: String,
    /// Frames written.
    pub frames: u64,
    /// Bytes of files, with what describes the frames.
    pub bytes: u64,
    /// Files begun.
    pub files: u64,
    /// Frames that could not be written.
    pub lost: u64,
    /// Times that something began to keep files from being written.
    pub failures: u64,
    /// What that was the last time.
    pub last_error: String,
    /// Why the last ones could not; `None`: all is well.
    pub error: Option<String>,
}

/// A frame that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// When it was received or sent, ns since 1970.
    pub unix_ns: u64,
    /// By which port.
    pub port: PortId,
    /// It was sent, not received.
    pub sent: bool,
    /// Its length, without FCS.
    pub len: u32,
    /// Its first bytes.
    pub bytes: &'a [u8],
}

/// The files of a mirror.
#[derive(Debug)]
pub struct MirrorFiles {
    settings: MirrorFile,
    /// Ports whose frames are copied, and their names: the interfaces of the file.
    ports: Vec<(PortId, String)>,
    /// The file under way, and how long it is.
    file: Option<(File, u64)>,
    /// When it was last seen that it has its name still.
    seen: Instant,
    /// Frames of each interface in it.
    written: Vec<u64>,
    /// What is to be written next, and how many frames of each interface are in it.
    batch: Vec<u8>,
    waiting: Vec<u64>,
    retry: Option<Instant>,
    /// What became of it.
    pub reading: MirrorFileReading,
}

impl MirrorFiles {
    /// Nothing is opened before there is a frame. `counted`: what became of earlier files of this mirror, with other settings or
    /// before it was taken out; counts go on.
    pub fn new(
        mirror: &str,
        settings: MirrorFile,
        ports: Vec<(PortId, String)>,
        counted: Option<MirrorFileReading>,
    ) -> Self {
        let none = vec![0; ports.len()];
        let reading = counted.unwrap_or_default();
        Self {
            settings,
            ports,
            file: None,
            seen: Instant::now(),
            written: none.clone(),
            batch: Vec::new(),
            waiting: none,
            retry: None,
            reading: MirrorFileReading { mirror: mirror.to_owned(), ..reading },
        }
    }

    /// These are the settings, and the ports.
    pub fn is(&self, settings: &MirrorFile, ports: &[(PortId, String)]) -> bool {
        self.settings == *settings && self.ports == ports
    }

    /// Adds a frame of one of its ports.
    pub fn add(&mut self, copy: &Copy<'_>) {
        let Some(interface) = self.ports.iter().position(|(port, _)| *port == copy.port) else { return };
        let length = packet_bytes(copy.bytes.len());
        let full = |have: u64| have + length > self.settings.size - self.tail();
        if self.file.as_ref().is_some_and(|(_, len)| full(len + self.batch.len() as u64)) {
            self.flush();
            self.finish();
        }
        if self.file.is_none() && !self.begin() {
            self.reading.lost += 1;
            return;
        }
        let Copy { sent, unix_ns, len, bytes, .. } = *copy;
        let added = Writer::more(&mut self.batch).packet_of(interface as u32, sent, unix_ns, bytes, len);
        debug_assert!(added.is_ok(), "memory takes everything");
        self.waiting[interface] += 1;
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    /// Writes what waits.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if self.was_removed() {
            // Interfaces have the same numbers in every file: what waits belongs into the next one.
            self.file = None;
            self.written.fill(0);
            if !self.begin() {
                self.reading.lost += self.waiting.iter().sum::<u64>();
                self.batch.clear();
                self.waiting.fill(0);
                return;
            }
        }
        let Some((file, len)) = &mut self.file else { return };
        let (frames, bytes) = (self.waiting.iter().sum::<u64>(), self.batch.len() as u64);
        match file.write_all(&self.batch) {
            Ok(()) => {
                *len += bytes;
                self.reading.frames += frames;
                self.reading.bytes += bytes;
                self.reading.error = None;
                self.written.iter_mut().zip(&self.waiting).for_each(|(all, new)| *all += new);
            }
            Err(error) => {
                // What was written of it is no whole packet.
                let cut = file.set_len(*len).and_then(|()| io::Seek::seek(file, io::SeekFrom::Start(*len)));
                if cut.is_err() {
                    self.file = None;
                }
                let error = at(Path::new(&self.settings.path))(error);
                self.fail(error);
                self.reading.lost += frames;
            }
        }
        self.batch.clear();
        self.waiting.fill(0);
    }

    /// The file under way has its name no more, or another file has it: what is written to it nobody will read. Looked at every
    /// second.
    fn was_removed(&mut self) -> bool {
        let Some((file, _)) = self.file.as_ref().filter(|_| self.seen.elapsed() >= RETRY) else {
            return false;
        };
        self.seen = Instant::now();
        let number = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let named = Path::new(&self.settings.path).symlink_metadata().map(number).ok();
        file.metadata().map(number).ok() != named
    }

    /// Writes what waits, and ends the file with its statistics.
    pub fn end(&mut self) {
        self.flush();
        self.finish();
    }

    /// Ends the file, and with it whatever kept it from being written; what was counted.
    pub fn into_reading(mut self) -> MirrorFileReading {
        self.end();
        MirrorFileReading { error: None, ..self.reading }
    }

    fn fail(&mut self, error: String) {
        self.reading.failures += u64::from(self.reading.error.is_none());
        self.reading.last_error.clone_from(&error);
        self.reading.error = Some(error);
        self.retry = Some(Instant::now() + RETRY);
    }

    /// Bytes of the statistics at the end.
    fn tail(&self) -> u64 {
        STATISTICS_BYTES * self.ports.len() as u64
    }

    fn finish(&mut self) {
        let Some((mut file, _)) = self.file.take() else { return };
        let mut tail = Vec::new();
        for (interface, frames) in self.written.iter().enumerate() {
            let ended = Writer::more(&mut tail).end_of(interface as u32, *frames);
            debug_assert!(ended.is_ok(), "memory takes everything");
        }
        self.written.fill(0);
        // A file without statistics can be read as well.
        if file.write_all(&tail).is_ok() {
            self.reading.bytes += tail.len() as u64;
        }
    }

    /// The next file, if there may be one now.
    fn begin(&mut self) -> bool {
        if self.retry.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        self.retry = None;
        match self.open() {
            Ok(opened) => {
                self.reading.bytes += opened.1;
                self.reading.files += 1;
                (self.file, self.seen) = (Some(opened), Instant::now());
                true
            }
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }

    /// What is wrong is said with the path it is about.
    fn open(&self) -> Result<(File, u64), String> {
        let path = Path::new(&self.settings.path);
        make_room(path, self.settings.files)?;
        let mut head = Vec::new();
        let names: Vec<&str> = self.ports.iter().map(|(_, name)| name.as_str()).collect();
        Writer::of_ports(&mut head, &names, self.settings.snaplen).map_err(at(path))?;
        // Made anew: what may be there is nobody's capture, and no link is followed.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = made.map_err(at(path))?;
        // Whoever else would write here finds it locked; where files cannot be locked nobody does.
        let _ = file.try_lock();
        if let Err(error) = file.write_all(&head) {
            // There was none before.
            let _ = std::fs::remove_file(path);
            return Err(at(path)(error));
        }
        Ok((file, head.len() as u64))
    }
}

/// What was told of mirrors whose files cannot be written, by their names.
#[derive(Debug, Default)]
pub struct Failing(BTreeMap<String, Told>);

/// What was told of one.
#[derive(Debug, Default)]
struct Told {
    /// Of so many failures.
    failures: u64,
    /// Frames lost at the last look.
    lost: u64,
    /// Of those, at the look before the failure that has not been told to have ended.
    since: Option<u64>,
}

impl Failing {
    /// What has become of files since the last look: phase and fields of events `mirror_file`, also of a failure that has begun and
    /// ended meanwhile. To be asked before files are replaced, and after it: what kept the earlier ones from being written ends
    /// there, and what it cost is told.
    pub fn news(
        &mut self,
        readings: impl IntoIterator<Item = MirrorFileReading>,
    ) -> Vec<(&'static str, Map<String, Value>)> {
        let mut news = Vec::new();
        for MirrorFileReading { mirror, error, lost, failures, last_error, .. } in readings {
            let told = self.0.entry(mirror.clone()).or_default();
            let mut tell = |phase, key: &str, value: Value| {
                let fields = [("mirror".to_owned(), json!(mirror)), (key.to_owned(), value)];
                news.push((phase, fields.into_iter().collect()));
            };
            if failures > told.failures && told.since.is_none() {
                // Nothing is lost but by a failure.
                told.since = Some(told.lost);
                tell("alarm", "error", json!(last_error));
            }
            if error.is_none()
                && let Some(before) = told.since.take()
            {
                tell("end", "lost", json!(lost - before));
            }
            (told.failures, told.lost) = (failures, lost);
        }
        news
    }
}

/// An error, with the path it is about.
fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Bytes of a packet in a file.
fn packet_bytes(kept: usize) -> u64 {
    // Its block 12, its head 20, direction 8 and the end of options 4.
    44 + kept.next_multiple_of(4) as u64
}

/// Bytes of the statistics of an interface.
const STATISTICS_BYTES: u64 = 12 + 12 + 12 + 4;

/// The place of the older file of this number.
fn older(path: &Path, number: u16) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// What is at the path becomes the first of the older files, each of these the next, and the last goes. Nothing but captures is
/// touched.
fn make_room(path: &Path, files: u16) -> Result<(), String> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let all: Vec<PathBuf> =
        std::iter::once(path.to_owned()).chain((1..files).map(|number| older(path, number))).collect();
    if is_written(path) {
        return Err(format!(
            "{} is being written by another mirror: give each a file of its own",
            path.display()
        ));
    }
    let there = all.iter().take_while(|path| path.symlink_metadata().is_ok()).count();
    for path in &all[..there] {
        if !is_capture(path) {
            return Err(format!("{} is there, and is not a capture: move it away", path.display()));
        }
    }
    if there == all.len() {
        std::fs::remove_file(&all[there - 1]).map_err(at(&all[there - 1]))?;
    }
    for number in (1..all.len().min(there + 1)).rev() {
        std::fs::rename(&all[number - 1], &all[number]).map_err(at(&all[number]))?;
    }
    Ok(())
}

/// Some mirror has it open, of this switch or of another, by this path or through a link.
fn is_written(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A file of its own that begins as captures do.
fn is_capture(path: &Path) -> bool {
    let plain = path.symlink_metadata().is_ok_and(|meta| meta.is_file());
    let mut magic = [0; 4];
    plain && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == MAGIC
}

#[cfg(test)]
#[path = "mirror_files_tests.rs"]
mod tests;

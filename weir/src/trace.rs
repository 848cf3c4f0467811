//! `weir trace` and `weir capture`: single frames of a running switch, and what happened to each.

use crate::Outcome;
use crate::output::{self, OUT, say, say_err};
use crate::quantity::{number, queue_pair, time};
use crate::refusal::{cannot, refuse};
use crate::run::Stop;
use crate::which::Which;
use anyhow::{Error, Result};
use clap::Args;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::iter;
use std::net::IpAddr;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use weir_dataplane::switch::Filter;
use weir_dataplane::types::Mac;
use weir_mgmt::admin::comment::{ON_ITS_WAY, comment, only};
use weir_mgmt::admin::watch::{LONGEST, MOST_BYTES, MOST_FRAMES, Watch, lines, unhex};
use weir_mgmt::api;
use weir_mgmt::api::documents::{self, WatchLine};
use weir_mgmt::client::{self, ClientError};
use weir_mgmt::pcapng::Writer;
use weir_sim::file::Part;

/// Which frames
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Destination address.
    #[arg(long, value_name = "MAC")]
    pub dst: Option<Mac>,
    /// Source address.
    #[arg(long, value_name = "MAC")]
    pub src: Option<Mac>,
    /// EtherType, behind VLAN tags, e.g. 0x0800.
    #[arg(long, value_parser = number)]
    pub ethertype: Option<u16>,
    /// DSCP of the IP header.
    #[arg(long)]
    pub dscp: Option<u8>,
    /// Source or destination port of UDP, e.g. 4791.
    #[arg(long)]
    pub udp_port: Option<u16>,
    /// Source or destination address of IP.
    #[arg(long, value_name = "ADDRESS")]
    pub ip: Option<IpAddr>,
    /// Destination queue pair of RoCE or RC Link, e.g. 0x1a.
    #[arg(long, value_parser = queue_pair)]
    pub qp: Option<u32>,
}

/// `weir trace`
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Port the frames arrive on.
    #[arg(long)]
    pub port: String,
    /// Frames to follow.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=MOST_FRAMES))]
    pub count: u64,
    /// Which frames: all conditions must hold.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Only frames that the switch marks, each told when it has left.
    #[arg(long)]
    pub marked: bool,
    /// Wait this long at most, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "60s")]
    pub time: Duration,
    /// JSON, a line per event.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

/// `weir capture`
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Port the frames arrive on; with --drops the port they are lost at.
    #[arg(long)]
    pub port: String,
    /// File to write, `-` for standard output.
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub file: PathBuf,
    /// Frames to write.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=MOST_FRAMES))]
    pub count: u64,
    /// Only frames that are lost.
    #[arg(long)]
    pub drops: bool,
    /// Only frames that the switch marks.
    #[arg(long, conflicts_with = "drops")]
    pub marked: bool,
    /// Bytes of each frame to keep.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(..=MOST_BYTES as i64))]
    pub snaplen: u32,
    /// Which frames: all conditions must hold.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Stop after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "60s")]
    pub time: Duration,
    /// JSON: what was written.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

impl FilterArgs {
    /// As the switch takes it.
    pub fn filter(&self) -> Filter {
        let Self { dst, src, ethertype, dscp, udp_port, ip, qp } = *self;
        Filter { dst, src, ethertype, dscp, udp_port, ip, qp }
    }
}

/// Events of an order, as they come, until the last: that of the switch or, once somebody has asked to stop, one of our own that says
/// what was told until then.
fn events(
    socket: &Path,
    watch: &Watch,
) -> Result<impl Iterator<Item = Result<WatchLine, ClientError>> + use<>> {
    if watch.time > LONGEST {
        return Err(refuse("--for", "a switch follows frames for a day at most", "give it a shorter time"));
    }
    // Whose terminal is closed has had enough, too.
    let stop = Rc::new(Stop::on(&[SIGINT, SIGTERM, SIGHUP])?);
    let stream = client::stream(socket, api::WATCH, &watch.json().to_string())?;
    let asked = Rc::clone(&stop);
    let mut lines = client::lines_until(stream, move || asked.asked());
    let mut told = Told::default();
    Ok(iter::from_fn(move || {
        let line = lines.next().or_else(|| (!told.ended && stop.asked()).then(|| Ok(told.end())))?;
        if let Ok(line) = &line {
            told.note(line);
        }
        Some(line)
    }))
}

/// What a switch has told of frames it follows.
#[derive(Debug, Default)]
struct Told {
    frames: u64,
    /// Copies of frames that have not left.
    copies: BTreeMap<u64, u64>,
    /// Those that engines are not done with.
    at_engines: BTreeSet<u64>,
    missed: u64,
    ended: bool,
}

impl Told {
    fn note(&mut self, line: &WatchLine) {
        self.frames = self.frames.max(line.frame().unwrap_or(0));
        match line {
            WatchLine::Arrived(arrival) if arrival.copies > 0 => {
                self.copies.insert(arrival.frame, arrival.copies.into());
            }
            WatchLine::Left { frame, .. } | WatchLine::Flushed { frame, .. } => {
                if let Entry::Occupied(mut left) = self.copies.entry(*frame) {
                    *left.get_mut() -= 1;
                    if *left.get() == 0 {
                        left.remove();
                    }
                }
            }
            WatchLine::Engine(told) if told.last => drop(self.at_engines.remove(&told.frame)),
            WatchLine::Engine(told) => drop(self.at_engines.insert(told.frame)),
            WatchLine::Missed { missed } => self.missed = *missed,
            WatchLine::End { .. } => self.ended = true,
            WatchLine::Arrived(_) | WatchLine::Armed { .. } | WatchLine::Lost { .. } => {}
        }
    }

    /// The last line of what is stopped.
    fn end(&self) -> WatchLine {
        let Self { frames, copies, at_engines, missed, .. } = self;
        let on_their_way =
            copies.keys().filter(|frame| !at_engines.contains(frame)).count() + at_engines.len();
        WatchLine::End { why: "stopped".to_owned(), frames: *frames, on_their_way, missed: *missed }
    }
}

pub fn trace(args: &TraceArgs) -> Result<Outcome> {
    let watch = Watch {
        port: args.port.clone(),
        filter: args.filter.filter(),
        count: args.count,
        // Both addresses.
        bytes: 12,
        drops: false,
        marked: args.marked,
        engines: true,
        time: args.time,
    };
    let events = events(&args.which.socket()?, &watch)?;
    output::end_with_reader();
    for event in events {
        let event = event?;
        match args.json {
            true => say!("{}", documents::json(&event)),
            false => lines(&event).iter().for_each(|line| say!("{line}")),
        }
        if OUT.is_broken() {
            break;
        }
    }
    Ok(Outcome::Good)
}

pub fn capture(args: &CaptureArgs) -> Result<Outcome> {
    let watch = Watch {
        port: args.port.clone(),
        filter: args.filter.filter(),
        count: args.count,
        bytes: args.snaplen,
        drops: args.drops,
        marked: args.marked,
        // A packet is written when it has left.
        engines: false,
        time: args.time,
    };
    let to_stdout = args.file.as_os_str() == "-";
    if to_stdout && args.json {
        return Err(refuse("-w", "`-` and --json both want standard output", "name a file"));
    }
    let events = events(&args.which.socket()?, &watch)?;
    // Opened only when the switch has agreed: an order that is refused leaves no file.
    let (out, part): (Box<dyn Write>, _) = match to_stdout {
        true => (Box::new(io::stdout().lock()), None),
        false => {
            let (file, part) = Part::create(&args.file).map_err(cannot("write", &args.file))?;
            (Box::new(file), Some(part))
        }
    };
    let end = match write_events(events, out, part, args, only(&watch).as_deref()) {
        // Whoever read has seen enough.
        Err(error) if to_stdout && is_broken_pipe(&error) => return Ok(Outcome::Good),
        end => end?,
    };
    if args.json {
        let mut told = documents::json(&end);
        told["file"] = json!(args.file.display().to_string());
        OUT.json(&told);
    } else {
        say_err!("{}", lines(&end).join("; "));
    }
    Ok(Outcome::Good)
}

/// Writes what comes until the last event, which is returned. `part`: the file that it is written to; `only`: which frames of the port, if
/// not all.
fn write_events(
    events: impl Iterator<Item = Result<WatchLine, ClientError>>,
    out: impl Write,
    part: Option<Part>,
    args: &CaptureArgs,
    only: Option<&str>,
) -> Result<WatchLine> {
    let failed = |error| cannot("write", &args.file)(error);
    let mut capture = Capture::new(out, &args.port, args.snaplen, only).map_err(failed)?;
    // With its head in it a file is a capture, and takes the place of one that is there.
    part.map_or(Ok(()), Part::take_place).map_err(failed)?;
    for event in events {
        let event = event?;
        if let end @ WatchLine::End { .. } = event {
            capture.finish(&end).map_err(failed)?;
            return Ok(end);
        }
        capture.note(event).map_err(failed)?;
    }
    Err(refuse("--socket", "the switch has ended", "start it again (weir run), and capture anew"))
}

fn is_broken_pipe(error: &Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Frames whose story is not complete, and the file the complete ones go to.
pub struct Capture<W: Write> {
    file: Writer<W>,
    /// ns since 1970 less ns of the workers' clock.
    offset: i128,
    open: BTreeMap<u64, Vec<WatchLine>>,
}

impl<W: Write> Capture<W> {
    /// Starts the file. `only`: which frames of the port will be in it, if not all.
    pub fn new(out: W, port: &str, snaplen: u32, only: Option<&str>) -> io::Result<Self> {
        Ok(Self { file: Writer::new(out, port, snaplen, only)?, offset: 0, open: BTreeMap::new() })
    }

    /// An event of a frame, in the order in which they happened.
    pub fn note(&mut self, event: WatchLine) -> io::Result<()> {
        if let WatchLine::Armed { unix_ns, at_ns } = &event {
            self.offset = unix_ns.parse::<i128>().unwrap_or(0) - i128::from(*at_ns);
            return Ok(());
        }
        let Some(number) = event.frame() else { return Ok(()) };
        let story = self.open.entry(number).or_default();
        story.push(event);
        let copies = match &story[0] {
            WatchLine::Arrived(arrival) => arrival.copies as usize,
            _ => 0,
        };
        if story.len() > copies
            && let Some(story) = self.open.remove(&number)
        {
            self.write(&story, "")?;
        }
        Ok(())
    }

    /// What has not left yet, and with the last event how many there were: a file without that is cut short.
    pub fn finish(&mut self, end: &WatchLine) -> io::Result<()> {
        for story in std::mem::take(&mut self.open).into_values() {
            self.write(&story, ON_ITS_WAY)?;
        }
        let WatchLine::End { frames, missed, .. } = end else { return Ok(()) };
        self.file.end(*frames, *missed)
    }

    fn write(&mut self, story: &[WatchLine], more: &str) -> io::Result<()> {
        let (arrived, bytes, len) = match &story[0] {
            WatchLine::Arrived(arrival) => (arrival.at_ns, &*arrival.bytes, arrival.len_bytes),
            WatchLine::Lost { at_ns, bytes, len_bytes, .. } => (*at_ns, &**bytes, *len_bytes),
            // Of a frame that was told of before nothing is left to write.
            _ => return Ok(()),
        };
        let unix_ns = (i128::from(arrived) + self.offset).max(0) as u64;
        let bytes = unhex(bytes).unwrap_or_default();
        self.file.packet(unix_ns, &bytes, len, &(comment(story) + more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_written_when_its_story_is_complete() {
        let mut file = Vec::new();
        let mut capture = Capture::new(&mut file, "p0", 64, None).unwrap();
        let line = |event: serde_json::Value| serde_json::from_value::<WatchLine>(event).unwrap();
        capture.note(line(json!({ "event": "armed", "unix_ns": "5000", "at_ns": 1000 }))).unwrap();
        let arrived = |n: u64, copies: u64| {
            line(
                json!({ "event": "arrived", "frame": n, "at_ns": 1500, "port": "p0", "len_bytes": 60, "bytes": "aabb",
                    "parsed": { "kind": "data", "malformed_l3": false }, "class": { "tc": 3, "pg": 3, "queue": 3 },
                    "lookup": "port p1", "charge_bytes": 60, "copies": copies, "copies_aside": 0, "verdict": "admitted",
                    "group": { "control_pool": false, "used_bytes": [0, 60], "shared_bytes": [0, 0], "headroom_bytes": [0, 0], "xoff": [false, false] },
                    "queue": { "used_bytes": [7, 67] } }),
            )
        };
        for n in 1..=3 {
            capture.note(arrived(n, n - 1)).unwrap();
        }
        assert_eq!(capture.open.len(), 2);
        let left = json!({ "event": "left", "frame": 2, "at_ns": 3500, "port": "p1", "queue": 3, "queued_ns": 1000,
                           "residence_ns": 2000, "depth_bytes": 0, "marked": true });
        capture.note(line(left)).unwrap();
        assert_eq!(capture.open.len(), 1);
        let end =
            json!({ "event": "end", "why": "count reached", "frames": 3, "on_their_way": 1, "missed": 0 });
        capture.finish(&line(end)).unwrap();
        let text = String::from_utf8_lossy(&file).into_owned();
        for wanted in ["admitted; depth 7", "left p1 queue 3 after 2.000us", "marked CE", "still on its way"]
        {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(file.windows(4).any(|word| word == 5500u32.to_le_bytes()), "the time of arrival");
    }
}

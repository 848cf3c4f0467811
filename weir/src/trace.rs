//! `weir trace` and `weir capture`: single frames of a running switch, and what happened to each.

use crate::Outcome;
use crate::output::{OUT, say, say_err};
use crate::quantity::{number, queue_pair, time};
use crate::which::Which;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use weir_dataplane::switch::Filter;
use weir_dataplane::types::Mac;
use weir_mgmt::admin::comment::{ON_ITS_WAY, comment};
use weir_mgmt::admin::watch::{Watch, lines, unhex};
use weir_mgmt::pcapng::Writer;
use weir_mgmt::{api, client};

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
    #[arg(long, default_value_t = 10)]
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
    #[arg(long, default_value_t = 1000)]
    pub count: u64,
    /// Frames that are lost, and nothing else.
    #[arg(long)]
    pub drops: bool,
    /// Frames that the switch marks, and nothing else.
    #[arg(long, conflicts_with = "drops")]
    pub marked: bool,
    /// Bytes of each frame to keep.
    #[arg(long, default_value_t = 256)]
    pub snaplen: u32,
    /// Which frames: all conditions must hold.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Stop after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "60s")]
    pub time: Duration,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

fn filter(args: &FilterArgs) -> Filter {
    Filter {
        dst: args.dst,
        src: args.src,
        ethertype: args.ethertype,
        dscp: args.dscp,
        udp_port: args.udp_port,
        ip: args.ip,
        qp: args.qp,
    }
}

/// Events of an order, as they come, until the last.
fn events(socket: &Path, watch: &Watch) -> Result<impl Iterator<Item = Result<Value>> + use<>> {
    let body = watch.json().to_string();
    let stream = client::stream(socket, api::WATCH, &body)?;
    let event = |line: io::Result<String>| -> Result<Option<Value>> {
        let line = line.context("the switch has gone")?;
        // An empty line is a sign of life.
        if line.is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).context("the answer is no JSON")
    };
    Ok(stream.lines().filter_map(move |line| event(line).transpose()))
}

pub fn trace(args: &TraceArgs) -> Result<Outcome> {
    let watch = Watch {
        port: args.port.clone(),
        filter: filter(&args.filter),
        count: args.count,
        // Both addresses.
        bytes: 12,
        drops: false,
        marked: args.marked,
        time: args.time,
    };
    for event in events(&args.which.socket()?, &watch)? {
        let event = event?;
        match args.json {
            true => say!("{event}"),
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
        filter: filter(&args.filter),
        count: args.count,
        bytes: args.snaplen,
        drops: args.drops,
        marked: args.marked,
        time: args.time,
    };
    let mut events = events(&args.which.socket()?, &watch)?;
    let to_stdout = args.file.as_os_str() == "-";
    // Opened only when the switch has agreed: an order that is refused leaves no file.
    let out: Box<dyn Write> = match to_stdout {
        true => Box::new(io::stdout().lock()),
        false => {
            let file = File::create(&args.file);
            Box::new(file.with_context(|| format!("cannot write {}", args.file.display()))?)
        }
    };
    let mut capture = Capture::new(out, &args.port, args.snaplen)?;
    let end = loop {
        match events.next().transpose()? {
            Some(event) if event["event"] == "end" => break event,
            Some(event) => capture.note(event)?,
            None => bail!("the switch has gone"),
        }
    };
    capture.finish(&end)?;
    say_err!("{}", lines(&end).join("; "));
    Ok(Outcome::Good)
}

/// Frames whose story is not complete, and the file the complete ones go to.
pub struct Capture<W: Write> {
    file: Writer<W>,
    /// ns since 1970 less ns of the workers' clock.
    offset: i128,
    open: BTreeMap<u64, Vec<Value>>,
}

impl<W: Write> Capture<W> {
    /// Starts the file.
    pub fn new(out: W, port: &str, snaplen: u32) -> Result<Self> {
        Ok(Self { file: Writer::new(out, port, snaplen)?, offset: 0, open: BTreeMap::new() })
    }

    /// An event of a frame, in the order in which they happened.
    pub fn note(&mut self, event: Value) -> Result<()> {
        if event["event"] == "armed" {
            let unix: i128 = event["unix_ns"].as_str().and_then(|ns| ns.parse().ok()).unwrap_or(0);
            self.offset = unix - i128::from(event["at_ns"].as_u64().unwrap_or(0));
            return Ok(());
        }
        let Some(number) = event["frame"].as_u64() else { return Ok(()) };
        let story = self.open.entry(number).or_default();
        story.push(event);
        let copies = story[0]["copies"].as_u64().unwrap_or(0);
        if story.len() as u64 > copies
            && let Some(story) = self.open.remove(&number)
        {
            self.write(&story, "")?;
        }
        Ok(())
    }

    /// What has not left yet, and with the last event how many there were: a file without that is cut short.
    pub fn finish(&mut self, end: &Value) -> Result<()> {
        for story in std::mem::take(&mut self.open).into_values() {
            self.write(&story, ON_ITS_WAY)?;
        }
        let count = |key: &str| end[key].as_u64().unwrap_or(0);
        self.file.end(count("frames"), count("missed")).context("cannot write")
    }

    fn write(&mut self, story: &[Value], more: &str) -> Result<()> {
        let first = &story[0];
        let bytes = first["bytes"].as_str().and_then(unhex).unwrap_or_default();
        let at = i128::from(first["at_ns"].as_u64().unwrap_or(0)) + self.offset;
        let len = first["len_bytes"].as_u64().unwrap_or(0) as u32;
        self.file.packet(at.max(0) as u64, &bytes, len, &(comment(story) + more)).context("cannot write")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_packet_is_written_when_its_story_is_complete() {
        let mut file = Vec::new();
        let mut capture = Capture::new(&mut file, "p0", 64).unwrap();
        capture.note(json!({ "event": "armed", "unix_ns": "5000", "at_ns": 1000 })).unwrap();
        let arrived = |n: u64, copies: u64| {
            json!({ "event": "arrived", "frame": n, "at_ns": 1500, "port": "p0", "len_bytes": 60, "bytes": "aabb",
                    "copies": copies, "verdict": "admitted", "queue": { "used_bytes": [7, 67] } })
        };
        for n in 1..=3 {
            capture.note(arrived(n, n - 1)).unwrap();
        }
        assert_eq!(capture.open.len(), 2);
        let left = json!({ "event": "left", "frame": 2, "port": "p1", "residence_ns": 2000, "marked": true });
        capture.note(left).unwrap();
        assert_eq!(capture.open.len(), 1);
        capture.finish(&json!({ "event": "end", "frames": 3, "missed": 0 })).unwrap();
        let text = String::from_utf8_lossy(&file).into_owned();
        for wanted in
            ["admitted; depth 7", "left p1 queue null after 2.000 us", "marked CE", "still on its way"]
        {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(file.windows(4).any(|word| word == 5500u32.to_le_bytes()), "the time of arrival");
    }
}

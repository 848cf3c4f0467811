//! `weir sim replay`: a capture of a running switch once more, through a switch in virtual time.

mod compare;
mod file;

use crate::Outcome;
use crate::check;
use crate::file::write_file;
use crate::output::{OUT, say};
use crate::refusal::{cannot, in_file, refuse};
use crate::trace::Capture;
use anyhow::{Context, Result};
use clap::Args;
use compare::{Comparison, Difference, compare};
use file::{AS_WRITTEN, CaptureFile, Captured};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;
use weir_config::Config;
use weir_dataplane::types::PortId;
use weir_mgmt::admin::comment::FrameHistory;
use weir_mgmt::admin::watch::{Joiner, Watching};
use weir_mgmt::snapshot::{PortInfo, SwitchInfo};
use weir_sim::replay::{Arrival, CapturedFrame, FIRST_FRAME_AT, Replay};

/// Differences that are named one by one.
const NAMED: usize = 20;
/// Bytes kept of each frame in the capture of the replay.
const SNAPLEN: u32 = 256;

/// `weir sim replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Capture of one port, as `weir capture` wrote it; frames of other interfaces, whose names are ports, are played with it.
    pub file: PathBuf,
    /// Configuration of the switch.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Write what happened in the replay to this file, as `weir capture` does.
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
}

pub fn replay(args: &ReplayArgs) -> Result<Outcome> {
    let name = args.file.display().to_string();
    let open = File::open(&args.file).map_err(cannot("read", &args.file))?;
    let capture = in_file(&args.file, CaptureFile::read(BufReader::new(open)))?;
    let config = check::load(&args.config)?.config;
    let followed = in_file(&args.file, followed(&capture, &config, &args.config.display().to_string()))?;
    let again = play(&config, &capture, followed)?;
    if let Some(path) = &args.write {
        write_file(path, &again)?;
    }
    let replayed = CaptureFile::read(&again[..]).context("the capture of the replay")?;
    let histories = |capture: &CaptureFile| -> Vec<FrameHistory> {
        capture.frames.iter().filter_map(|frame| frame.history.clone()).collect()
    };
    let frames = histories(&capture);
    let found = compare(&config, &frames, &histories(&replayed));
    let port = &config.ports[followed.index()].name;
    if args.json {
        OUT.json(&as_json(&name, port, frames.len(), capture.missed, &found));
    } else {
        say!(
            "{name}: {} frames that came to {port}, through {} in virtual time",
            frames.len(),
            args.config.display()
        );
        print(&capture, &found);
    }
    Ok(if found.differences.is_empty() { Outcome::Good } else { Outcome::Bad })
}

/// The port whose frames have a history.
fn followed(capture: &CaptureFile, config: &Config, config_name: &str) -> Result<PortId> {
    let ports: BTreeSet<&str> = capture.frames.iter().map(|frame| frame.port.as_str()).collect();
    if let Some(unknown) = ports.iter().find(|port| config.port(port).is_none()) {
        let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
        let what = format!("{config_name} has no such port");
        return Err(refuse(format!("frames of `{unknown}`"), what, format!("it has {}", names.join(", "))));
    }
    let mut numbers = BTreeSet::new();
    let mut port = None;
    for (number, frame) in capture.frames.iter().enumerate() {
        let Some(history) = &frame.history else { continue };
        if history.class.is_none() {
            let what = "it was lost, and nothing else is told of it";
            return Err(refuse(format!("frame {}", number + 1), what, "capture without --drops"));
        }
        if port.is_some_and(|port| port != frame.port) {
            let port = port.unwrap_or_default();
            let what = format!("frames of {port} and of {} have comments", frame.port);
            return Err(refuse("", what, "replay a capture of one port"));
        }
        if !numbers.insert(history.number) {
            return Err(refuse(format!("frame {}", history.number), "it is in the file twice", AS_WRITTEN));
        }
        port = Some(frame.port.as_str());
    }
    let Some(port) = port else {
        return Err(refuse(
            "",
            "no frame has a comment of `weir capture`: there is nothing to compare with",
            AS_WRITTEN,
        ));
    };
    let count = numbers.len() as u64;
    if let Some(missing) = (1..=count).find(|number| !numbers.contains(number)) {
        return Err(refuse(format!("frame {missing}"), "it is missing", AS_WRITTEN));
    }
    config.port(port).with_context(|| format!("no port `{port}`"))
}

/// Puts the frames through a switch, and writes what happened as `weir capture` does.
fn play(config: &Config, capture: &CaptureFile, followed: PortId) -> Result<Vec<u8>> {
    let first = capture.frames.iter().map(|frame| frame.unix_ns).min().unwrap_or(0);
    let mut frames: Vec<(u64, &Captured)> =
        capture.frames.iter().map(|frame| (frame.unix_ns - first, frame)).collect();
    // Frames of one burst have one time; their numbers are the order in which they came.
    frames.sort_by_key(|(at, frame)| (*at, frame.history.as_ref().map(|history| history.number)));
    let arrival = |(at, frame): (u64, &Captured)| -> Option<Arrival> {
        let lookup = frame.history.as_ref().map_or("", |history| &history.lookup);
        Some(Arrival {
            at,
            port: config.port(&frame.port)?,
            frame: CapturedFrame::new(frame.bytes.clone(), frame.len),
            to: lookup.strip_prefix("port ").and_then(|name| config.port(name)),
        })
    };
    let arrivals: Vec<Arrival> = frames.into_iter().filter_map(arrival).collect();
    let mut replay = Replay::new(config, arrivals)?;
    let readers = vec![replay.follow(followed, SNAPLEN)];
    let mut joiner =
        Joiner::new(Watching { readers, anchor: (first, FIRST_FRAME_AT), held: Arc::default() }, u64::MAX);
    let ports = config.ports.iter().map(|port| PortInfo { name: port.name.clone(), ..PortInfo::default() });
    let info = SwitchInfo { ports: ports.collect(), ..SwitchInfo::default() };
    let mut written = Vec::new();
    let mut story = Capture::new(&mut written, &config.ports[followed.index()].name, SNAPLEN)?;
    story.note(joiner.head())?;
    while replay.step() {
        joiner.poll(&info).into_iter().try_for_each(|line| story.note(line))?;
    }
    joiner.poll(&info).into_iter().try_for_each(|line| story.note(line))?;
    story.finish(&joiner.foot("replayed"))?;
    Ok(written)
}

fn as_json(file: &str, port: &str, frames: usize, missed: u64, found: &Comparison) -> Value {
    let one = |d: &Difference| json!({ "frame": d.frame, "what": d.what, "captured": d.captured, "replayed": d.replayed });
    json!({
        "file": file,
        "port": port,
        "frames": frames,
        "missed": missed,
        "differences": found.differences.iter().map(one).collect::<Vec<_>>(),
        "drawn_marks": found.drawn,
        "learned_since": found.learned_since,
        "other_depths": found.other_depths,
        "verdict": if found.differences.is_empty() { "PASS" } else { "FAIL" },
    })
}

fn print(capture: &CaptureFile, found: &Comparison) {
    for d in found.differences.iter().take(NAMED) {
        say!("  frame {}: {}: captured {}; replayed {}", d.frame, d.what, d.captured, d.replayed);
    }
    let count = found.differences.len();
    if count > NAMED {
        say!("  and {} more", count - NAMED);
    }
    let notes = [
        (found.drawn, "marks differ between Kmin and Kmax, where a draw decides"),
        (
            found.learned_since,
            "frames came before their destination was known; where they went is not compared",
        ),
        (found.other_depths, "frames found another depth: their queue held frames that are not in the file"),
        (capture.missed, "records found no room while the capture was made"),
    ];
    notes.iter().filter(|(count, _)| *count > 0).for_each(|(count, what)| say!("  {count} {what}"));
    match count {
        0 => say!("  verdict: PASS: class, verdict, mark, pause and order of every frame as captured"),
        _ => say!("  verdict: FAIL: {count} differences"),
    }
}

#[cfg(test)]
mod tests;

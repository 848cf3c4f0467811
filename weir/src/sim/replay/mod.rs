//! `weir sim replay`: a capture of a running switch once more, through a switch in virtual time.

mod compare;
mod file;
mod judge;
mod limits;
mod order;
mod others;
mod pace;
mod pause;
mod phase;
mod sides;

use crate::Outcome;
use crate::check;
use crate::file::{can_write, not_over, write_file};
use crate::output::{OUT, say};
use crate::refusal::{cannot, in_file, refuse};
use crate::trace::Capture;
use anyhow::{Context, Result};
use clap::Args;
use compare::{Came, Compared, Comparison, Difference, Lacks, Totals, Verdict, compare};
use file::{AS_WRITTEN, CaptureFile, Captured};
use phase::Losses;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;
use weir_config::Config;
use weir_config::runtime::profiles;
use weir_dataplane::types::{Nanos, PortId};
use weir_layout::counted;
use weir_mgmt::admin::comment::FrameHistory;
use weir_mgmt::admin::watch::{Joiner, Watching};
use weir_mgmt::snapshot::{PortInfo, SwitchInfo};
use weir_sim::replay::{Arrival, CapturedFrame, FIRST_FRAME_AT, Replay};

/// Differences that are named one by one.
const NAMED: usize = 20;
/// Time from the first frame to the last, at most, ns: virtual time has room for four times as much.
const LONGEST_NS: u64 = 1 << 62;
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
    not_over(args.write.as_deref(), [args.file.as_path(), &args.config])?;
    can_write(&args.write)?;
    let name = args.file.display().to_string();
    let open = File::open(&args.file).map_err(cannot("read", &args.file))?;
    let capture = in_file(&args.file, CaptureFile::read(BufReader::new(open)))?;
    let config = check::load(&args.config)?.config;
    let followed = in_file(&args.file, followed(&capture, &config, &args.config.display().to_string()))?;
    let (again, found) = judge(&config, &capture, followed)?;
    if let Some(path) = &args.write {
        write_file(path, &again)?;
    }
    let frames = capture.frames.iter().filter(|frame| frame.history.is_some()).count();
    let port = &config.ports[followed.index()].name;
    if args.json {
        OUT.json(&as_json(&name, port, frames, &capture, &found));
    } else {
        say!(
            "{name}: {} frames that came to {port}, through {} in virtual time",
            frames,
            args.config.display()
        );
        print(&capture, &found);
    }
    Ok(match found.verdict() {
        Verdict::Pass | Verdict::SameTotals => Outcome::Good,
        Verdict::Fail => Outcome::Bad,
        Verdict::Undecided => Outcome::Undecided,
    })
}

/// Puts a capture through a switch once more: what happened, as a capture, and how that compares.
fn judge(config: &Config, capture: &CaptureFile, followed: PortId) -> Result<(Vec<u8>, Comparison)> {
    let port = &config.ports[followed.index()].name;
    // Frames of one burst have one time; their numbers are the order in which they came.
    let mut frames: Vec<&Captured> = capture.frames.iter().collect();
    frames.sort_by_key(|frame| (frame.unix_ns, frame.history.as_ref().map(|history| history.number)));
    let written = play(config, &frames, followed)?;
    let replayed = CaptureFile::read(&written[..]).context("the capture of the replay")?;
    let captured: Vec<FrameHistory> =
        capture.frames.iter().filter_map(|frame| frame.history.clone()).collect();
    // The replay counts the frames that come to the port; in the capture they have the number under which they were told.
    let come: Vec<&Captured> = frames.into_iter().filter(|frame| frame.port == *port).collect();
    let renumbered = |frame: Captured| {
        let history = frame.history?;
        let number = come.get(history.number as usize - 1)?.history.as_ref()?.number;
        Some(FrameHistory { number, ..history })
    };
    let replayed: Vec<FrameHistory> = replayed.frames.into_iter().filter_map(renumbered).collect();
    let profile = &profiles(config)?[config.ports[followed.index()].format];
    let came = |frame: &Captured| {
        let ect =
            profile.parse(&frame.bytes, frame.len).is_ok_and(|parsed| matches!(parsed.ecn.codepoint, 1 | 2));
        Some((frame.history.as_ref()?.number, Came { at: frame.unix_ns, bytes: frame.len as u64, ect }))
    };
    let came = capture.frames.iter().filter_map(came).collect();
    let elsewhere: Vec<Nanos> =
        capture.frames.iter().filter(|frame| frame.port != *port).map(|frame| frame.unix_ns).collect();
    let others = config.ports.iter().any(|port| !capture.ports.contains(&port.name));
    let losses = captured.iter().flat_map(|history| history.losses.iter().map(move |loss| (history, loss)));
    let paused =
        losses.filter(|(_, (_, reason))| reason.starts_with("watchdog.")).map(|(history, (port, _))| {
            let destination = history.lookup.strip_prefix("port ").unwrap_or_default();
            if port.is_empty() { destination } else { port.as_str() }.to_owned()
        });
    let pauses = paused.filter(|port| !capture.ports.contains(port)).collect();
    let lacks = Lacks { own: capture.lacks_frames(), others, pauses };
    let found = compare(config, [&captured, &replayed], &came, &elsewhere, lacks);
    Ok((written, found))
}

/// The port whose frames have a history.
fn followed(capture: &CaptureFile, config: &Config, config_name: &str) -> Result<PortId> {
    let ports: BTreeSet<&str> = capture.frames.iter().map(|frame| frame.port.as_str()).collect();
    if let Some(unknown) = ports.iter().find(|port| config.port(port).is_none()) {
        let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
        let what = format!("{config_name} has no such port");
        return Err(refuse(format!("frames of `{unknown}`"), what, format!("it has {}", names.join(", "))));
    }
    let first = capture.frames.iter().map(|frame| frame.unix_ns).min().unwrap_or(0);
    let too_late = |frame: &Captured| frame.unix_ns - first > LONGEST_NS;
    if let Some(number) = capture.frames.iter().position(too_late) {
        let ns = capture.frames[number].unix_ns - first;
        let what = format!(
            "it came {} years after the first one, at most {} are played",
            years(ns),
            years(LONGEST_NS)
        );
        let remedy = "a clock was set while the capture was made; capture again";
        return Err(refuse(format!("frame {}", number + 1), what, remedy));
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

/// Whole years of 365 days.
fn years(ns: u64) -> u64 {
    ns / (365 * 24 * 3600 * 1_000_000_000)
}

/// Puts frames through a switch in this order, and writes what happened as `weir capture` does.
fn play(config: &Config, frames: &[&Captured], followed: PortId) -> Result<Vec<u8>> {
    let first = frames.first().map_or(0, |frame| frame.unix_ns);
    let arrival = |frame: &&Captured| -> Option<Arrival> {
        let lookup = frame.history.as_ref().map_or("", |history| &history.lookup);
        Some(Arrival {
            at: frame.unix_ns - first,
            port: config.port(&frame.port)?,
            frame: CapturedFrame::new(frame.bytes.clone(), frame.len),
            to: lookup.strip_prefix("port ").and_then(|name| config.port(name)),
        })
    };
    let arrivals: Vec<Arrival> = frames.iter().filter_map(arrival).collect();
    let mut replay = Replay::new(config, arrivals)?;
    let readers = vec![replay.follow(followed, SNAPLEN)];
    let mut joiner = Joiner::new(
        Watching { readers, engines: Vec::new(), anchor: (first, FIRST_FRAME_AT), held: Arc::default() },
        u64::MAX,
    );
    let ports = config.ports.iter().map(|port| PortInfo { name: port.name.clone(), ..PortInfo::default() });
    let info = SwitchInfo { ports: ports.collect(), ..SwitchInfo::default() };
    let mut written = Vec::new();
    let mut story = Capture::new(&mut written, &config.ports[followed.index()].name, SNAPLEN, None)?;
    story.note(joiner.head())?;
    let mut told = Vec::new();
    while replay.step(|| told.extend(joiner.poll(&info))) {
        told.drain(..).try_for_each(|line| story.note(line))?;
    }
    joiner.poll(&info).into_iter().try_for_each(|line| story.note(line))?;
    story.finish(&joiner.foot("replayed"))?;
    Ok(written)
}

fn as_json(file: &str, port: &str, frames: usize, capture: &CaptureFile, found: &Comparison) -> Value {
    let totals =
        |t: Totals| json!({ "frames": t.frames, "dropped": t.dropped, "marked": t.marked, "xoff": t.xoff });
    let one = |d: &Difference| json!({ "frame": d.frame, "what": d.what, "captured": d.captured, "replayed": d.replayed, "phase": d.phase });
    let losses = |l: &Losses| {
        json!({
            "port": l.port, "tc": l.class[0], "pg": l.class[1], "queue": l.class[2], "reason": l.reason,
            "captured": l.frames[0], "replayed": l.frames[1], "most_apart_bytes": l.apart, "explained_bytes": l.explained,
        })
    };
    let of_limit = |on_both: bool| {
        let found = found.other_limit.as_ref().filter(|l| (l.full == [true, true]) == on_both);
        found.map(|l| {
            json!({
                "port": l.port, "queue": l.queue, "captured_bytes": l.deepest[0], "replayed_bytes": l.deepest[1],
                "captured_full": l.full[0], "replayed_full": l.full[1],
            })
        })
    };
    json!({
        "file": file,
        "port": port,
        "frames": frames,
        "totals": { "captured": totals(found.totals[0]), "replayed": totals(found.totals[1]) },
        "missed": capture.missed,
        "filtered": capture.filtered,
        "whole": capture.is_whole,
        "compared": found.compared.iter().map(|(what, n)| (*what, json!({ "judged": n.judged, "lacking": n.lacking }))).collect::<BTreeMap<_, _>>(),
        "unknown": found.unknown,
        "differences": found.differences.iter().map(one).collect::<Vec<_>>(),
        "losses": found.losses.iter().map(losses).collect::<Vec<_>>(),
        "other_limit": of_limit(true),
        "never_full": of_limit(false),
        "drawn_marks": found.drawn,
        "learned_since": found.learned_since,
        "other_depths": found.other_depths,
        "verdict": found.verdict().word(),
    })
}

fn print(capture: &CaptureFile, found: &Comparison) {
    let [was, is] = found.totals;
    let numbers = [
        ("frames", was.frames, is.frames),
        ("dropped", was.dropped, is.dropped),
        ("marked", was.marked, is.marked),
        ("reached Xoff", was.xoff, is.xoff),
    ];
    let numbers = numbers.map(|(what, captured, replayed)| format!("{what} {captured} / {replayed}"));
    say!("  captured / replayed: {}", numbers.join(", "));
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
        (found.other_depths, "frames found another depth in their queue"),
        (capture.missed, "records found no room while the capture was made"),
    ];
    notes.iter().filter(|(count, _)| *count > 0).for_each(|(count, what)| say!("  {count} {what}"));
    if !capture.is_whole {
        say!("  merged: whether the capture was cut short, or lacks frames, is not in the file");
    }
    let list = |number: fn(&Compared) -> u64| {
        let some = found.compared.iter().filter(|(_, compared)| number(compared) > 0);
        some.map(|(what, compared)| format!("{what} of {}", number(compared))).collect::<Vec<_>>().join(", ")
    };
    let lacking = list(|compared| compared.lacking);
    if !lacking.is_empty() {
        let whose = match found.lacks {
            Lacks { own: true, others: false, .. } => "",
            Lacks { own: true, others: true, .. } => " of its port, and of others",
            Lacks { own: false, .. } => " of other ports",
        };
        say!("  cannot be judged: the capture lacks frames{whose}: {lacking}");
    }
    for (why, what) in &found.unknown {
        let what: Vec<String> = what.iter().map(|(what, count)| format!("{what} of {count}")).collect();
        say!("  cannot be judged: {why}: {}", what.join(", "));
    }
    for l in &found.losses {
        let [was, is] = l.frames;
        let [tc, pg, queue] = l.class;
        say!(
            "  lost at {}, tc {tc} pg {pg} queue {queue}: {}: {was} / {is}, at most {} bytes apart; a difference of phase explains {}",
            if l.port.is_empty() { "several ports" } else { &l.port },
            l.reason,
            l.apart,
            l.explained
        );
    }
    if let Some(limit) = &found.other_limit {
        say!("  {limit}");
    }
    let verdict = found.verdict();
    let why = match verdict {
        Verdict::Pass => format!("as captured: {}", list(|compared| compared.judged)),
        Verdict::SameTotals => {
            let what = match found.losses.is_empty() {
                true => "brought their group to Xoff",
                false if found.shifts_pauses() => {
                    "found the last room of a full queue, or brought their group to Xoff"
                }
                false => "found the last room of a full queue",
            };
            format!("as captured, but for which frames {what} ({})", counted(count as u64, "difference"))
        }
        Verdict::Fail => counted(count as u64, "difference"),
        Verdict::Undecided => "of what the switch did with these frames nothing can be judged".to_owned(),
    };
    say!("  verdict: {}: {why}", verdict.word());
}

#[cfg(test)]
mod tests;

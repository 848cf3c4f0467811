//! The walk of a frame from a port to another one, function by function, as docs/architecture.md has it.
//!
//! The frame and the policy of admission note who calls them and from where; what nobody asks for a frame or for its
//! charge (the scheduler, counters) is not seen.

use super::*;
use crate::drops::DropReason;
use crate::mmu::{AdmitVerdict, PgIx, QueueIx};
use crate::types::Burst;
use std::backtrace::Backtrace;
use std::cell::RefCell;

thread_local! {
    static WALK: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// `3: weir_dataplane::switch::<impl Switch<F,A>>::receive::{{closure}}` and `3: receive<F,A>` are `receive`; closures have no
/// name.
fn name(line: &str) -> Option<String> {
    let mut depth = 0;
    let bare = line.chars().filter(|c| {
        depth += i32::from(*c == '<');
        let outside = depth == 0;
        depth -= i32::from(*c == '>');
        outside
    });
    let bare: String = bare.collect();
    let name = bare.split([':', ' ']).rfind(|part| !part.is_empty() && !part.contains("{{"))?;
    (!name.starts_with('{')).then(|| name.to_owned())
}

/// Notes the functions of this crate that led here, outermost first, each when it is met for the first time.
fn note() {
    let trace = Backtrace::force_capture().to_string();
    let mut functions = Vec::new();
    let mut lines = trace.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let place = lines.next_if(|next| next.starts_with("at ")).unwrap_or_default();
        let ours = !place.contains("/rustc/") && !place.contains("/registry/");
        let file = place.rsplit("src/").next().and_then(|path| path.split(':').next());
        let file = file.filter(|file| ours && (file.starts_with("switch/") || file.starts_with("egress/")));
        if let (Some(file), Some(name)) = (file.filter(|file| !file.ends_with("tests.rs")), name(line)) {
            functions.push(format!("{file} {name}"));
        }
    }
    WALK.with_borrow_mut(|walk| {
        for function in functions.into_iter().rev() {
            if !walk.contains(&function) {
                walk.push(function);
            }
        }
    });
}

#[derive(Debug)]
struct Followed(Vec<u8>);

impl Frame for Followed {
    type Row = crate::frame::SizedFrames<Self>;
    type Staged = Burst<Self>;

    fn bytes(&self) -> &[u8] {
        note();
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        note();
        &mut self.0
    }

    fn len(&self) -> usize {
        note();
        self.0.len()
    }

    fn share(&self) -> Option<Self> {
        None
    }

    fn make_unique(&mut self) -> bool {
        true
    }

    fn append<const N: usize, const M: usize>(
        from: &mut arrayvec::ArrayVec<Self, N>,
        to: &mut arrayvec::ArrayVec<Self, M>,
    ) {
        note();
        to.extend(from.drain(..));
    }
}

struct Line;

impl Wire<Followed> for Line {
    fn send(&mut self, frames: &mut Burst<Followed>) -> usize {
        note();
        frames.drain(..).count()
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

#[derive(Debug)]
struct Policy(Mmu);

impl Admission for Policy {
    fn admit(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> AdmitVerdict {
        note();
        self.0.admit(pg, queue, bytes)
    }

    fn admit_together(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> bool {
        note();
        self.0.admit_together(pg, queue, bytes)
    }

    fn admit_ingress(&mut self, pg: PgIx, bytes: u32) -> AdmitVerdict {
        note();
        self.0.admit_ingress(pg, bytes)
    }

    fn admit_egress(&mut self, queue: QueueIx, bytes: u32) -> Result<(), DropReason> {
        note();
        self.0.admit_egress(queue, bytes)
    }

    fn release_egress(&mut self, queue: QueueIx, bytes: u32) {
        note();
        self.0.release_egress(queue, bytes);
    }

    fn release_ingress(&mut self, pg: PgIx, bytes: u32) -> bool {
        note();
        self.0.release_ingress(pg, bytes)
    }

    fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }
}

/// Functions that a frame of a known kind goes through, in the order in which it meets them.
fn walk() -> Vec<String> {
    let params = params(2);
    let mmu = Mmu::new(params.mmu.clone()).unwrap();
    let mut switch = Switch::<Followed, _>::with_admission(&params, Policy(mmu)).unwrap();
    let send = |switch: &mut Switch<Followed, _>, from: u16, to: u16, now| {
        let frame = frame(from.into(), to.into(), 0, 64);
        let mut burst = Burst::new();
        burst.push(Followed(frame.bytes().to_vec()));
        switch.receive(PortId(from), &mut burst, now);
        (0..2).map(|out| switch.transmit(PortId(out), BURST, now, &mut Line)).sum::<usize>()
    };
    // Both are heard, and what is to be done with a frame of the one is kept.
    for (from, to) in [(0, 1), (1, 0), (0, 1), (0, 1)] {
        assert_eq!(send(&mut switch, from, to, 5), 1);
    }
    WALK.with_borrow_mut(Vec::clear);
    assert_eq!(send(&mut switch, 0, 1, 9), 1);
    WALK.take()
}

#[test]
fn the_walk_of_a_frame_is_as_documented() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/architecture.md")).unwrap();
    let rows = page
        .lines()
        .skip_while(|line| *line != "## The walk of a frame")
        .take_while(|line| *line != "## Crates");
    let documented: Vec<String> = rows
        .filter_map(|row| row.strip_prefix("| `")?.split_once("` | `"))
        .map(|(file, rest)| format!("{file} {}", rest.split('`').next().unwrap_or_default()))
        .collect();
    let seen = walk();
    assert_eq!(seen, documented, "{}", seen.join("\n"));
    assert!((10..=25).contains(&seen.len()), "at most 25 functions from receive to transmit");
}

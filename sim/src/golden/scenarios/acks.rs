//! Rows of senders that are driven by acknowledgements, and the digest over all of them.
use weir_endpoint::congestion::timely::Direction;
use weir_endpoint::congestion::{Moment, dctcp, hpcc, pint, timely};

use crate::ns3::config::FlowSpec;
use crate::ns3::control::{Controller, Heeded, Update};

/// A digest is logged after each of so many rows, and after the last.
const ROWS_PER_DIGEST: u64 = 100;

/// The names of a flow in the tables.
#[derive(Clone, Copy, Debug)]
pub struct FlowName {
    src: u32,
    dst: u32,
    /// Tells apart the flows of a pair of hosts: from 10000, in the order of the list.
    pub sport: u32,
}

/// The first port number of a pair of hosts.
const FIRST_SPORT: u32 = 10_000;

/// Names of all flows.
pub fn names(flows: &[FlowSpec]) -> Vec<FlowName> {
    let name = |(i, flow): (usize, &FlowSpec)| {
        let before = flows[..i].iter().filter(|f| (f.src, f.dst) == (flow.src, flow.dst)).count();
        FlowName { src: flow.src, dst: flow.dst, sport: FIRST_SPORT + before as u32 }
    };
    flows.iter().enumerate().map(name).collect()
}

/// A cell of a row: 64 bits of the digest, and a text.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Int(i64),
    Real(f64),
    /// Left blank in the table; the digest has it.
    Blank(f64),
    Hidden(i64),
}

impl From<u64> for Cell {
    fn from(n: u64) -> Self {
        Self::Int(n as i64)
    }
}

impl Cell {
    fn bits(self) -> u64 {
        match self {
            Self::Int(n) | Self::Hidden(n) => n as u64,
            Self::Real(x) | Self::Blank(x) => x.to_bits(),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Int(n) => n.to_string(),
            Self::Real(x) => x.to_string(),
            Self::Blank(_) | Self::Hidden(_) => String::new(),
        }
    }
}

/// FNV-1a of 64 bits, over little-endian words.
#[derive(Debug)]
struct Fnv64(u64);

impl Fnv64 {
    fn feed(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// All rows of a run.
#[derive(Debug)]
pub struct AckLog {
    names: Vec<FlowName>,
    digest: Fnv64,
    /// How many there were.
    pub count: u64,
    digests: Vec<Vec<String>>,
    /// Rows of the table of the algorithm, without the name of the scenario.
    pub rows: Vec<Vec<String>>,
    /// Their kinds.
    kinds: Vec<u8>,
    /// Rows of `hpcc_updates`.
    pub updates: Vec<Vec<String>>,
    /// The rate is of one hop of several: columns about the path are blank.
    multi_rate: bool,
}

fn kind(moment: Moment) -> u8 {
    match moment {
        Moment::First => 0,
        Moment::Full => 1,
        Moment::Between => 2,
    }
}

impl AckLog {
    /// An empty log of flows with these names.
    pub fn new(names: Vec<FlowName>, multi_rate: bool) -> Self {
        Self {
            names,
            digest: Fnv64(0xcbf2_9ce4_8422_2325),
            count: 0,
            digests: Vec::new(),
            rows: Vec::new(),
            kinds: Vec::new(),
            updates: Vec::new(),
            multi_rate,
        }
    }

    /// The names of flow `flow`.
    pub fn name(&self, flow: u32) -> [u64; 3] {
        let FlowName { src, dst, sport } = self.names[flow as usize];
        [src.into(), dst.into(), sport.into()]
    }

    /// Rows of `digests` without the name.
    pub fn digests(&self) -> Vec<Vec<String>> {
        let mut all = self.digests.clone();
        if self.count > 0 && !self.count.is_multiple_of(ROWS_PER_DIGEST) {
            all.push(self.digest_row());
        }
        all
    }

    fn digest_row(&self) -> Vec<String> {
        vec![self.count.to_string(), format!("{:016x}", self.digest.0)]
    }

    /// The rows of a table that has only the kinds named.
    pub fn rows_of(&self, kinds: &[u8]) -> Vec<Vec<String>> {
        let of = self.rows.iter().zip(&self.kinds).filter(|(_, kind)| kinds.contains(kind));
        of.map(|(row, _)| row.clone()).collect()
    }

    /// One more.
    pub fn heeded(&mut self, e: &Heeded<'_>) {
        let [src, dst, sport] = self.name(e.flow);
        let head = [e.at, src, dst, sport].map(Cell::from);
        let (kind, cells, tail) = match (&e.update, e.controller) {
            (Update::Hpcc(update), Controller::Hpcc(state)) => {
                let (cells, hops) = hpcc_row(e, update, state, self.multi_rate);
                self.note_update(&head, e, update, state);
                (kind(update.moment), cells, Some(hops))
            }
            (Update::Timely(update), Controller::Timely(state)) => {
                (kind(update.moment), timely_row(e, update, state), None)
            }
            (Update::Dctcp(update), Controller::Dctcp(state)) => (1, dctcp_row(e, update, state), None),
            (Update::Pint(update), Controller::Pint(state)) => {
                (kind(update.moment), pint_row(e, update, state), None)
            }
            _ => return,
        };
        let (words, hops) = tail.unwrap_or_default();
        let row = || head.iter().chain(&cells).copied();
        row().for_each(|cell| self.digest.feed(cell.bits()));
        words.into_iter().for_each(|word| self.digest.feed(word));
        // `c` of HPCC is in the digest alone.
        let shown = if hops.is_empty() { cells.len() } else { HPCC_SHOWN };
        let texts = head.iter().chain(&cells[..shown]).map(|cell| cell.text());
        let hops = (!hops.is_empty()).then_some(hops);
        self.rows.push(texts.chain(hops.into_iter().flatten()).collect());
        self.kinds.push(kind);
        self.count += 1;
        if self.count.is_multiple_of(ROWS_PER_DIGEST) {
            self.digests.push(self.digest_row());
        }
    }

    fn note_update(&mut self, head: &[Cell], e: &Heeded<'_>, update: &hpcc::Update, state: &hpcc::Hpcc) {
        if update.moment == Moment::Between {
            return;
        }
        let cells = [
            Cell::Int(kind(update.moment).into()),
            e.ack.acked.into(),
            e.ack.next.into(),
            state.rate_bps().into(),
            u64::from(state.stage()).into(),
            Cell::Real(update.load),
            update.over.into(),
            Cell::Real(state.load()),
        ];
        self.updates.push(head.iter().chain(&cells).map(|cell| cell.text()).collect());
    }
}

/// Cells of an HPCC row behind its head that the table shows; `c`, `nhop` and the hops follow.
const HPCC_SHOWN: usize = 11;

type HopCells = (Vec<u64>, Vec<String>);

fn hpcc_row(e: &Heeded<'_>, update: &hpcc::Update, state: &hpcc::Hpcc, multi: bool) -> (Vec<Cell>, HopCells) {
    let real = |x: f64| if multi { Cell::Blank(x) } else { Cell::Real(x) };
    let int = |n: u64| if multi { Cell::Hidden(n as i64) } else { Cell::from(n) };
    let stage = if multi { 0 } else { state.stage() };
    let cells = vec![
        Cell::Int(kind(update.moment).into()),
        e.ack.acked.into(),
        e.ack.next.into(),
        state.rate_bps().into(),
        e.window.into(),
        state.reference_bps().into(),
        int(stage.into()),
        state.last_update().into(),
        real(update.load),
        int(update.over),
        real(state.load()),
        Cell::Real(update.c),
    ];
    let mut words = vec![e.ack.hops.len() as u64];
    let mut texts = Vec::new();
    for (raw, hop) in e.ack.hops.iter().zip(&update.hops) {
        let fields = [u64::from(raw.code), raw.time.into(), raw.bytes.into(), raw.qlen.into()];
        words.extend(fields);
        words.extend([hop.load.to_bits(), hop.ewma.to_bits(), hop.rate_bps, hop.stage.into()]);
        let [code, time, bytes, qlen] = fields;
        let hpcc::Hop { load, ewma, rate_bps, stage } = hop;
        texts.push(format!("{code}:{time}:{bytes}:{qlen}:{load}:{ewma}:{rate_bps}:{stage}"));
    }
    (cells, (words, vec![e.ack.hops.len().to_string(), texts.join(" ")]))
}

fn timely_row(e: &Heeded<'_>, update: &timely::Update, state: &timely::Timely) -> Vec<Cell> {
    let direction = match update.direction {
        Direction::None => 0,
        Direction::Up => 1,
        Direction::Down => 2,
    };
    vec![
        Cell::Int(kind(update.moment).into()),
        e.ack.acked.into(),
        e.ack.next.into(),
        e.ack.rtt.into(),
        Cell::Int(update.difference),
        Cell::Real(state.smoothed()),
        Cell::Real(update.gradient),
        Cell::Int(direction),
        Cell::Real(update.c),
        state.rate_bps().into(),
        e.window.into(),
        state.rate_bps().into(),
        u64::from(state.stage()).into(),
        state.last_update().into(),
        state.last_rtt().into(),
    ]
}

fn dctcp_row(e: &Heeded<'_>, update: &dctcp::Update, state: &dctcp::Dctcp) -> Vec<Cell> {
    let ((marks, batch), (reduced, high)) = (state.batch(), state.reduced());
    vec![
        Cell::Int(update.new_batch.into()),
        Cell::Int(update.cut.into()),
        e.ack.acked.into(),
        e.ack.next.into(),
        e.ack.marks.into(),
        update.used.0.into(),
        update.used.1.into(),
        update.fraction.map_or(Cell::Blank(-1.0), Cell::Real),
        Cell::Real(state.alpha()),
        marks.into(),
        batch.into(),
        Cell::Int(reduced.into()),
        high.into(),
        state.last_update().into(),
        state.rate_bps().into(),
        e.window.into(),
    ]
}

fn pint_row(e: &Heeded<'_>, update: &pint::Update, state: &pint::Pint) -> Vec<Cell> {
    vec![
        Cell::Int(kind(update.moment).into()),
        e.ack.acked.into(),
        e.ack.next.into(),
        u64::from(e.ack.power).into(),
        Cell::Real(update.load),
        Cell::Real(update.c),
        state.rate_bps().into(),
        e.window.into(),
        state.reference_bps().into(),
        u64::from(state.stage()).into(),
        state.last_update().into(),
    ]
}

//! Which flows are behind marks, losses, pauses and depth: what workers publish of each port second by second, added up
//! over the last minute.

mod document;
pub mod export;

pub(crate) use document::PARAMETERS;
pub use document::{LIMIT, Query, document};

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weir_dataplane::flows::{CAUSES, Cause, Counted, Epoch, FlowId, PortFlows};
use weir_dataplane::stats::Published;

/// Where it is served.
pub const PATH: &str = "/v1/flows";

/// How far back seconds are kept.
const KEPT: u64 = 60;

/// Seconds that are kept as one: as many numbers for each would be much memory on a large switch.
const TOGETHER: u64 = 10;

/// Flows of a cause that are kept of seconds kept as one.
const MOST: usize = 64;

/// What was seen at a port in a second, or what of it has passed; or in several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The last second.
    number: u64,
    /// How many.
    seconds: u64,
    looks: u64,
    totals: [u64; CAUSES],
    looked: [u64; CAUSES],
    covered: [u64; CAUSES],
    flows: [Vec<Counted>; CAUSES],
    /// Most that a flow may have that is not among these.
    unseen: [u64; CAUSES],
}

impl Seen {
    /// With a later second. What may be said of a flow holds of both together.
    fn add(&mut self, later: &Seen) {
        let sums: [Behind; CAUSES] =
            std::array::from_fn(|cause| merged([&*self, later].into_iter(), cause, |_| true));
        self.number = later.number;
        for (cause, sum) in sums.into_iter().enumerate() {
            let Behind { total, looked, covered, looks, seconds, unseen, mut flows } = sum;
            (self.totals[cause], self.looked[cause], self.covered[cause]) = (total, looked, covered);
            (self.looks, self.seconds) = (looks, seconds);
            flows.sort_by_key(|share| (std::cmp::Reverse(share.most), share.id.0));
            self.unseen[cause] = flows.get(MOST).map_or(0, |share| share.most).max(unseen);
            flows.truncate(MOST);
            let counted = |Share { id, least, most }: Share| Counted { id, count: most, over: most - least };
            self.flows[cause] = flows.into_iter().map(counted).collect();
        }
    }
}

/// What is certainly a flow's own.
fn least(flow: &Counted) -> u64 {
    flow.count.saturating_sub(flow.over)
}

impl From<&Epoch> for Seen {
    fn from(epoch: &Epoch) -> Self {
        Self {
            number: epoch.number,
            seconds: u64::from(epoch.number > 0),
            looks: epoch.looks,
            totals: epoch.totals,
            looked: epoch.looked,
            covered: epoch.covered,
            flows: std::array::from_fn(|cause| epoch.flows[cause].flows().collect()),
            unseen: std::array::from_fn(|cause| epoch.flows[cause].unseen()),
        }
    }
}

/// What a port has published: the second under way, and the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowsReading {
    current: Seen,
    previous: Seen,
}

impl FlowsReading {
    /// As a worker publishes it.
    pub fn read(cell: &Published) -> Self {
        Self::of(&cell.read())
    }

    /// The same of what was read.
    pub fn of(flows: &PortFlows) -> Self {
        Self { current: Seen::from(&flows.current), previous: Seen::from(&flows.previous) }
    }
}

/// The last minute of a port.
#[derive(Clone, Debug, Default)]
pub struct Minute {
    /// As last read.
    reading: Arc<FlowsReading>,
    /// Whole seconds, ten of them as one, the last ones at the end.
    whole: VecDeque<Arc<Seen>>,
}

impl Minute {
    /// Takes a reading into account. Seconds in which nobody looked are missing, and are not counted as such.
    pub fn observe(&mut self, reading: Arc<FlowsReading>) {
        let second = &reading.previous;
        let last = self.whole.back().map_or(0, |seen| seen.number);
        if second.number > last {
            match self.whole.back_mut().filter(|seen| seen.number / TOGETHER == second.number / TOGETHER) {
                Some(seen) => Arc::make_mut(seen).add(second),
                None => self.whole.push_back(Arc::new(second.clone())),
            }
        }
        let oldest = reading.current.number.saturating_sub(KEPT);
        self.whole.retain(|seen| seen.number >= oldest);
        self.reading = reading;
    }
}

/// Over which time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// The second under way and the one before.
    Now,
    /// The last 60 to 70 seconds, and the one under way.
    #[default]
    Minute,
}

impl Window {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Now, Self::Minute];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Minute => "minute",
        }
    }
}

/// A flow, and what it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The flow, and where it was seen.
    pub id: FlowId,
    /// At least so much is its own, in the unit of the cause...
    pub least: u64,
    /// ...and at most so much. Both are the same unless there were more flows than can be kept.
    pub most: u64,
}

/// What there was of one cause at a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// All of it.
    pub total: u64,
    /// Frames looked at.
    pub looked: u64,
    /// What these stand for, in the unit of the cause.
    pub covered: u64,
    /// Instants at which queues were looked at.
    pub looks: u64,
    /// Seconds that were added up, the one under way included.
    pub seconds: u64,
    /// Most that a flow may have that is not among them.
    pub unseen: u64,
    /// The flows, those with most first.
    pub flows: Vec<Share>,
}

/// What was behind a cause at a port in this window, of the flows that `wanted` says yes to; totals are of all.
pub fn behind(minute: &Minute, cause: Cause, window: Window, wanted: impl Fn(&FlowId) -> bool) -> Behind {
    let kept = minute.whole.iter().map(Arc::as_ref).filter(|_| window == Window::Minute);
    let last = std::iter::once(&minute.reading.previous).filter(|_| window == Window::Now);
    let seconds = kept.chain(last).chain([&minute.reading.current]).filter(|seen| seen.number > 0);
    let mut sum = merged(seconds, cause as usize, wanted);
    sum.flows.sort_by_key(|share| (std::cmp::Reverse((share.least, share.most)), share.id.0));
    sum
}

/// Several seconds as one. Flows are in no order.
fn merged<'a>(
    seconds: impl Iterator<Item = &'a Seen> + Clone,
    cause: usize,
    wanted: impl Fn(&FlowId) -> bool,
) -> Behind {
    // In a second in which a flow is not shown it may still have as much as the least that is.
    let unseen: u64 = seconds.clone().map(|second| second.unseen[cause]).sum();
    let mut sum = Behind { unseen, ..Behind::default() };
    let mut flows: BTreeMap<[u64; 6], Share> = BTreeMap::new();
    for second in seconds {
        sum.total += second.totals[cause];
        sum.looked += second.looked[cause];
        sum.covered += second.covered[cause];
        sum.looks += second.looks;
        sum.seconds += second.seconds;
        for flow in second.flows[cause].iter().filter(|flow| wanted(&flow.id)) {
            let share = flows.entry(flow.id.0).or_insert(Share { id: flow.id, least: 0, most: unseen });
            share.least += least(flow);
            share.most += flow.count.saturating_sub(second.unseen[cause]);
        }
    }
    sum.flows = flows.into_values().collect();
    sum
}

/// The flow behind most of something at a port just now, and its part of the flows known: what an event names.
pub fn main_flow(minute: &Minute, cause: Cause, wanted: impl Fn(&FlowId) -> bool) -> Option<(FlowId, f64)> {
    let all = behind(minute, cause, Window::Now, wanted);
    let known: u64 = all.flows.iter().map(|share| share.least).sum();
    let first = all.flows.first().filter(|share| share.least > 0)?;
    Some((first.id, first.least as f64 / known as f64))
}

#[cfg(test)]
mod tests;

//! What has become of computations.

use super::time::{PS, Ps};
use std::collections::BTreeMap;
use weir_dataplane::types::Nanos;
use weir_layout::counted;

/// A computation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Computation {
    /// Number of its host.
    pub host: u32,
    /// How long it takes.
    pub ns: Nanos,
    /// It does not begin before this, ns.
    pub start: Nanos,
    /// What it is reported with.
    pub collective: Option<u32>,
    /// When it begins and ends; `None`: it waits for others.
    pub times: Option<(Ps, Ps)>,
}

/// How a computation began that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Began {
    /// When, ns.
    pub at: Nanos,
    /// No earlier than this was possible: it is when its rank begins.
    pub is_start: bool,
}

/// From the first computation of a collective to its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// The first began; `None`: none has.
    pub begin: Option<Nanos>,
    /// The last of those that have ended did.
    pub end: Nanos,
    /// Some have not ended.
    pub open: bool,
}

/// All computations, by some time.
#[derive(Clone, Debug, Default)]
pub(super) struct Computations {
    /// By host and when a computation on it ended: how it began, of several the longest.
    pub ended: BTreeMap<(u32, Nanos), Began>,
    /// By number of the collective.
    pub spans: BTreeMap<u32, Span>,
    all: usize,
    open: usize,
    /// Of those under way the one that ends first: when, its host, and how long it takes.
    under_way: Option<(Ps, u32, Nanos)>,
}

impl Span {
    /// Both.
    fn with(self, other: Self) -> Self {
        Self {
            begin: self.begin.into_iter().chain(other.begin).min(),
            end: self.end.max(other.end),
            open: self.open || other.open,
        }
    }
}

impl Computations {
    /// One more, as it is at `now`.
    pub fn add(&mut self, one: &Computation, now: Ps) {
        let Computation { host, ns, start, collective, times } = *one;
        let begun = times.filter(|(begin, _)| *begin <= now);
        let end = begun.map(|(_, end)| end).filter(|end| *end <= now);
        self.all += 1;
        match (begun, end) {
            (Some((begin, _)), Some(end)) => {
                let began = Began { at: begin.div_ceil(PS), is_start: begin == start.saturating_mul(PS) };
                self.ended_at((host, end.div_ceil(PS)), began);
            }
            (Some((_, end)), None) => self.goes_on((end, host, ns)),
            (None, _) => {}
        }
        self.open += usize::from(end.is_none());
        if let Some(collective) = collective {
            let begin = begun.map(|(begin, _)| begin.div_ceil(PS));
            let end = end.map(|end| end.div_ceil(PS));
            self.widen(collective, Span { begin, end: end.unwrap_or(0), open: end.is_none() });
        }
    }

    /// Those of another part of the fabric, too.
    pub fn extend(&mut self, others: Self) {
        others.ended.into_iter().for_each(|(end, began)| self.ended_at(end, began));
        (self.all, self.open) = (self.all + others.all, self.open + others.open);
        others.under_way.into_iter().for_each(|one| self.goes_on(one));
        others.spans.into_iter().for_each(|(collective, span)| self.widen(collective, span));
    }

    fn ended_at(&mut self, end: (u32, Nanos), began: Began) {
        let longest = self.ended.entry(end).or_insert(began);
        if began.at < longest.at {
            *longest = began;
        }
    }

    fn goes_on(&mut self, one: (Ps, u32, Nanos)) {
        self.under_way = self.under_way.into_iter().chain([one]).min();
    }

    fn widen(&mut self, collective: u32, span: Span) {
        self.spans.entry(collective).and_modify(|own| *own = own.with(span)).or_insert(span);
    }

    /// Some have not ended.
    pub fn is_open(&self) -> bool {
        self.open > 0
    }

    /// What has not ended by `now`, in a sentence; `names` of hosts.
    pub fn unfinished(&self, names: &[String], now: Nanos) -> Option<String> {
        let under_way = self.under_way.map_or(String::new(), |(end, host, ns)| {
            let end = end.div_ceil(PS);
            format!(": {} is at one of {ns} ns, to {end} ns", names[host as usize])
        });
        let all = counted(self.all, "computation");
        self.is_open().then(|| format!("{} of {all} not ended by {now} ns{under_way}", self.open))
    }
}

//! Which input has cells for which output, and the queues they wait in.

use super::{MAX_CROSSBAR_PORTS, ports_of};
use std::collections::VecDeque;
use weir_dataplane::types::PRIORITIES;

/// A matched input and output, and the class whose cell goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The input.
    pub input: u8,
    /// The output.
    pub output: u8,
    /// The class.
    pub class: u8,
}

/// The requests of a slot: every non-empty VOQ asks its output, with its class (SW-071). Kept both
/// ways round, so that an arbiter of either side reads one word.
#[derive(Clone, Debug)]
pub struct Demand {
    ports: usize,
    classes: usize,
    by_input: Vec<u64>,
    by_output: Vec<u64>,
}

impl Demand {
    /// No requests, `ports` (at most [`MAX_CROSSBAR_PORTS`]) on each side, 1 to 8 classes.
    ///
    /// # Panics
    /// With other numbers.
    pub fn new(ports: usize, classes: usize) -> Self {
        assert!((1..=PRIORITIES).contains(&classes), "1 to {PRIORITIES} classes, not {classes}");
        assert!((1..=MAX_CROSSBAR_PORTS).contains(&ports), "1 to {MAX_CROSSBAR_PORTS} ports, not {ports}");
        Self { ports, classes, by_input: vec![0; ports * classes], by_output: vec![0; ports * classes] }
    }

    /// Ports on each side.
    pub fn ports(&self) -> usize {
        self.ports
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Says whether `input` has something of `class` for `output`.
    pub fn set(&mut self, input: usize, output: usize, class: usize, wanted: bool) {
        let (out, inp) = (1u64 << output, 1u64 << input);
        let (row, column) = (class * self.ports + input, class * self.ports + output);
        if wanted {
            self.by_input[row] |= out;
            self.by_output[column] |= inp;
        } else {
            self.by_input[row] &= !out;
            self.by_output[column] &= !inp;
        }
    }

    /// Outputs for which `input` has something of `class`.
    pub fn outputs_wanted(&self, input: usize, class: usize) -> u64 {
        self.by_input[class * self.ports + input]
    }

    /// Inputs that have something of `class` for `output`.
    pub fn inputs_wanting(&self, output: usize, class: usize) -> u64 {
        self.by_output[class * self.ports + output]
    }

    /// Classes of which inputs of a set have something for `output`, a bit each.
    pub fn classes_asking(&self, output: usize, inputs: u64) -> u8 {
        let asks = |class: usize| u8::from(self.inputs_wanting(output, class) & inputs != 0);
        (0..self.classes).fold(0, |set, class| set | asks(class) << class)
    }

    /// Takes all requests back.
    pub fn clear(&mut self) {
        self.by_input.fill(0);
        self.by_output.fill(0);
    }

    /// The pairs that ask for one another in `class`.
    pub fn pairs(&self, class: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.ports)
            .flat_map(move |input| ports_of(self.outputs_wanted(input, class)).map(move |o| (input, o)))
    }
}

/// Virtual output queues `[input][output][class]`, all three from 0 (DEV-14), of anything.
#[derive(Clone, Debug)]
pub struct Voqs<T> {
    queues: Vec<VecDeque<T>>,
    demand: Demand,
}

impl<T> Voqs<T> {
    /// Empty queues.
    pub fn new(ports: usize, classes: usize) -> Self {
        let queues = (0..ports * ports * classes).map(|_| VecDeque::new()).collect();
        Self { queues, demand: Demand::new(ports, classes) }
    }

    /// Number of queues: inputs x outputs x classes.
    pub fn count(&self) -> usize {
        self.queues.len()
    }

    fn index(&self, input: usize, output: usize, class: usize) -> usize {
        debug_assert!(input < self.demand.ports && output < self.demand.ports && class < self.demand.classes);
        (input * self.demand.ports + output) * self.demand.classes + class
    }

    /// What the queues ask for.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Puts `item` at the end of a queue.
    pub fn push(&mut self, input: usize, output: usize, class: usize, item: T) {
        let at = self.index(input, output, class);
        self.queues[at].push_back(item);
        if self.queues[at].len() == 1 {
            self.demand.set(input, output, class, true);
        }
    }

    /// The first item of a queue, for change in place.
    pub fn front_mut(&mut self, pair: Pair) -> Option<&mut T> {
        let at = self.index(pair.input.into(), pair.output.into(), pair.class.into());
        self.queues[at].front_mut()
    }

    /// Takes the first item of a queue.
    pub fn pop(&mut self, pair: Pair) -> Option<T> {
        let (input, output, class) = (pair.input.into(), pair.output.into(), pair.class.into());
        let at = self.index(input, output, class);
        let item = self.queues[at].pop_front();
        if self.queues[at].is_empty() {
            self.demand.set(input, output, class, false);
        }
        item
    }

    /// Items in a queue.
    pub fn len(&self, input: usize, output: usize, class: usize) -> usize {
        self.queues[self.index(input, output, class)].len()
    }

    /// Nothing waits anywhere.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }
}

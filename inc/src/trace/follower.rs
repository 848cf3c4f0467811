//! The stories of frames that are followed, from the engine's port on: which frames are meant, what is still to come of each, and a
//! ring through which another thread hears it.

use super::{Became, Record, Sent, Step, Told, What, Whom};
use crate::engine::Engine;
use crate::job::Transmit;
use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use weir_dataplane::switch::{HandedOn, Key};
use weir_dataplane::types::{Nanos, PortId};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::wire::Syndrome;

/// Frames that are on their way to the engine, and frames whose stories go on, at the same time.
const FOLLOWED: usize = 128;

/// Records that are kept until they are read.
const RECORDS: usize = 4096;

/// The answer that a frame waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// None.
    Nothing,
    /// The next one.
    Next,
    /// An acknowledgement of this PSN or of one behind it.
    Of(Psn),
}

/// What is still to come of the sum a frame is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// Nothing.
    Nothing,
    /// It is not folded.
    Open(u64),
    /// It goes to the engine above.
    Up(u64),
    /// Its result is to come from there.
    Above(u64),
    /// Its result goes to these children, a bit each.
    Down(u64, u64),
}

impl Sum {
    fn down(number: u64, to: u64) -> Self {
        if to == 0 { Self::Nothing } else { Self::Down(number, to) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    key: Key,
    of: Whom,
    answer: Answer,
    sum: Sum,
}

/// Follows frames into an engine. Does not allocate once it is made.
#[derive(Debug)]
pub struct Follower {
    /// Left the switch for the engine.
    expected: ArrayVec<HandedOn, FOLLOWED>,
    open: ArrayVec<Followed, FOLLOWED>,
    records: Records,
}

/// What it tells.
#[derive(Debug)]
struct Records {
    ring: Producer<Record>,
    lost: Arc<AtomicU64>,
}

/// The reader's end.
#[derive(Debug)]
pub struct FollowerReader {
    /// The port of the engine.
    pub port: PortId,
    records: Consumer<Record>,
    lost: Arc<AtomicU64>,
}

impl FollowerReader {
    /// Records that found no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// Records there are; more may come after the end.
impl Iterator for FollowerReader {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.records.pop().ok()
    }
}

impl Records {
    fn tell(&mut self, key: Key, at: Nanos, step: Step, last: bool) {
        if self.ring.push(Record { key, at, step, last }).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Follower {
    /// For the engine behind `port`. Takes a MiB: not to be made by a worker.
    pub fn new(port: PortId) -> (Self, FollowerReader) {
        let (ring, records) = RingBuffer::new(RECORDS);
        let lost = Arc::<AtomicU64>::default();
        let reader = FollowerReader { port, records, lost: Arc::clone(&lost) };
        (Self { expected: ArrayVec::new(), open: ArrayVec::new(), records: Records { ring, lost } }, reader)
    }

    /// These are on their way to the engine.
    pub fn expect(&mut self, handed: impl Iterator<Item = HandedOn>) {
        for handed in handed {
            // Without a place its story ends at the port.
            if self.expected.try_push(handed).is_err() {
                self.records.lost.fetch_add(1, Relaxed);
            }
        }
    }

    /// The frame whose bytes are at `address`, if it is followed.
    fn expected(&mut self, address: usize) -> Option<Key> {
        let at = self.expected.iter().position(|handed| handed.address == address)?;
        Some(self.expected.remove(at).key)
    }

    /// A frame for the engine came.
    pub fn receive(&mut self, engine: &mut Engine, bytes: &[u8], now: Nanos) {
        match self.expected(bytes.as_ptr().addr()) {
            Some(key) => {
                let told = engine.receive_told(bytes, now);
                self.begin(key, told, now);
            }
            None => engine.receive(bytes, now),
        }
        self.look(engine, now);
    }

    /// A frame came that is nothing to the engine but ARP.
    pub fn receive_arp(&mut self, bytes: &[u8], now: Nanos) {
        if let Some(key) = self.expected(bytes.as_ptr().addr()) {
            let told = Told { packet: None, of: None, became: Became::Arp, owes: false };
            self.begin(key, told, now);
        }
    }

    fn begin(&mut self, key: Key, told: Told, now: Nanos) {
        let psn = told.packet.map_or(Psn::default(), |(_, _, psn)| psn);
        let (answered, sum) = match told.became {
            Became::Stored { number, .. } => (true, Sum::Open(number)),
            Became::Result | Became::Names(_) | Became::Ends => (true, Sum::Nothing),
            Became::Answer(_) | Became::Cnp | Became::Arp | Became::Dropped(_) => (false, Sum::Nothing),
        };
        let answer = match (answered, told.owes) {
            (_, true) => Answer::Next,
            (true, false) => Answer::Of(psn),
            (false, false) => Answer::Nothing,
        };
        let next = told.of.map(|of| Followed { key, of, answer, sum }).filter(Followed::goes_on);
        // Where there is no room to follow it further that was all.
        let kept = next.is_some_and(|next| self.open.try_push(next).is_ok());
        self.records.tell(key, now, Step::Came(told), !kept);
    }

    /// The engine has received something, or time has passed for it.
    pub fn look(&mut self, engine: &Engine, now: Nanos) {
        let Self { open, records, .. } = self;
        open.retain(|followed| {
            let mut steps = followed.look(engine);
            let (key, more) = (followed.key, followed.goes_on());
            if !more && steps.is_empty() {
                steps.push(Step::Over);
            }
            let n = steps.len();
            for (i, step) in steps.into_iter().enumerate() {
                records.tell(key, now, step, !more && i + 1 == n);
            }
            more
        });
    }

    /// What the engine sends next.
    pub fn transmit<'a>(&mut self, engine: &'a mut Engine, now: Nanos) -> Option<Transmit<'a>> {
        let (sent, transmit) = engine.transmit_told(now)?;
        let Self { open, records, .. } = self;
        open.retain(|followed| {
            if let Some(sent) = sent.filter(|sent| followed.takes(sent)) {
                records.tell(followed.key, now, Step::Sent(sent), !followed.goes_on());
            }
            followed.goes_on()
        });
        Some(transmit)
    }
}

impl Followed {
    fn goes_on(&self) -> bool {
        (self.answer, self.sum) != (Answer::Nothing, Sum::Nothing)
    }

    /// What has become of its sum since it was looked at last.
    fn look(&mut self, engine: &Engine) -> ArrayVec<Step, 2> {
        let mut steps = ArrayVec::new();
        let Some(job) = engine.job(self.of.job) else {
            (self.answer, self.sum) = (Answer::Nothing, Sum::Nothing);
            steps.push(Step::Gone);
            return steps;
        };
        if let Sum::Open(number) = self.sum
            && let Some((sum, count)) = job.became_of(number)
        {
            self.sum = sum;
            steps.push(Step::Folded(count));
        }
        if let Sum::Above(number) = self.sum
            && let Some(to) = job.result_of(number)
        {
            self.sum = Sum::down(number, to);
        }
        if let Sum::Down(number, to) = self.sum {
            self.sum = Sum::down(number, to & job.alive());
        }
        // Results that are complete still go out.
        if let (Sum::Open(_) | Sum::Above(_), Some((failure, rank, _))) = (self.sum, job.failure()) {
            self.sum = Sum::Nothing;
            steps.push(Step::Failed(failure, rank));
        }
        steps
    }

    /// Whether it waited for this, which it then does no longer.
    fn takes(&mut self, sent: &Sent) -> bool {
        if sent.to.job != self.of.job {
            return false;
        }
        match sent.what {
            What::Answer(syndrome) if sent.to.at == self.of.at => {
                let acknowledges =
                    |psn: Psn| matches!(syndrome, Syndrome::Ack(_)) && sent.psn.since(psn) >= 0;
                let taken = match self.answer {
                    Answer::Nothing => false,
                    Answer::Next => true,
                    Answer::Of(psn) => acknowledges(psn),
                };
                if taken {
                    self.answer = Answer::Nothing;
                }
                taken
            }
            What::Sum => match self.sum {
                Sum::Up(number) if sent.number == Some(number) => {
                    self.sum = Sum::Above(number);
                    true
                }
                _ => false,
            },
            What::Result => match self.sum {
                Sum::Down(number, to) if sent.number == Some(number) && to >> sent.to.at & 1 == 1 => {
                    self.sum = Sum::down(number, to & !(1 << sent.to.at));
                    true
                }
                _ => false,
            },
            What::Answer(_) | What::Other => false,
        }
    }
}

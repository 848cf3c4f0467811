//! Contributions that wait for one another.
//!
//! Each packet with data has a number per child, counted in 64 bits from the start of the job, and number n of all
//! children belongs together. Slot n mod window holds it, and says n: a child that is `window` ahead of the oldest
//! open number is told to wait, so two numbers never meet in a slot (DEV-61, DEV-65).

use crate::immediate::Primitive;
use crate::kernels::Flags;
use crate::params::MAX_CHILDREN;
use arrayvec::ArrayVec;
use weir_dataplane::types::Nanos;

/// What the contributions to a number must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The operation.
    pub operation: Primitive,
    /// Which message of it.
    pub index: u64,
    /// Opens the message.
    pub first: bool,
    /// Ends it.
    pub last: bool,
    /// Bytes.
    pub len: u16,
}

/// A packet of a child.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What it says of itself.
    pub head: Head,
    /// It contributes bytes; else it only says that its sender is there.
    pub source: bool,
    /// The bytes.
    pub payload: &'a [u8],
    /// Ranks in it.
    pub count: u16,
    /// What folds below met.
    pub flags: Flags,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It is kept; so long after the first one of its number, in ns.
    Stored(Nanos),
    /// The result went out without it.
    Late,
    /// The child is too far ahead.
    Full,
    /// The others say something else.
    Mismatch,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The number it holds; meaningful while `arrived` is not zero.
    number: u64,
    /// Children that have contributed.
    arrived: u64,
    /// Those of them whose bytes are here.
    sources: u64,
    head: Head,
    count: u16,
    flags: Flags,
    opened: Nanos,
    /// Which of [`Collector::payloads`] is its; none while `arrived` is zero.
    buffer: u16,
    /// It goes out as it is.
    closed: bool,
}

impl Slot {
    /// A contribution says what the others say. One that contributes nothing says the operation, and where messages are single
    /// packets, which.
    fn agrees(&self, part: &Part<'_>) -> bool {
        if part.source && self.sources != 0 {
            return self.head == part.head;
        }
        let same_index = self.head.index == part.head.index;
        self.head.operation == part.head.operation
            && (same_index || matches!(part.head.operation, Primitive::Broadcast(_)))
    }
}

/// What a slot holds when it goes out.
#[derive(Clone, Copy, Debug)]
pub struct Gathered {
    /// What the contributions have in common.
    pub head: Head,
    /// Ranks in it.
    pub count: u16,
    /// What folds below met.
    pub flags: Flags,
}

/// The window of a job.
#[derive(Clone, Debug)]
pub struct Collector {
    slots: Vec<Slot>,
    /// Room for a payload of each child, as often as there are slots.
    payloads: Vec<u8>,
    /// Those that no slot has. The one that was freed last is taken first: so only what is open at once has to be in a cache.
    free: Vec<u16>,
    mtu: usize,
    children: usize,
    /// Oldest number that has not gone out.
    base: u64,
}

impl Collector {
    /// Bytes of a window.
    pub fn memory(window: u32, mtu: u16, children: usize) -> u64 {
        u64::from(window) * (u64::from(mtu) * children as u64 + (size_of::<Slot>() + size_of::<u16>()) as u64)
    }

    /// `window` slots (a power of two) for so many children (1 to 64).
    pub fn new(window: u32, mtu: u16, children: usize, operation: Primitive) -> Self {
        let (window, mtu) = (window as usize, usize::from(mtu));
        let empty = Slot {
            number: 0,
            arrived: 0,
            sources: 0,
            head: Head { operation, index: 0, first: true, last: true, len: 0 },
            count: 0,
            flags: Flags::default(),
            opened: 0,
            buffer: 0,
            closed: false,
        };
        Self {
            slots: vec![empty; window],
            payloads: crate::outbox::resident(window * mtu * children),
            free: crate::outbox::buffers(window),
            mtu,
            children,
            base: 0,
        }
    }

    fn at(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    /// All children, a bit each.
    pub fn all(&self) -> u64 {
        u64::MAX >> (MAX_CHILDREN - self.children)
    }

    /// Oldest number that has not gone out.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Takes number `number` of a child.
    #[inline]
    pub fn place(&mut self, child: usize, number: u64, part: &Part<'_>, now: Nanos) -> Placed {
        if number < self.base {
            // What went out is known until its slot is taken again.
            let gone = &self.slots[self.at(number)];
            return if gone.number == number && !gone.agrees(part) { Placed::Mismatch } else { Placed::Late };
        }
        if number - self.base >= self.slots.len() as u64 {
            return Placed::Full;
        }
        let at = self.at(number);
        let slot = &mut self.slots[at];
        if slot.arrived == 0 {
            // There are as many as slots.
            let buffer = self.free.pop().unwrap_or_default();
            let (head, flags) = (part.head, Flags::default());
            *slot = Slot {
                number,
                arrived: 0,
                sources: 0,
                head,
                count: 0,
                flags,
                opened: now,
                buffer,
                closed: false,
            };
        }
        debug_assert_eq!(slot.number, number);
        if !slot.agrees(part) {
            return Placed::Mismatch;
        }
        if part.source {
            slot.head = part.head;
            slot.sources |= 1 << child;
            let start = (usize::from(slot.buffer) * self.children + child) * self.mtu;
            let room = &mut self.payloads[start..start + self.mtu];
            if let Some(room) = room.get_mut(..part.payload.len()) {
                room.copy_from_slice(part.payload);
            }
        }
        slot.arrived |= 1 << child;
        slot.count = slot.count.saturating_add(part.count);
        slot.flags |= part.flags;
        Placed::Stored(now.saturating_sub(slot.opened))
    }

    fn oldest(&self) -> Option<&Slot> {
        Some(&self.slots[self.at(self.base)]).filter(|slot| slot.arrived != 0)
    }

    /// The oldest number, if it can go out.
    #[inline]
    pub fn gathered(&self) -> Option<Gathered> {
        let slot = self.oldest().filter(|slot| slot.closed || slot.arrived == self.all())?;
        Some(Gathered { head: slot.head, count: slot.count, flags: slot.flags })
    }

    /// Payloads of the oldest number, in the order of ranks.
    pub fn inputs(&self) -> ArrayVec<&[u8], MAX_CHILDREN> {
        let at = self.at(self.base);
        let slot = &self.slots[at];
        let first = usize::from(slot.buffer) * self.children;
        let mut inputs = ArrayVec::new();
        let mut sources = slot.sources;
        while sources != 0 {
            let start = (first + sources.trailing_zeros() as usize) * self.mtu;
            inputs.push(&self.payloads[start..start + usize::from(slot.head.len)]);
            sources &= sources - 1;
        }
        inputs
    }

    /// The oldest number has gone out.
    pub fn release(&mut self) {
        let at = self.at(self.base);
        self.slots[at].arrived = 0;
        self.free.push(self.slots[at].buffer);
        self.base += 1;
    }

    /// The oldest number waits since then, for these children (bits).
    pub fn waiting(&self) -> Option<(Nanos, u64)> {
        let slot = self.oldest().filter(|slot| !slot.closed && slot.arrived != self.all())?;
        Some((slot.opened, self.all() & !slot.arrived))
    }

    /// Children that a number waits for, a bit each; none where it has gone out.
    pub fn missing(&self, number: u64) -> u64 {
        if number < self.base { 0 } else { self.all() & !self.slots[self.at(number)].arrived }
    }

    /// The oldest number goes out without those that are missing. `false`: it can not, its source is missing.
    pub fn close(&mut self) -> bool {
        let at = self.at(self.base);
        let slot = &mut self.slots[at];
        slot.closed = slot.sources != 0;
        slot.closed
    }

    /// Numbers that are open: each has a buffer.
    pub fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Everything that decides what happens next; payloads follow from numbers and children.
    #[cfg(test)]
    pub fn state(&self) -> (u64, Vec<(u64, u64)>) {
        let open = self.slots.iter().filter(|slot| slot.arrived != 0);
        (self.base, open.map(|slot| (slot.number, slot.arrived)).collect())
    }
}

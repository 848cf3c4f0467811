//! Payloads that are kept until everybody they are for has acknowledged them (DEV-66, DEV-69, DEV-77).

use weir_endpoint::roce::icrc;
use weir_endpoint::roce::shape::Shape;

/// A word is made of no contributions.
pub const NO_NUMBER: u64 = u64::MAX;

/// A packet for one or more peers.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Peers it is for, a bit each.
    pub to: u64,
    /// Those of them that have not acknowledged it.
    waiting: u64,
    /// Its place in a message.
    pub shape: Shape,
    /// Bytes.
    pub len: u16,
    /// Number of the contributions it is made of; [`NO_NUMBER`]: of none.
    pub number: u64,
    /// Immediate data.
    pub imm: Option<u32>,
    /// The immediate data is essential; else it is a status, for those who want one.
    pub named: bool,
    /// CRC of payload and pad.
    pub crc: u32,
    /// Which of [`Outbox::payloads`] is its.
    buffer: u16,
}

impl Entry {
    /// For these peers, with so many bytes.
    pub fn new(to: u64, first: bool, last: bool, len: u16) -> Self {
        let shape = Shape { first, last, write: false };
        Self { to, waiting: to, shape, len, number: NO_NUMBER, imm: None, named: false, crc: 0, buffer: 0 }
    }

    /// An empty message with this word.
    pub fn word(to: u64, imm: u32) -> Self {
        Self { imm: Some(imm), named: true, ..Self::new(to, true, true, 0) }
    }

    /// The last packet of a message that has begun, with this word and one byte.
    pub fn last_word(to: u64, imm: u32) -> Self {
        Self { imm: Some(imm), named: true, ..Self::new(to, false, true, 1) }
    }
}

/// A ring of them, numbered from the start of the job.
#[derive(Clone, Debug)]
pub struct Outbox {
    entries: Vec<Entry>,
    /// Room for a payload, as often as there are entries.
    payloads: Vec<u8>,
    /// Those that no packet has; the one that was freed last is taken first, while it is in a cache.
    free: Vec<u16>,
    mtu: usize,
    /// Oldest one that somebody waits for.
    tail: u64,
    /// Next one.
    head: u64,
}

/// Zeros that lie in memory already: a page that was never written is handed out by the kernel at its first touch, which would
/// be in a polling loop.
pub(crate) fn resident(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    std::hint::black_box(&mut bytes).fill(0);
    bytes
}

/// Numbers of so many buffers, 65536 at most.
pub(crate) fn buffers(n: usize) -> Vec<u16> {
    (0..n).rev().map(|at| at as u16).collect()
}

/// Places that only words take: the one that names an operation before its first packet and the last one of a job; or two last ones, for
/// children in the midst of a result and others.
pub const SPARE: u64 = 2;

impl Outbox {
    /// Bytes of a ring.
    pub fn memory(places: u32, mtu: u16) -> u64 {
        u64::from(places) * (u64::from(mtu) + (size_of::<Entry>() + size_of::<u16>()) as u64)
    }

    /// So many places, a power of two above [`SPARE`].
    pub fn new(places: u32, mtu: u16) -> Self {
        let (places, mtu) = (places as usize, usize::from(mtu));
        let empty = Entry::new(0, true, true, 0);
        Self {
            entries: vec![empty; places],
            payloads: resident(places * mtu),
            free: buffers(places),
            mtu,
            tail: 0,
            head: 0,
        }
    }

    fn at(&self, number: u64) -> usize {
        number as usize & (self.entries.len() - 1)
    }

    /// Whether another packet may be put in.
    pub fn has_room(&self) -> bool {
        self.len() + SPARE < self.entries.len() as u64
    }

    /// Packets kept.
    pub fn len(&self) -> u64 {
        self.head - self.tail
    }

    /// Where the payload of the next packet is to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = usize::from(self.free.last().copied().unwrap_or_default()) * self.mtu;
        &mut self.payloads[start..start + self.mtu]
    }

    /// Puts in a packet whose payload has been written. Where there is room, a word goes before and the last word after it.
    pub fn push(&mut self, entry: Entry) {
        let padded = usize::from(entry.len).next_multiple_of(4);
        let payload = self.payload_mut();
        payload[usize::from(entry.len)..padded].fill(0);
        let crc = icrc::payload(&payload[..padded]);
        let at = self.at(self.head);
        // There are as many as entries.
        let buffer = self.free.pop().unwrap_or_default();
        self.entries[at] = Entry { crc, buffer, ..entry };
        self.head += 1;
        self.release();
    }

    /// A packet that is kept.
    pub fn entry(&self, number: u64) -> &Entry {
        &self.entries[self.at(number)]
    }

    /// The packet made of these contributions, if it is kept.
    pub fn made_of(&self, number: u64) -> Option<&Entry> {
        (self.tail..self.head).rev().map(|n| self.entry(n)).find(|entry| entry.number == number)
    }

    /// Its payload and pad.
    pub fn payload(&self, number: u64) -> &[u8] {
        let entry = self.entry(number);
        let (start, len) = (usize::from(entry.buffer) * self.mtu, usize::from(entry.len).next_multiple_of(4));
        &self.payloads[start..start + len]
    }

    /// First packet from `number` on that is for the peer with this bit. What nobody waits for any more is not looked at: its
    /// place may hold another packet.
    pub fn next_for(&self, number: u64, bit: u64) -> u64 {
        (number.max(self.tail)..self.head).find(|&n| self.entry(n).to & bit != 0).unwrap_or(self.head)
    }

    /// The peer has this packet.
    pub fn acknowledge(&mut self, number: u64, bit: u64) {
        let at = self.at(number);
        self.entries[at].waiting &= !bit;
        self.release();
    }

    /// The peer will never acknowledge anything.
    pub fn abandon(&mut self, bit: u64) {
        for number in self.tail..self.head {
            let at = self.at(number);
            self.entries[at].waiting &= !bit;
        }
        self.release();
    }

    fn release(&mut self) {
        while self.tail < self.head && self.entry(self.tail).waiting == 0 {
            self.free.push(self.entry(self.tail).buffer);
            self.tail += 1;
        }
    }

    /// Everything that decides what happens next.
    #[cfg(test)]
    pub fn state(&self) -> (u64, u64, Vec<(u64, u32)>) {
        let kept = (self.tail..self.head).map(|n| (self.entry(n).waiting, self.entry(n).crc));
        (self.tail, self.head, kept.collect())
    }
}

//! What switches write into data frames for their senders: INT records, and PINT's load code.
//!
//! Widths and units are those of the published HPCC simulator. A record is 64 bits on the wire: link rate code 3,
//! time 24, bytes sent 20, queue length 17.
use weir_dataplane::types::Nanos;

/// Records a frame carries; a longer path overwrites the first ones.
pub const MAX_HOPS: usize = 5;
/// Bytes of the INT header of a frame: five records and a count.
pub const INT_BYTES: u16 = 42;
/// Bytes of the PINT field of a frame.
pub const PINT_BYTES: u16 = 2;
/// Bytes of the time stamp TIMELY's frames carry.
pub const TIME_BYTES: u16 = 8;

const TIME_MASK: u32 = (1 << 24) - 1;
const BYTES_MASK: u32 = (1 << 20) - 1;
const QUEUE_MASK: u32 = (1 << 17) - 1;
/// Bytes of a unit of the byte counter at a multiplier of 1.
pub const BYTES_UNIT: u64 = 128;
/// The same of the queue length.
const QUEUE_UNIT: u64 = 80;

/// Rates with a code, Gb/s. The first five are those of the published simulator; the others fill its three bits.
const RATES: [u64; 8] = [25, 50, 100, 200, 400, 10, 40, 800];
/// Codes the published simulator has.
pub const PUBLISHED_CODES: u8 = 5;

/// The code of a link rate in bit/s; `None`: it has none, and the link cannot be on an INT path.
pub fn rate_code(rate_bps: u64) -> Option<u8> {
    RATES.iter().position(|gbps| gbps * 1_000_000_000 == rate_bps).map(|code| code as u8)
}

/// The record of one hop, in the units of the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntHop {
    /// Code of the link rate.
    pub code: u8,
    /// Which port of the network wrote it, modulo 2^16; the published simulator does not say, and has 0. In place of the paper's
    /// `pathID`, which is one for the path.
    pub port: u16,
    /// Time of departure, ns modulo 2^24.
    pub time: u32,
    /// Bytes the port had sent, units of 128 times the multiplier, modulo 2^20.
    pub bytes: u32,
    /// Bytes that waited behind, units of 80 times the multiplier, modulo 2^17.
    pub qlen: u32,
}

impl IntHop {
    /// What a port with rate code `code` writes at `now` when it has sent `sent` bytes and `queued` bytes wait.
    #[inline]
    pub fn new(code: u8, now: Nanos, sent: u64, queued: u64, multiplier: u64) -> Self {
        Self {
            code,
            port: 0,
            time: now as u32 & TIME_MASK,
            bytes: (sent / (BYTES_UNIT * multiplier)) as u32 & BYTES_MASK,
            qlen: (queued / (QUEUE_UNIT * multiplier)) as u32 & QUEUE_MASK,
        }
    }

    /// Link rate, bit/s.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        RATES[usize::from(self.code & 7)] * 1_000_000_000
    }

    /// Nanoseconds since an earlier record of the same hop; at least 1, as no port sends two frames at once.
    #[inline]
    pub fn since(&self, earlier: &Self) -> u64 {
        u64::from(self.time.wrapping_sub(earlier.time) & TIME_MASK).max(1)
    }

    /// Bytes sent since an earlier record of the same hop.
    #[inline]
    pub fn bytes_since(&self, earlier: &Self, multiplier: u64) -> u64 {
        u64::from(self.bytes.wrapping_sub(earlier.bytes) & BYTES_MASK) * BYTES_UNIT * multiplier
    }

    /// Bytes that waited.
    #[inline]
    pub fn queued(&self, multiplier: u64) -> u64 {
        u64::from(self.qlen) * QUEUE_UNIT * multiplier
    }
}

/// What a data frame carries to its receiver, and an acknowledgement back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stamp {
    /// When its sender put it on the line.
    pub sent: Nanos,
    /// Marked data frames the acknowledgement speaks of.
    pub marks: u64,
    /// It is on its way back: nobody writes into it.
    pub returns: bool,
    /// Largest load code of the path.
    power: u16,
    /// Switches passed.
    count: u16,
    records: [IntHop; MAX_HOPS],
}

impl Stamp {
    /// Of a data frame that is sent now.
    pub fn new(sent: Nanos) -> Self {
        Self { sent, ..Self::default() }
    }

    /// The same on its way back, with the marks it speaks of.
    pub fn returning(&self, marks: u64) -> Self {
        Self { marks, returns: true, ..*self }
    }

    /// INT records, in the order of the path.
    pub fn hops(&self) -> &[IntHop] {
        &self.records[..usize::from(self.count).min(MAX_HOPS)]
    }

    /// Largest load code of the path.
    pub fn power(&self) -> u16 {
        self.power
    }

    /// A switch writes its record. Behind the fifth they take the places of the first.
    pub fn push(&mut self, hop: IntHop) {
        self.records[usize::from(self.count) % MAX_HOPS] = hop;
        self.count = self.count.saturating_add(1);
    }

    /// A switch has this load code.
    pub fn raise(&mut self, power: u16) {
        self.power = self.power.max(power);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_wrap_at_their_widths() {
        let early = IntHop::new(2, (1 << 24) - 10, 512 * ((1 << 20) - 1), 0, 4);
        let late = IntHop::new(2, (1 << 24) + 77, 512 * (1 << 20), 640, 4);
        assert_eq!((late.since(&early), late.bytes_since(&early, 4), late.queued(4)), (87, 512, 640));
        assert_eq!(late.rate_bps(), 100_000_000_000);
        assert_eq!((rate_code(400_000_000_000), rate_code(1_000_000_000)), (Some(4), None));
    }
}

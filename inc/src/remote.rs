//! RDMA WRITE instead of SEND, from a host and to it (IBTA 9.4.3, 9.7.4.1.5).
//!
//! A job takes what comes in the order in which it was sent; where in its memory a host writes does not matter to it. So what an
//! engine shows of "its memory" is a key and a range that a RETH is held against, and no byte is stored twice.

use weir_endpoint::roce::wire::Reth;

/// A range of somebody's registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// First address.
    pub addr: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes.
    pub len: u64,
}

impl Memory {
    /// Whether a WRITE goes into it. One without bytes may name anything (IBTA 9.7.4.1.5.1).
    pub fn holds(&self, reth: &Reth) -> bool {
        let within = || {
            let from = reth.va.checked_sub(self.addr)?;
            Some(from.checked_add(reth.len.into())? <= self.len)
        };
        reth.len == 0 || (reth.rkey == self.rkey && within().unwrap_or(false))
    }

    /// Where packet `index` goes, if it is cut into places of `mtu` bytes that are used in turn.
    pub fn place(&self, index: u64, mtu: u16, len: u16) -> Reth {
        let places = (self.len / u64::from(mtu)).max(1);
        Reth { va: self.addr + index % places * u64::from(mtu), rkey: self.rkey, len: len.into() }
    }
}

/// What becomes of WRITEs of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// They are refused.
    #[default]
    Refused,
    /// They are contributions, if they go into this memory, which the host was told of.
    Into(Memory),
    /// They name the host's own memory, and the result of each packet is written there. They are acknowledged when the host
    /// has acknowledged that: what the host's adapter calls done is the sum in place. So do the hosts of INCCL.
    Mirrored,
}

/// What a host has to do with WRITEs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// What becomes of its own.
    pub writes: Writes,
    /// Where results are written; `None`: they are SENDs.
    pub results: Option<Memory>,
}

impl Remote {
    /// There are WRITEs one way or the other.
    pub fn is_used(&self) -> bool {
        *self != Self::default()
    }

    /// What is wrong with it, for packets of `mtu` bytes.
    pub fn check(&self, mtu: u16) -> Result<(), &'static str> {
        let taken = match self.writes {
            Writes::Into(memory) => Some(memory),
            Writes::Refused | Writes::Mirrored => None,
        };
        if [taken, self.results].into_iter().flatten().any(|m| m.addr.checked_add(m.len).is_none()) {
            return Err("memory that ends beyond the last address");
        }
        if taken.is_some_and(|m| m.len == 0) {
            return Err("memory for its WRITEs without a byte");
        }
        if self.results.is_some_and(|m| m.len < u64::from(mtu)) {
            return Err("memory for results that is shorter than a packet");
        }
        if self.writes == Writes::Mirrored && self.results.is_some() {
            return Err("two places for a result: the one its WRITE names, and memory of its own");
        }
        Ok(())
    }
}

/// A contribution of a host whose WRITEs are mirrored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Origin {
    va: u64,
    rkey: u32,
    write: bool,
    last: bool,
}

/// Contributions of such a host that it has not got the result of. Its packets, numbers of the job and results to it are
/// counted alike: all it may send is AllReduce, without words.
#[derive(Clone, Debug)]
pub struct Mirror {
    origins: Vec<Origin>,
    /// Contributions so far.
    taken: u64,
    /// Those of which the result is acknowledged.
    released: u64,
    /// After the newest WRITE.
    written: u64,
    /// Messages among those that are released, 24 bits.
    msn: u32,
}

impl Mirror {
    /// Contributions between the oldest result that is not acknowledged and the newest: those in the window, those whose sums
    /// are with the parent, and results.
    pub fn places(window: u32, results: u32) -> usize {
        (3 * window as usize + results as usize).next_power_of_two()
    }

    /// Bytes of so many.
    pub fn memory(places: usize) -> u64 {
        (size_of::<Self>() + places * size_of::<Origin>()) as u64
    }

    /// Without contributions.
    pub fn new(places: usize) -> Self {
        Self { origins: vec![Origin::default(); places], taken: 0, released: 0, written: 0, msn: 0 }
    }

    fn at(&self, n: u64) -> usize {
        n as usize & (self.origins.len() - 1)
    }

    /// A contribution was taken; a WRITE goes to `reth`.
    pub fn take(&mut self, reth: Option<Reth>, last: bool) {
        let at = self.at(self.taken);
        let (va, rkey) = reth.map_or((0, 0), |reth| (reth.va, reth.rkey));
        self.origins[at] = Origin { va, rkey, write: reth.is_some(), last };
        self.taken += 1;
        if reth.is_some() {
            self.written = self.taken;
        }
    }

    /// The host has the oldest result.
    pub fn release(&mut self) {
        self.msn = (self.msn + u32::from(self.origins[self.at(self.released)].last)) & 0xff_ffff;
        self.released += 1;
    }

    /// Where the result of contribution `n` goes, of `len` bytes; `None`: it is a SEND.
    pub fn target(&self, n: u64, len: u16) -> Option<Reth> {
        let origin = self.origins[self.at(n)];
        let known = n < self.taken && origin.write;
        known.then_some(Reth { va: origin.va, rkey: origin.rkey, len: len.into() })
    }

    /// The first contribution that is not to be acknowledged yet, and messages before it; `None`: all are.
    pub fn held(&self) -> Option<(u64, u32)> {
        (self.released < self.written).then_some((self.released, self.msn))
    }
}

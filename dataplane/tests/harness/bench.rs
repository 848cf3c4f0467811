//! One switch, driven frame by frame; its invariants are checked after every step.

use super::frames::{host, ipv4, stamp};
use super::{build::dscp, lab::audit_mmu};
use weir_dataplane::drops::DropReason;
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::mmu::{PgIx, PgView};
use weir_dataplane::pfc::frame::{Control, PfcFrame, decode};
use weir_dataplane::stats::PortStats;
use weir_dataplane::switch::{Switch, SwitchParams, Wire};
use weir_dataplane::types::{BURST, Burst, Nanos, PRIORITIES, PortId};

/// How an egress port is kept from sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// By the switch's own command.
    Hold,
    /// By PFC from the peer, for all priorities the port obeys.
    Storm,
}

#[derive(Default)]
struct Tap {
    frames: Vec<Vec<u8>>,
    control: Vec<Vec<u8>>,
}

impl Wire<OwnedFrame> for Tap {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let n = frames.len();
        self.frames.extend(frames.drain(..).map(|f| f.bytes().to_vec()));
        n
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        self.control.push(frame.to_vec());
        true
    }
}

/// A switch and the hand that feeds it.
pub struct Bench {
    pub s: Switch<OwnedFrame>,
    pub now: Nanos,
    seq: u64,
}

impl Bench {
    pub fn new(params: SwitchParams) -> Self {
        Self { s: Switch::new(params).unwrap(), now: 0, seq: 0 }
    }

    /// Keeps `port` from sending anything.
    pub fn block(&mut self, port: u16, how: Block) {
        match how {
            Block::Hold => self.s.hold_back(PortId(port), 0xff),
            Block::Storm => self.control(port, &PfcFrame::uniform(0xff, 0xffff)),
        }
    }

    /// The opposite of [`Bench::block`].
    pub fn unblock(&mut self, port: u16) {
        self.s.hold_back(PortId(port), 0);
        self.control(port, &PfcFrame::uniform(0xff, 0));
    }

    /// A PFC frame arrives at `port`.
    pub fn control(&mut self, port: u16, frame: &PfcFrame) {
        self.put(port, frame.encode(host(port)).to_vec());
    }

    /// Any frame arrives at `port`.
    pub fn put(&mut self, port: u16, frame: Vec<u8>) {
        let mut burst: Burst<_> = [OwnedFrame::new(frame)].into_iter().collect();
        self.s.receive(PortId(port), &mut burst, self.now);
        self.s.tick(self.now);
        self.check();
    }

    /// An IPv4 frame of `priority` arrives. Why it was dropped, if it was.
    pub fn send(&mut self, from: u16, to: u16, priority: u8, len: usize) -> Option<DropReason> {
        let mut frame = ipv4(host(from), host(to), dscp(priority), 2, len);
        self.seq += 1;
        stamp(&mut frame, u32::from(from) << 16 | u32::from(to) << 8 | u32::from(priority), self.seq);
        let before = self.all_drops();
        self.put(from, frame);
        let after = self.all_drops();
        let grown: Vec<_> =
            DropReason::ALL.iter().filter(|r| after[**r as usize] > before[**r as usize]).collect();
        assert!(grown.len() <= 1, "one reason per frame: {grown:?}");
        grown.first().map(|reason| **reason)
    }

    /// What leaves `port` as control when nothing else may.
    pub fn pfc(&mut self, port: u16) -> Option<PfcFrame> {
        self.pfc_bytes(port).map(|bytes| match decode(&bytes) {
            Control::Pfc(frame) => frame,
            other => panic!("{other:?}"),
        })
    }

    /// The same as bytes.
    pub fn pfc_bytes(&mut self, port: u16) -> Option<Vec<u8>> {
        let mut tap = Tap::default();
        self.s.transmit(PortId(port), 0, self.now, &mut tap);
        self.check();
        assert!(tap.frames.is_empty() && tap.control.len() <= 1);
        tap.control.pop()
    }

    /// At most `n` data frames leave `port`.
    pub fn pull(&mut self, port: u16, n: usize) -> Vec<Vec<u8>> {
        let mut tap = Tap::default();
        while tap.frames.len() < n {
            let left = (n - tap.frames.len()).min(BURST);
            let got = self.s.transmit(PortId(port), left, self.now, &mut tap);
            self.s.tick(self.now);
            self.check();
            if got == 0 {
                break;
            }
        }
        tap.frames
    }

    /// Everything leaves `port`.
    pub fn pull_all(&mut self, port: u16) -> Vec<Vec<u8>> {
        self.pull(port, usize::MAX)
    }

    /// Sends frames until `from` is told to pause `priority`: the number of the frame that did it.
    /// Nothing may be lost before.
    pub fn fill_to_xoff(&mut self, from: u16, to: u16, priority: u8, len: usize) -> u64 {
        for n in 1.. {
            assert_eq!(self.send(from, to, priority, len), None, "frame {n}");
            assert!(self.pull(to, 1).is_empty(), "the egress is blocked");
            if let Some(pfc) = self.pfc(from) {
                assert_eq!((pfc.enable, pfc.time[usize::from(priority)] > 0), (1 << priority, true));
                return n;
            }
        }
        unreachable!()
    }

    /// Sends frames until one is lost: how many were not, and why it was.
    pub fn fill_to_drop(&mut self, from: u16, to: u16, priority: u8, len: usize) -> (u64, DropReason) {
        (0..).find_map(|n| self.send(from, to, priority, len).map(|reason| (n, reason))).unwrap()
    }

    pub fn stats(&self, port: u16) -> &PortStats {
        self.s.stats(PortId(port))
    }

    pub fn pg(&self, port: u16, pg: u8) -> PgView {
        self.s.admission().pg(PgIx(u32::from(port) * PRIORITIES as u32 + u32::from(pg)))
    }

    /// Frames lost on the whole switch for this reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.all_drops()[reason as usize]
    }

    fn all_drops(&self) -> Vec<u64> {
        let mut sum = vec![0; DropReason::ALL.len()];
        for port in 0..self.s.ports() as u16 {
            sum.iter_mut().zip(&self.stats(port).drops.0).for_each(|(a, b)| *a += b);
        }
        sum
    }

    /// Frames lost on the whole switch.
    pub fn lost(&self) -> u64 {
        self.all_drops().iter().sum()
    }

    /// The invariants of B13.
    pub fn check(&self) {
        audit_mmu(&self.s);
    }
}

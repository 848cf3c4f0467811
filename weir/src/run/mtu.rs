//! What an interface of the kernel takes, where that is less than its port may send.
//!
//! `net_af_packet` hands frames to the kernel by a ring whose slots come back used whether a frame was sent or was too long for the
//! interface (`PACKET_LOSS` of packet(7)): neither of them counts the loss. So the driver is given none that the kernel would
//! lose, and they are counted here.

use super::af_packet;
use crate::machine::Machine;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use weir_config::PortConfig;
use weir_dataplane::frame::Frame;
use weir_dataplane::types::Burst;

/// Ethernet header, which the MTU of an interface does not count.
const HEADER: u32 = 14;
/// A tag of 802.1Q, which it does not count either.
const TAG: u32 = 4;
/// Where the EtherType is, and that of a tag.
const ETHERTYPE: std::ops::Range<usize> = 12..14;
const TAGGED: [u8; 2] = [0x81, 0x00];
/// How often it is looked what an interface takes: until then the kernel loses what it does not.
const LOOK: Duration = Duration::from_millis(100);
/// Of an interface that does not say.
const ANYTHING: u32 = u32::MAX - HEADER - TAG;

/// The longest frame that fits an MTU, bytes: it has a tag.
pub fn longest(mtu: u32) -> u32 {
    mtu + HEADER + TAG
}

/// What the interface of a port takes, and what it did not: for those who send, those who look at it, and those who count.
#[derive(Clone, Debug)]
pub struct Carries(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    mtu: AtomicU32,
    too_long: AtomicU64,
}

impl Default for Carries {
    fn default() -> Self {
        Self(Arc::new(Shared { mtu: ANYTHING.into(), too_long: 0.into() }))
    }
}

impl Carries {
    /// The MTU of the interface, as it is now; `None`: it does not say.
    pub fn set(&self, mtu: Option<u32>) {
        self.0.mtu.store(mtu.unwrap_or(ANYTHING).min(ANYTHING), Relaxed);
    }

    /// Frames that were lost since they did not fit.
    pub fn too_long(&self) -> u64 {
        self.0.too_long.load(Relaxed)
    }

    /// As the kernel decides it (`tpacket_snd`).
    #[inline]
    fn takes(&self, frame: &impl Frame) -> bool {
        let (len, most) = (frame.len() as u32, self.0.mtu.load(Relaxed) + HEADER);
        len <= most || (len <= most + TAG && frame.bytes().get(ETHERTYPE) == Some(&TAGGED[..]))
    }

    /// All of them fit.
    #[inline]
    pub fn takes_all<F: Frame>(&self, frames: &Burst<F>) -> bool {
        frames.iter().all(|frame| self.takes(frame))
    }

    /// Sends those that fit, in order, and loses the others. Returns how many have left the burst, from its front.
    #[cold]
    pub fn send<F: Frame>(
        &self,
        frames: &mut Burst<F>,
        mut send: impl FnMut(&mut Burst<F>) -> usize,
    ) -> usize {
        let before = frames.len();
        while !frames.is_empty() {
            let fit = frames.iter().take_while(|frame| self.takes(*frame)).count();
            if fit > 0 {
                let mut some: Burst<F> = frames.drain(..fit).collect();
                send(&mut some);
                if !some.is_empty() {
                    some.extend(frames.drain(..));
                    *frames = some;
                    break;
                }
            }
            let lost = frames.iter().take_while(|frame| !self.takes(*frame)).count();
            frames.drain(..lost);
            self.0.too_long.fetch_add(lost as u64, Relaxed);
        }
        before - frames.len()
    }
}

/// Looks whether the interface behind a port takes what the port may send: the kernel tells nobody that it takes less than before.
#[derive(Debug)]
pub struct MtuWatch {
    due: Instant,
    /// That it is too small, as last said.
    small: Option<u32>,
}

/// What has changed.
#[derive(Debug)]
pub struct MtuChange {
    /// MTU of the interface now.
    pub mtu: u32,
    /// It is too small for the port: what that does, and what to change.
    pub trouble: Option<(String, String)>,
}

impl MtuWatch {
    /// From now on.
    pub fn new() -> Self {
        Self { due: Instant::now(), small: None }
    }

    /// Where it is time: tells those who send by the port, and says what is new.
    pub fn look(
        &mut self,
        port: &PortConfig,
        interface: &str,
        carries: Option<&Carries>,
    ) -> Option<MtuChange> {
        if Instant::now() < self.due {
            return None;
        }
        self.due = Instant::now() + LOOK;
        let mtu = Machine::here().mtu(interface);
        if let Some(carries) = carries {
            carries.set(mtu);
        }
        // One that is gone takes nothing, which is said of its link.
        let mtu = mtu?;
        let trouble = af_packet::too_small(port, interface, mtu);
        let small = trouble.as_ref().map(|_| mtu);
        (std::mem::replace(&mut self.small, small) != small).then_some(MtuChange { mtu, trouble })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_dataplane::frame::OwnedFrame;

    fn frame(len: usize, ethertype: [u8; 2]) -> OwnedFrame {
        let mut bytes = vec![0; len];
        bytes[ETHERTYPE].copy_from_slice(&ethertype);
        OwnedFrame::new(bytes)
    }

    #[test]
    fn a_tag_does_not_count() {
        let carries = Carries::default();
        let fits = |len, ethertype| carries.takes(&frame(len, ethertype));
        assert!(fits(60_000, [8, 0]), "nobody says what it takes");
        carries.set(Some(1500));
        assert!(fits(1514, [8, 0]) && !fits(1515, [8, 0]) && fits(1518, TAGGED) && !fits(1519, TAGGED));
        assert_eq!(longest(1500), 1518);
        // The kernel knows one kind of tag.
        assert!(!fits(1515, [0x88, 0xa8]));
        carries.set(None);
        assert!(fits(60_000, [8, 0]));
    }

    #[test]
    fn what_fits_is_sent_in_order_and_the_rest_is_counted() {
        const LENGTHS: [usize; 8] = [100, 2000, 3000, 200, 300, 4000, 400, 5000];
        // A wire that takes so many at a time.
        for room in 1..4 {
            let carries = Carries::default();
            carries.set(Some(1500));
            let mut frames: Burst<_> = LENGTHS.iter().map(|len| frame(*len, [8, 0])).collect();
            let (mut sent, mut turns) = (Vec::new(), 0);
            while !frames.is_empty() && turns < 20 {
                let (before, mut left) = (frames.len(), room);
                let gone = carries.send(&mut frames, |some| {
                    let n = some.len().min(left);
                    left -= n;
                    sent.extend(some.drain(..n).map(|frame| frame.len()));
                    n
                });
                assert_eq!(gone, before - frames.len());
                turns += 1;
            }
            assert_eq!((sent, carries.too_long()), (vec![100, 200, 300, 400], 4), "{room} at a time");
        }
    }
}

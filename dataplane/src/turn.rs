//! How much one turn of a polling loop may do, so that it comes round within the time headroom is reckoned with.
//!
//! What is counted is frames, each at its planned cost: a processor that is faster comes round sooner, one that is
//! taken away is another matter. A turn receives at most [`frames`] frames, and sends at most twice as many less those it
//! received, so it takes no longer than [`gap`] by this plan.

use crate::types::Nanos;

/// Planned time to receive and send a frame, driver included, ns. Kinds of frames that cost more (those nothing is kept about, copies, and
/// many classes on a slow core: `docs/performance.md`) make a turn longer than planned, and the lcore's longest turn says by how much.
pub const FRAME_NS: Nanos = 41;

/// Frames every port may give in every turn. Vector drivers give multiples of 4, 8 or 32, and none to those who ask for
/// fewer; 32 is a multiple of all.
pub const LEAST: usize = 32;

/// Frames an lcore with `ports` ports receives in one turn at most: as many as fit into `poll_gap`, or [`LEAST`] of
/// each port (two at least, as many as go together from lcore to lcore) and a quarter more where that is more. The
/// quarter is for the busy ones among many: bursts of [`LEAST`] frames would cost each frame too much of a turn.
pub fn frames(ports: usize, poll_gap: Nanos) -> usize {
    ((poll_gap / FRAME_NS) as usize).max(ports.max(2) * LEAST * 5 / 4)
}

/// Frames an lcore receives at most in a turn after one that could not send all it was to: a quarter less than [`frames`], and it
/// sends a quarter more. Otherwise a backlog, once it is there, would stay as long as frames come as fast as they can be moved.
#[inline(always)]
pub fn frames_behind(frames: usize) -> usize {
    frames - frames / 4
}

/// What each of `busy` ports may give if the others of `ports` give [`LEAST`], of `frames` together.
#[inline(always)]
pub fn share(frames: usize, ports: usize, busy: usize) -> usize {
    LEAST + frames.saturating_sub(ports * LEAST) / busy.max(1)
}

/// Longest time between two looks at a port, by plan: `poll_gap`, or what it takes to go round `ports` ports that all
/// have frames, where that is more.
pub fn gap(ports: usize, poll_gap: Nanos) -> Nanos {
    poll_gap.max(frames(ports, poll_gap) as Nanos * FRAME_NS)
}

/// Who moves the frames of a switch. All that polling adds to a headroom is made here, of [`Platform::turns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Lcores that look at their ports in turn.
    Polled,
    /// Events in virtual time: each comes when it is due, and no frame is handed over before the wire is free. What
    /// `pfc.poll_gap` stands for is the time a frame spends in a pipeline, where it is not counted.
    Simulated,
}

/// How late a port may be looked at, by plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Longest time between two looks at a port, ns: frames wait in its receive ring, and pauses in software.
    pub gap: Nanos,
    /// Lateness that its shaper makes up for, ns. What the wire sends in this time may stand in the transmit ring, before
    /// a pause.
    pub burst: Nanos,
}

impl Platform {
    /// For a port on an lcore that has `ports` of them. A shaper that makes up for one gap reaches the rate of the wire: no
    /// look comes later, and the frame that the credit does not cover is paid for afterwards, however slow the port.
    pub fn turns(self, ports: usize, poll_gap: Nanos) -> Turns {
        match self {
            Self::Polled => Turns { gap: gap(ports, poll_gap), burst: gap(ports, poll_gap) },
            Self::Simulated => Turns { gap: poll_gap, burst: 0 },
        }
    }
}

/// Frames of one turn, shared by the ports that are still to be asked.
#[derive(Clone, Copy, Debug)]
pub struct Ration {
    left: usize,
    ports: usize,
}

impl Ration {
    /// `frames` for `ports` ports: at least [`LEAST`] for each.
    #[inline(always)]
    pub fn new(frames: usize, ports: usize) -> Self {
        Self { left: frames.max(ports * LEAST), ports }
    }

    /// What the next port may give at most, `share` if that leaves [`LEAST`] for each of those behind it.
    #[inline(always)]
    pub fn next(&mut self, share: usize) -> usize {
        self.ports = self.ports.saturating_sub(1);
        share.min(self.left.saturating_sub(self.ports * LEAST)).max(LEAST)
    }

    /// It gave so many.
    #[inline(always)]
    pub fn take(&mut self, frames: usize) {
        self.left = self.left.saturating_sub(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_holds_as_long_as_every_port_can_have_its_least() {
        // 10 us are 243 frames, 40 of each of six ports.
        assert_eq!([1, 2, 6, 7, 32].map(|ports| frames(ports, 10_000)), [243, 243, 243, 280, 1280]);
        assert_eq!(
            [1, 2, 6, 7, 32].map(|ports| gap(ports, 10_000)),
            [10_000, 10_000, 10_000, 11_480, 52_480]
        );
        assert_eq!((frames(1, 0), gap(1, 0)), (80, 3280));
    }

    #[test]
    fn busy_ports_share_what_idle_ones_leave() {
        assert_eq!([1, 2, 16, 32].map(|busy| share(1280, 32, busy)), [288, 160, 48, 40]);
        for (ports, busy) in (1..=32).flat_map(|ports| (1..=ports).map(move |busy| (ports, busy))) {
            let all = frames(ports, 10_000);
            let share = share(all, ports, busy);
            assert!(busy * share + (ports - busy) * LEAST <= all, "{busy} of {ports}");
            // None of them is held back by those behind it that have nothing to give.
            let mut ration = Ration::new(all, ports);
            for _ in 0..busy {
                assert_eq!(ration.next(share), share, "{busy} of {ports}");
                ration.take(share);
            }
        }
    }

    #[test]
    fn greedy_ports_get_no_more_than_there_is_and_modest_ones_what_they_need() {
        for ports in 1..=32 {
            for (share, greedy) in [(32, 32), (60, 60), (256, 256)] {
                let all = frames(ports, 10_000);
                let mut ration = Ration::new(all, ports);
                let given = (0..ports).map(|_| {
                    let most = ration.next(share);
                    assert!(most >= LEAST);
                    let gave = most.min(greedy);
                    ration.take(gave);
                    gave
                });
                assert!(given.sum::<usize>() <= all, "{ports} ports, share {share}");
            }
        }
    }
}

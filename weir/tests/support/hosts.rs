//! Traffic hosts at the far ends of veth pairs: they send known flows, obey PFC or do not, and check
//! what arrives.

use super::wait_for;
use super::wire::Socket;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_dataplane::types::Mac;
use weir_endpoint::traffic::{Flow, FlowReport, Host, HostConfig, HostReport, Peer};

/// Longest frame a host reads; longer ones would be cut and so be seen as changed.
const LONGEST: usize = 16_384;

/// One host at one end of a link.
#[derive(Debug)]
pub struct Station {
    pub host: Host,
    socket: Socket,
}

/// How others address host number `n`.
pub fn peer(n: u8) -> Peer {
    Peer { mac: Mac([2, 0, 0, 0, 1, n]), ip: Ipv4Addr::new(10, 0, 0, n + 1) }
}

impl Station {
    /// Host number `n` on a link of `rate` bits/s, obeying PFC on the priorities of `obey`.
    pub fn new(n: u8, rate: u64, obey: u8, socket: Socket) -> Self {
        let Peer { mac, ip } = peer(n);
        let host = Host::new(HostConfig {
            mac,
            ip,
            rate,
            max_frame: 9216,
            obey,
            response_delay: 0,
            slack: 1_000_000,
            seed: 7,
        });
        Self { host, socket }
    }

    /// Takes and gives what there is; frames of flows that have arrived, if anything happened.
    fn turn(&mut self, now: u64, buffer: &mut [u8]) -> bool {
        let mut busy = false;
        while let Some(frame) = self.socket.receive(buffer) {
            self.host.handle_frame(frame, now);
            busy = true;
        }
        // One burst, then look for pauses again.
        for _ in 0..32 {
            let Some(frame) = self.host.poll_transmit(now) else { break };
            self.socket.send(frame);
            busy = true;
        }
        busy
    }

    fn sent(&self) -> u64 {
        self.host.sent().map(|(_, frames)| frames).sum()
    }

    fn received(&self) -> u64 {
        self.host.received().map(|flow| flow.received).sum()
    }
}

/// Hosts running on a thread of their own.
#[derive(Debug)]
pub struct Hosts {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    start: Instant,
    thread: JoinHandle<Vec<Station>>,
}

impl Hosts {
    /// Starts them.
    pub fn start(mut stations: Vec<Station>) -> Self {
        let (stop, sent, received) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let (stopped, tell_sent, tell_received) =
            (Arc::clone(&stop), Arc::clone(&sent), Arc::clone(&received));
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; LONGEST];
            loop {
                // Before the turn: what was there when we were told to stop is still taken.
                let last = stopped.load(Relaxed);
                let now = start.elapsed().as_nanos() as u64;
                let mut busy = false;
                for station in &mut stations {
                    busy |= station.turn(now, &mut buffer);
                }
                tell_sent.store(stations.iter().map(Station::sent).sum(), Relaxed);
                tell_received.store(stations.iter().map(Station::received).sum(), Relaxed);
                if last && !busy {
                    return stations;
                }
                if !busy {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        Self { stop, sent, received, start, thread }
    }

    /// Waits until this many frames of flows have been sent.
    pub fn wait_sent(&self, frames: u64) {
        wait_for(&format!("{frames} frames sent"), || (self.sent.load(Relaxed) >= frames).then_some(()));
    }

    /// Waits until this many frames of flows have arrived.
    pub fn wait_received(&self, frames: u64) {
        wait_for(&format!("{frames} frames received"), || {
            (self.received.load(Relaxed) >= frames).then_some(())
        });
    }

    /// Takes what has arrived, ends, and reports each host and each flow.
    pub fn finish(self) -> Results {
        self.stop.store(true, Relaxed);
        let mut stations = self.thread.join().expect("hosts do not panic");
        let sent: Vec<(Flow, u64)> = stations
            .iter()
            .flat_map(|s| s.host.sent().map(|(flow, sent)| (*flow, sent)).collect::<Vec<_>>())
            .collect();
        for (flow, frames) in &sent {
            for station in &mut stations {
                station.host.finish(flow.id, *frames);
            }
        }
        let now = self.start.elapsed().as_nanos() as u64;
        Results {
            hosts: stations.iter().map(|s| s.host.report(now)).collect(),
            flows: stations.iter().flat_map(|s| s.host.received().cloned().collect::<Vec<_>>()).collect(),
            sent,
        }
    }
}

/// What all hosts saw.
#[derive(Debug)]
pub struct Results {
    pub hosts: Vec<HostReport>,
    pub flows: Vec<FlowReport>,
    pub sent: Vec<(Flow, u64)>,
}

impl Results {
    /// A flow by its number.
    pub fn flow(&self, id: u16) -> &FlowReport {
        self.flows.iter().find(|flow| flow.id == id).expect("an expected flow")
    }

    /// Frames that never arrived, of all flows.
    pub fn lost(&self) -> u64 {
        self.flows.iter().map(|flow| flow.lost).sum()
    }

    /// No frame arrived changed, twice or out of order, and none that nobody sent.
    pub fn content_is_right(&self) {
        for flow in &self.flows {
            assert_eq!((flow.corrupted, flow.duplicated, flow.reordered), (0, 0, 0), "{flow:?}");
        }
        for host in &self.hosts {
            assert_eq!(host.unexpected, 0, "{host:?}");
        }
    }
}

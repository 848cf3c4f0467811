//! The loop on drivers as they are: made up ones that round down what they are asked for, take part of a burst, lack
//! memory, refuse a control frame; links that change in between. What is counted is frames, not time.

use super::*;
use crate::run::control::{Command, Control};
use crate::run::io::{Source, Transmit};
use crate::run::links::Queues;
use crate::run::local::Line;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::switch::{Conservation, Wire};
use weir_dataplane::turn::{self, FRAME_NS};
use weir_dataplane::types::Mac;

const RING: usize = 1024;
const GAP: u64 = 10_000;

/// How a driver behaves. Frames moved are counted, in both directions.
#[derive(Debug, Clone)]
struct Driver {
    /// It gives multiples of so many frames, and none to those who ask for fewer.
    multiple: usize,
    /// It gives no more than so many at once.
    most: usize,
    received: Rc<Cell<usize>>,
    sent: Rc<Cell<usize>>,
}

impl Driver {
    fn new(multiple: usize, most: usize) -> Self {
        Self { multiple, most, received: Rc::default(), sent: Rc::default() }
    }
}

/// A receive ring.
#[derive(Debug)]
struct Rx {
    driver: Driver,
    ring: VecDeque<OwnedFrame>,
    /// It has no memory for frames: they wait.
    dry: bool,
    /// Frames that found it full.
    imissed: usize,
    given: usize,
}

impl Rx {
    fn arrive(&mut self, frames: impl IntoIterator<Item = OwnedFrame>) {
        for frame in frames {
            if self.ring.len() < RING {
                self.ring.push_back(frame);
            } else {
                self.imissed += 1;
            }
        }
    }
}

impl Receive<OwnedFrame> for Rx {
    fn receive(&mut self, burst: &mut Burst<OwnedFrame>, most: usize) -> usize {
        let most = most.min(self.driver.most).min(self.ring.len()).min(burst.remaining_capacity());
        let count = if self.dry { 0 } else { most / self.driver.multiple * self.driver.multiple };
        burst.extend(self.ring.drain(..count));
        self.given += count;
        self.driver.received.set(self.driver.received.get() + count);
        count
    }

    fn backlog(&self) -> Option<u32> {
        Some(self.ring.len() as u32)
    }
}

/// A transmit ring.
#[derive(Debug)]
struct Tx {
    driver: Driver,
    /// Frames it takes in one call.
    room: usize,
    /// Control frames it refuses.
    refuses: usize,
    control: Vec<Vec<u8>>,
    taken: usize,
}

impl Transmit<OwnedFrame> for Tx {}

impl Wire<OwnedFrame> for Tx {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let count = frames.len().min(self.room);
        frames.drain(..count);
        self.taken += count;
        self.driver.sent.set(self.driver.sent.get() + count);
        count
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        let takes = self.refuses == 0;
        self.refuses = self.refuses.saturating_sub(1);
        if takes {
            self.control.push(frame.to_vec());
        }
        takes
    }
}

#[derive(Debug, Clone, Default)]
struct Clock(Rc<Cell<u64>>);

impl Time for Clock {
    fn now(&self) -> u64 {
        self.0.get()
    }
}

/// Frames as many as anybody wants.
#[derive(Debug)]
struct Heap;

impl Source<OwnedFrame> for Heap {
    fn empty(&self) -> Option<OwnedFrame> {
        Some(OwnedFrame::new([]))
    }

    fn append(frame: &mut OwnedFrame, bytes: &[u8]) -> bool {
        *frame = OwnedFrame::new([frame.bytes(), bytes].concat());
        true
    }
}

#[derive(Debug)]
struct Made;

impl Io for Made {
    type Frame = OwnedFrame;
    type Rx = Rx;
    type Tx = Tx;
    type Pool = Heap;
    type Clock = Clock;
}

/// Workers on made-up drivers, and the time they share.
struct Bench {
    workers: Vec<Worker<Made>>,
    before: Vec<Turn>,
    commands: Vec<rtrb::Producer<Command<Made>>>,
    departed: Vec<rtrb::Consumer<Queues<Made>>>,
    driver: Driver,
    clock: Clock,
}

/// Port n is behind lcore n modulo their number, station n behind port n.
impl Bench {
    fn new(ports: usize, lcores: usize, driver: Driver, more: &str) -> Self {
        let list = |n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"ring\"\nrate = \"100G\"\n");
        let list: String = (0..ports).map(list).collect();
        let text = format!("[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"256MiB\"\n{more}\n{list}");
        let config = weir_config::load("made.toml", &text).unwrap_or_else(|e| panic!("{e:?}")).config;
        let device = |n: usize| Device {
            shard: (n % lcores) as u8,
            tx_per_lcore: lcores > 1,
            pfc: true,
            ..Device::default()
        };
        let devices: Vec<_> = (0..ports).map(device).collect();
        let mut params = switch_params(&config, &devices, lcores).unwrap();
        params.frames = 1 << 14;
        // As fast as the wires take frames.
        params.ports.iter_mut().for_each(|port| port.rate = None);
        let switches = Tapped::<OwnedFrame>::observed_shards(&params, lcores).unwrap();
        let clock = Clock::default();
        let tx = || Tx { driver: driver.clone(), room: 256, refuses: 0, control: Vec::new(), taken: 0 };
        let rx = || Rx { driver: driver.clone(), ring: VecDeque::new(), dry: false, imissed: 0, given: 0 };
        let (mut all, mut departures) = (Vec::new(), Vec::new());
        let worker = |(shard, switch): (usize, Tapped<OwnedFrame>)| {
            let (commands, obeys) = rtrb::RingBuffer::new(16);
            all.push(commands);
            let (departed, departure) = rtrb::RingBuffer::new(ports);
            departures.push(departure);
            let mine = |n: &usize| n % lcores == shard;
            let limit = Some(RING as u32 * RING_LIMIT_EIGHTHS / 8);
            let port = |n: usize| WorkerPort::new(PortId(n as u16), rx(), tx(), limit);
            let ends = WorkerEnds { commands: obeys, replies: rtrb::RingBuffer::new(16).0, departed };
            let frames = turn::frames((0..ports).filter(mine).count(), GAP);
            let mut worker = Worker::new((shard, switch), frames, clock.clone(), Control::new(lcores), ends);
            worker.ports = (0..ports).filter(mine).map(port).collect();
            worker.others = (0..ports).filter(|n| !mine(n)).map(|n| (PortId(n as u16), tx())).collect();
            worker
        };
        let workers: Vec<_> = switches.into_iter().enumerate().map(worker).collect();
        let before = workers.iter().map(|_| Turn::default()).collect();
        let mut bench = Self { workers, before, commands: all, departed: departures, driver, clock };
        // As many as every driver gives.
        for n in 0..ports {
            bench.arrive(n, (0..LEAST).map(|_| frame(n, 255, 0)));
        }
        (0..8).for_each(|_| drop(bench.turns()));
        bench
    }

    fn arrive(&mut self, port: usize, frames: impl IntoIterator<Item = OwnedFrame>) {
        let lcores = self.workers.len();
        let mut ports = self.workers[port % lcores].ports.iter_mut();
        let found = ports.find(|own| own.id.index() == port).expect("a port with a device");
        found.rx.arrive(frames);
    }

    /// A turn of each worker: how many frames each received and sent.
    fn turns(&mut self) -> Vec<(usize, usize)> {
        let mut burst = Burst::new();
        self.clock.0.set(self.clock.0.get() + 1000);
        let turn = |(worker, before): (&mut Worker<Made>, &mut Turn)| {
            self.driver.received.set(0);
            self.driver.sent.set(0);
            *before = worker.turn(&mut burst, before, &mut Unwatched);
            worker.obey(before.now);
            (self.driver.received.get(), self.driver.sent.get())
        };
        self.workers.iter_mut().zip(&mut self.before).map(turn).collect()
    }

    fn books(&self) -> Conservation {
        let mut books = Conservation::default();
        for worker in &self.workers {
            assert_eq!(worker.switch.conservation().error(), 0);
            books.add(&worker.switch.conservation());
        }
        books
    }
}

/// A frame of class 3 between two stations.
fn frame(from: usize, to: usize, number: usize) -> OwnedFrame {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(&Mac::from_u64(0x0200_0000_0000 + to as u64).0);
    bytes[6..12].copy_from_slice(&Mac::from_u64(0x0200_0000_0000 + from as u64).0);
    bytes[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 26 << 2 | 2, 0, 50]);
    bytes[60..].copy_from_slice(&(number as u32).to_be_bytes());
    OwnedFrame::new(bytes)
}

#[test]
fn a_turn_moves_no_more_frames_than_fit_into_the_gap_with_1_to_32_ports_and_nobody_starves() {
    for (ports, lcores) in (1..=32).map(|n| (n, 1)).chain([(2, 2), (8, 2), (32, 2), (32, 4)]) {
        let mut bench = Bench::new(ports, lcores, Driver::new(1, 256), "");
        let own = ports.div_ceil(lcores);
        let (frames, gap) = (turn::frames(own, GAP), turn::gap(own, GAP));
        for step in 0..60 {
            // Idle, a few ports at once, then all of them at every time; now and then no wire takes anything, so that
            // queues are full when they do.
            for port in (0..ports).filter(|port| step >= 20 || step >= 6 && port % 7 == 0) {
                let to = |n: usize| (port + 1 + n % 3) % ports;
                bench.arrive(port, (0..300).map(|n| frame(port, to(n), n)));
            }
            let room = [256, 256, 0, 0, 0, 256, 100, 256][step % 8];
            for worker in &mut bench.workers {
                worker.ports.iter_mut().for_each(|port| port.wire.room = room);
                worker.others.iter_mut().for_each(|(_, wire)| wire.room = room);
            }
            for (received, sent) in bench.turns() {
                let planned = (received + sent) as u64 * FRAME_NS / 2;
                assert!(received <= frames, "{ports} ports: {received} of {frames}");
                assert!(planned <= gap, "{ports} ports: {received} received, {sent} sent: {planned} ns");
            }
            bench.books();
        }
        for port in bench.workers.iter().flat_map(|worker| &worker.ports) {
            assert!(port.rx.given > 30 * LEAST, "{ports} ports: {:?} gave {}", port.id, port.rx.given);
            let sent = bench.workers.iter().flat_map(|worker| &worker.others);
            let sent: usize = sent.filter(|(id, _)| *id == port.id).map(|(_, wire)| wire.taken).sum();
            let sent = sent + port.wire.taken;
            assert!(ports == 1 || sent > 2 * LEAST, "{ports} ports: {:?} sent {sent}", port.id);
        }
    }
}

/// What gathered while no wire took anything leaves faster than more comes, though both lcores receive all they may all the time.
#[test]
fn a_backlog_between_two_lcores_goes_away() {
    let mut bench = Bench::new(2, 2, Driver::new(1, 256), "");
    let step = |bench: &mut Bench, room: usize| {
        for port in 0..2 {
            let missing = RING - bench.workers[port].ports[0].rx.ring.len();
            bench.arrive(port, (0..missing).map(|n| frame(port, 1 - port, n)));
        }
        for worker in &mut bench.workers {
            worker.others.iter_mut().for_each(|(_, wire)| wire.room = room);
        }
        bench.turns();
        bench.books().held
    };
    let backlog = (0..20).map(|_| step(&mut bench, 0)).last().unwrap_or_default();
    assert!(backlog > 4 * BURST as u64, "{backlog}");
    let left = (0..100).map(|_| step(&mut bench, 256)).last().unwrap_or_default();
    assert!(left < 4 * BURST as u64, "{left} of {backlog} are still there");
}

#[test]
fn a_filling_ring_pauses_its_sender_before_a_frame_is_missed_whatever_the_driver_gives() {
    for (multiple, most) in [(1, 256), (4, 256), (8, 256), (32, 256), (1, 32), (1, 64), (4, 64), (32, 32)] {
        for ports in [1, 2, 7] {
            let mut bench = Bench::new(ports, 1, Driver::new(multiple, most), "");
            let paused = |bench: &Bench| bench.workers[0].switch.generator(PortId(0)).paused_mask();
            let mut turns = 0;
            while paused(&bench) == 0 {
                // A little more than it gives, and no more in a turn than there is room for above the limit.
                let share = (turn::frames(ports, GAP) / ports).min(most);
                let more = (share + 20).min(255);
                (0..ports).for_each(|port| {
                    bench.arrive(port, (0..more).map(|n| frame(port, (port + 1) % ports, n)));
                });
                bench.turns();
                turns += 1;
                let rx = &bench.workers[0].ports[0].rx;
                assert_eq!(rx.imissed, 0, "multiples of {multiple}, {most} at most: not paused in time");
                assert!(turns < 200, "multiples of {multiple}, {most} at most: never paused");
            }
            assert_eq!(paused(&bench), 1 << 3);
            let backlog = bench.workers[0].ports[0].rx.ring.len();
            assert!((RING / 2..RING).contains(&backlog), "{backlog}");
            // The sender has stopped: the ring empties, and it may go on.
            (0..200).for_each(|_| drop(bench.turns()));
            assert_eq!(paused(&bench), 0, "multiples of {multiple}, {most} at most: paused for ever");
        }
    }
}

#[test]
fn drivers_that_lack_memory_or_refuse_and_links_that_change_lose_nothing_uncounted() {
    for lcores in [1, 2] {
        let mut bench = Bench::new(4, lcores, Driver::new(8, 64), "");
        let mut arrived = bench.books().received;
        for step in 0..400 {
            let port = step % 4;
            let lcore = port % lcores;
            // 8 * 7: whole multiples, so that everything can leave in the end.
            bench.arrive(port, (0..56).map(|n| frame(port, (port + 1) % 4, n)));
            arrived += 56;
            let own = &mut bench.workers[lcore].ports[port / lcores];
            own.rx.dry = step % 16 < 3;
            own.wire.room = [256, 3, 0, 40][step % 7 % 4];
            own.wire.refuses = step % 3;
            if step % 50 == 20 {
                let up = step % 100 == 70;
                bench.commands[1 % lcores].push(Command::Link(PortId(1), up)).unwrap();
            }
            bench.turns();
            bench.books();
        }
        bench.commands[1 % lcores].push(Command::Link(PortId(1), true)).unwrap();
        for worker in &mut bench.workers {
            worker.ports.iter_mut().for_each(|port| (port.rx.dry, port.wire.room) = (false, 256));
            worker.others.iter_mut().for_each(|(_, wire)| wire.room = 256);
        }
        (0..400).for_each(|_| drop(bench.turns()));
        let books = bench.books();
        let missed: usize = bench.workers.iter().flat_map(|w| &w.ports).map(|port| port.rx.imissed).sum();
        assert_eq!((books.received + missed as u64, books.held), (arrived, 0), "{books:?}");
        assert!(books.transmitted > 5000, "{books:?}");
    }
}

#[test]
fn what_waits_for_a_device_that_is_taken_away_is_dropped_and_counted_and_the_next_one_goes_on() {
    for (lcores, owner_first) in [(1, true), (2, true), (2, false)] {
        let mut bench = Bench::new(4, lcores, Driver::new(1, 256), "");
        let before = bench.books();
        for worker in &mut bench.workers {
            worker.ports.iter_mut().for_each(|port| port.wire.room = 0);
            worker.others.iter_mut().for_each(|(_, wire)| wire.room = 0);
        }
        for _ in 0..20 {
            for from in [0, 2, 3] {
                bench.arrive(from, (0..32).map(|n| frame(from, 1, n)));
            }
            bench.turns();
        }
        (0..40).for_each(|_| drop(bench.turns()));
        let full = bench.books();
        assert_eq!(
            (full.transmitted, full.held),
            (before.transmitted, before.held + 20 * 3 * 32),
            "{full:?}"
        );
        bench.commands[1 % lcores].push(Command::Link(PortId(1), false)).unwrap();
        for worker in 0..lcores {
            // One may hear of it long before the other.
            let worker = if owner_first { (1 + worker) % lcores } else { worker };
            bench.commands[worker].push(Command::Detach(PortId(1))).unwrap();
            bench.turns();
        }
        for worker in &mut bench.workers {
            assert!(worker.ports.iter().all(|port| port.id != PortId(1)));
            assert!(worker.others.iter().all(|(id, _)| *id != PortId(1)));
            worker.ports.iter_mut().for_each(|port| port.wire.room = 256);
            worker.others.iter_mut().for_each(|(_, wire)| wire.room = 256);
        }
        (0..60).for_each(|_| drop(bench.turns()));
        let books = bench.books();
        assert_eq!(books.held, 0, "{lcores} lcores: {books:?}");
        assert_eq!(books.dropped - full.dropped, 20 * 3 * 32, "{lcores} lcores: {books:?}");
        // The others go on.
        bench.arrive(0, (0..8).map(|n| frame(0, 2, n)));
        (0..8).for_each(|_| drop(bench.turns()));
        assert_eq!(bench.books().transmitted - books.transmitted, 8);
        // Another device for the same port.
        for worker in 0..lcores {
            let queues = bench.departed[worker].pop().expect("what it gave back");
            bench.commands[worker].push(Command::Attach(queues)).unwrap();
        }
        bench.commands[1 % lcores].push(Command::Link(PortId(1), true)).unwrap();
        (0..4).for_each(|_| drop(bench.turns()));
        for worker in &mut bench.workers {
            worker.ports.iter_mut().for_each(|port| port.wire.room = 256);
            worker.others.iter_mut().for_each(|(_, wire)| wire.room = 256);
        }
        bench.arrive(1, (0..8).map(|n| frame(1, 0, n)));
        (0..8).for_each(|_| drop(bench.turns()));
        bench.arrive(0, (0..8).map(|n| frame(0, 1, n)));
        (0..8).for_each(|_| drop(bench.turns()));
        let after = bench.books();
        assert_eq!(after.transmitted - books.transmitted, 8 + 8 + 8, "{lcores} lcores");
        assert_eq!((after.dropped, after.held), (books.dropped, 0), "{lcores} lcores");
    }
}

/// What LLDP has to say leaves where counters are published, in order; it waits while the wire refuses it or the link is down, and disturbs
/// nobody meanwhile.
#[test]
fn frames_of_lldp_leave_in_order_when_the_wire_takes_them() {
    let mut bench = Bench::new(2, 1, Driver::new(1, 256), "");
    let Worker { switch, ports, .. } = &mut bench.workers[0];
    let mut line = Line::new(switch, &mut ports[0], LocalProtocol::Lldp);
    let (mut put, mut refused) = (0, 0);
    for round in 0..1000u16 {
        let worker = &mut bench.workers[0];
        for _ in 0..round % 24 {
            match line.inbox.put([&[0xee][..], &u16::to_be_bytes(put)].concat()) {
                true => put += 1,
                false => refused += 1,
            }
        }
        worker.ports[0].wire.refuses = usize::from(round % 3);
        worker.switch.set_link(PortId(0), round % 7 != 0, u64::from(round));
        worker.publish(u64::from(round));
        bench.turns();
    }
    let worker = &mut bench.workers[0];
    worker.ports[0].wire.refuses = 0;
    worker.switch.set_link(PortId(0), true, 1000);
    worker.publish(1000);
    let sent = worker.ports[0].wire.control.iter().filter(|frame| frame[0] == 0xee);
    let numbers: Vec<u16> = sent.map(|frame| u16::from_be_bytes([frame[1], frame[2]])).collect();
    assert_eq!(numbers, (0..put).collect::<Vec<_>>());
    assert!(put > 300 && refused > 300, "{put} {refused}");
    assert_eq!(worker.switch.stats(PortId(0)).tx_lldp, u64::from(put));
    assert_eq!(bench.books().error(), 0);
}

//! What is told of single frames that are followed into an engine.

mod support;

use support::hand::{Hand, JOB, PARENT, UP, parent, words};
use weir_dataplane::switch::{HandedOn, Key};
use weir_dataplane::types::PortId;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::wire::{Aeth, Extensions, Nak, Opcode, Qpn, Syndrome};
use weir_inc::drops::Drop;
use weir_inc::immediate::{Failure, Immediate, Primitive};
use weir_inc::trace::{Became, Follower, FollowerReader, Step, What};

const PORT: PortId = PortId(3);
const ONLY: Opcode = Opcode::RC_SEND_ONLY;

struct Bench {
    hand: Hand,
    follower: Follower,
    reader: FollowerReader,
}

fn key(n: u32) -> Key {
    Key { rx_ns: 5, in_port: 0, slot: n }
}

impl Bench {
    fn new(hand: Hand) -> Self {
        let (follower, reader) = Follower::new(PORT);
        Self { hand, follower, reader }
    }

    /// A frame comes, followed as number `n`, or not.
    fn give(&mut self, n: Option<u32>, frame: &[u8]) {
        let address = frame.as_ptr().addr();
        self.follower.expect(n.map(|n| HandedOn { out: PORT, key: key(n), address }).into_iter());
        self.follower.receive(&mut self.hand.engine, frame, self.hand.now);
    }

    /// A packet with an element comes, and what is told of that until the engine has nothing more to send.
    fn only(&mut self, n: Option<u32>, peer: usize, number: i32) -> Vec<(u32, String, bool)> {
        let frame = Hand::frame(peer, JOB, ONLY, number, Extensions::default(), &words(&[number]));
        self.give(n, &frame);
        self.told()
    }

    fn told(&mut self) -> Vec<(u32, String, bool)> {
        while self.follower.transmit(&mut self.hand.engine, self.hand.now).is_some() {}
        self.follower.look(&self.hand.engine, self.hand.now);
        assert_eq!(self.reader.lost(), 0);
        self.reader.by_ref().map(|record| (record.key.slot, text(&record.step), record.last)).collect()
    }
}

fn text(step: &Step) -> String {
    match step {
        Step::Came(told) => match &told.became {
            Became::Stored { number, slot, missing } => {
                format!("stored {number} in {slot}, misses {missing:?}")
            }
            Became::Dropped(drop) => drop.name().to_owned(),
            other => format!("{other:?}"),
        },
        Step::Folded(ranks) => format!("folded {ranks:?}"),
        Step::Sent(sent) => {
            let (to, what) = (sent.to.rank, sent.what);
            match what {
                What::Answer(Syndrome::Ack(_)) => format!("ack to {to}"),
                What::Answer(syndrome) => format!("{syndrome:?} to {to}"),
                other => format!("{other:?} to {to}"),
            }
        }
        other => format!("{other:?}"),
    }
}

fn line(n: u32, text: &str, last: bool) -> (u32, String, bool) {
    (n, text.to_owned(), last)
}

#[test]
fn a_contribution_is_told_until_its_result_is_sent_to_all() {
    let mut bench = Bench::new(Hand::new(2, |_| {}));
    assert_eq!(
        bench.only(Some(1), 0, 0),
        [line(1, "stored 0 in 0, misses [1]", false), line(1, "ack to 0", false)]
    );
    // A later one of the same rank is another story.
    assert_eq!(bench.only(None, 0, 1), []);
    let done = [
        line(2, "stored 0 in 0, misses []", false),
        line(1, "folded Some(2)", false),
        line(2, "folded Some(2)", false),
        line(2, "ack to 1", false),
        line(1, "Result to 0", false),
        line(2, "Result to 0", false),
        line(1, "Result to 1", true),
        line(2, "Result to 1", true),
    ];
    assert_eq!(bench.only(Some(2), 1, 0), done);
    // Nothing of what comes later belongs to it.
    assert_eq!(bench.only(None, 1, 1), []);
}

#[test]
fn names_of_a_packet_are_those_of_the_wire() {
    let mut bench = Bench::new(Hand::new(2, |_| {}));
    let frame = Hand::frame(1, JOB, ONLY, 0, Extensions::default(), &words(&[1]));
    bench.give(Some(1), &frame);
    let Some(Step::Came(told)) = bench.reader.next().map(|record| record.step) else {
        panic!("nothing told")
    };
    assert_eq!(told.packet, Some((ONLY, Qpn(support::FIRST_QPN + 1), Psn::new(UP))));
    assert_eq!(told.of.map(|of| (of.job, of.rank, of.qpn)), Some((JOB, 1, Qpn(0x11))));
}

#[test]
fn what_is_not_used_is_told_with_its_reason_and_its_answer() {
    let mut bench = Bench::new(Hand::new(2, |_| {}));
    bench.only(None, 0, 0);
    assert_eq!(bench.only(Some(1), 0, 0), [line(1, "duplicate", false), line(1, "ack to 0", true)]);
    // One NAK names a gap; what comes behind it is dropped without a word.
    let gap = format!("{:?} to 0", Syndrome::Nak(Nak::Sequence));
    assert_eq!(bench.only(Some(2), 0, 2), [line(2, "out_of_sequence", false), line(2, &gap, true)]);
    assert_eq!(bench.only(Some(3), 0, 3), [line(3, "out_of_sequence", true)]);
    for n in 1..4 {
        bench.only(None, 0, n);
    }
    let told = bench.only(Some(4), 0, 4);
    assert_eq!(told[0], line(4, "window_full", false));
    assert!(told[1].1.starts_with("Rnr(") && told[1].2, "{told:?}");
    let mut damaged = Hand::frame(0, JOB, ONLY, 4, Extensions::default(), &words(&[4]));
    *damaged.last_mut().unwrap() ^= 1;
    bench.give(Some(5), &damaged);
    assert_eq!(bench.told(), [line(5, "bad_icrc", true)]);
    let nobody = Hand::frame(0, JOB + 1, ONLY, 4, Extensions::default(), &words(&[4]));
    bench.give(Some(6), &nobody);
    assert_eq!(bench.told(), [line(6, "unknown_qp", true)]);
    assert_eq!(bench.hand.drops(Drop::UnknownQp), 1, "it is counted as ever");
    // An acknowledgement of results, and ARP.
    let aeth = Some(Aeth { syndrome: Syndrome::ACK_NO_CREDITS.encode(), msn: 0 });
    bench.only(None, 1, 0);
    let ack = Hand::frame(1, JOB, Opcode::RC_ACK, 0, Extensions { aeth, ..Extensions::default() }, &[]);
    bench.give(Some(7), &ack);
    let [(7, text, true)] = &bench.told()[..] else { panic!("one line") };
    assert!(text.starts_with("Answer(Ack("), "{text}");
}

#[test]
fn a_contribution_to_a_job_that_fails_or_goes_is_told_so() {
    let mut bench = Bench::new(Hand::new(3, |_| {}));
    bench.only(Some(1), 0, 0);
    let longer = Hand::frame(1, JOB, ONLY, 0, Extensions::default(), &words(&[1, 2]));
    bench.give(Some(2), &longer);
    let failed = format!("{:?}", Step::Failed(Failure::Mismatch, 1));
    let nak = format!("{:?} to 1", Syndrome::Nak(Nak::InvalidRequest));
    assert_eq!(bench.told(), [line(2, "mismatch", false), line(1, &failed, true), line(2, &nak, true)]);
    let mut bench = Bench::new(Hand::new(2, |_| {}));
    bench.only(Some(1), 0, 0);
    bench.hand.engine.remove(JOB).unwrap();
    assert_eq!(bench.told(), [line(1, "Gone", true)]);
}

#[test]
fn a_sum_on_its_way_up_is_told_until_its_result_has_come_down() {
    let with_parent = |operation: Option<Primitive>| {
        Hand::new(2, |job| {
            (job.parent, job.ranks) = (Some(parent()), 3);
            job.operation = operation.unwrap_or(job.operation);
        })
    };
    let mut bench = Bench::new(with_parent(None));
    bench.only(Some(1), 0, 0);
    let told = bench.only(None, 1, 0);
    assert_eq!(told, [line(1, "folded Some(2)", false), line(1, "Sum to 65535", false)]);
    let status = Immediate::Status(weir_inc::immediate::Status { count: 3, flags: Default::default() });
    let ext = Extensions { imm: Some(status.encode()), ..Extensions::default() };
    let result = Hand::frame(PARENT, JOB, Opcode::RC_SEND_ONLY_IMM, 0, ext, &words(&[9]));
    bench.give(Some(2), &result);
    let told = bench.told();
    let want = [
        line(2, "Result", false),
        line(2, "ack to 65535", true),
        line(1, "Result to 0", false),
        line(1, "Result to 1", true),
    ];
    assert_eq!(told, want);
    // Of a Reduce to a rank elsewhere nothing comes back.
    let Primitive::AllReduce(fold) = support::sum_i32() else { unreachable!() };
    let mut bench = Bench::new(with_parent(Some(Primitive::Reduce(fold, 2))));
    bench.only(Some(1), 0, 0);
    let told = bench.only(None, 1, 0);
    assert_eq!(told.last(), Some(&line(1, "Over", true)), "{told:?}");
}

//! Frames that Linux rdma_rxe sent to a switch that sums: this engine makes the same sums of them, and answers what they answer.

#[path = "../../endpoint/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use support::{capture, need_golden};
use weir_dataplane::types::Mac;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::{Opcode, Qpn, Syndrome};
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::immediate::Primitive;
use weir_inc::kernels::{ByteOrder, DataType, Fold, Operator};
use weir_inc::params::{Child, JobParams};

const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

/// Payload of each result, by host and PSN.
type Results = BTreeMap<(IpAddr, u32), Vec<u8>>;

/// An engine with the two hosts as children, as the first data frame of each says who it is.
fn engine(frames: &[Vec<u8>], operation: Primitive) -> Engine {
    let mut children: Vec<Child> = Vec::new();
    let requests = frames.iter().map(|f| Frame::parse(f).unwrap());
    for frame in requests.filter(|f| f.outer.ip.addresses.dst() == SWITCH) {
        let bth = frame.packet.bth;
        if bth.opcode == Opcode::RC_ACK || children.iter().any(|c| c.qpn == bth.dest_qp) {
            continue;
        }
        let outer = frame.outer;
        let host = (outer.src, outer.ip.addresses.src());
        // Both hosts have queue pair 0x11 and count results from what the capture says.
        let path = Path {
            recv_psn: bth.psn,
            send_psn: first_result(frames, host.1),
            ..Path::new((outer.dst, SWITCH.into()), host, Qpn(0x11))
        };
        let first_rank = children.len() as u16;
        children.push(Child {
            qpn: bth.dest_qp,
            path,
            first_rank,
            ranks: 1,
            engine: false,
            remote: Default::default(),
        });
    }
    assert_eq!(children.len(), 2);
    let mut engine = Engine::new(EngineParams::default());
    engine.add(JobParams { status: false, children, ..JobParams::new(1, 2, operation) }).unwrap();
    engine
}

fn first_result(frames: &[Vec<u8>], host: IpAddr) -> Psn {
    let results = results(frames.iter().map(Vec::as_slice));
    Psn::new(results.keys().find(|(to, _)| *to == host).unwrap().1)
}

fn results<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Results {
    let frames = frames.map(|f| Frame::parse(f).unwrap());
    let sent =
        frames.filter(|f| f.outer.ip.addresses.src() == SWITCH && f.packet.bth.opcode != Opcode::RC_ACK);
    sent.map(|f| ((f.outer.ip.addresses.dst(), f.packet.bth.psn.get()), f.packet.payload.to_vec())).collect()
}

fn replay(name: &str, operation: Primitive, sums: usize) {
    let frames = capture(name);
    let mut engine = engine(&frames, operation);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for (now, frame) in frames.iter().enumerate() {
        if Frame::parse(frame).unwrap().outer.ip.addresses.dst() == SWITCH {
            engine.receive(frame, now as u64);
        }
        while let Some(transmit) = engine.transmit(now as u64) {
            let mut bytes = Vec::new();
            transmit.write_to(&mut bytes);
            sent.push(bytes);
        }
    }
    let (ours, theirs) = (results(sent.iter().map(Vec::as_slice)), results(frames.iter().map(Vec::as_slice)));
    assert_eq!(ours, theirs, "{name}");
    assert_eq!(ours.len(), sums, "{name}");
    let job = engine.job(1).unwrap();
    assert!(job.is_drained() && job.failure().is_none(), "{name}: the hosts acknowledged every result");
    let answers = sent.iter().map(|f| Frame::parse(f).unwrap()).filter_map(|f| f.packet.ext.aeth);
    assert!(answers.map(|a| Syndrome::decode(a.syndrome)).all(|s| s == Syndrome::ACK_NO_CREDITS), "{name}");
    let macs: Vec<Mac> = sent.iter().map(|f| Frame::parse(f).unwrap().outer.src).collect();
    assert!(macs.iter().all(|mac| *mac == Mac([0x52, 0x54, 0, 0xfe, 0, 1])), "{name}");
}

fn sum(data_type: DataType) -> Primitive {
    Primitive::AllReduce(Fold::new(Operator::Sum, data_type, ByteOrder::Big).unwrap())
}

#[test]
fn frames_of_two_linux_hosts_are_summed_as_they_were() {
    need_golden!();
    replay("allreduce_2hosts_16B.pcap", sum(DataType::U32), 8);
}

/// The operation is in the immediate data of each message: the job would do something else.
#[test]
fn operations_named_by_two_linux_hosts_are_understood() {
    need_golden!();
    let max = Fold::new(Operator::Max, DataType::F32, ByteOrder::Big).unwrap();
    replay("allreduce_2hosts_imm.pcap", Primitive::AllReduce(max), 8);
}

//! The words of INCCL, the host library of the switch our notes describe (In-NetLab/container_inc; INC-007, INC-008), so that
//! its hosts find a controller here as they are.
//!
//! The first host of a group speaks for all: `G`, the number of hosts, their IPv4 addresses, and is told the number of the
//! group; then `C` and a queue pair of each host, and is told the length of a YAML file and the file, which it passes on.
//! Numbers are little-endian, as they lie in a PC's memory; addresses and the length are in network order. Nobody says
//! an operation, a MAC address or a token: messages are sums of big-endian i32 in packets of 1024 bytes, PSNs begin with 0.

use crate::kernels::{ByteOrder, DataType, Operator};
use crate::rendezvous::{Join, Seat, Shape};
use crate::spec::{Kind, Operation, Policy};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read};
use std::net::Ipv4Addr;
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::roce::wire::UDP_PORT;

/// TCP port of its controller for hosts.
pub const PORT: u16 = 52200;
/// Payload of a full packet, bytes.
const MTU: u16 = 1024;
/// Packets a rank may be ahead of the slowest. Its hosts send eight and take an RNR NAK for an error.
const WINDOW: u32 = 256;

/// As long as its hosts send again: six times after 1.07 s, ns.
const PATIENCE: Nanos = 7_500_000_000;

/// What the first host says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Addresses of the hosts, by rank.
    Group(Vec<Ipv4Addr>),
    /// A queue pair of each.
    Communicator(Vec<u32>),
}

/// A host as its group names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// Its MAC address, which it does not say.
    pub mac: Mac,
    /// Its queue pair.
    pub qpn: u32,
}

fn invalid(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

fn number(from: &mut impl Read) -> io::Result<[u8; 4]> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a request. `hosts`: those of the group, once it is known; `most`: as many as a group may have. `None`: it said
/// nothing more.
///
/// # Errors
/// Those of reading, and [`ErrorKind::InvalidData`] for what is no request.
pub fn read(from: &mut impl Read, hosts: Option<usize>, most: usize) -> io::Result<Option<Request>> {
    let mut kind = [0];
    if from.read(&mut kind)? == 0 {
        return Ok(None);
    }
    match (kind[0], hosts) {
        (b'G', None) => {
            let hosts = u32::from_le_bytes(number(from)?);
            if hosts == 0 || hosts as usize > most {
                return Err(invalid(format!("a group of {hosts} hosts; the topology has {most}")));
            }
            let addresses = (0..hosts).map(|_| Ok(Ipv4Addr::from(number(from)?)));
            Ok(Some(Request::Group(addresses.collect::<io::Result<_>>()?)))
        }
        (b'C', Some(hosts)) => {
            let qpns = (0..hosts).map(|_| Ok(u32::from_le_bytes(number(from)?)));
            Ok(Some(Request::Communicator(qpns.collect::<io::Result<_>>()?)))
        }
        (b'G', Some(_)) => Err(invalid("a second group on one connection".into())),
        (b'C', None) => Err(invalid("queue pairs of a group that was not named".into())),
        (other, _) => Err(invalid(format!("a request {:?}; there are `G` and `C`", char::from(other)))),
    }
}

/// What the hosts of a communicator would say if they spoke as ours do, by rank.
pub fn joins(job: &str, token: &str, hosts: &[Host]) -> Vec<Join> {
    let join = |(index, host): (usize, &Host)| Join {
        token: token.to_owned(),
        job: job.to_owned(),
        hosts: hosts.len() as u16,
        index: index as u16,
        ip: host.ip.into(),
        mac: host.mac.to_string(),
        qpn: host.qpn,
        operation: Operation {
            kind: Kind::AllReduce,
            operator: Some(Operator::Sum),
            data_type: Some(DataType::I32),
            byte_order: Some(ByteOrder::Big),
            root: None,
        },
        mtu: MTU,
        window: WINDOW,
        straggler: Policy::Wait,
        deadline_ns: None,
        patience_ns: Some(PATIENCE),
        psn: Some(0),
        write: false,
        results_to: None,
        mirror: true,
    };
    hosts.iter().enumerate().map(join).collect()
}

/// The YAML file for hosts that were given these seats, by rank: each engine they are connected to, with its ends of the
/// connections (INC-008).
pub fn file(hosts: &[Host], seats: &[Seat]) -> String {
    let mut engines: Vec<&Seat> = Vec::new();
    for seat in seats {
        if engines.iter().all(|other| other.ip != seat.ip) {
            engines.push(seat);
        }
    }
    let mut text = String::from("switches:\n");
    for (id, engine) in engines.iter().enumerate() {
        let of_root =
            matches!(&engine.tree, Shape::Engine(below) if below.contains(&Shape::Rank(engine.rank)));
        let _ = write!(text, "  - id: {id}\n    root: {of_root}\n    connections:\n");
        for (rank, (host, seat)) in
            hosts.iter().zip(seats).enumerate().filter(|(_, (_, s))| s.ip == engine.ip)
        {
            let _ = write!(
                text,
                "      - up: false\n        host_id: {rank}\n        my_ip: \"{}\"\n        my_mac: \"{}\"\n        \
                 my_name: \"weir\"\n        my_port: {UDP_PORT}\n        my_qp: {}\n        peer_ip: \"{}\"\n        \
                 peer_mac: \"{}\"\n        peer_port: {UDP_PORT}\n        peer_qp: {}\n",
                seat.ip, seat.mac, seat.qpn, host.ip, host.mac, host.qpn
            );
        }
    }
    text
}

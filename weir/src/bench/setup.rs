//! The switch and the frames of `weir bench`.

use super::TrafficArgs;
use anyhow::{Context, Result, bail};
use pcap_file::pcap::PcapReader;
use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use weir_config::runtime::{Device, switch_params};
use weir_config::{self as config, Config};
use weir_dataplane::frame::{Frame, SizedFrames};
use weir_dataplane::parse::EcnCode;
use weir_dataplane::switch::SwitchParams;
use weir_dataplane::types::{Burst, MAX_PORTS, Mac, Nanos};
use weir_dataplane::vlan::TAG_BYTES;
use weir_dpdk::Mbuf;

/// Frames that go round on each port.
const FRAMES: u64 = 1024;
/// Bytes of a frame that never reach memory: the FCS.
const FCS: usize = 4;
const HEADERS: usize = 14 + 20 + 8;

/// What is measured.
pub struct Load {
    pub params: SwitchParams,
    /// The frames that come to each port, over and over; ports behind the last one have none.
    pub captures: Vec<Vec<Replayed>>,
    /// Frames are changed on their way: each is to be one of its own.
    pub changed: bool,
    /// Longest time between two looks at a port that is allowed for, ns.
    pub poll_gap: Nanos,
}

/// A handle to a frame of a capture, shared with it, as an mbuf is: what is noted beside the bytes is where they are.
#[derive(Clone, Debug)]
pub struct Replayed(Rc<Packet>);

#[derive(Debug)]
struct Packet {
    /// There is room for a tag.
    bytes: Vec<u8>,
    ecn: Cell<EcnCode>,
}

impl Packet {
    fn new(bytes: &[u8], ecn: EcnCode) -> Self {
        let mut memory = Vec::with_capacity(bytes.len() + TAG_BYTES);
        memory.extend_from_slice(bytes);
        Self { bytes: memory, ecn: Cell::new(ecn) }
    }
}

impl Clone for Packet {
    fn clone(&self) -> Self {
        Self::new(&self.bytes, self.ecn.get())
    }
}

impl Replayed {
    fn new(bytes: &[u8]) -> Self {
        Self(Rc::new(Packet::new(bytes, EcnCode::NONE)))
    }

    /// A handle that is shared with nobody, as one to an mbuf that a driver has filled: its bytes may be changed.
    pub fn unshared(&self) -> Self {
        Self(Rc::new(Packet::clone(&self.0)))
    }
}

impl Frame for Replayed {
    type Row = SizedFrames<Self>;
    type Staged = Burst<Self>;

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut Rc::make_mut(&mut self.0).bytes
    }

    fn share(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn make_unique(&mut self) -> bool {
        Rc::make_mut(&mut self.0);
        true
    }

    fn insert_tag(&mut self, at: usize, tag: [u8; TAG_BYTES]) -> bool {
        let fits = at <= self.len();
        if fits {
            Rc::make_mut(&mut self.0).bytes.splice(at..at, tag);
        }
        fits
    }

    fn remove_tag(&mut self, at: usize) -> bool {
        let fits = at + TAG_BYTES <= self.len();
        if fits {
            Rc::make_mut(&mut self.0).bytes.drain(at..at + TAG_BYTES);
        }
        fits
    }

    const KEEPS_ECN: bool = true;

    #[inline(always)]
    fn ecn(&self) -> EcnCode {
        self.0.ecn.get()
    }

    #[inline(always)]
    fn set_ecn(&mut self, ecn: EcnCode) {
        self.0.ecn.set(ecn);
    }

    #[inline(always)]
    fn prefetch<T>(what: &T) {
        Mbuf::prefetch(what);
    }
}

impl Load {
    /// Ports that nobody configured have `rate` in bit/s; `None`: no shaper.
    ///
    /// # Errors
    /// A configuration or a capture that cannot be used.
    pub fn new(args: &TrafficArgs, rate: Option<u64>) -> Result<Self> {
        match &args.config {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                let captures = args.capture.iter().map(|path| read(path));
                Self::of(&load(&path.display().to_string(), &text)?, captures.collect::<Result<_>>()?)
            }
            None => Self::built_in(args, rate),
        }
    }

    fn of(config: &Config, captures: Vec<Vec<Replayed>>) -> Result<Self> {
        let ports = config.ports.len();
        if captures.len() > ports {
            bail!("{} captures, but the configuration has {ports} ports", captures.len());
        }
        let device = |port: usize| Device {
            mac: Mac::from_u64(0x0200_0000_ff00 + port as u64),
            rate: None,
            shard: 0,
            tx_per_lcore: false,
            pfc: true,
            partial_checksums: false,
        };
        let devices: Vec<_> = (0..ports).map(device).collect();
        let params = switch_params(config, &devices, 1)?;
        let changed = params.ports.iter().any(|port| port.vlans.is_some());
        Ok(Self { params, captures, changed, poll_gap: config.pfc.poll_gap })
    }

    /// Everything on: PFC on priority 3, a real buffer, DWRR, ECN, watchdog.
    fn built_in(args: &TrafficArgs, rate: Option<u64>) -> Result<Self> {
        let busy = args.busy.unwrap_or(args.ports & !1);
        if busy % 2 == 1 || busy > args.ports {
            bail!(
                "--busy {busy}: ports carry traffic in pairs, and at most --ports {} of them can",
                args.ports
            );
        }
        let mut text = String::from(
            "[qos]\npreset = \"roce-lossless\"\n\
             dscp_to_tc = { \"0-7\" = 0, \"8-15\" = 1, \"16-23\" = 2, \"24-31\" = 3, \"32-39\" = 4, \
             \"40-47\" = 5, \"48-55\" = 6, \"56-63\" = 7 }\n\
             [port_defaults]\nrate = \"100G\"\n",
        );
        // More ports are a longer turn, and so more headroom each.
        let megabytes = if args.ports > 32 { 8 * args.ports } else { 64 };
        text += &format!("[buffer]\nsize = \"{megabytes}MiB\"\n");
        for port in 0..args.ports {
            text += &format!("[[port]]\nname = \"p{port}\"\ndevice = \"net_null{port}\"\n");
        }
        let captures = (0..busy).map(|port| frames(args, port)).collect();
        let mut load = Self::of(&load("the bench", &text)?, captures)?;
        load.params.ports.iter_mut().for_each(|port| port.rate = rate);
        let stations = usize::from(busy) * args.macs as usize;
        load.params.fdb_capacity = load.params.fdb_capacity.max(2 * stations);
        Ok(load)
    }
}

fn load(name: &str, text: &str) -> Result<Config> {
    match config::load(name, text) {
        Ok(loaded) => Ok(loaded.config),
        Err(found) => bail!("{}", found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

/// The frames of a pcap file.
fn read(path: &Path) -> Result<Vec<Replayed>> {
    let said = || path.display().to_string();
    let mut file = PcapReader::new(File::open(path).with_context(said)?).with_context(said)?;
    let mut frames = Vec::new();
    while let Some(packet) = file.next_packet() {
        frames.push(Replayed::new(&packet.with_context(said)?.data));
    }
    if frames.is_empty() {
        bail!("{}: no frames", said());
    }
    Ok(frames)
}

/// Frames of `port`: from its stations to those of its neighbour, classes in turn.
fn frames(args: &TrafficArgs, port: u16) -> Vec<Replayed> {
    let macs = u64::from(args.macs);
    let station = |port: u16, n: u64| Mac::from_u64(0x0200_0000_0000 | u64::from(port) << 32 | (n % macs));
    debug_assert!(usize::from(port) < MAX_PORTS);
    let one = |n: u64| {
        let mut bytes = vec![0; usize::from(args.frame_bytes) - FCS];
        let len = bytes.len() as u16;
        bytes[..6].copy_from_slice(&station(port ^ 1, n * 7).0);
        bytes[6..12].copy_from_slice(&station(port, n).0);
        let class = (n % u64::from(args.classes)) as u8;
        bytes[12..16].copy_from_slice(&[8, 0, 0x45, class << 5 | 2]);
        bytes[16..18].copy_from_slice(&(len - 14).to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 17]);
        bytes[36..38].copy_from_slice(&9u16.to_be_bytes());
        bytes[38..40].copy_from_slice(&(len - 34).to_be_bytes());
        debug_assert!(bytes.len() >= HEADERS);
        Replayed::new(&bytes)
    };
    (0..FRAMES.max(macs)).map(one).collect()
}

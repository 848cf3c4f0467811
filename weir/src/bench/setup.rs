//! The switch and the frames of `weir bench pipeline`.

use anyhow::{Result, bail};
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::frame::Frame;
use weir_dataplane::switch::Switch;
use weir_dataplane::types::Mac;

/// Frames that go round on each port.
const FRAMES: u64 = 1024;
/// Bytes of a frame that never reach memory: the FCS.
const FCS: usize = 4;
const HEADERS: usize = 14 + 20 + 8;
const TOS: usize = 15;

/// What the pipeline is loaded with.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub ports: usize,
    /// Ports that receive and send frames, from the first.
    pub busy: usize,
    /// Stations behind each port.
    pub macs: u32,
    /// With FCS, as on the wire.
    pub frame_bytes: usize,
    /// Priorities in use, in turn.
    pub classes: u8,
}

/// Owned bytes that are never copied: the handle moves, as an mbuf's does.
#[derive(Debug)]
pub struct Replayed(Box<[u8]>);

impl Frame for Replayed {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn share(&self) -> Option<Self> {
        None
    }

    fn make_unique(&mut self) -> bool {
        true
    }
}

impl Replayed {
    /// Its priority, 0 to 7.
    pub fn class(&self) -> u8 {
        self.0[TOS] >> 5
    }

    /// The station speaks to itself: it is learned, and the frame goes nowhere.
    pub fn introduction(mut self) -> Self {
        self.0.copy_within(6..12, 0);
        self
    }
}

/// Everything on: PFC on priority 3, a real buffer, DWRR, ECN, watchdog.
pub fn switch(load: &Load) -> Result<Switch<Replayed>> {
    let mut text = String::from(
        "[qos]\npreset = \"roce-lossless\"\n\
         dscp_to_tc = { \"0-7\" = 0, \"8-15\" = 1, \"16-23\" = 2, \"24-31\" = 3, \"32-39\" = 4, \
         \"40-47\" = 5, \"48-55\" = 6, \"56-63\" = 7 }\n\
         [buffer]\nsize = \"64MiB\"\n[port_defaults]\nrate = \"100G\"\n",
    );
    for port in 0..load.ports {
        text += &format!("[[port]]\nname = \"p{port}\"\ndevice = \"net_null{port}\"\n");
    }
    let config = match weir_config::load("the bench", &text) {
        Ok(loaded) => loaded.config,
        Err(found) => bail!("{}", found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    };
    let device = |port: usize| Device {
        mac: Mac::from_u64(0x0200_0000_ff00 + port as u64),
        rate: None,
        shard: 0,
        tx_per_lcore: false,
        pfc: true,
        partial_checksums: false,
    };
    let devices: Vec<_> = (0..load.ports).map(device).collect();
    // Virtual time does not pass at the pace of a wire here: nothing is held back by a shaper.
    let mut params = switch_params(&config, &devices, 1)?;
    params.ports.iter_mut().for_each(|port| port.rate = None);
    params.fdb_capacity = params.fdb_capacity.max(2 * load.busy * load.macs as usize);
    Ok(Switch::new(params)?)
}

/// Frames of `port`: from its stations to those of its neighbour, classes in turn.
pub fn frames(load: &Load, port: usize) -> Vec<Replayed> {
    let peer = port ^ 1;
    let macs = u64::from(load.macs);
    let station = |port: usize, n: u64| Mac::from_u64(0x0200_0000_0000 | (port as u64) << 32 | (n % macs));
    let one = |n: u64| {
        let mut bytes = vec![0; load.frame_bytes - FCS];
        let len = bytes.len() as u16;
        bytes[..6].copy_from_slice(&station(peer, n * 7).0);
        bytes[6..12].copy_from_slice(&station(port, n).0);
        let class = (n % u64::from(load.classes)) as u8;
        bytes[12..16].copy_from_slice(&[8, 0, 0x45, class << 5 | 2]);
        bytes[16..18].copy_from_slice(&(len - 14).to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 17]);
        bytes[36..38].copy_from_slice(&9u16.to_be_bytes());
        bytes[38..40].copy_from_slice(&(len - 34).to_be_bytes());
        debug_assert!(bytes.len() >= HEADERS);
        Replayed(bytes.into_boxed_slice())
    };
    (0..FRAMES.max(macs)).map(one).collect()
}

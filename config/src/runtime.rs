//! From a checked configuration to the parameters of a switch: copies, no decisions.

use crate::link_local::LACP;
use crate::{
    Config, FormatConfig, LagConfig, LagHash, LldpMode, MarkPoint, MirrorConfig, MirrorDirection,
    MirrorTarget, PgConfig, PortConfig, QueueConfig, SchedulerType, SharedLimit, Voq, WatchdogAction,
    WredConfig, queue_of, turns_of,
};
use weir_dataplane::classify::{self, Classifier, MapError, TrustSource};
use weir_dataplane::ecn::{MarkAt, Wred, q32_from_millionths};
use weir_dataplane::egress::{Discipline, QueueSchedule, VoqOrder};
use weir_dataplane::flows::{EPOCH, FlowParams};
use weir_dataplane::lag::LagParams;
use weir_dataplane::mmu::{Limit, MmuParams, PgParams, PoolId, QueueParams};
use weir_dataplane::parse::{
    EcnSource, Field, FormatError, FormatSpec, HashFields, Profile, Transport, Variant,
};
use weir_dataplane::pfc::frame::{MAX_QUANTA, quanta_to_ns};
use weir_dataplane::pfc::generate::GenerateConfig;
use weir_dataplane::pfc::react::{ReactConfig, RxMode};
use weir_dataplane::pfc::watchdog::{Action, Recurrence, WatchdogConfig};
use weir_dataplane::portset::PortSet;
use weir_dataplane::switch::{MirrorParams, MirrorTo, PortParams, SwitchParams, UnknownUnicast};
use weir_dataplane::turn::{Platform, Turns};
use weir_dataplane::types::{BURST, Mac, Nanos, PRIORITIES, PortId};

/// What only the device of a port can say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its address, used where the configuration gives none.
    pub mac: Mac,
    /// Speed of its link in bit/s, above which nothing can leave and in whose bit times pauses are counted; `None`: it has
    /// none, is down, or does not tell, and what the configuration says counts.
    pub rate: Option<u64>,
    /// Lcore (shard index) that polls it.
    pub shard: u8,
    /// Every lcore has a transmit queue of its own.
    pub tx_per_lcore: bool,
    /// Software sees received PFC frames and may send them (`pfc.mode`, as granted).
    pub pfc: bool,
    /// Its frames come from a kernel that may have left their checksums to hardware.
    pub partial_checksums: bool,
}

/// Why a checked configuration still makes no switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// A custom format breaks a rule of the parser.
    #[error("format: {0}")]
    Format(#[from] FormatError),
    /// A map leads outside 0..7.
    #[error("map: {0}")]
    Map(#[from] MapError),
}

/// Rate that stands in for an unknown one where a number of bits per second must be had: pause
/// quanta of an unshaped port count as if it ran at this speed.
pub const NOMINAL_RATE: u64 = 100_000_000_000;

/// Decisions about frames that an lcore keeps at least: eight places for each kind that 8192 frames can have on two ports, so
/// that hardly one finds none, and few find theirs beside where they are looked for first.
const FLOW_CACHE: usize = 131_072;
/// Decisions for each entry of the forwarding table, where that has room for more stations than most have.
const DECISIONS_OF_STATION: usize = 2;
/// The same of a switch in a simulation, of which there may be thousands.
const SIMULATED_FLOW_CACHE: usize = 512;

/// How a switch reads frames of each format.
///
/// # Errors
/// A rule the configuration's own checks do not know.
pub fn profiles(config: &Config) -> Result<Vec<Profile>, FormatError> {
    config.formats.iter().enumerate().map(|(i, format)| Profile::new(&format_spec(i, format))).collect()
}

/// Builds the parameters of a switch with `shards` shards.
///
/// # Errors
/// [`RuntimeError`]: a rule the configuration's own checks do not know.
pub fn switch_params(
    config: &Config,
    devices: &[Device],
    shards: usize,
) -> Result<SwitchParams, RuntimeError> {
    let profiles = profiles(config)?;
    let ports: Vec<PortParams> = config
        .ports
        .iter()
        .zip(devices)
        .enumerate()
        .map(|(i, (port, device))| {
            let beside = config.ports.iter().zip(devices).filter(|(_, other)| other.shard == device.shard);
            let turns = turns_of(config.platform, beside.map(|(port, _)| port), config.pfc.poll_gap);
            port_params(config, PortId(i as u16), device, &profiles[port.format], turns)
        })
        .collect::<Result<_, MapError>>()?;
    let key = |format: usize, key: u64, vlan: u16| profiles[format].key(key, vlan);
    Ok(SwitchParams {
        // A group is lossless by its profile, whether or not there is anybody to pause for it: what it loses is told.
        mmu: mmu_params(config, shards),
        watchdog: config.watchdog.as_ref().map(|w| watchdog_config(config, w, &ports)),
        ports,
        // A burst has its slots before it is known whether it is admitted.
        frames: config.buffer.frames as usize + BURST,
        voq: match config.voq {
            Voq::Fair => VoqOrder::Fair,
            Voq::Fifo => VoqOrder::Fifo,
        },
        flow_cache: match config.platform {
            Platform::Polled => FLOW_CACHE.max(config.fdb.capacity as usize * DECISIONS_OF_STATION),
            Platform::Simulated => SIMULATED_FLOW_CACHE,
        },
        fdb_capacity: config.fdb.capacity as usize,
        copied: config.buffer.frames as usize + BURST,
        observed: true,
        ageing: (config.fdb.ageing > 0).then_some(config.fdb.ageing),
        stations: config
            .fdb
            .statics
            .iter()
            .map(|s| (key(s.format, s.key, s.vlan), config.fdb_port(s.port)))
            .collect(),
        groups: config
            .fdb
            .groups
            .iter()
            .map(|g| (key(g.format, g.key, g.vlan), g.ports.iter().copied().collect::<PortSet>()))
            .collect(),
        lags: config.lags.iter().map(lag_params).collect(),
        mirrors: config.mirrors.iter().map(|mirror| mirror_params(config, mirror)).collect(),
        flows: config.flows.enable.then(|| FlowParams {
            sample: config.flows.sample,
            // A run in virtual time is one stretch.
            epoch: if config.platform == Platform::Polled { EPOCH } else { Nanos::MAX },
        }),
        seed: config.seed,
    })
}

fn lag_params(lag: &LagConfig) -> LagParams {
    let fields = match lag.hash {
        LagHash::L2 => HashFields::L2,
        LagHash::L3 => HashFields::L3,
        LagHash::L4 => HashFields::L4,
    };
    LagParams { members: lag.members.iter().copied().collect(), fields }
}

fn mirror_params(config: &Config, mirror: &MirrorConfig) -> MirrorParams {
    let from = |wanted: bool| mirror.ports.iter().copied().filter(|_| wanted).collect();
    MirrorParams {
        rx: from(mirror.direction != MirrorDirection::Tx),
        tx: from(mirror.direction != MirrorDirection::Rx),
        filter: mirror.filter,
        to: match &mirror.to {
            MirrorTarget::Port { port, tc } => {
                MirrorTo::Port { port: *port, queue: queue_of(*tc, &config.ports[port.index()]) }
            }
            MirrorTarget::File(file) => MirrorTo::Reader { number: mirror.number(), bytes: file.snaplen },
        },
    }
}

fn port_params(
    config: &Config,
    id: PortId,
    device: &Device,
    profile: &Profile,
    turns: Turns,
) -> Result<PortParams, MapError> {
    let port = &config.ports[id.index()];
    let rate = port.rate.within(device.rate);
    // Quanta are bit times of the link, whatever the shaper lets through.
    let bit_rate = device.rate.or(rate).unwrap_or(NOMINAL_RATE);
    let maps = classify::Maps {
        dscp_to_tc: port.maps.dscp_to_tc,
        pcp_to_tc: port.maps.pcp_to_tc,
        tc_to_queue: port.maps.tc_to_queue,
        tc_to_pg: port.maps.tc_to_pg,
        port_tc: port.default_tc,
        control_tc: config.control_tc,
    };
    let trust: Vec<TrustSource> = port
        .trust
        .iter()
        .map(|source| match source {
            crate::Trust::Dscp => TrustSource::Dscp,
            crate::Trust::Pcp => TrustSource::Pcp,
            crate::Trust::Tc => TrustSource::Tc,
            crate::Trust::Port => TrustSource::Port,
        })
        .collect();
    let pg_of = |priority: usize| usize::from(port.maps.pfc_to_pg[priority]);
    let classes_of = |pg: usize| (0..PRIORITIES).filter(move |tc| usize::from(port.maps.tc_to_pg[*tc]) == pg);
    let speaks_lacp = config.lags.iter().any(|lag| config.speaks_lacp(lag));
    let is_port = |member: &PortId| config.ports[member.index()].name == port.name;
    let lacp = config.lags.iter().any(|lag| config.speaks_lacp(lag) && lag.members.iter().any(is_port));
    let tx = if port.pfc.tx && device.pfc { port.pfc.enable } else { 0 };
    Ok(PortParams {
        admin_down: config.admin_of(id) == crate::AdminStatus::Down,
        mac: port.mac.unwrap_or(device.mac),
        mtu: usize::from(port.mtu),
        rate,
        burst: turns.burst,
        profile: profile.clone().with_max_frame(usize::from(port.mtu)),
        complete_checksums: device.partial_checksums,
        classifier: Classifier::new(&maps, &trust)?,
        unknown_unicast: match port.unknown_unicast {
            crate::UnknownUnicast::Flood => UnknownUnicast::Flood,
            crate::UnknownUnicast::Drop => UnknownUnicast::Drop,
        },
        link_local: config.fdb.link_local & if speaks_lacp { !(1 << LACP) } else { u16::MAX },
        lldp: config.lldp_of(port) != LldpMode::Off,
        lacp,
        vlans: port.vlans.clone(),
        storm_control: port.storm_control,
        learning: port.learning,
        learn_limit: port.learn_limit.unwrap_or(u32::MAX),
        queues: queue_schedules(port),
        mark: std::array::from_fn(|queue| config.marking_of(port, queue).map(marking)),
        early_drop: port.queues.map(|q| early_drop(&q)),
        react: ReactConfig {
            rate: bit_rate,
            enabled: port.pfc.enable,
            mode: match port.pfc.rx {
                _ if !device.pfc => RxMode::None,
                crate::PfcRx::Enabled => RxMode::Enabled,
                crate::PfcRx::All => RxMode::All,
                crate::PfcRx::Link => RxMode::Link,
                crate::PfcRx::None => RxMode::None,
            },
            pfc_to_queue: port.maps.pfc_to_queue,
        },
        generate: GenerateConfig {
            rate: bit_rate,
            enabled: tx,
            quanta: config.pfc.quanta.max(1),
            refresh: config.pfc.refresh,
        },
        pg_priorities: std::array::from_fn(|pg| mask((0..PRIORITIES).filter(|p| pg_of(*p) == pg))),
        pg_queues: std::array::from_fn(|pg| {
            mask(classes_of(pg).map(|tc| usize::from(port.maps.tc_to_queue[tc])))
        }),
        control_pool: config.control_tc.is_some() && config.buffer.control_bytes > 0,
        shard: device.shard,
        tx_per_lcore: device.tx_per_lcore,
    })
}

fn mask(bits: impl Iterator<Item = usize>) -> u8 {
    bits.fold(0, |mask, bit| mask | 1 << bit)
}

/// How the queues of a port compete.
pub fn queue_schedules(port: &PortConfig) -> [QueueSchedule; PRIORITIES] {
    std::array::from_fn(|queue| schedule(queue, &port.queues[queue]))
}

fn schedule(queue: usize, config: &QueueConfig) -> QueueSchedule {
    let s = &config.scheduler;
    let (discipline, level) = match s.kind {
        // Strict queues go before weighted ones, by `priority` and then by queue number.
        SchedulerType::Strict => (Discipline::Strict, 1 + s.priority.unwrap_or(queue as u8)),
        SchedulerType::Dwrr => (Discipline::Dwrr(s.weight), 0),
        SchedulerType::Wrr => (Discipline::Wrr(s.weight), 0),
    };
    QueueSchedule { discipline, level, cir: s.cir, pir: s.pir }
}

fn marking(wred: WredConfig) -> Wred {
    Wred {
        kmin: wred.kmin,
        kmax: wred.kmax,
        pmax: q32_from_millionths(wred.pmax),
        at: match wred.mark {
            MarkPoint::Dequeue => MarkAt::Dequeue,
            MarkPoint::Enqueue => MarkAt::Enqueue,
        },
    }
}

/// Never on a lossless queue (F7).
fn early_drop(queue: &QueueConfig) -> Option<Wred> {
    let wred = queue.wred.filter(|w| w.wred_drop && !queue.lossless)?;
    Some(Wred { kmin: wred.kmin, kmax: wred.kmax, pmax: q32_from_millionths(wred.pmax), at: MarkAt::Enqueue })
}

fn limit(shared: SharedLimit) -> Limit {
    match shared {
        // The configuration has no other exponent.
        SharedLimit::Dynamic(n) => Limit::dynamic(n).unwrap_or(Limit::UNLIMITED),
        SharedLimit::Static(bytes) => Limit::fixed(bytes),
    }
}

fn pg_params(pg: &PgConfig) -> PgParams {
    PgParams {
        reserved: pg.reserved,
        limit: limit(pg.shared),
        headroom: pg.xoff,
        xon: pg.xon,
        xon_offset: pg.xon_offset,
        lossless: pg.lossless,
    }
}

fn queue_params(queue: &QueueConfig) -> QueueParams {
    QueueParams {
        reserved: queue.reserved,
        limit: if queue.lossless { Limit::UNLIMITED } else { limit(queue.shared) },
        pool: if queue.lossless { PoolId::Lossless } else { PoolId::Lossy },
    }
}

/// The division of the buffer.
pub fn mmu_params(config: &Config, shards: usize) -> MmuParams {
    let buffer = &config.buffer;
    let mut egress = [None; 2];
    egress[PoolId::Lossy as usize] = Some(buffer.egress_lossy_pool);
    // A lossless queue is held back at its ingress group, never at egress (B11).
    egress[PoolId::Lossless as usize] = Some(u64::MAX >> 2);
    MmuParams {
        total: buffer.size,
        cell_bytes: buffer.cell_bytes as u32,
        least_charge: buffer.least_charge(),
        pgs: config.ports.iter().flat_map(|port| port.pgs.iter().map(pg_params)).collect(),
        queues: config.ports.iter().flat_map(|port| port.queues.iter().map(queue_params)).collect(),
        headroom_pool: buffer.headroom_pooled.then_some(buffer.headroom),
        egress_pools: egress,
        port_ingress_limit: config.ports.iter().map(|port| port.ingress_limit).collect(),
        port_egress_limit: config.ports.iter().map(|port| port.egress_limit).collect(),
        control: buffer.control_bytes,
        mirror: buffer.mirror_bytes,
        staleness: buffer.staleness_of(&config.ports, shards),
    }
}

/// The memory of an input, where each port has its own ([`crate::Memories::PerPort`]): by the other ports nothing comes.
pub fn input_params(config: &Config, input: PortId) -> MmuParams {
    let mut memory = mmu_params(config, 1);
    for (port, groups) in memory.pgs.chunks_mut(PRIORITIES).enumerate() {
        if port != input.index() {
            groups.fill(PgParams::UNUSED);
        }
    }
    let headroom = config.buffer.of_port(input.index()).headroom;
    memory.headroom_pool = memory.headroom_pool.map(|_| headroom);
    memory
}

/// What the configuration says; and where it did not know the rate of a link, never so short that one pause is a storm.
fn watchdog_config(config: &Config, w: &crate::WatchdogConfig, ports: &[PortParams]) -> WatchdogConfig {
    let obeys = |port: &&PortParams| port.react.mode != RxMode::None;
    let pauses = ports.iter().filter(obeys).map(|port| quanta_to_ns(MAX_QUANTA, port.react.rate));
    let least = if w.allow_short { 0 } else { pauses.max().unwrap_or(0) };
    let lossless = |port: &PortConfig| mask((0..PRIORITIES).filter(|q| port.queues[*q].lossless));
    WatchdogConfig {
        queues: config.ports.iter().map(lossless).fold(0, |all, one| all | one),
        poll: w.poll,
        detection: w.detection.max(least),
        restoration: w.restoration,
        action: match w.action {
            WatchdogAction::Drop => Action::Drop,
            WatchdogAction::Forward => Action::Forward,
            WatchdogAction::Alert => Action::Alert,
        },
        recurrence: w.reoccurrence.map(|r| Recurrence { storms: r.count as u8, window: r.window }),
        big_red_switch: w.big_red_switch,
    }
}

/// The parser's form of a configured format. The first four are the built-in ones.
pub(crate) fn format_spec(index: usize, format: &FormatConfig) -> FormatSpec {
    let field = |f: crate::Field| Field { off: f.off, len: f.len };
    let base = match (index, format.is_lite(), format.key_dst.len) {
        (3, ..) | (_, true, _) => FormatSpec::afh_lite(Variant::Public),
        (0, ..) | (_, _, 48) => FormatSpec::standard(),
        (1, ..) | (_, _, 40) => FormatSpec::afh_gen1(),
        _ => FormatSpec::afh_gen2_16b(Variant::Public),
    };
    let group = format.flags.map(|flags| flags.off + 7).or(base.dst_group);
    FormatSpec {
        header_len: format.header_len,
        dst: field(format.key_dst),
        src: field(format.key_src),
        dst_group: group,
        flags: format.flags.map(field),
        tc: format.tc.map(field),
        ethertype_off: format.ethertype_off,
        vlan: format.vlan,
        ecn: match format.ecn {
            crate::EcnMode::None => EcnSource::None,
            crate::EcnMode::Ecn => EcnSource::Ip,
            crate::EcnMode::Tc => EcnSource::Tc,
        },
        type1_ethertype: format.ethertype.unwrap_or(base.type1_ethertype),
        learning: format.learning,
        transport: if format.rclink { Transport::RcLink } else { base.transport },
        ..base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_dataplane::frame::OwnedFrame;
    use weir_dataplane::parse::Kind;
    use weir_dataplane::switch::Switch;

    fn params(text: &str, shards: usize) -> SwitchParams {
        let config = crate::load("test.toml", text).unwrap_or_else(|e| panic!("{e:?}")).config;
        let device = |i: usize| Device {
            mac: Mac::from_u64(i as u64),
            shard: (i % shards) as u8,
            pfc: true,
            ..Device::default()
        };
        let devices: Vec<_> = (0..config.ports.len()).map(device).collect();
        switch_params(&config, &devices, shards).unwrap()
    }

    const TWO: &str =
        "[[port]]\nname = \"a\"\ndevice = \"ring\"\n[[port]]\nname = \"b\"\ndevice = \"ring\"\n";

    #[test]
    fn every_preset_makes_a_switch() {
        for preset in ["roce-lossless", "roce-semi-lossless", "paxi-lite", "paxi-standard"] {
            let p = params(&format!("{TWO}[qos]\npreset = \"{preset}\"\n"), 1);
            let lossless = p.mmu.pgs.iter().filter(|pg| pg.lossless).count();
            assert_eq!(lossless > 0, preset != "roce-semi-lossless", "{preset}");
            let switch = Switch::<OwnedFrame>::new(p);
            assert!(switch.is_ok(), "{preset}: {:?}", switch.err());
        }
    }

    #[test]
    fn pauses_are_counted_at_the_speed_of_the_link_and_nothing_leaves_faster() {
        const G: u64 = 1_000_000_000;
        let port = |rate: &str, link: Option<u64>| {
            let text = format!(
                "[[port]]\nname = \"a\"\ndevice = \"3b:00.0\"\n{rate}\npfc = {{ enable = [3], tx = false }}\n"
            );
            let config = crate::load("t", &text).unwrap_or_else(|e| panic!("{e:?}")).config;
            let device = Device { rate: link, pfc: true, ..Device::default() };
            let port = switch_params(&config, &[device], 1).unwrap().ports.remove(0);
            assert_eq!(port.react.rate, port.generate.rate);
            (port.rate, port.react.rate)
        };
        assert_eq!(port("rate = \"10G\"", Some(G)), (Some(G), G), "above the link");
        assert_eq!(port("rate = \"1G\"", Some(10 * G)), (Some(G), 10 * G), "below the link");
        assert_eq!(port("rate = \"10G\"", None), (Some(10 * G), 10 * G), "the link does not tell");
        assert_eq!(port("", Some(25 * G)), (Some(25 * G), 25 * G), "as fast as the link");
        assert_eq!(port("", None), (None, NOMINAL_RATE), "not known yet");
    }

    #[test]
    fn the_shipped_configurations_make_switches() {
        for text in [
            include_str!("../../configs/lab.toml"),
            include_str!("../../configs/two-nics.toml"),
            include_str!("../../configs/af-packet.toml"),
            include_str!("../../configs/memif.toml"),
            include_str!("../../configs/vhost.toml"),
            include_str!("../../configs/inc.toml"),
        ] {
            Switch::<OwnedFrame>::new(params(text, 1)).unwrap();
        }
    }

    #[test]
    fn dev06_rc_link_data_is_no_roce_acknowledgement() {
        // SEND with a timestamp and two bytes of padding: 0x11, the opcode of an acknowledgement in a BTH.
        let mut frame = vec![0; 100];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[16..18].copy_from_slice(&86u16.to_be_bytes());
        frame[23] = 17;
        frame[36..40].copy_from_slice(&[0x12, 0xb7, 0, 66]);
        frame[42] = 0x11;
        let kind = |preset: &str| {
            let text = format!("[qos]\npreset = {preset:?}\n[[port]]\nname = \"a\"\ndevice = \"ring\"\n");
            params(&text, 1).ports[0].profile.parse(&frame, frame.len()).unwrap().kind
        };
        assert_eq!((kind("roce-lossless"), kind("paxi-standard")), (Kind::Ack, Kind::Data));
    }

    #[test]
    fn the_ethertype_of_a_format_is_the_parsers() {
        let text = format!("{TWO}[format.x]\ninherit = \"afh_gen2_16b\"\nethertype = 0x88b6\n");
        let formats = crate::load("t", &text).unwrap_or_else(|e| panic!("{e:?}")).config.formats;
        assert_eq!(formats.len(), 6, "behind those built in");
        assert_eq!(format_spec(5, &formats[5]).type1_ethertype, 0x88b6);
    }

    #[test]
    fn built_in_formats_are_the_parsers_own() {
        let config = crate::load("t", TWO).unwrap().config;
        let own = [
            FormatSpec::standard(),
            FormatSpec::afh_gen1(),
            FormatSpec::afh_gen2_16b(Variant::Public),
            FormatSpec::afh_lite(Variant::Public),
            FormatSpec { transport: Transport::RcLink, ..FormatSpec::standard() },
        ];
        for (i, own) in own.iter().enumerate() {
            assert_eq!(&format_spec(i, &config.formats[i]), own);
        }
    }
}

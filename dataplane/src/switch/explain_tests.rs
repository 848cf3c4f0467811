//! What is told of a frame is what becomes of the next one: random switches in random states are asked about a frame through what they
//! publish ([`crate::explain`]), and then receive it. Seeds are fixed.

use super::dice::Dice;
use super::*;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::explain::{Asked, ControlPool, Explanation, Occupancy, explain};
use crate::fdb::Lookup;
use crate::lag::LagParams;
use crate::mmu::{PgIx, PgView, PoolId, QueueParams};
use crate::parse::{GROUP_BIT, HashFields, Kind, Variant};
use crate::rng::Rng;
use crate::storm_control::{FloodLimit, StormControl};
use crate::vlan::PortVlans;
use std::collections::BTreeMap;

type Sut = Switch<OwnedFrame>;

const GROUP: u64 = 0x0100_5e01_0101;
const JOINED: u64 = 0x0100_5e02_0202;
const LOSSLESS: [usize; 2] = [3, 4];

fn buffer(dice: &mut Dice, ports: usize) -> MmuParams {
    let mut mmu = MmuParams::lossy(ports, dice.one(&[40_000, 120_000]));
    mmu.cell_bytes = dice.one(&[1, 256, 208]);
    mmu.least_charge = dice.one(&[1, 300]);
    mmu.control = dice.one(&[0, 800, 4_000]);
    mmu.headroom_pool = dice.one(&[None, Some(3_000)]);
    mmu.egress_pools[0] = dice.one(&[None, Some(9_000)]);
    if dice.one_in(4) {
        mmu.port_ingress_limit = vec![Some(6_000); ports];
        mmu.port_egress_limit = vec![Some(6_000); ports];
    }
    for ix in 0..ports * PRIORITIES {
        let lossless = LOSSLESS.contains(&(ix % PRIORITIES));
        let limit = dice.one(&[Limit::dynamic(-2).unwrap(), Limit::dynamic(1).unwrap(), Limit::fixed(2_000)]);
        mmu.pgs[ix] = PgParams {
            reserved: dice.one(&[0, 300]),
            limit,
            headroom: if lossless { 1_600 } else { 0 },
            xon: 0,
            xon_offset: 0,
            lossless,
        };
        mmu.queues[ix] = QueueParams {
            reserved: dice.one(&[0, 300]),
            limit: if lossless { Limit::UNLIMITED } else { dice.one(&[limit, Limit::dynamic(-4).unwrap()]) },
            pool: if lossless { PoolId::Lossless } else { PoolId::Lossy },
        };
    }
    mmu
}

fn law(dice: &mut Dice, at: MarkAt) -> Option<Wred> {
    let kmin = dice.one(&[0, 500, 1_500]);
    let more = dice.one(&[0, 2_000, 6_000]);
    dice.one(&[None, Some(Wred { kmin, kmax: kmin + more, pmax: ONE_Q32, at })])
}

fn configured(dice: &mut Dice) -> SwitchParams {
    let ports = 2 + dice.below(4);
    let mut params = params(ports);
    params.mmu = buffer(dice, ports);
    let with_vlans = dice.one_in(3);
    let other_format =
        dice.one(&[Profile::standard_rclink(), Profile::afh_gen1(), Profile::afh_lite(Variant::Public)]);
    for (at, port) in params.ports.iter_mut().enumerate() {
        let maps = Maps { control_tc: dice.one(&[None, Some(6)]), ..Maps::default() };
        port.classifier = Classifier::new(&maps, &default_trust()).unwrap();
        port.control_pool = params.mmu.control > 0;
        port.admin_down = dice.one_in(15);
        port.unknown_unicast =
            dice.one(&[UnknownUnicast::Flood, UnknownUnicast::Flood, UnknownUnicast::Drop]);
        port.link_local = dice.one(&[0, 0xffff]);
        port.lldp = dice.one_in(2);
        port.mtu = dice.one(&[700, 9216]);
        for queue in (0..PRIORITIES).filter(|queue| !LOSSLESS.contains(queue)) {
            port.early_drop[queue] = law(dice, MarkAt::Dequeue);
        }
        for queue in 0..PRIORITIES {
            let at = dice.one(&[MarkAt::Dequeue, MarkAt::Enqueue]);
            port.mark[queue] = law(dice, at);
        }
        port.storm_control = dice.one_in(3).then(|| StormControl {
            limits: std::array::from_fn(|_| dice.one(&[None, Some(FloodLimit::Frames(1_000))])),
            burst: 1,
        });
        port.vlans = with_vlans.then(|| PortVlans {
            native: dice.one(&[Some(10), None]),
            members: [10, 20].into_iter().filter(|_| !dice.one_in(4)).collect(),
        });
        if at > 1 && dice.one_in(6) {
            port.profile = other_format.clone();
        }
    }
    let key = |address| Profile::standard().key(address, if with_vlans { 10 } else { 0 });
    params.stations = vec![(key(host(1).to_u64()), PortId(1))];
    params.groups = vec![(key(GROUP), dice.ports(ports))];
    if ports > 3 && dice.one_in(3) {
        let members = [1, 2].map(PortId).into_iter().collect();
        params.lags = vec![LagParams { members, fields: HashFields::L2 }];
    }
    params
}

/// A frame, in words that do not depend on what the switch knows.
fn any_frame(dice: &mut Dice, params: &SwitchParams) -> Asked {
    let kind = dice.one(&[Kind::Data, Kind::Data, Kind::Data, Kind::Cnp, Kind::Ack, Kind::Reserved]);
    let stations = [1, 2, 3, 4, 5].map(|n| host(n).to_u64());
    let dst = match dice.below(10) {
        0..4 => dice.one(&stations),
        4 => host(99).to_u64(),
        5 => GROUP,
        6 => JOINED,
        7 => GROUP_BIT | 0x77,
        _ => 0xffff_ffff_ffff,
    };
    let ip = dice.one_in(8);
    Asked {
        port: PortId(dice.below(params.ports.len()) as u16),
        dst: Some(dst),
        to: None,
        len: dice.one(&[13, 60, 64, 64, 64, 300, 300, 700, 1000]),
        dscp: (!ip).then(|| dice.one(&[0, 8, 24, 32, 48])),
        pcp: if dice.one_in(4) { Some(3) } else { None },
        vid: if dice.one_in(4) { Some(dice.one(&[10, 20, 30])) } else { None },
        tc: None,
        ecn: if ip { None } else { Some(dice.below(4) as u8) },
        kind,
        flood: None,
        group: None,
    }
}

/// Comes to some state: frames, pauses, links, storms, and queues that are emptied.
fn lived(dice: &mut Dice, params: &SwitchParams, now: &mut Nanos) -> Sut {
    let mut s = Switch::new(params.clone()).unwrap();
    let ports = params.ports.len();
    for port in 0..ports {
        s.hold_back(PortId(port as u16), dice.one(&[0, 0xff, 0x0f]));
    }
    for station in 2..6 {
        let (at, vid) = (dice.below(ports), if params.ports[0].vlans.is_some() { 10 } else { 0 });
        let profile = &params.ports[at].profile;
        let port = s.lags.fdb_port(PortId(at as u16));
        s.fdb.learn(profile.key(host(station).to_u64(), vid), port, 0);
    }
    for _ in 0..dice.below(80) {
        *now += 100_000;
        let asked = any_frame(dice, params);
        let Ok(frame) = asked.frame(params, 0) else { continue };
        let frames = 1 + dice.below(6);
        receive(
            &mut s,
            asked.port.0,
            vec![frame; frames].into_iter().map(|f| OwnedFrame::new(f.bytes())),
            *now,
        );
        let mut wire = Tap::of(dice.below(3));
        s.transmit(PortId(dice.below(ports) as u16), dice.below(4), *now, &mut wire);
    }
    if dice.one_in(3) {
        s.set_link(PortId(dice.below(ports) as u16), false, *now);
    }
    if !params.lags.is_empty() {
        // By which of two members a frame leaves is not asked.
        s.set_link(PortId(dice.one(&[1, 2])), false, *now);
    }
    for port in 0..ports {
        let own = &mut s.ports[port];
        own.storm_drop = if dice.one_in(4) { dice.below(256) as u8 } else { 0 };
        if dice.one_in(6) && own.status.is_up() {
            (own.flushing, own.flush_as) = (dice.below(256) as u8, [DropReason::EgressPortDown; PRIORITIES]);
        }
        s.note_slow_path_queues(PortId(port as u16));
    }
    s
}

/// The same frame, with what the switch knows of its destination.
fn placed(dice: &mut Dice, s: &mut Sut, params: &SwitchParams, asked: Asked) -> Option<(Asked, OwnedFrame)> {
    let frame = asked.frame(params, 0).ok()?;
    let rx = s.rx_context(asked.port, 0);
    let key = rx.read(&frame, None, &s.ports[asked.port.index()].params, &s.fdb).dst_key;
    if asked.dst == Some(JOINED) && asked.kind != Kind::Reserved {
        let ports = dice.ports(params.ports.len());
        // One that cannot be read has no address.
        let _ = s.set_members(key, Some(ports));
        return Some((Asked { group: Some(ports), ..asked }, frame));
    }
    let to = match s.fdb.lookup(key) {
        Lookup::Port(port) if !s.fdb.is_static(key) => Some(PortSet::from_iter([port])),
        _ => None,
    };
    Some((Asked { to, ..asked }, frame))
}

/// What can be seen of a switch.
struct Seen {
    drops: BTreeMap<DropReason, u64>,
    waiting: Vec<[u32; PRIORITIES]>,
    groups: Vec<PgView>,
    marked: u64,
    local: u64,
}

impl Seen {
    fn of(s: &Sut) -> Self {
        let ports: Vec<PortId> = s.ports.ids().collect();
        let stats = || ports.iter().map(|port| s.stats(*port));
        let lost = |reason: DropReason| stats().map(|stats| stats.drops.0[reason as usize]).sum();
        Self {
            drops: DropReason::ALL.iter().map(|reason| (*reason, lost(*reason))).collect(),
            waiting: ports.iter().map(|p| std::array::from_fn(|q| s.queue_frames(*p, q))).collect(),
            groups: (0..=ports.len() * PRIORITIES).map(|pg| s.admission.pg_view(PgIx(pg as u32))).collect(),
            marked: stats().map(|stats| stats.ecn_marked.iter().sum::<u64>()).sum(),
            local: stats().map(|stats| stats.rx_lldp).sum(),
        }
    }
}

fn held(view: &PgView) -> (u64, u64, u64, u64, bool) {
    (view.used, view.shared, view.headroom, view.limit, view.xoff)
}

/// What chance makes of a single copy, whose random numbers are these: it is dropped, it is marked.
fn drawn(s: &Sut, told: &Explanation) -> (bool, bool) {
    let [copy] = told.copies[..] else { return (false, false) };
    let (mut rng, class) = (s.rng.clone(), told.class.unwrap());
    let law = &s.ports[copy.out.index()].params;
    let mut below = |share: u64| u64::from(rng.next_u32()) < share;
    let dropped = law.early_drop[usize::from(class.queue)].is_some() && below(copy.early_drop);
    let marks = copy.mark.filter(|(law, _)| law.at == MarkAt::Enqueue);
    (dropped, !dropped && marks.is_some_and(|(_, share)| below(share)))
}

#[test]
fn what_is_told_is_what_becomes_of_the_next_frame() {
    let mut met = BTreeMap::<String, u32>::new();
    for seed in 0..6_000 {
        let dice = &mut Dice(Rng::new(seed));
        let params = configured(dice);
        let mut now = 0;
        let mut s = lived(dice, &params, &mut now);
        let mut meet = |what: &str| *met.entry(what.to_owned()).or_default() += 1;
        let asked = any_frame(dice, &params);
        let Some((asked, frame)) = placed(dice, &mut s, &params, asked) else { continue };
        let readers = [LocalProtocol::Lldp].map(|protocol| s.read_local(asked.port, protocol));
        let gauges: Vec<_> = s.ports.ids().map(|port| s.gauges(port, now)).collect();
        let mut loops = LoopStats::default();
        s.fill_loop_stats(&mut loops);
        let down = s.ports.ids().filter(|port| !s.ports[port.index()].link).collect();
        let seen = Occupancy { down, ..Occupancy::of(gauges.iter(), std::iter::once(loops.control_used)) };
        let told = explain(&params, &seen, &asked).unwrap();

        let unsure = told.copies.iter().filter(|copy| (1..ONE_Q32).contains(&copy.early_drop)).count();
        if told.copies.len() > 1 && unsure > 0 {
            continue;
        }
        let (early, marked) = drawn(&s, &told);
        let before = Seen::of(&s);
        receive(&mut s, asked.port.0, [frame], now);
        let after = Seen::of(&s);
        drop(readers);

        let case = format!("{seed}: {asked:?} {told:?}");
        let lost: Vec<(DropReason, u64)> = DropReason::ALL
            .iter()
            .map(|reason| (*reason, after.drops[reason] - before.drops[reason]))
            .filter(|(_, frames)| *frames > 0)
            .collect();
        lost.iter().for_each(|(reason, _)| meet(reason.name()));
        if unsure > 0 {
            meet(if early { "by chance dropped" } else { "by chance passed" });
        }
        if early && unsure > 0 {
            assert_eq!(lost, [(DropReason::EgressWred, 1)], "{case}");
            continue;
        }
        assert_eq!(lost, told.lost, "{case}");
        for (out, (was, is)) in before.waiting.iter().zip(&after.waiting).enumerate() {
            let comes = told.copies.iter().any(|copy| copy.out.index() == out && copy.lost.is_none());
            let queue = told.class.filter(|_| comes).map(|class| usize::from(class.queue));
            let came: Vec<usize> = (0..PRIORITIES).filter(|q| was[*q] != is[*q]).collect();
            assert_eq!(came, Vec::from_iter(queue), "{case}");
        }
        assert_eq!(told.consumed, after.local > before.local, "{case}");
        if told.consumed {
            meet("consumed");
        }
        if told.copies.len() > 1 {
            meet(if told.copies.iter().all(|copy| copy.lost.is_none()) { "copies" } else { "copies lost" });
        }
        if told.copies.len() == 1 && told.copies[0].mark.is_none_or(|(law, _)| law.at == MarkAt::Enqueue) {
            let is_marked = marked && lost.is_empty();
            assert_eq!(after.marked - before.marked, u64::from(is_marked), "{case}");
            meet(if is_marked { "marked" } else { "not marked" });
        }
        let ix = told.group.as_ref().map(|group| group.ix);
        let pooled = told.group.as_ref().map_or(0, |group| match group.control {
            Some(ControlPool::Full(bytes)) => bytes,
            _ => 0,
        });
        for (pg, (was, is)) in before.groups.iter().zip(&after.groups).enumerate() {
            let is_pool = s.admission.control_pg() == Some(PgIx(pg as u32));
            if is_pool && pooled > 0 {
                meet("control pool in part");
                // What all copies are refused for is given back.
                assert!(!lost.is_empty() || was.used + u64::from(pooled) == is.used, "{case}");
            } else if ix != Some(PgIx(pg as u32)) {
                let [was, is] = [was, is].map(|pg| (pg.used, pg.headroom, pg.xoff));
                assert_eq!(was, is, "{pg} {case}");
            }
        }
        let Some(group) = told.group else { continue };
        let (was, is) = (before.groups[group.ix.0 as usize], after.groups[group.ix.0 as usize]);
        assert_eq!((held(&group.before), held(&group.after)), (held(&was), held(&is)), "{case}");
        match group.control {
            Some(ControlPool::Room) => meet("control pool"),
            Some(ControlPool::Full(_)) => meet("control pool full"),
            None => {}
        }
        if lost.is_empty() {
            let taken = is.used + is.headroom - was.used - was.headroom;
            assert_eq!(taken, u64::from(group.charge), "{case}");
            assert_eq!(group.xoff, is.xoff && !was.xoff, "{case}");
            meet("admitted");
            if is.headroom > was.headroom {
                meet(if group.xoff { "Xoff" } else { "headroom" });
            }
        }
        let own = group.ix.0 as usize / PRIORITIES == asked.port.index() && is.xoff;
        let pauses = s.ports[asked.port.index()].generator.wanted() & 1 << (group.ix.0 % 8);
        assert_eq!(group.pauses, if own { pauses } else { 0 }, "{case}");
    }
    for (what, times) in [
        ("admitted", 500),
        ("consumed", 30),
        ("control pool", 30),
        ("control pool full", 10),
        ("copies", 100),
        ("copies lost", 20),
        ("marked", 10),
        ("not marked", 100),
        ("Xoff", 10),
        ("headroom", 10),
        ("by chance dropped", 5),
        ("by chance passed", 10),
    ] {
        assert!(met.get(what).copied().unwrap_or(0) >= times, "{what}: {met:?}");
    }
    use DropReason::*;
    for reason in [
        EgressWred,
        WatchdogDrop,
        EgressPortDown,
        IngressShared,
        IngressHeadroom,
        IngressAdminDown,
        IngressBroadcastLimit,
        LookupUnknown,
        LookupSamePort,
        LookupNoReceiver,
        ControlReserved,
        ParseTooShort,
        ParseTooLong,
    ] {
        assert!(met.get(reason.name()).copied().unwrap_or(0) >= 10, "{}: {met:?}", reason.name());
    }
}

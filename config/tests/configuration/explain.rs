//! What a switch made from a configuration says would happen to a frame.

use weir_config::runtime::{Device, switch_params};
use weir_dataplane::drops::DropReason;
use weir_dataplane::ecn::ONE_Q32;
use weir_dataplane::explain::{Asked, Explanation, Occupancy, explain};
use weir_dataplane::lag::LagParams;
use weir_dataplane::mmu::{Held, Mmu, PgIx, PgView, QueueIx};
use weir_dataplane::parse::{HashFields, Kind};
use weir_dataplane::portset::PortSet;
use weir_dataplane::stats::PortGauges;
use weir_dataplane::storm_control::{FloodKind, FloodLimit, StormControl};
use weir_dataplane::switch::{SwitchParams, UnknownUnicast};
use weir_dataplane::types::{Mac, PortId};

fn params() -> SwitchParams {
    let text = "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"8MiB\"\ncell_bytes = 256\n\
                [port_defaults]\nmtu = 1600\nrate = \"1G\"\n[[port]]\nname = \"a\"\ndevice = \"ring\"\n\
                [[port]]\nname = \"b\"\ndevice = \"ring\"\n[[port]]\nname = \"c\"\ndevice = \"ring\"\n";
    let config = weir_config::load("t.toml", text).unwrap().config;
    let device = Device { mac: Mac::from_u64(1), pfc: true, ..Device::default() };
    switch_params(&config, &[device; 3], 1).unwrap()
}

fn frame() -> Asked {
    Asked {
        port: PortId(0),
        dst: None,
        to: None,
        len: 1000,
        dscp: Some(26),
        pcp: None,
        vid: None,
        tc: None,
        ecn: None,
        kind: Kind::Data,
        flood: None,
        group: None,
    }
}

/// Bytes it takes of the reserve, of the shared pool and of headroom.
fn takes(told: &Explanation) -> [u64; 3] {
    let group = told.group.as_ref().unwrap();
    let reserve = |view: &PgView| view.used - view.shared;
    let (before, after) = (&group.before, &group.after);
    [reserve(after) - reserve(before), after.shared - before.shared, after.headroom - before.headroom]
}

fn is_admitted(told: &Explanation) -> bool {
    told.lost.is_empty() && !told.copies.is_empty()
}

fn lost(told: &Explanation) -> Vec<DropReason> {
    told.lost.iter().map(|(reason, _)| *reason).collect()
}

#[test]
fn an_empty_switch_takes_a_frame_out_of_the_reserve() {
    let told = explain(&params(), &Occupancy::default(), &frame()).unwrap();
    let (class, group, copy) = (told.class.unwrap(), told.group.unwrap(), told.shown.unwrap());
    assert_eq!((class.queue, class.pg, group.charge), (3, 3, 1024));
    assert_eq!((is_admitted(&told), takes(&told), group.pauses), (true, [1024, 0, 0], 0));
    assert_eq!((copy.out, copy.mark.unwrap().1), (PortId(1), 0));
}

#[test]
fn at_the_line_it_goes_to_headroom_and_pauses_beyond_that_it_is_lost() {
    let params = params();
    let mut seen =
        Occupancy { groups: vec![Held::default(); 24], queues: vec![0; 24], ..Occupancy::default() };
    let shared = Mmu::new(params.mmu.clone()).unwrap().pools().shared_size;
    // alpha 1: half of the pool is the line of a single user.
    seen.groups[3].used = 4096 + shared / 2;
    seen.queues[16 + 3] = 400_000;
    let told = explain(&params, &seen, &frame()).unwrap();
    let (group, copy) = (told.group.unwrap(), told.shown.unwrap());
    assert_eq!((is_admitted(&told), group.xoff, takes(&told)), (true, true, [0, 0, 1024]));
    assert_eq!((group.pauses, copy.out), (1 << 3, PortId(2)));
    // Above Kmax, 384 000 bytes on a virtual port, everything is marked.
    assert_eq!(copy.mark.unwrap().1, ONE_Q32);
    seen.groups[3].headroom = group.before.headroom_limit;
    seen.groups[3].xoff = true;
    let told = explain(&params, &seen, &frame()).unwrap();
    assert_eq!(lost(&told), [DropReason::IngressHeadroom]);
    assert_eq!((takes(&told), told.group.unwrap().pauses), ([0; 3], 1 << 3));
}

#[test]
fn a_flooded_frame_is_held_against_the_limit_of_its_kind() {
    let mut params = params();
    let limit = FloodLimit::Frames(10);
    params.ports[0].storm_control = Some(StormControl { limits: [Some(limit), None, None], burst: 0 });
    let mut gauges = vec![PortGauges::default(); 3];
    let ask = |params: &SwitchParams, gauges: &[PortGauges], flood| {
        let asked = Asked { flood, ..frame() };
        let told = explain(params, &Occupancy::of(gauges.iter(), [0].into_iter()), &asked).unwrap();
        (told.flood_limit, lost(&told))
    };
    let (broadcast, unknown) = (Some(FloodKind::Broadcast), Some(FloodKind::UnknownUnicast));
    assert_eq!(ask(&params, &gauges, broadcast), (Some((limit, false)), vec![]));
    gauges[0].flood_exceeded = 1;
    let refused = vec![DropReason::IngressBroadcastLimit];
    assert_eq!(ask(&params, &gauges, broadcast), (Some((limit, true)), refused));
    assert_eq!(ask(&params, &gauges, None), (None, vec![]));
    assert_eq!(ask(&params, &gauges, unknown), (None, vec![]));
    params.ports[0].unknown_unicast = UnknownUnicast::Drop;
    assert_eq!(ask(&params, &gauges, unknown).1, [DropReason::LookupUnknown]);
}

#[test]
fn what_was_published_is_what_is_restored() {
    let params = params();
    let mut gauges = vec![PortGauges::default(); 3];
    gauges[0].pg_used[3] = 10_000;
    gauges[0].pg_headroom[3] = 3_000;
    gauges[0].pg_xoff = 1 << 3;
    gauges[1].storm_dropping = 1 << 0;
    gauges[1].queue_flushing[3] = 1 + DropReason::EgressPortDown as u64;
    gauges[2].queue_bytes[3] = 13_000;
    let seen = Occupancy::of(gauges.iter(), [0].into_iter());
    let mut mmu = Mmu::new(params.mmu.clone()).unwrap();
    mmu.restore(&seen.groups, &seen.queues).unwrap();
    mmu.audit().unwrap();
    let pg = mmu.pg(PgIx(3));
    assert_eq!((pg.used, pg.shared, pg.headroom, pg.xoff), (10_000, 10_000 - 4096, 3_000, true));
    assert_eq!(mmu.queue(QueueIx(19)).used, 13_000);
    let to = Some(PortSet::from_iter([PortId(1)]));
    for (dscp, reason) in [(0, DropReason::WatchdogDrop), (26, DropReason::EgressPortDown)] {
        let told = explain(&params, &seen, &Asked { to, dscp: Some(dscp), ..frame() }).unwrap();
        assert_eq!(lost(&told), [reason], "{told:?}");
    }
}

/// A frame for a LAG is asked about at the member whose queue is the fullest, and none goes back to the LAG it came from.
#[test]
fn a_frame_leaves_a_lag_by_one_member_and_never_goes_back_to_it() {
    let mut params = params();
    let of = |ports: [u16; 2]| -> PortSet { ports.map(PortId).into_iter().collect() };
    let mut seen =
        Occupancy { groups: vec![Held::default(); 24], queues: vec![0; 24], ..Occupancy::default() };
    (seen.queues[8 + 3], seen.queues[16 + 3]) = (1_000, 2_000);
    let ask = |params: &SwitchParams, to| {
        let told = explain(params, &seen, &Asked { to, ..frame() }).unwrap();
        (told.shown.map(|copy| copy.out.0), lost(&told))
    };
    assert_eq!(ask(&params, Some(of([2, 2]))), (Some(2), vec![]));
    let back = (None, vec![DropReason::LookupSamePort]);
    assert_eq!(ask(&params, Some(of([0, 0]))), back);
    params.lags = vec![LagParams { members: of([0, 2]), fields: HashFields::L4 }];
    assert_eq!(ask(&params, None), (Some(1), vec![]));
    assert_eq!(ask(&params, Some(of([2, 2]))), back);
    params.lags[0].members = of([1, 2]);
    assert_eq!(ask(&params, Some(of([1, 2]))), (Some(2), vec![]));
}

/// The lengths are those the parser of the pipeline takes, at the format's and the port's own limit.
#[test]
fn a_frame_of_a_wrong_length_is_dropped_as_the_pipeline_does() {
    let params = params();
    for len in [1, 5, 13, 14, 60, 1600, 1601, 9999] {
        let bytes = vec![2; len as usize];
        let parsed = params.ports[0].accepted().parse(&bytes, bytes.len());
        let told = explain(&params, &Occupancy::default(), &Asked { len, ..frame() }).unwrap();
        let want = Vec::from_iter(parsed.err());
        assert_eq!((lost(&told), told.class.is_some()), (want.clone(), want.is_empty()), "{len}");
        let lldp = Asked { len, kind: Kind::Reserved, ..frame() };
        let mut reads = params.clone();
        reads.ports[0].lldp = true;
        let told = explain(&reads, &Occupancy::default(), &lldp).unwrap();
        assert_eq!((told.consumed, lost(&told)), (want.is_empty(), want), "{len}");
        assert_eq!((told.class, told.group), (None, None));
    }
    let long = explain(&params, &Occupancy::default(), &Asked { len: 1601, ..frame() }).unwrap();
    assert_eq!(lost(&long), [DropReason::ParseTooLong]);
}

/// Stations learned at a port that is down are forgotten: what is for them is flooded, or dropped as unknown.
#[test]
fn a_frame_for_a_port_that_is_down_is_unknown_unicast() {
    let mut params = params();
    let named = PortSet::from_iter([PortId(1)]);
    let out = |told: &Explanation| told.shown.map(|copy| copy.out.0);
    let ask = |params: &SwitchParams, down: &[u16], flood| {
        let seen = Occupancy { down: down.iter().copied().map(PortId).collect(), ..Occupancy::default() };
        explain(params, &seen, &Asked { to: Some(named), flood, ..frame() }).unwrap()
    };
    assert_eq!(ask(&params, &[], None).down, None);
    let told = ask(&params, &[1], None);
    assert_eq!(told.down, Some((named, DropReason::LookupPortDown)));
    assert_eq!(told.flood, Some(FloodKind::UnknownUnicast));
    assert_eq!((out(&told), is_admitted(&told)), (Some(2), true));
    params.ports[1].admin_down = true;
    assert_eq!(ask(&params, &[], None).down, Some((named, DropReason::LookupAdminDown)));
    let broadcast = ask(&params, &[], Some(FloodKind::Broadcast));
    assert_eq!((broadcast.down, broadcast.flood), (None, Some(FloodKind::Broadcast)));
    assert_eq!((out(&broadcast), is_admitted(&broadcast)), (Some(2), true));
    params.ports[0].unknown_unicast = UnknownUnicast::Drop;
    assert_eq!(lost(&ask(&params, &[], None)), [DropReason::LookupUnknown]);
    // Behind a LAG they are forgotten when its last member goes down.
    let lag = PortSet::from_iter([PortId(1), PortId(2)]);
    params.lags = vec![LagParams { members: lag, fields: HashFields::L4 }];
    let other = ask(&params, &[1], None);
    assert_eq!((other.down, out(&other), is_admitted(&other)), (None, Some(2), true));
    let last = ask(&params, &[1, 2], None);
    assert_eq!(
        (last.down.map(|(ports, _)| ports), lost(&last)),
        (Some(lag), vec![DropReason::LookupUnknown])
    );
}

/// Both lines as they are shown are of the shared pool.
#[test]
fn a_group_resumes_at_or_below_the_line_it_pauses_at() {
    let params = params();
    let mut seen =
        Occupancy { groups: vec![Held::default(); 24], queues: vec![0; 24], ..Occupancy::default() };
    let shared = Mmu::new(params.mmu.clone()).unwrap().pools().shared_size;
    let mut last = u64::MAX;
    for used in [0, 4096, shared / 4, shared / 2, shared - 1] {
        seen.groups[4].used = used;
        let pg = explain(&params, &seen, &frame()).unwrap().group.unwrap().before;
        assert!(pg.lossless && pg.reserved > 0);
        let offset = params.mmu.pgs[3].xon_offset;
        assert_eq!(pg.xon_shared(), pg.limit.saturating_sub(offset), "{used}: {pg:?}");
        assert!(pg.xon_shared() <= pg.limit && pg.limit <= last, "{used}: {pg:?}");
        last = pg.limit;
    }
}

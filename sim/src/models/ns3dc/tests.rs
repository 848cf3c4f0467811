use super::*;

fn params(lossy_mask: u8) -> DcParams {
    DcParams {
        buffer: 2_097_152,
        ingress_pool: 1_572_864,
        egress_lossless_pool: 2_097_152,
        egress_lossy_pool: 1_048_576,
        xoff: vec![[12_500; 8]; 4],
        reserve: vec![[2_048; 8]; 4],
        alpha_ingress: vec![[0.125; 8]; 4],
        alpha_egress: vec![[1000.0; 8]; 4],
        xon: 1_248,
        xon_offset: 2_496,
        lossy_mask,
    }
}

fn fill<P: Policy>(mmu: &mut Ns3Dc<P>, prio: usize) -> Verdict {
    loop {
        match mmu.admit(0, prio, 1, 1000) {
            Verdict::Stored | Verdict::StoredPause => {}
            refused => return refused,
        }
    }
}

#[test]
fn a_lossless_group_pauses_on_headroom_and_is_refused_when_it_is_spent() {
    let mut mmu = Ns3Dc::dt(params(0)).unwrap();
    while mmu.admit(0, 3, 1, 1000) == Verdict::Stored {}
    assert!(mmu.counters().paused(0, 3));
    assert_eq!(mmu.counters().headroom(0, 3), 1000);
    assert!(mmu.counters().used(0, 3) > mmu.ingress_threshold(0, 3));
    assert_eq!(fill(&mut mmu, 3), Verdict::RefusedIngress);
    assert_eq!(mmu.counters().headroom(0, 3), 12_000);
    let held = mmu.counters().total() / 1000;
    let resumed = (0..held).filter(|_| mmu.release(0, 3, 1, 1000)).count();
    assert_eq!((resumed, mmu.counters().total(), mmu.counters().headroom_total()), (1, 0, 0));
    assert_eq!(mmu.counters().reserve_used(), 0);
}

/// The quirk: a frame longer than `xoff` enters empty headroom.
#[test]
fn the_first_frame_into_headroom_is_not_limited() {
    let mut tight = params(0);
    tight.xoff = vec![[100; 8]; 4];
    let mut mmu = Ns3Dc::dt(tight).unwrap();
    while mmu.admit(0, 3, 1, 1000) == Verdict::Stored {}
    assert_eq!(mmu.counters().headroom(0, 3), 1000);
    assert_eq!(mmu.admit(0, 3, 1, 1000), Verdict::RefusedIngress);
}

#[test]
fn lossy_frames_are_refused_by_the_side_that_is_full() {
    let mut mmu = Ns3Dc::dt(params(0xff)).unwrap();
    assert_eq!(fill(&mut mmu, 3), Verdict::RefusedIngress);
    assert_eq!(mmu.counters().headroom_total(), 0);
    let mut narrow = params(0xff);
    narrow.alpha_egress = vec![[0.01; 8]; 4];
    let mut mmu = Ns3Dc::dt(narrow).unwrap();
    assert_eq!(fill(&mut mmu, 3), Verdict::RefusedEgress);
}

/// A burst that only builds up is invisible to Reverie's filter; its crowd stays empty.
#[test]
fn reverie_sees_a_burst_only_when_frames_leave() {
    let mut mmu = Ns3Dc::reverie(params(0), 1_572_864).unwrap();
    for _ in 0..100 {
        assert_eq!(mmu.admit(0, 3, 1, 1000), Verdict::Stored);
    }
    assert_eq!(mmu.policy().filtered_ingress(0, 3), 0);
    mmu.release(0, 3, 1, 1000);
    assert_eq!(mmu.policy().filtered_ingress(0, 3), 990);
}

/// 25,000 ns at 25 Gb/s move 78,125 B; a queue that sent 10,000 B of them keeps 12.8 %.
#[test]
fn abm_scales_a_busy_queue_by_its_rate() {
    let window = AbmParams { window_ns: 25_000.0, port_bps: vec![25e9; 4] };
    let mut mmu = Ns3Dc::abm(params(0), window).unwrap();
    for _ in 0..60 {
        assert_eq!(mmu.admit(0, 3, 1, 1000), Verdict::Stored);
    }
    for _ in 0..10 {
        mmu.release(0, 3, 1, 1000);
    }
    let before = mmu.ingress_threshold(0, 3);
    mmu.tick();
    assert_eq!(mmu.ingress_threshold(0, 3), (before as f64 * 0.128) as u64);
    mmu.tick();
    assert_eq!(mmu.ingress_threshold(0, 3), before);
}

#[test]
fn parameters_that_are_no_switch_are_refused() {
    let refused = |change: fn(&mut DcParams)| {
        let mut changed = params(0);
        change(&mut changed);
        changed.check().unwrap_err()
    };
    assert_eq!(refused(|p| p.xoff.clear()), DcParamsError::Ports(0));
    assert_eq!(
        refused(|p| p.reserve.truncate(1)),
        DcParamsError::Length { list: "reserve", found: 1, wanted: 4 }
    );
    assert_eq!(refused(|p| p.buffer = u64::MAX), DcParamsError::Size { name: "buffer", bytes: u64::MAX });
    assert_eq!(refused(|p| p.ingress_pool = 1), DcParamsError::Reserve { reserved: 65_536, pool: 1 });
    assert!(matches!(
        refused(|p| p.alpha_egress[2][5] = f64::NAN),
        DcParamsError::Alpha { list: "alpha_egress", port: 2, prio: 5, .. }
    ));
}

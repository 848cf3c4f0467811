//! Published models as the MMU of a whole switch, in virtual time.

#[path = "../../dataplane/tests/harness/mod.rs"]
mod harness;

use harness::{Bench, Block, Flow, G, Lab, Plan};
use weir_dataplane::frame::OwnedFrame;
use weir_dataplane::mmu::{Admission, Mmu, MmuError};
use weir_dataplane::switch::Switch;
use weir_dataplane::types::PRIORITIES;
use weir_sim::models::hpcc::{Hpcc, HpccParams, Verdict};
use weir_sim::models::ns3dc::{DcParams, Ns3Dc};
use weir_sim::models::{Model, Modelled};

const MS: u64 = 1_000_000;

fn audit<M: Model>(s: &Switch<OwnedFrame, Modelled<M>>) {
    let frames = s.conservation();
    assert_eq!(frames.error(), 0, "{frames:?}");
    // All frames are of 1000 bytes: the model's bytes are those of the frames held.
    assert_eq!(s.admission().held_bytes(), frames.held * 1000);
}

/// Four senders to one port on a switch with this MMU: paused, lossless, in order, at line rate, and drained.
fn incast<M: Model>(model: M) {
    let plan = Plan { rate: 10 * G, ..Plan::new(5) };
    let params = plan.params();
    let lossless = params.mmu.pgs.iter().map(|pg| pg.lossless);
    let mut lab = Lab::new(audit::<M>);
    lab.add_star(Switch::with_admission(&params, Modelled::new(model, lossless)).unwrap(), &params, 500);
    for from in 0..4 {
        lab.flow(from, Flow::new(4, 3, 1000));
    }
    lab.run_until(10 * MS);
    assert!((0..4).all(|t| !lab.testers[t].pfc_log.is_empty()), "every sender was paused");
    lab.assert_lossless();
    let line = 10 * MS * 10 / (1024 * 8);
    assert!(lab.testers[4].received() * 100 >= line * 99);
    lab.testers.iter_mut().flat_map(|t| &mut t.flows).for_each(|f| f.stop = 0);
    lab.run_for(10 * MS);
    assert_eq!((lab.switches[0].held(), lab.switches[0].admission().held_bytes()), (0, 0));
    assert_eq!(lab.testers.iter().map(|t| t.sent()).sum::<u64>(), lab.testers[4].received());
    assert!((0..4).all(|t| lab.testers[t].pfc_log.last().unwrap().1.time[3] == 0), "and resumed");
}

#[test]
fn a_switch_runs_on_the_hpcc_model() {
    let params = HpccParams {
        buffer: 2_000_000,
        reserve: 4096,
        resume_offset: 3072,
        headroom: vec![40_000; 5],
        shift: vec![2; 5],
    };
    incast(Hpcc::new(&params).unwrap());
}

#[test]
fn a_switch_runs_on_the_ns3_datacenter_model() {
    let params = DcParams {
        buffer: 2_000_000,
        ingress_pool: 1_000_000,
        egress_lossless_pool: 2_000_000,
        egress_lossy_pool: 500_000,
        xoff: vec![[0, 0, 0, 40_000, 40_000, 0, 0, 0]; 5],
        reserve: vec![[1000; 8]; 5],
        alpha_ingress: vec![[1.0; 8]; 5],
        alpha_egress: vec![[1.0; 8]; 5],
        xon: 1000,
        xon_offset: 3000,
        lossy_mask: 0b1110_0111,
    };
    incast(Ns3Dc::dt(params).unwrap());
}

#[test]
fn dev53_headroom_of_every_lossless_group_is_set_apart() {
    // Literal (HPCC): one reserve and one headroom per port are taken off the pool, all groups of the port use them.
    let (ports, headroom, reserve, buffer) = (4usize, 30_000u32, 4096u32, 300_000u32);
    let hpcc = HpccParams {
        buffer,
        reserve,
        resume_offset: 3072,
        headroom: vec![headroom; ports],
        shift: vec![0; ports],
    };
    let mut literal = Hpcc::new(&hpcc).unwrap();
    for port in 0..ports {
        for priority in 1..PRIORITIES {
            while literal.admit(port, priority, (port + 1) % ports, 1000) != Verdict::Refused {}
        }
    }
    assert!(literal.held() > u64::from(buffer), "{} bytes in a buffer of {buffer}", literal.held());
    // The switch refuses that division, and says by how much.
    let plan = Plan {
        lossless: 0b1111_1110,
        reserved: u64::from(reserve),
        headroom: u64::from(headroom),
        ..Plan::new(ports)
    };
    let mut params = plan.mmu();
    params.total = u64::from(buffer);
    let sum = 28 * u64::from(reserve + headroom);
    match Mmu::new(params) {
        Err(MmuError::OverCommitted { sum: said, .. }) => assert_eq!(said, sum),
        other => panic!("{other:?}"),
    }
    // With what it asks for, the same overload stays inside (the bench checks that after every frame).
    let plan = Plan { shared: 10_000, ..plan };
    let mut b = Bench::new(plan.params());
    (0..ports as u16).for_each(|port| b.block(port, Block::Hold));
    for port in 0..ports as u16 {
        for priority in 1..8 {
            b.fill_to_drop(port, (port + 1) % ports as u16, priority, 1000);
        }
    }
}

//! Switches made from configurations, in virtual time: what a file says holds on the wire.

use crate::harness::{Flow, Lab, Storm};
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::drops::DropReason;
use weir_dataplane::pfc::react::RxMode;
use weir_dataplane::switch::{Switch, SwitchParams};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::{Mac, PortId};

const MS: u64 = 1_000_000;

fn params(text: &str) -> SwitchParams {
    let config =
        weir_config::load_for(Platform::Simulated, "t.toml", text).unwrap_or_else(|e| panic!("{e:?}")).config;
    let device = |i| Device { mac: Mac::from_u64(0x0200_0000_aa00 + i), pfc: true, ..Device::default() };
    let devices: Vec<_> = (0..config.ports.len() as u64).map(device).collect();
    switch_params(&config, &devices, 1).unwrap()
}

/// Ports with the tester of the same number behind each, so that nothing is flooded.
fn ports(n: usize, rate: &str) -> String {
    let port = |i| {
        let mac = crate::harness::frames::host(i);
        format!(
            "[[port]]\nname = \"p{i}\"\ndevice = \"net_null{i}\"\nrate = \"{rate}\"\nmtu = 1600\n\
             [[fdb.static]]\nmac = \"{mac}\"\nport = \"p{i}\"\n"
        )
    };
    (0..n as u16).map(port).collect()
}

fn storms(lab: &Lab) -> u64 {
    let ports = (0..lab.switches[0].ports() as u16).map(PortId);
    ports.map(|p| lab.switches[0].gauges(p, lab.now).storms_detected.iter().sum::<u64>()).sum()
}

/// 65535 quanta last 335 ms at 100M: one such pause is within the peer's rights, a second and a third are a storm.
#[test]
fn h18_one_legal_pause_of_a_slow_port_is_no_storm() {
    let text = format!("[qos]\npreset = \"roce-lossless\"\n{}", ports(2, "100M"));
    for (pauses, detected) in [(1, 0), (3, 1)] {
        let mut lab = Lab::star(&params(&text), 100);
        lab.flow(0, Flow::new(1, 3, 1000).dscp(26).rate(1_000_000));
        let (period, start) = (300 * MS, 10 * MS);
        let stop = start + (pauses - 1) * period + 1;
        lab.storm(1, Storm { mask: 8, quanta: 0xffff, start, stop, period, xon_after: None });
        lab.run_for(start + pauses * period + 100 * MS);
        assert_eq!((storms(&lab), lab.lost() > 0), (detected, detected > 0), "{pauses} pauses");
    }
}

/// Two senders to each of n outputs: marks come before the first pause, however many outputs are congested.
#[test]
fn f11_ecn_acts_before_pfc_however_many_outputs_are_congested() {
    for kmin in ["\"50%\"", "\"auto\""] {
        let wred = format!(
            "[[wred]]\nname = \"request\"\nkmin = {kmin}\nkmax = {}\npmax = \"100%\"\n",
            kmin.replace("50", "80")
        );
        let text = format!(
            "[qos]\npreset = \"paxi-standard\"\n{}[buffer]\nsize = \"2MiB\"\n{wred}[pfc]\npoll_gap = 0\n",
            ports(12, "25G")
        );
        let params = params(&text);
        for n in [1, 2, 4] {
            let mut lab = Lab::new(|_| ());
            lab.add_star(Switch::new(params.clone()).unwrap(), &params, 100);
            for out in 0..n {
                for from in [4 + 2 * out, 5 + 2 * out] {
                    lab.flow(from, Flow::new(out as u16, 3, 1500));
                }
            }
            while lab.xoffs() == 0 && lab.now < 5 * MS {
                lab.run_for(5_000);
            }
            let marks: Vec<u64> =
                (0..n).map(|out| lab.switches[0].stats(PortId(out as u16)).ecn_marked.iter().sum()).collect();
            assert!(lab.xoffs() > 0 && marks.iter().all(|m| *m > 0), "{kmin}, {n} outputs: {marks:?}");
        }
    }
}

#[test]
fn i3_a_port_that_cannot_see_pfc_is_told_of_and_sends_none() {
    let ports: String =
        (0..3).map(|i| format!("[[port]]\nname = \"p{i}\"\ndevice = \"ring\"\nrate = \"10G\"\n")).collect();
    let config = weir_config::load_for(
        Platform::Simulated,
        "i3",
        &format!("[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"8MiB\"\n{ports}"),
    )
    .unwrap()
    .config;
    // Port 0 cannot see PFC frames: what it takes for PFC would be a promise nobody keeps.
    let device = |i: u64| Device { mac: Mac::from_u64(i), pfc: i > 0, ..Device::default() };
    let params = switch_params(&config, &[0, 1, 2].map(device), 1).unwrap();
    let enabled: Vec<_> = params.ports.iter().map(|p| (p.generate.enabled, p.react.mode)).collect();
    assert_eq!(enabled, [(0, RxMode::None), (1 << 3, RxMode::Enabled), (1 << 3, RxMode::Enabled)]);
    // Its group is lossless all the same, by its profile: what it loses is told as that.
    assert_eq!([0, 8, 16].map(|port| params.mmu.pgs[port + 3].lossless), [true; 3]);
    // Overloaded, it loses frames with a reason; its neighbour is paused and loses none.
    let mut lab = Lab::star(&params, 500);
    let blind = lab.flow(0, Flow::new(2, 3, 1500).dscp(26));
    let seeing = lab.flow(1, Flow::new(2, 3, 1500).dscp(26));
    lab.run_until(40 * MS);
    assert!(lab.testers[0].pfc_log.is_empty() && !lab.testers[1].pfc_log.is_empty());
    let stats = lab.switches[0].stats(PortId(0));
    let lost = stats.drops.0[DropReason::IngressHeadroom as usize];
    assert!(lost > 1000);
    assert_eq!(stats.lossless_drops(), lost);
    assert_eq!((lab.lost(), lab.switches[0].stats(PortId(0)).pg_drops[3]), (lost, lost));
    assert!(lab.rx(blind).gaps > 0);
    assert_eq!(lab.rx(seeing).gaps, 0);
}

//! `[flows]`: what is recorded, and what is refused.

use weir_config::runtime::{Device, switch_params};
use weir_config::{load, load_for};
use weir_dataplane::flows::{EPOCH, FlowParams, PortFlows};
use weir_dataplane::frame::OwnedFrame;
use weir_dataplane::switch::{Switch, SwitchParams};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::{Nanos, PortId};

fn params(platform: Platform, flows: &str) -> SwitchParams {
    let text = format!("[[port]]\nname = \"a\"\ndevice = \"net_null0\"\nrate = \"10G\"\n{flows}");
    let loaded = load_for(platform, "t.toml", &text).unwrap_or_else(|found| panic!("{found:?}\n{text}"));
    switch_params(&loaded.config, &[Device::default()], 1).unwrap()
}

/// 10 000 frames that are no frames, in one burst after the other: what is seen of them.
fn seen(params: SwitchParams) -> Option<PortFlows> {
    let mut switch = Switch::<OwnedFrame>::new(params).unwrap();
    for _ in 0..100 {
        // Of a group: no such source may be.
        let mut frame = vec![0; 60];
        frame[6] = 1;
        let mut burst = (0..100).map(|_| OwnedFrame::new(frame.clone())).collect();
        switch.receive(PortId(0), &mut burst, 1);
    }
    switch.flows(PortId(0)).cloned()
}

#[test]
fn flows_are_recorded_as_configured() {
    use Platform::{Polled, Simulated};
    let usual = params(Polled, "");
    assert_eq!(usual.flows, Some(FlowParams { sample: 256, epoch: EPOCH }));
    assert_eq!(params(Simulated, "").flows, None);
    let whole = FlowParams { sample: 1, epoch: Nanos::MAX };
    assert_eq!(params(Simulated, "[flows]\nenable = true\n").flows, Some(whole));
    assert!(seen(params(Polled, "[flows]\nenable = false\n")).is_none());
    let looked = |flows: &str| {
        let seen = seen(params(Polled, flows)).unwrap().current;
        assert_eq!(seen.totals[1], 10_000, "totals are exact");
        seen.looked[1]
    };
    let looks = ["", "[flows]\nsample = 1\n", "[flows]\nsample = 1000\n"].map(looked);
    // 128 and one in so many of the others.
    assert!((150..190).contains(&looks[0]) && looks[1] == 10_000 && looks[2] < 145, "{looks:?}");
}

#[test]
fn a_sample_of_none_is_refused_with_its_range() {
    let text = "[[port]]\nname = \"a\"\ndevice = \"net_null0\"\n[flows]\nsample = 0\n";
    let found = load("t.toml", text).unwrap_err();
    assert!(
        found.iter().any(|d| d.line == 5 && d.rule == "range" && d.message.contains("flows.sample")),
        "{found:?}"
    );
}

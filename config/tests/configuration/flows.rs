//! `[flows]`: what is recorded, and what is refused.

use weir_config::runtime::{Device, switch_params};
use weir_config::{FlowExport, load, load_for};
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

/// 100 000 frames that are no frames, in one burst after the other: what is seen of them.
fn seen(params: SwitchParams) -> Option<PortFlows> {
    let mut switch = Switch::<OwnedFrame>::new(params).unwrap();
    for _ in 0..1000 {
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
    assert_eq!(usual.flows, Some(FlowParams { sample: 512, epoch: EPOCH }));
    assert_eq!(params(Simulated, "").flows, None);
    let whole = FlowParams { sample: 1, epoch: Nanos::MAX };
    assert_eq!(params(Simulated, "[flows]\nenable = true\n").flows, Some(whole));
    assert!(seen(params(Polled, "[flows]\nenable = false\n")).is_none());
    let looked = |flows: &str| {
        let seen = seen(params(Polled, flows)).unwrap().current;
        assert_eq!(seen.totals[1], 100_000, "totals are exact");
        seen.looked[1]
    };
    let looks = ["", "[flows]\nsample = 1\n", "[flows]\nsample = 1000\n"].map(looked);
    // 128 one by one; up to the 32nd of all there were 32 times their logarithm: 155 of up to 16384, 177 of up to 32 000;
    // one in so many of the rest: 163 of 512, 68 of 1000.
    assert!((405..490).contains(&looks[0]) && (340..410).contains(&looks[2]), "{looks:?}");
    assert_eq!(looks[1], 100_000);
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

const PORT: &str = "[[port]]\nname = \"a\"\ndevice = \"net_null0\"\nrate = \"10G\"\n";

#[test]
fn flows_are_exported_as_configured() {
    let export = |flows: &str| {
        let text = format!("{PORT}{flows}");
        load("t.toml", &text).unwrap_or_else(|found| panic!("{found:?}\n{text}")).config.flows.export
    };
    assert_eq!(export(""), None);
    let usual = FlowExport {
        collector: "198.51.100.1:4739".parse().unwrap(),
        interval: 10_000_000_000,
        domain: 1,
        enterprise: 32_473,
    };
    assert_eq!(export("[flows]\nexport = \"198.51.100.1:4739\"\n"), Some(usual));
    let own = FlowExport {
        collector: "[2001:db8::1]:2055".parse().unwrap(),
        interval: 1_000_000_000,
        domain: u32::MAX,
        enterprise: 9,
    };
    let text = "[flows]\nexport = \"[2001:db8::1]:2055\"\nexport_interval = \"1s\"\nexport_domain = 4294967295\nexport_enterprise = 9\n";
    assert_eq!(export(text), Some(own));
}

#[test]
fn an_export_that_would_tell_nobody_is_refused_with_its_line() {
    let to = "export = \"198.51.100.1:4739\"\n";
    for (flows, line, rule) in [
        ("export = \"collector:4739\"\n".to_owned(), 6, "value"),
        ("export = \"198.51.100.1:0\"\n".to_owned(), 6, "value"),
        ("export = \"0.0.0.0:4739\"\n".to_owned(), 6, "value"),
        ("export = \"224.0.0.1:4739\"\n".to_owned(), 6, "value"),
        ("export = 4739\n".to_owned(), 6, "value"),
        (format!("{to}export_interval = \"999ms\"\n"), 7, "range"),
        (format!("{to}export_domain = 0\n"), 7, "range"),
        (format!("{to}export_enterprise = 4294967296\n"), 7, "range"),
        (format!("enable = false\n{to}"), 7, "flows.export"),
        ("export_domain = 4\n".to_owned(), 6, "flows.export"),
        (format!("{to}[mgmt]\nlisten = \"off\"\nsocket = \"off\"\n"), 6, "flows.export"),
    ] {
        let found = load("t.toml", &format!("{PORT}[flows]\n{flows}")).unwrap_err();
        let told: Vec<_> = found.iter().map(|d| (d.line, d.rule)).collect();
        assert_eq!(told, [(line, rule)], "{flows}: {found:?}");
    }
    let simulated = load_for(Platform::Simulated, "t.toml", &format!("{PORT}[flows]\nenable = true\n{to}"));
    let found = simulated.unwrap_err();
    assert!(found.iter().any(|d| d.line == 7 && d.message.contains("simulation")), "{found:?}");
}

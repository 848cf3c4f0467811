//! `storm_control = { ... }` of ports: what is read, what is refused, and what is lost without losing count.

use weir_config::runtime::{Device, switch_params};
use weir_config::{Config, Diagnostic, Severity, load};
use weir_dataplane::storm_control::{FloodLimit, StormControl};

const MS: u64 = 1_000_000;

fn text(defaults: &str, a: &str) -> String {
    format!(
        "[port_defaults]\n{defaults}\n[[port]]\nname = \"a\"\ndevice = \"net_null0\"\n{a}\n\
         [[port]]\nname = \"b\"\ndevice = \"net_null1\"\n"
    )
}

fn read(text: &str) -> (Config, Vec<Diagnostic>) {
    let loaded = load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}\n{text}"));
    (loaded.config, loaded.warnings)
}

#[test]
fn limits_are_rates_or_frames_and_merged_key_by_key() {
    let defaults = "storm_control = { broadcast = \"100M\", multicast = \"5Kpps\" }";
    let own = "storm_control = { broadcast = \"2.5 Mpps\", multicast = \"unlimited\", unknown_unicast = 8000, burst = \"50ms\" }";
    let (config, warnings) = read(&text(defaults, own));
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    let limits = [Some(FloodLimit::Frames(2_500_000)), Some(FloodLimit::Bits(8_000)), None];
    assert_eq!(config.ports[0].storm_control, Some(StormControl { limits, burst: 50 * MS }));
    let limits = [Some(FloodLimit::Bits(100_000_000)), None, Some(FloodLimit::Frames(5_000))];
    assert_eq!(config.ports[1].storm_control, Some(StormControl { limits, burst: 10 * MS }));
    let params = switch_params(&config, &[Device::default(); 2], 1).unwrap();
    assert_eq!(params.ports[0].storm_control, config.ports[0].storm_control);
    let off = "storm_control = { broadcast = \"unlimited\", multicast = \"unlimited\" }";
    assert_eq!(read(&text(defaults, off)).0.ports[0].storm_control, None);
    assert_eq!(read(&text("", "")).0.ports[0].storm_control, None);
    let shown = |key: &str| {
        let key = format!("port.a.storm_control.{key}");
        config.explain().into_iter().find(|row| row.key == key).map(|row| row.value)
    };
    assert_eq!(shown("broadcast").as_deref(), Some("2.5Mpps"));
    assert_eq!(shown("multicast").as_deref(), Some("unlimited"));
    assert_eq!(shown("burst").as_deref(), Some("50ms"));
}

#[test]
fn what_is_no_limit_is_refused_with_its_line() {
    for (limit, reason) in [
        ("{ broadcast = 0 }", "would stop ARP"),
        ("{ broadcast = \"0pps\" }", "would stop ARP"),
        ("{ broadcast = \"5000 frames\" }", "`frames` is not a unit known here"),
        ("{ broadcast = \"5Gpps\" }", "`Gpps` is not a unit known here"),
        ("{ multicast = \"0.5pps\" }", "not a whole number"),
        ("{ unknown_unicast = true }", "of type boolean"),
        ("{ brodcast = \"1M\" }", "brodcast"),
        ("{ broadcast = \"1M\", burst = \"11s\" }", "outside 0ns to 10s"),
        (
            "{ broadcast = \"400G\", burst = \"10ms\" }",
            "storm_control.broadcast = 400G saves up more in 10ms",
        ),
        ("100", "storm_control"),
    ] {
        let found =
            load("t.toml", &text("", &format!("storm_control = {limit}"))).map(|_| ()).expect_err(limit);
        let errors: Vec<_> = found.iter().filter(|fault| fault.severity == Severity::Error).collect();
        assert_eq!(errors.len(), 1, "{limit}: {found:#?}");
        assert!(errors[0].to_string().contains(reason), "{limit}: {}", errors[0]);
        assert!(errors[0].line == 6 && !errors[0].remedy.is_empty(), "{limit}: {:?}", errors[0]);
    }
}

#[test]
fn a_limit_that_loses_lossless_frames_is_warned_of_once() {
    let warned = |defaults: &str, a: &str, more: &str| {
        let warnings = read(&format!("{}{more}", text(defaults, a))).1;
        let about = warnings.iter().filter(|w| w.rule == "class.flooded");
        about.map(|w| (w.line, w.to_string())).collect::<Vec<_>>()
    };
    let roce = "[qos]\npreset = \"roce-lossless\"\n";
    let limit = "storm_control = { broadcast = \"1M\" }";
    let found = warned(limit, "", roce);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].0 == 2 && found[0].1.contains("lossless class 3 that port `a` would flood"),
        "{found:?}"
    );
    assert_eq!(warned("", limit, roce).len(), 1);
    assert_eq!(warned("", limit, "").len() + warned("", "", roce).len(), 0);
    // No frame of this port is of the lossless class.
    assert_eq!(warned("trust = \"port\"", limit, roce), []);
}

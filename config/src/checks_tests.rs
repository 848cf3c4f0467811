//! Rules across tables, presets, and the files that ship.

use super::marking::{Crowd, xoff_point};
use super::*;
use crate::runtime::{Device, mmu_params, switch_params};
use proptest::prelude::*;
use weir_dataplane::types::Mac;

pub(super) const TWO: &str = "
[[port]]
name = \"p0\"
device = \"net_null0\"
rate = \"25G\"
[[port]]
name = \"p1\"
device = \"net_null1\"
rate = \"25G\"
";
pub(super) const ROCE: &str = "[qos]\npreset = \"roce-lossless\"\n";

pub(super) fn load_roce(more: &str) -> Result<Loaded, Vec<Diagnostic>> {
    load("t.toml", &format!("{ROCE}{TWO}{more}"))
}

pub(super) fn shown(found: &[Diagnostic]) -> String {
    found.iter().map(|d| format!("{d}\n")).collect()
}

/// The only finding, of this rule.
fn only(found: &[Diagnostic], rule: &str) -> Diagnostic {
    assert_eq!(found.iter().map(|d| d.rule).collect::<Vec<_>>(), [rule], "{}", shown(found));
    found[0].clone()
}

fn only_error(more: &str, rule: &str) -> Diagnostic {
    match load_roce(more) {
        Ok(l) => panic!("accepted; {}", shown(&l.warnings)),
        Err(found) => only(&found, rule),
    }
}

fn only_warning(more: &str, rule: &str) -> Diagnostic {
    only(&load_roce(more).unwrap_or_else(|f| panic!("{}", shown(&f))).warnings, rule)
}

/// Not once more as the system name of LLDP, which follows from it.
#[test]
fn a_bad_name_of_a_switch_is_told_once() {
    for name in ["", "a b", &"x".repeat(300)] {
        only_error(&format!("[switch]\nname = {name:?}\n"), "name");
    }
    only_error("[lldp]\nsystem_name = \"\"\n", "lldp.system_name");
}

#[test]
fn every_preset_is_consistent_at_every_rate() {
    for (preset, _) in preset::PRESETS {
        for rate in ["100M", "1G", "10G", "25G", "100G", "400G"] {
            let text = format!("[qos]\npreset = \"{preset}\"\n{}", TWO.replace("25G", rate));
            let loaded = load("t.toml", &text).unwrap_or_else(|f| panic!("{preset} {rate}\n{}", shown(&f)));
            assert!(loaded.warnings.is_empty(), "{preset} {rate}\n{}", shown(&loaded.warnings));
            for port in &loaded.config.ports {
                let lossless: Vec<_> = (0..8).filter(|i| port.pgs[*i].lossless).collect();
                let want: &[usize] = match *preset {
                    "roce-lossless" => &[3],
                    "roce-semi-lossless" => &[],
                    _ => &[1, 2, 3, 4],
                };
                assert_eq!(lossless, want, "{preset}");
                assert!(lossless.iter().all(|pg| port.pgs[*pg].xoff > 0 && port.queues[*pg].lossless));
            }
        }
    }
}

#[test]
fn roce_preset_sets_what_vendors_set() {
    let config = load_roce("").unwrap().config;
    let port = &config.ports[0];
    assert_eq!(port.trust, [Trust::Dscp, Trust::Pcp]);
    assert_eq!((port.maps.dscp_to_tc[26], port.maps.dscp_to_tc[48], port.maps.dscp_to_tc[0]), (3, 6, 0));
    assert_eq!((port.maps.tc_to_pg[3], port.maps.tc_to_pg[6], port.maps.tc_to_pg[1]), (3, 6, 0));
    assert_eq!((config.control_tc, port.pfc.enable), (Some(6), 1 << 3));
    let kind = |q: usize| (port.queues[q].scheduler.kind, port.queues[q].scheduler.weight);
    assert_eq!(kind(6).0, SchedulerType::Strict);
    assert_eq!((kind(3), kind(0)), ((SchedulerType::Dwrr, 50), (SchedulerType::Dwrr, 50)));
    let wred = port.queues[3].wred.unwrap();
    assert_eq!((wred.kmin, wred.kmax, wred.pmax, wred.ecn), (100_000, 400_000, 200_000, EcnMode::Ecn));
    assert_eq!(port.queues[0].wred, None);
    let watchdog = config.watchdog.unwrap();
    assert_eq!((watchdog.detection, watchdog.poll), (200_000_000, 100_000_000));
}

#[test]
fn marking_scales_with_the_rate_and_stays_below_xoff() {
    let at = |rate: &str, size: &str| {
        let text = format!("{ROCE}{}[buffer]\nsize = \"{size}\"\n", TWO.replace("25G", rate));
        let config = load("t", &text).unwrap_or_else(|f| panic!("{}", shown(&f))).config;
        let port = &config.ports[0];
        let wred = port.queues[3].wred.unwrap();
        (wred.kmin, wred.kmax, xoff_point(port, &port.pgs[3], config.buffer.shared))
    };
    assert_eq!((at("100G", "64MiB").0, at("100G", "64MiB").1), (400_000, 1_600_000));
    assert_eq!((at("400G", "64MiB").0, at("400G", "64MiB").1), (1_600_000, 6_400_000));
    let (kmin, kmax, xoff) = at("400G", "4MiB");
    assert_eq!((kmin, kmax), (kmax / 4, xoff / 4 * 3));
}

#[test]
fn semi_lossless_obeys_and_never_sends() {
    let text = format!("{}{TWO}", ROCE.replace("lossless", "semi-lossless"));
    let config = load("t", &text).unwrap().config;
    let pfc = config.ports[0].pfc;
    assert_eq!((pfc.tx, pfc.rx, pfc.enable), (false, PfcRx::Enabled, 8));
    assert_eq!(config.buffer.headroom, 0);
}

#[test]
fn paxi_lite_takes_the_class_from_the_octet() {
    let text = format!("[qos]\npreset = \"paxi-lite\"\n{TWO}");
    let config = load("t", &text).unwrap().config;
    let port = &config.ports[0];
    assert_eq!(config.formats[port.format].name, "afh_lite");
    assert_eq!((port.trust.as_slice(), port.learning), ([Trust::Tc].as_slice(), false));
    assert!((0..64).all(|d| port.maps.dscp_to_tc[d] == d as u8 & 7));
}

#[test]
fn user_keys_win_over_the_preset_one_by_one() {
    let text = format!(
        "{ROCE}dscp_to_tc = {{ \"24\" = 3 }}\n{TWO}
[[buffer.profile]]
name = \"lossless\"
static_th = \"200KB\"
[[scheduler]]
name = \"roce\"
weight = 70
[[queue]]
ports = \"p1\"
queues = 3
wred = \"none\"
[watchdog]
enable = false
"
    );
    let config = load("t.toml", &text).unwrap_or_else(|f| panic!("{}", shown(&f))).config;
    let (p0, p1) = (&config.ports[0], &config.ports[1]);
    assert_eq!((p0.maps.dscp_to_tc[24], p0.maps.dscp_to_tc[26]), (3, 3));
    assert_eq!(p0.pgs[3].shared, SharedLimit::Static(200_000));
    assert!(p0.pgs[3].lossless && p0.pgs[3].xoff > 0, "the rest of the profile is the preset's");
    assert_eq!(p0.queues[3].scheduler.weight, 70);
    assert!(p0.queues[3].wred.is_some() && p1.queues[3].wred.is_none());
    assert!(config.watchdog.is_none());
    let explained = config.explain();
    let origin = |key: &str| {
        explained.iter().find(|e| e.key == key).unwrap_or_else(|| panic!("{key}")).origin.to_string()
    };
    assert_eq!(origin("scheduler.roce.type"), "preset roce-lossless");
    let line = text.lines().position(|l| l.starts_with("weight")).unwrap() + 1;
    assert_eq!(origin("scheduler.roce.weight"), format!("t.toml:{line}"));
    assert_eq!(origin("port.p0.mtu"), "default");
}

#[test]
fn over_commitment_is_refused_with_the_sum() {
    let d = only_error(
        "[buffer]\nsize = \"300KiB\"\ncontrol_bytes = 0\n[[buffer.profile]]\nname = \"lossless\"\nxoff = 200_000\n",
        "buffer.sum",
    );
    // Group 3 reserves 4096 on two ports, the preset's lossy profile nothing.
    assert!(
        d.message.contains(
            "reserved 8192 (16 groups) + headroom of 2 lossless groups 400000 + control 0 = 408192"
        ),
        "{d}"
    );
    assert!(d.message.contains("more than size 307200"), "{d}");
    assert!(d.remedy.contains("1MiB") && d.remedy.contains("over_subscribe_ratio = 2"), "{d}");
    let fixed = load_roce(
        "[buffer]\nsize = \"300KiB\"\ncontrol_bytes = 0\nover_subscribe_ratio = 2\n[[buffer.profile]]\nname = \"lossless\"\nxoff = 200_000\n",
    );
    assert_eq!(fixed.unwrap().config.buffer.headroom, 200_000);
}

#[test]
fn a_buffer_filled_to_the_last_byte_is_not_over_committed() {
    let at = |size: u64| {
        let more = format!(
            "[buffer]\nsize = {size}\ncontrol_bytes = 0\n[[buffer.profile]]\nname = \"lossless\"\nxoff = 100_000\n"
        );
        load_roce(&more)
    };
    let exact = at(208_192).unwrap();
    assert_eq!(exact.config.buffer.shared, 0);
    assert!(exact.warnings.iter().any(|w| w.rule == "buffer.shared"));
    assert_eq!(at(208_191).unwrap_err()[0].rule, "buffer.sum");
}

#[test]
fn dev_19_static_reserves_of_the_seed_do_not_fit() {
    let ports: String = (0..8).map(|i| format!("[[port]]\nname = \"p{i}\"\ndevice = \"ring\"\n")).collect();
    let text = format!(
        "{ports}[buffer]\nsize = \"8MiB\"\n[[buffer.profile]]\nname = \"seed\"\nreserved = \"128KiB\"\n[[buffer.pg]]\npgs = \"*\"\nprofile = \"seed\"\n"
    );
    let d = only(&load("t", &text).unwrap_err(), "buffer.sum");
    assert!(d.message.contains("reserved 8388608 (64 groups)"), "{d}");
}

#[test]
fn headroom_pool_rules() {
    let profile = "[[buffer.profile]]\nname = \"lossless\"\nxoff = \"150KB\"\n";
    let d = only_error(&format!("[buffer]\nheadroom_pool = \"60KB\"\n{profile}"), "headroom.pool");
    assert!(d.message.contains("60000") && d.message.contains("150000"), "{d}");
    only_error(
        &format!("[buffer]\nheadroom_pool = \"200KB\"\nover_subscribe_ratio = 2\n{profile}"),
        "headroom.pool",
    );
    let config = load_roce(&format!("[buffer]\nheadroom_pool = \"150KB\"\n{profile}")).unwrap().config;
    assert_eq!((config.buffer.headroom, config.buffer.headroom_pooled), (150_000, true));
}

#[test]
fn lossless_needs_headroom_and_what_it_is_computed_from() {
    only_error("[[buffer.profile]]\nname = \"lossless\"\nxoff = 0\n", "profile.headroom");
    let nic =
        |more: &str| load("t", &format!("{ROCE}[[port]]\nname = \"n\"\ndevice = \"0000:3b:00.0\"\n{more}"));
    let found = nic("").unwrap_err();
    assert!(found.iter().any(|d| d.rule == "headroom.rate"), "{}", shown(&found));
    only(&nic("rate = \"100G\"\n").unwrap_err(), "headroom.cable");
    assert!(nic("rate = \"100G\"\ncable = \"300m\"\n").is_ok());
    // What was given and refused is not unknown, too.
    let far = only(&nic("rate = \"100G\"\ncable = \"900km\"\n").unwrap_err(), "range");
    assert!(far.message.contains("900000m is outside 0m to 120000m"), "{far}");
    only(&nic("rate = \"100G\"\ncable = \"5q\"\n").unwrap_err(), "value");
    only(&nic("rate = 1\ncable = \"5m\"\n").unwrap_err(), "range");
    let endless = load("t", &format!("{ROCE}{}", TWO.replace("25G", "unlimited"))).unwrap_err();
    assert!(endless.iter().any(|d| d.rule == "pfc.rate"), "{}", shown(&endless));
}

#[test]
fn pfc_and_groups_belong_together() {
    // PFC for a lossy group is refused: sonic-buildimage #20590.
    let text = format!("{ROCE}{TWO}pfc = {{ enable = [3, 4] }}\n");
    let d = only(&load("t", &text).unwrap_err(), "pfc.lossy");
    assert!(d.message.contains("priority 4") && d.message.contains("group 4"), "{d}");
    let d = only_warning("pfc = { enable = [] }\n", "pfc.silent");
    assert!(d.message.contains("group 3 of port `p1`") && d.remedy.contains("add 3 to pfc.enable"), "{d}");
    let d = only_warning("pfc = { tx = false }\n", "pfc.silent");
    assert!(d.remedy.contains("tx = false"), "{d}");
    let d = only_error("[[buffer.queue]]\nqueues = 3\nprofile = \"egress_lossy\"\n", "queue.lossy");
    assert!(d.message.contains("queue 3") && d.message.contains("egress_lossy"), "{d}");
}

#[test]
fn a_lossless_queue_has_no_limit() {
    let d = only_warning(
        "[[buffer.profile]]\nname = \"egress_lossless\"\nstatic_th = \"10KB\"\n",
        "profile.unlimited",
    );
    assert!(d.message.contains("held back at its priority groups"), "{d}");
}

#[test]
fn dev_24_xon_below_xoff() {
    let profile = |keys: &str| format!("[[buffer.profile]]\nname = \"lossless\"\n{keys}\n");
    // Static limit 100000 + reserve 4096.
    let d = only_error(&profile("static_th = 100_000\nxon = 104_096"), "profile.xon");
    assert!(d.message.contains("xon = 104096") && d.message.contains("Xoff = 104096"), "{d}");
    only_warning(&profile("static_th = 1_000_000\nxon = 5_000"), "profile.xon");
    assert!(load_roce(&profile("static_th = 1_000_000\nxon = 4_096")).unwrap().warnings.is_empty());
    let d = only_warning(&profile("static_th = 1_000_000\nxon_offset = \"2MB\""), "profile.xon_offset");
    assert!(d.message.ends_with("it resumes only when empty"), "{d}");
    let d = only_warning(
        &profile("static_th = 1_000_000\nxon = 4_096\nxon_offset = \"2MB\""),
        "profile.xon_offset",
    );
    assert!(d.message.ends_with("it resumes only at `xon`"), "{d}");
}

#[test]
fn ecn_must_act_before_pfc() {
    let more = "[[wred]]\nname = \"roce\"\nkmin = 1000\nkmax = 104_096\n[[buffer.profile]]\nname = \"lossless\"\nstatic_th = 100_000\n";
    let d = only_warning(more, "wred.xoff");
    assert!(d.message.contains("kmax = 104096") && d.message.contains("Xoff at 104096"), "{d}");
    assert!(d.to_string().contains("or raise static_th of the group"), "{d}");
    assert!(load_roce(&more.replace("104_096", "104_095")).unwrap().warnings.is_empty());
    only_error("[[wred]]\nname = \"roce\"\nkmin = \"300KB\"\nkmax = \"200KB\"\n", "wred.order");
    let d = only_error("[[wred]]\nname = \"roce\"\nkmin = \"500KB\"\n", "wred.order");
    assert!(d.message.contains("kmin = 500000") && d.message.contains("kmax = 400000"), "{d}");
    // Never drop what is lossless: sonic-buildimage #27606.
    let d = only_error("[[wred]]\nname = \"roce\"\nwred_drop = true\n", "wred.drop");
    assert!(d.to_string().contains("wred_drop = true"), "{d}");
}

#[test]
fn dev_29_shares_are_of_the_xoff_point() {
    let more = "[[wred]]\nname = \"roce\"\nkmin = \"50%\"\nkmax = \"80%\"\n[[buffer.profile]]\nname = \"lossless\"\nstatic_th = 95_904\n";
    let wred = load_roce(more).unwrap().config.ports[0].queues[3].wred.unwrap();
    assert_eq!((wred.kmin, wred.kmax), (50_000, 80_000));
    only_error("[[wred]]\nname = \"roce\"\nkmin = \"50%\"\nkmax = \"40%\"\n", "wred.order");
}

/// A group reaches Xoff at what its port may hold, too.
#[test]
fn marking_begins_before_the_limit_of_a_port() {
    let limits = "[[buffer.port]]\nports = [\"p0\", \"p1\"]\ningress_limit = \"50KB\"\n";
    let config = load_roce(limits).unwrap().config;
    let port = &config.ports[0];
    let (wred, xoff) = (port.queues[3].wred.unwrap(), port.pgs[3].reserved + 50_000);
    assert!(wred.kmin <= xoff / 2 && wred.kmax <= xoff / 4 * 3, "{wred:?} of {xoff}");
    let late = format!("{limits}[[wred]]\nname = \"roce\"\nkmin = \"20KB\"\nkmax = \"60KB\"\n");
    let d = only_warning(&late, "wred.xoff");
    assert!(d.message.contains(&format!("reaches Xoff at {xoff} even alone")), "{d}");
    assert!(d.to_string().contains("or raise ingress_limit"), "{d}");
}

/// What a port does not let its groups have is the others' when all are full: of 1000 KB with alpha 8 each has 8/17, beside one of 50 KB
/// it has 8/9 of what that leaves.
#[test]
fn what_a_limited_port_leaves_is_of_the_others() {
    let text = "[[wred]]\nname = \"roce\"\nkmin = \"50%\"\nkmax = \"80%\"\n[[buffer.profile]]\nname = \"lossless\"\ndynamic_th = 3\n";
    let point = |limit: &str| {
        let config = load_roce(&format!("{limit}{text}")).unwrap().config;
        let xoff = Crowd::of(&config.ports, config.buffer.shared)
            .xoff_point(&config.ports[0], &config.ports[0].pgs[3]);
        (config.buffer.shared, xoff - config.ports[0].pgs[3].reserved)
    };
    let (shared, both) = point("");
    assert!(both.abs_diff(shared * 8 / 17) <= 8, "{both} of {shared}");
    let (shared, one) = point("[[buffer.port]]\nports = [\"p1\"]\ningress_limit = \"50KB\"\n");
    assert!(one.abs_diff((shared - 50_000) * 8 / 9) <= 8, "{one} of {shared}");
}

/// The preset's port p0 and this many more like it, in 20 MiB, with these marking thresholds for its data.
fn crowd(ports: usize, kmin: &str, kmax: &str) -> Loaded {
    let port =
        |i| format!("[[port]]\nname = \"p{i}\"\ndevice = \"net_null{i}\"\nrate = \"25G\"\nmtu = 1600\n");
    let ports: String = (0..ports).map(port).collect();
    let more =
        format!("[buffer]\nsize = \"20MiB\"\n[[wred]]\nname = \"request\"\nkmin = {kmin}\nkmax = {kmax}\n");
    let text = format!("[qos]\npreset = \"paxi-standard\"\n{ports}{more}");
    load("t.toml", &text).unwrap_or_else(|f| panic!("{}", shown(&f)))
}

#[test]
fn marking_begins_before_pfc_however_many_ports_are_congested() {
    for ports in [2, 4, 8, 16] {
        for (kmin, kmax) in [("\"50%\"", "\"80%\""), ("\"auto\"", "\"auto\"")] {
            let Loaded { config, warnings } = crowd(ports, kmin, kmax);
            assert!(warnings.is_empty(), "{ports} {kmin}: {}", shown(&warnings));
            // All lossless groups full: a/(1 + N a) of the shared buffer each, a = 2, N = 4 per port.
            let full = 4096 + config.buffer.shared * 2 / (1 + 8 * ports as u64);
            let wred = config.ports[0].queues[3].wred.unwrap();
            assert!(wred.kmin <= full / 2, "{ports} {kmin}: {} of {full}", wred.kmin);
            if kmin == "\"50%\"" {
                assert!(full / 2 - wred.kmin <= 1 && wred.kmax < full, "{} {} {full}", wred.kmin, wred.kmax);
            }
        }
    }
    // With static thresholds of more than there is together the shared buffer is empty before any of them.
    for (th, part) in [("50%", 8), ("100%", 8), ("5%", 20)] {
        let ports: String = (0..8)
            .map(|i| format!("[[port]]\nname = \"p{i}\"\ndevice = \"net_null{i}\"\nrate = \"25G\"\n"))
            .collect();
        let text = format!(
            "[qos]\npreset = \"roce-lossless\"\n{ports}[buffer]\nsize = \"20MiB\"\n[[buffer.profile]]\nname = \"lossless\"\nstatic_th = \"{th}\"\n\
             [[wred]]\nname = \"roce\"\nkmin = \"50%\"\nkmax = \"80%\"\n"
        );
        let config = load("t.toml", &text).unwrap_or_else(|f| panic!("{}", shown(&f))).config;
        let full = 4096 + config.buffer.shared / part;
        let kmin = config.ports[0].queues[3].wred.unwrap().kmin;
        assert!(kmin.abs_diff(full / 2) <= 4, "{th}: {kmin} of {full}");
    }
    // A size is the operator's: told with the numbers.
    assert!(crowd(2, "\"100KB\"", "\"400KB\"").warnings.is_empty());
    let warnings = crowd(16, "\"100KB\"", "\"400KB\"").warnings;
    let d = warnings.iter().find(|d| d.rule == "wred.crowd").unwrap();
    assert!(d.message.contains("kmin = 100000") && d.message.contains("all 64 lossless groups"), "{d}");
    // Four lossless groups of a port share what it may hold.
    let limit = "\"400KB\"\n[[buffer.port]]\nports = \"*\"\ningress_limit = \"400KB\"\n";
    let warnings = crowd(2, "\"150KB\"", &limit.replacen("400KB", "300KB", 1)).warnings;
    let d = warnings.iter().find(|d| d.rule == "wred.crowd").unwrap();
    assert!(d.message.contains("Xoff at 104096"), "{d}");
    assert!(
        d.to_string().contains("kmin = \"150KB\"") && d.to_string().contains("or raise ingress_limit"),
        "{d}"
    );
}

#[test]
fn a_virtual_port_is_not_marked_for_the_burst_of_a_polling_loop() {
    let kmin = |device: &str, more: &str| {
        let port = format!("[[port]]\nname = \"p\"\ndevice = \"{device}\"\nrate = \"1G\"\ncable = \"5m\"\n");
        let text = format!("{ROCE}{port}[buffer]\nsize = \"32MiB\"\n{more}");
        let config = load("t", &text).unwrap_or_else(|f| panic!("{}", shown(&f))).config;
        let why = config.explain().into_iter().find(|e| e.key == "port.p.queue.3.kmax").unwrap().why;
        (config.ports[0].queues[3].wred.unwrap().kmin, why)
    };
    assert_eq!(kmin("0000:3b:00.0", "").0, 4_000);
    let (memif, why) = kmin("net_memif0", "");
    assert_eq!(memif, 64 * 1500);
    assert!(why.contains("would be 16000") && why.contains("its burst of 96000"), "{why}");
    // What waits for the loop counts where it is more: 1 ms at 1G.
    assert_eq!(kmin("net_memif0", "[pfc]\npoll_gap = \"1ms\"\n").0, 125_000);
}

#[test]
fn the_watchdog_outlasts_the_longest_legal_pause() {
    let at = |rate: &str, more: &str| {
        let text = format!("{ROCE}{}{more}", TWO.replace("25G", rate));
        load("t.toml", &text).map(|l| l.config.watchdog.unwrap().detection)
    };
    // 65535 quanta of 512 bits: 3.4 ms at 10G, 199.7 ms at 168M, 335.5 ms at 100M.
    assert_eq!(at("10G", "").unwrap(), 200_000_000);
    assert_eq!(at("169M", "").unwrap(), 200_000_000);
    assert_eq!(at("100M", "").unwrap(), 336_000_000);
    // It has a range, and stays in it: 33.6 s at 1M, and whoever writes what is derived writes something that is read.
    assert_eq!(at("7M", "").unwrap(), 4_794_000_000);
    for rate in ["6M", "1M"] {
        assert_eq!(at(rate, "").unwrap(), 5_000_000_000);
        assert_eq!(at(rate, "[watchdog]\ndetection_time = \"5s\"\n").unwrap(), 5_000_000_000);
        let found = at(rate, "[watchdog]\ndetection_time = \"4999ms\"\n").unwrap_err();
        assert!(only(&found, "watchdog.pause").remedy.contains("set it to 5s or more"), "{found:?}");
    }
    let found = at("100M", "[watchdog]\ndetection_time = \"200ms\"\n").unwrap_err();
    let d = only(&found, "watchdog.pause");
    assert!(d.message.contains("quanta last 335.5ms"), "{d}");
    assert!(d.remedy.contains("336ms"), "{d}");
    assert_eq!(at("10G", "[watchdog]\ndetection_time = \"100ms\"\n").unwrap(), 100_000_000);
    let short = "[watchdog]\nallow_short = true\ndetection_time = \"200ms\"\n";
    assert_eq!(at("100M", short).unwrap(), 200_000_000, "a lab says so");
}

#[test]
fn software_does_no_pfc_with_frames_that_do_not_pass() {
    let with = |pfc: &str| load_roce(&format!("[port_defaults]\npfc = {{ {pfc} }}\n"));
    let found = with("mode = \"software\", visible = false").unwrap_err();
    let errors: Vec<_> = found.into_iter().filter(Diagnostic::is_error).collect();
    let d = only(&errors, "pfc.visible");
    assert!(d.remedy.contains("mode = \"auto\""), "{d}");
    assert!(with("mode = \"software\", visible = false, enable = []").is_ok(), "no PFC is in use");
    assert!(with("mode = \"software\", visible = true").is_ok());
    assert!(with("visible = false").is_ok());
}

#[test]
fn nonsense_is_refused() {
    let bad = |more: &str| load_roce(more).map(|l| shown(&l.warnings)).unwrap_err();
    for (more, rule, says) in [
        ("[port_defaults]\nlearn_limit = 0\n", "range", "1 to"),
        ("[fdb]\nageing = 1\n", "range", "10ms or more"),
        ("[[scheduler]]\nname = \"s\"\npir = 1\n", "range", "1M or more"),
        ("[switch]\nname = \"a\\u001b[31m\"\n", "name", "\\u{1b}"),
        ("[[wred]]\nname = \"../../etc\"\n", "name", "no `..`"),
        ("[map.\"a b\"]\n", "name", "letters"),
        ("[[fdb.group]]\nmac = \"01:80:c2:00:00:01\"\nports = \"p0\"\n", "fdb.address", "for the link alone"),
    ] {
        let found = bad(more);
        assert!(found.iter().any(|d| d.rule == rule && d.to_string().contains(says)), "{}", shown(&found));
    }
    for name in ["../../etc", "/etc", "a\\u001bb", ".", "", "a/../b"] {
        let found = load("t", &TWO.replace("p1", name)).unwrap_err();
        assert!(found.iter().all(|d| d.rule == "name"), "{name}: {}", shown(&found));
    }
    let found = load("t", &TWO.replace("\"25G\"", "1")).unwrap_err();
    assert!(found.iter().all(|d| d.rule == "range" && d.remedy.contains("1M or more")), "{}", shown(&found));
}

#[test]
fn a_misspelt_preset_hides_nothing() {
    // No rate: nothing by itself, a fault with the classes of the preset that was meant.
    let text = format!("[qos]\npreset = \"roce-losless\"\n{}", TWO.replace("25G", "unlimited"));
    let found = load("t", &text).unwrap_err();
    let rules: Vec<_> = found.iter().map(|d| d.rule).collect();
    assert!(rules.contains(&"qos.preset") && rules.contains(&"pfc.rate"), "{}", shown(&found));
}

#[test]
fn a_static_threshold_may_be_a_share_of_the_shared_buffer() {
    let more = "[[buffer.profile]]\nname = \"lossless\"\nstatic_th = \"75%\"\n";
    let config = load_roce(more).unwrap_or_else(|f| panic!("{}", shown(&f))).config;
    let shared = config.buffer.shared;
    assert_eq!(config.ports[1].pgs[3].shared, SharedLimit::Static(shared / 4 * 3 + shared % 4 * 3 / 4));
    only_error("[[buffer.profile]]\nname = \"lossless\"\nstatic_th = \"101%\"\n", "value");
}

#[test]
fn link_pause_is_a_choice_of_its_own() {
    // Its quanta need a rate like those of PFC, on a port without PFC, too.
    let port = |rate: &str| format!("{TWO}[port_defaults]\npfc = {{ rx = \"link\" }}\n").replace("25G", rate);
    assert!(load("t", &port("25G")).unwrap().warnings.is_empty());
    let found = load("t", &port("unlimited")).unwrap_err();
    assert!(found.iter().all(|d| d.rule == "pfc.rate"), "{}", shown(&found));
    // 802.1Q: a link has PFC or link PAUSE.
    let d = only_warning("pfc = { rx = \"link\" }\n", "pfc.link");
    assert!(d.message.contains("port `p1`") && d.remedy.contains("tx = false"), "{d}");
}

#[test]
fn a_bad_default_for_all_ports_is_reported_once() {
    let d = only_error("[port_defaults]\ncable = \"5\"\n", "value");
    assert!(d.message.ends_with("(the same of p1)"), "{d}");
    only_error("[port_defaults]\npfc = { enable = [3], colour = 1 }\n", "unknown_key");
}

#[test]
fn every_value_says_where_it_comes_from() {
    let config = load_roce("pfc = { enable = [3], rx = \"all\" }\ntrust = \"pcp\"\n").unwrap().config;
    let explained = config.explain();
    let row = |key: &str| {
        let rows: Vec<_> = explained.iter().filter(|e| e.key == key).collect();
        assert_eq!(rows.len(), 1, "{key}");
        (rows[0].value.clone(), rows[0].origin.to_string())
    };
    let of = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(row("port.p0.pfc.enable"), of("3", "preset roce-lossless"));
    assert_eq!(row("port.p1.pfc.rx"), of("all", "t.toml:12"));
    assert_eq!(row("port.p0.pfc.rx"), of("enabled", "default"));
    assert_eq!(row("port.p1.trust"), of("pcp", "t.toml:13"));
    assert_eq!(row("port.p0.rate"), of("25G", "t.toml:7"));
    assert_eq!(row("qos.control_tc"), of("6", "preset roce-lossless"));
    assert_eq!(row("port.p0.format"), of("standard", "default"));
    assert!(
        explained.iter().all(|e| e.origin != Origin::Default || !e.why.is_empty()),
        "a default has a reason"
    );
}

#[test]
fn dev_34_pfc_on_lite_needs_the_octet() {
    let text = format!("[qos]\npreset = \"paxi-lite\"\n{TWO}trust = \"port\"\n");
    let warnings = load("t", &text).unwrap().warnings;
    let d = warnings.iter().find(|d| d.rule == "pfc.lite").unwrap();
    assert!(d.message.contains("port `p1`") && d.message.contains("DEV-34"), "{d}");
}

#[test]
fn watchdog_timers_are_held_against_each_other() {
    let d = only_error(
        "[watchdog]\ndetection_time = \"200ms\"\npoll_interval = \"400ms\"\nrestoration_time = \"1s\"\n",
        "watchdog.order",
    );
    assert!(
        d.message.contains("detection_time = 200ms") && d.message.contains("poll_interval = 400ms"),
        "{d}"
    );
    let d = only_error("[watchdog]\ndetection_time = \"50ms\"\n", "watchdog.range");
    assert!(d.remedy.contains("allow_short"), "{d}");
    only_error("[watchdog]\nrestoration_time = \"61s\"\n", "watchdog.range");
    let short = "[watchdog]\nallow_short = true\ndetection_time = \"1ms\"\npoll_interval = \"100us\"\nrestoration_time = \"2ms\"\n";
    let config = load_roce(short).unwrap().config;
    assert_eq!(config.watchdog.unwrap().poll, 100_000);
    let d = only_error("[watchdog]\nreoccurrence = { count = 3, window = \"1s\" }\n", "watchdog.window");
    assert!(d.message.contains("1.2s"), "{d}");
}

#[test]
fn h13_watchdog_settings_outside_their_range_are_refused_with_the_range() {
    for (key, low, high) in [
        ("detection_time", "100ms", "5s"),
        ("restoration_time", "100ms", "60s"),
        ("poll_interval", "100ms", "1s"),
    ] {
        // One key alone; the others are such that only this one can be wrong.
        let rest = match key {
            "poll_interval" => "detection_time = \"5s\"\nrestoration_time = \"60s\"\n",
            "detection_time" => "restoration_time = \"60s\"\npoll_interval = \"100ms\"\n",
            _ => "detection_time = \"5s\"\npoll_interval = \"100ms\"\n",
        };
        let with = |value: &str| format!("[watchdog]\n{rest}{key} = {value}\n");
        let past = if key == "poll_interval" { "\"1001ms\"" } else { "\"60001ms\"" };
        for value in ["\"99ms\"", past, "\"99999us\"", "0"] {
            let d = only_error(&with(value), "watchdog.range");
            assert!(d.message.contains(&format!("watchdog.{key}")), "{d}");
            assert!(d.message.contains(low) && d.message.contains(high), "{d}");
        }
        for value in ["\"soon\"", "true", "-1", "[]", "1.5"] {
            assert!(load_roce(&with(value)).is_err(), "{key} = {value}");
        }
        for value in [low, high] {
            assert!(load_roce(&with(&format!("\"{value}\""))).is_ok(), "{key} = {value}");
        }
    }
    let d = only_error("[watchdog]\ndetection_time = \"5001ms\"\n", "watchdog.range");
    assert!(d.message.contains("5.001s") && d.message.contains("100ms to 5s"), "{d}");
    for action in ["\"explode\"", "\"\"", "1"] {
        let found = load_roce(&format!("[watchdog]\naction = {action}\n")).unwrap_err();
        let text = shown(&found);
        assert!(["drop", "forward", "alert"].iter().all(|word| text.contains(word)), "{text}");
    }
    // As many storms as can be counted (H17), and no more.
    let storms = |n: u32| format!("[watchdog]\nreoccurrence = {{ count = {n}, window = \"1000s\" }}\n");
    assert_eq!(load_roce(&storms(16)).unwrap().config.watchdog.unwrap().reoccurrence.unwrap().count, 16);
    for n in [0, 17, 1000] {
        let text = shown(&load_roce(&storms(n)).unwrap_err());
        assert!(text.contains("1 to 16") || text.contains("between 1 and 16"), "{text}");
    }
}

#[test]
fn pauses_are_refreshed_in_time() {
    // 100 quanta at 25G last 2048 ns.
    let d = only_error("[pfc]\npause_quanta = 100\n", "pfc.refresh");
    assert!(d.message.contains("1.28us") && d.message.contains("10us"), "{d}");
    // In virtual time nothing is looked at, but a frame of 9216 bytes may be leaving: 2.98 us, and a pause of another class.
    let text = format!("{ROCE}{TWO}[pfc]\npause_quanta = 200\npoll_gap = \"100us\"\n");
    let refused = crate::load_for(Platform::Simulated, "t", &text).unwrap_err();
    let shown = shown(&refused);
    assert!(shown.contains("pfc.refresh") && shown.contains("2.56us"), "{shown}");
    assert!(crate::load_for(Platform::Simulated, "t", &text.replace("200", "400")).is_ok());
}

#[test]
fn schedulers() {
    let queue = "[[queue]]\nqueues = \"0-1\"\nscheduler = \"s\"\n";
    let with = |keys: &str| format!("[[scheduler]]\nname = \"s\"\n{keys}\n{queue}");
    only_error(&with("weight = 101"), "range");
    only_error(&with("weight = 0"), "range");
    only_error(&with("cir = \"2G\"\npir = \"1G\""), "scheduler.rates");
    let d =
        only_error(&with("cir = \"15G\"").replace("queues =", "ports = \"p1\"\nqueues ="), "scheduler.cir");
    assert!(d.message.contains("30G") && d.message.contains("25G"), "{d}");
    only_warning(&with("type = \"STRICT\"\nweight = 3"), "scheduler.weight");
    // The weight of the preset is not the file's to remove.
    assert!(load_roce("[[scheduler]]\nname = \"roce\"\ntype = \"STRICT\"\n").unwrap().warnings.is_empty());
    let two = |kind: &str, queues: &str| {
        format!(
            "[[scheduler]]\nname = \"t\"\ntype = \"{kind}\"\n[[queue]]\nqueues = \"{queues}\"\nscheduler = \"t\"\n"
        )
    };
    only_warning(&(with("type = \"DWRR\"") + &two("WRR", "2-7")), "scheduler.mixed");
    for fine in [with("type = \"WRR\"") + &two("WRR", "2-7"), with("type = \"WRR\"") + &two("STRICT", "2-7")]
    {
        assert!(load_roce(&fine).unwrap().warnings.is_empty(), "{fine}");
    }
    only_error(&with("").replace("scheduler = \"s\"", "scheduler = \"t\""), "name.unknown");
    only_error(&with("").replace("0-1", "7-8"), "value");
    only_error(&(with("") + "[[scheduler]]\nname = \"s\"\n"), "name.duplicate");
}

#[test]
fn few_slots_are_pointed_out() {
    let d = only_warning("[buffer]\nsize = \"4MiB\"\nframes = 30000\n", "buffer.frames");
    assert!(d.message.contains("30000 frames") && d.message.contains("charged 140 bytes"), "{d}");
    assert!(d.remedy.contains("65536"), "{d}");
    // Headroom is for frames of 84 bytes on the wire, of which each is charged 140.
    let xoff = |frames: &str| {
        let loaded = load_roce(&format!("[buffer]\nsize = \"4MiB\"\n{frames}")).unwrap();
        loaded.config.ports[0].pgs[3].xoff
    };
    assert_eq!(xoff("frames = 30000\n"), xoff("") * 140 / 84);
    let found = load_roce("[buffer]\nsize = \"16MiB\"\nframes = 64\n").err().unwrap_or_default();
    let remedy = found.iter().find(|d| d.rule == "buffer.frames" && d.is_error()).map(|d| d.remedy.as_str());
    assert!(remedy.is_some_and(|remedy| remedy.contains("at least 257")), "{}", shown(&found));
}

#[test]
fn workers_have_a_burst_each_that_nobody_knows_of() {
    let text = TWO.replacen("name = \"p1\"", "name = \"p1\"\nlcore = 2", 1);
    let config = load("t.toml", &text).unwrap_or_else(|f| panic!("{}", shown(&f))).config;
    let one = load("t.toml", TWO).unwrap_or_else(|f| panic!("{}", shown(&f))).config;
    assert_eq!((one.buffer.staleness, config.buffer.staleness), (0, 256 * 9216));
    assert_eq!(one.buffer.shared - config.buffer.shared, 256 * 9216);
    assert_eq!(mmu_params(&config, 2).shared(), Ok(config.buffer.shared));
}

#[test]
fn the_largest_numbers_are_errors_not_overflows() {
    let max = u64::MAX;
    for key in ["reserved", "xoff", "static_th", "xon", "xon_offset"] {
        let _ = load_roce(&format!("[[buffer.profile]]\nname = \"lossless\"\n{key} = {max}\n"));
        let _ = load_roce(&format!("[[buffer.profile]]\nname = \"egress_lossy\"\n{key} = {max}\n"));
    }
    let over = format!(
        "[buffer]\ncontrol_bytes = {max}\n[[buffer.profile]]\nname = \"lossless\"\nreserved = {max}\nxoff = {max}\n"
    );
    assert!(load_roce(&over).unwrap_err().iter().any(|d| d.rule == "buffer.sum"));
    for key in
        ["detection_time", "restoration_time", "poll_interval", "reoccurrence = { count = 9, window = 9 }\n#"]
    {
        let _ = load_roce(&format!("[watchdog]\n{key} = {max}\n"));
    }
    for rate in ["18446744073709551615", "1"] {
        let _ = load("t", &format!("{ROCE}{}", TWO.replace("\"25G\"", rate)));
    }
}

#[test]
fn lab_frames_fit_small_ports_by_themselves() {
    let config = load_roce("[port_defaults]\nmtu = 512\n").unwrap().config;
    assert_eq!(config.lab.frame_bytes, 512);
    only_error("[port_defaults]\nmtu = 512\n[lab]\nframe_bytes = 513\n", "lab.frame");
}

#[test]
fn lab_flows() {
    let flow = "[[lab.flow]]\nfrom = \"p0\"\nto = \"p1\"\nrate = \"5G\"\nvlan = 10\npcp = 3\n";
    let config = load_roce(flow).unwrap().config;
    assert_eq!((config.lab.flows[0].rate, config.lab.flows[0].vlan), (Some(5_000_000_000), Some(10)));
    only_error(&flow.replace("p1", "p0"), "lab.flow");
    only_error(&flow.replace("p1", "p7"), "port.unknown");
    only_error(&(flow.to_owned() + "frame_bytes = 9217\n"), "lab.frame");
    // Only a tag has a PCP; with RC Link it is the priority.
    let untagged = flow.replace("vlan = 10\n", "");
    only_warning(&untagged, "lab.pcp");
    assert!(load_roce(&("[lab]\nhosts = \"rclink\"\n".to_owned() + &untagged)).unwrap().warnings.is_empty());
}

#[test]
fn shipped_configurations_load_without_a_word() {
    for (name, text) in [
        ("lab.toml", include_str!("../../configs/lab.toml")),
        ("two-nics.toml", include_str!("../../configs/two-nics.toml")),
        ("af-packet.toml", include_str!("../../configs/af-packet.toml")),
        ("memif.toml", include_str!("../../configs/memif.toml")),
        ("vhost.toml", include_str!("../../configs/vhost.toml")),
        ("inc.toml", include_str!("../../configs/inc.toml")),
    ] {
        let loaded = load(name, text).unwrap_or_else(|f| panic!("{}", shown(&f)));
        // A memif peer has to be trusted, and that is said whatever else the file holds.
        let rules: Vec<_> = loaded.warnings.iter().map(|w| w.rule).collect();
        let wanted: &[&str] = if name == "memif.toml" { &["device.memif"] } else { &[] };
        assert_eq!(rules, wanted, "{name}: {}", shown(&loaded.warnings));
        assert!(loaded.config.ports.len() >= 2);
        assert!(loaded.config.ports.iter().all(|p| p.pgs[3].xoff > 0), "{name}");
    }
}

/// `WEIR_BLESS=1` writes the reference into the document.
#[test]
fn the_document_holds_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.md");
    let text = std::fs::read_to_string(path).unwrap();
    let marker = "<!-- printed from config/src/schema.rs -->\n\n";
    let (prose, reference) = text.split_once(marker).expect("the marker before the reference");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, format!("{prose}{marker}{}", schema::reference())).unwrap();
    } else {
        assert!(
            reference == schema::reference(),
            "docs/config.md is behind: WEIR_BLESS=1 cargo test -p weir-config document"
        );
    }
    let tight = include_str!("../../configs/lab.toml").replace("8MiB", "384KiB");
    let found = load("lab.toml", &tight).unwrap_err();
    assert!(prose.contains(&only(&found, "buffer.sum").to_string()), "{}", shown(&found));
    let examples: Vec<_> = prose.split("```toml\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        load("docs/config.md", example).unwrap_or_else(|f| panic!("{example}\n{}", shown(&f)));
    }
}

/// Pieces that reach deep into the reader when spliced into a good file.
const PIECES: &[&str] = &[
    "\"auto\"",
    "-1",
    "18446744073709551615",
    "9223372036854775807",
    "\"100T\"",
    "\"18446744073G\"",
    "[]",
    "[[]]",
    "{}",
    "\"*\"",
    "\"0-7\"",
    "\"7-0\"",
    "inf",
    "nan",
    "1979-05-27",
    "true",
    "\"\"",
    "\"\\u0000\"",
    "\"é\"",
    "[[port]]\n",
    "[qos]\n",
    "preset = \"paxi-lite\"\n",
    "preset = \"paxi-standard\"\n",
    "\"16128\"",
    "\"1TiB\"",
    "\"unlimited\"",
    "a.b.c = 1\n",
    "=",
    "\n",
    "[format.x]\ninherit = \"afh_lite\"\nvariant = \"rclink\"\n",
    "static_th = 18446744073709551615\n",
    "reserved = 18446744073709551615\n",
    "xoff = 18446744073709551615\n",
    "cable = \"99999km\"\n",
    "rate = 18446744073709551615\n",
    "rate = 1\n",
    "[map.m]\n",
    "maps = 3\n",
];

/// A good file with a value of every sort to damage.
fn fuzz_base() -> String {
    format!(
        "{}\n[[wred]]\nname = \"w\"\nkmin = 5\nkmax = 9\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p0\"\n[watchdog]\npoll_interval = \"100ms\"\n[[buffer.profile]]\nname = \"lossless\"\nreserved = 4096\nxon = 1\nxoff = 50_000\n[[lab.flow]]\nfrom = \"p0\"\nto = \"p1\"\n[format.f]\ninherit = \"afh_gen1\"\ndst = [8, 40]\n",
        include_str!("../../configs/lab.toml")
    )
}

#[test]
fn damage_starts_from_a_good_file() {
    assert!(load("base", &fuzz_base()).is_ok());
}

proptest! {
    #[test]
    fn any_text_is_a_config_or_errors(text in "(?s).{0,200}") {
        let _ = load("fuzz", &text);
    }

    #[test]
    fn a_damaged_file_is_a_config_or_errors(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, 0..PIECES.len()), 1..6)
    ) {
        let mut text = fuzz_base();
        for (at, len, piece) in cuts {
            let bounds: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
            let start = at.index(bounds.len());
            let end = (start + len).min(bounds.len() - 1);
            text.replace_range(bounds[start]..bounds[end], PIECES[piece]);
        }
        match load("fuzz", &text) {
            Ok(loaded) => {
                let b = &loaded.config.buffer;
                prop_assert_eq!(b.size, b.reserved + b.headroom + b.control_bytes + b.shared);
                prop_assert!(loaded.warnings.iter().all(|w| !w.is_error()));
                // What the checks let through makes a switch, or says why not.
                let device = |i: usize| Device { mac: Mac::from_u64(i as u64), rate: Some(1 << 33), pfc: true, ..Device::default() };
                let devices: Vec<_> = (0..loaded.config.ports.len()).map(device).collect();
                if let Ok(params) = switch_params(&loaded.config, &devices, 1) {
                    prop_assert_eq!(params.mmu.shared(), Ok(b.shared));
                }
            }
            Err(found) => prop_assert!(found.iter().any(Diagnostic::is_error)),
        }
    }
}

#[test]
fn a_written_headroom_is_held_against_what_may_come() {
    let written = |xoff: &str, port: &str| {
        let profile = format!("[[buffer.profile]]\nname = \"lossless\"\nxoff = {xoff}\n");
        load("t", &format!("{ROCE}{TWO}{port}[buffer]\nsize = \"32MiB\"\n{profile}"))
            .unwrap_or_else(|f| panic!("{}", shown(&f)))
    };
    let auto = written("\"auto\"", "").config.ports[0].pgs[3].xoff;
    assert!(written(&auto.to_string(), "").warnings.is_empty());
    let d = only(&written(&(auto - 1).to_string(), "").warnings, "headroom.short");
    assert!(d.message.contains(&format!("{} , but {auto}", auto - 1).replace(" ,", ",")), "{d}");
    assert!(d.message.contains("port `p") && d.message.contains("tx_ring 31250"), "{d}");
    // A peer in software takes longer than 802.3 allows: 80 quanta at 25G are 5120 bytes.
    let slow = "peer_response = 65120\n";
    let more = written("\"auto\"", slow).config.ports[1].pgs[3].xoff;
    assert!((more - auto).abs_diff(60_000) < 64, "{more} {auto}");
    let d = only(&written(&auto.to_string(), slow).warnings, "headroom.short");
    assert!(d.message.contains("port `p1`"), "the one that needs most: {d}");
}

#[test]
fn what_a_peer_s_headroom_needs_of_this_switch_is_explained() {
    let row = |lcores: [u8; 2], more: &str| {
        let port = |n: usize| {
            format!(
                "[[port]]\nname = \"p{n}\"\ndevice = \"0000:3b:00.{n}\"\nrate = \"100G\"\ncable = \"5m\"\nmtu = 1518\nlcore = {}\n",
                lcores[n]
            )
        };
        let text = format!("{ROCE}[buffer]\nsize = \"32MiB\"\n{}{more}", port(0) + &port(1));
        let config = load("t", &text).unwrap_or_else(|f| panic!("{}", shown(&f))).config;
        config.explain().into_iter().find(|e| e.key == "port.p1.pause_response")
    };
    let one = row([1, 1], "").unwrap();
    // 10 us until it is seen, 10 us that the shaper let go, and the frame that the credit did not cover.
    assert_eq!(one.value, "251542B", "{}", one.why);
    let two = row([1, 2], "").unwrap();
    assert!(two.why.contains("other_lcores 626542 (500000 + 10000 ns"), "{}", two.why);
    assert!(row([1, 1], "pfc = { rx = \"none\" }\n").is_none(), "it obeys no pause");
}

#[test]
fn eight_classes_fold_into_four() {
    let document = include_str!("../../docs/config.md");
    let (_, fold) = document.split_once("### Four priorities").unwrap();
    let text = fold.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let Loaded { config, warnings } = load("four.toml", text).unwrap_or_else(|f| panic!("{}", shown(&f)));
    assert!(warnings.is_empty(), "{}", shown(&warnings));
    let port = &config.ports[0];
    // TYPE3 and TYPE2, responses, requests, control; CNPs with the last.
    assert_eq!(port.maps.pcp_to_tc, [0, 0, 1, 2, 2, 3, 3, 3]);
    assert_eq!(config.control_tc, Some(3));
    for pcp in 0..8 {
        let tc = usize::from(port.maps.pcp_to_tc[pcp]);
        let (pg, queue) = (port.maps.tc_to_pg[tc], port.maps.tc_to_queue[tc]);
        assert_eq!(port.pgs[usize::from(pg)].lossless, pcp < 5);
        if pcp < 5 {
            assert_eq!((port.maps.pfc_to_pg[pcp], port.maps.pfc_to_queue[pcp]), (pg, queue), "PCP {pcp}");
        }
    }
}

/// A name that nothing goes by is often one that was written otherwise: what the table says has no effect.
#[test]
fn tables_that_nothing_names_are_told() {
    for (table, what, known) in [
        (
            "[[wred]]\nname = \"Roce\"\nkmin = \"4KB\"\nkmax = \"5KB\"\n",
            "marking profile `Roce`",
            "in use: roce",
        ),
        (
            "[[buffer.profile]]\nname = \"loseless\"\ndynamic_th = -6\n",
            "profile `loseless`",
            "in use: lossless",
        ),
        ("[[scheduler]]\nname = \"x\"\nweight = 3\n", "scheduler `x`", "in use: "),
        ("[map.x]\ndscp_to_tc = { \"3\" = 2 }\n", "map `x`", "`maps` of [[port]]"),
    ] {
        let found = only_warning(table, "name.unused");
        assert!(found.message.contains(what) && found.remedy.contains(known), "{found}");
    }
    // Those of a preset are there to be bound, and laid over them the file's are its bindings'.
    for table in [
        "[[wred]]\nname = \"roce\"\nkmin = \"40KB\"\n",
        "[[buffer.profile]]\nname = \"lossless\"\ndynamic_th = -2\n",
    ] {
        let loaded = load_roce(table).unwrap_or_else(|f| panic!("{}", shown(&f)));
        assert!(loaded.warnings.is_empty(), "{}", shown(&loaded.warnings));
    }
    // All that is bound is laid over with something else.
    let all = "[[scheduler]]\nname = \"x\"\nweight = 3\n[[queue]]\nqueues = \"0-7\"\nscheduler = \"x\"\n\
               [[queue]]\nqueues = \"0-7\"\nscheduler = \"rest\"\n";
    assert!(only_warning(all, "name.unused").message.contains("`x`"));
}

//! Switches whose ports have a memory each: every one sets aside what its own port can use, and all numbers go by that.

use weir_config::runtime::input_params;
use weir_config::{Config, Diagnostic, Memories, load_with};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::PortId;

/// Ports of 100 Gb/s, and behind them others of 400 Gb/s on a cable of 300 m.
fn loaded(memories: Memories, near: usize, far: usize, buffer: &str) -> Result<Config, Vec<Diagnostic>> {
    let port = |i: usize| {
        let link =
            if i < near { "rate = \"100G\"\ncable = \"5m\"" } else { "rate = \"400G\"\ncable = \"300m\"" };
        format!("[[port]]\nname = \"p{i}\"\ndevice = \"net_null{i}\"\nmtu = 1600\n{link}\n")
    };
    let ports: String = (0..near + far).map(port).collect();
    let text = format!("[qos]\npreset = \"roce-lossless\"\n{ports}[buffer]\n{buffer}\n");
    load_with(Platform::Simulated, memories, "t.toml", &text).map(|loaded| loaded.config)
}

fn own(near: usize, far: usize, buffer: &str) -> Config {
    loaded(Memories::PerPort, near, far, buffer).unwrap_or_else(|found| panic!("{found:?}"))
}

fn refused(near: usize, far: usize, buffer: &str) -> String {
    let found = loaded(Memories::PerPort, near, far, buffer).unwrap_err();
    found.iter().map(|d| format!("{}: {}; {}\n", d.rule, d.message, d.remedy)).collect()
}

/// `size - reserves - headroom - control`, of one port, however many others there are.
#[test]
fn a_memory_sets_aside_what_one_port_needs() {
    let xoff = own(1, 0, "size = \"2MiB\"").ports[0].pgs[3].xoff;
    let shared = (2 << 20) - 4096 - xoff - (256 << 10);
    for ports in [1, 2, 33, 64] {
        let config = own(ports, 0, "size = \"2MiB\"");
        for port in 0..ports {
            assert_eq!(config.buffer.of_port(port).shared, shared, "{ports}");
            assert_eq!(input_params(&config, PortId(port as u16)).shared(), Ok(shared), "{ports}");
        }
        assert_eq!((config.buffer.shared, config.buffer.headroom), (shared, xoff), "{ports}");
    }
    // One memory of all has to set aside for all.
    assert!(loaded(Memories::Shared, 33, 0, "size = \"2MiB\"").is_err());
    let one = loaded(Memories::Shared, 1, 0, "size = \"2MiB\"").unwrap();
    assert_eq!((one.buffer.shared, one.buffer.of_port(0).shared), (shared, shared));
}

/// Ports that are not alike have memories that are not: the switch as a whole is said to share what the least of them does.
#[test]
fn ports_that_need_more_leave_less_of_their_own_memory() {
    for pool in ["", "over_subscribe_ratio = 2", "headroom_pool = \"1300KB\""] {
        let lossless = "[[buffer.pg]]\nports = \"*\"\npgs = \"4\"\nprofile = \"lossless\"\n\
                        [[buffer.queue]]\nports = \"*\"\nqueues = \"4\"\nprofile = \"egress_lossless\"\n";
        let config = own(3, 2, &format!("size = \"4MiB\"\n{pool}\n{lossless}"));
        let xoffs = [0, 4].map(|port: usize| config.ports[port].pgs[3].xoff);
        assert!(xoffs[0] < xoffs[1], "{xoffs:?}");
        for (port, xoff) in [(0, xoffs[0]), (2, xoffs[0]), (3, xoffs[1]), (4, xoffs[1])] {
            let headroom = match pool {
                "" => 2 * xoff,
                "over_subscribe_ratio = 2" => xoff,
                _ => 1_300_000,
            };
            let memory = config.buffer.of_port(port);
            let rest = (4 << 20) - 2 * 4096 - (256 << 10) - headroom;
            assert_eq!((memory.headroom, memory.shared), (headroom, rest), "{pool} port {port}");
            let params = input_params(&config, PortId(port as u16));
            assert_eq!((params.headroom(), params.shared()), (headroom, Ok(rest)), "{pool} port {port}");
        }
        assert_eq!(config.buffer.shared, config.buffer.of_port(4).shared, "{pool}");
    }
}

/// Automatic and relative thresholds, and static limits that are shares, follow what is shared: not the number of ports.
#[test]
fn thresholds_and_limits_do_not_depend_on_other_ports() {
    for (law, kmin, kmax) in [("auto", "\"auto\"", "\"auto\""), ("share", "\"50%\"", "\"80%\"")] {
        let of = |memories, ports| {
            let law = format!("[[wred]]\nname = \"roce\"\nkmin = {kmin}\nkmax = {kmax}\n");
            let profile = "[[buffer.profile]]\nname = \"lossless\"\nstatic_th = \"40%\"\n";
            let config = loaded(memories, ports, 0, &format!("size = \"8MiB\"\n{profile}{law}")).unwrap();
            let port = &config.ports[ports - 1];
            (port.queues[3].wred, port.pgs[3].shared)
        };
        let alone = of(Memories::Shared, 1);
        assert_eq!([2, 16, 64].map(|ports| of(Memories::PerPort, ports)), [alone; 3], "{law}");
        assert_ne!(of(Memories::Shared, 16), alone, "{law}");
    }
}

/// A size that is too small for one of the memories is refused with the sum of that.
#[test]
fn a_memory_that_is_too_small_is_refused_by_its_own_sum() {
    let xoff = own(1, 0, "size = \"2MiB\"").ports[0].pgs[3].xoff;
    let sum = 4096 + xoff + (256 << 10);
    let told = refused(20, 0, "size = \"320KiB\"");
    let says = format!(
        "in the memory of port `p0`: reserved 4096 (8 groups) + headroom of 1 lossless groups {xoff} + control 262144 = {sum}, \
         more than size 327680"
    );
    assert!(told.starts_with("buffer.sum: ") && told.contains(&says), "{told}\n{says}");
    // The one that needs most.
    let told = refused(2, 3, "size = \"320KiB\"");
    assert!(told.contains("in the memory of port `p2`: reserved 4096 (8 groups)"), "{told}");
    let told = refused(2, 3, "size = \"4MiB\"\nheadroom_pool = \"10KB\"");
    let most = own(0, 1, "size = \"4MiB\"").ports[0].pgs[3].xoff;
    assert!(told.contains(&format!("smaller than one group's headroom of {most}")), "{told}");
}

//! `[[mirror]]`: what is read, and what is refused.

use weir_config::runtime::{Device, switch_params};
use weir_config::{Config, Diagnostic, MirrorDirection, MirrorFile, Severity, load, load_for};
use weir_dataplane::switch::{Filter, MirrorTo};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::PortId;

fn text(mirrors: &str) -> String {
    let ports: String =
        (0..4).map(|n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"net_null{n}\"\n")).collect();
    format!("{ports}{mirrors}")
}

fn read(text: &str) -> (Config, Vec<Diagnostic>) {
    let loaded = load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}\n{text}"));
    (loaded.config, loaded.warnings)
}

#[test]
fn mirrors_have_names_ports_and_a_way() {
    let (config, warnings) = read(&text(
        "[[mirror]]\nname = \"all\"\nto = \"p3\"\n\
         [[mirror]]\nname = \"cnp\"\nports = [\"p1\", \"p0\"]\ndirection = \"rx\"\nto = \"p2\"\ntc = 5\n\
         filter = { dst = \"02:00:00:00:00:01\", dscp = 48, ethertype = 0x800, udp_port = 4791, ip = \"10.0.0.7\", qp = 0x1a }\n"
            .replace("to = \"p3\"", "ports = [\"p0\", \"p1\"]\nto = \"p3\"")
            .as_str(),
    ));
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    let [all, cnp] = config.mirrors.as_slice() else { panic!("{:?}", config.mirrors) };
    assert_eq!(
        (all.name.as_str(), all.direction, all.filter),
        ("all", MirrorDirection::Both, Filter::default())
    );
    assert_eq!((cnp.ports.clone(), cnp.port()), (vec![PortId(0), PortId(1)], Some((PortId(2), 5))));
    let filter = Filter {
        dst: Some("02:00:00:00:00:01".parse().unwrap()),
        src: None,
        ethertype: Some(0x800),
        dscp: Some(48),
        udp_port: Some(4791),
        ip: Some([10, 0, 0, 7].into()),
        qp: Some(0x1a),
    };
    assert_eq!(cnp.filter, filter);
    assert_eq!(config.buffer.mirror_bytes, 256 << 10);
    let b = &config.buffer;
    assert_eq!(b.size, b.reserved + b.headroom + b.control_bytes + b.mirror_bytes + b.shared);
    let params = switch_params(&config, &[Device::default(); 4], 1).unwrap();
    let (all, cnp) = (params.mirrors[0], params.mirrors[1]);
    let to = |port, queue| MirrorTo::Port { port: PortId(port), queue };
    let ways = |m: &weir_dataplane::switch::MirrorParams| (m.rx.len(), m.tx.len(), m.to);
    assert_eq!((ways(&all), ways(&cnp)), ((2, 2, to(3, 0)), (2, 0, to(2, 5))));
    assert_eq!(params.mmu.mirror, 256 << 10);
    // By default all ports but the one it sends to; without mirrors nothing is set aside.
    let (config, _) = read(&text("[[mirror]]\nname = \"m\"\nto = \"p1\"\n"));
    assert_eq!(config.mirrors[0].ports, [0, 2, 3].map(PortId));
    let key = |key: &str| config.explain().into_iter().find(|row| row.key == key).map(|row| row.value);
    assert_eq!(key("mirror.m.to").as_deref(), Some("p1"));
    assert_eq!(read(&text("")).0.buffer.mirror_bytes, 0);
}

#[test]
fn what_makes_no_mirror_is_refused_with_its_line() {
    let m = |keys: &str| format!("[[mirror]]\nname = \"m\"\n{keys}\n");
    let roce = "[qos]\npreset = \"roce-lossless\"\n";
    for (mirrors, reason) in [
        (m("ports = \"p0\""), "mirror.m.to is missing"),
        (m("to = \"p9\""), "there is no port `p9`"),
        (m("to = \"p3\"\nports = \"p9\""), "there is no port `p9`"),
        (m("to = \"p3\"\nports = []"), "copies frames of no port"),
        (m("to = \"p3\"\nports = [\"p0\", \"p3\"]"), "mirror `m` copies its frames"),
        (m("to = \"p3\"\ndirection = \"in\""), "`in` is not known here"),
        (m("to = \"p3\"\nfilter = { dscp = 64 }"), "outside 0 to 63"),
        (m("to = \"p3\"\nfilter = { vlan = 1 }"), "`vlan` is not a key"),
        (m("to = \"p3\"\nfilter = { ethertype = 0x806, udp_port = 4791 }"), "0x0806 has a udp_port"),
        (m("to = \"p3\"\nfilter = { ethertype = 0x8906, dscp = 26 }"), "0x8906 has a dscp"),
        (m("to = \"p3\"\ntc = 3") + roce, "class 3 waits in lossless queue 3 of `p3`"),
        (m("to = \"p3\"") + "[buffer]\nmirror_bytes = 100\n", "not even one frame"),
        (
            format!(
                "{}[[mirror]]\nname = \"n\"\nports = \"p3\"\nto = \"p2\"\n",
                m("ports = \"p0\"\nto = \"p3\"")
            ),
            "mirror `n` copies its frames",
        ),
        (format!("{0}{0}", m("to = \"p3\"")), "already defined"),
        (m("to = \"p3\"\nfile = \"/tmp/a.pcapng\""), "to a port or to a file"),
        (m("to = \"p3\"\nfiles = 3"), "mirror.m.files is for mirrors to a file"),
        (m("file = \"/tmp/a.pcapng\"\ntc = 1"), "mirror.m.tc is for mirrors to a port"),
        (m("file = \"a.pcapng\""), "not a whole path of a .pcapng file"),
        (m("file = \"/tmp/a.pcap\""), "not a whole path of a .pcapng file"),
        (m("file = \"/tmp/.pcapng\""), "not a whole path of a .pcapng file"),
        (m("file = \"/tmp/a.pcapng\"\nfile_size = \"1KB\""), "file_size = 1KB is outside"),
        (m("file = \"/tmp/a.pcapng\"\nfiles = 0"), "outside 1 to 1000"),
        (m("file = \"/tmp/a.pcapng\"\nsnaplen = 13"), "outside 14 to 16384"),
        (m("file = \"/tmp/a.pcapng\"\nfilter = { ethertype = 0x806, dscp = 4 }"), "0x0806 has a dscp"),
        (
            format!(
                "{0}{1}",
                m("file = \"/tmp/a.pcapng\""),
                m("file = \"/tmp/a.pcapng\"").replace("\"m\"", "\"n\"")
            ),
            "mirrors `m` and `n` write one file",
        ),
        (
            format!(
                "{0}{1}",
                m("file = \"/tmp/a.pcapng\""),
                m("file = \"/tmp//./a.pcapng\"").replace("\"m\"", "\"n\"")
            ),
            "mirrors `m` and `n` write one file",
        ),
        (m("file = \"/tmp/b/../a.pcapng\""), "`..` may lead to the file of another mirror"),
    ] {
        let found = load("t.toml", &text(&mirrors)).map(|_| ()).expect_err(&mirrors);
        let errors: Vec<_> = found.iter().filter(|fault| fault.severity == Severity::Error).collect();
        assert_eq!(errors.len(), 1, "{mirrors}: {found:#?}");
        assert!(errors[0].to_string().contains(reason), "{mirrors}: {}", errors[0]);
        assert!(errors[0].line > 12 && !errors[0].remedy.is_empty(), "{mirrors}: {:?}", errors[0]);
    }
    let short = text(&m("to = \"p3\"")).replace("net_null3\"\n", "net_null3\"\nmtu = 1518\n");
    let (_, warnings) = read(&short);
    assert!(
        warnings.iter().any(|w| w.rule == "mirror.mtu" && w.to_string().contains("mirror.too_long")),
        "{warnings:?}"
    );
    let afh = text(&m("to = \"p3\"")).replace("net_null3\"\n", "net_null3\"\nformat = \"afh_lite\"\n");
    let found = load("t.toml", &afh).map(|_| ()).unwrap_err();
    assert!(found.iter().any(|fault| fault.to_string().contains("of another format")), "{found:?}");
}

/// Both names that are wrong are told at once.
#[test]
fn all_that_is_wrong_with_the_ports_of_a_mirror_is_told() {
    let found = load("t.toml", &text("[[mirror]]\nname = \"m\"\nports = [\"p2\", \"zz\"]\nto = \"yy\"\n"))
        .unwrap_err();
    for name in ["zz", "yy"] {
        assert!(found.iter().any(|d| d.message.contains(name)), "{name}: {found:#?}");
    }
}

#[test]
fn a_mirror_to_a_file_takes_nothing_of_the_buffer() {
    let (config, warnings) = read(&text("[[mirror]]\nname = \"m\"\nfile = \"/var/log/weir/m.pcapng\"\n"));
    assert_eq!((warnings.len(), config.buffer.mirror_bytes), (0, 0));
    let mirror = &config.mirrors[0];
    assert_eq!((mirror.ports.len(), mirror.port()), (4, None));
    let usual =
        MirrorFile { path: "/var/log/weir/m.pcapng".into(), size: 64 << 20, files: 2, snaplen: 16_384 };
    assert_eq!(mirror.file(), Some(&usual));
    let own = "[[mirror]]\nname = \"n\"\nports = \"p1\"\nfile = \"/n.pcapng\"\nfile_size = \"1MiB\"\nfiles = 9\nsnaplen = 128\n";
    let (config, _) = read(&text(own));
    let mirror = &config.mirrors[0];
    let own = MirrorFile { path: "/n.pcapng".into(), size: 1 << 20, files: 9, snaplen: 128 };
    assert_eq!(mirror.file(), Some(&own));
    let params = switch_params(&config, &[Device::default(); 4], 1).unwrap();
    assert_eq!(params.mirrors[0].to, MirrorTo::Reader { number: mirror.number(), bytes: 128 });
    let simulated =
        load_for(Platform::Simulated, "t.toml", &text("[[mirror]]\nname = \"m\"\nfile = \"/m.pcapng\"\n"));
    let found = simulated.map(|_| ()).unwrap_err();
    assert!(
        found.iter().any(|d| d.line == 15 && d.message.contains("a simulation writes no frames")),
        "{found:?}"
    );
}

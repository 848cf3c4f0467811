use super::*;
use crate::config::schema::reference_of;
use proptest::prelude::*;

const GOOD: &str = include_str!("../../../../configs/host.toml");

fn shown(found: &[Diagnostic]) -> String {
    found.iter().map(|d| format!("{d}\n\n")).collect()
}

/// The only error of the good file with a piece replaced.
fn error(from: &str, to: &str) -> Diagnostic {
    assert!(GOOD.contains(from), "{from}");
    let found = load("host.toml", &GOOD.replacen(from, to, 1)).unwrap_err();
    assert_eq!(found.len(), 1, "{}", shown(&found));
    found.into_iter().next().unwrap()
}

#[test]
fn the_example_is_good() {
    let loaded = load("host.toml", GOOD).unwrap_or_else(|found| panic!("{}", shown(&found)));
    assert!(loaded.warnings.is_empty(), "{}", shown(&loaded.warnings));
    let config = loaded.config;
    assert_eq!(config.ports.len(), 1);
    assert_eq!(config.qps.iter().map(|qp| qp.qpn).collect::<Vec<_>>(), [17, 18]);
    let stream = config.qps[0].stream.unwrap();
    assert_eq!((stream.operation, stream.bytes), (HostOperation::Write, 65_536));
    assert_eq!((config.qps[0].priority, config.qps[0].cnp_dscp, config.dcqcn.outstanding), (3, 48, 16));
}

#[test]
fn what_clashes_is_named_with_its_numbers() {
    let at = |from, to, rule: &str, word: &str| {
        let d = error(from, to);
        assert_eq!(d.rule, rule, "{d}");
        assert!(d.to_string().contains(word), "{d}");
    };
    at("mtu = 1600", "mtu = 1000", "qp.mtu", "1024 + 82 = 1106 bytes");
    at("peer_qpn = 17", "peer_qpn = 16777216", "range", "0 to 16777215");
    at("peer_ip = \"10.0.0.2\"", "peer_ip = \"10.0.0.1\"", "qp.peer", "itself");
    at("peer_ip = \"10.0.0.2\"", "peer_ip = \"ten\"", "value", "no IPv4 address");
    at("mac = \"02:", "mac = \"03:", "value", "not the address of one host");
    at("send = \"write\"", "# nothing", "qp.stream", "`messages`");
    at("send = \"write\"", "send = \"read\"", "value", "\"send\", \"write\"");
    at("message = \"64KiB\"", "message = 8", "range", "16B");
    at("rate = \"1G\"", "rate = \"1G\"\nfirst_qpm = 3", "unknown_key", "did you mean `first_qpn`?");
}

#[test]
fn the_document_holds_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/host.md");
    let text = std::fs::read_to_string(path).unwrap();
    let marker = "<!-- printed from dataplane/src/config/host/schema.rs -->\n\n";
    let (prose, reference) = text.split_once(marker).expect("the marker before the reference");
    let printed = reference_of(schema::ALL);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, format!("{prose}{marker}{printed}")).unwrap();
    } else {
        assert!(
            reference == printed,
            "docs/host.md is behind: WEIR_BLESS=1 cargo test -p weir-dataplane document"
        );
    }
    let tight = error("mtu = 1600", "mtu = 1000");
    assert!(prose.contains(&tight.to_string()), "{tight}");
}

proptest! {
    #[test]
    fn no_text_panics(cut in 0usize..1500, piece in "[ -~\n]{0,30}") {
        let cut = (0..=cut.min(GOOD.len())).rev().find(|at| GOOD.is_char_boundary(*at)).unwrap_or(0);
        let _ = load("host.toml", &format!("{}{piece}{}", &GOOD[..cut], &GOOD[cut..]));
    }
}

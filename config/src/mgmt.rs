//! `[mgmt]`: where a running switch may be looked at.

use super::read::{Ctx, Section};
use super::schema;
use super::types::{MgmtConfig, MgmtSocket, MgmtTls};
use super::units::{BOOL, Bad, Kind, TEXT, wrong_type};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where management listens unless told otherwise.
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9470);

const HELP: &str =
    "write an address and a port, \"127.0.0.1:9470\" or \"[::1]:0\" (0: any free port), or \"off\"";

/// `None` is `"off"`.
const LISTEN: Kind<Option<SocketAddr>> = Kind {
    parse: |v| {
        let text = v.as_str().ok_or_else(|| wrong_type(v, HELP))?;
        if text == "off" {
            return Ok(None);
        }
        // Names are not resolved: the one that always means the same is known.
        let address = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        address
            .parse()
            .map(Some)
            .map_err(|_| Bad::new(format!("`{text}` is not an address with a port"), HELP))
    },
    show: |address| address.map_or("off".into(), |a| a.to_string()),
};

/// Names without a port: they are compared with the `Host` of a request.
const HOSTS: Kind<Vec<String>> = Kind {
    parse: |v| {
        const HELP: &str = "write names without a port, [\"leaf1\", \"leaf1.example\"]";
        let items = v.as_array().ok_or_else(|| wrong_type(v, HELP))?;
        let is_name = |text: &str| {
            let part = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_');
            !text.is_empty() && text.len() <= 253 && text.bytes().all(part)
        };
        let one = |item: &toml::Spanned<toml::de::DeValue<'_>>| {
            let item = item.get_ref();
            let text = item.as_str().ok_or_else(|| wrong_type(item, HELP))?;
            let name = is_name(text).then(|| text.to_owned());
            name.ok_or_else(|| Bad::new(format!("`{text}` is not the name of a host"), HELP))
        };
        items.iter().map(one).collect()
    },
    show: |hosts| format!("{hosts:?}"),
};

pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>) -> MgmtConfig {
    let s = root.table(ctx, "mgmt", &schema::MGMT);
    let chosen = s.raw(ctx, "listen").is_some();
    let listen = s.or(ctx, "listen", &LISTEN, Some(DEFAULT), "this machine only");
    let socket = match s.get(ctx, "socket", &TEXT).map(|v| v.v) {
        None => MgmtSocket::Default,
        Some(text) if text == "off" => MgmtSocket::Off,
        Some(text) => MgmtSocket::Path(text),
    };
    let token_file = s.get(ctx, "token_file", &TEXT).map(|v| v.v);
    let operate_token_file = s.get(ctx, "operate_token_file", &TEXT).map(|v| v.v);
    let admin_token_file = s.get(ctx, "admin_token_file", &TEXT).map(|v| v.v);
    let hosts = s.get(ctx, "hosts", &HOSTS).map(|v| v.v).unwrap_or_default();
    let tls = match (s.get(ctx, "tls_cert", &TEXT), s.get(ctx, "tls_key", &TEXT)) {
        (Some(cert), Some(key)) => Some(MgmtTls { cert: cert.v, key: key.v }),
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => {
            let message = "TLS takes a certificate and its key";
            ctx.error(one.span, "mgmt.tls", message, "set both tls_cert and tls_key, or neither");
            None
        }
    };
    if let Some(address) = listen.v.filter(|a| !a.ip().is_loopback() && token_file.is_none()) {
        let message = format!("{address} can be reached from other machines, and no token is asked for");
        ctx.error(listen.span, "mgmt.exposed", message, "set token_file, or listen on 127.0.0.1");
    }
    if let Some(address) = listen.v.filter(|a| !a.ip().is_loopback() && token_file.is_some() && tls.is_none())
    {
        let message = format!("whoever is on the way to {address} can read tokens and all that is shown");
        let remedy = "set tls_cert and tls_key, or listen on 127.0.0.1 behind a proxy that speaks TLS";
        ctx.warn(listen.span, "mgmt.clear", message, remedy);
    }
    let why = "at the end of a capture DPDK frees what a worker may be using";
    let dumpcap = s.or(ctx, "dumpcap", &BOOL, false, why).v;
    MgmtConfig {
        listen: listen.v,
        chosen,
        socket,
        token_file,
        operate_token_file,
        admin_token_file,
        hosts,
        tls,
        dumpcap,
    }
}

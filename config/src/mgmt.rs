//! `[mgmt]`: where a running switch may be looked at.

use super::read::{Ctx, Section};
use super::schema;
use super::types::{MgmtConfig, MgmtSocket};
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
        address.parse().map(Some).map_err(|_| Bad::new(format!("`{text}` is no address with a port"), HELP))
    },
    show: |address| address.map_or("off".into(), |a| a.to_string()),
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
    let admin_token_file = s.get(ctx, "admin_token_file", &TEXT).map(|v| v.v);
    if let Some(address) = listen.v.filter(|a| !a.ip().is_loopback() && token_file.is_none()) {
        let message = format!("{address} can be reached from other machines, and no token is asked for");
        ctx.error(listen.span, "mgmt.exposed", message, "set token_file, or listen on 127.0.0.1");
    }
    let why = "at the end of a capture DPDK frees what a worker may be using";
    let dumpcap = s.or(ctx, "dumpcap", &BOOL, false, why).v;
    MgmtConfig { listen: listen.v, chosen, socket, token_file, admin_token_file, dumpcap }
}

//! `inc = { ... }` of a port: an engine of in-network aggregation in the place of a device.

use super::diag::Span;
use super::host::{HOST_MAC, IP};
use super::read::{Ctx, Section};
use super::schema;
use super::types::{EngineConfig, PortConfig};
use super::units::{SIZE, show_size};
use std::net::{IpAddr, Ipv4Addr};
use weir_dataplane::types::Mac;
use weir_endpoint::roce::wire::Qpn;
use weir_inc::engine::EngineParams;
use weir_inc::spec::Address;

/// Queue pair numbers have 24 bits; 0 and 1 are management's.
const LAST_QPN: u64 = 0xff_ffff;
/// What the smallest job takes, and a little.
const LEAST_MEMORY: u64 = 64 << 10;

/// The engine of a port, if that is what its device is.
pub(super) fn read(ctx: &mut Ctx<'_>, port: &Section<'_>, is_engine: bool) -> Option<EngineConfig> {
    let raw = port.raw(ctx, "inc");
    if !is_engine {
        if let Some(raw) = raw {
            let message = "`inc` describes an engine, and the device of this port is none";
            ctx.error(raw.span, "port.inc", message, "write device = \"inc\", or remove `inc`");
        }
        return None;
    }
    let s = port.table(ctx, "inc", &schema::PORT_INC);
    if s.is_empty() {
        // What is there and no table has been refused.
        if raw.is_some() {
            return None;
        }
        let at = port.span(ctx);
        let message = "an engine has an address of its own, and here is none";
        let remedy = "add inc = { mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\" }";
        ctx.error(at, "port.inc", message, remedy);
        return None;
    }
    let mac = s.need(ctx, "mac", &HOST_MAC);
    let ip = s.need(ctx, "ip", &IP);
    let vlan = s.int_or(ctx, "vlan", 0..=4094, 0, "untagged").v as u16;
    let usual = EngineParams::default();
    let jobs = s.int_or(ctx, "jobs", 1..=1024, usual.jobs as u64, "what is promised").v;
    let memory = s.or(ctx, "memory", &SIZE, usual.memory, "64 jobs of 4 MiB");
    let least = s.within(ctx, "memory", memory, &(LEAST_MEMORY..=1 << 40), |n| show_size(*n));
    let memory = least.map_or(usual.memory, |memory| memory.v);
    let quota = s.or(ctx, "quota", &SIZE, memory / 4, "a quarter of `memory`: one job does not take it all");
    if quota.v > memory || quota.v < LEAST_MEMORY / 4 {
        let message = format!("{} = {} of {} in all", s.key("quota"), show_size(quota.v), show_size(memory));
        let remedy = format!("use a value from {} to {}", show_size(LEAST_MEMORY / 4), show_size(memory));
        ctx.error(quota.span, "port.inc", message, remedy);
    }
    let first =
        s.int_or(ctx, "first_qpn", 2..=LAST_QPN, usual.first_qpn.0.into(), "0 and 1 are management's");
    let most = LAST_QPN + 1 - first.v;
    let why = "64 children and a parent for each of 64 jobs";
    let qpns = s.int_or(ctx, "qpns", 1..=1 << 20, u64::from(usual.qpns).min(most), why);
    if qpns.v > most {
        let message = format!("{} numbers from {} on end beyond {LAST_QPN}", qpns.v, first.v);
        ctx.error(qpns.span, "port.inc", message, format!("write qpns = {most} or less, or begin earlier"));
    }
    let address = Address {
        mac: mac.map_or(Mac([0; 6]), |mac| mac.v),
        ip: ip.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ip| ip.v),
        vlan: (vlan != 0).then_some(vlan),
    };
    let params = EngineParams {
        jobs: jobs as usize,
        memory,
        quota: quota.v,
        first_qpn: Qpn(first.v as u32),
        qpns: qpns.v as u32,
    };
    Some(EngineConfig { address, params })
}

/// What engines and ports must have of each other.
pub(super) fn check(ctx: &mut Ctx<'_>, ports: &[PortConfig], at: &[Span]) {
    let engines: Vec<usize> = (0..ports.len()).filter(|i| ports[*i].engine.is_some()).collect();
    for (n, i) in engines.iter().enumerate() {
        let port = &ports[*i];
        if port.format != 0 {
            let message = format!("engine `{}` speaks RoCEv2, and the port another format", port.name);
            ctx.error(at[*i], "port.inc", message, "leave `format` out: \"standard\"");
        }
        let address = |j: usize| ports[j].engine.map(|engine| (engine.address.ip, engine.address.vlan));
        if let Some(other) = engines[..n].iter().find(|j| address(**j) == address(*i)) {
            let message = format!(
                "engines `{}` and `{}` have one IP address, and both would answer for it",
                ports[*other].name, port.name
            );
            ctx.error(at[*i], "port.inc", message, "give each an IP address of its own");
        }
        let same = engines[..n].iter().find(|j| ports[**j].lcore == port.lcore);
        if let Some(other) = same {
            let message = format!(
                "engines `{}` and `{}` are on one lcore and would share its time",
                ports[*other].name, port.name
            );
            ctx.error(
                at[*i],
                "port.inc",
                message,
                "give each an lcore of its own, or make them one with more `memory`",
            );
        }
    }
}

//! `[flows]`: which flows are behind marks, losses, pauses and depth, and who is told.

use super::diag::Span;
use super::read::{Ctx, Section};
use super::schema;
use super::types::{FlowExport, FlowsConfig, MgmtConfig, MgmtSocket};
use super::units::{BOOL, Bad, Kind, TIME, show_time, wrong_type};
use std::net::SocketAddr;
use weir_dataplane::turn::Platform;

/// One in so many is looked at where there are many.
const SAMPLE: u64 = 512;

const SECOND: u64 = 1_000_000_000;
/// Between two exports, ns.
const INTERVAL: u64 = 10 * SECOND;
/// RFC 5612: the private enterprise number for examples, which belongs to nobody.
const ENTERPRISE: u64 = 32_473;

/// Keys that say how is exported; none of them has an effect unless `export` says to whom.
const HOW: [&str; 3] = ["export_interval", "export_domain", "export_enterprise"];

const HELP: &str =
    "write the address and the port of a collector, \"198.51.100.1:4739\" or \"[2001:db8::1]:4739\"";

const COLLECTOR: Kind<SocketAddr> = Kind {
    parse: |v| {
        let text = v.as_str().ok_or_else(|| wrong_type(v, HELP))?;
        let address = text.parse::<SocketAddr>().ok();
        let address =
            address.filter(|to| to.port() != 0 && !to.ip().is_unspecified() && !to.ip().is_multicast());
        address.ok_or_else(|| Bad::new(format!("`{text}` is not a collector's address with a port"), HELP))
    },
    show: |address| address.to_string(),
};

/// What is recorded; and where `export` stands, if it does.
pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>, platform: Platform) -> (FlowsConfig, Option<Span>) {
    let s = root.table(ctx, "flows", &schema::FLOWS);
    let enable = match platform {
        Platform::Polled => s.or(ctx, "enable", &BOOL, true, "it costs only where something happens").v,
        Platform::Simulated => s.or(ctx, "enable", &BOOL, false, "a simulation follows every frame").v,
    };
    let (sample, why) = match platform {
        Platform::Polled => (SAMPLE, "a second of overload is thousands of frames"),
        Platform::Simulated => (1, "virtual time waits"),
    };
    let sample = s.int_or(ctx, "sample", 1..=65_536, sample, why).v;
    let export = s.get(ctx, "export", &COLLECTOR);
    let at = export.as_ref().map(|collector| collector.span);
    if let (None, Some((key, how))) =
        (s.raw(ctx, "export"), HOW.iter().find_map(|key| Some((key, s.raw(ctx, key)?))))
    {
        let message = format!("{} is set, and nothing is exported", s.key(key));
        ctx.error(
            how.span,
            "flows.export",
            message,
            "set `export` to the address of a collector, or leave it out",
        );
    }
    let export = export.map(|collector| read_export(ctx, &s, collector.v));
    let refused = match (at, platform) {
        (Some(_), _) if !enable => {
            Some(("flows are not recorded", "leave out `enable = false`, or `export`"))
        }
        (Some(_), Platform::Simulated) => Some(("a simulation tells no collector", "leave out `export`")),
        _ => None,
    };
    if let (Some(at), Some((message, remedy))) = (at, refused) {
        ctx.error(at, "flows.export", message, remedy);
    }
    (FlowsConfig { enable, sample: sample as u32, export }, at)
}

fn read_export(ctx: &mut Ctx<'_>, s: &Section<'_>, collector: SocketAddr) -> FlowExport {
    let [interval_key, domain, enterprise] = HOW;
    let interval = s.or(ctx, interval_key, &TIME, INTERVAL, "enough to follow, little to send");
    let range = SECOND..=3600 * SECOND;
    let interval =
        s.within(ctx, interval_key, interval, &range, |n| show_time(*n)).map_or(INTERVAL, |val| val.v);
    let whole = u64::from(u32::MAX);
    let domain = s.int_or(ctx, domain, 1..=whole, 1, "one switch, one domain").v;
    let enterprise =
        s.int_or(ctx, enterprise, 1..=whole, ENTERPRISE, "nobody's: that of examples (RFC 5612)").v;
    FlowExport { collector, interval, domain: domain as u32, enterprise: enterprise as u32 }
}

/// What only the whole shows: management sends what is exported.
pub(super) fn check(ctx: &mut Ctx<'_>, export: Option<Span>, mgmt: &MgmtConfig) {
    let off = mgmt.listen.is_none() && mgmt.socket == MgmtSocket::Off;
    if let Some(at) = export.filter(|_| off) {
        let message = "flows are exported by management, which is off altogether";
        ctx.error(at, "flows.export", message, "leave out `[mgmt] socket = \"off\"`, or `export`");
    }
}

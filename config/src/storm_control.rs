//! `storm_control = { ... }` of a port: limits on what is flooded.

use super::diag::Span;
use super::read::{Ctx, Section};
use super::schema;
use super::units::{FLOOD_LIMIT, TIME, show_flood_limit, show_time};
use weir_dataplane::storm_control::{FloodKind, StormControl};

/// Time a limit saves up, ns: a few requests of each of many stations pass at once.
pub(super) const BURST: u64 = 10_000_000;
/// Longest there is.
const LONGEST: u64 = 10_000_000_000;

/// The limits of a port, and where they stand. Each key may also come from `[port_defaults]`.
pub(super) fn read(ctx: &mut Ctx<'_>, port: &Section<'_>) -> (Option<StormControl>, Span) {
    let s = port.table(ctx, "storm_control", &schema::PORT_STORM_CONTROL);
    if s.is_empty() {
        return (None, s.span(ctx));
    }
    let limits = FloodKind::ALL.map(|kind| s.get(ctx, kind.word(), &FLOOD_LIMIT).and_then(|limit| limit.v));
    let burst = s.or(ctx, "burst", &TIME, BURST, "a few requests of each of many stations at once");
    let span = burst.span;
    let burst = s.within(ctx, "burst", burst, &(0..=LONGEST), |n| show_time(*n)).map_or(BURST, |v| v.v);
    for (kind, limit) in FloodKind::ALL.iter().zip(&limits) {
        let Some(limit) = limit.filter(|limit| limit.longest_burst() < burst) else { continue };
        let longest = show_time(limit.longest_burst() / 1_000 * 1_000);
        let message = format!(
            "{} = {} saves up more in {} than can be counted",
            s.key(kind.word()),
            show_flood_limit(&limit),
            show_time(burst)
        );
        ctx.error(span, "port.storm_control", message, format!("set burst to at most \"{longest}\""));
    }
    let limited = limits.iter().any(Option::is_some);
    (limited.then_some(StormControl { limits, burst }), s.span(ctx))
}

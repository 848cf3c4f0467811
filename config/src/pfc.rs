//! `[pfc]` and `[watchdog]`: timers, checked against each other.

use super::diag::Span;
use super::read::{Ctx, Section};
use super::schema;
use super::types::{PfcConfig, PfcRx, PortConfig, Reoccurrence, WatchdogAction, WatchdogConfig};
use super::units::{BOOL, SHARE, TIME, show_time};
use weir_dataplane::pfc::frame::{MAX_QUANTA, quanta_to_ns};
use weir_dataplane::pfc::generate::REFRESH;
use weir_dataplane::pfc::watchdog::MAX_RECURRENCE;

const MS: u64 = 1_000_000;
/// Longest `poll_gap`, ns.
pub const LONGEST_POLL_GAP: u64 = MS;
/// Detection time unless a pause may last longer.
const DETECTION: u64 = 200 * MS;
/// Longest detection time there is, SONiC's.
const LONGEST_DETECTION: u64 = 5_000 * MS;
/// Shortest watchdog time with `allow_short`.
const SHORT: u64 = 10_000;

/// The table, and where the pause time stands.
pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>) -> (PfcConfig, Span) {
    let s = root.table(ctx, "pfc", &schema::PFC);
    let quanta =
        s.int_or(ctx, "pause_quanta", 1..=65_535, 65_535, "longest pause: fewest frames to keep it up");
    let refresh = s.or(ctx, "refresh", &SHARE, REFRESH, "one lost refresh does not resume the peer");
    let refresh = s.within(ctx, "refresh", refresh, &(10_000..=900_000), SHARE.show).map_or(REFRESH, |v| v.v);
    let why = "a polling loop that is not pre-empted; measure yours";
    let gap = s.or(ctx, "poll_gap", &TIME, 10_000, why);
    let poll_gap =
        s.within(ctx, "poll_gap", gap, &(0..=LONGEST_POLL_GAP), |n| show_time(*n)).map_or(10_000, |v| v.v);
    (PfcConfig { quanta: quanta.v as u16, poll_gap, refresh }, quanta.span)
}

/// Longest time one frame may pause any of the ports, ns: 65535 quanta at the slowest rate.
fn longest_pause(ports: &[PortConfig]) -> u64 {
    let obeys = |p: &&PortConfig| p.pfc.in_use() && p.pfc.rx != PfcRx::None;
    let rates = ports.iter().filter(obeys).filter_map(|p| p.rate.bps());
    rates.map(|rate| quanta_to_ns(MAX_QUANTA, rate)).max().unwrap_or(0)
}

pub(super) fn read_watchdog(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    ports: &[PortConfig],
) -> Option<WatchdogConfig> {
    let s = root.table(ctx, "watchdog", &schema::WATCHDOG);
    if s.is_empty() {
        return None;
    }
    let enable = s.get(ctx, "enable", &BOOL).is_none_or(|v| v.v);
    let short = s.get(ctx, "allow_short", &BOOL).is_some_and(|v| v.v);
    let action =
        s.or(ctx, "action", &WatchdogAction::KIND, WatchdogAction::Drop, "a storm must not spread upstream");
    let mut time = |key: &str, low: u64, high: u64, default: u64, why: &str| {
        let val = s.or(ctx, key, &TIME, default, why);
        let low = if short { SHORT } else { low };
        let fits = val.origin == super::Origin::Default || (low..=high).contains(&val.v);
        if !fits {
            let message = format!(
                "{} = {} is outside {} to {}",
                s.key(key),
                show_time(val.v),
                show_time(low),
                show_time(high)
            );
            let lab = if short || val.v > high {
                ""
            } else {
                "; allow_short = true permits times from 10us in a lab"
            };
            let remedy = format!("use {} to {}{lab}", show_time(low), show_time(high));
            ctx.error(val.span, "watchdog.range", message, remedy);
        }
        (val, fits)
    };
    let pause = longest_pause(ports);
    let least = (pause.div_ceil(MS) * MS).min(LONGEST_DETECTION);
    let shown = show_time(pause / (MS / 10) * (MS / 10));
    let (default, why) = if pause > LONGEST_DETECTION {
        (
            least,
            format!(
                "the longest there is: one pause of {MAX_QUANTA} quanta lasts {shown}, and passes for a storm"
            ),
        )
    } else if least > DETECTION {
        (least, format!("one pause of {MAX_QUANTA} quanta lasts {shown} and is no storm"))
    } else {
        (DETECTION, "SONiC's default".into())
    };
    let (detection, detection_fits) = time("detection_time", 100 * MS, LONGEST_DETECTION, default, &why);
    let (restoration, restoration_fits) =
        time("restoration_time", 100 * MS, 60_000 * MS, 200 * MS, "SONiC's default");
    let (poll, poll_fits) =
        time("poll_interval", 100 * MS, 1_000 * MS, 100 * MS, "at least two looks per detection time");
    if detection_fits && !short && detection.v < least.min(pause) {
        let message = format!(
            "detection_time = {} is shorter than one pause may be: {MAX_QUANTA} quanta last {shown} on the slowest port",
            show_time(detection.v)
        );
        let remedy = format!("leave it out, or set it to {} or more", show_time(least));
        ctx.error(detection.span, "watchdog.pause", message, remedy);
    }
    let both = [
        ("detection_time", &detection, detection_fits),
        ("restoration_time", &restoration, restoration_fits),
    ];
    for (key, val, fits) in both {
        if fits && poll_fits && val.v < poll.v {
            let message = format!(
                "{key} = {} is shorter than poll_interval = {}: it could never be measured",
                show_time(val.v),
                show_time(poll.v)
            );
            let at = if val.origin == super::Origin::Default { poll.span } else { val.span };
            let remedy = format!("raise {key} to at least {}, or lower poll_interval", show_time(poll.v));
            ctx.error(at, "watchdog.order", message, remedy);
        }
    }
    let again = s.table(ctx, "reoccurrence", &schema::REOCCURRENCE);
    let mut reoccurrence = None;
    if !again.is_empty() {
        let count = again.need(ctx, "count", &super::units::COUNT);
        let count =
            count.and_then(|v| again.within(ctx, "count", v, &(1..=MAX_RECURRENCE as u64), u64::to_string));
        let window = again.need(ctx, "window", &TIME);
        if let (Some(count), Some(window)) = (count, window) {
            // Each storm takes a detection and a restoration before the next can begin.
            let one = detection.v.saturating_add(restoration.v);
            let least = one.saturating_mul(count.v);
            if window.v < least {
                let message = format!(
                    "{} storms of {} each take {}, the window is {}: the limit is never reached",
                    count.v,
                    show_time(one),
                    show_time(least),
                    show_time(window.v)
                );
                let remedy = format!("raise window to at least {}", show_time(least));
                ctx.error(window.span, "watchdog.window", message, remedy);
            }
            reoccurrence = Some(Reoccurrence { count: count.v as u32, window: window.v });
        }
    }
    let big_red_switch = s.get(ctx, "big_red_switch", &BOOL).is_some_and(|v| v.v);
    let watchdog = WatchdogConfig {
        action: action.v,
        detection: detection.v,
        restoration: restoration.v,
        poll: poll.v,
        big_red_switch,
        reoccurrence,
        allow_short: short,
    };
    enable.then_some(watchdog)
}

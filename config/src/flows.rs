//! `[flows]`: which flows are behind marks, losses, pauses and depth.

use super::read::{Ctx, Section};
use super::schema;
use super::types::FlowsConfig;
use super::units::BOOL;
use weir_dataplane::turn::Platform;

/// One in so many is looked at where there are many.
const SAMPLE: u64 = 256;

pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>, platform: Platform) -> FlowsConfig {
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
    FlowsConfig { enable, sample: sample as u32 }
}

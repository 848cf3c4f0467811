//! `[lldp]`, and `lldp` of a port.

use super::host::IP;
use super::read::{Ctx, Origin, Section};
use super::schema;
use super::types::{LldpConfig, LldpMode};
use super::units::{BOOL, TEXT, TIME, show_time};

const SECOND: u64 = 1_000_000_000;
/// Unless somebody says otherwise (802.1AB): a frame every 30 s, of which three may be lost.
const INTERVAL: u64 = 30 * SECOND;
const HOLD: u64 = 4;

/// The switch of this name.
pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>, name: &str) -> LldpConfig {
    let s = root.table(ctx, "lldp", &schema::LLDP);
    let enable = s.or(ctx, "enable", &BOOL, false, "a switch that is measured sends what it was sent").v;
    let interval = s.or(ctx, "interval", &TIME, INTERVAL, "as 802.1AB recommends");
    let range = SECOND..=3600 * SECOND;
    let interval =
        s.within(ctx, "interval", interval, &range, |n| show_time(*n)).map_or(INTERVAL, |val| val.v);
    let hold = s.int_or(ctx, "hold", 1..=100, HOLD, "three frames in a row may be lost").v;
    let system_name = s.or(ctx, "system_name", &TEXT, name.to_owned(), "that of the switch");
    let fits = |text: &str| (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
    // What is wrong with the name of the switch is told as that.
    if system_name.v != name && !fits(&system_name.v) {
        let message = format!("{} is empty, too long or not printable", s.key("system_name"));
        ctx.error(system_name.span, "lldp.system_name", message, "use a text of 1 to 255 bytes");
    }
    let management_address = s.get(ctx, "management_address", &IP).map(|address| address.v);
    LldpConfig { enable, interval, hold: hold as u8, management_address, system_name: system_name.v }
}

/// Of a port, which may be an engine.
pub(super) fn read_mode(ctx: &mut Ctx<'_>, port: &Section<'_>, engine: bool) -> LldpMode {
    const KEY: &str = "lldp";
    let (default, why) = match engine {
        true => (LldpMode::Off, "an engine has no link"),
        false => (LldpMode::Both, "with [lldp] enable"),
    };
    let mode = port.or(ctx, KEY, &LldpMode::KIND, default, why);
    if engine && mode.v != LldpMode::Off && mode.origin != Origin::Default {
        let message = format!("{}: an engine speaks no LLDP", port.key(KEY));
        ctx.error(mode.span, "port.lldp", message, "write lldp = \"off\" there");
    }
    mode.v
}

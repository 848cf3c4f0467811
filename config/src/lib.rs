//! TOML text in, a checked [`Config`] or every error out. Pure: no file, no clock, no device.
//!
//! [`load`] reads the text once, collects everything that is wrong with it ([`Diagnostic`]: file, line, caret,
//! rule, remedy), and only then decides. Values are resolved per port and in base units, so that runtime tables
//! are copies. What was defaulted, taken from a preset or computed is kept with its reason
//! ([`Config::explain`]). Keys and defaults: `schema`, printed in `docs/config.md`.

mod buffer;
mod checks;
mod classes;
mod device;
mod diag;
mod diff;
mod fdb;
mod flows;
mod format;
mod found;
mod headroom;
pub mod host;
mod inc;
mod json_schema;
mod lab;
mod lag;
mod lcores;
mod link_local;
mod lldp;
mod marking;
mod mcast_snooping;
mod mgmt;
mod mirror;
mod pfc;
mod port;
mod preset;
mod qos;
mod read;
pub mod runtime;
mod sched;
pub mod schema;
pub mod sonic;
mod storm_control;
mod tables;
mod types;
pub mod units;
mod vlan;
mod words;

use toml::Spanned;
use toml::de::DeTable;

/// What this program calls itself: the version, and the commit where the build was told (`WEIR_BUILD`, as `make build` does).
pub const VERSION: &str = match option_env!("WEIR_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

pub use buffer::LEAST_CHARGE;
pub use device::{MEMIF_SOCKET, device_argument, device_of};
pub use diag::{Diagnostic, Severity, Span};
pub use diff::{Difference, Fixed, differences, fixed};
pub use format::{Field, FormatConfig};
pub use headroom::{headroom_input, pause_response, xon_offset};
pub use json_schema::json_schema;
pub use lcores::{Cpus, Lcores, lcores};
pub use pfc::LONGEST_POLL_GAP;
pub use port::{LEAST_RATE, MAX_LCORES, MTU};
pub use read::{Explained, Origin};
pub use tables::Tables;
pub use types::*;
pub use units::{show_flood_limit, show_rate, show_size, show_time};
pub use vlan::show as show_vids;

use read::{Ctx, Layer, Section};
use units::{COUNT, TEXT};
use weir_dataplane::turn::Platform;

/// A configuration that may run, and what the operator should know about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings, in the order of the text.
    pub warnings: Vec<Diagnostic>,
}

/// Reads and checks the configuration `text` of a switch whose lcores poll, calling it `name` in messages.
///
/// # Errors
/// Every error found, and the warnings beside them, in the order of the text.
pub fn load(name: &str, text: &str) -> Result<Loaded, Vec<Diagnostic>> {
    load_for(Platform::Polled, name, text)
}

/// [`load`] for a switch whose frames are moved by `platform`.
///
/// # Errors
/// Those of [`load`].
pub fn load_for(platform: Platform, name: &str, text: &str) -> Result<Loaded, Vec<Diagnostic>> {
    load_with(platform, Memories::Shared, name, text)
}

/// [`load_for`] for a switch with these memories.
///
/// # Errors
/// Those of [`load`].
pub fn load_with(
    platform: Platform,
    memories: Memories,
    name: &str,
    text: &str,
) -> Result<Loaded, Vec<Diagnostic>> {
    let mut ctx = Ctx::new(name, text);
    let document = parse(&mut ctx);
    if !ctx.found.is_empty() {
        return Err(ctx.in_order());
    }
    let user = Layer { table: document.get_ref(), at: Span { start: 0, end: 0 }, preset: false };
    ctx.lags = lag::written(user.table);
    let preset_text = preset::choose(&mut ctx, user.table);
    let preset_document = preset_text.map(DeTable::parse_recoverable);
    let mut layers = vec![user];
    if let Some((document, errors)) = &preset_document {
        debug_assert!(errors.is_empty(), "{errors:?}");
        layers.push(Layer { table: document.get_ref(), at: Span::default(), preset: true });
    }
    let root = Section::new(&mut ctx, &schema::ROOT, String::new(), layers);
    let mut config = build(&mut ctx, &root, platform, memories);
    if ctx.found.has_errors() {
        return Err(ctx.in_order());
    }
    config.explained = std::mem::take(&mut ctx.explained);
    Ok(Loaded { config, warnings: ctx.in_order() })
}

/// The text as TOML; what is not is noted.
fn parse<'a>(ctx: &mut Ctx<'a>) -> Spanned<DeTable<'a>> {
    let text = ctx.text;
    let (document, errors) = DeTable::parse_recoverable(text);
    for e in errors {
        let at = e.span().unwrap_or(text.len()..text.len()).into();
        let message = e.message().trim().replace('\n', "; ");
        ctx.error(at, "syntax", message, "correct the TOML; see https://toml.io");
    }
    document
}

fn build(ctx: &mut Ctx<'_>, root: &Section<'_>, platform: Platform, memories: Memories) -> Config {
    let switch = root.table(ctx, "switch", &schema::SWITCH);
    let name = switch.or(ctx, "name", &TEXT, "weir".into(), "a switch needs a name in metrics");
    read::check_name(ctx, &name, "a switch");
    let name = name.v;
    let seed = switch.or(ctx, "seed", &COUNT, 1, "same seed and input, same output").v;
    let (eal_args, lcores) = port::read_eal(ctx, root);
    let formats = format::read(ctx, root);
    let (mut fdb, fdb_section) = fdb::read(ctx, root);
    let qos = qos::read(ctx, root);
    let around = port::Around { formats: &formats, maps: &qos.maps, trust: qos.trust, fdb: &fdb, lcores };
    let (mut ports, at): (Vec<_>, Vec<_>) = port::read(ctx, root, &around).into_iter().unzip();
    qos.maps.warn_unused(ctx, &ports);
    let spans: Vec<Span> = at.iter().map(|at: &port::PortAt| at.port).collect();
    inc::check(ctx, &ports, &spans);
    vlan::check(ctx, &ports, &at, &formats);
    fdb::read_entries(ctx, &fdb_section, &mut fdb, &ports, &spans, &formats);
    let (pfc, quanta) = pfc::read(ctx, root);
    let turns = types::turns(platform, &ports, pfc.poll_gap);
    let mirrors = mirror::read(ctx, root, &ports, platform);
    let mirrored = mirrors.iter().any(|(mirror, _)| mirror.port().is_some());
    let lags = lag::read(ctx, root, &ports, &mirrors, platform);
    let lacp = lag::read_system(ctx, root);
    let mcast = mcast_snooping::read(ctx, root, &ports, &fdb, platform);
    link_local::check(ctx, &fdb_section, fdb.link_local, &lags);
    let (buffer, profiles, buffer_at) =
        buffer::read(ctx, root, memories, (&mut ports, &at, &turns), mirrored);
    mirror::check_buffer(ctx, &mirrors, &ports, &buffer);
    let (schedulers, wreds, marks) = sched::read(ctx, root, &mut ports);
    marking::resolve(ctx, (platform, &turns), &buffer, &wreds, &marks, &mut ports, &at);
    let watchdog = pfc::read_watchdog(ctx, root, &ports);
    let lab = lab::read(ctx, root, &ports, &formats);
    let (flows, export) = flows::read(ctx, root, platform);
    let lldp = lldp::read(ctx, root, &name);
    let mgmt = mgmt::read(ctx, root);
    flows::check(ctx, export, &mgmt);
    let config = Config {
        platform,
        name,
        seed,
        eal_args,
        formats,
        ports,
        fdb,
        buffer,
        voq: qos.voq,
        control_tc: qos.control_tc,
        lags,
        schedulers,
        wreds: wreds.into_iter().map(|wred| wred.name).collect(),
        mirrors: mirrors.into_iter().map(|(mirror, _)| mirror).collect(),
        pfc,
        watchdog,
        lab,
        flows,
        lldp,
        lacp,
        mcast,
        mgmt,
        explained: vec![],
    };
    checks::whole(ctx, &config, &at, &profiles, &turns, &checks::Places { buffer: buffer_at, quanta });
    config
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod checks_tests;

#[cfg(test)]
mod headroom_tests;

#[cfg(test)]
mod classes_tests;

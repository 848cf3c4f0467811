//! Presets: one line, a consistent whole. Each is a configuration of its own, read below the user's.

use toml::de::{DeTable, DeValue};

use super::read::Ctx;
use super::schema;

pub(super) const PRESETS: &[(&str, &str)] = &[
    ("roce-lossless", include_str!("presets/roce-lossless.toml")),
    ("roce-semi-lossless", include_str!("presets/roce-semi-lossless.toml")),
    ("paxi-lite", include_str!("presets/paxi-lite.toml")),
    ("paxi-standard", include_str!("presets/paxi-standard.toml")),
];

/// The text of the preset `[qos] preset` names. An unknown one is reported, and the nearest is read in its place: what
/// else is wrong with the file shows in the same run.
pub(super) fn choose(ctx: &mut Ctx<'_>, root: &DeTable<'_>) -> Option<&'static str> {
    let DeValue::Table(qos) = root.get("qos")?.get_ref() else { return None };
    let value = qos.get("preset")?;
    let written = value.get_ref().as_str().unwrap_or_default();
    let found = PRESETS.iter().find(|p| p.0 == written);
    if found.is_none() {
        let names: Vec<_> = PRESETS.iter().map(|p| format!("\"{}\"", p.0)).collect();
        let remedy = format!("use one of {}", names.join(", "));
        ctx.error(value.span().into(), "qos.preset", "there is no such preset", remedy);
    }
    let (name, text) = found.or_else(|| PRESETS.iter().min_by_key(|p| schema::distance(p.0, written)))?;
    ctx.preset = Some((name, value.span().into()));
    Some(text)
}

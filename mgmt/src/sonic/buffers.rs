//! The buffer. weir's parts under the names SONiC has for its pools.

use super::{Answers, Grid, cell};
use serde_json::Value;

/// What SONiC calls the pool that lossless groups share, in which weir's `shared` and `headroom` are.
const INGRESS: &str = "ingress_lossless_pool";

fn part<'a>(a: &'a Answers, name: &str) -> &'a Value {
    a.rows("buffer").iter().find(|row| row["pool"] == name).unwrap_or(&Value::Null)
}

/// `show buffer pool`: every pool of the configuration, with use and peak where there is one number for it.
pub(super) fn pools(a: &Answers, _: bool) -> Vec<Grid> {
    let row = |(name, pool): (&str, &Value)| {
        let live = if name == INGRESS { part(a, "shared") } else { &Value::Null };
        let mut cells = vec![name.to_owned()];
        cells.extend(["type", "mode", "size", "xoff"].map(|field| cell(&pool[field])));
        cells.extend(["used_bytes", "peak_bytes"].map(|field| cell(&live[field])));
        cells
    };
    let heads = ["Pool", "Type", "Mode", "Size", "Xoff", "Used", "Watermark"];
    vec![Grid::new("", &heads, a.config("BUFFER_POOL").into_iter().map(row).collect())]
}

/// `show buffer configuration`: a list for each pool and each profile.
pub(super) fn configuration(a: &Answers, _: bool) -> Vec<Grid> {
    let list = |kind: &str, (name, fields): (&str, &Value)| {
        let fields = fields.as_object().into_iter().flatten();
        let rows = fields.map(|(field, value)| vec![field.clone(), cell(value)]).collect();
        Grid::new(&format!("{kind}: {name}"), &["Field", "Value"], rows)
    };
    let pools = a.config("BUFFER_POOL").into_iter().map(|row| list("Pool", row));
    let profiles = a.config("BUFFER_PROFILE").into_iter().map(|row| list("Profile", row));
    pools.chain(profiles).collect()
}

/// `show buffer_pool watermark`
pub(super) fn watermark(a: &Answers, _: bool) -> Vec<Grid> {
    let row = vec![INGRESS.to_owned(), cell(&part(a, "shared")["peak_bytes"])];
    vec![Grid::new("Shared pool maximum occupancy:", &["Pool", "Bytes"], vec![row])]
}

/// `show headroom-pool watermark`
pub(super) fn headroom(a: &Answers, _: bool) -> Vec<Grid> {
    let row = vec![INGRESS.to_owned(), cell(&part(a, "headroom")["peak_bytes"])];
    vec![Grid::new("Headroom pool maximum occupancy:", &["Pool", "Bytes"], vec![row])]
}

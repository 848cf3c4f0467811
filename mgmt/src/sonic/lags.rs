//! Link aggregation groups.

use super::{Answers, Grid, cell};
use serde_json::Value;

/// What letters mean, as SONiC's `teamshow` says it. Here nothing is ever out of step: a member is what the data path does with it.
const FLAGS: &str = "Flags: A - active, I - inactive, Up - up, Dw - Down, N/A - not available,\n       \
                     S - selected, D - deselected";

/// The number at the end of a name.
fn number(name: &str) -> String {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 { "N/A".to_owned() } else { name[name.len() - digits..].to_owned() }
}

/// `show interfaces portchannel`: a member is selected that takes frames, and a LAG is up of which one sends. A static one speaks no
/// protocol.
pub(super) fn port_channels(a: &Answers, _: bool) -> Vec<Grid> {
    let heads = ["No.", "Team Dev", "Protocol", "Ports"];
    let carries = |row: &Value, mux: &[&str]| match row["lacp"] == "off" {
        true => row["link"] == "up" && row["admin"] == "up",
        false => mux.iter().any(|word| row["mux"] == *word),
    };
    let row = |members: &[Value]| {
        let lag = &members[0];
        let up = members.iter().any(|row| carries(row, &["distributing"]));
        let protocol = match (lag["lacp"].as_str(), if up { "Up" } else { "Dw" }) {
            (Some("active"), state) => format!("LACP(A)({state})"),
            (Some("passive"), state) => format!("LACP(I)({state})"),
            (_, state) => format!("N/A({state})"),
        };
        let port = |row: &Value| {
            let selected = carries(row, &["collecting", "distributing"]);
            format!("{}({})", cell(&row["port"]), if selected { "S" } else { "D" })
        };
        let ports: Vec<String> = members.iter().map(port).collect();
        vec![number(&cell(&lag["name"])), cell(&lag["name"]), protocol, ports.join(" ")]
    };
    let lags = a.rows("lag").chunk_by(|one, next| one["name"] == next["name"]);
    vec![Grid::texts(FLAGS, &heads, lags.map(row).collect())]
}

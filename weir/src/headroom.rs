//! `weir headroom`: the bytes a priority group needs after Xoff, term by term, as this switch, hardware and SONiC count.

use crate::Outcome;
use crate::output::say;
use crate::quantity::{cable, frame, gap, port_rate};
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;
use weir_config::{DeviceKind, headroom_input, xon_offset};
use weir_dataplane::mmu::headroom::{
    Headroom, HeadroomError, HeadroomInput, Model, OwnTerms, headroom as compute,
};
use weir_dataplane::turn::{FRAME_NS, Platform, Turns};
use weir_layout::Grid;

/// What is at the other end of a port.
#[derive(Clone, Copy, Debug, Args)]
pub struct LinkArgs {
    /// Rate of the port, e.g. 100G.
    #[arg(long, value_parser = port_rate)]
    pub rate: u64,
    /// Length of the cable, e.g. 40m; started metres count as whole ones.
    #[arg(long, value_parser = cable)]
    pub cable: u64,
    /// Longest frame, bytes without FCS.
    #[arg(long, value_parser = frame, default_value = "9216")]
    pub mtu: u32,
}

/// `weir headroom`
#[derive(Debug, Args)]
pub struct HeadroomArgs {
    /// Rate, cable and longest frame.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Longest frame of a lossless priority, bytes without FCS; the mtu unless given.
    #[arg(long, value_parser = frame)]
    pub lossless_mtu: Option<u32>,
    /// One column only: `software` is what is in flight to and from this switch, its polling loop counted, and what
    /// `xoff = "auto"` sets for a NIC where bytes are counted, not cells, and nothing else of a file says more;
    /// `hardware` is the same without a loop; `sonic` is the vendor formula with Spectrum-4 constants.
    #[arg(long, value_parser = ["software", "hardware", "sonic"])]
    pub model: Option<String>,
    /// Longest gap between two polls of the port, e.g. 10us.
    #[arg(long, default_value = "10us", value_parser = gap)]
    pub poll_gap: Duration,
    /// Ports polled by the same lcore; the gap is longer where they do not fit into it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub ports: u16,
    /// Share of small packets in the lossless traffic, percent (`sonic`).
    #[arg(long, default_value_t = 100)]
    pub small_packets: u32,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// One way to count.
pub struct Column {
    /// What it is called.
    pub name: &'static str,
    what: &'static str,
    /// The sum.
    pub result: Headroom,
    /// What the group resumes at: as a fill, and as a distance below its limit.
    pub xon: u64,
    xon_offset: Option<u64>,
}

/// The ways that were asked for, all three unless one is named; of this switch for a port of this kind.
///
/// # Errors
/// A number makes the question meaningless.
pub fn columns(args: &HeadroomArgs, kind: DeviceKind) -> Result<Vec<Column>, HeadroomError> {
    let lossless_mtu = args.lossless_mtu.unwrap_or(args.link.mtu);
    let input = |kind: DeviceKind, turns: Turns| {
        let LinkArgs { rate, cable, mtu, .. } = args.link;
        let input = headroom_input(kind, rate, cable, (mtu, mtu), turns);
        let own = OwnTerms { crossing_frame: lossless_mtu, ..input.own };
        HeadroomInput { lossless_mtu, small_packet_percentage: args.small_packets, own, ..input }
    };
    let polled = Platform::Polled.turns(args.ports.into(), args.poll_gap.as_nanos() as u64);
    let unpolled = Platform::Simulated.turns(1, 0);
    let ways = [
        (
            "software",
            "this switch, with its polling loop: what xoff = \"auto\" sets where bytes are counted, not cells",
            Model::Weir,
            input(kind, polled),
        ),
        ("hardware", "the same without a polling loop", Model::Weir, input(DeviceKind::Pci, unpolled)),
        ("sonic", "SONiC's formula for Spectrum-4", Model::Sonic, input(DeviceKind::Pci, unpolled)),
    ];
    let asked =
        ways.into_iter().filter(|(name, ..)| args.model.as_deref().is_none_or(|model| model == *name));
    let column = |(name, what, model, input)| {
        let result = compute(model, &input)?;
        let (xon, xon_offset) = match model {
            Model::Weir => (0, Some(xon_offset(args.link.mtu))),
            Model::Sonic => (result.xon, None),
        };
        Ok(Column { name, what, result, xon, xon_offset })
    };
    asked.map(column).collect()
}

pub fn headroom(args: &HeadroomArgs) -> Result<Outcome> {
    let columns = columns(args, DeviceKind::Pci)?;
    if args.json {
        let models: Vec<_> = columns.iter().map(as_json).collect();
        let LinkArgs { rate, cable, mtu } = args.link;
        let metres = if cable.is_multiple_of(1000) { json!(cable / 1000) } else { json!(cable as f64 / 1e3) };
        say!("{}", json!({ "rate": rate, "cable_m": metres, "mtu": mtu, "models": models }));
    } else {
        table(&columns).iter().for_each(|line| say!("{line}"));
        if columns.iter().any(|column| column.name == "software")
            && let Some(why) = longer_gap(args)
        {
            say!("\n{why}");
        }
    }
    Ok(Outcome::Good)
}

/// Why times in the sum are longer than the gap that was asked for.
fn longer_gap(args: &HeadroomArgs) -> Option<String> {
    let (ports, asked) = (usize::from(args.ports), args.poll_gap.as_nanos() as u64);
    let Turns { gap, .. } = Platform::Polled.turns(ports, asked);
    let of = if ports == 1 { "1 port".to_owned() } else { format!("{ports} ports") };
    (gap > asked).then(|| {
        format!(
            "The gap is {gap} ns rather than {asked}: going round {of} on one lcore takes {} frames, at {FRAME_NS} ns each.",
            gap / FRAME_NS
        )
    })
}

fn as_json(column: &Column) -> Value {
    let Column { name, what, result, xon, xon_offset } = column;
    let terms: Vec<_> = result
        .terms
        .iter()
        .map(|t| json!({ "name": t.name, "bytes": t.bytes, "formula": t.formula }))
        .collect();
    json!({ "name": name, "what": what, "terms": terms, "xoff": result.xoff, "xon": xon, "xon_offset": xon_offset })
}

/// A row for each term any column has, with the formula of the first that has it.
pub fn table(columns: &[Column]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for term in columns.iter().flat_map(|c| &c.result.terms) {
        if !names.contains(&term.name) {
            names.push(term.name);
        }
    }
    let heads = columns.iter().map(|c| (c.name.to_owned(), false));
    let mut grid =
        Grid::of(std::iter::once(("term".to_owned(), true)).chain(heads).chain([("bytes".to_owned(), true)]));
    let mut row = |name: &str, cells: &dyn Fn(&Column) -> Option<u64>, why: &str| {
        let cells = columns.iter().map(|c| cells(c).map_or("-".into(), |bytes| bytes.to_string()));
        grid.push(std::iter::once(name.to_owned()).chain(cells).chain([why.to_owned()]));
    };
    for name in names {
        let term = |c: &Column| c.result.terms.iter().find(|t| t.name == name).cloned();
        let formula = columns.iter().find_map(term).map_or(String::new(), |t| t.formula);
        row(name, &|c| term(c).map(|t| t.bytes), &formula);
    }
    row("xoff", &|c| Some(c.result.xoff), "headroom after Xoff: the sum");
    row("xon", &|c| Some(c.xon), "resume at or below this fill");
    row("xon_offset", &|c| c.xon_offset, "or this far below the moving limit");
    let mut ways = Grid::new(&["<way", "<what"]);
    columns.iter().for_each(|c| ways.push([c.name.to_owned(), c.what.to_owned()]));
    ways.body().lines().chain([""]).chain(grid.text().lines()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn args(text: &str) -> HeadroomArgs {
        match Cli::parse_from(text.split_whitespace()).command {
            Command::Headroom(args) => args,
            _ => panic!("{text}"),
        }
    }

    #[test]
    fn a_gap_that_is_too_short_for_a_turn_is_explained() {
        let said = |more: &str| longer_gap(&args(&format!("weir headroom --rate 100G --cable 40m {more}")));
        assert_eq!(said(""), None);
        let one = said("--poll-gap 0us").unwrap();
        assert!(
            one.starts_with("The gap is 3280 ns rather than 0: ") && one.contains("80 frames, at 41 ns"),
            "{one}"
        );
        assert!(said("--ports 7").unwrap().contains("going round 7 ports on one lcore takes 280 frames"));
    }

    #[test]
    fn the_software_column_is_what_a_configuration_uses() {
        let shown =
            columns(&args("weir headroom --rate 100G --cable 100m --mtu 9216"), DeviceKind::Pci).unwrap();
        let text = "[qos]\npreset = \"roce-lossless\"\n[[port]]\nname = \"a\"\ndevice = \"0000:3b:00.0\"\n\
                    rate = \"100G\"\ncable = \"100m\"\nmtu = 9216\n";
        let config = weir_config::load("t", text).unwrap().config;
        let pg = &config.ports[0].pgs[3];
        let software = &shown[0];
        assert_eq!(
            (software.result.xoff, software.xon, software.xon_offset),
            (pg.xoff, pg.xon, Some(pg.xon_offset))
        );
        assert!(shown[1].result.xoff < software.result.xoff, "no polling loop");
        let names: Vec<_> = shown.iter().map(|c| c.name).collect();
        assert_eq!(names, ["software", "hardware", "sonic"]);
    }

    #[test]
    fn columns_stand_side_by_side_and_add_up() {
        let shown = columns(&args("weir headroom --rate 100G --cable 100m"), DeviceKind::Pci).unwrap();
        for column in &shown {
            let terms: u64 = column.result.terms.iter().map(|t| t.bytes).sum();
            assert_eq!(terms, column.result.xoff, "{}", column.name);
            assert_eq!(as_json(column)["xoff"], column.result.xoff);
        }
        let lines = table(&shown);
        let xoff: Vec<_> = lines.iter().find(|l| l.starts_with("xoff")).unwrap().split_whitespace().collect();
        let want: Vec<_> = shown.iter().map(|c| c.result.xoff.to_string()).collect();
        assert_eq!(xoff[1..4], want);
        assert_eq!(
            columns(&args("weir headroom --rate 100G --cable 100m --model sonic"), DeviceKind::Pci)
                .unwrap()
                .len(),
            1
        );
    }
}

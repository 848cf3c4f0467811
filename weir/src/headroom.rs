//! `weir headroom`: the bytes a priority group needs after Xoff, term by term.

use crate::Outcome;
use crate::cli::HeadroomArgs;
use crate::output::say;
use anyhow::Result;
use weir_dataplane::mmu::headroom::{HeadroomInput, Model, OwnTerms, RxRing, headroom as compute};

pub fn headroom(args: &HeadroomArgs) -> Result<Outcome> {
    let lossless_mtu = args.lossless_mtu.unwrap_or(args.mtu);
    let mut input = HeadroomInput::new(args.rate, args.cable, args.mtu, lossless_mtu);
    let gap = args.poll_gap.as_nanos() as u64;
    let model = if args.model == "sonic" { Model::Sonic } else { Model::Weir };
    input.small_packet_percentage = args.small_packets;
    input.own = OwnTerms {
        rx_ring: RxRing::Time(gap),
        loop_turn: gap,
        crossing_frame: lossless_mtu,
        ..OwnTerms::WIRE_ONLY
    };
    let result = compute(model, &input)?;
    let width = result.terms.iter().map(|term| term.name.len()).max().unwrap_or(0);
    for term in &result.terms {
        say!("{:width$}  {:>9} B  {}", term.name, term.bytes, term.formula);
    }
    say!("{:width$}  {:>9} B  headroom after Xoff", "xoff", result.xoff);
    say!("{:width$}  {:>9} B  resume at or below", "xon", result.xon);
    say!("{:width$}  {:>9} B  private buffer of the group", "size", result.size);
    Ok(Outcome::Good)
}

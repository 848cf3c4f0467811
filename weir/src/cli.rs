//! The command line: `weir [EAL options] -- COMMAND ...`, or without EAL options `weir COMMAND ...`.

use crate::{
    Outcome, advise, apply, bench, check, config, doctor, explain, golden, headroom, host, inc, lab, papers,
    prepare, qp, report, run, show, sim, top, trace,
};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// A lossless Ethernet switch in software.
///
/// EAL options of DPDK may stand before a `--`: `weir -l 1-2 --vdev net_null0 -- run CONFIG`. They
/// come after those of the configuration's `[eal] args`.
#[derive(Debug, Parser)]
#[command(name = "weir", version = weir_mgmt::snapshot::VERSION)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Forward frames until SIGINT or SIGTERM: drain, print totals, check conservation.
    Run(run::RunArgs),
    /// See it work: hosts on in-process rings, a live table, a verdict. No root, no NIC, no hugepages.
    Lab(lab::LabArgs),
    /// Be a traffic host: RoCEv2 connections over DPDK ports, checked at the receiver.
    Host(host::HostArgs),
    /// Look at queue pairs of a running host, and change how they react to congestion.
    #[command(subcommand)]
    Qp(qp::QpCommand),
    /// Look at a running switch.
    Show(show::ShowArgs),
    /// Save the page of a running switch, with its last minute, as one file that opens anywhere.
    Report(report::ReportArgs),
    /// Watch a running switch in the terminal.
    Top(top::TopArgs),
    /// Change the configuration of a running switch, all of it or nothing, without losing a lossless frame.
    Apply(apply::ApplyArgs),
    /// Look at a configuration: every effective value, and where it comes from.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// In-network aggregation: post, end and list jobs of a running switch.
    #[command(subcommand)]
    Inc(inc::IncCommand),
    /// Say what would happen to a frame now: class, limits, verdict, pause, mark.
    Explain(explain::ExplainArgs),
    /// Follow frames through a running switch, stage by stage.
    Trace(trace::TraceArgs),
    /// Write frames of a running switch, and what happened to each, to a pcapng file.
    Capture(trace::CaptureArgs),
    /// Say what on this machine stands in the way of a switch, and what to do about it.
    Doctor(doctor::DoctorArgs),
    /// Give this machine what a configuration takes: hugepages, and drivers that hand its NICs to DPDK. Root only.
    Prepare(prepare::PrepareArgs),
    /// Print a completion script for a shell.
    Completions(papers::CompletionsArgs),
    /// Write manual pages, one per command, into a folder.
    Man(papers::ManArgs),
    /// Show every error of a configuration, with line, caret, rule and remedy.
    Check(check::CheckArgs),
    /// Play a fabric of switches, hosts and links in virtual time.
    Sim(sim::SimArgs),
    /// Replay every published data set under a folder, row by row.
    Golden(golden::GoldenArgs),
    /// Measure what parts of weir cost by themselves.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Compute the headroom a lossless priority group needs, term by term.
    Headroom(headroom::HeadroomArgs),
    /// Advise a configuration for ports, cables and a buffer, each number with its reason.
    Advise(advise::AdviseArgs),
}

impl Command {
    /// Does it; `eal`: EAL options of the command line.
    ///
    /// # Errors
    /// It could not start: what to change.
    pub fn carry_out(self, eal: &[String]) -> Result<Outcome> {
        match self {
            Self::Run(args) => run::run(&args, eal),
            Self::Lab(args) => lab::lab(&args, eal),
            Self::Host(args) => host::host(&args, eal),
            Self::Qp(command) => qp::qp(&command),
            Self::Show(args) => show::show(&args),
            Self::Report(args) => report::report(&args),
            Self::Top(args) => top::top(&args),
            Self::Apply(args) => apply::apply(&args),
            Self::Config(command) => config::config(&command),
            Self::Inc(command) => inc::inc(&command),
            Self::Explain(args) => explain::explain(&args),
            Self::Trace(args) => trace::trace(&args),
            Self::Capture(args) => trace::capture(&args),
            Self::Doctor(args) => doctor::doctor(&args),
            Self::Prepare(args) => prepare::prepare(&args),
            Self::Completions(args) => papers::completions(&args),
            Self::Man(args) => papers::man(&args),
            Self::Check(args) => check::check(&args),
            Self::Sim(args) => sim::sim(&args),
            Self::Golden(args) => golden::golden(&args),
            Self::Bench(command) => bench::bench(&command),
            Self::Headroom(args) => headroom::headroom(&args),
            Self::Advise(args) => advise::advise(&args),
        }
    }
}

/// Splits the arguments at the first `--`: EAL options before it, ours (with the program name) behind. Paths among ours may
/// be any bytes.
///
/// # Errors
/// The EAL option that is no text.
pub fn split(mut args: Vec<OsString>) -> Result<(Vec<String>, Vec<OsString>), OsString> {
    let Some(at) = args.iter().position(|arg| arg == "--") else { return Ok((Vec::new(), args)) };
    let own = args.split_off(at + 1);
    args.pop();
    let program = if args.is_empty() { "weir".into() } else { args.remove(0) };
    let eal = args.into_iter().map(OsString::into_string).collect::<Result<_, _>>()?;
    Ok((eal, std::iter::once(program).chain(own).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn show_knows_every_table() {
        for table in weir_mgmt::table::ALL {
            assert!(Cli::try_parse_from(["weir", "show", table.name]).is_ok(), "{}", table.name);
        }
        for view in weir_mgmt::sonic::ALL {
            let line = format!("weir show {} --json", view.words);
            assert!(Cli::try_parse_from(words(&line)).is_ok(), "{line}");
        }
        assert!(Cli::try_parse_from(["weir", "show", "events", "--watch", "-j"]).is_ok());
        assert!(Cli::try_parse_from(["weir", "show", "colours"]).is_err());
    }

    #[test]
    fn eal_options_stand_before_two_dashes() {
        let split = |text: &str| {
            let args = words(text).into_iter().map(OsString::from).collect();
            let (eal, own) = super::split(args).unwrap();
            (eal, own.into_iter().map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(split("weir run x"), (vec![], words("weir run x")));
        assert_eq!(split("weir -l 1 -- run x"), (words("-l 1"), words("weir run x")));
        assert_eq!(split("weir -- run x -- y"), (vec![], words("weir run x -- y")));
        assert_eq!(split(""), (vec![], vec![]));
    }

    #[test]
    fn a_simulation_is_one_run_or_many() {
        let parse = |text: &str| Cli::try_parse_from(words(text));
        for good in [
            "weir sim a.toml",
            "weir sim a.toml --out x --json",
            "weir sim sweep --plan p --out d",
            "weir sim sweep --plan p --shard 2/3 --out d",
            "weir sim merge a b --csv c",
            "weir sim compare a b --out c.html",
            "weir sim replay a.pcapng --config c -w b.pcapng",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "weir sim",
            "weir sim sweep",
            "weir sim sweep --plan p",
            "weir sim merge",
            "weir sim compare",
            "weir sim replay a",
            "weir sim --out x",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn units_are_read_by_every_command_in_the_same_way() {
        let parse = |text: &str| Cli::try_parse_from(words(text)).map_err(|e| e.to_string());
        for good in [
            "weir run x --for 10",
            "weir lab --for 1.5s",
            "weir headroom --rate 100g --cable 40 --mtu 9K",
            "weir headroom --rate 100Gbps --cable 40m --mtu 9KiB --poll-gap 1us",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good).err());
        }
        let wrong = parse("weir headroom --rate 100G --cable 40m --mtu nine").unwrap_err();
        assert!(wrong.contains("write a size as"), "{wrong}");
    }
}

//! The command line: `weir [EAL options] -- COMMAND ...`, or without EAL options `weir COMMAND ...`.

use crate::{
    Outcome, advise, apply, bench, check, config, doctor, explain, golden, headroom, host, inc, lab, papers,
    prepare, qp, report, run, show, sim, top, trace,
};
use anyhow::Result;
use clap::{ArgMatches, CommandFactory, Parser, Subcommand};
use std::ffi::OsString;

/// A lossless Ethernet switch in software.
///
/// EAL options of DPDK may stand before a `--`: `weir -l 1-2 --vdev net_null0 -- run CONFIG`. They
/// come after those of the configuration's `[eal] args`.
#[derive(Debug, Parser)]
#[command(name = "weir", version = weir_config::VERSION)]
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
    /// Run a demonstration: hosts on in-process rings, a live table and a verdict. Needs no root, NIC or hugepages.
    Lab(lab::LabArgs),
    /// Run traffic hosts: RoCEv2 connections over DPDK ports, checked at the receiver.
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
    /// Check this machine for what keeps a switch from running well, and say what to do about it.
    Doctor(doctor::DoctorArgs),
    /// Set this machine up for a configuration: hugepages, and drivers that hand its NICs to DPDK. Root only.
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

/// The command that was given is to say a document on standard output.
pub fn is_json(mut matches: &ArgMatches) -> bool {
    while let Some((_, of_command)) = matches.subcommand() {
        matches = of_command;
    }
    matches!(matches.try_get_one("json"), Ok(Some(true)))
}

/// The same of a command line that may not be one.
pub fn asks_json(own: &[OsString]) -> bool {
    own.iter().any(|arg| arg == "--json" || arg == "-j")
}

/// The command that was typed, as far as it is one: `weir sim sweep`.
pub fn command_words(own: &[OsString]) -> String {
    let (mut command, mut words) = (Cli::command(), "weir".to_owned());
    for word in own.iter().skip(1) {
        let Some(next) = command.find_subcommand(word) else { break };
        words = format!("{words} {}", next.get_name());
        command = next.clone();
    }
    words
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

    /// Commands without `--json`, with the reason; docs/commands.md names them, too.
    const NO_JSON: &[(&str, &str)] = &[
        ("run", "--summary FILE writes the document"),
        ("lab", "--summary FILE writes the document"),
        ("host", "--summary FILE writes the document"),
        ("top", "a screen for people; show ... --json has its tables"),
        ("config schema", "JSON in any case"),
        ("sim schema", "JSON in any case"),
        ("bench pipeline", "JSON in any case"),
        ("bench residence", "JSON in any case"),
        ("inc controller", "runs until it is stopped, and has no result"),
        ("completions", "a script for a shell"),
        ("man", "writes pages"),
    ];

    /// Commands without commands of their own that may be given, and those that take arguments all the same.
    fn leaves(command: &clap::Command, words: &str, found: &mut Vec<(String, bool)>) {
        let is_json = command.get_arguments().any(|arg| arg.get_id() == "json");
        if !command.is_subcommand_required_set() || !command.has_subcommands() {
            found.push((words.to_owned(), is_json));
        }
        for inner in command.get_subcommands() {
            leaves(inner, format!("{words} {}", inner.get_name()).trim(), found);
        }
    }

    #[test]
    fn every_command_has_json_or_a_reason() {
        let mut found = Vec::new();
        Cli::command().get_subcommands().for_each(|command| leaves(command, command.get_name(), &mut found));
        assert!(found.len() > 30, "{found:?}");
        let without: Vec<&str> =
            found.iter().filter(|(_, json)| !json).map(|(words, _)| words.as_str()).collect();
        let mut reasoned: Vec<&str> = NO_JSON.iter().map(|(words, _)| *words).collect();
        reasoned.sort_by_key(|words| found.iter().position(|(found, _)| found == words));
        assert_eq!(without, reasoned);
        let docs = include_str!("../../docs/commands.md");
        for (words, why) in NO_JSON {
            assert!(
                docs.contains(&format!("| `weir {words}` | {why} |")),
                "docs/commands.md: {words}: {why}"
            );
        }
    }

    #[test]
    fn a_document_is_asked_for_behind_any_command() {
        let parse = |text: &str| Cli::command().try_get_matches_from(words(text)).map(|m| is_json(&m));
        for (line, json) in [
            ("weir check a --json", true),
            ("weir sim replay a --config b -j", true),
            ("weir sim a -j", true),
            ("weir qp trace stop --socket s", false),
            ("weir run a", false),
        ] {
            assert_eq!(parse(line).unwrap(), json, "{line}");
        }
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

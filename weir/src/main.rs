//! The program: `weir run | lab | host | show | top | report | apply | config | explain | inc | trace | capture | doctor |
//! check | sim | golden | bench | headroom | advise | completions | man`.
//!
//! Exit codes: 0 all is well; 1 it ran, and something it checks did not hold (conservation, a golden
//! row, the verdict of a lab or host); 2 it could not start: bad input, bad configuration, no device.
#![forbid(unsafe_code)]
// These end the program where nobody reads what it says: `output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod advise;
mod apply;
mod bench;
mod check;
mod cli;
mod config;
mod controller;
mod doctor;
mod explain;
mod file;
mod golden;
mod headroom;
mod host;
mod inc;
mod kinds;
mod lab;
mod log;
mod machine;
mod output;
mod papers;
mod prepare;
mod qp;
mod quantity;
mod refusal;
mod report;
mod run;
mod show;
mod sim;
mod sonic;
mod top;
mod trace;
mod which;

use crate::output::{say, say_err};
use clap::error::ContextKind;
use clap::{CommandFactory, FromArgMatches};
use std::io::ErrorKind;
use std::process::ExitCode;

/// It ran, and what it checks did not hold.
const FAILED: u8 = 1;
/// It could not start.
const REFUSED: u8 = 2;
/// It ran, and could check nothing.
const UNDECIDED: u8 = 3;

/// What a command came to.
enum Outcome {
    /// All is well.
    Good,
    /// It ran, and what it checks did not hold.
    Bad,
    /// It ran, and nothing of what it checks could be judged.
    Undecided,
}

fn main() -> ExitCode {
    let (eal, own) = match cli::split(std::env::args_os().collect()) {
        Ok(both) => both,
        Err(option) => {
            say_err!("weir: EAL options are text in UTF-8: {}", option.display());
            return ExitCode::from(REFUSED);
        }
    };
    let (json, said) = (cli::asks_json(&own), cli::command_words(&own));
    let parsed = cli::Cli::command().try_get_matches_from(own);
    let (cli, json) = match parsed.and_then(|m| Ok((cli::Cli::from_arg_matches(&m)?, cli::is_json(&m)))) {
        Ok(both) => both,
        Err(mut error) => {
            // An option that is unknown is hardly ever meant as a word.
            error.remove(ContextKind::Suggested);
            // Help and version are not errors; a closed pipe is nobody's fault.
            let printed = error.print();
            if !error.use_stderr() {
                return match printed {
                    Err(error) if error.kind() != ErrorKind::BrokenPipe => unwritten(&error),
                    _ => ExitCode::SUCCESS,
                };
            }
            if json {
                say!("{}", refusal::usage(&error, &said));
            }
            return ExitCode::from(REFUSED);
        }
    };
    let outcome = cli.command.carry_out(&eal);
    if let Err(error) = &outcome {
        say_err!("weir: {}", refusal::told(error.chain()));
        if json {
            say!("{}", refusal::document(error, &said));
        }
    }
    let said = output::finish();
    match (outcome, said) {
        (Ok(Outcome::Good), Ok(())) => ExitCode::SUCCESS,
        (Ok(Outcome::Bad), Ok(())) => ExitCode::from(FAILED),
        (Ok(Outcome::Undecided), Ok(())) => ExitCode::from(UNDECIDED),
        (Ok(_), Err(error)) => unwritten(&error),
        (Err(_), _) => ExitCode::from(REFUSED),
    }
}

fn unwritten(error: &std::io::Error) -> ExitCode {
    say_err!("weir: cannot write to standard output: {error}");
    ExitCode::from(REFUSED)
}

//! `weir completions` and `weir man`: what comes with the program, made from its command line.

use crate::Outcome;
use crate::cli::Cli;
use crate::output::OUT;
use anyhow::{Context, Result};
use clap::Args;
use clap::CommandFactory;
use std::path::PathBuf;

/// `weir completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// `weir man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder to write to; made if it is not there.
    pub dir: PathBuf,
}

pub fn completions(args: &CompletionsArgs) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weir", &mut script);
    OUT.text(&String::from_utf8_lossy(&script));
    Ok(Outcome::Good)
}

pub fn man(args: &ManArgs) -> Result<Outcome> {
    let context = || format!("cannot write to {}", args.dir.display());
    std::fs::create_dir_all(&args.dir).with_context(context)?;
    clap_mangen::generate_to(Cli::command(), &args.dir).with_context(context)?;
    Ok(Outcome::Good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::Shell;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        man(&ManArgs { dir: dir.path().join("man1") }).unwrap();
        for command in Cli::command().get_subcommands() {
            let page = dir.path().join(format!("man1/weir-{}.1", command.get_name()));
            let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{page:?}: {e}"));
            assert!(text.contains(".SH SYNOPSIS"), "{text}");
        }
    }
}

//! `weir completions` and `weir man`: what comes with the program, made from its command line.

use crate::Outcome;
use crate::cli::Cli;
use crate::output::OUT;
use anyhow::{Context, Result};
use clap::Args;
use clap::CommandFactory;
use clap_complete::Shell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_mgmt::sonic;

/// `weir completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

/// `weir man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder to write to; made if it is not there.
    pub dir: PathBuf,
}

pub fn completions(args: &CompletionsArgs) -> Result<Outcome> {
    OUT.text(&script(args.shell));
    Ok(Outcome::Good)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    // What follows the first of SONiC's words is nothing that clap knows of.
    let show = script.split_once("\n        weir__subcmd__show)").filter(|_| shell == Shell::Bash);
    match show.and_then(|(before, show)| Some((before, show.split_once("case \"${prev}\" in\n")?))) {
        None => script,
        Some((before, (options, more))) => format!(
            "{before}\n        weir__subcmd__show){options}case \"${{prev}}\" in\n{}{more}",
            second_words().map(|(first, second)| {
                format!(
                    "                {first})\n                    COMPREPLY=($(compgen -W \"{}\" -- \"${{cur}}\"))\n                    \
                     return 0\n                    ;;\n",
                    second.join(" ")
                )
            }).collect::<String>()
        ),
    }
}

/// What may stand second in SONiC's commands, by what stands first.
fn second_words() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for view in sonic::ALL {
        let mut words = view.words.split(' ');
        if let (Some(first), Some(second)) = (words.next(), words.next()) {
            let known = all.entry(first).or_default();
            if !known.contains(&second) {
                known.push(second);
            }
        }
    }
    all.into_iter()
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

    #[test]
    fn every_shell_learns_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn bash_completes_the_second_words_of_sonics_commands() {
        let script = script(Shell::Bash);
        let completed = |words: &str, cur: &str, prev: &str| {
            let ask = format!(
                "{script}\nCOMP_WORDS=({words} '{cur}'); COMP_CWORD=3; _weir weir '{cur}' {prev}; echo ${{COMPREPLY[@]}}"
            );
            let ended = std::process::Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
            String::from_utf8(ended.stdout).unwrap().trim().to_owned()
        };
        assert_eq!(completed("weir show interfaces", "", "interfaces"), "status counters portchannel");
        assert_eq!(completed("weir show queue", "w", "queue"), "wredcounters watermark");
        assert!(completed("weir show ports", "--j", "ports").contains("--json"));
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

//! The commands of `docs/commands.md` are commands of the program, with the options it names; the README shows what a demo says.

use std::process::Command;

#[test]
fn the_program_has_the_commands_and_options_of_the_documents() {
    let page = include_str!("../../../docs/commands.md");
    let mut checked = Vec::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("| `weir ")) {
        let usage = line.split('`').next().unwrap();
        let name = usage.split_whitespace().next().unwrap();
        // A command of a command is named in small letters too.
        let words = usage.split_whitespace().take_while(|word| word.bytes().all(|b| b.is_ascii_lowercase()));
        let help = Command::new(env!("CARGO_BIN_EXE_weir")).args(words).arg("--help").output().unwrap();
        assert!(help.status.success(), "weir {name} is no command");
        let help = String::from_utf8(help.stdout).unwrap();
        for option in usage.split(['[', ']', ' ']).filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "weir {name} has no {option}");
        }
        checked.push(name.to_owned());
    }
    let listed = Command::new(env!("CARGO_BIN_EXE_weir")).arg("--help").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let commands = listed.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands =
        commands.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("          "));
    let names = commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    for name in names {
        assert!(checked.iter().any(|c| c == name), "docs/commands.md does not mention weir {name}");
    }
}

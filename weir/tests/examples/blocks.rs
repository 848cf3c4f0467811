//! Fenced blocks of README and docs, and the TOML among them.

use crate::place::{Place, files_of, repository};

/// A fenced block.
pub struct Block {
    /// File and line.
    pub at: String,
    /// What stands behind the opening fence.
    pub kind: String,
    pub text: String,
}

/// All of them, of all documents.
pub fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for name in [vec!["README.md".to_owned()], files_of("docs", "md")].concat() {
        let document = std::fs::read_to_string(repository().join(&name)).unwrap();
        let mut open: Option<Block> = None;
        for (number, line) in document.lines().enumerate() {
            match (line.strip_prefix("```"), open.take()) {
                (Some(_), Some(block)) => blocks.push(block),
                (Some(kind), None) => {
                    let at = format!("{name}:{}", number + 1);
                    open = Some(Block { at, kind: kind.to_owned(), text: String::new() });
                }
                (None, Some(mut block)) => {
                    block.text += line;
                    block.text.push('\n');
                    open = Some(block);
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{name} ends within a block");
    }
    blocks
}

/// A switch that a block about something else is part of.
const REST: &str = "[port_defaults]\nrate = \"1G\"\nmtu = 1518\n[buffer]\nsize = \"2MiB\"\nframes = 4096\n\
    [[port]]\nname = \"p0\"\ndevice = \"ring\"\n[[port]]\nname = \"p1\"\ndevice = \"ring\"\n";

#[test]
fn every_toml_block_starts() {
    let place = Place::new();
    let mut started = 0;
    for block in blocks().into_iter().filter(|block| block.kind == "toml") {
        let rest = if block.text.contains("[[port]]") { "" } else { REST };
        let name = block.at.replace(['/', ':'], "-") + ".toml";
        place.write(&name, &format!("{}{rest}", block.text));
        println!("{}", block.at);
        place.switch_runs(&name);
        started += 1;
    }
    assert!(started >= 3, "{started}");
}

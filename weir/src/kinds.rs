//! What kind of file a text is, by the keys that only this kind has: one that is given to a command for another kind is told so, not
//! that each of its keys is unknown.

use crate::refusal::refuse_file;
use anyhow::Result;
use std::path::Path;
use toml::Table;

/// A kind of file that commands take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The configuration of a switch.
    Switch,
    /// Hosts with queue pairs.
    Host,
    /// A fabric of `weir sim`.
    Fabric,
    /// A plan of `weir sim sweep`.
    Plan,
    /// Switches, hosts and links of a controller of in-network aggregation.
    Topology,
    /// JSON, as SONiC has its configuration and jobs of in-network aggregation are written.
    Json,
}

impl Kind {
    /// The kind of `text`, if it has what no other kind has.
    fn of(text: &str) -> Option<Self> {
        if text.trim_start().starts_with('{') {
            return Some(Self::Json);
        }
        let keys: Table = text.parse().ok()?;
        let has = |all: &[&str]| all.iter().all(|key| keys.contains_key(*key));
        let marks: [(&[&str], Self); 8] = [
            (&["base", "axis"], Self::Plan),
            (&["topology"], Self::Fabric),
            (&["workload"], Self::Fabric),
            (&["qp"], Self::Host),
            (&["rclink"], Self::Host),
            (&["host", "port"], Self::Host),
            (&["port"], Self::Switch),
            (&["switch", "host"], Self::Topology),
        ];
        marks.into_iter().find(|(all, _)| has(all)).map(|(_, kind)| kind)
    }

    fn what(self) -> &'static str {
        match self {
            Self::Switch => "the configuration of a switch",
            Self::Host => "a file of hosts with queue pairs",
            Self::Fabric => "the file of a fabric",
            Self::Plan => "the plan of a sweep",
            Self::Topology => "the topology of a controller of in-network aggregation",
            Self::Json => "JSON",
        }
    }

    fn remedy(self, file: &str) -> String {
        match self {
            Self::Switch => {
                format!("start it with `weir run {file}`, or look at it with `weir check {file}`")
            }
            Self::Host => format!("start them with `weir host {file}`"),
            Self::Fabric => format!("play it with `weir sim {file}`"),
            Self::Plan => format!("play it with `weir sim sweep --plan {file} --out FOLDER`"),
            Self::Topology => format!("give it to `weir inc controller {file}`"),
            Self::Json => format!(
                "make a configuration of a config_db.json with `weir config import sonic {file}`, give a job to an engine with `weir inc add {file}`"
            ),
        }
    }
}

/// That `text` is not plainly of another kind than `wanted`. What is of no kind passes: its reader says what is wrong with it.
///
/// # Errors
/// It is: which, and the command that takes it.
pub fn expect(wanted: Kind, path: &Path, text: &str) -> Result<()> {
    match Kind::of(text) {
        Some(kind) if kind != wanted => {
            let file = path.display().to_string();
            let what = format!("this is {}, not {}", kind.what(), wanted.what());
            Err(refuse_file(path, None, what, kind.remedy(&file)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_project_is_of_the_kind_of_its_command() {
        let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
        let mut seen = 0;
        for folder in [configs.clone(), configs.join("sim")] {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                let kind = match (name.starts_with("host"), folder.ends_with("sim")) {
                    _ if name.ends_with(".json") => Kind::Json,
                    _ if !name.ends_with(".toml") => continue,
                    _ if name.ends_with(".plan.toml") => Kind::Plan,
                    (_, true) => Kind::Fabric,
                    (true, _) => Kind::Host,
                    (false, _) => Kind::Switch,
                };
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(Kind::of(&text), Some(kind), "{name}");
                expect(kind, &path, &text).unwrap();
                seen += 1;
            }
        }
        assert!(seen > 40, "{seen} files");
    }

    #[test]
    fn another_kind_is_told_with_its_command_and_the_unknown_passes() {
        let fabric = "[topology]\nkind = \"star\"\n";
        let told = expect(Kind::Switch, Path::new("f.toml"), fabric).unwrap_err().to_string();
        assert_eq!(
            told,
            "f.toml: this is the file of a fabric, not the configuration of a switch; play it with `weir sim f.toml`"
        );
        for none in ["", "prot = 1", "port = [", "[qos]\npreset = \"roce\""] {
            expect(Kind::Switch, Path::new("f.toml"), none).unwrap();
        }
        assert!(expect(Kind::Switch, Path::new("c.json"), " {\"PORT\": {}}").is_err());
    }
}

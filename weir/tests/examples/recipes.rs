//! The recipes of `docs/recipes.md`, run from the text of the page: every block of shell of a recipe, in order, to the last command.

use crate::blocks::blocks;
use crate::place::{Place, repository};
use crate::support::namespace::Namespace;
use crate::support::program::{WEIR, floating};
use crate::support::{need, tools};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const PAGE: &str = "docs/recipes.md";

/// How long a recipe may take on a machine that is busy with other things, s.
const PATIENCE: &str = "300";

/// The headings of the page with the lines they stand in.
fn recipes() -> Vec<(usize, String)> {
    let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    let heads =
        page.lines().enumerate().filter_map(|(i, line)| Some((i + 1, line.strip_prefix("## ")?.to_owned())));
    heads.collect()
}

/// All shell of a recipe.
fn script(name: &str) -> String {
    let recipes = recipes();
    let at =
        recipes.iter().position(|(_, head)| head == name).unwrap_or_else(|| panic!("{PAGE} has no {name}"));
    let end = recipes.get(at + 1).map_or(usize::MAX, |(line, _)| *line);
    let line = |at: &str| at.strip_prefix(PAGE)?.strip_prefix(':')?.parse::<usize>().ok();
    let of_this = blocks().into_iter().filter(|block| {
        block.kind == "sh" && line(&block.at).is_some_and(|line| (recipes[at].0..end).contains(&line))
    });
    of_this.map(|block| block.text).collect()
}

/// Names of namespaces are the recipe's own, too, and it takes them back.
const BEFORE: &str = "mount -t tmpfs none /run/netns\n";
const BEHIND: &str = "ip netns list\n[ -z \"$(ip netns list)\" ]\n";

/// Runs a recipe in a namespace of its own, so that its interfaces are nobody else's, in a folder that it leaves as it was. Whatever
/// it has left running ends with it.
fn runs(name: &str, wanted: &[&str]) {
    need!(tools(wanted));
    let ns = need!(Namespace::new());
    let place = Place::new();
    let folder = place.path();
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    // On a machine where other things run it polls where there is room.
    let wrapper = format!(
        "#!/bin/sh\ncase $1 in run | lab | host) exec {WEIR} --file-prefix=recipe-$$ '{}' -- \"$@\" ;; esac\nexec {WEIR} \"$@\"\n",
        floating()
    );
    std::fs::write(bin.join("weir"), wrapper).unwrap();
    std::fs::set_permissions(bin.join("weir"), PermissionsExt::from_mode(0o755)).unwrap();
    let files = |folder: &std::path::Path| -> BTreeSet<_> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    let there = files(folder);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let script = script(name).replace("/tmp/weir", &format!("{}/weir", folder.display()));
    let script = format!("{BEFORE}{script}{BEHIND}");
    // Its words go to a file: what it might leave behind would keep a pipe open.
    let said = tempfile::NamedTempFile::new().unwrap();
    let out = || Stdio::from(said.as_file().try_clone().unwrap());
    // A process namespace: with its first process all others end.
    let status = ns
        .command("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "timeout", "--kill-after=5", PATIENCE])
        .args(["bash", "-euc", &script])
        .current_dir(folder)
        .env("PATH", path)
        .env("RUNTIME_DIRECTORY", place.run_time())
        .stdin(Stdio::null())
        .stdout(out())
        .stderr(out())
        .status()
        .unwrap();
    let said = std::fs::read_to_string(said.path()).unwrap();
    assert!(status.success(), "{name}: {status}\n{said}");
    assert_eq!(files(folder), there, "{name} leaves files behind");
    println!("{name}:\n{said}");
}

/// A switch that did not start, or carries nothing, leaves nobody waiting for ever.
#[test]
fn every_wait_for_weir_ends() {
    let shell: String = recipes().iter().map(|(_, name)| script(name)).collect();
    let waits: Vec<&str> = shell.lines().filter(|line| line.contains("until weir")).collect();
    let endless: Vec<_> = waits.iter().filter(|line| !line.starts_with("timeout ")).collect();
    assert!(waits.len() > 5 && endless.is_empty(), "{endless:?}");
}

macro_rules! recipes {
    ($($test:ident: $name:literal, $tools:expr;)+) => {
        $(#[test] fn $test() { runs($name, &$tools); })+

        #[test]
        fn every_recipe_has_its_test() {
            let names: Vec<String> = recipes().into_iter().map(|(_, name)| name).collect();
            assert_eq!(names, [$($name),+]);
        }
    };
}

recipes! {
    two_network_namespaces: "Two network namespaces", ["ip", "ethtool", "iperf3", "jq", "unshare"];
    a_lag_of_two_cables: "A LAG of two cables", ["ip", "jq", "unshare"];
    multicast_groups: "Multicast groups", ["ip", "jq", "unshare"];
    containers: "Containers", ["ip", "ethtool", "iperf3", "jq", "nsenter", "unshare"];
    virtual_machines: "Virtual machines", ["dpdk-testpmd", "jq", "unshare"];
    generators: "Generators", ["ip", "dpdk-testpmd", "tcpdump", "tcpreplay", "jq", "unshare"];
    roce_guests: "RoCE guests", ["unshare"];
}

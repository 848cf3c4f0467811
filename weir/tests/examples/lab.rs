//! Every preset of `weir lab`, with each of its options.

use crate::place::Place;
use crate::support::program::Running;

const PRESETS: [&str; 4] = ["roce-lossless", "roce-semi-lossless", "paxi-lite", "paxi-standard"];

const OPTIONS: [&[&str]; 6] =
    [&[], &["--incast", "3"], &["--hosts", "rocev2"], &["--hosts", "rclink"], &["--no-dcqcn"], &["--deaf"]];

#[test]
fn every_preset_starts_with_every_option() {
    let place = Place::new();
    for preset in PRESETS {
        for options in OPTIONS {
            // Frames of PAXI are none of RoCEv2 hosts, and the lab says so.
            let args = [&["lab", "--preset", preset, "--for", "300ms"], options].concat();
            if preset.starts_with("paxi") && options.contains(&"rocev2") {
                let refused = Running::start(&mut place.weir(&args)).ended();
                assert!(
                    refused.code() == Some(2) && refused.stderr.contains("--hosts rclink"),
                    "{refused:?}"
                );
                continue;
            }
            let ended = place.ends_well(&args);
            assert!(ended.stdout.contains("verdict: "), "{args:?}: {}{}", ended.stdout, ended.stderr);
        }
    }
}

#[test]
fn there_are_no_other_presets() {
    let place = Place::new();
    let refused = Running::start(&mut place.weir(&["lab", "--preset", "none-of-these"])).ended().stderr;
    let known = refused.matches("roce-").count() + refused.matches("paxi-").count();
    assert!(known == PRESETS.len() && PRESETS.iter().all(|preset| refused.contains(preset)), "{refused}");
}

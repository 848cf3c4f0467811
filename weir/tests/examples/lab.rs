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

/// The class of a flow is that in which the switch has it: a verdict about lossless classes wants a flow of one.
#[test]
fn a_verdict_over_lossy_classes_says_so() {
    let place = Place::new();
    for (preset, class, says) in [
        ("roce-lossless", 0, "no flow of a lossless class"),
        ("roce-semi-lossless", 0, "no flow of a lossless class"),
        ("paxi-standard", 3, "lossless"),
    ] {
        let args = ["lab", "--preset", preset, "--hosts", "rclink", "--for", "300ms"];
        let ended = Running::start(&mut place.weir(&args)).ended();
        let mut flows = ended.stdout.lines().filter(|line| line.starts_with("p1 -> p0"));
        let of = flows.next().and_then(|line| line.split_whitespace().nth(3)).map(str::to_owned);
        assert_eq!(of, Some(class.to_string()), "{preset}: {}", ended.stdout);
        let verdict = ended.stdout.lines().find(|line| line.starts_with("verdict: ")).unwrap();
        assert!(verdict.contains(says), "{preset}: {verdict}");
        assert_eq!(verdict.contains("no flow of a lossless class"), class == 0, "{preset}: {verdict}");
    }
}

#[test]
fn there_are_no_other_presets() {
    let place = Place::new();
    let refused = Running::start(&mut place.weir(&["lab", "--preset", "none-of-these"])).ended().stderr;
    let known = refused.matches("roce-").count() + refused.matches("paxi-").count();
    assert!(known == PRESETS.len() && PRESETS.iter().all(|preset| refused.contains(preset)), "{refused}");
}

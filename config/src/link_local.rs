//! `link_local`: which of the addresses 01:80:c2:00:00:00 to :0f a switch passes on (802.1Q table 8-1).
//!
//! Frames for them end at a bridge that speaks the protocol; weir speaks LLDP and LACP, where it is told to.

use super::read::{Ctx, Origin, Section};
use super::types::LagConfig;
use super::units::{Bad, integer, wrong_type};
use toml::de::DeValue;

/// Last four bits of the address, and what is spoken there.
const NAMES: [(u8, &str); 7] = [
    (0x0, "stp"),
    (0x2, "lacp"),
    (0x3, "eapol"),
    (0x7, "elmi"),
    (0x8, "provider_stp"),
    (0xd, "provider_mvrp"),
    (0xe, "lldp"),
];
/// 802.3 MAC control: PAUSE and PFC, which every port consumes.
const MAC_CONTROL: u8 = 1;
/// That of LACP and other slow protocols.
pub(crate) const LACP: u8 = 2;
const KEY: &str = "link_local";
/// Words for usual sets.
const SETS: [(&str, u16); 3] = [("bpdu", 1), ("drop", 0), ("forward", !(1 << MAC_CONTROL))];

/// The addresses whose frames go to every other port, a bit each.
pub(super) fn read(ctx: &mut Ctx<'_>, s: &Section<'_>) -> u16 {
    let Some(set) = s.raw(ctx, KEY) else {
        ctx.explain(s.key(KEY), show(1), Origin::Default, "what a bridge without STP does");
        return 1;
    };
    let named = set.v.as_str().and_then(|word| SETS.iter().find(|(name, _)| *name == word));
    let mask = match named {
        Some((_, mask)) => *mask,
        None => s.list(ctx, KEY).unwrap_or_default().into_iter().fold(0, |mask, item| match bit(item.v) {
            Ok(bit) => mask | bit,
            Err(bad) => {
                ctx.error(item.span, "value", format!("{}: {}", s.key(KEY), bad.message), bad.remedy);
                mask
            }
        }),
    };
    ctx.explain(s.key(KEY), show(mask), set.origin, "");
    mask
}

/// Frames of LACP are passed on by no port of a switch that speaks it: its partners would have them for its own.
pub(super) fn check(ctx: &mut Ctx<'_>, fdb: &Section<'_>, mask: u16, lags: &[LagConfig]) {
    let speaks = lags.iter().find(|lag| lag.lacp.is_some()).filter(|_| mask >> LACP & 1 == 1);
    if let (Some(lag), Some(set)) = (speaks, fdb.raw(ctx, KEY)) {
        let message = format!("{}: LACP is not passed on, since LAG `{}` speaks it", fdb.key(KEY), lag.name);
        ctx.warn(set.span, "fdb.link_local", message, "take `lacp` out of the list");
    }
}

fn bit(value: &DeValue<'_>) -> Result<u16, Bad> {
    let names = NAMES.map(|(_, name)| format!("\"{name}\"")).join(", ");
    let help = format!("write \"bpdu\", \"drop\", \"forward\", or a list of {names} and numbers 0 to 15");
    let last = match value {
        DeValue::Integer(_) => {
            let n = integer(value, &help)?;
            u8::try_from(n)
                .ok()
                .filter(|n| *n < 16)
                .ok_or_else(|| Bad::new(format!("{n} is outside 0 to 15"), &help))?
        }
        DeValue::String(word) => {
            let known = NAMES.iter().find(|(_, name)| name == word);
            known
                .map(|(last, _)| *last)
                .ok_or_else(|| Bad::new(format!("`{word}` is not known here"), &help))?
        }
        _ => return Err(wrong_type(value, &help)),
    };
    if last == MAC_CONTROL {
        return Err(Bad::new("01:80:c2:00:00:01 is MAC control, which ends at every port", "take it out"));
    }
    Ok(1 << last)
}

/// For people: `stp, lldp`.
fn show(mask: u16) -> String {
    let name = |last: u8| {
        let known = NAMES.iter().find(|(n, _)| *n == last);
        known.map_or_else(|| last.to_string(), |(_, name)| (*name).to_owned())
    };
    let all: Vec<String> = (0..16).filter(|last| mask >> last & 1 == 1).map(name).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use crate::load;

    fn text(value: &str) -> String {
        format!("[[port]]\nname = \"a\"\ndevice = \"ring\"\n[fdb]\nlink_local = {value}\n")
    }

    #[test]
    fn addresses_are_named_by_word_protocol_or_number() {
        for (value, mask, shown) in [
            ("\"bpdu\"", 1, "stp"),
            ("\"drop\"", 0, "none"),
            ("[]", 0, "none"),
            ("\"lldp\"", 1 << 14, "lldp"),
            ("[\"stp\", \"lacp\", 3, 15]", 0b1000_0000_0000_1101, "stp, lacp, eapol, 15"),
            (
                "[\"provider_stp\", \"provider_mvrp\", \"elmi\"]",
                1 << 8 | 1 << 13 | 1 << 7,
                "elmi, provider_stp, provider_mvrp",
            ),
        ] {
            let config = load("t.toml", &text(value)).unwrap_or_else(|e| panic!("{value}: {e:?}")).config;
            assert_eq!(config.fdb.link_local, mask, "{value}");
            let row = config.explain().into_iter().find(|row| row.key == "fdb.link_local").unwrap();
            assert_eq!(row.value, shown);
        }
        let all = load("t.toml", &text("\"forward\"")).unwrap().config;
        assert_eq!(all.fdb.link_local, 0xfffd);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (value, reason) in [
            ("\"lacpp\"", "`lacpp` is not known here"),
            ("[\"stp\", \"drop\"]", "`drop` is not known here"),
            ("[16]", "16 is outside 0 to 15"),
            ("[1]", "MAC control, which ends at every port"),
            ("[true]", "of type boolean"),
        ] {
            let found = load("t.toml", &text(value)).map(|_| ()).expect_err(value);
            assert_eq!(found.len(), 1, "{value}: {found:?}");
            assert!(found[0].to_string().contains(reason) && found[0].line == 5, "{value}: {}", found[0]);
        }
    }
}

//! What is known of the certificate and of the files with tokens, as events and in words.

use crate::events::{Log, event};
use crate::snapshot::Snapshot;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use x509_cert::der::DateTime;

/// So long before its end a certificate is told of, s: those who renew it by hand need days.
const SOON: u64 = 14 * DAY;
const DAY: u64 = 86_400;

/// A file is told of once it could not be used for so long, ms: in the middle of a renewal a certificate and its key do not fit each other.
const PATIENCE: u64 = 2_000;

/// From when until when a certificate is valid, s since 1970 (RFC 5280 4.1.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub not_before: u64,
    /// Its last one.
    pub not_after: u64,
}

/// How a certificate stands at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Its time has not come.
    NotYetValid,
    /// It is, and for more than two weeks still.
    #[default]
    Valid,
    /// It is, for two weeks at most.
    ExpiresSoon,
    /// Its time is over.
    Expired,
}

impl Standing {
    /// As events call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotYetValid => "not_yet_valid",
            Self::Valid => "valid",
            Self::ExpiresSoon => "expires_soon",
            Self::Expired => "expired",
        }
    }

    /// What to do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::NotYetValid => {
                "set the clock of this machine, or have a certificate issued that is valid now"
            }
            Self::Valid => "",
            Self::ExpiresSoon | Self::Expired => {
                "renew it and write it over the old one: the next client is presented the new one"
            }
        }
    }
}

impl Validity {
    /// How it stands at `now`, s since 1970.
    pub fn at(&self, now: u64) -> Standing {
        match self {
            _ if now < self.not_before => Standing::NotYetValid,
            _ if now > self.not_after => Standing::Expired,
            _ if now + SOON > self.not_after => Standing::ExpiresSoon,
            _ => Standing::Valid,
        }
    }

    /// What is wrong with it at `now`, s since 1970, in words that follow its name.
    pub fn fault(&self, now: u64) -> Option<String> {
        Some(match self.at(now) {
            Standing::Valid => return None,
            Standing::NotYetValid => format!("is not valid before {}", date(self.not_before)),
            Standing::Expired => format!("expired at {}", date(self.not_after)),
            Standing::ExpiresSoon => {
                let when = match (self.not_after - now) / DAY {
                    0 => "within a day".to_owned(),
                    1 => "in a day".to_owned(),
                    days => format!("in {days} days"),
                };
                format!("expires {when}, at {}", date(self.not_after))
            }
        })
    }
}

/// A time in s since 1970, as RFC 3339 writes it.
fn date(unix: u64) -> String {
    DateTime::from_unix_duration(Duration::from_secs(unix))
        .map_or_else(|_| unix.to_string(), |at| at.to_string())
}

/// What became of the file that a key of the configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReading {
    /// How often it has been read again and taken.
    pub renewed: u64,
    /// Why what was written last is not taken; what was read before is used then.
    pub refused: Option<String>,
}

/// What is known of the certificate and of the files with tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialsReading {
    /// Of the certificate that is presented.
    pub validity: Option<Validity>,
    /// By key of the configuration.
    pub files: BTreeMap<&'static str, FileReading>,
}

impl CredentialsReading {
    /// What is wrong at `now`, s since 1970.
    pub fn faults(&self, now: u64) -> Vec<String> {
        let expired = self.validity.and_then(|validity| validity.fault(now));
        let refused = self.files.iter().filter_map(|(key, file)| Some((key, file.refused.as_ref()?)));
        let refused = refused.map(|(key, why)| format!("{key}: what was written last is not used: {why}"));
        expired.map(|fault| format!("the TLS certificate {fault}")).into_iter().chain(refused).collect()
    }
}

/// What has been told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    standing: Standing,
    files: BTreeMap<&'static str, ToldFile>,
}

#[derive(Clone, Debug, Default)]
struct ToldFile {
    renewed: u64,
    /// What is wrong with it, and since when, as [`Snapshot::uptime_ms`].
    refused: Option<(String, u64)>,
    /// That was told.
    is_told: bool,
}

/// Adds what has happened since it was last told.
pub(crate) fn observe(told: &mut Told, now: &Snapshot, log: &mut Log) {
    let reading = &now.credentials;
    let unix = now.unix_ms / 1_000;
    let standing = reading.validity.map_or(Standing::Valid, |validity| validity.at(unix));
    if let Some(validity) = reading.validity
        && standing != told.standing
    {
        let ends = standing == Standing::Valid;
        let mut body = event(now, "tls_certificate", if ends { "end" } else { "alarm" });
        body.insert("state".into(), json!(standing.word()));
        body.insert("not_before".into(), json!(date(validity.not_before)));
        body.insert("not_after".into(), json!(date(validity.not_after)));
        if !ends {
            body.insert("remedy".into(), json!(standing.remedy()));
        }
        log.push(body);
    }
    told.standing = standing;
    for (key, file) in &reading.files {
        let known = told.files.entry(*key).or_default();
        if file.renewed != known.renewed {
            known.renewed = file.renewed;
            let mut body = event(now, "credentials", "renewed");
            body.insert("key".into(), json!(key));
            log.push(body);
        }
        if file.refused.as_ref() != known.refused.as_ref().map(|(why, _)| why) {
            known.refused = file.refused.clone().map(|why| (why, now.uptime_ms));
            known.is_told = false;
        }
        if let Some((why, since)) = &known.refused
            && !known.is_told
            && now.uptime_ms >= since + PATIENCE
        {
            known.is_told = true;
            let mut body = event(now, "credentials", "refused");
            body.insert("key".into(), json!(key));
            body.insert("error".into(), json!(why));
            body.insert(
                "remedy".into(),
                json!("what was read before is still used: mend the file, and it is read again"),
            );
            log.push(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Watcher;
    use crate::fake;
    use serde_json::Value;

    const CERTIFICATE: Validity = Validity { not_before: 1_000_000_000, not_after: 1_700_000_000 };

    #[test]
    fn a_certificate_is_told_of_two_weeks_before_its_end_and_until_it_is_renewed() {
        let at = |now: u64| (CERTIFICATE.at(now).word(), CERTIFICATE.fault(now).unwrap_or_default());
        let end = CERTIFICATE.not_after;
        let date = "2023-11-14T22:13:20Z";
        assert_eq!(at(999_999_999), ("not_yet_valid", "is not valid before 2001-09-09T01:46:40Z".into()));
        assert_eq!((at(1_000_000_000).0, at(end - SOON)), ("valid", ("valid", String::new())));
        assert_eq!(at(end - SOON + 1), ("expires_soon", format!("expires in 13 days, at {date}")));
        assert_eq!(at(end - DAY), ("expires_soon", format!("expires in a day, at {date}")));
        assert_eq!(at(end), ("expires_soon", format!("expires within a day, at {date}")));
        assert_eq!(at(end + 1), ("expired", format!("expired at {date}")));
        let mut now = fake::snapshot();
        now.credentials.validity = Some(CERTIFICATE);
        now.unix_ms = (end + 1) * 1_000;
        assert_eq!(now.faults(), [format!("the TLS certificate expired at {date}")]);
    }

    /// What is told when what is known goes from one to the next, a second after the other.
    fn told(all: &[(u64, CredentialsReading)]) -> Vec<Value> {
        let (mut watcher, mut log) = (Watcher::default(), Log::default());
        let mut snapshot = fake::snapshot();
        for (unix, reading) in all {
            snapshot.credentials = reading.clone();
            (snapshot.unix_ms, snapshot.uptime_ms) = (unix * 1_000, snapshot.uptime_ms + 1_000);
            watcher.observe(&snapshot, &mut log);
        }
        log.after(0).map(|event| event.body.clone()).collect()
    }

    #[test]
    fn how_a_certificate_stands_is_told_at_start_and_when_that_changes() {
        let old = CredentialsReading { validity: Some(CERTIFICATE), ..CredentialsReading::default() };
        let new = Validity { not_after: u64::from(u32::MAX), ..CERTIFICATE };
        let new = CredentialsReading { validity: Some(new), ..CredentialsReading::default() };
        let end = CERTIFICATE.not_after;
        let all = told(&[(end - 9, old.clone()), (end, old.clone()), (end + 1, old), (end + 2, new)]);
        let seen: Vec<_> =
            all.iter().map(|e| ["event", "phase", "state"].map(|key| e[key].as_str().unwrap())).collect();
        let certificate = |phase, state| ["tls_certificate", phase, state];
        assert_eq!(
            seen,
            [
                certificate("alarm", "expires_soon"),
                certificate("alarm", "expired"),
                certificate("end", "valid")
            ]
        );
        assert_eq!((&all[1]["not_after"], &all[2]["remedy"]), (&json!("2023-11-14T22:13:20Z"), &Value::Null));
        assert!(all[1]["remedy"].as_str().unwrap().starts_with("renew it"));
        assert!(told(&[(end, CredentialsReading::default())]).is_empty(), "there is none");
    }

    #[test]
    fn a_file_that_is_not_taken_is_told_once_for_each_reason() {
        let with = |renewed: u64, refused: Option<&str>| {
            let file = FileReading { renewed, refused: refused.map(str::to_owned) };
            (0, CredentialsReading { files: [("mgmt.token_file", file)].into(), ..Default::default() })
        };
        let (good, bad) = (with(0, None), with(0, Some("too short")));
        assert!(
            told(&[good.clone(), bad.clone(), bad.clone(), good.clone()]).is_empty(),
            "a renewal under way"
        );
        let again = with(1, Some("others may read it"));
        let all = [&[good][..], &vec![bad; 9], &[with(1, None)], &vec![again.clone(); 9]].concat();
        let all = told(&all);
        let seen: Vec<_> = all.iter().map(|e| (e["phase"].as_str().unwrap(), &e["error"])).collect();
        let [short, open] = ["too short", "others may read it"].map(|why| json!(why));
        assert_eq!(seen, [("refused", &short), ("renewed", &Value::Null), ("refused", &open)]);
        assert!(all.iter().all(|e| e["key"] == "mgmt.token_file"));
        let faults = again.1.faults(0);
        assert_eq!(faults, ["mgmt.token_file: what was written last is not used: others may read it"]);
    }
}

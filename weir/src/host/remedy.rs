//! What to do about a rank that came to nothing, told beside what happened (docs/host.md, "Ranks of a sum").

use super::build;
use weir_config::host::{HostQp, HostRank};
use weir_endpoint::roce::hca::Failure;
use weir_endpoint::roce::verbs::Status;
use weir_endpoint::station::ConnectionReport;
use weir_endpoint::station::roce::{Ended, Results};
use weir_inc::immediate::{self, Immediate};
use weir_inc::spec::Range;

/// A rank, as the file has it or the controller said, and what it came to.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub qp: &'a HostQp,
    pub rank: &'a HostRank,
    /// Number of the first queue pair of its port.
    pub first_qpn: u32,
    pub report: &'a ConnectionReport,
    /// Contributions without a sum.
    pub unanswered: u64,
    /// It met the others at a controller, which made the job.
    pub met: bool,
}

impl Case<'_> {
    /// What to change or to look at; `None`: it did not fail.
    pub fn remedy(&self) -> Option<String> {
        let Self { rank: HostRank { rank, write, write_results, .. }, report, .. } = self;
        let why = match (report.ended, report.failure) {
            (Some(Ended::Came(Results::Written)), _) => format!(
                "the job has sums written to rank {rank}: set inc.write_results = true, or remove `results_to` of this child"
            ),
            (Some(Ended::Came(Results::Sent)), _) => self.results_to("sent"),
            (_, Some(Failure::Response)) if *write_results => self.results_to("written elsewhere"),
            (_, Some(Failure::Response)) if *write => format!(
                "the job writes the sums of rank {rank} to where its contributions go: set \"mirror\": false of this child, \
                 and give it a `write`, or set inc.write = false"
            ),
            (_, Some(Failure::Request(Status::RemoteAccess))) => format!(
                "the `write` of rank {rank} in the job is another memory: remote_address and remote_key are its `addr` and `rkey`, \
                 and `message` is at most its `bytes`"
            ),
            (ended, failure) if *write && self.is_refused(ended, failure) => format!(
                "either the job has no `write` for rank {rank} (add it, or set inc.write = false), or the ranks do not send the same: \
                 {} whom the engine blames",
                self.seen()
            ),
            (None, Some(Failure::Request(Status::RetryExceeded))) => {
                "`weir show inc_drops` at the switch says what became of its packets: `duplicate`, if they were taken for those of \
                 a run before"
                    .to_owned()
            }
            (Some(Ended::Told(_)), _) | (_, Some(_)) => {
                format!("{} why the job failed, and whom the engine blames", self.seen())
            }
            (None, None) if !report.connected => format!(
                "peer_ip {} is the address of an engine (`ip` of its port) in the VLAN of the port?",
                report.peer.0
            ),
            (None, None) if report.progress.corrupted > 0 => {
                "operator, type, byte_order and tree of the file are those of the job? `weir inc list` has it"
                    .to_owned()
            }
            (None, None) if self.unanswered > 0 && self.met => {
                "`weir show inc` at the switch says which ranks the engine waits for as long as the job runs, `weir show events` \
                 (`straggler`) which ones it has waited for"
                    .to_owned()
            }
            (None, None) if self.unanswered > 0 => {
                "`weir show inc` at the switch says which ranks the engine waits for".to_owned()
            }
            (None, None) => return None,
        };
        Some(if self.met || !report.connected { why } else { why + ANEW })
    }

    /// Who says what has become of the job. A controller has its switches forget it.
    fn seen(&self) -> &'static str {
        match self.met {
            true => "the controller says, as does `weir show events` at the switch,",
            false => "`weir show inc` at the switch says",
        }
    }

    /// The engine takes nothing that this rank sends.
    fn is_refused(&self, ended: Option<Ended>, failure: Option<Failure>) -> bool {
        let blamed = |word| {
            Immediate::decode(word) == Some(Immediate::Failed(immediate::Failure::Protocol, self.rank.rank))
        };
        failure == Some(Failure::Request(Status::RemoteInvalidRequest))
            || matches!(ended, Some(Ended::Told(word)) if blamed(word))
    }

    fn results_to(&self, instead: &str) -> String {
        let memory = build::results_to(self.qp, self.first_qpn).map(Range::from);
        let memory = memory.and_then(|range| serde_json::to_string(&range).ok()).unwrap_or_default();
        format!(
            "the sums of rank {} are {instead}: add \"results_to\": {memory} to this child of the job, or set \
             inc.write_results = false",
            self.rank.rank
        )
    }
}

/// Whatever it was: what is posted by hand does not do for another run.
const ANEW: &str = ". A job is for one run, since its sequence numbers go on: `weir inc end ID` and `weir inc add FILE` make it \
                    anew, `weir inc list` has its ID; a controller (--controller) makes one for each run";

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use weir_config::host::HostTraffic;
    use weir_endpoint::station::{Address, Kind, Progress};
    use weir_inc::immediate::ALL_RANKS;

    const FILE: &str = "[[port]]\nname = \"h1\"\ndevice = \"net_ring0\"\nmac = \"02:00:00:00:00:01\"\nip = \"10.0.0.1\"\n\
                        [[qp]]\nport = \"h1\"\npeer_ip = \"10.0.0.200\"\npeer_qpn = 257\nsend = \"allreduce\"\nmessage = 3000\n\
                        inc.rank = 1\ninc.tree = [0, 1]\n";

    /// A connection of which nothing was sent yet.
    pub(in crate::host) fn nothing() -> ConnectionReport {
        ConnectionReport {
            kind: Kind::Qp,
            number: 17,
            peer: (Address::Ip([10, 0, 0, 200].into()), 257),
            connected: true,
            reliable: true,
            failure: None,
            rate: 1,
            sends: true,
            expect: None,
            ended: None,
            progress: Progress::default(),
        }
    }

    /// What a rank with these further keys is told.
    fn told(keys: &str, report: ConnectionReport, (unanswered, met): (u64, bool)) -> Option<String> {
        let config = weir_config::host::load("rank.toml", &(FILE.to_owned() + keys)).unwrap().config;
        let HostTraffic::Roce { qps, .. } = &config.traffic else { panic!("no RoCE") };
        let qp = &qps[0];
        let rank = qp.rank.as_ref().unwrap();
        Case { qp, rank, first_qpn: 17, report: &report, unanswered, met }.remedy()
    }

    fn failed(failure: Failure) -> ConnectionReport {
        ConnectionReport { failure: Some(failure), ..nothing() }
    }

    fn ended(ended: Ended) -> ConnectionReport {
        ConnectionReport { ended: Some(ended), ..nothing() }
    }

    fn word(failure: immediate::Failure, rank: u16) -> Ended {
        Ended::Told(Immediate::Failed(failure, rank).encode())
    }

    const WRITE: &str = "inc.write = true\nremote_address = 0\nremote_key = 0\n";
    const WRITTEN: &str = "inc.write_results = true\nmemory_address = 4096\nmemory_key = 9\n";

    #[test]
    fn each_way_to_come_to_nothing_has_its_remedy() {
        let request = |status| failed(Failure::Request(status));
        let protocol = immediate::Failure::Protocol;
        let wrong = Progress { corrupted: 1, ..Progress::default() };
        let lost = ConnectionReport {
            failure: Some(Failure::Request(Status::RemoteInvalidRequest)),
            ..ended(word(protocol, 1))
        };
        for (keys, report, says) in [
            ("", ended(Ended::Came(Results::Written)), "set inc.write_results = true"),
            (
                WRITTEN,
                ended(Ended::Came(Results::Sent)),
                "add \"results_to\": {\"addr\":4096,\"rkey\":9,\"bytes\":49152}",
            ),
            (WRITTEN, failed(Failure::Response), "are written elsewhere: add \"results_to\""),
            (WRITE, failed(Failure::Response), "set \"mirror\": false"),
            ("", failed(Failure::Response), "`weir show inc` at the switch"),
            (WRITE, request(Status::RemoteAccess), "is another memory"),
            // Whichever comes first, the refusal or the word.
            (WRITE, request(Status::RemoteInvalidRequest), "no `write` for rank 1"),
            (WRITE, ended(word(protocol, 1)), "no `write` for rank 1"),
            (WRITE, lost, "no `write` for rank 1"),
            // Another rank is to blame, or what was sent was a SEND.
            (WRITE, ended(word(protocol, 0)), "whom the engine blames"),
            (WRITE, ended(word(protocol, ALL_RANKS)), "whom the engine blames"),
            (WRITE, ended(word(immediate::Failure::Stopped, 1)), "whom the engine blames"),
            ("", lost, "whom the engine blames"),
            ("", request(Status::RemoteInvalidRequest), "whom the engine blames"),
            ("", request(Status::RetryExceeded), "`duplicate`"),
            (
                "",
                ConnectionReport { connected: false, ..nothing() },
                "peer_ip 10.0.0.200 is the address of an engine",
            ),
            ("", ConnectionReport { progress: wrong, ..nothing() }, "are those of the job? `weir inc list`"),
        ] {
            let remedy = told(keys, report, (0, false)).unwrap();
            assert!(remedy.contains(says), "{says}: {remedy}");
            // A job that was there is made anew, unless a controller does that.
            assert_eq!(remedy.contains("`weir inc add FILE`"), report.connected, "{remedy}");
            assert!(!told(keys, report, (0, true)).unwrap().contains("weir inc add"), "{remedy}");
        }
    }

    /// A controller has its switches forget what has ended: they do not show it any more.
    #[test]
    fn whoever_met_at_a_controller_is_sent_to_who_still_knows() {
        let failed =
            || ConnectionReport { failure: Some(Failure::Request(Status::RemoteOperational)), ..nothing() };
        let refused = || ConnectionReport {
            failure: Some(Failure::Request(Status::RemoteInvalidRequest)),
            ..nothing()
        };
        for (keys, report) in
            [("", failed()), ("inc.write = true\nremote_address = 4096\nremote_key = 9\n", refused())]
        {
            let [alone, met] = [false, true].map(|met| told(keys, report, (1, met)).unwrap());
            assert!(alone.contains("`weir show inc`") && !alone.contains("show events"), "{alone}");
            assert!(met.contains("`weir show events`") && !met.contains("show inc"), "{met}");
        }
        assert!(told("", nothing(), (3, true)).unwrap().contains("`weir show events`"));
    }

    #[test]
    fn a_rank_that_got_its_sums_is_told_nothing_and_one_that_waits_is() {
        assert_eq!(told("", nothing(), (0, false)), None);
        assert!(told("", nothing(), (3, false)).unwrap().contains("which ranks the engine waits for"));
    }
}

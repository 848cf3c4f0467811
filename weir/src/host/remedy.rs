//! What to do about a rank that came to nothing, told beside what happened (docs/host.md, "Ranks of a sum").

use super::build;
use weir_config::host::{HostQp, HostRank};
use weir_endpoint::roce::hca::Failure;
use weir_endpoint::roce::verbs::Status;
use weir_endpoint::station::PairReport;
use weir_endpoint::station::roce::{Ended, Results};
use weir_inc::spec::Range;

/// A rank, as the file has it or the controller said, and what it came to.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub qp: &'a HostQp,
    pub rank: &'a HostRank,
    /// Number of the first queue pair of its port.
    pub first_qpn: u32,
    pub report: &'a PairReport,
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
            (_, Some(Failure::Request(Status::RemoteAccess))) => format!(
                "the `write` of rank {rank} in the job is another memory: remote_address and remote_key are its `addr` and `rkey`, \
                 and `message` is at most its `bytes`"
            ),
            (None, Some(Failure::Request(Status::RemoteInvalidRequest))) if *write => format!(
                "either the job has no `write` for rank {rank} (add it, or set inc.write = false), or the ranks do not send the same: \
                 `weir show inc` says whom the engine blames"
            ),
            (None, Some(Failure::Request(Status::RetryExceeded))) => {
                "`weir show inc_drops` at the switch says what became of its packets: `duplicate`, if they were taken for those of \
                 a run before"
                    .to_owned()
            }
            (Some(Ended::Told(_)), _) | (_, Some(_)) => {
                "`weir show inc` at the switch says why the job failed, and whom the engine blames".to_owned()
            }
            (None, None) if !report.connected => format!(
                "peer_ip {} is the address of an engine (`ip` of its port) in the VLAN of the port?",
                report.peer.0
            ),
            (None, None) if report.progress.corrupted > 0 => {
                "operator, type, byte_order and tree of the file are those of the job? `weir inc list` has it"
                    .to_owned()
            }
            (None, None) if self.unanswered > 0 => {
                "`weir show inc` at the switch says which ranks the engine waits for".to_owned()
            }
            (None, None) => return None,
        };
        Some(if self.met || !report.connected { why } else { why + ANEW })
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

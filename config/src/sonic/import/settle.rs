//! What makes of the tables a configuration that loads: the lcores, and what is told where it does not.

use super::{Importer, ROOMY};
use crate::diag::Diagnostic;
use crate::port::MAX_LCORES;
use crate::sonic::Outcome;
use crate::sonic::toml_text::Written;
use crate::{Config, load};

/// The rule that an lcore with too many ports breaks.
const LATE: &str = "pfc.refresh";

impl Importer<'_> {
    /// What the text is called in warnings.
    pub(super) fn called(&self) -> String {
        format!("made from {}", self.db.first_source().0)
    }

    /// How many lcores poll the ports, and what the tables come to with a buffer in which everything has room. A chip looks
    /// at all its ports at once; here there are as few lcores as look at each in time to keep a pause up.
    pub(super) fn lcores(&mut self) -> Result<(usize, Config), (Written, Vec<Diagnostic>)> {
        let ports = self.ports.len();
        // Of those that give an lcore as many ports the fewest.
        let counts = (1..=ports).rev().map(|each| ports.div_ceil(each));
        let mut counts = counts.filter(|lcores| *lcores < MAX_LCORES as usize).collect::<Vec<_>>();
        counts.dedup();
        let mut refused = None;
        for lcores in counts {
            let written = self.text(ROOMY, lcores);
            let found = match load(&self.called(), &written.text) {
                Ok(loaded) => {
                    if lcores > 1 {
                        let why = format!(
                            "port.lcore, eal.args: {lcores} lcores poll the ports, as few as look at each in time to keep its \
                             pauses up; a chip looks at all at once"
                        );
                        self.note_made(Outcome::Approximated, "PORT", String::new(), &why);
                    }
                    return Ok((lcores, loaded.config));
                }
                Err(found) => found,
            };
            let late = found.iter().filter(|d| d.is_error()).all(|d| d.rule == LATE);
            refused = Some((written, found));
            if !late {
                break;
            }
        }
        Err(refused.unwrap_or_else(|| (self.text(ROOMY, 1), Vec::new())))
    }

    /// What is wrong with the text, told of the rows it was made from.
    pub(super) fn refused(mut self, written: &Written, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
        for d in found.into_iter().filter(Diagnostic::is_error) {
            let at = written.origin(d.span.start).unwrap_or_else(|| self.db.start());
            self.db.error(at, d.rule, d.message, &remedy(d.rule, &d.remedy));
        }
        self.db.into_found()
    }
}

/// What to change in SONiC's tables where the configuration they come to breaks a rule, or, of rules that no field of theirs
/// breaks by itself, what the key of weir is to be.
fn remedy(rule: &str, of_weir: &str) -> String {
    let remedy = match rule {
        "class.lossy" | "queue.lossy" | "pfc.lossy" => {
            "give all groups of the class a profile with xoff (BUFFER_PG) and its queues one of lossless queues (BUFFER_QUEUE), or \
             none of them, or lead it elsewhere (TC_TO_PRIORITY_GROUP_MAP, TC_TO_QUEUE_MAP)"
        }
        LATE => {
            "no lcore can look at a port as often as its pauses must be sent again: lower `speed` in PORT, or leave out \
             pfc_enable of that port in PORT_QOS_MAP"
        }
        "pfc.rate" => "give the port a `speed` in PORT",
        "watchdog.pause" => "raise detection_time in PFC_WD, or `speed` of the slowest port in PORT",
        "watchdog.order" => {
            "raise detection_time and restoration_time in PFC_WD to its POLL_INTERVAL at least, or lower that"
        }
        "profile.xon" => "lower `xon` of the profile in BUFFER_PROFILE, or raise its threshold",
        "profile.headroom" => "give the profile an `xoff` above 0 in BUFFER_PROFILE",
        "headroom.pool" => {
            "raise `xoff` of the ingress pool in BUFFER_POOL to that of the largest profile at least"
        }
        "buffer.sum" => "give a larger --buffer, or lower `size` and `xoff` in BUFFER_PROFILE",
        "buffer.egress" => {
            "raise `size` of the egress pool in BUFFER_POOL, or lower that of its profiles in BUFFER_PROFILE"
        }
        "scheduler.cir" => "lower `cir` in SCHEDULER, or raise `speed` in PORT",
        _ => return format!("change the row so that what it becomes fits; of weir's keys: {of_weir}"),
    };
    remedy.to_owned()
}

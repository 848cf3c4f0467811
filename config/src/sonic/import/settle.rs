//! What makes of the tables a configuration that loads: the lcores, and what is told where it does not.

use super::{Importer, ROOMY};
use crate::diag::{Diagnostic, Severity};
use crate::port::MAX_LCORES;
use crate::sonic::toml_text::Written;
use crate::sonic::{Note, Outcome};
use crate::{Config, load};

/// What the text is called: whatever is said of it is told of the tables ([`Importer::told`]).
pub(super) const MADE: &str = "made.toml";

/// The rule that an lcore with too many ports breaks.
const LATE: &str = "pfc.refresh";

impl Importer<'_> {
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
            let found = match load(MADE, &written.text) {
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
            // What else is wrong is wrong with any number of lcores, and says nothing of this one.
            let late = found.iter().any(|d| d.is_error() && d.rule == LATE);
            refused = Some((written, found));
            if !late {
                break;
            }
        }
        Err(refused.unwrap_or_else(|| (self.text(ROOMY, 1), Vec::new())))
    }

    /// What became of the rows, and what is said of the text, told of the rows it was made from: of one that is refused the
    /// errors alone.
    pub(super) fn told(mut self, written: &Written, found: Vec<Diagnostic>) -> (Vec<Note>, Vec<Diagnostic>) {
        let severity = found.iter().map(|d| d.severity).min().unwrap_or(Severity::Warning);
        for d in found.into_iter().filter(|d| d.severity == severity) {
            let at = written.origin(d.span.start).unwrap_or_else(|| self.db.start());
            self.db.tell(severity, at, d.rule, d.message, &remedy(d.rule, severity, &d.remedy));
        }
        let notes = std::mem::take(&mut self.db.notes);
        (notes, self.db.into_found())
    }
}

/// What to change in SONiC's tables where the configuration they come to breaks a rule, or, of rules that no field of theirs
/// breaks by itself, what the key of weir is to be.
fn remedy(rule: &str, severity: Severity, of_weir: &str) -> String {
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
        "headroom.short" => {
            "raise `xoff` of the profile in BUFFER_PROFILE, or import with --auto-headroom, or leave it if the peer is known to \
             send less"
        }
        "mtu.differs" => "give all ports the same `mtu` in PORT",
        _ if severity == Severity::Warning => return format!("of weir's keys: {of_weir}"),
        _ => return format!("change the row so that what it becomes fits; of weir's keys: {of_weir}"),
    };
    remedy.to_owned()
}

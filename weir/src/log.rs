//! What happens, line by line on standard error, if somebody asks for it. Never from a worker.

use crate::output::LogWriter;

/// Logs as `text` or `json` from now on; `None`: not at all.
pub fn start(format: Option<&str>) {
    let log = tracing_subscriber::fmt().with_writer(|| LogWriter).with_ansi(false).with_target(false);
    match format {
        // One object per line, fields at the top.
        Some("json") => log.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
        Some(_) => log.init(),
        None => {}
    }
}

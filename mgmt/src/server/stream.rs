//! Events as they come: Server-Sent Events or NDJSON, resumable by number.

use super::{App, lock};
use crate::api::given::Given;
use crate::events::Event;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Streams at a time.
const STREAMS: usize = 16;

/// One reader's place in the log. Gives its place among the streams back when dropped.
struct Reader {
    app: Arc<App>,
    cursor: u64,
    /// Only what happens at this one.
    port: Option<String>,
    sse: bool,
    follow: bool,
    silent: bool,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.app.streams.fetch_sub(1, Relaxed);
    }
}

/// `GET /v1/events`: what is kept since number `since` (or `Last-Event-ID`), then what comes, unless
/// `follow=false`.
pub(super) async fn events(app: Arc<App>, given: Given) -> Response<Body> {
    let header_text = |name: &str| given.headers.get(name).and_then(|v| v.to_str().ok());
    let cursor = match (given.number("since"), header_text("last-event-id")) {
        (Some(since), _) => since,
        (None, None) => 0,
        (None, Some(last)) => match last.parse() {
            Ok(last) => last,
            Err(_) => {
                let detail = "Last-Event-ID: the number of an event is an integer";
                return given.problem(StatusCode::BAD_REQUEST, detail);
            }
        },
    };
    let accept = header_text("accept").unwrap_or("");
    let sse = given.text("format").map_or(!accept.contains("application/x-ndjson"), |format| format == "sse");
    let follow = given.flag("follow").unwrap_or(true);
    if app.streams.fetch_add(1, Relaxed) >= STREAMS {
        app.streams.fetch_sub(1, Relaxed);
        return given.problem(StatusCode::SERVICE_UNAVAILABLE, "too many streams are open");
    }
    // A number from a life before this one: all that is kept is new.
    let cursor = if cursor > lock(&app.log).last() { 0 } else { cursor };
    let port = given.text("port").map(str::to_owned);
    let reader = Reader { app, cursor, port, sse, follow, silent: false };
    let stream = futures_util::stream::unfold(reader, |mut reader| async move {
        let text = reader.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), reader))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let kind = if sse { "text/event-stream" } else { "application/x-ndjson" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

impl Reader {
    /// The next piece of the stream; `None`: that was all.
    async fn next(&mut self) -> Option<String> {
        loop {
            let app = Arc::clone(&self.app);
            let news = app.news.notified();
            if let Some(text) = self.take() {
                self.silent = true;
                return Some(text);
            }
            if !self.follow {
                return None;
            }
            if !self.silent {
                // Something at once, so that the client knows it is heard.
                self.silent = true;
                return Some(self.sign_of_life());
            }
            // Well within the patience the connection has with a silent side.
            if tokio::time::timeout(self.app.patience / 3, news).await.is_err() {
                return Some(self.sign_of_life());
            }
        }
    }

    /// A comment in SSE, an empty line in NDJSON.
    fn sign_of_life(&self) -> String {
        if self.sse { ":\n\n".to_owned() } else { "\n".to_owned() }
    }

    fn take(&mut self) -> Option<String> {
        let log = lock(&self.app.log);
        let mut text = String::new();
        let wanted =
            |event: &&Event| self.port.is_none() || event.body["port"].as_str() == self.port.as_deref();
        for event in log.after(self.cursor).filter(wanted) {
            let _ = match self.sse {
                true => write!(text, "id: {}\ndata: {}\n\n", event.id, event.body),
                false => writeln!(text, "{}", event.body),
            };
        }
        self.cursor = log.last();
        (!text.is_empty()).then_some(text)
    }
}

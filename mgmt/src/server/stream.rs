//! Events as they come: Server-Sent Events or NDJSON, resumable by number.

use super::problem::problem;
use super::routes::parameters;
use super::{App, lock};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Streams at a time.
const STREAMS: usize = 16;

const PATH: &str = "/v1/events";

/// One reader's place in the log. Gives its place among the streams back when dropped.
struct Reader {
    app: Arc<App>,
    cursor: u64,
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
pub(super) async fn events(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let given = match parameters(query.as_deref(), &["since", "format", "follow"], PATH) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let value = |name: &str| given.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let header_text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    let bad = |detail: &str, name: &str| problem(StatusCode::BAD_REQUEST, PATH, detail, Some(name));
    let Ok(cursor) = value("since").or_else(|| header_text("last-event-id")).unwrap_or("0").parse::<u64>()
    else {
        return bad("the number of an event is an integer", "since");
    };
    let accept = header_text("accept").unwrap_or("");
    let sse = match value("format") {
        None => !accept.contains("application/x-ndjson"),
        Some("sse") => true,
        Some("ndjson") => false,
        Some(_) => return bad("sse or ndjson", "format"),
    };
    let follow = match value("follow") {
        None | Some("true") => true,
        Some("false") => false,
        Some(_) => return bad("true or false", "follow"),
    };
    if app.streams.fetch_add(1, Relaxed) >= STREAMS {
        app.streams.fetch_sub(1, Relaxed);
        return problem(StatusCode::SERVICE_UNAVAILABLE, PATH, "too many streams are open", None);
    }
    // A number from a life before this one: all that is kept is new.
    let cursor = if cursor > lock(&app.log).last() { 0 } else { cursor };
    let reader = Reader { app, cursor, sse, follow, silent: false };
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
        for event in log.after(self.cursor) {
            let _ = match self.sse {
                true => write!(text, "id: {}\ndata: {}\n\n", event.id, event.body),
                false => writeln!(text, "{}", event.body),
            };
        }
        self.cursor = log.last();
        (!text.is_empty()).then_some(text)
    }
}

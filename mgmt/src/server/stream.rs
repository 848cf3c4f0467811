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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Streams at a time, over TCP and over the local socket: each has its own, and both are well below the connections there
/// may be, so those who listen for ever leave room for those who ask.
const STREAMS: usize = 16;

/// Places of answers that do not end by themselves.
pub(super) struct Streams {
    tcp: Arc<Semaphore>,
    local: Arc<Semaphore>,
}

impl Default for Streams {
    fn default() -> Self {
        let [tcp, local] = [(); 2].map(|()| Arc::new(Semaphore::new(STREAMS)));
        Self { tcp, local }
    }
}

impl Streams {
    /// A place, until it is dropped; or the refusal of a request for which there is none.
    pub fn place(&self, given: &Given) -> Result<OwnedSemaphorePermit, Box<Response<Body>>> {
        let places = if given.local { &self.local } else { &self.tcp };
        Arc::clone(places).try_acquire_owned().map_err(|_| {
            let detail = "too many streams are open";
            Box::new(last(given.problem(StatusCode::SERVICE_UNAVAILABLE, detail)))
        })
    }
}

/// The last answer on its connection: whoever is refused for want of room makes room.
pub(super) fn last(mut refusal: Response<Body>) -> Response<Body> {
    refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    refusal
}

/// One reader's place in the log.
struct Reader {
    app: Arc<App>,
    /// Its place among the streams.
    _place: OwnedSemaphorePermit,
    cursor: u64,
    /// Only what happens at this one.
    port: Option<String>,
    sse: bool,
    follow: bool,
    silent: bool,
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
    let place = match app.streams.place(&given) {
        Ok(place) => place,
        Err(refusal) => return *refusal,
    };
    // A number from a life before this one: all that is kept is new.
    let cursor = if cursor > lock(&app.log).last() { 0 } else { cursor };
    let port = given.text("port").map(str::to_owned);
    let reader = Reader { app, _place: place, cursor, port, sse, follow, silent: false };
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

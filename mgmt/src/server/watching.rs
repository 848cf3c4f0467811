//! `POST /v1/watch`: frames that are followed, told as they come. NDJSON.

use super::App;
use super::stream::last;
use crate::admin::watch::{Joiner, Watch};
use crate::admin::{Done, Order};
use crate::api::documents::{WatchLine, json};
use crate::api::given::Given;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// How often the workers' records are read: well before their rings are full.
const LOOK: Duration = Duration::from_millis(20);

/// How long there may be silence, well within the patience of a connection: that somebody has left shows when something is
/// written, and until then nobody else can follow frames.
const ALIVE: Duration = Duration::from_millis(200);

/// How long it may take until it shows that somebody has left, and others may follow frames: over TCP what is written first after the
/// reader has gone is taken all the same.
const GRACE: Duration = Duration::from_millis(600);

/// Longest piece of an answer, bytes, but for a single line.
const PIECE: usize = 64 * 1024;

/// Somebody who watches.
struct Watcher {
    app: Arc<App>,
    /// Its place among the streams.
    _place: OwnedSemaphorePermit,
    joiner: Joiner,
    lines: VecDeque<WatchLine>,
    /// It was told that frames are followed.
    armed: bool,
    until: Instant,
    spoke: Instant,
    ended: bool,
}

pub(super) async fn watch(app: Arc<App>, given: Given) -> Response<Body> {
    let Some(desk) = &app.desk else {
        return given.problem(StatusCode::FORBIDDEN, "this switch takes no orders");
    };
    let order = match Watch::from_json(&given.body) {
        Ok(order) => order,
        Err(refusal) => return given.refused(&refusal),
    };
    // Those who wait until nobody else watches hold a connection, too.
    let place = match app.streams.place(&given) {
        Ok(place) => place,
        Err(refusal) => return *refusal,
    };
    let asked = Instant::now();
    let answer = loop {
        match desk.order(Order::Watch(order.clone())).await {
            Err(refusal) if refusal.status == 409 && asked.elapsed() < GRACE => {
                tokio::time::sleep(LOOK).await
            }
            answer => break answer,
        }
    };
    let watching = match answer {
        Ok(Done::Watching(watching)) => watching,
        Ok(Done::Said(_) | Done::Fdb(_)) => {
            return given.problem(StatusCode::INTERNAL_SERVER_ERROR, "an unexpected answer");
        }
        Err(refusal) => return last(given.refused(&refusal)),
    };
    let joiner = Joiner::new(watching, order.count).only_marked(order.marked);
    let now = Instant::now();
    let watcher = Watcher {
        app,
        _place: place,
        joiner,
        lines: VecDeque::new(),
        armed: false,
        until: now + order.time,
        spoke: now,
        ended: false,
    };
    let stream = futures_util::stream::unfold(watcher, |mut watcher| async move {
        let text = watcher.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), watcher))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl Watcher {
    /// The next piece; `None`: that was all.
    async fn next(&mut self) -> Option<String> {
        loop {
            // Whoever hears of it may send the frame that is to be followed.
            if !self.armed && self.joiner.is_armed() {
                self.armed = true;
                self.lines.push_back(self.joiner.head());
            }
            let mut text = String::new();
            while text.len() < PIECE
                && let Some(line) = self.lines.pop_front()
            {
                text.push_str(&json(&line).to_string());
                text.push('\n');
            }
            if !text.is_empty() {
                self.spoke = Instant::now();
                return Some(text);
            }
            if self.ended {
                return None;
            }
            if self.spoke.elapsed() > ALIVE.min(self.app.patience / 3) {
                self.spoke = Instant::now();
                return Some("\n".to_owned());
            }
            tokio::time::sleep(LOOK).await;
            let over = Instant::now() >= self.until;
            let info = Arc::clone(&self.app.snapshot().info);
            self.lines.extend(self.joiner.poll(&info));
            if self.joiner.is_done() || over {
                self.ended = true;
                let why = if over { "time is over" } else { "count reached" };
                self.lines.push_back(self.joiner.foot(why));
            }
        }
    }
}

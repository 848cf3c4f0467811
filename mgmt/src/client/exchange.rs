//! One request over a connection of its own, and its answer as it comes.

use crate::api;
use crate::server::is_private;
use crate::token::{Token, us};
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};

/// Bytes of a request that are on their way to the socket.
const PIECE: usize = 64 << 10;

/// Where a switch answers.
#[derive(Clone, Debug)]
pub enum Place {
    /// A Unix socket.
    Unix(PathBuf),
    /// HOST:PORT, and what is presented there.
    Tcp(String, Option<Token>),
}

/// The body of an answer.
#[derive(Debug)]
pub struct Body {
    /// What has come and was not read yet.
    piece: Bytes,
    incoming: Incoming,
    runtime: Runtime,
    patience: Duration,
}

/// Asks for `target`, a path and its query. The switch may be silent for as long as `patience`, now and within the body. What kind of body
/// the endpoint takes is known from the list of them.
///
/// # Errors
/// The connection fails, or nothing comes in time; [`ErrorKind::InvalidData`]: what comes is no HTTP.
pub fn exchange(
    place: &Place,
    method: &str,
    target: &str,
    body: &str,
    patience: Duration,
) -> io::Result<Response<Body>> {
    let mut request = Request::builder().method(method).uri(target);
    let (host, token) = match place {
        Place::Unix(_) => ("localhost", None),
        Place::Tcp(address, token) => (address.as_str(), token.as_ref()),
    };
    request = request.header(HOST, host);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token.bearer().map_err(io::Error::other)?);
    }
    if method != "GET" {
        request = request.header(CONTENT_LENGTH, body.len());
    }
    let path = target.split('?').next().unwrap_or(target);
    if let Some(kind) = api::find(method, path).and_then(|endpoint| endpoint.body) {
        request = request.header(CONTENT_TYPE, kind.media);
    }
    let request = request.body(body.to_owned()).map_err(io::Error::other)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(within(patience, async {
        match place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                let who = stream.peer_cred()?.uid();
                if !may_answer(path, who) {
                    return Err(io::Error::new(ErrorKind::PermissionDenied, foreign(who)));
                }
                send(stream, request).await
            }
            Place::Tcp(address, _) => send(TcpStream::connect(address).await?, request).await,
        }
    }))?;
    Ok(answer.map(|incoming| Body { piece: Bytes::new(), incoming, runtime, patience }))
}

/// A process of this user may be the switch at a socket: root, ourselves, or whom root gave the folder of it (a service that runs as a
/// user of its own). Anybody else would be told the configuration, and believed.
fn may_answer(socket: &Path, who: u32) -> bool {
    let folder = || socket.parent().filter(|folder| is_private(folder))?.metadata().ok();
    who == 0 || who == us() || folder().is_some_and(|folder| folder.uid() == who)
}

fn foreign(who: u32) -> String {
    format!(
        "a process of user {who} listens there, who is neither you nor root: run this as that user if it is your switch"
    )
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<String>,
) -> io::Result<Response<Incoming>> {
    use tokio::io::{copy, join, simplex, sink, split};
    let (answer, mut switch) = split(stream);
    let (mut request_bytes, pipe) = simplex(PIECE);
    // A switch may answer and leave before it has read all of a body that it does not want: the rest is let go.
    tokio::spawn(async move {
        if copy(&mut request_bytes, &mut switch).await.is_err() {
            let _ = copy(&mut request_bytes, &mut sink()).await;
        }
    });
    let stream = TokioIo::new(join(answer, pipe));
    let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
    // What ends it is told to whoever waits for the answer.
    drop(tokio::spawn(connection));
    sender.send_request(request).await.map_err(failed)
}

async fn within<T>(patience: Duration, answer: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(patience, answer).await.unwrap_or_else(|_| {
        Err(io::Error::new(ErrorKind::TimedOut, format!("no answer within {} s", patience.as_secs())))
    })
}

/// What the system says of it, if that is why.
fn failed(error: hyper::Error) -> io::Error {
    match error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
        Some(cause) => io::Error::new(cause.kind(), cause.to_string()),
        None if error.is_parse() => io::Error::new(ErrorKind::InvalidData, error),
        None if error.is_canceled() || error.is_incomplete_message() => {
            let what =
                "the connection was closed without an answer: too many ask at once, or it is no switch";
            io::Error::new(ErrorKind::ConnectionReset, what)
        }
        None => io::Error::other(error),
    }
}

impl Read for Body {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let next = async { self.incoming.frame().await.transpose().map_err(failed) };
            match self.runtime.block_on(within(self.patience, next))? {
                Some(frame) => self.piece = frame.into_data().unwrap_or_default(),
                None => return Ok(0),
            }
        }
        (&mut self.piece).reader().read(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_answer_is_root_ourselves_or_whom_root_gave_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("weir.sock");
        let stranger = us() + 1;
        assert_eq!([0, us(), stranger].map(|who| may_answer(&socket, who)), [true, true, false]);
        assert!(!may_answer(Path::new("weir.sock"), stranger));
    }
}

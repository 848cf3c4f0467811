//! Asks a running switch over its Unix socket. HTTP/1.0, so that an answer ends with the connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest answer that is read, bytes.
const MAX_ANSWER: u64 = 64 << 20;

/// How long the switch may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no switch runs here: no socket answers in {0}; start `weir run` or `weir lab`, or say --socket PATH"
    )]
    Nobody(PathBuf),
    /// More than one does.
    #[error("several switches run here: say which with --socket: {0}")]
    Several(String),
    /// The connection failed.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// The answer is an error, or none.
    #[error("{0}")]
    Answer(String),
}

/// The socket of the one switch that runs here.
///
/// # Errors
/// [`ClientError::Nobody`] or [`ClientError::Several`].
pub fn find(folder: &Path) -> Result<PathBuf, ClientError> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut alive: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sock") && UnixStream::connect(path).is_ok())
        .collect();
    alive.sort();
    match &alive[..] {
        [] => Err(ClientError::Nobody(folder.to_owned())),
        [one] => Ok(one.clone()),
        many => {
            let names: Vec<_> = many.iter().map(|path| path.display().to_string()).collect();
            Err(ClientError::Several(names.join(", ")))
        }
    }
}

/// Opens `GET target`; the body comes out of what is returned.
///
/// # Errors
/// The connection fails, or the answer is not 200.
pub fn open(socket: &Path, target: &str) -> Result<impl BufRead + use<>, ClientError> {
    exchange(socket, "GET", target, "", "")
}

/// The whole answer to an order with this body of this media type.
///
/// # Errors
/// As [`open`].
pub fn order(socket: &Path, target: &str, kind: &str, body: &str) -> Result<String, ClientError> {
    let mut answer = String::new();
    let read = exchange(socket, "POST", target, kind, body)?.read_to_string(&mut answer);
    read.map_err(|error| ClientError::Io(socket.to_owned(), error))?;
    Ok(answer)
}

/// Opens `POST target` with this body; what is answered comes out of what is returned.
///
/// # Errors
/// As [`open`].
pub fn stream(
    socket: &Path,
    target: &str,
    kind: &str,
    body: &str,
) -> Result<impl BufRead + use<>, ClientError> {
    exchange(socket, "POST", target, kind, body)
}

fn exchange(
    socket: &Path,
    method: &str,
    target: &str,
    kind: &str,
    body: &str,
) -> Result<impl BufRead + use<>, ClientError> {
    let io = |error| ClientError::Io(socket.to_owned(), error);
    let mut stream = UnixStream::connect(socket).map_err(io)?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(io)?;
    let mut head = format!("{method} {target} HTTP/1.0\r\nHost: localhost\r\n");
    if method != "GET" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    if !kind.is_empty() {
        head.push_str(&format!("Content-Type: {kind}\r\n"));
    }
    // The switch may answer before it has read all of a body it does not want.
    let _ = write!(stream, "{head}\r\n{body}");
    let mut answer = BufReader::new(stream.take(MAX_ANSWER));
    let mut status = String::new();
    answer.read_line(&mut status).map_err(io)?;
    loop {
        let mut line = String::new();
        if answer.read_line(&mut line).map_err(io)? == 0 || line.trim().is_empty() {
            break;
        }
    }
    if status.split(' ').nth(1) == Some("200") {
        return Ok(answer);
    }
    let mut text = String::new();
    answer.read_to_string(&mut text).map_err(io)?;
    let problem: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("this is no weir");
    let mut message = format!("{target}: {} ({detail})", status.trim().trim_start_matches("HTTP/1.0 "));
    for fault in problem["faults"].as_array().into_iter().flatten() {
        let word = |key: &str| fault[key].as_str().unwrap_or("").to_owned();
        let line = fault["line"].as_u64().map(|line| format!("line {line}: ")).unwrap_or_default();
        message.push_str(&format!("\n  {line}{}: {}; {}", word("path"), word("detail"), word("remedy")));
    }
    Err(ClientError::Answer(message))
}

/// The whole answer to `GET target`.
///
/// # Errors
/// As [`open`].
pub fn get(socket: &Path, target: &str) -> Result<String, ClientError> {
    let mut body = String::new();
    let read = open(socket, target)?.read_to_string(&mut body);
    read.map_err(|error| ClientError::Io(socket.to_owned(), error))?;
    Ok(body)
}

/// A value for a query: everything but letters, digits and `-._~` in percent-encoding.
pub fn encode(value: &str) -> String {
    let one = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (byte as char).to_string(),
        byte => format!("%{byte:02X}"),
    };
    value.bytes().map(one).collect()
}

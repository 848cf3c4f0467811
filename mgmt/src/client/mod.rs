//! Asks a running switch over its Unix socket.

mod exchange;

pub use exchange::{Body, Place, exchange};

use crate::api::documents::{Fault, Problem};
use crate::server::{is_private, is_socket_of};
use hyper::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest answer that is kept, bytes; what is read as it comes may be longer.
const MAX_ANSWER: u64 = 64 << 20;

/// How long the switch may be silent: an order whose workers do not answer is given up and taken back in twice three seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no switch runs here: no socket answers in {0}; start `weir run` or `weir lab`, or say --socket PATH"
    )]
    Nobody(String),
    /// Nobody that we may ask listens, and there are places where we may not look.
    #[error(
        "whether a switch runs here cannot be seen: no rights for {0}; ask as the user it runs as or as root, or say --socket PATH"
    )]
    Denied(String),
    /// More than one does: what tells each from the others.
    #[error("several switches run here: say one of {0}")]
    Several(String),
    /// None of those that do is called so.
    #[error("no switch called `{0}` runs here: --name NAME is its [switch] name; say one of {1}")]
    Unknown(String, String),
    /// The connection failed.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// The answer is none.
    #[error("{0}")]
    Answer(String),
    /// The answer is that it is not done.
    #[error("{target}: {status} ({}){}", problem.detail, lines_of(problem))]
    Refused {
        /// What was asked.
        target: String,
        /// Number and words of the status.
        status: String,
        /// Why.
        problem: Box<Problem>,
    },
}

/// The socket of the one switch that runs here, or of the one that is called `name`: in these folders, as far as nobody
/// else can put a socket there.
///
/// # Errors
/// [`ClientError::Nobody`], [`ClientError::Denied`], [`ClientError::Unknown`] or [`ClientError::Several`].
pub fn find(folders: &[PathBuf], name: Option<&str>) -> Result<PathBuf, ClientError> {
    let (mut alive, mut denied) = (Vec::new(), Vec::new());
    let mut may_not = |path: &Path, error: &io::Error| {
        if error.kind() == ErrorKind::PermissionDenied {
            denied.push(path.to_owned());
        }
    };
    for folder in folders.iter().filter(|folder| is_private(folder)) {
        let entries = std::fs::read_dir(folder).inspect_err(|error| may_not(folder, error));
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        for path in paths.filter(|path| path.extension().is_some_and(|e| e == "sock")) {
            match UnixStream::connect(&path) {
                Ok(_) => alive.push(path),
                Err(error) => may_not(&path, &error),
            }
        }
    }
    alive.sort();
    let list = |paths: &[PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    let its: Vec<PathBuf> =
        alive.iter().filter(|path| name.is_none_or(|name| is_socket_of(path, name))).cloned().collect();
    match &its[..] {
        [] if !denied.is_empty() => Err(ClientError::Denied(list(&denied))),
        [] if alive.is_empty() => Err(ClientError::Nobody(list(folders))),
        [] => Err(ClientError::Unknown(name.unwrap_or_default().to_owned(), ways(&alive, &alive))),
        [one] => Ok(one.clone()),
        many => Err(ClientError::Several(ways(many, &alive))),
    }
}

/// What tells each of `some` from all that are alive: its name, where it is the only one of that, the number behind it, if
/// it is a later one of the name, else its socket.
fn ways(some: &[PathBuf], alive: &[PathBuf]) -> String {
    let is_one = |name: &str| alive.iter().filter(|path| is_socket_of(path, name)).count() == 1;
    let way = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.split('-').next().unwrap_or_default();
        match [name, &*stem].into_iter().find(|name| is_one(name)) {
            Some(name) => format!("--name {name}"),
            None => format!("--socket {}", path.display()),
        }
    };
    some.iter().map(way).collect::<Vec<_>>().join(", ")
}

/// Opens `GET target`; the body comes out of what is returned.
///
/// # Errors
/// The connection fails, or the answer is not 200.
pub fn open(socket: &Path, target: &str) -> Result<impl BufRead + use<>, ClientError> {
    answer(socket, "GET", target, "")
}

/// The whole answer to an order with this body.
///
/// # Errors
/// As [`open`].
pub fn order(socket: &Path, target: &str, body: &str) -> Result<String, ClientError> {
    whole(socket, answer(socket, "POST", target, body)?)
}

/// The whole answer to an order to take something away.
///
/// # Errors
/// As [`open`].
pub fn delete(socket: &Path, target: &str) -> Result<String, ClientError> {
    whole(socket, answer(socket, "DELETE", target, "")?)
}

/// All of an answer.
fn whole(socket: &Path, answer: impl BufRead) -> Result<String, ClientError> {
    let mut text = String::new();
    let read = answer.take(MAX_ANSWER + 1).read_to_string(&mut text);
    read.map_err(|error| ClientError::Io(socket.to_owned(), error))?;
    if text.len() as u64 > MAX_ANSWER {
        return Err(ClientError::Answer(format!("an answer of more than {} MiB", MAX_ANSWER >> 20)));
    }
    Ok(text)
}

/// Opens `POST target` with this body; what is answered comes out of what is returned.
///
/// # Errors
/// As [`open`].
pub fn stream(socket: &Path, target: &str, body: &str) -> Result<impl BufRead + use<>, ClientError> {
    answer(socket, "POST", target, body)
}

/// The body of an answer that is no refusal.
fn answer(socket: &Path, method: &str, target: &str, body: &str) -> Result<BufReader<Body>, ClientError> {
    let answer = exchange(&Place::Unix(socket.to_owned()), method, target, body, PATIENCE);
    let answer = answer.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => ClientError::Answer(format!("{target}: {NO_WEIR}: {error}")),
        _ => ClientError::Io(socket.to_owned(), error),
    })?;
    let status = answer.status();
    let body = BufReader::new(answer.into_body());
    if status == StatusCode::OK {
        return Ok(body);
    }
    let (target, status) = (target.to_owned(), status.to_string());
    Err(match serde_json::from_str(&whole(socket, body)?) {
        Ok(problem) => ClientError::Refused { target, status, problem },
        Err(_) => ClientError::Answer(format!("{target}: {status} ({NO_WEIR})")),
    })
}

/// Faults, each on a line of its own behind what is wrong.
fn lines_of(problem: &Problem) -> String {
    let line = |fault: &Fault| {
        let line = fault.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        // What is wrong stands before it already where it is one thing.
        let said: Vec<&str> = [fault.detail.as_str(), &fault.remedy]
            .into_iter()
            .filter(|part| !part.is_empty() && *part != problem.detail)
            .collect();
        format!("\n  {line}{}: {}", fault.path, said.join("; "))
    };
    problem.faults.iter().map(line).collect()
}

/// What is said of an answer that is not weir's.
const NO_WEIR: &str = "not a weir management socket";

/// What the document of an answer other than 200 says of it.
pub fn detail(problem: &Value) -> &str {
    problem["detail"].as_str().unwrap_or(NO_WEIR)
}

/// The whole answer to `GET target`.
///
/// # Errors
/// As [`open`].
pub fn get(socket: &Path, target: &str) -> Result<String, ClientError> {
    whole(socket, open(socket, target)?)
}

/// A document for each line of a stream, as they come; an empty line is a sign of life.
pub fn lines<T: DeserializeOwned>(stream: impl BufRead) -> impl Iterator<Item = Result<T, ClientError>> {
    lines_until(stream, || false)
}

/// The same, until `asked` says so: which is looked at with every line, and with every sign of life.
pub fn lines_until<T: DeserializeOwned>(
    stream: impl BufRead,
    asked: impl Fn() -> bool,
) -> impl Iterator<Item = Result<T, ClientError>> {
    let one = |line: io::Result<String>| -> Result<Option<T>, ClientError> {
        let line = line.map_err(|error| ClientError::Answer(format!("the switch has gone: {error}")))?;
        if line.is_empty() {
            return Ok(None);
        }
        read(&line).map(Some)
    };
    stream.lines().take_while(move |_| !asked()).filter_map(move |line| one(line).transpose())
}

/// The answer to `GET target`, as what it is.
///
/// # Errors
/// As [`open`]; it is something else.
pub fn ask<T: DeserializeOwned>(socket: &Path, target: &str) -> Result<T, ClientError> {
    read(&get(socket, target)?)
}

/// What an answer is.
///
/// # Errors
/// It is something else.
pub fn read<T: DeserializeOwned>(answer: &str) -> Result<T, ClientError> {
    serde_json::from_str(answer)
        .map_err(|error| ClientError::Answer(format!("invalid JSON in response: {error}")))
}

/// The rows of a table in an answer.
///
/// # Errors
/// It has none.
pub fn rows<'a>(answer: &'a Value, table: &str) -> Result<&'a [Value], ClientError> {
    let rows = answer[table].as_array().map(Vec::as_slice);
    rows.ok_or_else(|| ClientError::Answer(format!("no `{table}` in response: {NO_WEIR}")))
}

/// A number of an answer; integers above 2^53 come as text.
pub fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

/// A counter of an answer; 0 where there is none.
pub fn counter(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// All but letters, digits and `-._~` (RFC 3986).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value for a query.
pub fn encode(value: &str) -> impl std::fmt::Display {
    utf8_percent_encode(value, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api;
    use serde_json::json;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    #[test]
    fn numbers_above_those_of_json_come_as_text() {
        let above = json!("18446744073709551615");
        assert_eq!((counter(&above), number(&above)), (u64::MAX, Some(u64::MAX as f64)));
        assert_eq!((counter(&Value::Null), number(&Value::Null)), (0, None));
    }

    #[test]
    fn an_answer_without_its_table_is_none() {
        let answer = json!({ "ports": [1], "queues": {} });
        assert_eq!(rows(&answer, "ports").unwrap(), [json!(1)]);
        for table in ["queues", "pgs"] {
            assert!(rows(&answer, table).unwrap_err().to_string().contains(table));
        }
    }

    #[test]
    fn a_stream_may_be_longer_than_any_answer_that_is_kept() {
        const PIECE: usize = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let pieces = (MAX_ANSWER as usize / PIECE) + 2;
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                // What is not read is answered with a reset.
                let head = BufReader::new(stream.try_clone().unwrap()).lines();
                assert!(head.map_while(Result::ok).any(|line| line.is_empty()));
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
                let mut piece = vec![b'x'; PIECE];
                piece[PIECE - 1] = b'\n';
                // Whoever keeps what it is told stops reading early.
                for _ in 0..pieces {
                    if stream.write_all(&piece).is_err() {
                        break;
                    }
                }
            }
        });
        let lines = stream(&path, api::WATCH, "").unwrap().lines();
        assert_eq!(lines.map(|line| line.unwrap().len() + 1).sum::<usize>(), pieces * PIECE);
        let error = get(&path, "/v1/snapshot").map(|text| text.len()).unwrap_err();
        assert!(error.to_string().contains("64 MiB"), "{error}");
        server.join().unwrap();
    }
    /// The race of the body with the end of the connection has one winner.
    #[test]
    fn an_answer_before_the_end_of_the_body_is_heard() {
        const ROUNDS: usize = 50;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                let (mut stream, _) = listener.accept().unwrap();
                let mut some = [0; 100];
                stream.read_exact(&mut some).unwrap();
                let body = r#"{"type":"about:blank","title":"","status":413,"detail":"less","instance":""}"#;
                let head =
                    format!("HTTP/1.1 413 Payload Too Large\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all((head + body).as_bytes()).unwrap();
            }
        });
        let body = "x".repeat(4 << 20);
        for _ in 0..ROUNDS {
            let error = order(&path, api::CONFIG, &body).unwrap_err().to_string();
            assert!(error.contains("413 Payload Too Large (less)"), "{error}");
        }
        server.join().unwrap();
    }
}

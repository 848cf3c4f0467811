//! The HTTP server on a thread of its own: reads a [`Source`] ten times a second, answers from the last
//! snapshot, and hands orders to whoever runs the switch.

mod endpoints;
mod fdb;
mod guard;
mod inc;
mod listen;
mod long;
mod orders;
mod paced;
pub(crate) mod problem;
mod routes;
mod stamp;
mod stream;
mod tls;
mod tokens;
mod watching;

use crate::access::{TokenFiles, Tokens};
use crate::admin::Desk;
use crate::credentials::CredentialsReading;
use crate::events::{self, Log, Watcher};
use crate::flows::export::Exporter;
use crate::history::History;
use crate::latency::Intervals;
use crate::metrics::OwnCounters;
use crate::sample::Sampler;
use crate::snapshot::{News, Reading, Snapshot, Source};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Notify, oneshot};

pub(crate) use endpoints::{Serve, endpoints};
pub use listen::{default_socket, folders, is_private, is_socket_of, unix as unix_listener};
pub use orders::values;
pub use tls::TlsFiles;

/// How often the switch is looked at.
pub const SAMPLE: Duration = Duration::from_millis(100);

/// A sample this old means that the thread no longer takes any.
const STALE: Duration = Duration::from_secs(2);

/// Where and to whom to speak.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// TCP address; port 0: any free one.
    pub listen: Option<SocketAddr>,
    /// If the port is taken, use any free one instead of failing.
    pub any_port: bool,
    /// Path of the Unix socket.
    pub socket: Option<PathBuf>,
    /// What TCP clients have to present. Without one for reading only loopback addresses are served.
    pub tokens: Tokens,
    /// Where these are read again once they have been written to.
    pub token_files: TokenFiles,
    /// What TCP clients are answered with TLS by; `None`: in the clear.
    pub tls: Option<TlsFiles>,
    /// Names that this server has beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Where orders are handed in; `None`: none are taken.
    pub desk: Option<Desk>,
    /// How long a client may take to send a request, to read an answer, or to stay silent; `None`: 10 s.
    pub patience: Option<Duration>,
}

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address others can reach, and no token.
    #[error("mgmt: {0} can be reached from outside: set token_file, or listen on 127.0.0.1")]
    Exposed(SocketAddr),
    /// Certificate or key are none.
    #[error("mgmt: TLS: {0}")]
    Tls(String),
    /// The address cannot be had.
    #[error("mgmt: cannot listen on {0}: {1}; choose another `[mgmt] listen`, or \"off\"")]
    Tcp(SocketAddr, std::io::Error),
    /// The socket cannot be had.
    #[error("mgmt: cannot listen on {0}: {1}; choose another `[mgmt] socket`, or \"off\"")]
    Unix(PathBuf, std::io::Error),
    /// No thread.
    #[error("mgmt: cannot start: {0}")]
    Thread(std::io::Error),
}

/// The last snapshot taken, for other readers in this process. Empty until there is one.
#[derive(Clone, Debug, Default)]
pub struct Latest(Arc<Mutex<Arc<Snapshot>>>);

impl Latest {
    /// The snapshot.
    pub fn get(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.0))
    }

    fn set(&self, snapshot: Arc<Snapshot>) {
        *lock(&self.0) = snapshot;
    }
}

/// A running server. Stops when dropped.
#[derive(Debug)]
pub struct Server {
    latest: Latest,
    address: Option<SocketAddr>,
    /// `https` where TCP speaks TLS.
    scheme: &'static str,
    socket: Option<PathBuf>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all requests share.
pub(crate) struct App {
    latest: Latest,
    history: Mutex<History>,
    intervals: Mutex<Intervals>,
    sampled: Mutex<Instant>,
    log: Mutex<Log>,
    news: Notify,
    /// Each look at the switch.
    looks: Notify,
    answers: Mutex<BTreeMap<u16, u64>>,
    refused: AtomicU64,
    malformed: AtomicU64,
    slow: Arc<AtomicU64>,
    streams: stream::Streams,
    sending: long::Sending,
    asked: Asked,
}

/// What clients and the switch present to each other.
struct Credentials {
    tokens: tokens::TokenKeeper,
    tls: Option<tls::Tls>,
}

impl Credentials {
    fn reading(&self) -> CredentialsReading {
        let mut files = self.tokens.readings();
        let (of_tls, validity) = self.tls.as_ref().map(tls::Tls::reading).unzip();
        files.extend(of_tls.map(|reading| (tls::KEY, reading)));
        CredentialsReading { validity: validity.flatten(), files }
    }
}

/// What of the options every request is measured by.
pub(crate) struct Asked {
    credentials: Arc<Credentials>,
    hosts: Vec<String>,
    desk: Option<Desk>,
    patience: Duration,
}

impl std::ops::Deref for App {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.latest.get()
    }

    fn own(&self) -> OwnCounters {
        OwnCounters {
            answers: lock(&self.answers).iter().map(|(code, n)| (*code, *n)).collect(),
            refused: self.refused.load(Relaxed),
            malformed: self.malformed.load(Relaxed),
            slow: self.slow.load(Relaxed),
        }
    }

    fn is_fresh(&self) -> bool {
        lock(&self.sampled).elapsed() < STALE
    }
}

impl Server {
    /// Opens the listeners and starts the thread. The thread runs where the caller may run.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left behind.
    pub fn start(options: Options, source: impl Source) -> Result<Self, StartError> {
        if let Some(address) =
            options.listen.filter(|a| !a.ip().is_loopback() && options.tokens.read.is_none())
        {
            return Err(StartError::Exposed(address));
        }
        let tls = options.tls.clone().map(tls::Tls::new).transpose().map_err(StartError::Tls)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let tcp = options
            .listen
            .map(|address| {
                listen::tcp(address, options.any_port).map_err(|error| StartError::Tcp(address, error))
            })
            .transpose()?;
        let unix = options
            .socket
            .map(|path| listen::unix(&path).map_err(|error| StartError::Unix(path, error)))
            .transpose()?;
        let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let (listener, socket) = unix.map_or((None, None), |(listener, path)| (Some(listener), Some(path)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(StartError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let latest = Latest::default();
        let shared = latest.clone();
        let asked = Asked {
            credentials: Arc::new(Credentials {
                tokens: tokens::TokenKeeper::new(options.tokens, options.token_files),
                tls,
            }),
            hosts: options.hosts,
            desk: options.desk,
            patience: options.patience.unwrap_or(Duration::from_secs(10)),
        };
        let thread = std::thread::Builder::new()
            .name("mgmt".into())
            .spawn(move || runtime.block_on(serve(source, shared, tcp, listener, asked, stopped)))
            .map_err(StartError::Thread)?;
        Ok(Self { latest, address, scheme, socket, stop: Some(stop), thread: Some(thread) })
    }

    /// The TCP address it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where a browser finds the page.
    pub fn url(&self) -> Option<String> {
        self.address.map(|address| format!("{}://{address}", self.scheme))
    }

    /// Where the last snapshot is.
    pub fn latest(&self) -> Latest {
        self.latest.clone()
    }

    /// The Unix socket it listens on.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that has panicked has said so; there is nothing to add.
        let _ = self.thread.take().map(JoinHandle::join);
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

async fn serve(
    mut source: impl Source,
    latest: Latest,
    tcp: Option<std::net::TcpListener>,
    unix: Option<std::os::unix::net::UnixListener>,
    asked: Asked,
    stopped: oneshot::Receiver<()>,
) {
    let mut sampler = Sampler::new(source.info());
    let mut watcher = Watcher::default();
    let mut exporter = Exporter::default();
    let start = Instant::now();
    let credentials = Arc::clone(&asked.credentials);
    let mut look = |(reading, news): (Reading, Vec<News>), log: &mut Log| {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut events = Vec::new();
        for news in news {
            match news {
                News::Info(info) => sampler.renew(*info),
                News::Event { kind, phase, fields } => events.push((kind, phase, fields)),
            }
        }
        let mut snapshot =
            sampler.sample(reading, unix.as_millis() as u64, start.elapsed().as_millis() as u64);
        for (kind, phase, fields) in events {
            events::report(&snapshot, kind, phase, fields, log);
        }
        exporter.observe(&mut snapshot);
        snapshot.credentials = credentials.reading();
        watcher.observe(&snapshot, log);
        Arc::new(snapshot)
    };
    let mut log = Log::default();
    latest.set(look((source.read(), source.news()), &mut log));
    let app = Arc::new(App {
        latest,
        history: Mutex::default(),
        intervals: Mutex::default(),
        sampled: Mutex::new(Instant::now()),
        log: Mutex::new(log),
        news: Notify::new(),
        looks: Notify::new(),
        answers: Mutex::default(),
        refused: AtomicU64::new(0),
        malformed: AtomicU64::new(0),
        slow: Arc::default(),
        streams: stream::Streams::default(),
        sending: long::Sending::default(),
        asked,
    });
    if let Some(tcp) = tcp.and_then(|tcp| tokio::net::TcpListener::from_std(tcp).ok()) {
        tokio::spawn(listen::accept_tcp(tcp, Arc::clone(&app)));
    }
    if let Some(unix) = unix.and_then(|unix| tokio::net::UnixListener::from_std(unix).ok()) {
        tokio::spawn(listen::accept_unix(unix, Arc::clone(&app)));
    }
    let sampling = async {
        let mut interval = tokio::time::interval(SAMPLE);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        interval.tick().await;
        loop {
            interval.tick().await;
            let mut log = lock(&app.log);
            let before = log.last();
            let snapshot = look((source.read(), source.news()), &mut log);
            let news = log.last() > before;
            drop(log);
            lock(&app.history).observe(&snapshot);
            lock(&app.intervals).observe(&snapshot);
            app.latest.set(snapshot);
            *lock(&app.sampled) = Instant::now();
            app.looks.notify_waiters();
            if news {
                app.news.notify_waiters();
            }
        }
    };
    // Whoever drops the server wants it to end; the connections end with the runtime.
    futures_util::future::select(Box::pin(sampling), stopped).await;
    exporter.end(&app.snapshot());
}

#[cfg(test)]
mod access_tests;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod orders_tests;

#[cfg(test)]
pub(crate) use orders_tests::in_force as tests_in_force;

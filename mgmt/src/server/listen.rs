//! Listening sockets, and what every connection gets: a place, a pace, an end.

use super::App;
use super::paced::Paced;
use super::problem::message;
use super::routes::{self, Via};
use crate::token::us;
use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at a time; the local socket has its own, so a crowd on TCP does not lock the operator out.
const TCP_CONNECTIONS: usize = 64;
const UNIX_CONNECTIONS: usize = 32;

/// Longest head of a request, bytes, and most header fields.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// What is said to those for whom there is no place.
fn full() -> Vec<u8> {
    message(StatusCode::SERVICE_UNAVAILABLE, "as many clients are connected as may be")
}

/// A listener on this address, or on a free port of it.
pub(super) fn tcp(address: SocketAddr, any_port: bool) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse if any_port => TcpListener::bind((address.ip(), 0)),
        _ => Err(error),
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A listener on a Unix socket for its owner alone. A socket nobody answers on any more is replaced;
/// one that is alive stays, and this process takes a name with its number.
pub fn unix(path: &Path) -> io::Result<(UnixListener, PathBuf)> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| of_folder(folder, &error, "cannot be made"))?;
    }
    if let Some(folder) = path.parent().filter(|folder| folders().contains(&folder.to_path_buf()))
        && !is_private(folder)
    {
        let why = format!("{} belongs to somebody else, or others may write there", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut path = path.to_owned();
    if let Ok(file) = path.symlink_metadata() {
        if !file.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "what is there is not a socket, and stays",
            ));
        }
        if UnixStream::connect(&path).is_ok() {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            path.set_file_name(format!("{stem}-{}.sock", std::process::id()));
        } else {
            std::fs::remove_file(&path)?;
        }
    }
    let listener = bind(&path)?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Made where nobody else can look, and moved to its place once it is its owner's alone.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let own = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(folder)
        .map_err(|error| of_folder(folder, &error, "takes no files"))?;
    let made = own.path().join("s");
    let listener = UnixListener::bind(&made)?;
    std::fs::set_permissions(&made, Permissions::from_mode(0o600))?;
    std::fs::rename(&made, path)?;
    Ok(listener)
}

/// What is wrong with the folder of a socket, and whose it is where it is another user's.
fn of_folder(folder: &Path, error: &io::Error, what: &str) -> io::Error {
    let owner = std::fs::metadata(folder).ok().map(|meta| meta.uid()).filter(|owner| *owner != us());
    let owner = owner
        .map_or_else(String::new, |owner| format!("; it belongs to user {owner}, this is user {}", us()));
    io::Error::new(error.kind(), format!("its folder {} {what}: {}{owner}", folder.display(), error.kind()))
}

/// Nobody can put something in this folder, or take something away, but us, the system's administrator, and the user whom the
/// administrator gave it: where root alone can make folders (`/run`), the owner of one was chosen by root.
pub fn is_private(folder: &Path) -> bool {
    let closed = |path: &Path| {
        let meta = std::fs::metadata(path).ok().filter(|meta| meta.is_dir() && meta.mode() & 0o022 == 0);
        meta.map(|meta| meta.uid())
    };
    let is_link = std::fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_symlink());
    let given_by_root = || folder.parent().and_then(closed) == Some(0);
    !is_link && closed(folder).is_some_and(|owner| [0, us()].contains(&owner) || given_by_root())
}

/// Folders of sockets whose path nobody chose, those of DPDK: our own first, then that of a service, which runs without
/// the session of a user. What runs in a service looks in the folder of that alone.
pub fn folders() -> Vec<PathBuf> {
    let named = |variable: &str| std::env::var_os(variable).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    // A service has the folder its unit asks for (systemd.exec(5)); of several the first.
    if let Some(dirs) = named("RUNTIME_DIRECTORY") {
        let dirs = dirs.to_string_lossy().into_owned();
        let first = PathBuf::from(dirs.split(':').next().unwrap_or_default());
        return vec![if first.ends_with("weir") { first } else { first.join("weir") }];
    }
    let own = match named("XDG_RUNTIME_DIR") {
        Some(dir) => Some(dir.join("weir")),
        None if us() == 0 => None,
        None => Some(std::env::temp_dir().join("weir")),
    };
    let mut all: Vec<PathBuf> = own.into_iter().chain(["/var/run/weir".into()]).collect();
    all.dedup();
    all
}

/// What the socket of a switch of this name is called, without `.sock`. It has no `-`, which stands before the number of a
/// process.
fn socket_stem(switch: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    switch.chars().map(safe).collect()
}

/// Socket of a switch of this name.
pub fn default_socket(switch: &str) -> PathBuf {
    folders().swap_remove(0).join(format!("{}.sock", socket_stem(switch)))
}

/// A switch of this name may have this socket, be it the first one of that name or a later one; or, `NAME-PID`, that later
/// one.
pub fn is_socket_of(path: &Path, switch: &str) -> bool {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    stem.is_some_and(|stem| stem == switch || stem.split('-').next() == Some(&*socket_stem(switch)))
}

pub(super) async fn accept_tcp(listener: tokio::net::TcpListener, app: Arc<App>) {
    let places = Arc::new(Semaphore::new(TCP_CONNECTIONS));
    loop {
        match (listener.accept().await, Arc::clone(&places).try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(over_tcp(stream, place, Arc::clone(&app)));
            }
            (Ok((stream, _)), Err(_)) => {
                app.refused.fetch_add(1, Relaxed);
                // In the clear it would be a wrong version of TLS to the client.
                if app.credentials.tls.is_none() {
                    let _ = stream.try_write(&full());
                }
            }
            // Out of file descriptors, most likely: they come back.
            (Err(_), _) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

pub(super) async fn accept_unix(listener: tokio::net::UnixListener, app: Arc<App>) {
    let places = Arc::new(Semaphore::new(UNIX_CONNECTIONS));
    loop {
        match (listener.accept().await, Arc::clone(&places).try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                // The mode of the socket keeps others away, unless somebody changes it.
                let owner = stream.peer_cred().is_ok_and(|peer| [0, us()].contains(&peer.uid()));
                let via = if owner { Via::Owner } else { Via::Stranger };
                tokio::spawn(connection(stream, place, via, Arc::clone(&app)));
            }
            (Ok((stream, _)), Err(_)) => {
                app.refused.fetch_add(1, Relaxed);
                let _ = stream.try_write(&full());
            }
            (Err(_), _) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// As it is, or once the two sides agree on keys.
async fn over_tcp(stream: tokio::net::TcpStream, place: OwnedSemaphorePermit, app: Arc<App>) {
    let Some(tls) = &app.credentials.tls else { return connection(stream, place, Via::Tcp, app).await };
    match tokio::time::timeout(app.patience, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => connection(stream, place, Via::Tcp, Arc::clone(&app)).await,
        // What comes without TLS, or asks for what is no longer safe.
        Ok(Err(_)) => drop(app.malformed.fetch_add(1, Relaxed)),
        Err(_) => drop(app.slow.fetch_add(1, Relaxed)),
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    place: OwnedSemaphorePermit,
    via: Via,
    app: Arc<App>,
) {
    let paced = Paced::new(stream, app.patience, Arc::clone(&app.slow));
    let service = TowerToHyperService::new(routes::router(&app, via));
    let served = http1::Builder::new()
        // Whoever has asked and closes that side still wants the answer.
        .half_close(true)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(paced), service)
        .await;
    if served.is_err_and(|error| error.is_parse()) {
        app.malformed.fetch_add(1, Relaxed);
    }
    drop(place);
}

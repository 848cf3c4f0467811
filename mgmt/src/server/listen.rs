//! Listening sockets, and what every connection gets: a place, a pace, an end.

use super::App;
use super::paced::Paced;
use super::routes::{self, Via};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
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

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

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
pub(super) fn unix(path: &Path) -> io::Result<(UnixListener, PathBuf)> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut path = path.to_owned();
    if path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket()) {
        if UnixStream::connect(&path).is_ok() {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            path.set_file_name(format!("{stem}-{}.sock", std::process::id()));
        } else {
            std::fs::remove_file(&path)?;
        }
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Folder of sockets whose path nobody chose: where DPDK keeps its own.
pub fn default_folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("weir"),
        None if std::fs::metadata("/proc/self")
            .is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) =>
        {
            PathBuf::from("/var/run/weir")
        }
        None => std::env::temp_dir().join("weir"),
    }
}

/// Socket of a switch of this name.
pub fn default_socket(switch: &str) -> PathBuf {
    let safe: String = switch.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    default_folder().join(format!("{safe}.sock"))
}

pub(super) async fn accept_tcp(listener: tokio::net::TcpListener, app: Arc<App>) {
    let places = Arc::new(Semaphore::new(TCP_CONNECTIONS));
    loop {
        match (listener.accept().await, Arc::clone(&places).try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(connection(stream, place, Via::Tcp, Arc::clone(&app)));
            }
            (Ok((stream, _)), Err(_)) => {
                app.refused.fetch_add(1, Relaxed);
                let _ = stream.try_write(FULL);
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
                tokio::spawn(connection(stream, place, Via::Unix, Arc::clone(&app)));
            }
            (Ok((stream, _)), Err(_)) => {
                app.refused.fetch_add(1, Relaxed);
                let _ = stream.try_write(FULL);
            }
            (Err(_), _) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
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

//! Sockets of ports on shared memory (`net_memif`, `net_vhost`).
//!
//! A server listens at a socket with a name in the file system, which stays there if the server is killed. The driver
//! refuses the next start because of it, so what nobody listens at any more is removed. Whoever may connect shares
//! memory with the switch: that is its owner alone.

use super::devargs;
use crate::output::say_err;
use std::fs::Permissions;
use std::io::ErrorKind::ConnectionRefused;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use weir_dataplane::config::PortConfig;

/// The socket file a port of this driver will make.
fn socket(device: &str) -> Option<&Path> {
    let memif = |key| devargs::argument(device, &["net_memif"], key);
    let vhost = |key| devargs::argument(device, &["net_vhost", "eth_vhost"], key);
    let is_memif =
        matches!(memif("role"), Some("server" | "master")) && memif("socket-abstract") == Some("no");
    let named = memif("socket").filter(|_| is_memif);
    named.or_else(|| vhost("iface").filter(|_| matches!(vhost("client"), None | Some("0")))).map(Path::new)
}

/// A socket nobody listens at. One of the driver's that is in use answers that it is of another type.
fn is_deserted(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == ConnectionRefused)
}

/// Removes what an earlier run has left where this port's socket will be; anything else stays as it is.
pub fn clear_way(port: &PortConfig) {
    if let Some(path) = socket(&port.device)
        && is_deserted(path)
        && std::fs::remove_file(path).is_ok()
    {
        say_err!("weir: port {}: removed {}, left by a run that was killed", port.name, path.display());
    }
}

/// Lets nobody but the owner connect to the socket this port has made.
pub fn close_to_others(port: &PortConfig) {
    if let Some(path) = socket(&port.device)
        && let Err(error) = std::fs::set_permissions(path, Permissions::from_mode(0o600))
    {
        say_err!("weir: port {}: others may connect to {}: {error}", port.name, path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_servers_make_socket_files() {
        let server = "net_memif0,role=server,id=0,socket=/run/a.sock,socket-abstract=no";
        assert_eq!(socket(server), Some(Path::new("/run/a.sock")));
        for other in [
            "net_memif0,role=client,socket=/run/a.sock,socket-abstract=no",
            "net_memif0,role=server,socket=/run/a.sock",
            "net_memif0,socket=/run/a.sock,socket-abstract=no",
            "net_memif0,role=server,socket-abstract=no",
            "net_tap0,role=server,socket=/run/a.sock,socket-abstract=no",
        ] {
            assert_eq!(socket(other), None, "{other}");
        }
        for vhost in ["net_vhost0,iface=/run/a.sock", "eth_vhost1,queues=1,iface=/run/a.sock,client=0"] {
            assert_eq!(socket(vhost), Some(Path::new("/run/a.sock")), "{vhost}");
        }
        for other in ["net_vhost0,iface=/run/a.sock,client=1", "net_virtio_user0,path=/run/a.sock"] {
            assert_eq!(socket(other), None, "{other}");
        }
    }

    #[test]
    fn only_a_socket_nobody_listens_at_is_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        assert!(!is_deserted(&path), "nothing there");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!is_deserted(&path), "in use");
        drop(listener);
        assert!(is_deserted(&path));
        let file = folder.path().join("file");
        std::fs::write(&file, "something else").unwrap();
        assert!(!is_deserted(&file));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(!is_deserted(&link), "somebody has put that there on purpose");
    }
}

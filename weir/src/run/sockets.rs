//! Sockets of ports on shared memory (`net_memif`, `net_vhost`).
//!
//! A server listens at a socket with a name in the file system, which stays there if the server is killed. The driver
//! refuses the next start because of it, so what nobody listens at any more is removed. One that is in use is refused
//! before the driver sees it: that of vhost would remove it, and guests of the switch that lives would find it no more.
//! Whoever may connect shares memory with the switch: that is its owner alone.

use super::devargs;
use crate::output::say_err;
use anyhow::{Result, bail};
use std::fs::Permissions;
use std::io::ErrorKind::ConnectionRefused;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use weir_config::PortConfig;

/// The socket file a port of this driver will make.
fn socket(device: &str) -> Option<&Path> {
    let memif = |key| devargs::argument(device, &["net_memif"], key);
    let vhost = |key| devargs::argument(device, &["net_vhost", "eth_vhost"], key);
    let is_memif =
        matches!(memif("role"), Some("server" | "master")) && memif("socket-abstract") == Some("no");
    let named = memif("socket").filter(|_| is_memif);
    named.or_else(|| vhost("iface").filter(|_| matches!(vhost("client"), None | Some("0")))).map(Path::new)
}

/// What is in the way of a socket.
#[derive(Debug, PartialEq)]
enum Way {
    /// Nothing, or what is no socket: the driver's to say.
    Free,
    /// A socket nobody listens at.
    Deserted,
    /// A socket somebody may listen at. A memif driver answers that its socket is of another type.
    InUse,
}

fn way(path: &Path) -> Way {
    if !std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
        return Way::Free;
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ConnectionRefused => Way::Deserted,
        _ => Way::InUse,
    }
}

/// Removes what an earlier run has left where this port's socket will be; anything else stays as it is.
///
/// # Errors
/// Somebody listens there.
pub fn clear_way(port: &PortConfig) -> Result<()> {
    let Some(path) = socket(&port.device) else { return Ok(()) };
    match way(path) {
        Way::Free => {}
        Way::Deserted => {
            if std::fs::remove_file(path).is_ok() {
                say_err!(
                    "weir: port {}: removed {}, left by a run that was killed",
                    port.name,
                    path.display()
                );
            }
        }
        Way::InUse => {
            bail!("{} is in use by another process: stop it, or name another socket", path.display())
        }
    }
    Ok(())
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
        assert_eq!(way(&path), Way::Free);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(way(&path), Way::InUse);
        drop(listener);
        assert_eq!(way(&path), Way::Deserted);
        let file = folder.path().join("file");
        std::fs::write(&file, "something else").unwrap();
        assert_eq!(way(&file), Way::Free);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(way(&link), Way::Free, "somebody has put that there on purpose");
    }
}

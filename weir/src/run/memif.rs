//! Ports on shared memory (`net_memif`).
//!
//! A server listens at a socket with a name in the file system, which stays there if the server is killed. The driver
//! refuses the next start because of it and does not say why, so what nobody listens at any more is removed.

use super::devargs;
use crate::output::say_err;
use std::io::ErrorKind::ConnectionRefused;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use weir_dataplane::config::PortConfig;

/// The socket file a port of this driver will make.
fn socket(device: &str) -> Option<&Path> {
    let value = |key| devargs::argument(device, &["net_memif"], key);
    let is_ours =
        matches!(value("role"), Some("server" | "master")) && value("socket-abstract") == Some("no");
    value("socket").filter(|_| is_ours).map(Path::new)
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

//! Sockets of ports on shared memory (`net_memif`, `net_vhost`).
//!
//! A server listens at a socket with a name in the file system, which stays there if the server is killed. The driver
//! refuses the next start because of it, so what nobody listens at any more is removed. One that is in use is refused
//! before the driver sees it: that of vhost would remove it, and guests of the switch that lives would find it no more.
//! Whoever may connect shares memory with the switch: that is its owner alone.
//!
//! The socket of a memif server is ours, and the driver's lies behind it ([`MemifListener`] says why).

use super::devargs;
use crate::machine::Machine;
use crate::output::say_err;
use crate::refusal::refuse;
use anyhow::{Context, Result, bail};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::Permissions;
use std::io::ErrorKind::{ConnectionRefused, NotFound};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use weir_config::{MEMIF_SOCKET, PortConfig};
use weir_dpdk::{Eal, MemifAddress, MemifListener};

/// Where a memif server listens, and whether this device is that server, or a client of it.
fn memif(device: &str) -> Option<(MemifAddress, bool)> {
    if !device.starts_with("net_memif") {
        return None;
    }
    let memif = |key| devargs::argument(device, &["net_memif"], key);
    let is_server = matches!(memif("role"), Some("server" | "master"));
    let socket = memif("socket").unwrap_or(MEMIF_SOCKET);
    let address = match memif("socket-abstract") {
        Some("no") => MemifAddress::Path(socket.into()),
        _ => MemifAddress::Abstract(socket.into()),
    };
    Some((address, is_server))
}

/// Where peers of a memif server connect.
fn memif_server(device: &str) -> Option<MemifAddress> {
    memif(device).filter(|(_, is_server)| *is_server).map(|(address, _)| address)
}

/// The server of a memif client, if nobody listens there, and none of these ports will. The driver tries once, when the device
/// starts, and says no more than that it failed.
pub fn missing_server(device: &str, ports: &[PortConfig], machine: &Machine) -> Option<String> {
    let (address, _) = memif(device).filter(|(_, is_server)| !is_server)?;
    if ports.iter().any(|port| memif_server(&port.device).as_ref() == Some(&address)) {
        return None;
    }
    match address {
        // A socket of another type meets nobody, but those who listen are told from none.
        MemifAddress::Path(path) => {
            let refused = UnixStream::connect(&path).err()?;
            matches!(refused.kind(), ConnectionRefused | NotFound).then(|| path.display().to_string())
        }
        // Those are found by name and type, and whoever connects is a peer.
        MemifAddress::Abstract(name) => {
            let suffix = format!(" @{name}");
            let all = machine.text("proc/net/unix")?;
            (!all.lines().any(|line| line.ends_with(&suffix))).then(|| format!("the abstract socket {name}"))
        }
    }
}

/// The socket file the driver of this port will make.
fn driver_socket(device: &str) -> Option<&Path> {
    let vhost = |key| devargs::argument(device, &["net_vhost", "eth_vhost"], key);
    vhost("iface").filter(|_| matches!(vhost("client"), None | Some("0"))).map(Path::new)
}

/// The socket file there will be for a port.
fn socket(device: &str) -> Option<PathBuf> {
    match memif_server(device) {
        Some(MemifAddress::Path(path)) => Some(path),
        Some(MemifAddress::Abstract(_)) => None,
        None => driver_socket(device).map(Path::to_path_buf),
    }
}

/// Longest name of a socket, bytes: `sun_path` of `struct sockaddr_un`, less the 0 at its end.
const LONGEST: usize = 107;

/// That the socket of a port can be made, or connected to: its name fits, which the driver of vhost cuts off without a word, and the
/// folder of a server's is there.
///
/// # Errors
/// What is wrong with it.
pub fn fits(port: &PortConfig) -> Result<()> {
    let named = |drivers: &[&str], key| devargs::argument(&port.device, drivers, key);
    let name = named(&["net_memif"], "socket")
        .or_else(|| named(&["net_vhost", "eth_vhost"], "iface"))
        .or_else(|| named(&["net_virtio_user"], "path"));
    if let Some(name) = name.filter(|name| name.len() > LONGEST) {
        let what = format!("the socket's name has {} bytes, and can have {LONGEST}: {name}", name.len());
        return Err(refuse("", what, "name a shorter one"));
    }
    let Some(path) = socket(&port.device) else { return Ok(()) };
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if !folder.is_dir() => {
            let what = format!("no folder {} is here for the socket", folder.display());
            Err(refuse("", what, "make it first (mkdir -p), or name another socket"))
        }
        _ => Ok(()),
    }
}

/// Sockets of memif servers, several ports may share one: peers can connect as long as this lives.
#[derive(Debug, Default)]
pub struct MemifSockets {
    drivers: BTreeMap<MemifAddress, PathBuf>,
    listeners: BTreeMap<MemifAddress, MemifListener>,
}

impl MemifSockets {
    /// What the driver of this port is told: a memif server listens where nobody but we connect.
    pub fn devargs<'a>(&mut self, eal: &Eal, device: &'a str) -> Cow<'a, str> {
        let Some(address) = memif_server(device) else { return device.into() };
        let number = self.drivers.len();
        let socket = self.drivers.entry(address).or_insert_with(|| {
            let socket = eal.runtime_folder().join(format!("memif{number}.sock"));
            // Of an earlier process with this `--file-prefix`; the EAL has seen to it that it is gone.
            let _ = std::fs::remove_file(&socket);
            socket
        });
        let others = device.split(',').filter(|part| !part.starts_with("socket"));
        let ours = format!("socket={},socket-abstract=no", socket.display());
        others.chain([ours.as_str()]).collect::<Vec<_>>().join(",").into()
    }

    /// Peers of this port can connect already, as those of another one with the same socket.
    pub fn accepts(&self, device: &str) -> bool {
        memif_server(device).is_some_and(|address| self.listeners.contains_key(&address))
    }

    /// Peers of a port can connect; they are answered when this serves.
    ///
    /// # Errors
    /// The address is in use, or cannot be had.
    pub fn listen(&mut self, device: &str) -> Result<()> {
        let Some(address) = memif_server(device) else { return Ok(()) };
        let Entry::Vacant(place) = self.listeners.entry(address) else { return Ok(()) };
        let listener = MemifListener::listen(place.key()).with_context(|| match place.key() {
            MemifAddress::Path(path) => format!("cannot listen at {}", path.display()),
            MemifAddress::Abstract(name) => format!("cannot listen at the abstract socket {name}"),
        })?;
        place.insert(listener);
        Ok(())
    }

    /// All devices have started: peers are connected with their drivers.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn serve(&mut self) -> Result<()> {
        for (address, listener) in &mut self.listeners {
            listener.serve(&self.drivers[address]).context("no thread for the sockets of memif")?;
        }
        Ok(())
    }
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
    match way(&path) {
        Way::Free => {}
        Way::Deserted => {
            if std::fs::remove_file(&path).is_ok() {
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

/// Lets nobody but the owner connect to the socket the driver of this port has made.
pub fn close_to_others(port: &PortConfig) {
    if let Some(path) = driver_socket(&port.device)
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
    fn only_servers_listen() {
        let server = "net_memif0,role=server,id=0,socket=/run/a.sock,socket-abstract=no";
        assert_eq!(socket(server), Some("/run/a.sock".into()));
        for (device, name) in [
            ("net_memif0,role=server,socket=/run/a.sock", "/run/a.sock"),
            ("net_memif0,role=master,socket-abstract=yes", MEMIF_SOCKET),
        ] {
            assert_eq!(memif_server(device), Some(MemifAddress::Abstract(name.into())), "{device}");
            assert_eq!(socket(device), None, "{device}");
        }
        for other in [
            "net_memif0,role=client,socket=/run/a.sock,socket-abstract=no",
            "net_memif0,socket=/run/a.sock,socket-abstract=no",
            "net_tap0,role=server,socket=/run/a.sock,socket-abstract=no",
        ] {
            assert_eq!(memif_server(other), None, "{other}");
            assert_eq!(socket(other), None, "{other}");
        }
        for vhost in ["net_vhost0,iface=/run/a.sock", "eth_vhost1,queues=1,iface=/run/a.sock,client=0"] {
            assert_eq!(socket(vhost), Some("/run/a.sock".into()), "{vhost}");
        }
        for other in ["net_vhost0,iface=/run/a.sock,client=1", "net_virtio_user0,path=/run/a.sock"] {
            assert_eq!(socket(other), None, "{other}");
        }
    }

    #[test]
    fn a_client_needs_a_server_that_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let client = format!("net_memif0,role=client,socket={},socket-abstract=no", path.display());
        let abstract_client = "net_memif0,socket=weir-nobody";
        let listed = |lines: &str| {
            std::fs::create_dir_all(folder.path().join("proc/net")).unwrap();
            std::fs::write(folder.path().join("proc/net/unix"), lines).unwrap();
        };
        let machine = Machine::new(folder.path());
        let missing = |device: &str| missing_server(device, &[], &machine);
        assert_eq!(missing(&client), Some(path.display().to_string()));
        assert_eq!(missing(abstract_client), None, "nobody tells");
        listed("Num Path\n0: 00000002 00000000 00010000 0005 01 4711 @weir-nobody-else\n");
        assert!(missing(abstract_client).is_some_and(|server| server.contains("weir-nobody")));
        listed("Num Path\n0: 00000002 00000000 00010000 0005 01 4711 @weir-nobody\n");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!((missing(&client), missing(abstract_client)), (None, None));
        drop(listener);
        assert!(missing(&client).is_some());
        for other in ["net_memif0,role=server,socket=/nowhere,socket-abstract=no", "net_null0", "ring"] {
            assert_eq!(missing(other), None, "{other}");
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

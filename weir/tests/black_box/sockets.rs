//! Socket files of ports on shared memory, after a switch was killed. No root.

use crate::support::program::{Switch, weir};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A switch whose port listens at a socket file is killed: the file is left, and is not in the way of the next one. It
/// is in the way of a second one beside that, which leaves it alone.
fn starts_again_but_not_beside_one_that_lives(device: impl Fn(&Path) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a.sock");
    let config = format!(
        "[buffer]\nsize = \"2MiB\"\nframes = 4096\n[port_defaults]\nrate = \"10G\"\n[[port]]\nname = \"a\"\n\
         device = \"{}\"\n",
        device(&socket)
    );
    let mut killed = Switch::start(&config);
    killed.program().signal(Signal::SIGKILL);
    assert_eq!(killed.ended().code(), None);
    assert!(socket.exists(), "it is in the way");

    let mut again = Switch::start(&config);
    again.program().says("removed");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "whoever connects shares memory with the switch");
    let file = folder.path().join("switch.toml");
    std::fs::write(&file, &config).unwrap();
    let second = weir(&["run".as_ref(), file.as_os_str()]);
    assert_eq!(second.code(), Some(2), "{second:?}");
    assert!(second.stderr.contains("port a") && second.stderr.contains("is in use"), "{}", second.stderr);
    assert!(socket.exists());
    again.stop();
    assert!(!socket.exists());
}

#[test]
fn a_memif_server_that_was_killed_starts_again() {
    starts_again_but_not_beside_one_that_lives(|socket| {
        format!("net_memif0,role=server,id=0,socket={},socket-abstract=no", socket.display())
    });
}

#[test]
fn a_vhost_server_that_was_killed_starts_again() {
    starts_again_but_not_beside_one_that_lives(|socket| format!("net_vhost0,iface={}", socket.display()));
}

/// Clients of memif that are gone before they are greeted, such as those that are killed as they start: the driver by
/// itself ends the process over the eighth or so.
#[test]
fn memif_clients_that_leave_at_once_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let name = format!("weir-test-{}", std::process::id());
    let port = |n: u8, socket: &str| {
        format!("[[port]]\nname = \"p{n}\"\ndevice = \"net_memif{n},role=server,id={n},{socket}\"\n")
    };
    let (named, hidden) = (format!("socket={},socket-abstract=no", path.display()), format!("socket={name}"));
    let ports = port(0, &named) + &port(1, &named) + &port(2, &hidden);
    let base = "[buffer]\nsize = \"2MiB\"\nframes = 4096\n[port_defaults]\nrate = \"10G\"\n";
    let mut switch = Switch::start(&format!("{base}{ports}"));
    for address in [UnixAddr::new(&path).unwrap(), UnixAddr::new_abstract(name.as_bytes()).unwrap()] {
        for _ in 0..300 {
            let client = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::empty(), None).unwrap();
            connect(client.as_raw_fd(), &address).unwrap();
        }
    }
    let client = folder.path().join("client.toml");
    let text = format!(
        "[[port]]\nname = \"h\"\ndevice = \"net_memif9,role=client,id=2,{hidden}\"\nmac = \"02:00:00:00:00:01\"\n\
         ip = \"10.0.0.1\"\nrate = \"1G\"\n[[qp]]\npeer_ip = \"10.0.0.2\"\npeer_qpn = 17\n"
    );
    std::fs::write(&client, text).unwrap();
    let host = weir(&["host".as_ref(), client.as_os_str(), "--for".as_ref(), "3s".as_ref()]);
    assert!(host.stdout.contains("link up"), "{host:?}");
    switch.program().says("port p2: link up");
    switch.stop();
    assert!(!path.exists());
}

//! Socket files of ports on shared memory, after a switch was killed. No root.

use crate::support::program::{Switch, weir};
use nix::sys::signal::Signal;
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

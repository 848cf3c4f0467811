//! Who is let in over the Unix socket.

use crate::running::Lab;
use crate::support::program::WEIR;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A folder one may not look into, and a socket one may not ask, are no absence.
#[test]
fn a_switch_one_may_not_ask_is_told_from_none() {
    let folder = tempfile::tempdir().unwrap();
    let mode =
        |path: &std::path::Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o755);
    let sockets = folder.path().join("weir");
    std::fs::create_dir(&sockets).unwrap();
    let socket = sockets.join("leaf1.sock");
    let _listens = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    mode(&socket, 0o600);
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", WEIR];
    let ask = |more: &[&str]| {
        let mut nobody_asks = Command::new("setpriv");
        let output = nobody_asks.args(nobody).args(more).env("RUNTIME_DIRECTORY", &sockets).output();
        output.map(|output| (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    if !ask(&["--version"]).is_ok_and(|(good, _)| good) {
        eprintln!("skipped: only root can be somebody else, with setpriv, who may start {WEIR}");
        return;
    }
    for (of_folder, place) in [(0o700, &sockets), (0o755, &socket)] {
        mode(&sockets, of_folder);
        for more in [&["show", "switch"][..], &["show", "switch", "--name", "leaf1"]] {
            let (good, told) = ask(more).unwrap();
            assert!(!good && told.contains(&format!("no rights for {}", place.display())), "{told}");
        }
    }
    std::fs::remove_file(&socket).unwrap();
    let (_, told) = ask(&["show", "switch", "--name", "leaf1"]).unwrap();
    assert!(told.contains("no switch runs here"), "{told}");
}

/// Opening the socket to others does not make them the owner.
#[test]
fn others_at_the_socket_need_a_token() {
    let lab = Lab::start();
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", WEIR, "--version"]);
    if !nobody.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: only root can be somebody else, with setpriv, who may start {WEIR}");
        return;
    }
    let mode =
        |path: &std::path::Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(lab.folder.path(), 0o755);
    mode(&lab.socket, 0o666);
    let asked = |program: &mut Command| {
        let output = program.arg("show").arg("switch").arg("--socket").arg(&lab.socket).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let mut nobody = Command::new("setpriv");
    let (good, told) = asked(nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", WEIR]));
    assert!(!good && told.contains("401") && told.contains("mgmt.token_file"), "{told}");
    let (good, told) = asked(&mut Command::new(WEIR));
    assert!(good, "{told}");
    lab.stop();
}

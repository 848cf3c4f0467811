//! Who is let in over the Unix socket.

use crate::running::Lab;
use crate::support::program::WEIR;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

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

//! A reader that is gone, a disk that is full, a reader that has stopped: what is said is lost, nothing else.

use crate::support::PATIENCE;
use crate::support::program::{Running, Summary, WEIR, floating, turn, weir};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A switch that has something to say: DPDK tells every step, and the log is on.
fn config() -> String {
    format!(
        "[eal]\nargs = [{:?}, \"--log-level=8\"]\n[buffer]\nsize = \"2MiB\"\nframes = 4096\n\
         [port_defaults]\nrate = \"1G\"\nmtu = 1518\n[mgmt]\nlisten = \"off\"\nsocket = \"off\"\n\
         [[port]]\nname = \"a\"\ndevice = \"ring\"\n[[port]]\nname = \"b\"\ndevice = \"ring\"\n",
        floating()
    )
}

/// Runs to the end; kills what does not end.
fn ends(command: &mut Command) -> Option<ExitStatus> {
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill().and_then(|()| child.wait());
    None
}

/// `weir run` for a second with these as standard output and standard error: it ends well, and sums up.
fn runs(folder: &Path, stdout: Stdio, stderr: Stdio) -> Summary {
    let (file, summary) = (folder.join("switch.toml"), folder.join("summary.json"));
    std::fs::write(&file, config()).unwrap();
    let _ = std::fs::remove_file(&summary);
    let mut command = Command::new(WEIR);
    command.arg("run").arg(&file).args(["--for", "1s", "--log", "text", "--summary"]).arg(&summary);
    let status = ends(command.stdout(stdout).stderr(stderr)).expect("it ends");
    assert_eq!(status.code(), Some(0), "{status}");
    let summary = Summary::read(&summary);
    summary.is_conserved();
    summary
}

/// A pipe that takes no more.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

fn full_disk() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn a_switch_outlives_whoever_reads_what_it_says() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    for streams in [[full_disk(), full_disk()], [closed(), closed()]] {
        let [stdout, stderr] = streams;
        let summary = runs(folder.path(), stdout, stderr);
        assert!(summary.total("output_lines_lost") > 0, "{:#}", summary.0);
    }
}

#[test]
fn a_switch_does_not_wait_for_a_reader_that_has_stopped() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let ((_out, stdout), (_err, stderr)) = (full_pipe(), full_pipe());
    runs(folder.path(), stdout.into(), stderr.into());
}

#[test]
fn a_verdict_is_said_even_if_its_file_cannot_be_written() {
    let _turn = turn();
    let ended = weir(&[&floating(), "--", "lab", "--for", "1s", "--summary", "/dev/full"]);
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stdout.contains("\nverdict: "), "{}", ended.stdout);
    assert!(ended.stderr.contains("/dev/full"), "{}", ended.stderr);
}

#[test]
fn a_command_stops_where_its_reader_does_and_says_when_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.toml");
    std::fs::write(&file, config()).unwrap();
    let check = || {
        let mut command = Command::new(WEIR);
        command.args(["check", "--explain"]).arg(&file);
        command
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(ends(check().stdout(writer)).unwrap().code(), Some(0));
    let out = check().stdout(full_disk()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("standard output"), "{said}");
}

/// A disk without room: what a file was before it stays, and nothing is left beside it.
#[test]
fn a_file_that_cannot_be_written_whole_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let [file, out] = ["switch.toml", "out"].map(|name| folder.path().join(name));
    std::fs::write(&file, config()).unwrap();
    std::fs::write(&out, "before").unwrap();
    let sonic = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/sonic/config_db.json");
    // SIGXFSZ is ignored, so that a write ends with an error, as one to a full disk does.
    let full = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
    for (way, from) in [("export", &file), ("import", &sonic)] {
        let mut command = Command::new("sh");
        command.args(["-c", full, WEIR, "config", way, "sonic"]).arg(from).arg("-o").arg(&out);
        let ended = Running::start(&mut command).ended();
        assert!(ended.code() == Some(2) && ended.stderr.contains("cannot write"), "{way}: {ended:?}");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "before", "{way}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "{way}");
    }
}

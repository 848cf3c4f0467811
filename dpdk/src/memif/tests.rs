use super::*;

/// A driver that listens, and what stands before it.
struct Place {
    folder: tempfile::TempDir,
    driver: OwnedFd,
    front: MemifListener,
}

fn place() -> Place {
    let mut place = starting();
    place.start();
    place
}

/// The driver's device has not started yet.
fn starting() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let driver = seqpacket().unwrap();
    let behind = folder.path().join("driver.sock");
    bind(driver.as_raw_fd(), &UnixAddr::new(&behind).unwrap()).unwrap();
    listen(&driver, Backlog::new(1).unwrap()).unwrap();
    let front = MemifListener::listen(&MemifAddress::Path(folder.path().join("front.sock"))).unwrap();
    Place { folder, driver, front }
}

impl Place {
    fn start(&mut self) {
        self.front.serve(&self.folder.path().join("driver.sock")).unwrap();
    }

    fn peer(&self) -> OwnedFd {
        let peer = seqpacket().unwrap();
        connect(peer.as_raw_fd(), &UnixAddr::new(&self.folder.path().join("front.sock")).unwrap()).unwrap();
        peer
    }

    /// What the driver does when somebody has come.
    fn accepted(&self) -> OwnedFd {
        let fd = accept4(self.driver.as_raw_fd(), SockFlag::SOCK_CLOEXEC).unwrap();
        // SAFETY: made by the call above.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }
}

fn text(text: &str, fds: Vec<OwnedFd>) -> Message {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Message { bytes, len: text.len(), fds }
}

fn heard(from: &OwnedFd) -> Option<(String, Vec<OwnedFd>)> {
    let mut wanted = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
    poll(&mut wanted, PollTimeout::try_from(10_000).unwrap()).unwrap();
    let message = Message::receive(from).ok()?;
    Some((String::from_utf8(message.bytes[..message.len].to_vec()).unwrap(), message.fds))
}

#[test]
fn messages_and_descriptors_pass_both_ways() {
    let place = place();
    let peer = place.peer();
    let driver = place.accepted();
    text("hello", vec![]).send(&driver).unwrap();
    assert_eq!(heard(&peer).unwrap().0, "hello");
    let memory = File::open("/dev/null").unwrap();
    let same = |fd: &OwnedFd| std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    text("region", vec![memory.into()]).send(&peer).unwrap();
    let (message, fds) = heard(&driver).unwrap();
    assert_eq!((message.as_str(), fds.len()), ("region", 1));
    assert_eq!(same(&fds[0]), Path::new("/dev/null"));
    drop(peer);
    assert!(heard(&driver).is_none(), "the driver hears that it has gone");
}

#[test]
fn whoever_connects_while_devices_start_is_served_when_they_have() {
    let mut place = starting();
    let early = [place.peer(), place.peer()];
    let mut comes = [PollFd::new(place.driver.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut comes, PollTimeout::from(50u8)).unwrap(), 0, "nobody asks the driver yet");
    place.start();
    for peer in &early {
        let driver = place.accepted();
        text("hello", vec![]).send(&driver).unwrap();
        assert_eq!(heard(peer).unwrap().0, "hello");
    }
}

#[test]
fn the_driver_can_greet_a_peer_that_has_gone() {
    let place = place();
    for _ in 0..100 {
        drop(place.peer());
        let driver = place.accepted();
        // By now it has gone long ago.
        std::thread::sleep(Duration::from_millis(1));
        text("hello", vec![]).send(&driver).unwrap();
        assert!(heard(&driver).is_none());
    }
}

#[test]
fn a_peer_that_says_too_much_goes_and_others_stay() {
    let place = place();
    let (first, other) = (place.peer(), place.accepted());
    text("hello", vec![]).send(&other).unwrap();
    assert!(heard(&first).is_some());
    let long = [7; MESSAGE_BYTES + 1];
    let talker = place.peer();
    let driver = place.accepted();
    text("hello", vec![]).send(&driver).unwrap();
    assert!(heard(&talker).is_some());
    sendmsg::<()>(talker.as_raw_fd(), &[IoSlice::new(&long)], &[], MsgFlags::empty(), None).unwrap();
    assert!(heard(&driver).is_none() && heard(&talker).is_none());
    text("init", vec![]).send(&first).unwrap();
    assert_eq!(heard(&other).unwrap().0, "init");
}

#[test]
fn only_the_owner_may_connect_and_nothing_is_left() {
    let place = place();
    let front = place.folder.path().join("front.sock");
    assert_eq!(std::fs::metadata(&front).unwrap().permissions().mode() & 0o777, 0o600);
    let taken = MemifListener::listen(&MemifAddress::Path(front.clone())).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    drop(place.front);
    assert!(!front.exists());
}

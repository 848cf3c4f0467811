//! A real desk behind the groups, switches that take everything.

use super::*;
use std::io::Read;
use weir_inc::controller::desk::{Action, Desk, Saved};

const FABRIC: &str = r#"
[[switch]]
name = "leaf0"
api = "127.0.0.1:1"
engine = { mac = "02:00:00:00:01:00", ip = "10.0.1.0" }
[[switch]]
name = "leaf1"
api = "127.0.0.1:2"
engine = { mac = "02:00:00:00:01:01", ip = "10.0.1.1" }
[[host]]
name = "h0"
ip = "10.0.0.1"
mac = "02:00:00:00:00:01"
switch = "leaf0"
[[host]]
name = "h1"
ip = "10.0.0.2"
mac = "02:00:00:00:00:02"
switch = "leaf1"
[[host]]
name = "h2"
ip = "10.0.0.3"
mac = "02:00:00:00:00:03"
switch = "leaf0"
[[host]]
name = "h3"
ip = "10.0.0.4"
mac = "02:00:00:00:00:04"
switch = "leaf1"
[[host]]
name = "h4"
ip = "10.0.0.5"
switch = "leaf1"
[[link]]
a = "leaf0"
b = "leaf1"
"#;

/// The desk and its groups, until all senders of events are gone.
struct Office {
    desk: Desk,
    groups: Groups,
    happened: Receiver<Event>,
}

impl Office {
    fn new() -> Self {
        let map = super::super::topology_of(FABRIC).unwrap().map().unwrap();
        let (events, happened) = channel();
        let address = "127.0.0.1:0".parse().unwrap();
        let groups = Groups::listen(address, Duration::ZERO, &map, "s3cret".into(), events).unwrap();
        Self { desk: Desk::new(map, "s3cret".into(), Saved::default(), 1, 0), groups, happened }
    }

    /// What the desk does about the next event, and what it then does about switches that take what they are given.
    fn turn(&mut self) -> Vec<String> {
        let mut events = vec![self.happened.recv_timeout(Duration::from_secs(60)).unwrap()];
        let mut notes = Vec::new();
        while let Some(event) = events.pop() {
            for action in self.desk.handle(event, 0) {
                match action {
                    Action::Say(to, answer) => self.groups.say(to, answer),
                    Action::Post(switch, spec) => events.push(Event::Posted(switch, spec.id, Ok(()))),
                    Action::End(switch, id, _) => events.push(Event::Ended(switch, id, Ok(None))),
                    Action::Note(note) => notes.push(note),
                    Action::HangUp(_) | Action::Save => {}
                }
            }
        }
        notes
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.groups.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

fn group(stream: &mut TcpStream, hosts: &[[u8; 4]]) {
    let mut said = vec![b'G'];
    said.extend((hosts.len() as u32).to_le_bytes());
    said.extend(hosts.concat());
    stream.write_all(&said).unwrap();
}

fn communicator(stream: &mut TcpStream, qpns: &[u32]) {
    let mut said = vec![b'C'];
    said.extend(qpns.iter().flat_map(|qpn| qpn.to_le_bytes()));
    stream.write_all(&said).unwrap();
}

fn number(stream: &mut TcpStream) -> [u8; 4] {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn hosts_of_another_controller_are_met_in_its_words() {
    let mut office = Office::new();
    let mut first = office.connect();
    group(&mut first, &[1, 2, 3, 4].map(|host| [10, 0, 0, host]));
    assert_eq!(u32::from_le_bytes(number(&mut first)), 1);
    communicator(&mut first, &[17, 18, 19, 20]);
    (0..4).for_each(|_| drop(office.turn()));
    let mut file = vec![0; u32::from_be_bytes(number(&mut first)) as usize];
    first.read_exact(&mut file).unwrap();
    let file = String::from_utf8(file).unwrap();
    // Each host finds itself by its rank, and what it has to be told.
    let of_host = |rank: usize| {
        let at = file.find(&format!("host_id: {rank}\n")).unwrap_or_else(|| panic!("{file}"));
        file[at..].lines().map(str::trim).take(10).collect::<Vec<_>>()
    };
    assert_eq!(of_host(0)[1..3], ["my_ip: \"10.0.1.0\"", "my_mac: \"02:00:00:00:01:00\""]);
    assert_eq!(of_host(1)[1..3], ["my_ip: \"10.0.1.1\"", "my_mac: \"02:00:00:00:01:01\""]);
    assert_eq!(
        of_host(1)[6..9],
        ["peer_ip: \"10.0.0.2\"", "peer_mac: \"02:00:00:00:00:02\"", "peer_port: 4791"]
    );
    assert_eq!((of_host(0)[9], of_host(3)[9]), ("peer_qp: 17", "peer_qp: 20"));
    let roots: Vec<&str> = file.lines().map(str::trim).filter(|line| line.starts_with("root")).collect();
    assert_eq!(roots.len(), 2, "{file}");
    assert!(roots.contains(&"root: true") && roots.contains(&"root: false"), "{file}");
    assert_eq!(office.desk.jobs().map(|(id, _, there)| (id, there)).collect::<Vec<_>>(), [(1, 4)]);
    // Another one, that ends as it should.
    let mut second = office.connect();
    group(&mut second, &[[10, 0, 0, 2]]);
    number(&mut second);
    communicator(&mut second, &[19]);
    office.turn();
    number(&mut second);
    drop(second);
    let notes = office.turn().concat();
    assert!(notes.contains("job 2") && notes.ends_with("all hosts have left"), "{notes}");
    // A switch dies: the connection ends, which is all its hosts can be told.
    for _ in 0..3 {
        for action in office.desk.handle(Event::Jobs(6, Err("no answer".into())), 0) {
            if let Action::Say(to, answer) = action {
                assert!(Groups::has(to));
                office.groups.say(to, answer);
            }
        }
    }
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_group_that_cannot_be_met_is_hung_up_on_and_leaves_nothing_behind() {
    let mut office = Office::new();
    let told = |said: &[u8]| {
        let mut stream = office.connect();
        stream.write_all(said).unwrap();
        // It may have hung up already.
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    };
    for said in [&b"H"[..], b"C\x01\0\0\0", b"G\0\0\0\0", b"G\xff\xff\xff\xff", b"G\x02\0\0\0\x0a\0", b""] {
        assert!(told(said).is_empty(), "{said:?}");
    }
    // A host whose MAC address nobody knows, and one that is not of the fabric.
    for last in [5, 9] {
        assert!(told(&[b'G', 1, 0, 0, 0, 10, 0, 0, last]).is_empty());
    }
    // One host twice: refused by the desk, the other one does not wait for it for ever.
    let mut stream = office.connect();
    group(&mut stream, &[[10, 0, 0, 1], [10, 0, 0, 1]]);
    assert_eq!(number(&mut stream).len(), 4);
    communicator(&mut stream, &[17, 18]);
    (0..4).for_each(|_| drop(office.turn()));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(office.desk.jobs().count(), 0);
    let mut stream = office.connect();
    group(&mut stream, &[[10, 0, 0, 1], [10, 0, 0, 2]]);
    number(&mut stream);
    communicator(&mut stream, &[17, 1 << 24]);
    (0..4).for_each(|_| drop(office.turn()));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert!(office.groups.shared.ears.lock().unwrap().is_empty());
}

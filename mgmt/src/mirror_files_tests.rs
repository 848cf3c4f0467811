use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const PORTS: [(PortId, &str); 2] = [(PortId(0), "p0"), (PortId(3), "p3")];

fn files(path: &Path, size: u64, files: u16) -> MirrorFiles {
    let path = path.to_str().unwrap().to_owned();
    let ports = PORTS.map(|(port, name)| (port, name.to_owned())).to_vec();
    MirrorFiles::new("look", MirrorFile { path, size, files, snaplen: 16_384 }, ports, None)
}

fn copy(n: u64, bytes: &[u8]) -> Copy<'_> {
    let (port, sent) = if n.is_multiple_of(3) { (PortId(3), true) } else { (PortId(0), false) };
    Copy { unix_ns: 1_700_000_000_000_000_000 + n, port, sent, len: 1500, bytes }
}

/// A packet as it is read back: interface, time, direction, length, bytes.
type Packet = (String, u64, u32, u32, Vec<u8>);

/// The packets of a file, and whether statistics end it.
fn read(path: &Path) -> (Vec<Packet>, bool) {
    let file = fs::read(path).unwrap();
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut names, mut packets, mut ended) = (0, Vec::new(), Vec::new(), false);
    while at < file.len() {
        let length = word(&file, at + 4) as usize;
        assert_eq!(word(&file, at + length - 4) as usize, length, "{} bytes", file.len());
        let body = &file[at + 8..at + length - 4];
        match word(&file, at) {
            1 => {
                let name = PORTS.iter().map(|(_, name)| *name).find(|name| {
                    let option = [&2u16.to_le_bytes()[..], &2u16.to_le_bytes(), name.as_bytes()].concat();
                    body.windows(option.len()).any(|window| window == option)
                });
                names.push(name.unwrap().to_owned());
            }
            6 => {
                let kept = word(body, 12) as usize;
                let time = u64::from(word(body, 4)) << 32 | u64::from(word(body, 8));
                let options = &body[20 + kept.next_multiple_of(4)..];
                assert_eq!(options[..4], [2, 0, 4, 0]);
                let name = names[word(body, 0) as usize].clone();
                packets.push((name, time, word(options, 4), word(body, 16), body[20..20 + kept].to_vec()));
            }
            5 => ended = true,
            _ => {}
        }
        at += length;
    }
    (packets, ended)
}

#[test]
fn frames_are_written_as_they_were_by_interface() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("look.pcapng");
    let mut files = files(&path, 1 << 20, 2);
    assert!(!path.exists(), "nothing is opened before there is a frame");
    for n in 0..9 {
        files.add(&copy(n, &vec![n as u8; 60 + n as usize]));
    }
    // Of a port that is not mirrored: written before the configuration changed.
    files.add(&Copy { port: PortId(7), ..copy(1, &[1; 60]) });
    files.flush();
    let (packets, ended) = read(&path);
    assert!(!ended && packets.len() == 9, "what is flushed can be read at once");
    for (n, (name, time, direction, len, bytes)) in packets.iter().enumerate() {
        let of = if n.is_multiple_of(3) { ("p3", 2) } else { ("p0", 1) };
        assert_eq!((name.as_str(), *direction), of);
        assert_eq!((*time, *len), (1_700_000_000_000_000_000 + n as u64, 1500));
        assert_eq!(*bytes, vec![n as u8; 60 + n]);
    }
    files.end();
    assert!(read(&path).1);
    let length = fs::metadata(&path).unwrap();
    assert_eq!((length.len(), length.permissions().mode() & 0o777), (files.reading.bytes, 0o600));
    let MirrorFileReading { frames, files, lost, error, .. } = files.reading;
    assert_eq!((frames, files, lost, error), (9, 1, 0, None));
}

/// No file is longer than `file_size`, however long frames are, and no more than `files` are kept: the last frames.
#[test]
fn files_are_of_a_size_and_the_last_ones_stay() {
    for kept in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("look.pcapng");
        let mut files = files(&path, 64 << 10, kept);
        let frames: Vec<Vec<u8>> =
            (0..2000_u32).map(|n| vec![n as u8; 14 + (n as usize * 7919) % 2000]).collect();
        for (n, frame) in frames.iter().enumerate() {
            files.add(&copy(n as u64, frame));
            if n.is_multiple_of(11) {
                files.flush();
            }
        }
        files.end();
        let mut names: Vec<PathBuf> = (1..kept).rev().map(|number| older(&path, number)).collect();
        names.push(path.clone());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), usize::from(kept));
        let mut seen = Vec::new();
        for name in &names {
            let length = fs::metadata(name).unwrap().len();
            assert!(length <= 64 << 10, "{length}");
            let (packets, ended) = read(name);
            assert!(ended && !packets.is_empty());
            seen.extend(packets.into_iter().map(|packet| packet.4));
        }
        assert_eq!(seen, frames[frames.len() - seen.len()..]);
        assert_eq!((files.reading.frames, files.reading.lost), (2000, 0));
        assert!(files.reading.files > 20, "{:?}", files.reading);
    }
}

#[test]
fn a_file_that_is_there_becomes_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("look.pcapng");
    for run in 0..4_u8 {
        let mut files = files(&path, 1 << 20, 3);
        files.add(&copy(1, &[run; 60]));
        files.end();
    }
    let run = |path: &Path| read(path).0[0].4[0];
    assert_eq!([path.clone(), older(&path, 1), older(&path, 2)].map(|path| run(&path)), [3, 2, 1]);
    assert!(!older(&path, 3).exists());
}

/// What is not a capture is not moved, not removed and not followed, and what could not be written is counted and told.
#[test]
fn nothing_but_captures_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious.pcapng");
    fs::write(&precious, "precious").unwrap();
    let link = folder.path().join("link.pcapng");
    symlink(&precious, &link).unwrap();
    let nowhere = folder.path().join("nowhere/look.pcapng");
    let beside = folder.path().join("beside.pcapng");
    let mut first = files(&beside, 1 << 20, 2);
    first.add(&copy(1, &[1; 60]));
    first.end();
    fs::write(older(&beside, 1), "precious").unwrap();
    for (path, why) in [
        (&precious, "is not a capture: move it away"),
        (&link, "is not a capture"),
        (&nowhere, "No such file"),
        (&beside, "beside.pcapng.1 is there, and is not a capture"),
    ] {
        let mut files = files(path, 1 << 20, 2);
        for n in 0..5 {
            files.add(&copy(n, &[1; 60]));
        }
        files.flush();
        files.end();
        let error = files.reading.error.as_deref().unwrap();
        assert!(error.contains(why), "{error}");
        assert_eq!(error.matches(path.to_str().unwrap()).count(), 1, "{error}");
        assert_eq!((files.reading.frames, files.reading.lost), (0, 5));
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(fs::read_to_string(older(&beside, 1)).unwrap(), "precious");
    assert_eq!(read(&beside).0.len(), 1);
}

/// A file that is taken away from below is one that cannot be written: what follows goes on when there is room again.
#[test]
fn what_could_not_be_written_is_cut_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("look.pcapng");
    let mut files = files(&path, 1 << 20, 2);
    files.add(&copy(1, &[1; 60]));
    files.flush();
    // A descriptor that takes nothing, as a full disk does.
    let (_, length) = files.file.take().unwrap();
    files.file = Some((File::open(&path).unwrap(), length));
    files.add(&copy(2, &[2; 60]));
    files.add(&copy(3, &[3; 60]));
    files.flush();
    assert_eq!((files.reading.frames, files.reading.lost), (1, 2));
    assert!(files.reading.error.is_some());
    assert_eq!(read(&path).0.len(), 1);
    files.retry = Some(Instant::now());
    files.add(&copy(4, &[4; 60]));
    files.end();
    assert_eq!((files.reading.frames, files.reading.lost, &files.reading.error), (2, 2, &None));
    // Shorter than between two looks, and told all the same.
    let told = Failing::default().news([files.reading.clone()]);
    assert_eq!(told.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(), ["alarm", "end"]);
    assert_eq!((&told[0].1["mirror"], &told[1].1["lost"]), (&json!("look"), &json!(2)));
    assert_eq!((read(&path).0[0].4[0], read(&older(&path, 1)).0.len()), (4, 1));
    // Counts go on with the next files of the mirror, and the next trouble is one of its own.
    let (settings, ports) = (files.settings.clone(), files.ports.clone());
    let elsewhere =
        MirrorFile { path: folder.path().join("no/x.pcapng").to_str().unwrap().into(), ..settings };
    let mut files = MirrorFiles::new("look", elsewhere, ports, Some(files.into_reading()));
    assert_eq!((files.reading.frames, files.reading.lost), (2, 2));
    files.add(&copy(5, &[5; 60]));
    assert_eq!((files.reading.frames, files.reading.lost, files.reading.failures), (2, 3, 2));
}

/// What is removed, or moved away, is noticed within a second: what waits goes into a file of its name, or is counted.
#[test]
fn a_file_that_was_removed_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("there").join("look.pcapng");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let mut files = files(&path, 1 << 20, 2);
    let long_ago = || Instant::now().checked_sub(RETRY).expect("a machine that runs for a second");
    let write = |files: &mut MirrorFiles, numbers: std::ops::Range<u64>| {
        numbers.for_each(|n| files.add(&copy(n, b"x")));
        files.seen = long_ago();
        files.flush();
    };
    write(&mut files, 0..4);
    let moved = folder.path().join("moved.pcapng");
    fs::rename(&path, &moved).unwrap();
    write(&mut files, 4..10);
    assert_eq!((read(&moved).0.len(), read(&path).0.len()), (4, 6));
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    write(&mut files, 10..15);
    assert_eq!((files.reading.frames, files.reading.files, files.reading.lost), (10, 2, 5));
    assert!(files.reading.error.as_ref().is_some_and(|error| error.contains("No such file")));
    fs::create_dir(path.parent().unwrap()).unwrap();
    files.retry = None;
    write(&mut files, 15..18);
    files.end();
    let (packets, ended) = read(&path);
    assert_eq!((packets.len(), ended, files.reading.frames), (3, true, 13));
    assert_eq!(files.reading.error, None);
}

/// What files could not be written cost is told when others take their place, and that these cannot be either is news.
#[test]
fn trouble_ends_with_the_files_it_was_about() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = |name: &str| folder.path().join(name).join("look.pcapng");
    let mut failing = Failing::default();
    let mut news = |reading: &MirrorFileReading| {
        let news = failing.news([reading.clone()]);
        news.into_iter().map(|(phase, fields)| (phase, Value::Object(fields))).collect::<Vec<_>>()
    };
    let write = |files: &mut MirrorFiles, frames: u64| {
        (0..frames).for_each(|n| files.add(&copy(n, &[1; 60])));
        files.flush();
    };
    let mut first = files(&nowhere("m"), 1 << 20, 2);
    write(&mut first, 5);
    let alarm = news(&first.reading);
    assert!(alarm[0].0 == "alarm" && alarm[0].1["error"].as_str().unwrap().contains("/m/"), "{alarm:?}");
    assert!(news(&first.reading).is_empty(), "once");
    let second = files(&nowhere("n"), 1 << 20, 2);
    let (settings, ports) = (second.settings.clone(), second.ports.clone());
    let mut second = MirrorFiles::new("look", settings.clone(), ports.clone(), Some(first.into_reading()));
    assert_eq!(news(&second.reading), [("end", json!({ "mirror": "look", "lost": 5 }))]);
    write(&mut second, 3);
    let alarm = news(&second.reading);
    assert!(alarm[0].0 == "alarm" && alarm[0].1["error"].as_str().unwrap().contains("/n/"), "{alarm:?}");
    // The mirror is taken out.
    let gone = second.into_reading();
    assert_eq!(news(&gone), [("end", json!({ "mirror": "look", "lost": 3 }))]);
    assert!(news(&gone).is_empty());
}

/// Configurations tell paths apart by their letters: that a folder is a link to another one only the file system knows.
#[test]
fn two_mirrors_do_not_write_one_file_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("captures")).unwrap();
    symlink("captures", folder.path().join("link")).unwrap();
    let mut first = files(&folder.path().join("captures/look.pcapng"), 1 << 20, 2);
    let mut second = files(&folder.path().join("link/look.pcapng"), 1 << 20, 2);
    for n in 0..5 {
        first.add(&copy(n, &[1; 60]));
        second.add(&copy(n, &[2; 60]));
        first.flush();
        second.flush();
    }
    assert_eq!((first.reading.frames, first.reading.lost), (5, 0));
    assert_eq!((second.reading.frames, second.reading.lost, second.reading.failures), (0, 5, 1));
    assert!(second.reading.last_error.contains("another mirror"), "{}", second.reading.last_error);
    assert_eq!(fs::read_dir(folder.path().join("captures")).unwrap().count(), 1);
    first.end();
    second.retry = None;
    second.add(&copy(9, &[2; 60]));
    second.flush();
    assert_eq!(
        (second.reading.frames, &second.reading.error),
        (1, &None),
        "it is free when the first has ended"
    );
}

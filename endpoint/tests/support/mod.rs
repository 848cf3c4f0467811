//! Golden frames: the vectors of `roce/vectors.md` and the captures beside it.

#[path = "../../../dataplane/tests/harness/published.rs"]
mod published;

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use std::path::PathBuf;

/// A published frame.
pub struct Vector {
    pub id: String,
    pub frame: Vec<u8>,
}

/// A file of the golden data; `WEIR_GOLDEN` overrides the folder.
pub fn golden(name: &str) -> PathBuf {
    published::root().join("roce").join(name)
}

/// Whether the golden frames are there; if not, says why a test skips.
pub fn present() -> bool {
    published::published("roce").is_some()
}

/// Ends a test early, with the reason printed, where the golden frames are not.
macro_rules! need_golden {
    () => {
        if !crate::support::present() {
            return;
        }
    };
}
pub(crate) use need_golden;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// The complete frames of section 2 (A1 to F1) and the full-MTU frames of section 3 (G1 to G4).
pub fn vectors() -> Vec<Vector> {
    let path = golden("vectors.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let id = line.strip_prefix("**").and_then(|l| l.split_once("** (")).map(|(id, _)| id.to_string());
        if let Some(id) = id {
            let text = lines.find(|l| !l.trim().is_empty()).unwrap().trim();
            found.push(Vector { id, frame: hex(text) });
        } else if line.starts_with("| G") {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let payload: usize = cells[4].parse().unwrap();
            let mut frame = hex(cells[5].trim_matches('`'));
            frame.resize(frame.len() + payload, 0x7b);
            frame.extend(hex(cells[6].trim_matches('`')));
            assert_eq!(frame.len().to_string(), cells[3], "{}", cells[1]);
            found.push(Vector { id: cells[1].to_string(), frame });
        }
    }
    found
}

/// The vector with this id.
#[allow(dead_code)] // Not every test file needs a single vector.
pub fn vector(id: &str) -> Vec<u8> {
    vectors().into_iter().find(|v| v.id == id).unwrap_or_else(|| panic!("no vector {id}")).frame
}

/// Frames of a classic pcap file with Ethernet link type.
#[allow(dead_code)]
pub fn capture(name: &str) -> Vec<Vec<u8>> {
    let path = golden(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut file = PcapReader::new(file).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(file.header().datalink, DataLink::ETHERNET, "{name}");
    let mut frames = Vec::new();
    while let Some(packet) = file.next_packet() {
        let packet = packet.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(packet.data.len(), packet.orig_len as usize, "{name}: frame cut by the capture");
        frames.push(packet.data.into_owned());
    }
    frames
}

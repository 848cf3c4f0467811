//! Frames and pcap files.

use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};
use std::fs::File;
use std::path::Path;
use std::time::Duration;
use weir_dataplane::types::Mac;

/// A frame of the local experimental EtherType 0x88b5 (IEEE 802), filled with a pattern that `seed`
/// makes its own. `bytes` counts from the destination address to the last payload byte.
pub fn plain(dst: Mac, src: Mac, bytes: usize, seed: u32) -> Vec<u8> {
    let mut frame = Vec::with_capacity(bytes);
    frame.extend(dst.0);
    frame.extend(src.0);
    frame.extend([0x88, 0xb5]);
    frame.extend(seed.to_be_bytes());
    frame.resize(18.max(bytes), 0);
    for (i, byte) in frame.iter_mut().enumerate().skip(18) {
        *byte = (seed as usize).wrapping_mul(31).wrapping_add(i * 7) as u8;
    }
    frame.truncate(bytes);
    frame
}

/// The same with 802.1Q-style tags (TPID, TCI) in front of the EtherType, outermost first.
pub fn tagged(mut frame: Vec<u8>, tags: &[(u16, u16)]) -> Vec<u8> {
    let bytes: Vec<u8> =
        tags.iter().flat_map(|(tpid, tci)| [tpid.to_be_bytes(), tci.to_be_bytes()]).flatten().collect();
    frame.splice(12..12, bytes);
    frame
}

/// Writes a pcap file (microseconds, Ethernet), one frame per `gap_us`.
pub fn write_pcap(path: &Path, frames: &[Vec<u8>], gap_us: u64) {
    let mut file = PcapWriter::new(File::create(path).expect("a folder")).expect("room on disk");
    for (at, frame) in (0..).map(|n| Duration::from_micros(n * gap_us)).zip(frames) {
        file.write_packet(&PcapPacket::new(at, frame.len() as u32, frame)).expect("room on disk");
    }
}

/// The frames of a pcap file that may still be growing: what is not whole yet is left out.
pub fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let Some(mut file) = File::open(path).ok().and_then(|file| PcapReader::new(file).ok()) else {
        return Vec::new();
    };
    let mut frames = Vec::new();
    while let Some(Ok(packet)) = file.next_packet() {
        assert_eq!(packet.data.len(), packet.orig_len as usize, "the capture cut a frame");
        frames.push(packet.data.into_owned());
    }
    frames
}

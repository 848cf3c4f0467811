//! Frames and pcap files.

use std::fs;
use std::path::Path;
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
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (i, frame) in frames.iter().enumerate() {
        let at = i as u64 * gap_us;
        for word in [(at / 1_000_000) as u32, (at % 1_000_000) as u32, frame.len() as u32, frame.len() as u32]
        {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    fs::write(path, file).expect("room on disk");
}

/// The frames of a pcap file that may still be growing: what is not whole yet is left out.
pub fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).unwrap_or_default();
    let word = |at: usize| file.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let Some(magic) = word(0) else { return Vec::new() };
    assert!([0xa1b2_c3d4, 0xa1b2_3c4d].contains(&magic), "not a little-endian pcap: {magic:x}");
    let mut frames = Vec::new();
    let mut at = 24;
    while let (Some(kept), Some(sent)) = (word(at + 8), word(at + 12)) {
        assert_eq!(kept, sent, "the capture cut a frame");
        let Some(frame) = file.get(at + 16..at + 16 + kept as usize) else { break };
        frames.push(frame.to_vec());
        at += 16 + kept as usize;
    }
    frames
}

//! Writes pcapng (draft-ietf-opsawg-pcapng): interfaces, packets with a comment or a direction each.
//!
//! Every block is written whole, so that a file that ends early is a file that can be read.

use byteorder::LittleEndian;
use pcap_file::pcapng::PcapNgBlock;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};
use std::io::{self, Write};
use std::time::Duration;

/// What the time of a packet is.
const TIMES: &str = "frames that were received in one burst have the time of the burst";

/// Longest comment, bytes: its length is 16 bits, and a character that is cut becomes one of three bytes.
const COMMENT: usize = 0xffff - 2;

/// A file being written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Starts a file whose packets come from this port. `comment`: what is to be said of them all.
    ///
    /// # Errors
    /// Writing fails.
    pub fn new(out: W, port: &str, snaplen: u32, comment: Option<&str>) -> io::Result<Self> {
        let mut writer = Self::section(out)?;
        writer.interface(port, snaplen, comment)?;
        Ok(writer)
    }

    /// Starts a file whose packets come from these ports: interfaces 0 and up.
    ///
    /// # Errors
    /// Writing fails.
    pub fn of_ports(out: W, ports: &[&str], snaplen: u32) -> io::Result<Self> {
        let mut writer = Self::section(out)?;
        ports.iter().try_for_each(|port| writer.interface(port, snaplen, None))?;
        Ok(writer)
    }

    fn section(out: W) -> io::Result<Self> {
        let mut writer = Self { out };
        let weir = concat!("weir ", env!("CARGO_PKG_VERSION"));
        writer.block(SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(weir.into())],
            ..SectionHeaderBlock::default()
        })?;
        Ok(writer)
    }

    fn interface(&mut self, port: &str, snaplen: u32, comment: Option<&str>) -> io::Result<()> {
        use InterfaceDescriptionOption::{Comment, IfName, IfTsResol};
        // Times count nanoseconds.
        let mut options = vec![Comment(TIMES.into()), IfName(port.into()), IfTsResol(9)];
        options.extend(comment.map(|comment| Comment(comment.into())));
        self.block(InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen, options })
    }

    /// Goes on with a file that was begun.
    pub fn more(out: W) -> Self {
        Self { out }
    }

    /// Adds a packet of interface 0: its first bytes, its length, when (ns since 1970), what happened to it.
    ///
    /// # Errors
    /// Writing fails.
    pub fn packet(&mut self, unix_ns: u64, bytes: &[u8], len: u32, comment: &str) -> io::Result<()> {
        let comment = String::from_utf8_lossy(&comment.as_bytes()[..comment.len().min(COMMENT)]);
        self.packet_with(0, unix_ns, bytes, len, EnhancedPacketOption::Comment(comment))
    }

    /// Adds a packet that this interface received or sent.
    ///
    /// # Errors
    /// Writing fails.
    pub fn packet_of(
        &mut self,
        interface: u32,
        sent: bool,
        unix_ns: u64,
        bytes: &[u8],
        len: u32,
    ) -> io::Result<()> {
        let direction = if sent { 2 } else { 1 };
        self.packet_with(interface, unix_ns, bytes, len, EnhancedPacketOption::Flags(direction))
    }

    fn packet_with(
        &mut self,
        interface_id: u32,
        unix_ns: u64,
        bytes: &[u8],
        len: u32,
        option: EnhancedPacketOption<'_>,
    ) -> io::Result<()> {
        self.block(EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(unix_ns),
            original_len: len.max(bytes.len() as u32),
            data: bytes.into(),
            options: vec![option],
        })
    }

    /// Ends the file with the statistics of its interface: frames, and records that found no room. A file without them
    /// is cut short.
    ///
    /// # Errors
    /// Writing fails.
    pub fn end(&mut self, frames: u64, missed: u64) -> io::Result<()> {
        use InterfaceStatisticsOption::{IsbIfRecv, IsbOsDrop};
        self.statistics(0, vec![IsbIfRecv(frames), IsbOsDrop(missed)])
    }

    /// Adds the statistics of an interface: its frames in the file.
    ///
    /// # Errors
    /// Writing fails.
    pub fn end_of(&mut self, interface: u32, frames: u64) -> io::Result<()> {
        self.statistics(interface, vec![InterfaceStatisticsOption::IsbIfRecv(frames)])
    }

    /// Those of no time.
    fn statistics(
        &mut self,
        interface_id: u32,
        options: Vec<InterfaceStatisticsOption<'_>>,
    ) -> io::Result<()> {
        self.block(InterfaceStatisticsBlock { interface_id, timestamp: 0, options })
    }

    fn block<'a>(&mut self, block: impl PcapNgBlock<'a>) -> io::Result<()> {
        let mut bytes = Vec::new();
        block.into_block().write_to::<LittleEndian, _>(&mut bytes)?;
        self.out.write_all(&bytes)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads blocks back by the lengths at both their ends.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let length = word(file, 4) as usize;
            assert!(length.is_multiple_of(4) && word(file, length - 4) as usize == length);
            blocks.push((word(file, 0), file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        blocks
    }

    #[test]
    fn blocks_are_whole_and_say_what_was_put_in() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, "p0", 128, Some("of one sender")).unwrap();
        writer.packet(0x0102_0304_0506_0708, &[0xaa; 61], 1500, "lost at p0").unwrap();
        writer.packet(1, &[], 60, "").unwrap();
        writer.end(2, 1).unwrap();
        let blocks = blocks(&file);
        assert_eq!(blocks.iter().map(|b| b.0).collect::<Vec<_>>(), [0x0a0d_0d0a, 1, 6, 6, 5]);
        assert_eq!(blocks[4].1[12..24], [4, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let packet = &blocks[2].1;
        assert_eq!(packet[4..12], [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!((packet[12], u32::from_le_bytes(packet[16..20].try_into().unwrap())), (61, 1500));
        assert_eq!(packet[20..84], [&[0xaa; 61][..], &[0; 3]].concat());
        assert_eq!(packet[84..88], [1, 0, 10, 0]);
        assert_eq!(&packet[88..98], b"lost at p0");
        assert!(blocks[1].1.windows(2).any(|w| w == b"p0"));
        assert!(String::from_utf8_lossy(&blocks[1].1).contains("the time of the burst"));
        assert!(String::from_utf8_lossy(&blocks[1].1).contains("of one sender"));
    }
    #[test]
    fn a_comment_is_as_long_as_its_length_can_say() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, "p0", 128, Some("of one sender")).unwrap();
        writer.packet(0, &[], 60, &("x".to_owned() + &"\u{e4}".repeat(40_000))).unwrap();
        let packet = &blocks(&file)[2].1;
        let length = u16::from_le_bytes(packet[22..24].try_into().unwrap());
        assert_eq!(packet.len(), 20 + 4 + usize::from(length).next_multiple_of(4) + 4);
        assert!(length > 0xfff0 && String::from_utf8(packet[24..][..length.into()].to_vec()).is_ok());
    }
}

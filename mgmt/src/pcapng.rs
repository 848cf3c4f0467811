//! Writes pcapng (draft-ietf-opsawg-pcapng): interfaces, packets with a comment or a direction each.
//!
//! Every block is written whole, so that a file that ends early is a file that can be read.

use std::io::{self, Write};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Options: of any block, of a section, of an interface, of statistics.
const COMMENT: u16 = 1;
const FLAGS: u16 = 2;
const APPLICATION: u16 = 4;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const RECEIVED: u16 = 4;
const MISSED: u16 = 7;

/// Link type of Ethernet.
const ETHERNET: u16 = 1;

/// What the time of a packet is.
const TIMES: &str = "frames that were received in one burst have the time of the burst";

/// Longest option: its length is 16 bits.
const OPTION: usize = 0xffff;

/// A file being written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Starts a file whose packets come from this port.
    ///
    /// # Errors
    /// Writing fails.
    pub fn new(out: W, port: &str, snaplen: u32) -> io::Result<Self> {
        Self::of_ports(out, &[port], snaplen)
    }

    /// Starts a file whose packets come from these ports: interfaces 0 and up.
    ///
    /// # Errors
    /// Writing fails.
    pub fn of_ports(out: W, ports: &[&str], snaplen: u32) -> io::Result<Self> {
        let mut writer = Self { out };
        let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        option(&mut section, APPLICATION, concat!("weir ", env!("CARGO_PKG_VERSION")).as_bytes());
        end_options(&mut section);
        writer.block(SECTION, &section)?;
        for port in ports {
            let mut interface = ETHERNET.to_le_bytes().to_vec();
            interface.extend([0, 0]);
            interface.extend(snaplen.to_le_bytes());
            option(&mut interface, COMMENT, TIMES.as_bytes());
            option(&mut interface, NAME, port.as_bytes());
            // Times count nanoseconds.
            option(&mut interface, RESOLUTION, &[9]);
            end_options(&mut interface);
            writer.block(INTERFACE, &interface)?;
        }
        Ok(writer)
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
        self.block_of(0, unix_ns, bytes, len, |body| option(body, COMMENT, comment.as_bytes()))
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
        let direction: u32 = if sent { 2 } else { 1 };
        self.block_of(interface, unix_ns, bytes, len, |body| option(body, FLAGS, &direction.to_le_bytes()))
    }

    fn block_of(
        &mut self,
        interface: u32,
        unix_ns: u64,
        bytes: &[u8],
        len: u32,
        options: impl Fn(&mut Vec<u8>),
    ) -> io::Result<()> {
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(((unix_ns >> 32) as u32).to_le_bytes());
        body.extend((unix_ns as u32).to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend(len.max(bytes.len() as u32).to_le_bytes());
        body.extend(bytes);
        pad(&mut body);
        options(&mut body);
        end_options(&mut body);
        self.block(PACKET, &body)
    }

    /// Ends the file with the statistics of its interface: frames, and records that found no room. A file without them
    /// is cut short.
    ///
    /// # Errors
    /// Writing fails.
    pub fn end(&mut self, frames: u64, missed: u64) -> io::Result<()> {
        self.statistics(0, &[(RECEIVED, frames), (MISSED, missed)])
    }

    /// Adds the statistics of an interface: its frames in the file.
    ///
    /// # Errors
    /// Writing fails.
    pub fn end_of(&mut self, interface: u32, frames: u64) -> io::Result<()> {
        self.statistics(interface, &[(RECEIVED, frames)])
    }

    fn statistics(&mut self, interface: u32, counts: &[(u16, u64)]) -> io::Result<()> {
        // At no time.
        let mut body = [&interface.to_le_bytes()[..], &[0; 8]].concat();
        counts.iter().for_each(|(code, count)| option(&mut body, *code, &count.to_le_bytes()));
        end_options(&mut body);
        self.block(STATISTICS, &body)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let length = (body.len() as u32 + 12).to_le_bytes();
        let block = [&kind.to_le_bytes()[..], &length, body, &length].concat();
        self.out.write_all(&block)?;
        self.out.flush()
    }
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(OPTION)];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn end_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
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
        let mut writer = Writer::new(&mut file, "p0", 128).unwrap();
        writer.packet(0x0102_0304_0506_0708, &[0xaa; 61], 1500, "lost at p0").unwrap();
        writer.packet(1, &[], 60, "").unwrap();
        writer.end(2, 1).unwrap();
        let blocks = blocks(&file);
        assert_eq!(
            blocks.iter().map(|b| b.0).collect::<Vec<_>>(),
            [SECTION, INTERFACE, PACKET, PACKET, STATISTICS]
        );
        assert_eq!(blocks[4].1[12..24], [4, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let packet = &blocks[2].1;
        assert_eq!(packet[4..12], [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!((packet[12], u32::from_le_bytes(packet[16..20].try_into().unwrap())), (61, 1500));
        assert_eq!(packet[20..84], [&[0xaa; 61][..], &[0; 3]].concat());
        assert_eq!(packet[84..88], [1, 0, 10, 0]);
        assert_eq!(&packet[88..98], b"lost at p0");
        assert!(blocks[1].1.windows(2).any(|w| w == b"p0"));
        assert!(String::from_utf8_lossy(&blocks[1].1).contains("the time of the burst"));
    }
}

//! Reads what `weir capture` wrote, and says what is wrong with a file that cannot be replayed.

use crate::refusal::refuse;
use anyhow::Result;
use pcap_file::PcapError;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use weir_mgmt::admin::comment::{FrameHistory, is_only};

/// Bytes of a frame that hold all headers weir reads: Ethernet, two tags, IPv6, UDP, BTH.
const HEADER_BYTES: usize = 14 + 8 + 40 + 8 + 12;

/// A frame of a capture.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Name of the interface it came to: the port.
    pub port: String,
    /// When, ns since 1970.
    pub unix_ns: u64,
    /// Its first bytes, and its length without FCS.
    pub bytes: Vec<u8>,
    pub len: usize,
    /// What happened to it.
    pub history: Option<FrameHistory>,
}

/// A capture that ended as it should, as far as the file tells.
#[derive(Debug)]
pub struct CaptureFile {
    /// Who wrote it says that it is whole. Wireshark's mergecap leaves that out, and how many records found no room.
    pub is_whole: bool,
    /// In the order of the file.
    pub frames: Vec<Captured>,
    /// Records that found no room while it was made.
    pub missed: u64,
    /// It says that it was filtered.
    pub filtered: bool,
    /// Names of its interfaces, with frames or without.
    pub ports: BTreeSet<String>,
}

/// An interface: its name, and nanoseconds in a unit of its time stamps as a fraction.
struct Interface {
    name: Option<String>,
    per_unit: (u64, u64),
    filtered: bool,
}

/// What a pcapng file begins with, in either byte order: the type of its section header.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// First words of a classic pcap file: with time stamps in microseconds, in nanoseconds, and of Kuznetzov's.
const CLASSIC: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];

/// What to do about a file that another program has changed.
pub const AS_WRITTEN: &str = "replay the file as `weir capture` wrote it";

impl CaptureFile {
    /// Reads a whole file.
    ///
    /// # Errors
    /// It is no pcapng file, is cut short, or has frames without their headers.
    pub fn read(mut input: impl Read) -> Result<Self> {
        let mut magic = Vec::new();
        // What cannot be read here cannot be read below, where it is told.
        let _ = input.by_ref().take(4).read_to_end(&mut magic);
        if CLASSIC.iter().any(|number| magic == number.to_le_bytes() || magic == number.to_be_bytes()) {
            let what =
                "a classic pcap file, not pcapng: it has no place for what the switch did with a frame";
            return Err(refuse("", what, AS_WRITTEN));
        }
        if magic.len() == SECTION.len() && magic != SECTION {
            return Err(refuse("", "not a pcapng file", "`weir capture` writes them"));
        }
        let mut reader = match PcapNgReader::new(magic.chain(input)) {
            Ok(reader) => reader,
            Err(PcapError::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(refuse("", "cut short: not even its first block is whole", "capture again"));
            }
            Err(error) => {
                return Err(refuse("", format!("not a pcapng file ({error})"), "`weir capture` writes them"));
            }
        };
        let mut interfaces: Vec<Interface> = Vec::new();
        let (mut frames, mut missed, mut is_whole, mut filtered) = (Vec::new(), 0, false, false);
        let mut ports = BTreeSet::new();
        while let Some(block) = reader.next_block() {
            let number = frames.len();
            let cut = |error| {
                let what = format!("cut short after frame {number}: its last block is not whole ({error})");
                refuse("", what, "capture again")
            };
            match block.map_err(cut)? {
                Block::SectionHeader(_) => interfaces.clear(),
                Block::InterfaceDescription(block) => {
                    let interface = interface(&block.options);
                    filtered |= interface.filtered;
                    ports.extend(interface.name.clone());
                    interfaces.push(interface);
                }
                Block::EnhancedPacket(packet) => {
                    let Some(from) = interfaces.get(packet.interface_id as usize) else {
                        let what = format!(
                            "it names interface {}, which the file does not describe",
                            packet.interface_id
                        );
                        return Err(refuse(format!("frame {}", number + 1), what, AS_WRITTEN));
                    };
                    let Some(port) = &from.name else {
                        let place = format!("interface {}", packet.interface_id);
                        return Err(refuse(
                            place,
                            "it has no name, which would say which port it is",
                            AS_WRITTEN,
                        ));
                    };
                    let len = packet.original_len as usize;
                    if packet.data.len() < HEADER_BYTES.min(len) {
                        let got = packet.data.len();
                        let what = format!("it has {got} of {len} bytes, too few for its headers");
                        let remedy = format!("capture with --snaplen {HEADER_BYTES} or more");
                        return Err(refuse(format!("frame {}", number + 1), what, remedy));
                    }
                    let comment = packet.options.iter().find_map(|option| match option {
                        EnhancedPacketOption::Comment(text) => Some(text.as_ref()),
                        _ => None,
                    });
                    let units = u64::try_from(packet.timestamp.as_nanos()).unwrap_or(u64::MAX);
                    let (times, over) = from.per_unit;
                    frames.push(Captured {
                        port: port.clone(),
                        unix_ns: u64::try_from(u128::from(units) * u128::from(times) / u128::from(over))
                            .unwrap_or(u64::MAX),
                        bytes: packet.data.to_vec(),
                        len,
                        history: comment.and_then(FrameHistory::read),
                    });
                }
                Block::InterfaceStatistics(block) => {
                    is_whole = true;
                    missed += block
                        .options
                        .iter()
                        .map(|option| match option {
                            InterfaceStatisticsOption::IsbOsDrop(count) => *count,
                            _ => 0,
                        })
                        .sum::<u64>();
                }
                _ => {}
            }
        }
        let is_merged = reader.section().options.iter().any(
            |option| matches!(option, SectionHeaderOption::UserApplication(by) if by.starts_with("Mergecap")),
        );
        if !is_whole && !is_merged {
            let what = format!("cut short: there are {} frames, and no statistics behind them", frames.len());
            let remedy = "let `weir capture` end by --count or --for; Wireshark's reordercap and editcap leave the statistics out, replay the file they were given";
            return Err(refuse("", what, remedy));
        }
        Ok(Self { is_whole, frames, missed, filtered, ports })
    }

    /// Frames that came to its port are not in it, as it says itself.
    pub fn lacks_frames(&self) -> bool {
        self.filtered || self.missed > 0
    }
}

fn interface(options: &[InterfaceDescriptionOption<'_>]) -> Interface {
    let mut found = Interface { name: None, per_unit: (1000, 1), filtered: false };
    for option in options {
        match option {
            InterfaceDescriptionOption::IfName(name) => found.name = Some(name.to_string()),
            InterfaceDescriptionOption::Comment(comment) => found.filtered |= is_only(comment),
            // Another program's.
            InterfaceDescriptionOption::IfFilter(_) => found.filtered = true,
            // A power of ten, or with the high bit of two.
            InterfaceDescriptionOption::IfTsResol(power @ 0..=9) => {
                found.per_unit = (10u64.pow(9 - u32::from(*power)), 1);
            }
            InterfaceDescriptionOption::IfTsResol(power @ 10..=18) => {
                found.per_unit = (1, 10u64.pow(u32::from(*power) - 9));
            }
            InterfaceDescriptionOption::IfTsResol(power) if power & 0x80 != 0 => {
                found.per_unit = (1_000_000_000, 1 << (power & 0x3f));
            }
            _ => {}
        }
    }
    found
}

//! What determines how a frame is forwarded, in three words.
//!
//! Frames of a port with the same [`FlowKey`] have the same addresses, VLAN, priority and ECN field, and all of them or
//! none are CNPs: one decision holds for them, in every format. What differs between them later in the frame (lengths,
//! fragments, transport) is checked while the key is made.

use super::headers::{IPV4, IPV6, MAC_CONTROL, Tags, UDP, be16, is_tag};
use super::membership::{is_of_ipv4, is_of_ipv6};
use super::{Kind, Profile};
use crate::types::MIN_FRAME_BYTES;

/// Bytes from the start of a frame that a key can cover: both addresses, a tag, the EtherType and the first two of IP.
const COVERED: usize = 20;
/// The same where two tags are left out of it: the inner one is in no key.
const COVERED_WITH_TAGS: usize = COVERED + 4;
/// The shortest header of any format.
const LEAST: usize = 12;

/// Addresses 01-80-C2-00-00-00 to -0F (802.1Q table 8-1), in the first word.
const RESERVED: u64 = 0x0000_0000_00c2_8001;
const RESERVED_MASK: u64 = 0x0000_f0ff_ffff_ffff;

/// In the third word, above four bytes of the frame: it is a CNP.
const CNP: u64 = 1 << 32;
/// Above that: it has two tags, and the four bytes are those behind the inner one, of which nothing matters.
const TWO_TAGS: u64 = 1 << 33;

/// Room for each number of bytes that can be kept.
const COUNTS: usize = (COVERED - LEAST + 1).next_power_of_two();

/// Masks for the second and third word that keep the first 12 to 20 bytes of a frame; of the last one only its high four
/// bits where they are those of an IPv6 traffic class, beside which a flow label begins.
const KEEP: [[u64; 2]; 2 * COUNTS] = {
    let mut all = [[0; 2]; 2 * COUNTS];
    let mut count = LEAST;
    while count <= COVERED {
        let (second, third) = if count <= 16 { (count - 8, 0) } else { (8, count - 16) };
        let whole = [u64::MAX >> (64 - 8 * second), (1 << (8 * third)) - 1];
        let label = 0x0f << (8 * ((count - 1) % 8));
        all[count - LEAST] = whole;
        all[COUNTS + count - LEAST] =
            if third == 0 { [whole[0] & !label, 0] } else { [whole[0], whole[1] & !label] };
        count += 1;
    }
    all
};

/// What of a header makes its key. It fits a register: a key that is returned in memory is read in other pieces than it was
/// written in, which takes longer than to make it.
#[derive(Clone, Copy)]
struct Kept(u32);

impl Kept {
    const LABEL: u32 = COUNTS as u32;
    const CNP: u32 = 2 * COUNTS as u32;
    const TWO_TAGS: u32 = 2 * Self::CNP;

    /// Of the first `count` bytes; `label`: half of the last one is a flow label. `None`: those are too many.
    #[inline(always)]
    fn of(count: usize, label: bool, cnp: u64) -> Option<Self> {
        let cnp = if cnp == 0 { 0 } else { Self::CNP };
        let kept = Self((count - LEAST) as u32 | (u32::from(label) * Self::LABEL) | cnp);
        (count <= COVERED).then_some(kept)
    }

    #[inline(always)]
    fn key(self, head: &Head) -> Option<FlowKey> {
        let [second, third] = KEEP[self.0 as usize % KEEP.len()];
        let cnp = if self.0 & Self::CNP == 0 { 0 } else { CNP };
        let (at, tags) = if self.0 & Self::TWO_TAGS == 0 { (16, 0) } else { (20, TWO_TAGS) };
        Some(FlowKey([word(head, 0)?, word(head, 8)? & second, word(head, at)? & third | cnp | tags]))
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey([u64; 3]);

impl FlowKey {
    /// Bits of the third word from this one on are 0.
    pub const FREE: u32 = 34;

    /// The words, little endian as the frame has them.
    #[inline(always)]
    pub fn words(self) -> [u64; 3] {
        self.0
    }

    /// Its high bits depend on all bits of the key.
    #[inline(always)]
    pub fn hash(self) -> u64 {
        let [a, b, c] = self.0;
        let first = (a ^ c.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Once more: a product carries what differs to higher bits only.
        (first ^ b).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
    }
}

/// What a frame on the wire has at least: nothing of it has to be looked for.
type Head = [u8; MIN_FRAME_BYTES as usize];

/// Of the four bytes behind two MAC addresses, these are EtherType, IP version and length of header.
const PLAIN_MASK: u32 = 0x00ff_ffff;
/// IPv4 without options.
pub(super) const PLAIN_IPV4: u32 = 0x0045_0008;
/// An 802.1Q tag in front of it: the first two of the four bytes.
pub(super) const PLAIN_TAG: u32 = 0x0000_0081;
/// IPv6, of whatever traffic class: with [`IPV6_MASK`] in place of [`PLAIN_MASK`].
pub(super) const PLAIN_IPV6: u32 = 0x0060_dd86;
const IPV6_MASK: u32 = 0x00f0_ffff;
/// Of no frame.
pub(super) const NOT_PLAIN: u32 = u32::MAX;

/// Eight bytes, little endian.
#[inline(always)]
fn word(head: &Head, at: usize) -> Option<u64> {
    head.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The same of four.
#[inline(always)]
fn half(head: &Head, at: usize) -> Option<u32> {
    head.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

impl Profile {
    /// The key of a frame of `len` bytes of which `bytes` can be read. `None`: the frame is looked at by itself. It is
    /// malformed or for the bridge itself (MAC control, reserved addresses), it ends within its headers, it may be one of
    /// [`super::MembershipFrame`], or so much of it matters that no key has room for it.
    #[inline(always)]
    pub fn flow_key(&self, bytes: &[u8], len: usize) -> Option<FlowKey> {
        match bytes.first_chunk() {
            Some(head) => self.key_of(head, bytes, len),
            None => self.key_of_unpadded(bytes, len),
        }
    }

    /// The same of a frame that begins with `head`.
    #[inline(always)]
    fn key_of(&self, head: &Head, bytes: &[u8], len: usize) -> Option<FlowKey> {
        // The same with less to ask for the most usual frames.
        let start = half(head, 12)?;
        let odd = (head[0] | head[6]) & 1 != 0 || len > self.max_frame;
        if start & PLAIN_MASK == self.plain_start && !odd {
            let cnp = self.plain_ipv4(14, head, len);
            return Some(FlowKey([word(head, 0)?, word(head, 8)?, cnp?]));
        }
        if start & 0xffff == self.plain_tag
            && !odd
            && let Some(behind) = half(head, 16).filter(|behind| behind & PLAIN_MASK == PLAIN_IPV4)
        {
            let cnp = self.plain_ipv4(18, head, len);
            return Some(FlowKey([word(head, 0)?, word(head, 8)?, u64::from(behind) | cnp?]));
        }
        if start & IPV6_MASK == self.plain_ipv6 && !odd {
            let ([second, _], cnp) = (KEEP[COUNTS + 16 - LEAST], self.ipv6(14, false, head, bytes, len));
            return Some(FlowKey([word(head, 0)?, word(head, 8)? & second, cnp?]));
        }
        if start & 0xffff == self.plain_type1 && !odd {
            let cnp = self.transport(len.checked_sub(14)?, head.get(14));
            return Some(FlowKey([word(head, 0)?, word(head, 8)? & KEEP[14 - LEAST][0], cnp?]));
        }
        self.any_kept(head, bytes, len)?.key(head)
    }

    /// The same of a frame that nobody padded, as virtual devices bring them. Zeros stand for what it lacks: a key covers none
    /// of them, and lengths in its headers that reach there are longer than the frame.
    #[inline(never)]
    fn key_of_unpadded(&self, bytes: &[u8], len: usize) -> Option<FlowKey> {
        let mut head: Head = [0; _];
        head.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let is_whole = bytes.len() == len && len >= COVERED_WITH_TAGS;
        if is_whole { self.key_of(&head, bytes, len) } else { None }
    }

    /// Called rather than inlined: the loop over plain frames needs its registers.
    #[inline(never)]
    fn any_kept(&self, head: &Head, bytes: &[u8], len: usize) -> Option<Kept> {
        match self.header_len {
            14 => self.kept_behind(14, head, bytes, len),
            other => self.kept_behind(other.clamp(LEAST, 16), head, bytes, len),
        }
    }

    #[inline(always)]
    fn kept_behind(&self, header: usize, head: &Head, bytes: &[u8], len: usize) -> Option<Kept> {
        let (first, second) = (word(head, 0)?, word(head, 8)?);
        let from_group = (first & self.src_group_bits[0]) | (second & self.src_group_bits[1]) != 0;
        if from_group || first & RESERVED_MASK == RESERVED || len > self.max_frame {
            return None;
        }
        if self.ethertype.is_none() {
            return Kept::of(header, false, 0);
        }
        // Members of groups are told of to groups alone. Formats with other headers have their group bits elsewhere.
        let to_group = header != 14 || head[0] & 1 != 0;
        // The last two bytes of the header.
        let (mut ethertype, mut at) = (((second >> (8 * (header - 10))) as u16).swap_bytes(), header);
        let mut two_tags = 0;
        if is_tag(ethertype) {
            ethertype = be16(head, at + 2).filter(|_| self.vlan)?;
            at += 4;
            if is_tag(ethertype) {
                // The outer one is in the first 16 bytes then.
                ethertype = be16(head, at + 2).filter(|_| header == 14)?;
                at += 4;
                two_tags = 4;
            }
        }
        let (count, label, cnp) = match ethertype {
            MAC_CONTROL => return None,
            IPV4 if self.ip => (at + 2, false, self.ipv4(at, to_group, head, bytes, len)?),
            IPV6 if self.ip => (at + 2, true, self.ipv6(at, to_group, head, bytes, len)?),
            _ if self.ip || ethertype != self.type1_ethertype => (at, false, 0),
            _ => (at, false, self.transport(len.checked_sub(at)?, bytes.get(at))?),
        };
        let kept = Kept::of(count - two_tags, label, cnp)?;
        Some(if two_tags == 0 { kept } else { Kept(kept.0 | Kept::TWO_TAGS) })
    }

    /// Checks an IPv4 datagram. [`CNP`] if it is one, else 0; `None` if it is malformed, or to a group and perhaps a
    /// [`super::MembershipFrame`].
    #[inline(always)]
    fn ipv4(&self, at: usize, to_group: bool, head: &Head, bytes: &[u8], len: usize) -> Option<u64> {
        if to_group && is_of_ipv4(*head.get(at + 9)?) {
            return None;
        }
        match *head.get(at)? {
            0x45 => self.plain_ipv4(at, head, len),
            _ => self.with_options(at, bytes, len),
        }
    }

    /// The same of one without options.
    #[inline(always)]
    fn plain_ipv4(&self, at: usize, head: &Head, len: usize) -> Option<u64> {
        // Total length, identification, flags and fragment offset, TTL, protocol.
        let fields = word(head, at + 2)?.swap_bytes();
        let (total, udp) = ((fields >> 48) as usize, fields & 0x1fff_00ff == u64::from(UDP));
        if total + at > len {
            return None;
        }
        if !udp {
            return (total >= 20).then_some(0);
        }
        self.udp(be16(head, at + 22)?, 20, total, head.get(at + 28))
    }

    /// The same of an IPv6 datagram.
    #[inline(always)]
    fn ipv6(&self, at: usize, to_group: bool, head: &Head, bytes: &[u8], len: usize) -> Option<u64> {
        let payload = usize::from(be16(head, at + 4)?);
        if head.get(at)? >> 4 != 6 || bytes.len() < at + 40 || payload + 40 + at > len {
            return None;
        }
        let next_header = *head.get(at + 6)?;
        if next_header != UDP {
            return (!to_group || !is_of_ipv6(next_header)).then_some(0);
        }
        // The shortest frame on the wire may end before that.
        self.udp(be16(bytes, at + 42).filter(|_| payload >= 8)?, 0, payload, bytes.get(at + 48))
    }

    /// The same of UDP to `port`, behind `header` of a datagram's `total` bytes; `first` is the first byte behind it.
    #[inline(always)]
    fn udp(&self, port: u16, header: usize, total: usize, first: Option<&u8>) -> Option<u64> {
        if port != self.udp_port {
            return (total >= header + 8).then_some(0);
        }
        self.transport(total.checked_sub(header + 8)?, first)
    }

    /// The same of a transport header with what follows it, `len` bytes of which `first` is the first.
    #[inline(always)]
    fn transport(&self, len: usize, first: Option<&u8>) -> Option<u64> {
        if len < self.opcodes.header_len {
            return None;
        }
        Some(if self.opcodes.is_cnp(*first?) { CNP } else { 0 })
    }

    /// The same of IPv4 with options, or what pretends to be that.
    #[inline(never)]
    fn with_options(&self, at: usize, bytes: &[u8], len: usize) -> Option<u64> {
        let upper = self.upper_layers(bytes, len, &Tags { pcp: None, vid: 0, ethertype: IPV4, payload: at });
        (!upper.malformed).then_some(if upper.kind == Kind::Cnp { CNP } else { 0 })
    }
}

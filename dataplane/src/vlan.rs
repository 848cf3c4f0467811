//! VLANs (802.1Q): which of them a port is a member of, and with which tag frames leave.
//!
//! A frame belongs to one VLAN from the moment it is received: that of its tag, or the native one of its port if it has
//! none (or a priority tag, VID 0). Only tags of EtherType 0x8100 count, the outermost; what stands behind is payload.
//! On a switch none of whose ports says anything about VLANs, tags are part of the address of a station and nothing more.

use crate::drops::DropReason;
use crate::frame::Frame;
use crate::parse::{EcnCode, Profile, be16};
use crate::portset::PortSet;
use crate::types::PortId;

/// VLAN ids there can be; 0 is that of priority tags, [`RESERVED_VID`] of none.
const VIDS: usize = 4096;
/// No VLAN has this id (802.1Q table 9-2).
pub const RESERVED_VID: u16 = 4095;
/// EtherType of the tag.
pub const TPID: u16 = 0x8100;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 4;

/// A set of VLAN ids.
#[derive(Clone, PartialEq, Eq)]
pub struct VidSet(Box<[u64; VIDS / 64]>);

impl VidSet {
    /// Adds a VLAN id below 4096; others are ignored.
    pub fn insert(&mut self, vid: u16) {
        if let Some(word) = self.0.get_mut(usize::from(vid) / 64) {
            *word |= 1 << (vid % 64);
        }
    }

    /// It is in the set.
    pub fn contains(&self, vid: u16) -> bool {
        self.0.get(usize::from(vid) / 64).is_some_and(|word| word >> (vid % 64) & 1 == 1)
    }

    /// The ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0..VIDS as u16).filter(|vid| self.contains(*vid))
    }
}

impl FromIterator<u16> for VidSet {
    fn from_iter<I: IntoIterator<Item = u16>>(vids: I) -> Self {
        let mut set = Self(Box::new([0; VIDS / 64]));
        vids.into_iter().for_each(|vid| set.insert(vid));
        set
    }
}

impl std::fmt::Debug for VidSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The VLANs of a port. An access port has a native one and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortVlans {
    /// That of frames without a tag; its frames leave without one. `None`: such frames are dropped.
    pub native: Option<u16>,
    /// Those the port is a member of, the native one among them.
    pub members: VidSet,
}

/// What a frame came in as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// Without a tag.
    No,
    /// With one that has a priority and no VLAN (VID 0).
    Priority,
    /// With one.
    Yes,
}

/// The VLAN of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameVlan {
    /// Its id.
    pub vid: u16,
    /// How that is known.
    pub tagged: Tagged,
}

impl PortVlans {
    /// The VLAN of a frame received here.
    ///
    /// # Errors
    /// Why it is in none of this port.
    pub fn classify(&self, profile: &Profile, bytes: &[u8]) -> Result<FrameVlan, DropReason> {
        self.of_tag(profile.tag_at().and_then(|at| vid_at(bytes, at)))
    }

    /// The VLAN of a frame whose tag says this; `None`: it has none.
    ///
    /// # Errors
    /// As [`PortVlans::classify`].
    pub fn of_tag(&self, vid: Option<u16>) -> Result<FrameVlan, DropReason> {
        let native = |tagged| match self.native {
            Some(vid) => Ok(FrameVlan { vid, tagged }),
            None => Err(DropReason::VlanUntagged),
        };
        match vid {
            None => native(Tagged::No),
            Some(0) => native(Tagged::Priority),
            Some(RESERVED_VID) => Err(DropReason::VlanReserved),
            Some(vid) if self.members.contains(vid) => Ok(FrameVlan { vid, tagged: Tagged::Yes }),
            Some(_) => Err(DropReason::VlanIngressFiltered),
        }
    }
}

/// VID of the tag at `at`, if there is one.
fn vid_at(bytes: &[u8], at: usize) -> Option<u16> {
    (be16(bytes, at)? == TPID).then(|| be16(bytes, at + 2)).flatten().map(|tci| tci & 0xfff)
}

/// What is done to the tag of a frame before it leaves. The numbers are those of decisions that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Retag {
    /// Nothing.
    Keep = 0,
    /// It is taken off.
    Pop = 1,
    /// One is put on: native VLAN of the port it came by, PCP of its class.
    Push = 2,
    /// It gets the native VLAN of the port it came by, and keeps its priority.
    Rewrite = 3,
}

impl Retag {
    /// From its number, of which the low two bits count.
    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        [Self::Keep, Self::Pop, Self::Push, Self::Rewrite][bits as usize % 4]
    }

    /// Bytes a frame becomes longer.
    pub fn growth(self) -> isize {
        match self {
            Self::Keep | Self::Rewrite => 0,
            Self::Pop => -(TAG_BYTES as isize),
            Self::Push => TAG_BYTES as isize,
        }
    }

    /// Where the ECN bits are afterwards.
    pub(crate) fn moved(self, ecn: EcnCode) -> EcnCode {
        ecn.moved(self.growth())
    }

    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Keep => "unchanged",
            Self::Pop => "popped",
            Self::Push => "pushed",
            Self::Rewrite => "rewritten",
        }
    }

    /// Does it to a frame whose tag stands at `at`: `pcp` and `vid` are those of one that is put on. `false`: there is no
    /// memory or no place for it, and the frame is as it was.
    #[must_use]
    pub(crate) fn apply<F: Frame>(self, frame: &mut F, at: usize, pcp: u8, vid: u16) -> bool {
        let [high, low] = (u16::from(pcp) << 13 | vid).to_be_bytes();
        let [first, second] = TPID.to_be_bytes();
        match self {
            Self::Keep => true,
            _ if !frame.make_unique() => false,
            Self::Pop => frame.remove_tag(at),
            Self::Push => frame.insert_tag(at, [first, second, high, low]),
            Self::Rewrite => {
                let Some(tci) = frame.bytes_mut().get_mut(at + 2..at + 4) else { return false };
                (tci[0], tci[1]) = (tci[0] & 0xf0 | high & 0x0f, low);
                true
            }
        }
    }
}

/// The ports of one VLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanPorts {
    /// Its frames leave with a tag.
    pub tagged: PortSet,
    /// Its frames leave without one: it is native there.
    pub untagged: PortSet,
}

/// The ports of each VLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlans {
    ports: Box<[VlanPorts]>,
    /// By port those that are in a VLAN with it.
    sharing: Vec<PortSet>,
}

impl Vlans {
    /// Of all ports in order; `None`: none of them says anything about VLANs.
    pub fn of<'a>(ports: impl Iterator<Item = Option<&'a PortVlans>>) -> Option<Self> {
        let all: Vec<_> = ports.collect();
        if all.iter().all(Option::is_none) {
            return None;
        }
        let mut ports: Box<[VlanPorts]> = vec![VlanPorts::default(); VIDS].into();
        for (port, of_port) in all.iter().enumerate() {
            let Some(of_port) = of_port else { continue };
            for vid in of_port.members.iter() {
                let VlanPorts { tagged, untagged } = &mut ports[usize::from(vid)];
                let set = if of_port.native == Some(vid) { untagged } else { tagged };
                set.insert(PortId(port as u16));
            }
        }
        let with = |of_port: &PortVlans| {
            let vlans = of_port.members.iter().map(|vid| ports[usize::from(vid)].all());
            vlans.fold(PortSet::EMPTY, |with, members| with.union(&members))
        };
        let sharing = all.iter().map(|of_port| of_port.map_or(PortSet::EMPTY, with)).collect();
        Some(Self { ports, sharing })
    }

    /// The ports of a VLAN.
    pub fn ports(&self, vid: u16) -> VlanPorts {
        self.ports.get(usize::from(vid)).copied().unwrap_or_default()
    }

    /// The ports that are in a VLAN with this one, itself among them: where frames go that are in no VLAN, those of link-local
    /// protocols. Bridges beyond see each other's then if, and only if, data passes between them.
    pub fn sharing(&self, port: PortId) -> PortSet {
        self.sharing.get(port.index()).copied().unwrap_or_default()
    }

    /// What is done to a frame of this VLAN that leaves by a port. `None`: the port is no member.
    pub fn retag(&self, vlan: FrameVlan, out: PortId) -> Option<Retag> {
        let VlanPorts { tagged, untagged } = self.ports(vlan.vid);
        if untagged.contains(out) {
            Some(vlan.without_tag())
        } else {
            tagged.contains(out).then(|| vlan.with_tag())
        }
    }
}

impl VlanPorts {
    /// All of them.
    pub fn all(&self) -> PortSet {
        self.tagged.union(&self.untagged)
    }
}

impl FrameVlan {
    /// What is done to it where it leaves with a tag.
    pub fn with_tag(self) -> Retag {
        match self.tagged {
            Tagged::No => Retag::Push,
            Tagged::Priority => Retag::Rewrite,
            Tagged::Yes => Retag::Keep,
        }
    }

    /// What is done to it where it leaves without one.
    pub fn without_tag(self) -> Retag {
        if self.tagged == Tagged::No { Retag::Keep } else { Retag::Pop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::OwnedFrame;

    fn frame(tags: &[(u16, u16)]) -> OwnedFrame {
        let mut bytes = vec![1; 12];
        for (tpid, tci) in tags {
            bytes.extend(tpid.to_be_bytes());
            bytes.extend(tci.to_be_bytes());
        }
        bytes.extend([8, 0, 0x45]);
        bytes.resize(64, 7);
        OwnedFrame::new(bytes)
    }

    fn access(vid: u16) -> PortVlans {
        PortVlans { native: Some(vid), members: [vid].into_iter().collect() }
    }

    fn trunk(native: Option<u16>, vids: &[u16]) -> PortVlans {
        PortVlans { native, members: vids.iter().copied().chain(native).collect() }
    }

    #[test]
    fn a_frame_is_in_the_vlan_of_its_tag_or_the_native_one() {
        let profile = Profile::standard();
        let is = |port: &PortVlans, tags: &[(u16, u16)]| port.classify(&profile, frame(tags).bytes());
        let in_vlan = |vid, tagged| Ok(FrameVlan { vid, tagged });
        let (a, t, n) = (access(10), trunk(None, &[10, 20]), trunk(Some(1), &[10]));
        assert_eq!(is(&a, &[]), in_vlan(10, Tagged::No));
        assert_eq!(is(&a, &[(0x8100, 5 << 13)]), in_vlan(10, Tagged::Priority));
        assert_eq!(is(&a, &[(0x8100, 10)]), in_vlan(10, Tagged::Yes));
        assert_eq!(is(&a, &[(0x8100, 20)]), Err(DropReason::VlanIngressFiltered));
        assert_eq!(is(&t, &[]), Err(DropReason::VlanUntagged));
        assert_eq!(is(&t, &[(0x8100, 0x1000)]), Err(DropReason::VlanUntagged));
        assert_eq!(is(&t, &[(0x8100, 7 << 13 | 20)]), in_vlan(20, Tagged::Yes));
        assert_eq!(is(&t, &[(0x8100, 4095)]), Err(DropReason::VlanReserved));
        assert_eq!(is(&n, &[(0x8100, 1)]), in_vlan(1, Tagged::Yes));
        // A service tag is payload, and of two customer tags the outer one counts.
        assert_eq!(is(&n, &[(0x88a8, 10), (0x8100, 10)]), in_vlan(1, Tagged::No));
        assert_eq!(is(&t, &[(0x8100, 10), (0x8100, 99)]), in_vlan(10, Tagged::Yes));
        // Formats without an EtherType have no tags.
        let lite = Profile::afh_lite(crate::parse::Variant::Public);
        assert_eq!(a.classify(&lite, frame(&[(0x8100, 20)]).bytes()), in_vlan(10, Tagged::No));
    }

    #[test]
    fn tags_come_and_go_and_the_rest_stays() {
        let plain = frame(&[]);
        let tagged = |tci| {
            let mut bytes = plain.bytes().to_vec();
            bytes.splice(12..12, [0x81, 0, (tci as u16 >> 8) as u8, tci as u8]);
            bytes
        };
        let mut one = plain.share().unwrap();
        assert!(Retag::Push.apply(&mut one, 12, 5, 100));
        assert_eq!(one.bytes(), tagged(5 << 13 | 100));
        assert_eq!(plain.bytes(), frame(&[]).bytes(), "the other handle has what it had");
        let mut dei = OwnedFrame::new(tagged(3 << 13 | 1 << 12));
        assert!(Retag::Rewrite.apply(&mut dei, 12, 5, 100));
        assert_eq!(dei.bytes(), tagged(3 << 13 | 1 << 12 | 100), "priority and drop eligibility are kept");
        assert!(Retag::Pop.apply(&mut one, 12, 0, 0));
        assert_eq!(one, plain);
        for retag in [Retag::Pop, Retag::Push, Retag::Rewrite] {
            let mut short = OwnedFrame::new([1; 11]);
            assert!(!retag.apply(&mut short, 12, 0, 1), "{retag:?}");
            assert_eq!(short.bytes(), [1; 11]);
        }
    }

    #[test]
    fn each_port_of_a_vlan_sends_with_its_tag_or_without() {
        let ports = [Some(access(10)), Some(trunk(None, &[10, 20])), Some(trunk(Some(20), &[10])), None];
        let vlans = Vlans::of(ports.iter().map(Option::as_ref)).unwrap();
        assert_eq!(Vlans::of([None, None].into_iter()), None);
        let retag = |vid, tagged| [0, 1, 2, 3].map(|out| vlans.retag(FrameVlan { vid, tagged }, PortId(out)));
        use Retag::*;
        assert_eq!(retag(10, Tagged::No), [Some(Keep), Some(Push), Some(Push), None]);
        assert_eq!(retag(10, Tagged::Priority), [Some(Pop), Some(Rewrite), Some(Rewrite), None]);
        assert_eq!(retag(10, Tagged::Yes), [Some(Pop), Some(Keep), Some(Keep), None]);
        assert_eq!(retag(20, Tagged::Yes), [None, Some(Keep), Some(Pop), None]);
        assert_eq!(retag(30, Tagged::Yes), [None; 4]);
        for retag in [Keep, Pop, Push, Rewrite] {
            assert_eq!(Retag::from_bits(retag as u64), retag);
        }
    }
}

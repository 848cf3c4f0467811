//! Memory regions: bytes a queue pair may read or write, named by keys and bounded.

use super::verbs::Sge;
use std::collections::BTreeMap;

/// What may be done to a region besides reading it locally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Receive buffers may lie here.
    pub local_write: bool,
    /// Peers that know the remote key may write here.
    pub remote_write: bool,
    /// Peers that know the remote key may read here.
    pub remote_read: bool,
}

/// Keys of a registered region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mr {
    /// Key for work requests posted here.
    pub lkey: u32,
    /// Key for peers.
    pub rkey: u32,
}

#[derive(Debug)]
struct Region {
    keys: Mr,
    addr: u64,
    bytes: Vec<u8>,
    access: Access,
}

/// All regions of one HCA. A key, unless its owner chose it, is the index of the region above a byte that changes
/// with every registration, so the keys of a region that is gone do not open its successor.
#[derive(Debug, Default)]
pub(super) struct Memory {
    regions: Vec<Option<Region>>,
    /// Index of the region of each remote key.
    remote: BTreeMap<u32, u32>,
    registrations: u32,
}

impl Memory {
    /// Makes `bytes` available as addresses `addr ..`. `None`: they would pass the end of the
    /// address space, there are 2^24 regions, or the remote key `rkey` is taken. Without one it is made up.
    pub fn register(&mut self, addr: u64, bytes: Vec<u8>, access: Access, rkey: Option<u32>) -> Option<Mr> {
        addr.checked_add(bytes.len() as u64)?;
        let free = self.regions.iter().position(Option::is_none).unwrap_or(self.regions.len());
        let index = u32::try_from(free).ok().filter(|&i| i < 1 << 24)?;
        // Even tags are local keys and odd ones remote, so that neither passes for the other.
        let tag = self.registrations << 1 & 0xff;
        let keys = Mr { lkey: index << 8 | tag, rkey: rkey.unwrap_or(index << 8 | tag | 1) };
        if access.remote_write || access.remote_read {
            if self.remote.contains_key(&keys.rkey) {
                return None;
            }
            self.remote.insert(keys.rkey, index);
        }
        self.registrations = self.registrations.wrapping_add(1);
        let region = Some(Region { keys, addr, bytes, access });
        match self.regions.get_mut(free) {
            Some(slot) => *slot = region,
            None => self.regions.push(region),
        }
        Some(keys)
    }

    /// Ends a registration and hands the bytes back.
    pub fn deregister(&mut self, lkey: u32) -> Option<Vec<u8>> {
        let slot = self.regions.get_mut((lkey >> 8) as usize)?;
        let gone = slot.take_if(|r| r.keys.lkey == lkey)?;
        if gone.access.remote_write || gone.access.remote_read {
            self.remote.remove(&gone.keys.rkey);
        }
        Some(gone.bytes)
    }

    fn region(&self, key: u32) -> Option<&Region> {
        self.regions.get((key >> 8) as usize)?.as_ref()
    }

    fn region_mut(&mut self, key: u32) -> Option<&mut Region> {
        self.regions.get_mut((key >> 8) as usize)?.as_mut()
    }

    /// The bytes of `sge`, if its key and bounds are right. No bytes need no key.
    pub fn local(&self, sge: Sge) -> Option<&[u8]> {
        if sge.len == 0 {
            return Some(&[]);
        }
        let region = self.region(sge.lkey).filter(|r| r.keys.lkey == sge.lkey)?;
        region.bytes.get(region.range(sge.addr, sge.len)?)
    }

    /// The bytes of `sge` for writing by their owner.
    pub fn local_mut(&mut self, sge: Sge) -> Option<&mut [u8]> {
        if sge.len == 0 {
            return Some(&mut []);
        }
        let region = self.region_mut(sge.lkey).filter(|r| r.keys.lkey == sge.lkey)?;
        let range = region.range(sge.addr, sge.len)?;
        region.bytes.get_mut(range)
    }

    /// The bytes of `sge` as a receive buffer: the region must allow local writes.
    pub fn receive_buffer(&mut self, sge: Sge) -> Option<&mut [u8]> {
        let writable = sge.len == 0 || self.region(sge.lkey).is_some_and(|r| r.access.local_write);
        if writable { self.local_mut(sge) } else { None }
    }

    /// Bytes a peer names by remote key; the region must allow remote writes.
    pub fn remote_mut(&mut self, rkey: u32, va: u64, len: u32) -> Option<&mut [u8]> {
        let index = *self.remote.get(&rkey)? as usize;
        let region = self.regions.get_mut(index)?.as_mut().filter(|r| r.access.remote_write)?;
        let range = region.range(va, len)?;
        region.bytes.get_mut(range)
    }

    /// Bytes a peer wants to read; the region must allow remote reads. No bytes need no key.
    pub fn remote(&self, rkey: u32, va: u64, len: u32) -> Option<&[u8]> {
        if len == 0 {
            return Some(&[]);
        }
        let index = *self.remote.get(&rkey)? as usize;
        let region = self.regions.get(index)?.as_ref().filter(|r| r.access.remote_read)?;
        region.bytes.get(region.range(va, len)?)
    }
}

impl Region {
    fn range(&self, addr: u64, len: u32) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(addr.checked_sub(self.addr)?).ok()?;
        let end = start.checked_add(len as usize)?;
        (end <= self.bytes.len()).then_some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_bounds_and_rights_are_checked() {
        let mut m = Memory::default();
        let open = Access { local_write: true, remote_write: true, remote_read: false };
        let a = m.register(0x1000, vec![7; 16], open, None).unwrap();
        let b = m.register(0x2000, vec![8; 16], Access::default(), None).unwrap();
        let sge = |lkey, addr, len| Sge { lkey, addr, len };
        assert_eq!(m.local(sge(a.lkey, 0x1004, 12)).unwrap(), [7; 12]);
        assert!(m.local(sge(a.lkey, 0x1004, 13)).is_none());
        assert!(m.local(sge(a.lkey, 0xfff, 1)).is_none());
        assert!(m.local(sge(a.lkey, u64::MAX, 1)).is_none());
        assert!(m.local(sge(a.rkey, 0x1000, 1)).is_none());
        assert!(m.local(sge(77 << 8, 0x1000, 1)).is_none());
        assert!(m.remote_mut(a.rkey, 0x1000, 16).is_some());
        assert!(m.remote_mut(a.lkey, 0x1000, 16).is_none());
        assert!(m.remote_mut(b.rkey, 0x2000, 1).is_none());
        assert!(m.receive_buffer(sge(b.lkey, 0x2000, 1)).is_none());
        assert!(m.local_mut(sge(b.lkey, 0x2000, 1)).is_some());
        assert!(m.register(u64::MAX, vec![0; 2], open, None).is_none());
        assert!(m.remote(a.rkey, 0x1000, 1).is_none() && m.remote(77, 0, 0).is_some());
        let readable = Access { remote_read: true, ..Access::default() };
        let c = m.register(0x3000, vec![9; 16], readable, Some(0xabcd)).unwrap();
        assert_eq!((c.rkey, m.remote(0xabcd, 0x3001, 15)), (0xabcd, Some(&[9; 15][..])));
        assert!(m.remote(0xabcd, 0x3001, 16).is_none() && m.remote_mut(0xabcd, 0x3000, 1).is_none());
        assert_eq!(m.register(0x4000, vec![0; 1], readable, Some(0xabcd)), None, "taken");
        m.deregister(c.lkey);
        assert!(m.remote(0xabcd, 0x3000, 1).is_none());
    }

    #[test]
    fn keys_die_with_their_registration() {
        let mut m = Memory::default();
        let old = m.register(0, vec![1; 4], Access::default(), None).unwrap();
        assert_eq!(m.deregister(old.lkey), Some(vec![1; 4]));
        let new = m.register(0, vec![2; 4], Access::default(), None).unwrap();
        assert_eq!(new.lkey >> 8, old.lkey >> 8);
        assert!(m.local(Sge { lkey: old.lkey, addr: 0, len: 1 }).is_none());
        assert_eq!(m.deregister(old.lkey), None);
    }
}

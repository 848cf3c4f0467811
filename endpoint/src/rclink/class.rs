//! Traffic classes of RC Link, the priority or virtual channel of each, and the traffic-class byte.

use weir_dataplane::types::PRIORITIES;

/// What kind of traffic a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Raw Ethernet (TYPE3).
    Raw,
    /// Multicast (TYPE2).
    Multicast,
    /// Responses.
    Response,
    /// Requests of bank 0 to 3.
    Request(u8),
    /// Acknowledgements and credit messages.
    Ack,
    /// Congestion notifications.
    Cnp,
}

/// Priority of each class: PCP and PFC priority, or virtual channel where credits are used (SW-030).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassMap {
    /// Raw Ethernet.
    pub raw: u8,
    /// Multicast.
    pub multicast: u8,
    /// Responses.
    pub response: u8,
    /// Requests by bank.
    pub request: [u8; 4],
    /// Acknowledgements, credits.
    pub ack: u8,
    /// Congestion notifications.
    pub cnp: u8,
}

impl ClassMap {
    /// The eight priorities for PFC (DEV-11): four request banks share two of them.
    pub fn priorities() -> Self {
        Self { raw: 0, multicast: 1, response: 2, request: [3, 3, 4, 4], ack: 6, cnp: 5 }
    }

    /// Virtual channels for credits: seven flows, seven channels; CNP with ACK (SW-044).
    pub fn channels() -> Self {
        Self { raw: 0, multicast: 1, response: 2, request: [3, 4, 5, 6], ack: 7, cnp: 7 }
    }

    /// Priority of a class, 0 to 7.
    pub fn of(&self, class: Class) -> u8 {
        let priority = match class {
            Class::Raw => self.raw,
            Class::Multicast => self.multicast,
            Class::Response => self.response,
            Class::Request(bank) => self.request[usize::from(bank & 3)],
            Class::Ack => self.ack,
            Class::Cnp => self.cnp,
        };
        priority % PRIORITIES as u8
    }
}

/// What the top of the traffic-class byte says. The coding is ours; published is only that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcType {
    /// TYPE1 data, ACK or CNP.
    Type1,
    /// TYPE2.
    Type2,
    /// A credit message, in AFH_Lite where no header says so.
    Credit,
}

/// The traffic-class byte: `type 3 | channel 3 | 00`. Its upper six bits are the DSCP of Standard
/// frames; the lower two stay clear for ECN and for the group bit they stand on (DEV-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficClass {
    /// Frame type.
    pub kind: TcType,
    /// Priority or virtual channel, 0 to 7.
    pub channel: u8,
}

impl TrafficClass {
    /// The byte.
    pub fn byte(self) -> u8 {
        (self.kind as u8) << 5 | (self.channel & 7) << 2
    }

    /// Reads the byte; `None`: a type that is not known. ECN bits are ignored.
    pub fn read(byte: u8) -> Option<Self> {
        let kind = match byte >> 5 {
            0 => TcType::Type1,
            1 => TcType::Type2,
            2 => TcType::Credit,
            _ => return None,
        };
        Some(Self { kind, channel: byte >> 2 & 7 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sw030_seven_flows_have_seven_channels() {
        let map = ClassMap::channels();
        let banks = (0..4).map(Class::Request);
        let flows = banks.chain([Class::Response, Class::Ack, Class::Multicast]).map(|c| map.of(c));
        assert_eq!(flows.collect::<std::collections::BTreeSet<_>>().len(), 7);
        assert_eq!(map.of(Class::Cnp), map.of(Class::Ack));
    }

    #[test]
    fn dev11_default_priorities() {
        let map = ClassMap::priorities();
        let classes = [Class::Raw, Class::Multicast, Class::Response, Class::Request(0), Class::Request(3)];
        assert_eq!(classes.map(|c| map.of(c)), [0, 1, 2, 3, 4]);
        assert_eq!((map.of(Class::Cnp), map.of(Class::Ack)), (5, 6));
    }

    #[test]
    fn the_byte_round_trips_and_leaves_the_low_bits_clear() {
        for kind in [TcType::Type1, TcType::Type2, TcType::Credit] {
            for channel in 0..8 {
                let tc = TrafficClass { kind, channel };
                assert_eq!(tc.byte() & 3, 0);
                assert_eq!(TrafficClass::read(tc.byte() | 3), Some(tc));
            }
        }
        assert_eq!(TrafficClass::read(0x60), None);
    }
}

//! Messages in raw Ethernet frames (TYPE3): published is that there are such frames, what is in them is ours.

use super::{Endpoint, PostError};
use crate::rclink::class::{Class, TcType, TrafficClass};
use crate::rclink::frame::{Codec, Head, Station};
use weir_dataplane::types::Mac;

/// EtherType of the raw frames made here: the OUI extended one (IEEE 802a), beside the two local experimental ones
/// that TYPE1 and TYPE2 have.
const ETHERTYPE: u16 = 0x88b7;
/// Bytes that say how long a message is: Ethernet may have padded it.
const LENGTH_BYTES: usize = 2;

/// Length of the frame around a message of so many bytes, without FCS.
pub fn raw_message_len(message: usize, tagged: bool) -> usize {
    Codec::raw_len(LENGTH_BYTES + message, tagged)
}

impl Endpoint {
    /// Queues a message in an Ethernet frame of its own (TYPE3) for a station. It is sent once and not acknowledged.
    ///
    /// # Errors
    /// A frame that does not fit, or the format is Lite, which has none.
    pub fn post_raw_message(&mut self, to: Station, message: &[u8]) -> Result<(), PostError> {
        let codec = &self.config.codec;
        if codec.lite() || !codec.payload_range().contains(&message.len()) {
            return Err(PostError::Length(message.len()));
        }
        let channel = self.config.classes.of(Class::Raw);
        let tc = TrafficClass { kind: TcType::Type1, channel };
        let tag = self.config.vlan.map(|vid| (vid, channel));
        let head = Head { dst: to, src: self.config.station, tag, tc, ecn: 0 };
        let mut payload = (message.len() as u16).to_be_bytes().to_vec();
        payload.extend_from_slice(message);
        let mut frame = Vec::new();
        codec.emit_raw(&head, ETHERTYPE, &payload, &mut frame);
        self.post_raw(frame)
    }

    /// Who has sent the message in a raw frame that has arrived, as station bits, and the message; `None`: there is none in it.
    pub fn raw_message<'a>(&self, frame: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let codec = &self.config.codec;
        let payload = codec.raw_payload(frame, ETHERTYPE)?;
        let (len, rest) = payload.split_first_chunk::<LENGTH_BYTES>()?;
        let message = rest.get(..usize::from(u16::from_be_bytes(*len)))?;
        let src = Mac(*frame.get(6..)?.first_chunk()?);
        Some((codec.station(src), message))
    }
}

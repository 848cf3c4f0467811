//! A collector of IPFIX for tests: messages are read by the crate `netflow_parser`, elements that are no standard by the types
//! the stream itself tells of them (RFC 5610).

use netflow_parser::variable_versions::ipfix::FlowSetBody;
use netflow_parser::{DataNumber, FieldValue, IpfixField, NetflowPacket, NetflowParser};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// All that was said.
pub struct Collector {
    parser: NetflowParser,
    /// Number of each element of the enterprise, to its data type and name.
    own: BTreeMap<u64, (u64, String)>,
    /// Number of the template and fields by name, in the order they came.
    pub records: Vec<(u16, Map<String, Value>)>,
    /// Data records that were said to have been sent before, and were not seen.
    pub lost: u32,
    next: u32,
}

impl Default for Collector {
    fn default() -> Self {
        let parser = NetflowParser::default();
        Self { parser, own: BTreeMap::new(), records: Vec::new(), lost: 0, next: 0 }
    }
}

impl Collector {
    /// Reads a datagram from this observation domain.
    pub fn take(&mut self, datagram: &[u8], domain: u32) {
        assert!(datagram.len() <= 1232, "{} bytes", datagram.len());
        let read = self.parser.parse_bytes(datagram);
        assert!(read.error.is_none(), "{:?}", read.error);
        assert_eq!(read.packets.len(), 1, "one message is one datagram");
        for packet in read.packets {
            let NetflowPacket::IPFix(message) = packet else { panic!("no IPFIX: {packet:?}") };
            assert_eq!(usize::from(message.header.length), datagram.len());
            assert_eq!(message.header.observation_domain_id, domain);
            let before = self.records.len();
            for set in message.flowsets {
                let id = set.header.header_id;
                match set.body {
                    FlowSetBody::Data(data) => data.fields.iter().for_each(|fields| self.record(id, fields)),
                    FlowSetBody::OptionsData(data) => {
                        data.fields.iter().for_each(|fields| self.record(id, fields));
                    }
                    FlowSetBody::Template(_)
                    | FlowSetBody::Templates(_)
                    | FlowSetBody::OptionsTemplate(_)
                    | FlowSetBody::OptionsTemplates(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            let sequence = message.header.sequence_number;
            self.lost += sequence.wrapping_sub(self.next);
            self.next = sequence.wrapping_add((self.records.len() - before) as u32);
        }
    }

    fn record(&mut self, template: u16, fields: &[(IpfixField, FieldValue)]) {
        let one = |(field, value): &(IpfixField, FieldValue)| match field {
            IpfixField::IANA(name) => (format!("{name:?}"), plain(value)),
            IpfixField::Enterprise { field_number, .. } => {
                let own = self.own.get(&u64::from(*field_number));
                let (kind, name) = own.unwrap_or_else(|| panic!("element {field_number} has no type"));
                let FieldValue::Vec(bytes) = value else { panic!("{name}: {value:?}") };
                (name.clone(), typed(*kind, bytes))
            }
            other => panic!("{other:?}"),
        };
        let record: Map<String, Value> = fields.iter().map(one).collect();
        if let Some(number) = record.get("InformationElementId") {
            let kind = record["InformationElementDataType"].as_u64().expect("a type");
            let name = record["InformationElementName"].as_str().expect("a name").to_owned();
            self.own.insert(number.as_u64().expect("a number"), (kind, name));
        }
        self.records.push((template, record));
    }

    /// Records that have this element.
    pub fn with(&self, element: &str) -> impl Iterator<Item = &Map<String, Value>> {
        self.records.iter().map(|(_, record)| record).filter(move |record| record.contains_key(element))
    }
}

/// By IANA's number of the data type.
fn typed(kind: u64, bytes: &[u8]) -> Value {
    let number = || bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    match (kind, bytes.len()) {
        (1, 1) | (2, 2) | (3, 4) | (4, 8) => json!(number()),
        (10, 8) => json!(f64::from_bits(number())),
        (13, _) => json!(std::str::from_utf8(bytes).expect("a text")),
        other => panic!("type and length {other:?}"),
    }
}

fn plain(value: &FieldValue) -> Value {
    match value {
        FieldValue::DataNumber(DataNumber::U8(n)) => json!(n),
        FieldValue::DataNumber(DataNumber::U16(n)) => json!(n),
        FieldValue::DataNumber(DataNumber::U32(n)) => json!(n),
        FieldValue::DataNumber(DataNumber::U64(n)) => json!(n),
        FieldValue::String(text) => json!(text.value),
        FieldValue::Ip4Addr(ip) => json!(ip.to_string()),
        FieldValue::Ip6Addr(ip) => json!(ip.to_string()),
        FieldValue::MacAddr(mac) => json!(mac.map(|byte| format!("{byte:02x}")).join(":")),
        FieldValue::ProtocolType(protocol) => json!(u8::from(*protocol)),
        FieldValue::Duration(time) => json!(format!("{time:?}")),
        other => panic!("{other:?}"),
    }
}

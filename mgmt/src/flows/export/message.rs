//! Messages of IPFIX (RFC 7011 3): sets of templates and of data, cut so that each fits into one datagram.

use super::elements::Options;

/// Longest message, bytes: with the headers of IPv6 and UDP it is the 1280 bytes that every IPv6 link takes (RFC 8200 5), so
/// none is ever cut into fragments.
pub const LONGEST: usize = 1280 - 40 - 8;

const HEADER: usize = 16;
const VERSION: u16 = 10;
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;

/// A field of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Number of the information element.
    pub element: u16,
    /// Bytes; all ones: told with each.
    pub length: u16,
    /// The number is one of our own.
    pub own: bool,
}

/// A message, and how many data records are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// As it is sent.
    pub bytes: Vec<u8>,
    /// Data records.
    pub records: u32,
}

/// Who speaks, and when.
#[derive(Clone, Copy, Debug)]
pub struct Speaker {
    /// Observation domain.
    pub domain: u32,
    /// Private enterprise number.
    pub enterprise: u32,
    /// Data records in all messages before.
    pub sequence: u32,
    /// Seconds since 1970.
    pub time: u32,
}

/// Puts records into messages.
#[derive(Debug)]
pub struct Writer {
    speaker: Speaker,
    done: Vec<Message>,
    now: Message,
    /// Number of the set under way, and where it begins.
    set: Option<(u16, usize)>,
}

impl Writer {
    /// Nothing is said yet.
    pub fn new(speaker: Speaker) -> Self {
        let now = Message { bytes: vec![0; HEADER], records: 0 };
        Self { speaker, done: Vec::new(), now, set: None }
    }

    /// A template of data.
    pub fn template(&mut self, id: u16, fields: &[Field]) {
        let mut bytes = [id.to_be_bytes(), (fields.len() as u16).to_be_bytes()].concat();
        fields.iter().for_each(|field| self.specify(field, &mut bytes));
        self.put(TEMPLATES, &bytes);
    }

    /// A template of options.
    pub fn options_template(&mut self, options: &Options) {
        let counts = [options.id, options.fields.len() as u16, options.scope];
        let mut bytes: Vec<u8> = counts.into_iter().flat_map(u16::to_be_bytes).collect();
        options.fields.iter().for_each(|field| self.specify(field, &mut bytes));
        self.put(OPTIONS_TEMPLATES, &bytes);
    }

    fn specify(&self, field: &Field, bytes: &mut Vec<u8>) {
        let own = if field.own { 1 << 15 } else { 0 };
        bytes.extend((field.element | own).to_be_bytes());
        bytes.extend(field.length.to_be_bytes());
        if field.own {
            bytes.extend(self.speaker.enterprise.to_be_bytes());
        }
    }

    /// A data record by a template.
    pub fn record(&mut self, template: u16, record: &[u8]) {
        self.put(template, record);
        self.now.records += 1;
    }

    fn put(&mut self, set: u16, record: &[u8]) {
        let head = if self.set.is_some_and(|(id, _)| id == set) { 0 } else { 4 };
        if self.now.bytes.len() + head + record.len() > LONGEST {
            self.end_message();
        }
        if self.set.is_none_or(|(id, _)| id != set) {
            self.end_set();
            self.set = Some((set, self.now.bytes.len()));
            self.now.bytes.extend([set.to_be_bytes(), [0; 2]].concat());
        }
        self.now.bytes.extend(record);
    }

    fn end_set(&mut self) {
        let Some((_, at)) = self.set.take() else { return };
        let length = self.now.bytes.len() - at;
        self.now.bytes[at + 2..at + 4].copy_from_slice(&(length as u16).to_be_bytes());
    }

    fn end_message(&mut self) {
        self.end_set();
        let empty = Message { bytes: vec![0; HEADER], records: 0 };
        let mut message = std::mem::replace(&mut self.now, empty);
        let Speaker { domain, sequence, time, .. } = self.speaker;
        let length = message.bytes.len() as u16;
        message.bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        message.bytes[2..4].copy_from_slice(&length.to_be_bytes());
        for (word, value) in [time, sequence, domain].into_iter().enumerate() {
            message.bytes[4 + 4 * word..8 + 4 * word].copy_from_slice(&value.to_be_bytes());
        }
        self.speaker.sequence = sequence.wrapping_add(message.records);
        self.done.push(message);
    }

    /// The messages, and how many data records there have ever been.
    pub fn end(mut self) -> (Vec<Message>, u32) {
        if self.now.bytes.len() > HEADER {
            self.end_message();
        }
        (self.done, self.speaker.sequence)
    }
}

/// A text of at most 254 bytes, behind its length.
pub fn text(text: &str, record: &mut Vec<u8>) {
    let bytes = &text.as_bytes()[..text.len().min(254)];
    record.push(bytes.len() as u8);
    record.extend(bytes);
}

//! Messages of Protocol Buffers, written as they come.
//!
//! The wire format is that of <https://protobuf.dev/programming-guides/encoding>: a key (field number and type) before
//! each value, numbers in groups of seven bits. The length of a message is not known before it is written; it is given
//! four bytes, which are put in place afterwards: a number may have leading groups of zeros.

/// Bytes of the length of a message inside of another one.
const LENGTH_BYTES: usize = 4;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

/// A message that is being written.
#[derive(Debug)]
pub(super) struct Message<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Message<'o> {
    /// Appends to `out`.
    pub(super) fn new(out: &'o mut Vec<u8>) -> Message<'o> {
        Message { out }
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn key(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    /// A number without a sign, an enumeration, or a truth value.
    pub(super) fn unsigned(&mut self, field: u32, value: impl Into<u64>) {
        self.key(field, VARINT);
        self.varint(value.into());
    }

    /// A number of the types `int32` and `int64`.
    pub(super) fn signed(&mut self, field: u32, value: impl Into<i64>) {
        self.unsigned(field, value.into() as u64);
    }

    /// A number of the type `double`.
    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.key(field, FIXED64);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// A text: what is not UTF-8 becomes U+FFFD.
    pub(super) fn text(&mut self, field: u32, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.key(field, LENGTH);
        self.varint(text.len() as u64);
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Fields that were written before.
    pub(super) fn fields(&mut self, fields: &[u8]) {
        self.out.extend_from_slice(fields);
    }

    /// A message, which `write` writes.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Message<'_>)) {
        self.key(field, LENGTH);
        let start = self.out.len() + LENGTH_BYTES;
        self.out.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut Message { out: self.out });
        // One event has no 256 MiB: fields of an event are 64 KiB at most.
        let len = self.out.len() - start;
        let groups = (0..LENGTH_BYTES).map(|group| {
            let more = if group + 1 < LENGTH_BYTES { 0x80 } else { 0 };
            (len >> (7 * group) & 0x7f) as u8 | more
        });
        if let Some(place) = self.out.get_mut(start - LENGTH_BYTES..start) {
            place.iter_mut().zip(groups).for_each(|(to, group)| *to = group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_encoded_as_the_guide_says() {
        let mut out = Vec::new();
        let mut message = Message::new(&mut out);
        message.unsigned(1, 150u32);
        message.signed(2, -1);
        message.text(2, b"testing");
        message.double(3, 1.0);
        message.message(3, |inner| inner.unsigned(1, 150u32));
        let expect: [&[u8]; 5] = [
            &[0x08, 0x96, 0x01],
            &[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x12, 7, b't', b'e', b's', b't', b'i', b'n', b'g'],
            &[0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
            &[0x1a, 0x83, 0x80, 0x80, 0, 0x08, 0x96, 0x01],
        ];
        assert_eq!(out, expect.concat());
    }
}

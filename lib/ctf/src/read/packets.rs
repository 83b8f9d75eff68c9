//! Metadata packets (CTF 1.8 section 7.1): a text cut into packets with a header of their own.

use super::place;
use crate::error::{MetadataError, MetadataFault};
use crate::model::ByteOrder;
use std::borrow::Cow;

/// Magic number of a metadata packet.
const MAGIC: u32 = 0x75d1_1d57;
/// Bytes of its header: magic, UUID, checksum, content size, packet size, three schemes, version.
const HEADER: usize = 37;

/// The text of metadata.
#[derive(Debug)]
pub(crate) struct Found<'b> {
    pub(crate) text: Cow<'b, [u8]>,
    /// The byte order of its packets; `None`: it lies in none.
    pub(crate) order: Option<ByteOrder>,
}

/// The text in `bytes`: the contents of its packets, or all of it if it does not begin with the magic number.
///
/// # Errors
/// A packet that is broken: its place is the end of the text before it.
pub(crate) fn text(bytes: &[u8]) -> Result<Found<'_>, MetadataError> {
    let order = match bytes.first_chunk::<4>() {
        Some(first) if u32::from_le_bytes(*first) == MAGIC => ByteOrder::Little,
        Some(first) if u32::from_be_bytes(*first) == MAGIC => ByteOrder::Big,
        _ => return Ok(Found { text: Cow::Borrowed(bytes), order: None }),
    };
    let word = if order == ByteOrder::Big { u32::from_be_bytes } else { u32::from_le_bytes };
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let (content, packet) =
            packet(rest, word).map_err(|fault| place(&String::from_utf8_lossy(&text), text.len(), fault))?;
        text.extend_from_slice(content);
        rest = rest.get(packet..).unwrap_or(&[]);
    }
    Ok(Found { text: Cow::Owned(text), order: Some(order) })
}

/// The content of the packet at the start of `bytes`, and the packet's size in bytes.
fn packet(bytes: &[u8], word: fn([u8; 4]) -> u32) -> Result<(&[u8], usize), MetadataFault> {
    let broken = MetadataFault::Packet;
    let header = bytes.first_chunk::<HEADER>().ok_or(broken("its header is cut"))?;
    let field = |at: usize| header[at..].first_chunk::<4>().map_or(0, |w| word(*w));
    if field(0) != MAGIC {
        return Err(broken("bad magic number"));
    }
    if header[32] != 0 || header[33] != 0 {
        return Err(MetadataFault::Unsupported("compressed or encrypted metadata"));
    }
    let content = (field(24) / 8) as usize;
    let packet = (field(28) / 8) as usize;
    if packet < HEADER || content < HEADER || content > packet {
        return Err(broken("its sizes cannot be"));
    }
    let content = bytes.get(HEADER..content).ok_or(broken("its content is cut"))?;
    Ok((content, packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(big: bool) {
        let word = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut bytes = Vec::new();
        for part in ["/* CTF", " 1.8 */"] {
            let begin = bytes.len();
            bytes.extend(word(MAGIC));
            bytes.extend([7; 16]);
            for v in [0, (HEADER + part.len()) as u32 * 8, 64 * 8] {
                bytes.extend(word(v));
            }
            bytes.extend([0, 0, 0, 1, 8]);
            bytes.extend(part.bytes());
            bytes.resize(begin + 64, 0);
        }
        let found = text(&bytes).unwrap();
        assert_eq!(&*found.text, b"/* CTF 1.8 */");
        assert_eq!(found.order, Some(if big { ByteOrder::Big } else { ByteOrder::Little }));
        for cut in 1..HEADER {
            let error = text(&bytes[..64 + cut]).expect_err("cut in the header of the second packet");
            assert_eq!((error.line, error.column), (1, 7), "behind the first packet's text: {cut}");
        }
        bytes[28..32].copy_from_slice(&word(0));
        assert!(text(&bytes).is_err());
    }

    #[test]
    fn both_byte_orders() {
        check(false);
        check(true);
    }
}

//! Records that perf has compressed (`perf record -z`).
//!
//! All of them are one stream of zstd, which goes on from one `PERF_RECORD_COMPRESSED` to the next and has no end;
//! records that were packed may begin in one and end in the next one. The library for it keeps as many bytes back as
//! later ones may refer to: so records come later than where they stand, and the last ones at the end of the file.
//!
//! Source: Linux's tools/perf/util/zstd.c and builtin-record.c (6.1), and RFC 8878 (3.1.1.2, "Blocks").

use crate::bytes::Bytes;
use crate::record::{HEADER, Header};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The most bytes of a frame's header (RFC 8878, 3.1.1.1).
const FRAME_HEADER_MAX: usize = 18;
/// A block that is the last one, and empty; and a checksum, which the library does not compare.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// Unpacks records.
#[derive(Default)]
pub(crate) struct Unpacker {
    decoder: FrameDecoder,
    is_in_frame: bool,
    /// Bytes of a block that is not whole yet.
    packed: Vec<u8>,
    /// Records that were not taken yet, from `taken` on.
    unpacked: Vec<u8>,
    taken: usize,
    is_finished: bool,
    /// No block was cut.
    has_whole_blocks: bool,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").field("packed", &self.packed.len()).finish_non_exhaustive()
    }
}

impl Unpacker {
    /// Takes what a `PERF_RECORD_COMPRESSED` has, and unpacks the blocks of it, up to one behind the length of a
    /// record: a block of 4 bytes may be 128 KiB of them.
    ///
    /// # Errors
    /// What the library says of it.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.extend_from_slice(bytes);
        let rest = self.unpack(&packed)?.len();
        packed.drain(..packed.len() - rest);
        self.packed = packed;
        Ok(())
    }

    /// Unpacks more blocks of what was added. Returns whether there were some.
    ///
    /// # Errors
    /// What the library says of it.
    pub(crate) fn go_on(&mut self) -> Result<bool, String> {
        let before = self.packed.len();
        self.add(&[])?;
        Ok(self.packed.len() < before)
    }

    /// Unpacks blocks until there may be a record; gives the bytes that are left.
    fn unpack<'b>(&mut self, mut packed: &'b [u8]) -> Result<&'b [u8], String> {
        loop {
            if self.unpacked.len() - self.taken > usize::from(u16::MAX) {
                return Ok(packed);
            }
            if !self.is_in_frame {
                let mut rest = packed;
                match self.decoder.reset(&mut rest) {
                    Ok(()) => (packed, self.is_in_frame) = (rest, true),
                    Err(_) if packed.len() < FRAME_HEADER_MAX => return Ok(packed),
                    Err(why) => return Err(why.to_string()),
                }
            }
            if block(packed).is_none_or(|len| packed.len() < len) {
                return Ok(packed);
            }
            packed = self.decode(packed)?;
        }
    }

    fn decode<'b>(&mut self, mut packed: &'b [u8]) -> Result<&'b [u8], String> {
        let one = BlockDecodingStrategy::UptoBlocks(1);
        let is_last = self.decoder.decode_blocks(&mut packed, one).map_err(|why| why.to_string())?;
        self.unpacked.extend(self.decoder.collect().unwrap_or_default());
        self.is_in_frame = !is_last;
        Ok(packed)
    }

    /// There is no more: what was kept back comes now.
    ///
    /// # Errors
    /// What the library says of it.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        (self.is_finished, self.has_whole_blocks) = (true, self.packed.is_empty());
        self.packed.clear();
        if self.is_in_frame {
            self.decode(&LAST_BLOCK)?;
        }
        Ok(())
    }

    /// Whether [`Unpacker::finish`] was called.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether nothing was cut.
    pub(crate) fn is_whole(&self) -> bool {
        self.has_whole_blocks && self.taken == self.unpacked.len()
    }

    /// The next record, if it is there as a whole.
    ///
    /// # Errors
    /// Its size, which cannot be.
    pub(crate) fn record(&mut self) -> Result<Option<Vec<u8>>, u16> {
        let rest = self.unpacked.get(self.taken..).unwrap_or_default();
        let size = match rest.get(..HEADER).and_then(Header::read) {
            Some(header) if usize::from(header.size) < HEADER => return Err(header.size),
            Some(header) => usize::from(header.size),
            None => usize::MAX,
        };
        let record = rest.get(..size).map(<[u8]>::to_vec);
        if record.is_some() {
            self.taken += size;
        } else {
            self.unpacked.drain(..std::mem::take(&mut self.taken));
        }
        Ok(record)
    }
}

/// Bytes of the block that begins there, header included; nothing where not even that is whole.
fn block(packed: &[u8]) -> Option<usize> {
    let header = packed.first_chunk::<3>()?;
    let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let size = if header >> 1 & 3 == 1 { 1 } else { header as usize >> 3 };
    Some(3 + size)
}

/// What is packed in a record: all behind its header; of `PERF_RECORD_COMPRESSED2` so many bytes as it says.
pub(crate) fn packed(body: &[u8], is_second: bool) -> Option<&[u8]> {
    if !is_second {
        return Some(body);
    }
    let mut bytes = Bytes(body);
    let len = bytes.u64()?;
    bytes.0.get(..usize::try_from(len).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of records, all the same, and so the size that these say.
    const BYTE: u8 = 0x10;
    const SIZE: usize = 0x1010;
    /// Records of a block, which has 128 KiB at most.
    const RECORDS: usize = 31;
    const BLOCKS: usize = 200;

    /// A frame without an end (RFC 8878, 3.1.1).
    fn frame() -> Vec<u8> {
        // The magic number, no flags, and a window of 128 KiB.
        let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
        // One byte, so often (an RLE block), and not the last block.
        let [low, middle, high, _] = ((SIZE * RECORDS) as u32 * 8 + 2).to_le_bytes();
        bytes.extend([low, middle, high, BYTE].repeat(BLOCKS));
        bytes
    }

    #[test]
    fn no_more_is_unpacked_than_records_need() {
        let mut unpacker = Unpacker::default();
        let mut count = 0;
        let mut take = |unpacker: &mut Unpacker| {
            let bytes = unpacker.unpacked.len();
            assert!(bytes <= 256 << 10, "{bytes} of {} bytes at once", BLOCKS * RECORDS * SIZE);
            while let Some(record) = unpacker.record().expect("a size") {
                assert!(record == [BYTE; SIZE]);
                count += 1;
            }
        };
        unpacker.add(&frame()).expect("blocks");
        take(&mut unpacker);
        while unpacker.go_on().expect("blocks") {
            take(&mut unpacker);
        }
        unpacker.finish().expect("an end");
        take(&mut unpacker);
        assert_eq!((count, unpacker.is_whole()), (BLOCKS * RECORDS, true));
    }
}

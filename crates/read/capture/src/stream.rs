//! Streams of packets, read in parts, each of which begins at a PSB: so that memory is bounded, and several parts can
//! be followed at once.

use crate::error::Error;
use mote_pt::errata::Errata;
use mote_pt::packet::{Damage, Decoder, Item, Packet};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of a part, unless it has no PSB.
const PART_BYTES: usize = 4 << 20;
/// Parts that a shorter stream has, so that several threads find work; but none has fewer bytes than these.
const PARTS: u64 = 16;
const PART_BYTES_MIN: usize = 64 << 10;
/// Most bytes of a part without a PSB: twice the longest period of processors (PSBFreq, SDM 33.2.8.2).
const PART_BYTES_MAX: usize = 128 << 20;
/// Most bytes of PSB+: a PSB, a packet of each kind that may follow, and PSBEND, with room for padding.
const STATUS_BYTES_MAX: usize = 1 << 10;

/// Whose packets a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Of {
    /// A thread's, wherever it ran.
    Thread(i32),
    /// A processor's, whatever ran there.
    Cpu(u32),
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Of::Thread(tid) => write!(f, "thread {tid}"),
            Of::Cpu(cpu) => write!(f, "processor {cpu}"),
        }
    }
}

/// The bytes of a stream: pieces of files, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    /// By the offset in the stream of their ends.
    pieces: Vec<Piece>,
    /// Bytes of a part, where something else was said than what is best.
    part: Option<usize>,
    errata: Errata,
    /// It may end in the middle of a packet, and so may pieces of it.
    may_be_cut: bool,
}

#[derive(Clone, Debug)]
struct Piece {
    file: Arc<File>,
    path: Arc<PathBuf>,
    at: u64,
    /// Where it begins and ends in the stream.
    begin: u64,
    end: u64,
    /// It does not go on where the one before has ended.
    is_new: bool,
}

impl Bytes {
    /// A whole file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn of_file(path: &Path) -> Result<Bytes, Error> {
        let unreadable = |why| Error::Read { path: path.to_owned(), why };
        let file = File::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        let mut all = Bytes::default();
        all.push(Arc::new(file), Arc::new(path.to_owned()), 0, bytes);
        Ok(all)
    }

    /// A file with nothing but packets.
    ///
    /// # Errors
    /// It cannot be opened, or has no PSB, where readers begin.
    pub fn of_packets(path: &Path) -> Result<Bytes, Error> {
        let bytes = Bytes::of_file(path)?;
        let first = match bytes.parts_of_all().next_part() {
            Err(Error::NoPsb { .. }) => None,
            first => first?,
        };
        let has_psb = |part: &Part| Decoder::new(&part.bytes, 0).sync_forward().is_some();
        first.filter(has_psb).map(|_| bytes).ok_or_else(|| Error::NoPackets { path: path.to_owned() })
    }

    /// Adds a piece: so many bytes of a file, from one of its bytes on.
    pub fn push(&mut self, file: Arc<File>, path: Arc<PathBuf>, at: u64, bytes: u64) {
        let begin = self.len();
        if bytes > 0 {
            let end = begin.saturating_add(bytes);
            self.pieces.push(Piece { file, path, at, begin, end, is_new: false });
        }
    }

    /// The same, of a piece that does not go on where the one before has ended: packets between them are not there, as
    /// between two snapshots. It begins with a packet.
    pub fn push_anew(&mut self, file: Arc<File>, path: Arc<PathBuf>, at: u64, bytes: u64) {
        let count = self.pieces.len();
        self.push(file, path, at, bytes);
        if let Some(piece) = self.pieces.get_mut(count) {
            piece.is_new = count > 0;
        }
    }

    /// Where the pieces end of which one goes on where another has ended, from an offset on.
    fn end_from(&self, offset: u64) -> u64 {
        let behind = self.pieces.partition_point(|piece| piece.begin <= offset);
        let next = self.pieces.get(behind..).and_then(|pieces| pieces.iter().find(|piece| piece.is_new));
        next.map_or(self.len(), |piece| piece.begin)
    }

    /// Whether a piece begins there that does not go on where the one before has ended.
    fn is_new_at(&self, offset: u64) -> bool {
        let at = self.pieces.partition_point(|piece| piece.begin < offset);
        self.pieces.get(at).is_some_and(|piece| piece.begin == offset && piece.is_new)
    }

    /// Adds all pieces of another one.
    pub fn append(&mut self, other: &Bytes) {
        for Piece { file, path, at, begin, end, is_new } in &other.pieces {
            let push = if *is_new { Bytes::push_anew } else { Bytes::push };
            push(self, file.clone(), path.clone(), *at, end - begin);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends up to `count` bytes from an offset on to `to`; fewer at the end.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(&self, from: u64, count: usize, to: &mut Vec<u8>) -> Result<(), Error> {
        let until = self.len().min(from.saturating_add(count as u64));
        let mut at = from;
        let first = self.pieces.partition_point(|piece| piece.end <= from);
        for piece in self.pieces.get(first..).unwrap_or_default() {
            if at >= until {
                break;
            }
            let bytes = until.min(piece.end) - at;
            let begin = to.len();
            to.resize(begin + bytes as usize, 0);
            let read = piece.file.read_exact_at(&mut to[begin..], piece.at + (at - piece.begin));
            read.map_err(|why| Error::Read { path: (*piece.path).clone(), why: shortened(why) })?;
            at += bytes;
        }
        Ok(())
    }

    /// With so many bytes for a part, instead of the best number.
    #[must_use]
    pub fn in_parts_of(self, bytes: usize) -> Bytes {
        Bytes { part: Some(bytes.clamp(1, PART_BYTES_MAX)), ..self }
    }

    /// As a processor with these errata has written them.
    #[must_use]
    pub fn with_errata(self, errata: Errata) -> Bytes {
        Bytes { errata, ..self }
    }

    /// As memory that was written over has them when it is stopped: where they end, and where pieces of them do behind
    /// which others begin anew, a packet may be cut off. That is left out.
    #[must_use]
    pub fn that_may_be_cut(self) -> Bytes {
        Bytes { may_be_cut: true, ..self }
    }

    /// What the processor does otherwise than the manual says.
    #[must_use]
    pub fn errata(&self) -> Errata {
        self.errata
    }

    fn part_bytes(&self) -> usize {
        let best = (self.len() / PARTS).clamp(PART_BYTES_MIN as u64, PART_BYTES as u64);
        self.part.unwrap_or(best as usize)
    }

    /// Reads the packets in parts that begin at a PSB, each of bounded size. What is before the first PSB is left out:
    /// it may begin in the middle of a packet, and would be taken for others.
    #[must_use]
    pub fn parts(&self) -> Parts<'_> {
        Parts { bytes: self, at: 0, read: Vec::new(), next: 0, begins_at_psb: true, is_new: false }
    }

    /// The same, with what is before the first PSB, whatever it is.
    #[must_use]
    pub fn parts_of_all(&self) -> Parts<'_> {
        Parts { begins_at_psb: false, ..self.parts() }
    }
}

fn shortened(why: io::Error) -> io::Error {
    match why.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("it has fewer bytes than when it was opened"),
        _ => why,
    }
}

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which one, from 0.
    pub index: usize,
    /// The offset of its first byte in the stream.
    pub offset: u64,
    /// Its packets, and behind them those of the next part's PSB+: these say where the last ones of this part lead to.
    pub bytes: Vec<u8>,
    /// How many of the bytes are its own.
    pub own: usize,
    /// It does not go on where the part before has ended ([`Bytes::push_anew`]).
    pub is_new: bool,
    /// What the processor does otherwise than the manual says.
    pub errata: Errata,
    /// How many bytes of a packet that is cut off are left out behind it.
    pub cut_off: usize,
}

impl Part {
    /// Where the next part begins.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + (self.own + self.cut_off) as u64
    }

    /// Its packets, and those of the next part's PSB+.
    #[must_use]
    pub fn packets(&self) -> Decoder<'_> {
        Decoder::new(&self.bytes, self.offset).with_errata(self.errata)
    }

    /// Its own packets.
    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let end = self.end();
        self.packets().take_while(move |item| item.offset < end)
    }
}

/// The parts of a stream, in their order. Each holds at most 128 MiB.
#[derive(Debug)]
pub struct Parts<'b> {
    bytes: &'b Bytes,
    /// The offset of the next part.
    at: u64,
    /// Its bytes that are read already.
    read: Vec<u8>,
    next: usize,
    begins_at_psb: bool,
    /// The next part does not go on where the one before has ended.
    is_new: bool,
}

impl Parts<'_> {
    /// The next part.
    ///
    /// # Errors
    /// It cannot be read, or has no PSB in 128 MiB.
    pub fn next_part(&mut self) -> Result<Option<Part>, Error> {
        let mut wanted = self.bytes.part_bytes();
        let end = self.bytes.end_from(self.at);
        self.is_new = self.bytes.is_new_at(self.at);
        if self.begins_at_psb && (self.at == 0 || self.is_new) {
            self.find_psb(end)?;
        }
        loop {
            self.fill(wanted + STATUS_BYTES_MAX, end)?;
            if self.read.is_empty() {
                return Ok(None);
            }
            let is_end = self.at + self.read.len() as u64 >= end;
            if is_end && self.read.len() <= wanted + STATUS_BYTES_MAX {
                let mut bytes = std::mem::take(&mut self.read);
                let cut_off = if self.bytes.may_be_cut { cut_off(&bytes, self.bytes.errata) } else { 0 };
                bytes.truncate(bytes.len() - cut_off);
                return Ok(Some(self.part(bytes.len(), bytes, cut_off)));
            }
            if let Some(own) = last_psb(&self.read, wanted) {
                let status = status(&self.read[own..], self.bytes.errata);
                let mut bytes = std::mem::take(&mut self.read);
                self.read = bytes[own..].to_vec();
                bytes.truncate(own + status);
                return Ok(Some(self.part(own, bytes, 0)));
            }
            if wanted >= PART_BYTES_MAX {
                return Err(Error::NoPsb { offset: self.at, bytes: wanted as u64 });
            }
            wanted *= 2;
        }
    }

    fn part(&mut self, own: usize, bytes: Vec<u8>, cut_off: usize) -> Part {
        let (errata, is_new) = (self.bytes.errata, self.is_new);
        let part = Part { index: self.next, offset: self.at, bytes, own, is_new, errata, cut_off };
        self.next += 1;
        self.at = part.end();
        part
    }

    /// Passes over what is before the first PSB, if there is one before an offset.
    fn find_psb(&mut self, end: u64) -> Result<(), Error> {
        let mut wanted = self.bytes.part_bytes();
        loop {
            self.fill(wanted, end)?;
            if let Some(psb) = Decoder::new(&self.read, 0).sync_forward() {
                self.at += psb;
                self.read.drain(..psb as usize);
                return Ok(());
            }
            if self.at + self.read.len() as u64 >= end || wanted >= PART_BYTES_MAX {
                return Ok(());
            }
            wanted *= 2;
        }
    }

    /// Reads until there are so many bytes, or no more before an offset.
    fn fill(&mut self, count: usize, end: u64) -> Result<(), Error> {
        let from = self.at + self.read.len() as u64;
        let missing = count.saturating_sub(self.read.len());
        let there = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        self.bytes.read(from, missing.min(there), &mut self.read)
    }
}

/// Where the last PSB begins of those in the first bytes, but not one that is at their begin.
fn last_psb(bytes: &[u8], within: usize) -> Option<usize> {
    let mut decoder = Decoder::new(bytes.get(..within)?, 0);
    decoder.move_to_end();
    decoder.sync_backward().map(|psb| psb as usize).filter(|psb| *psb > 0)
}

/// How many bytes a packet has that bytes end in the middle of; 0 where they end with a whole one.
fn cut_off(bytes: &[u8], errata: Errata) -> usize {
    let mut decoder = Decoder::new(bytes, 0).with_errata(errata);
    decoder.move_to_end();
    // From the last PSB on, where there is one, packets are in step.
    let _ = decoder.sync_backward();
    let last = decoder.last().filter(|item| item.what == Err(Damage::Truncated));
    last.map_or(0, |item| item.length)
}

/// How many bytes a PSB+ has.
fn status(bytes: &[u8], errata: Errata) -> usize {
    let bytes = &bytes[..bytes.len().min(STATUS_BYTES_MAX)];
    let mut decoder = Decoder::new(bytes, 0).with_errata(errata);
    let is_end = |what| matches!(what, Ok(Packet::PsbEnd | Packet::Ovf) | Err(_));
    let end = decoder.find(|item| is_end(item.what));
    end.map_or(bytes.len(), |item| item.offset as usize + if item.what.is_ok() { item.length } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_pt::packet::{Encoder, Tnt};
    use std::io::Write;

    /// A stream of so many PSB+, each with some packets behind it.
    fn packets(count: u64) -> Vec<u8> {
        let mut encoder = Encoder::new();
        for number in 0..count {
            let tnt = Packet::Tnt(Tnt { bits: 5, count: 3, is_long: false });
            let mut packets = vec![Packet::Psb, Packet::Tsc(number), Packet::PsbEnd];
            packets.extend((0..number % 50).map(|_| tnt));
            packets.into_iter().for_each(|packet| assert!(encoder.push(packet).is_ok()));
        }
        encoder.bytes().to_vec()
    }

    fn of(pieces: &[&[u8]]) -> Bytes {
        let mut bytes = Bytes::default();
        for piece in pieces {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(b"before").expect("it is written");
            file.write_all(piece).expect("it is written");
            bytes.push(Arc::new(file), Arc::new("piece".into()), 6, piece.len() as u64);
        }
        bytes
    }

    #[test]
    fn parts_are_the_stream_and_begin_at_a_psb() {
        let all = packets(500);
        let whole = of(&[&all]);
        let cut = of(&[&all[..7], &all[7..1000], &[], &all[1000..]]);
        for (bytes, part_bytes) in [(&whole, 100), (&whole, 1000), (&cut, 333), (&cut, 1 << 20)] {
            let bytes = bytes.clone().in_parts_of(part_bytes);
            let mut parts = bytes.parts();
            let mut joined = Vec::new();
            while let Some(part) = parts.next_part().expect("it can be read") {
                assert_eq!(part.offset, joined.len() as u64);
                assert!(part.own <= part_bytes + STATUS_BYTES_MAX || part.own == all.len());
                let mut decoder = Decoder::new(&part.bytes, 0);
                assert_eq!(decoder.next().map(|item| item.what), Some(Ok(Packet::Psb)));
                if part.end() < all.len() as u64 {
                    let last = decoder.last().map(|item| item.what);
                    assert_eq!(last, Some(Ok(Packet::PsbEnd)));
                }
                joined.extend_from_slice(&part.bytes[..part.own]);
            }
            assert!(joined == all, "{part_bytes}");
        }
    }

    #[test]
    fn parts_do_not_reach_into_what_was_recorded_later() {
        let all = packets(100);
        let mut bytes = Bytes::default();
        for _ in 0..3 {
            let one = of(&[&all[..500], &all[500..]]);
            let [first, second] = one.pieces.as_slice() else { panic!("two pieces") };
            bytes.push_anew(first.file.clone(), first.path.clone(), 6, 500);
            bytes.push(second.file.clone(), second.path.clone(), 6, all.len() as u64 - 500);
        }
        let mut again = Bytes::default();
        again.append(&bytes);
        for bytes in [bytes.clone().in_parts_of(700), again.in_parts_of(1 << 20)] {
            let (mut parts, mut at, mut news) = (bytes.parts(), 0, Vec::new());
            while let Some(part) = parts.next_part().expect("it can be read") {
                assert_eq!(part.offset, at);
                let begin = (at as usize) % all.len();
                assert!(part.bytes == all[begin..begin + part.bytes.len()], "nothing of the next one");
                news.extend(part.is_new.then_some(part.offset));
                at = part.end();
            }
            assert_eq!((at, news), (3 * all.len() as u64, vec![all.len() as u64, 2 * all.len() as u64]));
        }
    }

    #[test]
    fn what_is_before_the_first_psb_is_left_out() {
        let all = packets(200);
        // The end of a TSC packet, which is no packets; then so much that several parts are read before a PSB is found.
        for before in [vec![0xff; 5], vec![0x06; 5000]] {
            let bytes = of(&[&before, &all]).in_parts_of(300);
            let joined = |mut parts: Parts<'_>| {
                let mut joined = Vec::new();
                while let Some(part) = parts.next_part().expect("it can be read") {
                    joined.extend_from_slice(&part.bytes[..part.own]);
                }
                joined
            };
            assert!(joined(bytes.parts()) == all);
            assert_eq!(
                bytes.parts().next_part().expect("it can be read").map(|part| part.offset),
                Some(before.len() as u64)
            );
            assert!(joined(bytes.parts_of_all()) == [before, all.clone()].concat());
        }
    }

    #[test]
    fn what_is_cut_off_by_memory_that_was_stopped_is_left_out() {
        let mut all = packets(60);
        // A TSC packet, of which some bytes are there; in the middle of a PSB; and whole.
        for (tail, cut) in [(&[0x19, 1, 2][..], 3), (&[0x02, 0x82, 0x02][..], 3), (&[0x06][..], 0)] {
            let whole = all.len();
            all.extend(tail);
            for bytes in [of(&[&all]), of(&[&all]).in_parts_of(300)] {
                let damaged = |bytes: &Bytes| {
                    let (mut parts, mut damaged, mut left_out) = (bytes.parts(), 0, 0);
                    while let Some(part) = parts.next_part().expect("it can be read") {
                        damaged += part.items().filter(|item| item.what.is_err()).count();
                        left_out += part.cut_off;
                    }
                    (damaged, left_out)
                };
                assert_eq!(damaged(&bytes), (usize::from(cut > 0), 0), "{tail:x?}");
                assert_eq!(damaged(&bytes.that_may_be_cut()), (0, cut), "{tail:x?}");
            }
            all.truncate(whole);
        }
    }

    #[test]
    fn a_stream_without_a_psb_is_one_part() {
        let bytes = of(&[&[0x06; 100]]).in_parts_of(10);
        let mut parts = bytes.parts();
        assert_eq!(parts.next_part().expect("it can be read").map(|part| part.own), Some(100));
        assert_eq!(parts.next_part().expect("it can be read"), None);
    }

    #[test]
    fn a_file_that_becomes_shorter_is_an_error() {
        let bytes = of(&[&[1; 100]]);
        bytes.pieces[0].file.set_len(50).expect("it is shortened");
        let why = bytes.parts().next_part().expect_err("bytes are missing").to_string();
        assert!(why.contains("piece") && why.contains("fewer bytes"), "{why}");
    }
}

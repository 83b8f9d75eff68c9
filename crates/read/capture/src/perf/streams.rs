//! The streams of a file of perf: pieces of one memory, one behind the other; snapshots and samples of it, which may
//! have the same packets twice.

use super::found::Found;
use crate::stream::{Bytes, Of};
use mote_perfdata::intel_pt::Info;
use mote_perfdata::{Piece, SampleId, Source};
use mote_pt::packet::{Decoder, Packet};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a piece that are compared with those of another one.
const OVERLAP_MAX: u64 = 64 << 20;
/// Fewest bytes that are believed to be the same ones without a TSC packet among them.
const OVERLAP_MIN: usize = 256;

/// Streams, as they are put together.
pub(super) struct Streams<'f> {
    file: &'f Arc<File>,
    path: Arc<PathBuf>,
    all: BTreeMap<Of, Stream>,
    /// Pieces that have no PSB: where reading could begin.
    pub(super) without_psb: u64,
}

#[derive(Default)]
struct Stream {
    bytes: Bytes,
    /// The last bytes of the piece that came last, where others may have them again.
    last: Vec<u8>,
}

impl<'f> Streams<'f> {
    /// Those of a file.
    pub(super) fn of(file: &'f Arc<File>, path: PathBuf, found: &Found, info: &Info) -> Streams<'f> {
        let mut streams = Streams { file, path: Arc::new(path), all: BTreeMap::new(), without_psb: 0 };
        for (auxtrace, piece) in &found.pieces {
            let of = match (u32::try_from(auxtrace.cpu), auxtrace.tid) {
                (Ok(cpu), tid) if info.per_cpu || tid < 0 => Of::Cpu(cpu),
                (_, tid) => Of::Thread(tid),
            };
            if info.is_snapshot {
                streams.add_snapshot(of, *piece);
            } else {
                let stream = streams.all.entry(of).or_default();
                stream.bytes.push(file.clone(), streams.path.clone(), piece.offset, piece.len);
            }
        }
        // Of each memory in the order of time; that of the file is so for each CPU only.
        let mut samples: Vec<&(SampleId, Piece)> = found.samples.iter().collect();
        samples.sort_by_key(|(id, _)| id.time.unwrap_or(0));
        for (id, piece) in samples {
            let of = match (id.cpu, id.task) {
                (Some(cpu), _) if info.per_cpu => Of::Cpu(cpu),
                (_, Some(task)) => Of::Thread(task.tid),
                (cpu, None) => Of::Cpu(cpu.unwrap_or(0)),
            };
            streams.add_snapshot(of, *piece);
        }
        streams
    }

    /// Adds what memory that is written over had at a moment. It goes on where the one before has ended, if it has that
    /// one's last packets, too; otherwise packets between are not there, and it begins anywhere, in the middle of one.
    fn add_snapshot(&mut self, of: Of, Piece { offset, len }: Piece) {
        let stream = self.all.entry(of).or_default();
        let first = read(self.file, offset, len.min(OVERLAP_MAX));
        if let Some(again) = overlap(&stream.last, &first) {
            let again = again as u64;
            stream.bytes.push(self.file.clone(), self.path.clone(), offset + again, len - again);
        } else if let Some(psb) = Decoder::new(&first, 0).sync_forward() {
            stream.bytes.push_anew(self.file.clone(), self.path.clone(), offset + psb, len - psb);
        } else {
            self.without_psb += 1;
            return;
        }
        let behind = len.saturating_sub(OVERLAP_MAX);
        stream.last = if behind == 0 { first } else { read(self.file, offset + behind, OVERLAP_MAX) };
    }

    /// The streams.
    pub(super) fn finish(self) -> BTreeMap<Of, Bytes> {
        let all = self.all.into_iter().map(|(of, stream)| (of, stream.bytes));
        all.filter(|(_, bytes)| !bytes.is_empty()).collect()
    }
}

/// So many bytes of a file; fewer where there are fewer, or they cannot be read: whoever decodes them says why.
fn read(file: &File, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    let read = Source::read_at(file, offset, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

/// How many of a piece's first bytes are the last ones of the piece before, from a PSB on; nothing where none are known
/// to be.
fn overlap(before: &[u8], next: &[u8]) -> Option<usize> {
    let first = Decoder::new(next, 0).sync_forward()? as usize;
    let next = next.get(first..)?;
    let mut decoder = Decoder::new(before, 0);
    while let Some(psb) = decoder.sync_forward() {
        let rest = before.get(psb as usize..)?;
        let len = rest.len().min(next.len());
        if rest[..len] == next[..len] && is_unique(&next[..len]) {
            return Some(first + len);
        }
        decoder.next();
    }
    None
}

/// Whether packets from a PSB on are found nowhere else: their TSC says when they were written.
fn is_unique(bytes: &[u8]) -> bool {
    let has_tsc = || Decoder::new(bytes, 0).any(|item| matches!(item.what, Ok(Packet::Tsc(_))));
    bytes.len() >= OVERLAP_MIN || has_tsc()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_pt::packet::{Encoder, Tnt};

    /// PSB+ at a time, and so many branches.
    fn psb(time: u64, branches: usize) -> Vec<u8> {
        let tnt = Packet::Tnt(Tnt { bits: 5, count: 3, is_long: false });
        let packets = [Packet::Psb, Packet::Tsc(time), Packet::PsbEnd];
        let mut encoder = Encoder::new();
        for packet in packets.into_iter().chain(std::iter::repeat_n(tnt, branches)) {
            let _ = encoder.push(packet).expect("a packet");
        }
        encoder.bytes().to_vec()
    }

    #[test]
    fn what_was_there_before_is_found() {
        let all = [psb(1, 20), psb(2, 30), psb(3, 10), psb(4, 20)].concat();
        let check = |before: std::ops::Range<usize>, next: std::ops::Range<usize>, expect: Option<usize>| {
            assert_eq!(overlap(&all[before.clone()], &all[next.clone()]), expect, "{before:?} {next:?}");
        };
        let (one, three) = (psb(1, 20).len(), psb(1, 20).len() + psb(2, 30).len() + psb(3, 10).len());
        // In the middle of the first part, up to the middle of the last.
        check(0..three + 30, 5..all.len(), Some(three + 30 - 5));
        check(0..three, one..all.len(), Some(three - one));
        check(0..all.len(), one + 3..three, Some(three - one - 3));
        // What is alike, and was written later.
        check(0..one, one..three, None);
        check(0..three + 16, three..all.len(), None);
        check(0..0, 0..all.len(), None);
        check(0..all.len(), 3..10, None);
    }

    #[test]
    fn without_times_a_few_alike_bytes_are_nothing() {
        let [short, long] = [10, 300].map(|branches| {
            let mut bytes = psb(1, branches);
            bytes.drain(16..24);
            bytes
        });
        assert_eq!(overlap(&short, &short), None);
        assert_eq!(overlap(&long, &long), Some(long.len()));
    }
}

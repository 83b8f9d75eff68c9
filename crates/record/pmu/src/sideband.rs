//! The notes of a capture, as a file that grows; and which of them a snapshot of one CPU needs.
//!
//! Threads take turns thousands of times a second, so that notes of switches are most of the file after a while. A
//! snapshot has those of its CPU from its first packet on, and the one before; and all other notes.

use mote_capture::{Head, Note, Of, Processor, What};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Switches of a CPU whose places are known: 2 MiB of memory, and seconds of a CPU whose threads take turns 10,000
/// times a second.
const SWITCHES_MAX: usize = 1 << 16;
/// Bytes that are copied at once.
const CHUNK: usize = 256 << 10;

/// The file.
#[derive(Debug)]
pub(crate) struct Sideband {
    file: BufWriter<File>,
    /// Bytes that were written.
    len: u64,
    index: Option<Index>,
}

/// Where notes are in the file.
#[derive(Debug, Default)]
struct Index {
    /// The first line, and notes that are no switches: bytes that lie side by side are one range.
    lasting: Vec<Range<u64>>,
    /// The newest switches of each CPU, in the order of time: when, and where.
    switches: BTreeMap<u32, VecDeque<(u64, Range<u64>)>>,
}

impl Sideband {
    /// Begins it with its first line.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn begin(file: File, processor: &Processor) -> io::Result<Sideband> {
        let mut sideband = Sideband { file: BufWriter::new(file), len: 0, index: Some(Index::default()) };
        let line = sideband.line(&Head::Processor(processor.clone()))?;
        sideband.index.iter_mut().for_each(|index| index.keep(line.clone()));
        Ok(sideband)
    }

    /// Where notes are need not be known.
    pub(crate) fn without_index(self) -> Sideband {
        Sideband { index: None, ..self }
    }

    /// Adds a note.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&mut self, note: &Note) -> io::Result<()> {
        let line = self.line(note)?;
        let Some(index) = &mut self.index else { return Ok(()) };
        match (&note.what, note.cpu, note.time) {
            (What::Switch, Some(cpu), Some(time)) => index.switched(cpu, time, line),
            _ => index.keep(line),
        }
        Ok(())
    }

    fn line(&mut self, what: &impl serde::Serialize) -> io::Result<Range<u64>> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        let begin = self.len;
        self.len += line.len() as u64;
        Ok(begin..self.len)
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Which parts of the file are of use beside packets of a stream from the time stamp counter `from` on.
    pub(crate) fn parts(&self, of: Of, from: u64) -> Vec<Range<u64>> {
        match (&self.index, of) {
            (Some(index), Of::Cpu(cpu)) => index.parts(cpu, from),
            _ => self.all(),
        }
    }

    /// The whole file, as one part.
    pub(crate) fn all(&self) -> Vec<Range<u64>> {
        std::iter::once(0..self.len).collect()
    }

    /// Copies these parts to a file.
    ///
    /// # Errors
    /// They cannot be read, or it cannot be written.
    pub(crate) fn copy(&mut self, parts: &[Range<u64>], to: &mut File) -> io::Result<()> {
        self.flush()?;
        let mut to = BufWriter::new(to);
        parts.iter().try_for_each(|part| copy(self.file.get_ref(), part.clone(), &mut to))?;
        to.flush()
    }
}

/// Copies a part of a file to the end of what was written to another one.
///
/// # Errors
/// It cannot be read, or the other one cannot be written.
pub(crate) fn copy(from: &File, part: Range<u64>, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(part.end - part.start).unwrap_or(CHUNK))];
    let mut at = part.start;
    while at < part.end {
        let len = buffer.len().min(usize::try_from(part.end - at).unwrap_or(CHUNK));
        from.read_exact_at(&mut buffer[..len], at)?;
        to.write_all(&buffer[..len])?;
        at += len as u64;
    }
    Ok(())
}

impl Index {
    fn keep(&mut self, line: Range<u64>) {
        match self.lasting.last_mut() {
            Some(last) if last.end == line.start => last.end = line.end,
            _ => self.lasting.push(line),
        }
    }

    fn switched(&mut self, cpu: u32, time: u64, line: Range<u64>) {
        let switches = self.switches.entry(cpu).or_default();
        if switches.len() >= SWITCHES_MAX {
            switches.pop_front();
        }
        switches.push_back((time, line));
    }

    /// In the order of the file.
    fn parts(&self, cpu: u32, from: u64) -> Vec<Range<u64>> {
        let mut parts = self.lasting.clone();
        if let Some(switches) = self.switches.get(&cpu) {
            let first = switches.partition_point(|(time, _)| *time <= from).saturating_sub(1);
            parts.extend(switches.iter().skip(first).map(|(_, line)| line.clone()));
        }
        parts.sort_unstable_by_key(|part| part.start);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(cpu: Option<u32>, time: Option<u64>, what: What) -> Note {
        Note { pid: 7, tid: 8, cpu, instructions: None, time, what }
    }

    /// The times of the notes that a snapshot has.
    fn of_snapshot(sideband: &mut Sideband, of: Of, from: u64) -> Vec<Option<u64>> {
        let mut to = tempfile::tempfile().expect("a file");
        let parts = sideband.parts(of, from);
        sideband.copy(&parts, &mut to).expect("it is copied");
        let mut text = vec![0; to.metadata().expect("a file").len() as usize];
        to.read_exact_at(&mut text, 0).expect("it is there");
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let notes = lines.skip(1).map(|line| serde_json::from_slice::<Note>(line).expect("a note").time);
        notes.collect()
    }

    #[test]
    fn a_snapshot_has_the_switches_of_its_time() {
        let file = || tempfile::tempfile().expect("a file");
        let begin = || Sideband::begin(file(), &Processor::default()).expect("it is begun");
        let exit = || What::Exit { status: None };
        let fill = |mut sideband: Sideband| {
            sideband.write(&note(None, Some(1), exit())).expect("it is written");
            for time in 10..20 {
                let cpu = time as u32 % 2;
                sideband.write(&note(Some(cpu), Some(time), What::Switch)).expect("it is written");
            }
            sideband.write(&note(None, Some(20), exit())).expect("it is written");
            sideband
        };
        let mut sideband = fill(begin());
        let times = |times: &[u64]| times.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(of_snapshot(&mut sideband, Of::Cpu(0), 15), times(&[1, 14, 16, 18, 20]));
        assert_eq!(of_snapshot(&mut sideband, Of::Cpu(1), 15), times(&[1, 15, 17, 19, 20]));
        assert_eq!(of_snapshot(&mut sideband, Of::Cpu(1), 3), times(&[1, 11, 13, 15, 17, 19, 20]));
        assert_eq!(of_snapshot(&mut sideband, Of::Cpu(5), 15), times(&[1, 20]));
        let all: Vec<_> = [1].into_iter().chain(10..=20).collect();
        assert_eq!(of_snapshot(&mut sideband, Of::Thread(8), 15), times(&all));
        assert_eq!(of_snapshot(&mut fill(begin().without_index()), Of::Cpu(0), 15), times(&all));
    }

    #[test]
    fn places_of_old_switches_are_forgotten() {
        let mut index = Index::default();
        for time in 0..SWITCHES_MAX as u64 + 5 {
            index.switched(0, time, time..time + 1);
        }
        assert_eq!((index.parts(0, 0).len(), index.parts(0, 0)[0].start), (SWITCHES_MAX, 5));
    }
}

//! Packets in memory, within bounds: for a program that records itself or others and reads at once, without a disk.

use crate::output::sink::{Content, StreamSink, TraceSink, set_packet_size};
use mote_layout::packet::{CONTENT_SIZE_AT, HEADER_BYTES, TIMESTAMP_END_AT};
use mote_sys::{Errno, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The streams of a recording, in memory. Copies are the same memory: one is the recording's, another its reader's.
///
/// When it is full, that is as with a disk: the recording stops, and each stream is whole up to its last packet that
/// had room.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Bytes of all streams together, at most.
    most: u64,
    kept: Arc<Mutex<Kept>>,
}

/// What is kept.
#[derive(Debug, Default)]
struct Kept {
    bytes: u64,
    traces: BTreeMap<String, KeptTrace>,
}

/// A trace.
#[derive(Debug, Default)]
struct KeptTrace {
    metadata: String,
    streams: BTreeMap<String, Vec<u8>>,
}

impl Memory {
    /// Keeps at most so many bytes.
    pub fn of(most: u64) -> Memory {
        Memory { most, kept: Arc::default() }
    }

    /// The names of the traces: `ust` is that of the processes, `kernel` that of the kernel.
    pub fn traces(&self) -> Vec<String> {
        self.with(|kept| kept.traces.keys().cloned().collect())
    }

    /// The metadata of a trace as they are now; empty when there is none of this name.
    pub fn metadata(&self, trace: &str) -> String {
        self.with(|kept| kept.traces.get(trace).map(|trace| trace.metadata.clone()).unwrap_or_default())
    }

    /// The streams of a trace that have a packet, by name, with all their packets so far.
    pub fn streams(&self, trace: &str) -> Vec<(String, Vec<u8>)> {
        self.with(|kept| {
            let streams = kept.traces.get(trace).map(|trace| trace.streams.clone());
            streams.unwrap_or_default().into_iter().collect()
        })
    }

    /// Where the streams of this trace go.
    pub(crate) fn sink(&self, trace: &str) -> Arc<dyn TraceSink> {
        Arc::new(MemoryTrace { memory: self.clone(), trace: trace.to_owned() })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One trace in memory.
#[derive(Debug)]
struct MemoryTrace {
    memory: Memory,
    trace: String,
}

impl TraceSink for MemoryTrace {
    fn stream(&self, name: &str) -> Result<Box<dyn StreamSink>> {
        let (memory, trace) = (self.memory.clone(), self.trace.clone());
        Ok(Box::new(MemoryStream { memory, trace, name: name.to_owned() }))
    }

    fn tell_metadata(&self, text: &str) {
        self.memory
            .with(|kept| text.clone_into(&mut kept.traces.entry(self.trace.clone()).or_default().metadata));
    }
}

/// One stream in memory.
#[derive(Debug)]
struct MemoryStream {
    memory: Memory,
    trace: String,
    name: String,
}

impl MemoryStream {
    /// Does something with the bytes from `at` on.
    ///
    /// # Errors
    /// There are fewer.
    fn at<T>(&self, at: u64, len: usize, work: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        self.memory.with(|kept| {
            let stream = kept.traces.get_mut(&self.trace).and_then(|trace| trace.streams.get_mut(&self.name));
            let rest = stream.and_then(|stream| stream.get_mut(usize::try_from(at).ok()?..));
            rest.and_then(|rest| rest.get_mut(..len)).map(work).ok_or(Errno(libc::EINVAL))
        })
    }

    fn set_word(&self, at: u64, word: u64) -> Result<()> {
        self.at(at, size_of::<u64>(), |bytes| bytes.copy_from_slice(&word.to_le_bytes()))
    }
}

impl StreamSink for MemoryStream {
    fn add(&mut self, mut header: [u8; HEADER_BYTES], content: &dyn Content) -> Result<u64> {
        let whole = HEADER_BYTES + content.len();
        set_packet_size(&mut header, whole as u64);
        self.memory.with(|kept| {
            if kept.bytes + whole as u64 > self.memory.most {
                return Err(Errno(libc::ENOSPC));
            }
            let trace = kept.traces.entry(self.trace.clone()).or_default();
            let stream = trace.streams.entry(self.name.clone()).or_default();
            let (begin, from) = (stream.len(), stream.len() + HEADER_BYTES);
            stream.extend_from_slice(&header);
            stream.resize(begin + whole, 0);
            if !stream.get_mut(from..).is_some_and(|into| content.copy_to(into)) {
                stream.truncate(begin);
                return Err(Errno(libc::EIO));
            }
            kept.bytes += whole as u64;
            Ok(from as u64)
        })
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        self.at(at, into.len(), |bytes| into.copy_from_slice(bytes))?;
        Ok(into.len())
    }

    fn cut(&self, at: u64, len: usize) -> Result<()> {
        self.set_word(at - (HEADER_BYTES - CONTENT_SIZE_AT) as u64, ((HEADER_BYTES + len) * 8) as u64)
    }

    fn end_at(&self, at: u64, time: u64) -> Result<()> {
        self.set_word(at - (HEADER_BYTES - TIMESTAMP_END_AT) as u64, time)
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sink::Bytes;

    #[test]
    fn it_is_full_as_a_disk_is() {
        let memory = Memory::of(2 * (HEADER_BYTES as u64 + 5));
        let mut stream = memory.sink("ust").stream("cpu_0").expect("made");
        let at = stream.add([0; HEADER_BYTES], &Bytes(b"first")).expect("room");
        assert_eq!(stream.add([0; HEADER_BYTES], &Bytes(b"second")), Err(Errno(libc::ENOSPC)));
        stream.add([0; HEADER_BYTES], &Bytes(b"other")).expect("room");
        let mut read = [0; 5];
        assert_eq!((stream.read(at, &mut read), &read), (Ok(5), b"first"));
        assert!(stream.read(at + 1000, &mut read).is_err());
        let streams = memory.streams("ust");
        assert_eq!((streams.len(), streams[0].1.len()), (1, 2 * (HEADER_BYTES + 5)));
        assert_eq!((memory.traces(), memory.streams("kernel").len()), (vec!["ust".to_owned()], 0));
    }

    #[test]
    fn a_packet_says_its_size_and_what_of_it_is_good() {
        let memory = Memory::of(1 << 20);
        let mut stream = memory.sink("ust").stream("cpu_0").expect("made");
        let at = stream.add([0; HEADER_BYTES], &Bytes(&[7; 100])).expect("room");
        stream.cut(at, 60).expect("there");
        stream.end_at(at, 12).expect("there");
        let bytes = memory.streams("ust").remove(0).1;
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a word"));
        let bits = |bytes: usize| (HEADER_BYTES + bytes) as u64 * 8;
        let (content, packet) = (word(CONTENT_SIZE_AT), word(CONTENT_SIZE_AT + 8));
        assert_eq!((content, packet, word(TIMESTAMP_END_AT)), (bits(60), bits(100), 12));
    }
}

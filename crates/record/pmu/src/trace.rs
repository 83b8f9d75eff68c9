//! The memory of a hardware trace, read in pieces.

use mote_sys::perf_ring::{PerfRing, TraceMemory};
use std::io;

/// Bytes that are copied at once.
const CHUNK: usize = 256 << 10;

/// Reads what a hardware trace has written; how far it was read is what it keeps.
#[derive(Debug, Default)]
pub struct TraceReader {
    read: u64,
    buffer: Vec<u8>,
    /// Bytes that were written over before they were read: the kernel does not do that, other writers may.
    pub lost: u64,
}

impl TraceReader {
    /// Gives all that was written since the last time to `to`, piece by piece, and its memory back; returns how many
    /// bytes.
    ///
    /// # Errors
    /// Those of `to`; what it was given then counts as not read.
    ///
    /// # Cost
    /// A buffer of 256 KiB, whatever there is.
    pub fn drain(
        &mut self,
        ring: &PerfRing,
        memory: &TraceMemory,
        mut to: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<u64> {
        let head = ring.trace_head();
        let there = head.wrapping_sub(self.read);
        if there > memory.bytes() {
            // More than there is room for, or back: what is there are the last bytes, if anything.
            let kept = if there <= u64::MAX / 2 { memory.bytes() } else { 0 };
            self.lost = self.lost.saturating_add(if kept > 0 { there - kept } else { 1 });
            self.read = head.wrapping_sub(kept);
        }
        let mut done = 0;
        while self.read != head {
            let len = head.wrapping_sub(self.read).min(CHUNK as u64) as usize;
            self.buffer.resize(len, 0);
            memory.copy(self.read, &mut self.buffer);
            to(&self.buffer)?;
            self.read = self.read.wrapping_add(len as u64);
            done += len as u64;
            ring.free_trace(self.read);
        }
        Ok(done)
    }

    /// Gives what memory that is written over has, from the oldest byte on, to `to`. The event has to be off.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn snapshot(
        &mut self,
        ring: &PerfRing,
        memory: &TraceMemory,
        mut to: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<u64> {
        let bytes = memory.bytes();
        // Where the next byte would go; before it was written for the first time, memory is zeros, which are padding.
        let head = ring.trace_head() % bytes;
        let (mut at, mut done) = (head, 0);
        let mut is_first = true;
        while at < head + bytes {
            let len = (head + bytes - at).min(CHUNK as u64) as usize;
            self.buffer.resize(len, 0);
            memory.copy(at, &mut self.buffer);
            let zeros = if is_first { self.buffer.iter().take_while(|byte| **byte == 0).count() } else { 0 };
            is_first &= zeros == len;
            if zeros < len {
                to(&self.buffer[zeros..])?;
                done += (len - zeros) as u64;
            }
            at += len as u64;
        }
        Ok(done)
    }
}

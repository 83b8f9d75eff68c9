//! The reader of a round: eager, slow or sudden, and never satisfied with whole sub-buffers.

use super::check::Check;
use super::random::Random;
use super::record;
use mote_ring::reader::{Channel, Chunk, Look, Reader};
use std::time::Duration;

/// Reads all the rings of a channel.
pub struct Drain<'a> {
    readers: Vec<Reader<'a>>,
    random: Random,
    buffer: Vec<u8>,
    /// Longest pause between two passes, in microseconds.
    pause_us: u64,
    /// Bytes that were overwritten before they were read.
    pub overwritten: u64,
}

impl<'a> Drain<'a> {
    pub fn new(channel: &'a Channel, seed: u64) -> Drain<'a> {
        let mut random = Random::new(seed);
        let pause_us = [1, 1, 1, 300, 1_000, 20_000][random.below(6) as usize];
        let readers = (0..channel.geometry().rings()).filter_map(|ring| channel.reader(ring)).collect();
        Drain { readers, random, buffer: Vec::new(), pause_us, overwritten: 0 }
    }

    /// One pass over the rings, some of them left out, and a pause.
    pub fn pass(&mut self, check: &mut Check) {
        for ring in 0..self.readers.len() {
            if !self.random.once_in(8) {
                let most = self.random.below(40);
                self.read(ring, most, check);
            }
        }
        if self.pause_us > 1 {
            std::thread::sleep(Duration::from_micros(self.random.below(self.pause_us)));
        }
    }

    /// Looks at most `most` times at a ring.
    fn read(&mut self, ring: usize, most: u64, check: &mut Check) {
        for _ in 0..most {
            match self.readers[ring].look() {
                Look::Empty => return,
                Look::Ready(chunk) => self.take(ring, chunk, check),
                Look::Overwritten(bytes) => {
                    self.overwritten += bytes;
                    check.skip(ring);
                }
                Look::Damaged => check.violation(|| format!("ring {ring}: reported as damaged")),
            }
        }
    }

    fn take(&mut self, ring: usize, chunk: Chunk, check: &mut Check) {
        let reader = &mut self.readers[ring];
        self.buffer.resize(chunk.len(), 0);
        if self.random.once_in(50) {
            // Time for the writers to come around.
            std::thread::sleep(Duration::from_micros(self.random.below(300)));
        }
        if !reader.copy(chunk, &mut self.buffer) {
            self.overwritten += chunk.len() as u64;
            check.skip(ring);
            reader.release(chunk);
            return;
        }
        if !reader.is_shared() && self.random.once_in(4) {
            let limit = self.random.below(chunk.len() as u64 + 1) as usize;
            let len = record::boundary(&self.buffer, limit);
            if len < chunk.len() {
                let part = Chunk { to: chunk.from + len as u64, time_end: None, ..chunk };
                reader.release(part);
                check.chunk(ring, &self.buffer[..len], None);
                return;
            }
        }
        reader.release(chunk);
        check.chunk(ring, &self.buffer, chunk.time_end);
    }

    /// Reads all that is left when no thread writes any more. Returns how many records were given up as torn.
    pub fn finish(&mut self, check: &mut Check, may_tear: bool) -> u64 {
        let mut torn = 0;
        for ring in 0..self.readers.len() {
            loop {
                self.read(ring, u64::MAX, check);
                let Some(some) = self.readers[ring].give_up() else { break };
                torn += some;
                check.skip(ring);
                if !may_tear {
                    check.violation(|| format!("ring {ring}: not whole, {some} records torn"));
                }
            }
            let rest = self.readers[ring].backlog();
            if rest != 0 {
                check.violation(|| format!("ring {ring}: {rest} bytes remain"));
            }
        }
        torn
    }

    /// Lost records by cause, of all rings.
    pub fn lost(&self) -> mote_loss::Lost {
        let mut sum = mote_loss::Lost::default();
        for reader in &self.readers {
            for (sum, lost) in sum.iter_mut().zip(reader.lost()) {
                *sum += lost;
            }
        }
        sum
    }
}

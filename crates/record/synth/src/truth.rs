//! What a thread has executed, in little space: [`mote_capture::Truth`], which a reader of its packets is measured by.

use crate::fact::Run;
use mote_capture::Of;
use mote_pt::digest::Digest;
use std::io::{self, Write};
use std::ops::Range;

/// What is kept of a thread.
#[derive(Debug)]
pub(crate) struct Truth {
    digest: Digest,
    every: u64,
    checkpoints: Vec<u64>,
    runs: Option<Box<dyn Runs>>,
    /// Runs since the mark, which are not written yet.
    waiting: Vec<u8>,
    /// What there was at the mark: digest and checkpoints.
    mark: (Digest, usize),
}

/// Where runs are written to.
pub(crate) trait Runs: Write + std::fmt::Debug {}

impl<W: Write + std::fmt::Debug> Runs for W {}

impl Truth {
    /// A checkpoint each `every` instructions.
    pub(crate) fn new(every: u64, runs: Option<Box<dyn Runs>>) -> Truth {
        Truth {
            digest: Digest::default(),
            every: every.max(1),
            checkpoints: Vec::new(),
            runs,
            waiting: Vec::new(),
            mark: (Digest::default(), 0),
        }
    }

    pub(crate) fn instructions(&self) -> u64 {
        self.digest.count
    }

    /// Takes a run. Costs two multiplications, and a copy where runs are wished.
    pub(crate) fn run(&mut self, run: &Run<'_>) {
        let next = (self.checkpoints.len() as u64 + 1) * self.every;
        if self.digest.count + run.count() < next {
            self.digest.append(&run.digest);
        } else {
            run.addresses().for_each(|ip| self.push(ip));
        }
        if self.runs.is_some() {
            self.waiting.extend_from_slice(&run.start.to_le_bytes());
            self.waiting.extend_from_slice(&(run.lengths.len() as u32).to_le_bytes());
        }
    }

    /// What was executed so far is told of by packets.
    pub(crate) fn mark(&mut self) -> io::Result<()> {
        self.mark = (self.digest, self.checkpoints.len());
        match &mut self.runs {
            Some(runs) if !self.waiting.is_empty() => {
                let written = runs.write_all(&self.waiting);
                self.waiting.clear();
                written
            }
            _ => Ok(()),
        }
    }

    /// What was executed since the mark is not told of: its packets are lost.
    pub(crate) fn rewind(&mut self) {
        let checkpoints;
        (self.digest, checkpoints) = self.mark;
        self.checkpoints.truncate(checkpoints);
        self.waiting.clear();
    }

    /// The line of `truth.jsonl`.
    pub(crate) fn line(&mut self, of: Of, lost: &[Range<u64>]) -> io::Result<String> {
        self.mark()?;
        if let Some(runs) = &mut self.runs {
            runs.flush()?;
        }
        let digits = |value: u64| format!("{value:016x}");
        let (tid, cpu) = match of {
            Of::Thread(tid) => (tid, None),
            Of::Cpu(cpu) => (-1, Some(cpu)),
        };
        let truth = mote_capture::Truth {
            tid,
            cpu,
            instructions: self.digest.count,
            digest: digits(self.digest.value),
            every: self.every,
            checkpoints: self.checkpoints.iter().copied().map(digits).collect(),
            lost: lost.iter().map(|range| (range.start, range.end)).collect(),
        };
        serde_json::to_string(&truth).map_err(io::Error::other)
    }

    fn push(&mut self, ip: u64) {
        self.digest.push(ip);
        if self.digest.count.is_multiple_of(self.every) {
            self.checkpoints.push(self.digest.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Exit;

    #[test]
    fn checkpoints_are_where_they_are_said_to_be() {
        let lengths = [1_u8; 7];
        let mut truth = Truth::new(10, None);
        let mut addresses = Vec::new();
        for start in [0x1000, 0x2000, 0x3000, 0x4000] {
            let mut run =
                Run { start, lengths: &lengths, digest: Digest::default(), exit: Exit::Plain, to: 0 };
            run.digest = run.addresses().collect();
            addresses.extend(run.addresses());
            truth.run(&run);
        }
        let digest = |count| addresses[..count].iter().copied().collect::<Digest>().value;
        assert_eq!(truth.checkpoints, [digest(10), digest(20)]);
        assert_eq!((truth.digest.value, truth.instructions()), (digest(28), 28));
        // What comes behind a mark is forgotten.
        truth.mark().expect("nothing is written");
        truth.run(&Run { start: 7, lengths: &lengths, digest: Digest::default(), exit: Exit::Plain, to: 0 });
        truth.rewind();
        assert_eq!((truth.digest.value, truth.checkpoints.len()), (digest(28), 2));
        let line = truth.line(Of::Thread(5), std::slice::from_ref(&(3..9))).expect("nothing is written");
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(read["lost"], serde_json::json!([[3, 9]]));
        assert_eq!(read["digest"], format!("{:016x}", digest(28)));
    }
}

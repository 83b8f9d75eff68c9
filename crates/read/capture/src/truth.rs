//! What was really executed, where a capture was made without a processor: a reader of its packets is measured by it.
//!
//! # The file `truth.jsonl`
//! One line of JSON for each stream, when it has ended: a [`Truth`].
//!
//! # The files `TID.runs`, where they are wished
//! 12 bytes for each run of instructions that lie one behind the other: the first one's address, and how many (64 and
//! 32 bits, the low byte first). A run may go on with the one before.

use crate::error::Error;
use crate::stream::Of;
use mote_pt::digest::Digest;
use mote_pt::flow::{Event, Gap, Graph, Sink};
use mote_pt::insn::Block;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Its name in a capture.
pub const TRUTH: &str = "truth.jsonl";

/// What a thread has executed, as far as packets tell of it: neither what filters of addresses leave out, nor what was
/// executed while packets were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// The thread; of a processor's stream, -1.
    pub tid: i32,
    /// The processor, where the stream is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// How many instructions.
    pub instructions: u64,
    /// The digest of their addresses in this order ([`Digest`]), 16 hexadecimal digits.
    pub digest: String,
    /// How many instructions lie between two checkpoints.
    pub every: u64,
    /// The digests of the first `every` instructions, of the first 2 · `every`, and so on.
    pub checkpoints: Vec<String>,
    /// Of which instructions the packets were lost: the first, and the one behind the last, by their number among all
    /// that the thread has executed.
    pub lost: Vec<(u64, u64)>,
}

impl Truth {
    /// The stream that it is of.
    #[must_use]
    pub fn of(&self) -> Of {
        self.cpu.map_or(Of::Thread(self.tid), Of::Cpu)
    }

    /// Whether a digest is that of all that was executed.
    #[must_use]
    pub fn is(&self, digest: &Digest) -> bool {
        digest.count == self.instructions && format!("{:016x}", digest.value) == self.digest
    }
}

/// The truths of a capture; none where it was made by a processor.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<Of, Truth>, Error> {
    let path = folder.join(TRUTH);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(why) => return Err(Error::Read { path, why }),
    };
    let line = |(number, line): (usize, &str)| {
        let truth: Truth = serde_json::from_str(line).map_err(|why| Error::Line {
            path: path.clone(),
            line: number + 1,
            why: why.to_string(),
        })?;
        Ok((truth.of(), truth))
    };
    text.lines().enumerate().map(line).collect()
}

/// A sink that compares with a truth.
#[derive(Debug)]
pub struct Against<'t> {
    truth: &'t Truth,
    digest: Digest,
    /// How many checkpoints were right.
    right: usize,
    /// Between which instructions the first difference is.
    differs: Option<(u64, u64)>,
}

impl<'t> Against<'t> {
    /// Nothing was executed yet.
    #[must_use]
    pub fn new(truth: &'t Truth) -> Against<'t> {
        Against { truth, digest: Digest::default(), right: 0, differs: None }
    }

    /// Whether a difference was found already.
    #[must_use]
    pub fn has_differed(&self) -> bool {
        self.differs.is_some()
    }

    /// Between which instructions the first difference is, by number; `None` where all are as they were.
    #[must_use]
    pub fn finish(self) -> Option<(u64, u64)> {
        let is_right = self.truth.is(&self.digest);
        let last = self.right as u64 * self.truth.every;
        self.differs.or((!is_right).then_some((last, self.truth.instructions.max(self.digest.count))))
    }

    fn push(&mut self, address: u64) {
        self.digest.push(address);
        if self.differs.is_some()
            || self.truth.every == 0
            || !self.digest.count.is_multiple_of(self.truth.every)
        {
            return;
        }
        match self.truth.checkpoints.get(self.right) {
            Some(checkpoint) if *checkpoint == format!("{:016x}", self.digest.value) => self.right += 1,
            _ => self.differs = Some((self.digest.count - self.truth.every, self.digest.count)),
        }
    }
}

impl Sink for Against<'_> {
    const NEEDS_TIME: bool = false;

    fn block(&mut self, block: &Block, graph: &Graph) {
        let mut address = block.start;
        for length in graph.lengths(block) {
            self.push(address);
            address = address.wrapping_add(u64::from(*length));
        }
    }

    fn event(&mut self, _: u64, _: Event) {}

    fn gap(&mut self, _: Gap) {}
}

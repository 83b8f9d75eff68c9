//! How often instructions were executed.

use crate::code::Code;
use crate::follow::Summary;
use crate::stream::Part;
use mote_pt::flow::{Event, Gap, Graph, Sink};
use mote_pt::image::Space;
use mote_pt::insn::Block;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A summary of executed code: each run of instructions, and how often.
///
/// # Cost
/// A look into a table for each block; memory by the code that was executed, not by the length of the stream.
#[derive(Debug, Default)]
pub struct Counts {
    space: Space,
    runs: HashMap<Run, Executed>,
}

/// Instructions one behind the other: their address space, the first one's address, and that behind the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run(Space, u64, u64);

#[derive(Debug)]
struct Executed {
    times: u64,
    lengths: Box<[u8]>,
}

impl Counts {
    /// How often each instruction was executed, by file and address in it. Code of no file is left out.
    #[must_use]
    pub fn in_files(&self, code: &Code) -> HashMap<PathBuf, HashMap<u64, u64>> {
        let mut files: HashMap<PathBuf, HashMap<u64, u64>> = HashMap::new();
        for (Run(space, start, _), executed) in &self.runs {
            let Some((file, at)) = code.in_file(*space, *start) else { continue };
            if !files.contains_key(file) {
                files.insert(file.to_owned(), HashMap::new());
            }
            let Some(counts) = files.get_mut::<Path>(file) else { continue };
            let mut address = at;
            for length in &executed.lengths {
                *counts.entry(address).or_default() += executed.times;
                address = address.wrapping_add(u64::from(*length));
            }
        }
        files
    }
}

impl Sink for Counts {
    const NEEDS_TIME: bool = false;

    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph) {
        let run = Run(self.space, block.start, block.end);
        let new = || Executed { times: 0, lengths: graph.lengths(block).into() };
        self.runs.entry(run).or_insert_with(new).times += 1;
    }

    fn event(&mut self, _: u64, _: Event) {}

    fn gap(&mut self, _: Gap) {}

    fn space(&mut self, space: Space) {
        self.space = space;
    }
}

impl Summary for Counts {
    fn begin(&mut self, _: &Part) {}

    fn end(&mut self, _: Option<u64>) {}

    fn append(&mut self, next: Counts) {
        for (run, Executed { times, lengths }) in next.runs {
            self.runs.entry(run).or_insert(Executed { times: 0, lengths }).times += times;
        }
    }
}

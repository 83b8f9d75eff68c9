//! Where the streams of a recording's traces go: one line for each sink that there is.

use crate::output::memory::Memory;
use crate::output::packets::Files;
use crate::output::sink::TraceSink;
use std::sync::Arc;

/// Where the streams of events go. The journal, metadata and snapshots are in the recording's directory in any case.
#[derive(Clone, Debug, Default)]
pub enum Streams {
    /// To files in the recording's directory.
    #[default]
    Files,
    /// To memory.
    Memory(Memory),
}

impl Streams {
    /// The sink of the trace of this name, which would have these files.
    pub(crate) fn sink(&self, trace: &str, files: Files) -> Arc<dyn TraceSink> {
        match self {
            Streams::Files => Arc::new(files),
            Streams::Memory(memory) => memory.sink(trace),
        }
    }
}

//! What engines report: facts of threads, and what is to be known beside them to read a trace.

use crate::error::Error;
use crate::fact::Fact;
use crate::stop::Stop;
use std::path::PathBuf;

/// Takes what an engine reports, of each thread in its order. Threads have the numbers that gettid(2) gave them.
pub trait Observer {
    /// The next fact of a thread.
    ///
    /// # Errors
    /// The engine stops the program and passes the error on.
    fn fact(&mut self, tid: i32, fact: &Fact<'_>) -> Result<(), Error>;

    /// Something about a thread's process, before the thread's next fact.
    ///
    /// # Errors
    /// As [`Observer::fact`].
    fn note(&mut self, tid: i32, note: &Note) -> Result<(), Error>;

    /// A flag by which the program is asked to end, together with its children; an engine asks for it once, when the
    /// program has begun. All that was executed up to then is reported as ever.
    fn stop(&mut self) -> Option<Stop> {
        None
    }
}

/// Something about a process that its packets do not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The thread begins.
    Thread {
        /// Its process.
        pid: i32,
        /// The thread's name (`comm`).
        name: String,
    },
    /// The process has become another program: what was mapped is gone.
    Exec {
        /// The process.
        pid: i32,
        /// The program.
        path: PathBuf,
    },
    /// Code of a file is mapped; it takes the place of what was there.
    Image(Image),
    /// Code that is of no file is about to be executed for the first time, or since it has changed.
    Code {
        /// The process.
        pid: i32,
        /// The address of the first byte.
        start: u64,
        /// The bytes: of one instruction, or of several that lie one behind the other.
        bytes: Vec<u8>,
    },
    /// Of a processor: it runs this thread from here on.
    Switch {
        /// The thread's process.
        pid: i32,
        /// The thread.
        tid: i32,
    },
    /// Of a processor: the address space is this process's.
    AddressSpace {
        /// The process.
        pid: i32,
        /// CR3, as PIP packets have it.
        cr3: u64,
    },
    /// The process has ended, with this thread.
    Exit {
        /// The process.
        pid: i32,
        /// The exit status, or the signal's number below 0; `None` where it is not known.
        status: Option<i32>,
    },
}

/// A part of a file that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The process.
    pub pid: i32,
    /// The address of the first byte.
    pub start: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The file.
    pub path: PathBuf,
    /// Where in it the first byte is.
    pub offset: u64,
}

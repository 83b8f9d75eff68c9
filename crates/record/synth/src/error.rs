//! What can go wrong while a program is run for its packets.

use std::io;

/// Why there are no packets, or no more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No program was named.
    #[error("no program to run: name one")]
    NoProgram,
    /// The program was not executed.
    #[error("cannot execute {0}: it is not there, or may not be executed")]
    NotExecuted(String),
    /// Options that no processor has.
    #[error("these packets are of no processor: {0}")]
    Options(String),
    /// A packet that has no bytes.
    #[error("cannot write a packet: {0}")]
    Packet(mote_pt::packet::encode::Unfit),
    /// ptrace(2).
    #[error("cannot single-step the program: {0}")]
    Ptrace(mote_sys::Errno),
    /// Code that is not known.
    #[error("cannot go on at {ip:#x} in thread {tid}: {why}")]
    Code {
        /// The thread.
        tid: i32,
        /// The instruction's address.
        ip: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something that a file, a directory or a process was needed for.
    #[error("cannot {what}: {why}")]
    Io {
        /// What was to be done.
        what: String,
        /// Why it was not.
        why: io::Error,
    },
    /// qemu-user, or the compiler for its plugin.
    #[error("{0}")]
    Qemu(String),
}

impl From<mote_sys::Errno> for Error {
    fn from(errno: mote_sys::Errno) -> Error {
        Error::Ptrace(errno)
    }
}

/// An error of `what` could not be done.
pub(crate) fn cannot(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    |why| Error::Io { what: what.into(), why }
}

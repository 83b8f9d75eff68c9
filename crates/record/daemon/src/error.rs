//! Why a recording could not be made.

use mote_words::size;
use std::io;
use std::path::PathBuf;

/// What went wrong, to what, why, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output directory is there already, with something in it.
    #[error("cannot record to {path}: it exists and is not empty; give another directory with -o, or remove \
        it", path = .0.display())]
    Exists(PathBuf),
    /// The output directory cannot be made or written.
    #[error("cannot write {path}: {why}; give another directory with -o", path = .0.display(), why = .1)]
    Output(PathBuf, io::Error),
    /// The command cannot be started.
    #[error("cannot start '{command}': {why}{hint}", command = .0, why = .1, hint = hint(.1))]
    Command(String, io::Error),
    /// The buffers cannot be had.
    #[error("cannot get {} for buffers: {why}; give smaller --buffers{hint}", size(*.bytes), hint = size_hint(*why))]
    Memory {
        /// Bytes asked for.
        bytes: u64,
        /// The kernel's answer.
        why: mote_sys::Errno,
    },
    /// The buffer sizes make no sense.
    #[error(transparent)]
    Geometry(#[from] mote_ring::geometry::BadGeometry),
    /// Something that the session needs cannot be had.
    #[error("cannot {what}: {why}")]
    Session {
        /// What was to be done.
        what: &'static str,
        /// The kernel's answer.
        why: mote_sys::Errno,
    },
    /// A system call of the event loop failed.
    #[error("cannot {what}: {why}")]
    Loop {
        /// What was to be done.
        what: &'static str,
        /// The kernel's answer.
        why: io::Error,
    },
    /// An object with filters cannot be used.
    #[error("cannot use the filters of {path}: {why}", path = .0.display(), why = .1)]
    Object(PathBuf, String),
    /// A rule asks for what this kind of recording does not have.
    #[error("{0}")]
    Rule(&'static str),
    /// A running process that is to be recorded is not there.
    #[error("cannot record process {pid}: {why}{hint}", hint = crate::registration::attached::hint(*why))]
    Process {
        /// Its id.
        pid: i32,
        /// The kernel's answer.
        why: mote_sys::Errno,
    },
    /// A process that is to be recorded is another user's.
    #[error("only root records another user's processes: run mote as root, or as that user")]
    Others,
    /// A running process cannot be asked to be recorded.
    #[error(
        "cannot record the events of process {pid}: {why}; start it with `mote record -- CMD`, or record what \
         the kernel sees of it with -k"
    )]
    NotReached {
        /// Its id.
        pid: i32,
        /// Why.
        why: String,
    },
    /// Functions cannot have probes.
    #[error("cannot record functions: {0}")]
    Functions(String),
    /// No kernel events can be recorded.
    #[error("cannot record kernel events: {0}")]
    Kernel(String),
    /// Threads cannot be sampled.
    #[error("cannot sample: {0}")]
    Profile(mote_sampler::Error),
    /// There can be no hardware trace.
    #[error("cannot record the hardware trace: {0}")]
    Hardware(mote_pmu::Error),
    /// The metadata cannot be expressed in the format asked for.
    #[error("cannot write the metadata: {0}")]
    Metadata(#[from] mote_ctf::write::WriteError),
}

fn size_hint(why: mote_sys::Errno) -> &'static str {
    if why.0 == libc::EFBIG { ", or raise the limit of file sizes (ulimit -f)" } else { "" }
}

fn hint(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::NotFound => "; check the name, or give a path such as ./app",
        io::ErrorKind::PermissionDenied => "; is it executable?",
        _ => "",
    }
}

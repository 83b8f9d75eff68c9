//! Why kernel events cannot be recorded.

use crate::privilege;
use mote_ring::geometry::BadGeometry;
use mote_ring::reader::MakeError;
use mote_sys::Errno;
use mote_words::size;

/// Why kernel events cannot be recorded: all of them, or the one that is named.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A right is missing.
    #[error("{0}")]
    Privilege(privilege::Missing),
    /// Not enough memory, or not allowed as much.
    #[error("cannot make {what} of {} for kernel events: {errno}; {hint}", size(*.bytes))]
    Memory {
        /// What the memory was for.
        what: &'static str,
        /// How much.
        bytes: u64,
        /// The kernel's answer.
        errno: Errno,
        /// What the user can do about it.
        hint: &'static str,
    },
    /// The sizes of the rings are out of bounds.
    #[error("{0}")]
    Geometry(BadGeometry),
    /// The rings are together larger than what a program can reach.
    #[error(
        "rings of {} in all are more than the 512 MiB that the kernel's programs can reach; \
         give --kernel-buffers of at most {}",
        size(*.bytes),
        size(*.ring)
    )]
    Reach {
        /// Their size.
        bytes: u64,
        /// The largest ring that is possible.
        ring: u64,
    },
    /// The rings cannot be mapped.
    #[error("cannot map the rings of kernel events: {0}{hint}", hint = mapping_hint(*.0))]
    Map(Errno),
    /// No program can be made: the kernel does not describe its types, or the event is not one for programs.
    #[error(transparent)]
    Generate(#[from] mote_generate::Error),
    /// The verifier refused a program.
    #[error("the kernel refuses the program of {event}: {errno}; its verifier says: {said}")]
    Verifier {
        /// Of which event.
        event: String,
        /// The kernel's answer.
        errno: Errno,
        /// The last lines, with ` | ` between them.
        said: String,
    },
    /// A program could not be attached.
    #[error("cannot attach to {event}: {errno}; {hint}")]
    Attach {
        /// To which event.
        event: String,
        /// The kernel's answer.
        errno: Errno,
        /// What the user can do about it.
        hint: &'static str,
    },
    /// A process cannot be followed.
    #[error("cannot follow process {pid}: {why}")]
    Process {
        /// The id of the process.
        pid: u32,
        /// Why.
        why: String,
    },
    /// A control group cannot be followed.
    #[error("cannot follow the control group {path}: {why}")]
    Cgroup {
        /// Its directory.
        path: String,
        /// Why.
        why: String,
    },
}

impl Error {
    /// That the kernel has refused so many bytes for `what`, with the right or the limit that it was for.
    pub fn memory(what: &'static str, bytes: u64, errno: Errno) -> Error {
        if let Some(missing) = privilege::of(errno, "make maps (bpf(2))") {
            return Error::Privilege(missing);
        }
        let hint = match errno.0 {
            libc::EPERM => {
                "kernels before 5.11 count maps against RLIMIT_MEMLOCK: raise it (ulimit -l unlimited)"
            }
            libc::E2BIG | libc::EINVAL => "this kernel has no maps as large: give smaller --kernel-buffers",
            libc::EMFILE => "raise the limit of open files (ulimit -n)",
            _ => "give smaller --kernel-buffers",
        };
        Error::Memory { what, bytes, errno, hint }
    }

    /// That no program can be made for `event`.
    pub fn event(event: &str, why: impl Into<String>) -> Error {
        mote_generate::Error::event(event, why).into()
    }
}

/// What to do when the rings cannot be mapped, behind the error.
fn mapping_hint(errno: Errno) -> &'static str {
    match errno.0 {
        libc::EMFILE => "; raise the limit of open files (ulimit -n)",
        libc::ENOMEM => "; give smaller --kernel-buffers",
        _ => "",
    }
}

impl From<MakeError> for Error {
    fn from(error: MakeError) -> Error {
        match error {
            MakeError::Geometry(bad) => Error::Geometry(bad),
            MakeError::System(errno) => Error::Map(errno),
        }
    }
}

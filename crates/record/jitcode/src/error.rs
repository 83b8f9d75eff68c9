//! Why code cannot be copied when it becomes executable.

use crate::places::{BYTES, PROCESSES};
use mote_catalog::btf;
use mote_sys::Errno;
use mote_words::{grouped, size};

/// Why code cannot be copied when it becomes executable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not let us, or cannot.
    #[error(transparent)]
    Kernel(#[from] mote_kernel::Error),
    /// The kernel does not describe its types.
    #[error(transparent)]
    Types(#[from] btf::Error),
    /// Processes have other numbers for the kernel's programs than for the recorder.
    #[error(
        "the recorder is in a pid namespace of its own, which the kernel's programs do not see: record from outside"
    )]
    Namespace,
    /// There is no memory for the copies.
    #[error("the kernel gives no {} for copies of code: {errno}; {}", size(BYTES.into()), hint(*.errno))]
    Memory {
        /// The kernel's answer.
        errno: Errno,
    },
    /// No further process can be watched.
    #[error(
        "code of process {pid} cannot be copied when it is made: {}",
        if errno.0 == libc::E2BIG {
            format!(
                "{} processes are watched, which is the most: record fewer (-p), or all (-a)",
                grouped(PROCESSES.into())
            )
        } else {
            format!("the kernel has no memory to watch it: {errno}; {}", hint(*.errno))
        }
    )]
    Watch {
        /// The process.
        pid: i32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// It is not known how many CPUs there may be.
    #[error("cannot read which CPUs are possible (/sys/devices/system/cpu/possible): {0}")]
    Cpus(Errno),
}

impl Error {
    /// That the kernel has refused memory, or the right that it needs.
    pub(crate) fn memory(errno: Errno) -> Error {
        let missing = mote_kernel::privilege::of(errno, "make maps (bpf(2))");
        missing.map_or(Error::Memory { errno }, |missing| mote_kernel::Error::Privilege(missing).into())
    }
}

/// What to do about memory that the kernel does not give: the copies have the same size always.
fn hint(errno: Errno) -> &'static str {
    match errno.0 {
        libc::EPERM => "kernels before 5.11 count it against RLIMIT_MEMLOCK: raise it (ulimit -l unlimited)",
        libc::EMFILE => "raise the limit of open files (ulimit -n)",
        _ => "free some memory, or record without --jit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do_about_copies() {
        let rows = [
            (Error::Memory { errno: Errno(libc::ENOMEM) }, ["16.2 MiB", "without --jit"]),
            (Error::Memory { errno: Errno(libc::EMFILE) }, ["for copies of code", "ulimit -n"]),
            (
                Error::Watch { pid: 7, errno: Errno(libc::E2BIG) },
                ["process 7", "8,192 processes are watched"],
            ),
            (Error::Watch { pid: 7, errno: Errno(libc::ENOMEM) }, ["process 7", "free some memory"]),
        ];
        for (error, parts) in rows {
            let said = error.to_string();
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
            // The buffers of events have nothing to do with it.
            assert!(!said.contains("--kernel-buffers"), "{said}");
        }
    }
}

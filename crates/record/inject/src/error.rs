//! Why a process could not be joined, and what to do.

use mote_sys::Errno;

/// Why a process could not be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It has none of our code.
    #[error("it carries no mote events, or mote may not inspect it (`mote list PID` says which)")]
    NoEvents,
    /// It has our code of another version.
    #[error(
        "it was built with another version of mote: build it again, or start it with `mote record -- CMD`"
    )]
    OtherVersion,
    /// It may not be stopped, or its memory not be written.
    #[error("it cannot be stopped: {0}{hint}", hint = hint(*.0))]
    Forbidden(Errno),
    /// It has a filter of system calls.
    #[error("it is in a sandbox (seccomp) that could kill it for joining")]
    Seccomp,
    /// Another tracer has it.
    #[error("a debugger is attached to it (process {0})")]
    Debugged(i32),
    /// All of it is stopped.
    #[error("it is stopped: let it go on with `kill -CONT {0}`")]
    Stopped(i32),
    /// It has ended.
    #[error("it has ended")]
    Ended,
    /// It is none of a program.
    #[error("it is a thread of the kernel, which runs no program")]
    Kernel,
    /// It has become another program.
    #[error("it has become another program meanwhile (exec): ask again")]
    Replaced,
    /// No thread could be sent.
    #[error("none of its threads waits in a system call that can be interrupted{hint}", hint = why(*.0))]
    NoThread(Busy),
    /// There is nothing that could load a library.
    #[error(
        "mote cannot load its library into it: its C library has no `dlopen` that could (a static program, \
         musl, or glibc before 2.34); calls of its functions can be counted without (`mote functions --count`), \
         and recorded by the kernel (`mote record -k 'uprobe:PROGRAM:FUNCTION'`)"
    )]
    NoLoader,
    /// There is no room for the code.
    #[error("mote cannot load its library into it: no binary in it has room behind its code")]
    NoRoom,
    /// The dynamic linker has refused it.
    #[error("its dynamic linker does not load mote's library: {0}")]
    NotLoaded(String),
    /// Another recorder holds it.
    #[error("another recorder, or another tool, keeps /proc/{0}/mem locked")]
    Locked(i32),
    /// The memory is in use.
    #[error("it is still joining another recording, and does not finish")]
    Occupied,
    /// The thread has been sent, and nothing was heard.
    #[error(
        "it did not answer within {0} s: the thread that mote started in it waits for the program's own code, or \
         for a lock of its dynamic linker or allocator"
    )]
    Silent(u64),
    /// It is in another recording.
    #[error("another recording has it, whose sockets are elsewhere: set XDG_RUNTIME_DIR as for that one")]
    InAnother,
    /// It has answered with an error.
    #[error("it did not join: {0}")]
    Refused(Errno),
    /// The recording ends.
    #[error("the recording has ended before it could join")]
    Over,
    /// The processor lacks what is needed to put a thread's registers back.
    #[error(
        "this processor has no {}, which is needed to put a thread's registers back",
        crate::arch::KEEPS_REGISTERS
    )]
    LosesRegisters,
}

/// What keeps threads from being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// They are in signal handlers.
    pub in_handlers: bool,
    /// They do not stop.
    pub unstoppable: bool,
}

fn why(busy: Busy) -> &'static str {
    match busy {
        Busy { unstoppable: true, .. } => "; one does not stop: it may wait for a disk (`ps -o stat,wchan`)",
        Busy { in_handlers: true, .. } => {
            "; one waits in a signal handler, which may have interrupted anything"
        }
        _ => "",
    }
}

fn hint(why: Errno) -> &'static str {
    match why.0 {
        libc::EPERM | libc::EACCES => {
            "; recording somebody else's process needs root, or kernel.yama.ptrace_scope=0"
        }
        _ => "",
    }
}

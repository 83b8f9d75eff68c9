//! What events cost: restartable sequences, and patching code.

use super::finding::Finding;
use mote_sync::rseq;
use mote_sys::{membarrier, trial};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

/// The C library's registration for restartable sequences.
pub(super) fn rseq() -> Finding {
    const WHAT: &str = "restartable sequences";
    if !rseq::find() {
        return Finding::warn(
            WHAT,
            "the C library has not registered them, so events use the slower atomic writer",
            "use glibc 2.35 or later on Linux 4.18 or later, without glibc.pthread.rseq=0 in GLIBC_TUNABLES",
        );
    }
    match rseq::cpu_hint() {
        Some(cpu) => Finding::ok(WHAT, format!("registered by the C library; this thread is on CPU {cpu}")),
        None => Finding::warn(
            WHAT,
            "the kernel gives no CPU number, so events use the slower atomic writer",
            "do not run under valgrind or another emulator; allow rseq(2) in the sandbox",
        ),
    }
}

/// The barrier that patching needs while other threads run.
pub(super) fn membarrier() -> Finding {
    const WHAT: &str = "membarrier";
    const ADVICE: &str = "use Linux 4.16 or later, and allow membarrier(2) in the sandbox; until then mote records only \
                          programs that it starts, not running ones";
    match membarrier::query() {
        Err(errno) => Finding::warn(WHAT, errno.to_string(), ADVICE),
        Ok(_) if !membarrier::has_sync_core() => Finding::warn(WHAT, "the kernel has no SYNC_CORE", ADVICE),
        Ok(_) => match membarrier::register_sync_core() {
            Ok(()) => Finding::ok(WHAT, "SYNC_CORE, so code is patched while threads run"),
            Err(errno) => Finding::warn(WHAT, format!("SYNC_CORE is refused: {errno}"), ADVICE),
        },
    }
}

/// Whether code can be patched: through `/proc/self/mem`, else by making its page writable.
pub(super) fn text() -> Finding {
    const WHAT: &str = "patching code";
    let through_memory = rewrite_own_code();
    let by_protection = trial::make_text_writable();
    match (through_memory, by_protection) {
        (Ok(()), Ok(())) => Finding::ok(WHAT, "through /proc/self/mem, and with mprotect if need be"),
        (Ok(()), Err(errno)) => Finding::ok(WHAT, format!("through /proc/self/mem (mprotect: {errno})")),
        (Err(error), Ok(())) => Finding::warn(
            WHAT,
            format!("only with mprotect; /proc/self/mem: {error}"),
            "nothing to do if the line 'an event, end to end' is ok; else mount /proc in the sandbox",
        ),
        (Err(error), Err(errno)) => Finding::warn(
            WHAT,
            format!("not possible: /proc/self/mem: {error}; mprotect: {errno}"),
            "build the program with the feature `tested-byte` of the crate mote (C: MOTE_TESTED_BYTE), or allow one of the two",
        ),
    }
}

/// Writes to a function of this program the bytes that are there, as patching would write others.
fn rewrite_own_code() -> io::Result<()> {
    let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
    let at = rewrite_own_code as *const () as usize as u64;
    let mut bytes = [0; 5];
    memory.read_exact_at(&mut bytes, at)?;
    memory.write_all_at(&bytes, at)
}

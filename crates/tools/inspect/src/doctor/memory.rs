//! Where events go: shared memory, descriptors, the disk.

use super::facts::{Capability, has, soft_limit};
use super::finding::Finding;
use mote_sys::{Result, fd::Fd, mem, trial};
use mote_words::size;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The limit of the size of files.
const FILE_SIZE: &str = "Max file size";

/// Sealed shared memory, allocated and mapped.
pub(super) fn memfd() -> Finding {
    const WHAT: &str = "shared memory";
    const BYTES: usize = 1 << 20;
    if let Some(most) = soft_limit(FILE_SIZE).filter(|most| *most < BYTES as u64) {
        // A larger file would end this process by SIGXFSZ.
        let found = format!("files, and so buffers, can be at most {}", size(most));
        return Finding::fail(WHAT, found, "raise the limit (ulimit -f unlimited)");
    }
    let made = || -> Result<Fd> {
        let file = mem::sealed_memfd(c"mote-doctor", BYTES as u64)?;
        mem::allocate(&file, 0, BYTES as u64)?;
        mem::Mapping::shared(&file, BYTES)?;
        Ok(file)
    };
    match made() {
        Ok(file) if mem::cannot_shrink(&file) => Finding::ok(WHAT, "memfd with seals, allocated and mapped"),
        Ok(_) => Finding::fail(WHAT, "a memfd cannot be sealed", "use Linux 3.17 or later"),
        Err(errno) => Finding::fail(
            WHAT,
            format!("no memfd: {errno}"),
            "allow memfd_create(2) in the sandbox, or give more memory",
        ),
    }
}

/// Descriptors for the recorder: some for each CPU and each process.
pub(super) fn open_files() -> Finding {
    const WHAT: &str = "open files";
    const FEW: u64 = 256;
    match soft_limit("Max open files") {
        None => Finding::ok(WHAT, "no limit"),
        Some(most) if most >= FEW => Finding::ok(WHAT, format!("at most {most}")),
        Some(most) => Finding::warn(
            WHAT,
            format!("at most {most}"),
            "raise it (ulimit -n 1024) to record many processes",
        ),
    }
}

/// Memory that may be locked: mote's own buffers are not, but those of perf are.
pub(super) fn locked() -> Finding {
    const WHAT: &str = "locked memory";
    // What perf_event_mlock_kb allows each user besides.
    const FEW: u64 = 516 << 10;
    match soft_limit("Max locked memory") {
        None => Finding::ok(WHAT, "no limit"),
        Some(most) if most >= FEW || has(Capability::IpcLock) => {
            Finding::ok(WHAT, format!("at most {}", size(most)))
        }
        Some(most) => Finding::warn(
            WHAT,
            format!("at most {}", size(most)),
            "for kernel events with large buffers raise it (ulimit -l unlimited); mote's own buffers are not locked",
        ),
    }
}

/// How much memory buffers may take.
pub(super) fn limit() -> Finding {
    const WHAT: &str = "memory limit";
    // What mote record takes without --buffers: 64 MiB a CPU.
    let wanted = u64::from(mote_sys::process::possible_cpus().unwrap_or(1)) * (64 << 20);
    if let Some(most) = soft_limit(FILE_SIZE).filter(|most| *most < wanted) {
        let found = format!("files, and so buffers, can be at most {}", size(most));
        return Finding::warn(WHAT, found, "raise it (ulimit -f unlimited)");
    }
    match mote_memory::group_limit() {
        None => Finding::ok(WHAT, "no limit by a control group"),
        Some((most, _)) if most >= wanted => Finding::ok(WHAT, format!("{} by a control group", size(most))),
        Some((most, group)) => Finding::warn(
            WHAT,
            format!("{} by the control group {}", size(most), group.display()),
            "record with smaller --buffers, or raise memory.max",
        ),
    }
}

/// Room for recordings.
pub(super) fn disk(directory: &Path) -> Finding {
    const WHAT: &str = "free disk";
    const LITTLE: u64 = 1 << 30;
    let path = CString::new(directory.as_os_str().as_bytes()).unwrap_or_default();
    match trial::free_disk_bytes(&path) {
        Ok(free) if free >= LITTLE => Finding::ok(WHAT, format!("{} here", size(free))),
        Ok(free) => Finding::warn(
            WHAT,
            format!("{} here", size(free)),
            "record to another disk (-o DIR), or with --mode overwrite",
        ),
        Err(errno) => {
            Finding::warn(WHAT, format!("{}: {errno}", directory.display()), "choose a directory with -o DIR")
        }
    }
}

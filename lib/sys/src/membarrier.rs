//! membarrier(2): makes every running thread of the process serialise.

use crate::Result;
use crate::raw::syscall;

const CMD_QUERY: usize = 0;
const CMD_GLOBAL: usize = 1;
const CMD_PRIVATE_EXPEDITED: usize = 1 << 3;
const CMD_REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
const CMD_PRIVATE_EXPEDITED_SYNC_CORE: usize = 1 << 5;
const CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE: usize = 1 << 6;

fn membarrier(command: usize) -> Result<usize> {
    // SAFETY: membarrier touches no memory.
    unsafe { syscall(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) }
}

/// The commands that this kernel knows, as the bit mask of membarrier(2).
///
/// # Errors
/// `ENOSYS`.
pub fn query() -> Result<usize> {
    membarrier(CMD_QUERY)
}

/// Returns once every thread of the system has been seen outside of the kernel's sections that cannot be preempted:
/// programs that were running when it was called have ended (Linux 4.3).
///
/// # Errors
/// `EINVAL` on kernels with CPUs that have no tick (`nohz_full`).
pub fn global() -> Result<()> {
    membarrier(CMD_GLOBAL).map(drop)
}

/// True when the kernel can make all cores discard what they prefetched of changed code (4.16).
pub fn has_sync_core() -> bool {
    query().is_ok_and(|commands| commands & CMD_PRIVATE_EXPEDITED_SYNC_CORE != 0)
}

/// Registers the process for [`sync_core`]; needed once, inherited by fork, not by exec.
///
/// # Errors
/// `EINVAL` or `ENOSYS` when the kernel lacks it.
pub fn register_sync_core() -> Result<()> {
    membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE).map(drop)
}

/// Returns once every thread of the process has executed a core-serialising instruction.
///
/// # Errors
/// `EPERM` when [`register_sync_core`] was not called.
///
/// # Cost
/// About 3 us with threads running: an interrupt to each core that runs one.
pub fn sync_core() -> Result<()> {
    membarrier(CMD_PRIVATE_EXPEDITED_SYNC_CORE).map(drop)
}

/// Registers the process for [`fence_all`]; needed once, inherited by fork, not by exec (Linux 4.14).
///
/// # Errors
/// `EINVAL` or `ENOSYS` when the kernel lacks it.
pub fn register_fence_all() -> Result<()> {
    membarrier(CMD_REGISTER_PRIVATE_EXPEDITED).map(drop)
}

/// Returns once every thread of the process has passed a full memory barrier (`PRIVATE_EXPEDITED`).
///
/// # Errors
/// `EPERM` when [`register_fence_all`] was not called.
///
/// # Cost
/// About 0.1 us in a process of one thread, 1 to 3 us with threads running: an interrupt to each core
/// that runs one.
pub fn fence_all() -> Result<()> {
    membarrier(CMD_PRIVATE_EXPEDITED).map(drop)
}

//! The atomics of this crate: `core`'s, or loom's under `--cfg loom`.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

/// Keeps the compiler from moving accesses to memory or hardware over this point.
///
/// Loom has no such thing, and needs none: it runs a thread's operations in program order.
#[inline(always)]
pub(crate) fn compiler_barrier() {
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

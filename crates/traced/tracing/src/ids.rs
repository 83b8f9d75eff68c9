//! Ids of spans that are unique over all threads and processes of a recording.
//!
//! An id is the process's id (22 bits: the kernel's limit) above a count of 42 bits that begins at the time in
//! microseconds: so neither another process, nor a later one that got the same process id, repeats
//! it, as long as a process makes less than a span a microsecond on the average. Threads take counts in blocks.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bits of the count.
const COUNT_BITS: u32 = 42;
/// Ids that a thread takes at once.
const BLOCK: u64 = 64;

/// The next id that no thread has taken; 0 before the first.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// How often this process has been forked off since the first id: a block of a former process is not used.
static FORKS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy)]
struct Block {
    next: u64,
    left: u64,
    forks: u64,
}

thread_local! {
    static MINE: Cell<Block> = const { Cell::new(Block { next: 0, left: 0, forks: 0 }) };
}

/// An id that no other span has; never 0.
///
/// # Cost
/// A few instructions; once in 64 times an atomic addition.
pub(crate) fn next() -> u64 {
    let forks = FORKS.load(Ordering::Relaxed);
    // A thread that is ending has no block any more.
    let mine = MINE.try_with(Cell::get).unwrap_or(Block { next: 0, left: 0, forks });
    let mine = if mine.left > 0 && mine.forks == forks { mine } else { block(forks) };
    let rest = Block { next: mine.next + 1, left: mine.left - 1, forks };
    let _ = MINE.try_with(|cell| cell.set(rest));
    mine.next
}

#[cold]
fn block(forks: u64) -> Block {
    static FORK_HANDLER: Once = Once::new();
    FORK_HANDLER.call_once(|| {
        NEXT.store(first(), Ordering::Relaxed);
        // SAFETY: `forked` may run between fork and exec: it reads a clock and stores two atomics.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    Block { next: NEXT.fetch_add(BLOCK, Ordering::Relaxed), left: BLOCK, forks }
}

/// In a child of fork: other ids than its parent's from now on.
extern "C" fn forked() {
    NEXT.store(first(), Ordering::Relaxed);
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// This process's first id.
fn first() -> u64 {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    u64::from(std::process::id()) << COUNT_BITS | micros & ((1 << COUNT_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Mutex;

    /// Held by each test: a fork in the middle of the other one's work would take its lock along.
    static IDS: Mutex<()> = Mutex::new(());

    #[test]
    fn no_two_threads_have_an_id_in_common() {
        let _alone = IDS.lock().expect("no panic");
        let threads: Vec<_> =
            (0..4).map(|_| std::thread::spawn(|| (0..1000).map(|_| next()).collect::<Vec<_>>())).collect();
        let all: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(all.iter().all(|id| id >> COUNT_BITS == u64::from(std::process::id())));
    }

    #[test]
    fn a_forked_child_has_ids_of_its_own() {
        let _alone = IDS.lock().expect("no panic");
        next();
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [read, write] = ends;
        // SAFETY: the child takes an id, writes it and ends: it allocates nothing, and takes no lock.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let id = next();
            // SAFETY: eight bytes are there.
            unsafe { libc::write(write, (&raw const id).cast(), size_of::<u64>()) };
            // SAFETY: it ends here.
            unsafe { libc::_exit(0) };
        }
        let mut id = 0_u64;
        // SAFETY: there is room for eight bytes.
        let got = unsafe { libc::read(read, (&raw mut id).cast(), size_of::<u64>()) };
        // SAFETY: the status is not asked for.
        unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
        assert_eq!((got, id >> COUNT_BITS), (8, u64::try_from(child).expect("a child")));
        assert_eq!(next() >> COUNT_BITS, u64::from(std::process::id()), "the parent keeps its own");
    }
}

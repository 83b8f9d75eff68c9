//! Waiting for readers: first spinning, then giving way, then sleeping ever longer.
//!
//! Readers wake no thread, so that their exit stays one store. A waiter sleeps at most a millisecond too long.

/// Rounds that only spin.
const SPINS: u32 = 1000;
/// Rounds that then give way to other threads on the CPU.
const YIELDS: u32 = 4;
/// First and longest sleep.
const SLEEP_NS: (u64, u64) = (10_000, 1_000_000);

/// How long a thread has waited, and what it does next.
#[derive(Debug, Default)]
pub struct Patience {
    rounds: u32,
}

impl Patience {
    /// Waits for a moment, longer each time.
    pub fn wait(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        match self.rounds {
            ..SPINS => mote_sync::atomic::spin(),
            SPINS.. if self.rounds < SPINS + YIELDS => mote_sys::thread::give_way(),
            _ => {
                let doublings = (self.rounds - SPINS - YIELDS).min(10);
                // Cut short by a signal, it only looks earlier.
                let _ = mote_sys::time::sleep((SLEEP_NS.0 << doublings).min(SLEEP_NS.1));
            }
        }
    }

    /// True once it has waited so long that the other side may be dead (about a millisecond).
    pub fn is_long(&self) -> bool {
        self.rounds > SPINS + YIELDS + 7
    }
}

//! What is measured side by side: the flavours of RCU, and other ways to share a value that is mostly read.

use mote_reclaim::{
    Expedited, Flavor, General, Library, Qsbr, Rcu, Registered, Retired, Signal, Thread, barrier, library,
};
use mote_sync::Padded;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A shared value, its readers and its updaters.
pub(super) trait Side: Sync + Sized + 'static {
    /// As in the figures' names.
    const NAME: &'static str;
    /// What a thread needs to read.
    type Thread;

    /// Shares a first value.
    fn new() -> Self;
    /// Makes the calling thread a reader.
    fn thread(&self) -> Self::Thread;
    /// Reads `turns` times, and stays for `spins` each time.
    fn reads(&self, thread: &mut Self::Thread, turns: u64, spins: u64) -> u64;
    /// Called between bursts of reads.
    fn rest(_: &mut Self::Thread) {}
    /// Replaces the value; the old one is freed sooner or later.
    fn update(&self, value: u64);
    /// Waits until all old values are freed.
    fn settle() {}
    /// A value that was replaced, and that the updater frees by itself.
    type Old;
    /// Replaces the value, and leaves the old one to [`Side::free`].
    fn replace(&self, value: u64) -> Self::Old;
    /// Frees old values, where there is something to be waited for: after one grace period for all.
    fn free(old: &mut Vec<Self::Old>);
    /// Runs `wait`, in which the thread does not read.
    fn asleep(_: &mut Self::Thread, wait: impl FnOnce()) {
        wait();
    }
    /// Waits for a grace period, if it is that kind of thing.
    fn synchronize(_: &mut Self::Thread) {}
}

/// The loop that all sides measure, around what each makes of one read.
macro_rules! reads {
    (|$own:ident, $thread:ident| $guard:ident = $begin:expr => $value:expr) => {
        #[inline(never)]
        fn reads(&self, $thread: &mut Self::Thread, turns: u64, spins: u64) -> u64 {
            let $own = self;
            let mut sum = 0u64;
            if spins == 0 {
                for _ in 0..turns {
                    let $guard = $begin;
                    sum = sum.wrapping_add($value);
                }
            } else {
                for _ in 0..turns {
                    let $guard = $begin;
                    sum = sum.wrapping_add($value);
                    (0..spins).for_each(|_| spin_loop());
                }
            }
            sum
        }
    };
}

/// A flavour whose threads register.
pub(super) struct Marked<F: Flavor>(Rcu<u64, F>);

macro_rules! marked {
    ($flavor:ty, $name:literal, $rest:expr, $asleep:expr, $synchronize:expr) => {
        impl Side for Marked<$flavor> {
            const NAME: &'static str = $name;
            type Thread = Thread<$flavor>;

            fn new() -> Self {
                Marked(Rcu::new(1))
            }
            fn thread(&self) -> Thread<$flavor> {
                registered()
            }
            reads!(|own, thread| guard = thread.read() => *own.0.dereference(&guard));
            fn rest(thread: &mut Thread<$flavor>) {
                $rest(thread);
            }
            fn update(&self, value: u64) {
                self.0.assign(value);
            }
            fn settle() {
                barrier::<$flavor>();
            }
            type Old = Retired<u64, $flavor>;
            fn replace(&self, value: u64) -> Self::Old {
                self.0.swap(value)
            }
            fn free(old: &mut Vec<Self::Old>) {
                Retired::synchronize_all(old).for_each(drop);
            }
            fn asleep(thread: &mut Thread<$flavor>, wait: impl FnOnce()) {
                $asleep(thread, wait);
            }
            fn synchronize(thread: &mut Thread<$flavor>) {
                $synchronize(thread);
            }
        }
    };
}
marked!(Qsbr, "qsbr", Thread::<Qsbr>::quiescent, Thread::<Qsbr>::offline, Thread::<Qsbr>::synchronize);
marked!(General, "general", ignore, just_wait, |_| mote_reclaim::synchronize::<General>());
marked!(Expedited, "expedited", ignore, just_wait, |_| mote_reclaim::synchronize::<Expedited>());
marked!(Signal, "signal", ignore, just_wait, |_| mote_reclaim::synchronize::<Signal>());

fn ignore<T>(_: &mut T) {}

fn just_wait<T>(_: &mut T, wait: impl FnOnce()) {
    wait();
}

fn registered<F: Registered>() -> Thread<F> {
    match Thread::register() {
        Ok(thread) => thread,
        Err(why) => panic!("{why}"),
    }
}

/// The flavour whose threads do not register.
pub(super) struct Unmarked(Rcu<u64, Library>);

impl Side for Unmarked {
    const NAME: &'static str = "library";
    type Thread = ();

    fn new() -> Self {
        Unmarked(Rcu::new(1))
    }
    fn thread(&self) {}
    reads!(|own, _thread| guard = library::read() => *own.0.dereference(&guard));
    fn update(&self, value: u64) {
        self.0.assign(value);
    }
    fn settle() {
        barrier::<Library>();
    }
    type Old = Retired<u64, Library>;
    fn replace(&self, value: u64) -> Self::Old {
        self.0.swap(value)
    }
    fn free(old: &mut Vec<Self::Old>) {
        Retired::synchronize_all(old).for_each(drop);
    }
    fn synchronize((): &mut ()) {
        mote_reclaim::synchronize::<Library>();
    }
}

/// Sides without state of a thread. All of them make a new box for a new value, as those with grace periods must.
macro_rules! plain {
    ($side:ident($shared:ty), $name:literal, $new:expr, |$own:ident| $guard:ident = $begin:expr => $value:expr,
     |$this:ident, $new_value:ident| $update:expr) => {
        pub(super) struct $side($shared);

        impl Side for $side {
            const NAME: &'static str = $name;
            type Thread = ();

            fn new() -> Self {
                $side($new)
            }
            fn thread(&self) {}
            reads!(|$own, _thread| $guard = $begin => $value);
            fn update(&self, $new_value: u64) {
                let $this = self;
                $update;
            }
            type Old = ();
            fn replace(&self, value: u64) {
                self.update(value);
            }
            fn free(old: &mut Vec<()>) {
                old.clear();
            }
        }
    };
}

plain!(
    StdRwLock(RwLock<Box<u64>>), "std RwLock", RwLock::new(Box::new(1)),
    |own| guard = own.0.read().unwrap_or_else(PoisonError::into_inner) => **guard,
    |own, value| drop(std::mem::replace(&mut *own.0.write().unwrap_or_else(PoisonError::into_inner), Box::new(value)))
);
plain!(
    StdMutex(Mutex<Box<u64>>), "std Mutex", Mutex::new(Box::new(1)),
    |own| guard = own.0.lock().unwrap_or_else(PoisonError::into_inner) => **guard,
    |own, value| drop(std::mem::replace(&mut *own.0.lock().unwrap_or_else(PoisonError::into_inner), Box::new(value)))
);
plain!(
    ParkingLot(parking_lot::RwLock<Box<u64>>), "parking_lot RwLock", parking_lot::RwLock::new(Box::new(1)),
    |own| guard = own.0.read() => **guard,
    |own, value| drop(std::mem::replace(&mut *own.0.write(), Box::new(value)))
);
plain!(
    Swap(arc_swap::ArcSwap<u64>), "arc-swap", arc_swap::ArcSwap::from_pointee(1),
    |own| guard = own.0.load() => **guard,
    |own, value| own.0.store(Arc::new(value))
);

/// Values freed by epochs.
pub(super) struct Epoch(crossbeam_epoch::Atomic<u64>);

#[allow(unsafe_code, reason = "crossbeam-epoch's pointers are dereferenced by hand")]
impl Side for Epoch {
    const NAME: &'static str = "crossbeam-epoch";
    type Thread = ();

    fn new() -> Self {
        Epoch(crossbeam_epoch::Atomic::new(1))
    }
    fn thread(&self) {}
    reads!(|own, _thread| guard = crossbeam_epoch::pin() => {
        let current = own.0.load(Ordering::Acquire, &guard);
        // SAFETY: never null, and freed only by `update`, an epoch later.
        unsafe { *current.deref() }
    });
    fn update(&self, value: u64) {
        let guard = crossbeam_epoch::pin();
        let old = self.0.swap(crossbeam_epoch::Owned::new(value), Ordering::AcqRel, &guard);
        // SAFETY: no longer reachable.
        unsafe { guard.defer_destroy(old) };
    }
    type Old = ();
    fn replace(&self, value: u64) {
        self.update(value);
    }
    fn free(old: &mut Vec<()>) {
        old.clear();
    }
}

/// A lock for each thread, of which an updater takes all.
pub(super) struct PerThread {
    locks: [Padded<Mutex<u64>>; PLACES],
    next: AtomicUsize,
}

/// More than a benchmark has threads.
const PLACES: usize = 16;

impl Side for PerThread {
    const NAME: &'static str = "Mutex per thread";
    type Thread = usize;

    fn new() -> Self {
        PerThread { locks: [const { Padded(Mutex::new(1)) }; PLACES], next: AtomicUsize::new(0) }
    }
    fn thread(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % PLACES
    }
    reads!(|own, thread| guard = own.locks[*thread].lock().unwrap_or_else(PoisonError::into_inner) => *guard);
    fn update(&self, value: u64) {
        let mut guards =
            self.locks.each_ref().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        guards.iter_mut().for_each(|guard| **guard = value);
    }
    type Old = ();
    fn replace(&self, value: u64) {
        self.update(value);
    }
    fn free(old: &mut Vec<()>) {
        old.clear();
    }
}

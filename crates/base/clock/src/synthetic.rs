//! A 64-bit clock out of a narrow running counter: the synthetic clock of LTTng.
//!
//! M. Desnoyers, *Low-impact operating system tracing*, 2009, section 4.6.3, figures 4.4 and 4.5.
//! An update keeps the last full value in one of two slots and flips a parity to publish it; a
//! read takes the published value, reads the counter, and extends it. x86-64 does not need this
//! for its TSC; HPETs, ACPI timers and other CPUs' counters do.
//!
//! # Parties
//! - Readers: any number, on any CPU, in any context, also a signal handler that interrupts an
//!   update or another read.
//! - Updater: one at a time per instance, a timer. An update inside another one (a handler that
//!   interrupts it) or beside it leaves a base that is older by as much as the outer one took, but
//!   still right: `D` below then includes that time.
//!
//! An instance belongs to one counter: one for the machine, or one per CPU where the CPUs' counters
//! differ. It has a cache line of its own, so that an array of them does not share lines.
//!
//! # State words
//! `generation`: number of updates so far; its lowest bit is the parity, the slot to read.
//! `slots`: full values. The slot of the other parity is the updater's alone until it publishes.
//! The thesis keeps only the parity; the full count lets a reader see that an update overtook it.
//!
//! # Orderings
//! A. *Base before generation.* The update stores its slot before it publishes the generation
//!    (release); a reader loads the generation (acquire) before it loads the slot. So the base is
//!    at least as new as the generation. It may be newer, when the updater has gone twice around
//!    meanwhile: it is then one whole 64-bit value of a later update, and right too.
//! B. *Base, counter, generation.* [`Synthetic::read`] reads the counter after it has the base
//!    and before it looks at the generation again. Barriers on both sides of the counter hold
//!    the compiler to that (the thesis's `barrier()`). A CPU may still run ahead with the second
//!    look, or with the counter, by the length of its pipeline; not over a preemption, which
//!    empties it. The conditions below have room for that, because a base that is *newer* than
//!    the counter is handled too: distances are signed.
//!
//! # When it is right
//! Let `W = 2^BITS` ticks be the wrap. A read extends the counter to the value *nearest* to its
//! base. It is exact if the counter was read less than `W / 2` after (or before) the base was.
//! Let
//! - `P` be the longest time from an update's reading of the counter to the moment when the *next*
//!   update is published;
//! - `D` the longest time that a reader spends between its first look at the generation and the
//!   counter (or an updater in an update), preemption included.
//!
//! Then the base of a read is at most `P + D` old, and the exact conditions are
//!
//! | operation | condition |
//! |---|---|
//! | [`Synthetic::read_bounded`] | `P + D < W / 2` |
//! | [`Synthetic::read`] | `P < W / 2` |
//! | [`Synthetic::update`] | `P < W / 2` |
//!
//! So `update` must run *more often than once in half a wrap*, the delay of its timer included. The
//! thesis is content with once per wrap (`P + D < W`), because it extends forwards only; the same
//! section shows what that costs: a counter that seems to step back by one tick next to an
//! overflow (out-of-order execution, two CPUs' counters a little apart) makes time jump ahead by
//! a whole wrap. It proposes to spend one bit on telling the two apart, which is what is done here.
//!
//! The thesis bounds `D` by disabling preemption. A process cannot, but a restartable sequence
//! does better: preemption starts it anew, so inside one [`Synthetic::read_bounded`] has a `D` of a
//! few instructions. Elsewhere [`Synthetic::read`] looks at the generation again: when it has not
//! changed, the next update was not yet published, hence the base was at most `P` old, however
//! long the reader was away. When it has, it starts anew.
//!
//! # Progress
//! `update`, `read_bounded`: wait-free. `read`: one more round for each update published while it
//! ran, that is one more at most unless it was preempted; it never waits for an updater that stopped
//! half way, so a handler that interrupts an update, whose own thread cannot publish meanwhile,
//! ends in one round (unlike a seqlock, where it would wait for ever).
//!
//! # Signals, fork, exec
//! All operations are async-signal-safe. After a `fork` the child's copy must be updated by the
//! child.

use crate::atomic::{AtomicU64, Ordering, compiler_barrier};

/// A 64-bit clock out of a counter with `BITS` bits, 16 to 63.
///
/// The counter is passed to each operation, since how it is read differs (an instruction, a load
/// from a mapped device). It is called once per round and may return junk above its `BITS` bits.
#[derive(Debug)]
#[repr(align(64))]
pub struct Synthetic<const BITS: u32> {
    generation: AtomicU64,
    slots: [AtomicU64; 2],
}

impl<const BITS: u32> Synthetic<BITS> {
    const MASK: u64 = {
        assert!(BITS >= 16 && BITS <= 63, "a counter of 16 to 63 bits");
        (1 << BITS) - 1
    };

    /// A clock that reads `now` at this moment.
    ///
    /// The low `BITS` bits of `now` must be those of the counter, read less than half a wrap ago;
    /// the bits above are free to choose, the time since boot for example.
    #[cfg(not(loom))]
    pub const fn new(now: u64) -> Synthetic<BITS> {
        Synthetic { generation: AtomicU64::new(0), slots: [AtomicU64::new(now), AtomicU64::new(now)] }
    }

    /// The same; loom's atomics cannot be made in a constant.
    #[cfg(loom)]
    pub fn new(now: u64) -> Synthetic<BITS> {
        Synthetic { generation: AtomicU64::new(0), slots: [AtomicU64::new(now), AtomicU64::new(now)] }
    }

    /// Reads the clock where the reader cannot be preempted for long: figure 4.4.
    ///
    /// Exact while `P + D < W / 2`, see the module.
    ///
    /// # Cost
    /// Two loads, a few register operations, and the counter.
    /// # Signal safety
    /// Callable from a handler, also from one that interrupted `update`.
    #[inline]
    pub fn read_bounded(&self, counter: impl FnOnce() -> u64) -> u64 {
        let base = self.base(self.generation());
        Self::extend(base, counter)
    }

    /// Reads the clock in a context that may be preempted for any time.
    ///
    /// Exact while `P < W / 2`, see the module.
    ///
    /// # Cost
    /// One load more than [`Synthetic::read_bounded`]; a second round when an update overtook it.
    /// # Signal safety
    /// Callable from a handler, also from one that interrupted `update`.
    #[inline]
    pub fn read(&self, mut counter: impl FnMut() -> u64) -> u64 {
        let mut generation = self.generation();
        loop {
            let now = Self::extend(self.base(generation), &mut counter);
            match self.generation() {
                same if same == generation => return now,
                newer => generation = newer,
            }
        }
    }

    /// Moves the base on to now, and returns it: figure 4.5.
    ///
    /// Must run more often than once in half a wrap, by one updater at a time; see the module.
    ///
    /// # Signal safety
    /// Callable from a handler; see the module about one that interrupts an update.
    pub fn update(&self, counter: impl FnOnce() -> u64) -> u64 {
        let generation = self.generation();
        let now = Self::extend(self.base(generation), counter);
        let next = generation.wrapping_add(1);
        self.slot(next).store(now, Ordering::Relaxed);
        // A: `now` is in its slot before the parity points to it.
        self.generation.store(next, Ordering::Release);
        now
    }

    /// How many updates were published, modulo 2^64.
    #[inline]
    fn generation(&self) -> u64 {
        // A: what the update stored before it published this generation is seen from here on.
        self.generation.load(Ordering::Acquire)
    }

    #[inline]
    fn base(&self, generation: u64) -> u64 {
        // B: acquire, so that the second look at the generation stays behind it on any CPU.
        self.slot(generation).load(Ordering::Acquire)
    }

    #[inline]
    fn slot(&self, generation: u64) -> &AtomicU64 {
        let [even, odd] = &self.slots;
        if generation & 1 == 1 { odd } else { even }
    }

    /// Reads the counter, and extends it to the value nearest to `base`.
    ///
    /// In arithmetic modulo 2^64, unlike [`near`](crate::extend::near): no branch, and the clock
    /// itself may wrap.
    #[inline]
    fn extend(base: u64, counter: impl FnOnce() -> u64) -> u64 {
        // B: `base` was loaded before, the generation is looked at after.
        compiler_barrier();
        let counter = counter();
        compiler_barrier();
        // The distance, moved to the top of the word and back to spread its sign.
        let unused = u64::BITS - BITS;
        let distance = ((counter & Self::MASK).wrapping_sub(base) << unused) as i64 >> unused;
        base.wrapping_add_signed(distance)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn reads_follow_the_counter_over_many_wraps() {
        let clock = Synthetic::<16>::new(0xffff_0000);
        let mut truth = 0xffff_0000_u64;
        for step in (0..0x8000).step_by(7) {
            truth += step;
            assert_eq!(clock.read(|| truth), truth);
            assert_eq!(clock.read_bounded(|| truth & 0xffff), truth);
            assert_eq!(clock.update(|| truth), truth);
        }
        assert!(truth > 0xffff_0000 + 100 * 0x1_0000);
    }

    #[test]
    fn exact_within_half_a_wrap_and_not_beyond() {
        let clock = Synthetic::<20>::new(1 << 40);
        let half = 1 << 19;
        for distance in [0, 1, half - 1] {
            assert_eq!(clock.read(|| distance), (1 << 40) + distance);
        }
        assert_eq!(clock.read(|| half), (1 << 40) - half, "the condition is exact");
    }

    #[test]
    fn a_counter_that_steps_back_at_an_overflow_does_not_jump() {
        let clock = Synthetic::<32>::new(5 << 32);
        assert_eq!(clock.read(|| 0xffff_ffff), (5 << 32) - 1);
    }

    #[test]
    fn the_clock_itself_wraps() {
        let clock = Synthetic::<63>::new(u64::MAX);
        assert_eq!(clock.update(|| 4), 4);
        assert_eq!(clock.read(|| 5), 5);
    }

    #[test]
    fn an_update_overtaking_a_read_restarts_it() {
        let clock = Synthetic::<16>::new(0);
        let mut rounds = 0;
        let mut truth = 0;
        // The reader goes to sleep before it reads the counter; the clock goes on for 20 wraps.
        let seen = clock.read(|| {
            rounds += 1;
            while rounds == 1 && truth < 20 << 16 {
                truth += 0x7fff;
                clock.update(|| truth);
            }
            truth
        });
        assert_eq!((seen, rounds), (truth, 2));
    }

    #[test]
    fn a_read_inside_an_update_sees_the_value_before() {
        let clock = Synthetic::<16>::new(0x7_0000);
        clock.update(|| {
            let mut rounds = 0;
            let nested = clock.read(|| {
                rounds += 1;
                0x7_0123
            });
            assert_eq!((nested, rounds), (0x7_0123, 1));
            0x7_0100
        });
        assert_eq!(clock.read(|| 0x124), 0x7_0124);
    }
}

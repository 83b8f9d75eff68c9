//! In which callers each thread is: for functions of which calls are wanted below these only.
//!
//! A thread has two words: the sets of callers of which it is in one, each a bit, and where on the stack the return
//! address of the innermost of these calls is. A call of a caller has a slot (`stack`), and what it has changed in the
//! words lies beside that. So calls that never return, by an exception or by longjmp, are noticed as all others: when a
//! call begins at their place of the stack or above. The code of functions that are only counted has no slots, and
//! looks at the place by itself.
//!
//! # Handlers
//! A handler that begins calls leaves both words as they were. The words change while the thread works on its calls,
//! when calls of handlers have no slot.

use crate::values::Inside;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use mote_agent::{Callers, Function};
use mote_layout::functions::{Probe, Scope};
use mote_sync::{define_word, load_word, store_word};

define_word!("mote_function_callers", "8");
define_word!("mote_function_caller_place", "8");

/// The numbers of sets of callers, by their bits; 0 for one that is free.
static SETS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// From where on a free one is looked for: one that was given back is used as late as may be, as the word of a thread
/// may still have its bit whose call of a caller has ended on another thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The bit of the set with a number, 0 for the number 0; `None` when there are too many.
pub(crate) fn bit(number: u64) -> Option<u64> {
    if number == 0 {
        return Some(0);
    }
    if let Some(bit) = SETS.iter().position(|set| set.load(Ordering::Acquire) == number) {
        return Some(1 << bit);
    }
    let first = NEXT.load(Ordering::Relaxed);
    let mut places = (first..SETS.len()).chain(0..first);
    let take = |place: &usize| {
        let set = SETS.get(*place);
        set.is_some_and(|set| set.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire).is_ok())
    };
    let bit = places.find(take)?;
    NEXT.store((bit + 1) % SETS.len(), Ordering::Relaxed);
    Some(1 << bit)
}

/// The set has no functions any more: its bit is free.
pub(crate) fn forget(number: u64) {
    let set = SETS.iter().find(|set| number != 0 && set.load(Ordering::Relaxed) == number);
    set.into_iter().for_each(|set| set.store(0, Ordering::Release));
}

/// What calls of a probe's function have to do with the callers of its plan, whose bit this is.
pub(crate) fn of(probe: &Probe, bit: u64) -> Callers {
    match probe.scope {
        Scope::Anywhere => Callers::default(),
        Scope::Below => Callers { below: bit, of: 0 },
        Scope::Caller => Callers { below: 0, of: bit },
    }
}

/// Whether a call that begins now in the calling thread is wanted.
pub(crate) fn are_around(function: &Function) -> bool {
    let below = function.callers.below;
    below == 0 || below & load_word!("mote_function_callers") != 0
}

/// A call of a caller begins, whose return address is at `place`. Returns what it changes.
pub(crate) fn begin(function: &Function, place: usize) -> Inside {
    let sets = load_word!("mote_function_callers");
    let around = load_word!("mote_function_caller_place") as usize;
    store_word!("mote_function_caller_place", place as u64);
    store_word!("mote_function_callers", sets | function.callers.of);
    Inside { sets: function.callers.of & !sets, place, around }
}

/// A call of a caller has ended, which has changed this.
pub(crate) fn end(Inside { sets, place, around }: Inside) {
    store_word!("mote_function_callers", load_word!("mote_function_callers") & !sets);
    // Calls of several contexts end in any order.
    if load_word!("mote_function_caller_place") as usize == place {
        store_word!("mote_function_caller_place", around as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_bit_of_its_own() {
        assert_eq!(bit(0), Some(0));
        let all = (1..=64).filter_map(bit).fold(0, |sets, bit| sets | bit);
        assert_eq!((all, bit(65)), (u64::MAX, None));
        assert_eq!(bit(7), bit(7));
        assert_ne!(bit(7), bit(8));
        let was = bit(7);
        forget(7);
        forget(0);
        assert_eq!((bit(65), bit(66)), (was, None));
    }
}

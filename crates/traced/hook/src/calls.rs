//! What becomes of a call that begins or ends, where the code in `arch` does not do it alone.

use crate::arch::Kept;
use crate::stack::{self, Calls, Slot};
use crate::values;
use core::sync::atomic::{AtomicU64, Ordering};
use mote_agent::Function;
use mote_sys::tsc;
use probe::Field;

type General = crate::arch::General;
type Vectors = crate::arch::Vectors;

/// A tick's nanoseconds, in units of 2^-32.
static TICK: AtomicU64 = AtomicU64::new(0);

/// Notes a tick's nanoseconds.
pub(crate) fn set_tick(tick: u64) {
    TICK.store(tick, Ordering::Relaxed);
}

fn nanoseconds(ticks: u64) -> u64 {
    let product = u128::from(ticks) * u128::from(TICK.load(Ordering::Relaxed));
    (product >> 32) as u64
}

/// A call begins whose slot the code could not take by itself: it is the thread's first one, its region is used up, or
/// calls before it have ended without returning. Returns the slot, not filled yet; 0 when there is none, and it is not
/// noted: also where a function only jumps back to its begin.
pub(crate) extern "C" fn begin(
    place: usize,
    function: &'static Function,
    general: *const General,
    vectors: *const Vectors,
) -> usize {
    let Some(mut calls) = Calls::take() else { return 0 };
    give_up(&mut calls, place, 0);
    if calls.goes_on(place, function) {
        return 0;
    }
    let Some(slot) = calls.push() else { return 0 };
    let slot = slot.as_ptr().expose_provenance();
    if !function.values.is_empty() {
        let Some(packed) = stack::values_of(slot) else {
            calls.free(slot);
            return 0;
        };
        // SAFETY: what the code hands over.
        let kept = unsafe { Kept::new(general, vectors) };
        values::begin(function.values, &|origin| kept.word(origin), packed);
    }
    slot
}

/// Records a call that began at `began` and ends now, if its event has no values and no filter, and goes to one
/// session. False when that could not be done so.
///
/// It uses no vector registers: the code that calls it keeps none of them.
pub(crate) extern "C" fn record(function: &'static Function, began: u64) -> bool {
    let tick = TICK.load(Ordering::Relaxed);
    if !function.values.is_empty() {
        return false;
    }
    function.event.direct().is_some_and(|to| to.write_elapsed(began, tick))
}

/// Ends the call of `slot`, and records it: by the general way, or after calls that have not returned.
pub(crate) extern "C" fn end(slot: *const Slot, _: usize, general: *const General, vectors: *const Vectors) {
    // SAFETY: `slot-filled`.
    let call = unsafe { slot.read_volatile() };
    let slot = slot.expose_provenance();
    let Some(mut calls) = Calls::take() else { return stack::leave_hole(slot) };
    give_up(&mut calls, call.place, slot);
    // SAFETY: what the code hands over.
    record_generally(slot, &call, Some(unsafe { Kept::new(general, vectors) }));
    calls.free(slot);
}

/// Those that an exception or longjmp has ended are recorded when that is noticed.
fn give_up(calls: &mut Calls, place: usize, until: usize) {
    calls.give_up(place, until, |slot, call| record_generally(slot, call, None));
}

/// Records the call of `slot`, which has returned with these registers, or not at all.
fn record_generally(slot: usize, call: &Slot, kept: Option<Kept<'_>>) {
    // SAFETY: `slot-filled` and `records-stay`.
    let function = unsafe { &*call.function };
    let now = tsc::read().unwrap_or(call.began);
    let duration = nanoseconds(now.saturating_sub(call.began));
    if function.values.is_empty() {
        return probe::emit(&function.event, (Field::ready(duration), ()));
    }
    if let Some(packed) = stack::values_of(slot) {
        match kept {
            Some(kept) => values::end(function, Some(&|origin| kept.word(origin)), duration, packed),
            None => values::end(function, None, duration, packed),
        }
    }
}

//! What becomes of a call that begins or ends, where the code in `arch` does not do it alone.

use crate::arch::Kept;
use crate::counters::{self, Reading, Thread};
use crate::stack::{self, Calls, Slot};
use crate::{budget, callers, counts, known, ticks, values};
use core::sync::atomic::AtomicPtr;
use mote_agent::Function;
use mote_agent::stack::Here;
use mote_sys::tsc;
use probe::{__private as private, Field};

type General = crate::arch::General;
type Vectors = crate::arch::Vectors;

/// A call begins whose slot the code could not take by itself: it is the thread's first one, its region is used up, or
/// calls before it have ended without returning. Returns the slot, not filled yet; 0 when there is none, and it is not
/// noted: also where a function only jumps back to its begin; [`LEFT_OUT`] where that call is not wanted.
pub(crate) extern "C" fn begin(
    place: usize,
    function: &'static Function,
    general: *const General,
    vectors: *const Vectors,
) -> usize {
    let Some(mut calls) = Calls::take() else { return 0 };
    let is_sampled = values::is_sampled(function.values);
    let timing = is_sampled.then(budget::Timing::begin);
    give_up(&mut calls, place, 0);
    if !callers::are_around(function) {
        return LEFT_OUT;
    }
    if function.callers.of != 0 && counts::of(function.values).is_some() {
        counts::began(function);
    }
    if calls.goes_on(place, function) {
        return 0;
    }
    // SAFETY: the return address of the function that begins.
    let to = unsafe { (place as *const usize).read_volatile() };
    // A stub stands there where a function with a slot has jumped to this one.
    if !known::may_return(function, to) && !stack::is_in_stubs(to) {
        return LEFT_OUT;
    }
    let Some(slot) = calls.push() else { return 0 };
    let slot = slot.as_ptr().expose_provenance();
    if function.callers.of != 0 {
        let Some(packed) = stack::values_of(slot) else {
            calls.free(slot);
            return 0;
        };
        packed.inside = callers::begin(function, place);
    }
    if values::is_packed(function.values) {
        let Some(packed) = stack::values_of(slot) else {
            calls.free(slot);
            return 0;
        };
        // SAFETY: what the code hands over.
        let kept = unsafe { Kept::new(general, vectors) };
        values::begin(function.values, &|origin| kept.word(origin), packed);
        if is_sampled {
            let Some(sample) = budget::take(function) else {
                leave(function, slot);
                calls.free(slot);
                return 0;
            };
            packed.sample = sample;
            packed.sample.caller = calls.caller(place);
            let state = calls.counters();
            packed.sample.before = state.map_or_else(Reading::default, counters::read);
            timing.into_iter().for_each(|timing| timing.end(state));
            state.into_iter().for_each(|state| packed.sample.before.without_overhead_until_now(state));
        }
    }
    slot
}

/// What [`begin`] returns of a call that is neither recorded nor counted. The code in `arch` knows it.
pub(crate) const LEFT_OUT: usize = 1;

/// A call begins inside of a caller's, as it seems: but at the same place of the stack, or above. Returns whether it is
/// wanted all the same, when callers that have ended without returning are given up.
pub(crate) extern "C" fn is_wanted(
    place: usize,
    function: &'static Function,
    _: *const General,
    _: *const Vectors,
) -> bool {
    let Some(mut calls) = Calls::take() else { return false };
    give_up(&mut calls, place, 0);
    callers::are_around(function)
}

/// Records a call that began at `began` and ends now, if its event has no values and no filter, and goes to one
/// session. False when that could not be done so.
///
/// It uses no vector registers: the code that calls it keeps none of them.
pub(crate) extern "C" fn record(function: &'static Function, began: u64) -> bool {
    let tick = ticks::tick();
    if !function.values.is_empty() {
        return false;
    }
    function.event.direct().is_some_and(|to| to.write_elapsed(began, tick))
}

/// Ends the call of `slot`, and records it: by the general way, or after calls that have not returned. `frame` is the
/// frame pointer.
pub(crate) extern "C" fn end(
    slot: *const Slot,
    _: usize,
    general: *const General,
    vectors: *const Vectors,
    frame: usize,
) {
    // SAFETY: `slot-filled`.
    let call = unsafe { slot.read_volatile() };
    let slot = slot.expose_provenance();
    // SAFETY: `slot-filled` and `records-stay`.
    let function = unsafe { &*call.function };
    let Some(mut calls) = Calls::take() else {
        leave(function, slot);
        return stack::leave_hole(slot);
    };
    let is_sampled = values::is_sampled(function.values);
    let timing = is_sampled.then(budget::Timing::begin);
    give_up(&mut calls, call.place, slot);
    // SAFETY: what the code hands over.
    record_generally(slot, &call, Some((unsafe { Kept::new(general, vectors) }, frame)), calls.counters());
    calls.free(slot);
    timing.into_iter().for_each(|timing| timing.end(calls.counters()));
}

/// A call has ended, whose slot this is: its thread is no longer inside of it, if it is one of a caller.
fn leave(function: &Function, slot: usize) {
    if function.callers.of != 0
        && let Some(packed) = stack::values_of(slot)
    {
        callers::end(packed.inside);
    }
}

/// Those that an exception or longjmp has ended are recorded when that is noticed.
fn give_up(calls: &mut Calls, place: usize, until: usize) {
    let state = calls.counters();
    calls.give_up(place, until, |slot, call| record_generally(slot, call, None, state));
}

/// Records or counts the call of `slot`, which has returned with these registers and this frame pointer, or not at all.
/// What the thread counts is in `state`.
fn record_generally(
    slot: usize,
    call: &Slot,
    returned: Option<(Kept<'_>, usize)>,
    state: Option<&AtomicPtr<Thread>>,
) {
    // SAFETY: `slot-filled` and `records-stay`.
    let function = unsafe { &*call.function };
    leave(function, slot);
    if let Some(counted) = counts::of(function.values) {
        return counts::ended(function, counted);
    }
    let now = tsc::read().unwrap_or(call.began);
    let duration = ticks::nanoseconds(now.saturating_sub(call.began));
    if function.values.is_empty() {
        let fields = (Field::ready(duration), ());
        return match function.event.has_stack() {
            true => private::emit_from(fields, &function.event, here(slot, call, returned)),
            false => probe::emit(&function.event, fields),
        };
    }
    let now =
        values::is_sampled(function.values).then(|| state.map_or_else(Reading::default, counters::read));
    let Some(packed) = stack::values_of(slot) else { return };
    let record = |packed| match returned {
        Some((kept, _)) => values::end(function, Some(&|origin| kept.word(origin)), duration, now, packed),
        None => values::end(function, None, duration, now, packed),
    };
    match function.event.has_stack() {
        true => here(slot, call, returned).have(|| record(packed)),
        false => record(packed),
    }
}

/// Where the call of `slot` has returned to.
fn here(slot: usize, call: &Slot, returned: Option<(Kept<'_>, usize)>) -> Here {
    // SAFETY: `slot-filled` and `records-stay`.
    let function = unsafe { &*call.function }.address;
    let registers = returned.map_or([0; 3], |(_, frame)| {
        [frame, call.place.wrapping_add(size_of::<usize>()), stack::real_return(slot, call)]
    });
    Here::behind(function, registers, slot)
}

//! What becomes of a call that begins or ends, where the code in `arch` does not do it alone.

use crate::stack::{self, Calls, Slot};
use core::sync::atomic::{AtomicU64, Ordering};
use mote_agent::Function;
use mote_sys::tsc;
use probe::Field;

/// How many nanoseconds a tick is: a multiplier, and above it by how many bits the product is shifted.
static CLOCK: AtomicU64 = AtomicU64::new(1);

/// Notes how ticks become nanoseconds: `ticks * multiplier >> shift`.
pub(crate) fn set_clock(multiplier: u32, shift: u32) {
    CLOCK.store(u64::from(multiplier) | u64::from(shift) << 32, Ordering::Relaxed);
}

fn nanoseconds(ticks: u64) -> u64 {
    let clock = CLOCK.load(Ordering::Relaxed);
    let product = u128::from(ticks) * u128::from(clock as u32);
    (product >> (clock >> 32 & 63)) as u64
}

/// A call begins whose slot the code could not take by itself: it is the thread's first one, its region is used up, or
/// calls before it have ended without returning. Returns the slot, not filled yet; 0 when there is none, and it is not
/// noted: also where a function only jumps back to its begin.
pub(crate) extern "C" fn begin(place: usize, function: *const Function) -> usize {
    let Some(mut calls) = Calls::take() else { return 0 };
    give_up(&mut calls, place, 0);
    if calls.goes_on(place, function) {
        return 0;
    }
    calls.push().map_or(0, |slot| slot.as_ptr().expose_provenance())
}

/// Records a call that has taken `ticks`, if its event has no filter and goes to one session. False when that could not
/// be done so.
///
/// It uses no vector registers: the code that calls it keeps none of them.
pub(crate) extern "C" fn record(function: &'static Function, ticks: u64) -> bool {
    match function.event.direct() {
        // SAFETY: 8 bytes are no more than 16.
        Some(to) => unsafe { to.write_packed(nanoseconds(ticks), 0, size_of::<u64>()) },
        None => false,
    }
}

/// Ends the call of `slot`, and records that it took `ticks`: by the general way, or after calls that have not returned.
pub(crate) extern "C" fn end(slot: *const Slot, ticks: u64) {
    // SAFETY: `slot-filled`.
    let call = unsafe { slot.read_volatile() };
    let slot = slot.expose_provenance();
    let Some(mut calls) = Calls::take() else { return stack::leave_hole(slot) };
    give_up(&mut calls, call.place, slot);
    record_generally(&call, ticks);
    calls.free(slot);
}

/// Those that an exception or longjmp has ended are recorded when that is noticed.
fn give_up(calls: &mut Calls, place: usize, until: usize) {
    calls.give_up(place, until, |call| {
        let now = tsc::read().unwrap_or(call.began);
        record_generally(call, now.saturating_sub(call.began));
    });
}

fn record_generally(call: &Slot, ticks: u64) {
    // SAFETY: `slot-filled` and `records-stay`.
    let function = unsafe { &*call.function };
    probe::emit(&function.event, (Field::ready(nanoseconds(ticks)), ()));
}

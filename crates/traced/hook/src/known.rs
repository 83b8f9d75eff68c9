//! Calls whose return addresses a runtime looks for (`mote_layout::functions`, Known code).

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use mote_agent::Function;
use mote_layout::functions::Plan;

/// The last plan that says where calls have to return to.
static PLAN: AtomicPtr<Plan<'static>> = AtomicPtr::new(ptr::null_mut());

/// Has calls of the functions that `plan` says return to known code only; a plan that names none changes nothing.
pub(crate) fn look_by(plan: &'static Plan<'static>) {
    if plan.looked_for.0 < plan.looked_for.1 {
        PLAN.store(ptr::from_ref(plan).cast_mut(), Ordering::Release);
    }
}

/// The plan is taken away: no thread asks for its functions any more.
pub(crate) fn forget(plan: &'static Plan<'static>) {
    let plan = ptr::from_ref(plan).cast_mut();
    let _ = PLAN.compare_exchange(plan, ptr::null_mut(), Ordering::Release, Ordering::Relaxed);
}

/// Whether a call of a function may be recorded that returns to this address.
///
/// # Signal safety
/// Callable from a handler.
pub(crate) fn may_return(function: &Function, to: usize) -> bool {
    // SAFETY: `records-stay`: a plan that was stored there stays.
    let plan = unsafe { PLAN.load(Ordering::Acquire).as_ref() };
    plan.is_none_or(|plan| plan.may_return(function.address as u64, to as u64))
}

//! Functions of the program, as sessions hear of them.

use super::{Session, announce, sessions};
use crate::counter::Counter;
use crate::hold;
use crate::registry::{self, Callers, Function, Kept};
use core::ffi::CStr;
use mote_layout::functions::VALUE_BYTES;

/// Adds functions of the program, and announces them to the sessions that were joined before. False when there is no
/// room.
pub(crate) fn add(functions: &'static [Function]) -> bool {
    let mut guard = hold::control();
    let range = registry::add_functions(functions);
    announce(&mut guard, range);
    drop(guard);
    range.is_some()
}

/// As [`registry::keeps_function`].
pub(crate) fn keeps(
    address: usize,
    description: &CStr,
    values: (&[[u8; VALUE_BYTES]], Callers),
    counter: *mut Counter,
) -> Kept {
    let _held = hold::control();
    registry::keeps_function(address, description, values, counter)
}

/// Forgets all functions, if no session has the process, none of them is on, and `is_off` says the same of each.
pub(crate) fn retire(is_off: impl Fn(&Function) -> bool) -> bool {
    let mut guard = hold::control();
    let all = sessions(&mut guard);
    let retires = !all.all.iter().any(Session::is_in) && registry::are_quiet(is_off);
    if retires {
        for function in registry::functions() {
            all.all.iter_mut().for_each(|session| session.wants.ids.forget(&function.event));
            all.common.numbers.take(&function.event);
        }
        registry::remove_functions();
    }
    drop(guard);
    retires
}

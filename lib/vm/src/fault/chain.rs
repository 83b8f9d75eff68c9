//! Our handlers of SIGSEGV and SIGBUS, and the program's below them.

use super::handler::on_fault;
use core::ffi::{c_int, c_void};
use libc::siginfo_t;
use mote_sync::Lock;
use mote_sys::signal::chain::{Chain, Handler, Installed, LEVELS};

static INSTALLING: Lock = Lock::new();
static FAULTS: Chain = Chain::new(libc::SIGSEGV);
static BUS_ERRORS: Chain = Chain::new(libc::SIGBUS);

/// Our handler of each level.
const HANDLERS: [Handler; LEVELS] = [
    on_fault::<0>,
    on_fault::<1>,
    on_fault::<2>,
    on_fault::<3>,
    on_fault::<4>,
    on_fault::<5>,
    on_fault::<6>,
    on_fault::<7>,
];

/// Makes sure that the signals come to us; true when they do.
///
/// They do not when the program put more than [`LEVELS`] different actions over ours.
pub(super) fn install() -> bool {
    let _one_at_a_time = INSTALLING.hold();
    [&FAULTS, &BUS_ERRORS].into_iter().all(put)
}

/// The same of SIGSEGV alone.
pub(super) fn install_one() -> bool {
    let _one_at_a_time = INSTALLING.hold();
    put(&FAULTS)
}

fn put(chain: &Chain) -> bool {
    // SAFETY: `on_fault` may run at any moment on any thread.
    unsafe { chain.install(&HANDLERS) != Installed::Refused }
}

/// Does what the action below `level` would have done without us.
///
/// # Safety
/// The arguments are those of a handler of `number` with SA_SIGINFO.
pub(super) unsafe fn hand_on(level: usize, number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let chain = if number == libc::SIGBUS { &BUS_ERRORS } else { &FAULTS };
    // SAFETY: the caller's promise.
    unsafe { chain.hand_on(level, info, context, 0) };
}

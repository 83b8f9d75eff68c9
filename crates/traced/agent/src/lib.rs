//! The peer of the session inside the traced process.
//!
//! Before `main`, [`start`] looks for sessions in the environment. Without one it does nothing: no socket, no
//! thread, no mapping. To each it says hello, maps the session's channel, tells which events the
//! process carries, and arms those that the session wants. One thread then waits for the sessions' word, with
//! all signals blocked and a descriptor table of its own, so that the process may close what it
//! likes. When a session ends or dies, that thread disarms what only that one wanted. It also takes
//! in filters, eBPF programs that decide about each occurrence of an event, and joins sessions that come later.
//!
//! What the program switches for itself needs neither sessions nor that thread.
//!
//! | module | job |
//! |---|---|
//! | `event` | the state of one event, which sites and probes share with the agent |
//! | `channel` | where a session's events go |
//! | `multicast` | events that go to several sessions |
//! | `environment` | where sessions are |
//! | `notes` | the program's objects, found before they announce themselves |
//! | `registry` | the sites and events that this copy of the library knows |
//! | `session` | the sessions that the process is in: joining, leaving |
//! | `late` | the way in for a process that runs already |
//! | `joining` | how a process comes to be in sessions |
//! | `handshake` | the conversation that makes it part of one |
//! | `subscription` | what a session wants of the events |
//! | `waiting` | sessions that have not let the process in yet |
//! | `event_ids` | the ids that a session has told |
//! | `names` | threads' names for a session that comes later |
//! | `switch` | switching events on and off, with or without filters |
//! | `quota`, `dealing` | functions whose probes come and go, for a budget; what says when |
//! | `switches` | switches of the program's own |
//! | `probes` | probes of the program's own |
//! | `beginning` | the beginning of a text, made without an allocation |
//! | `change` | changing sites for the program itself: all of them or none |
//! | `filters` | the session's bundle: what is to become of each event |
//! | `loader`, `table`, `maps` | from the bundle to filters that run, and their end |
//! | `filter`, `quick` | a filter as a probe meets it, and the test that it begins with |
//! | `helpers`, `speculation`, `shared` | what filters can do |
//! | `without` | what is in the place of these without the feature `filters` |
//! | [`cooperate`] | memory shared with the kernel's programs and with other processes |
//! | `words` | words with names, which processes share |
//! | `link` | the socket to the session |
//! | `trust` | whether the other end of it is believed |
//! | `control` | the thread that listens |
//! | `fork` | what happens around fork |
//! | `hold` | the lock of all that, with signals blocked |
//! | `leaving` | when the program's last own thread has left |
//! | [`stack`] | copies of stacks that go with records |
//! | `own_work` | whether a thread does our work |
//! | `ending` | when the process has begun to end |
//! | `locked` | whether the program has locked our thread in |
//! | `keep` | keeps this object loaded once it is traced |
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]

mod arch;
mod beginning;
mod change;
mod channel;
mod control;
pub mod cooperate;
mod counter;
mod counts;
mod dealing;
mod ending;
mod environment;
mod event;
mod event_ids;
#[cfg(feature = "filters")]
mod filter;
mod filters;
mod fork;
mod growing;
mod handshake;
#[cfg(feature = "filters")]
mod helpers;
mod hold;
mod joining;
mod keep;
mod late;
mod leaving;
mod link;
#[cfg(feature = "filters")]
mod loader;
mod locked;
#[cfg(feature = "filters")]
mod maps;
mod multicast;
mod names;
mod notes;
mod own_work;
mod probes;
#[cfg(feature = "filters")]
mod quick;
mod quota;
mod registry;
mod session;
#[cfg(feature = "filters")]
mod shared;
#[cfg(feature = "filters")]
mod speculation;
pub mod stack;
mod subscription;
mod switch;
mod switches;
#[cfg(feature = "filters")]
mod table;
mod trust;
mod waiting;
#[cfg(not(feature = "filters"))]
mod without;
mod words;

#[cfg(not(feature = "filters"))]
use without::{filter, loader, shared, speculation};

pub use beginning::Beginning;
pub use change::ChangeError;
pub use channel::{Channel, introduce_thread};
pub use counter::Counter;
pub use counts::{CountArea, add_counts};
pub use dealing::{Dealer, Dealing, deal_by, without_dealer};
pub use event::{Between, Event, FAULTED};
pub use late::{Interrupted, enter};
pub use own_work::{is_own_work, set_own_work};
pub use probes::{Connection, Moved, NewProbe, Probes, connect, wait_for_probes};
pub use quota::Quota;
pub use registry::{Callers, DynamicEvent, Function, Kept};
pub use switches::{Switch, flip};
pub use words::share;

use core::ffi::{CStr, c_char, c_int};
use mote_layout::functions::VALUE_BYTES;
use mote_layout::site::SiteRecord;

/// Joins the sessions that the environment names, if it names any.
///
/// For `.init_array`: the C library calls it with the program's arguments before `main`, and when a library
/// that contains it is loaded.
///
/// # Safety
/// `environment` must be null or a NULL-terminated array of NUL-terminated strings; `first..end` must be the
/// object's section of site records.
///
/// # Cost
/// Without a session: two passes over the names of the environment's variables.
pub unsafe fn start(environment: *const *const c_char, first: *const SiteRecord, end: *const SiteRecord) {
    // Also for recorders that come later. SAFETY: the caller's promise.
    if unsafe { environment::allows_hops(environment) } {
        mote_patch::set_hops(mote_patch::Hops::Always);
    }
    // SAFETY: the caller's promise.
    if let Some(places) = unsafe { environment::find(environment) } {
        // SAFETY: the caller's promise.
        unsafe { registry::add_sites(first, end) };
        notes::enter_all();
        joining::at_start(places);
    }
}

/// Adds the sites of an object that shares this copy of the library (C programs and `libmote.so`).
///
/// # Safety
/// `first..end` must be the object's section of site records, and stay mapped.
pub unsafe fn add_object(first: *const SiteRecord, end: *const SiteRecord) {
    // SAFETY: the caller's promise.
    unsafe { session::add_object(first, end) };
}

/// Forgets the sites of an object that is about to be unmapped.
pub fn remove_object(first: *const SiteRecord) {
    session::remove_object(first);
}

/// Joins the session at `place`, as the environment would name it, in a process that runs already. Returns 0, or an
/// error number below 0.
///
/// # Safety
/// `first..end` must be the object's section of site records. On a thread that may wait for the dynamic linker.
pub unsafe fn join(place: &[u8], first: *const SiteRecord, end: *const SiteRecord) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { joining::late(place, first, end) }
}

/// Adds functions of the program as events, tells the sessions of them, and switches on those that they want. False
/// when they were added too often.
///
/// Their places are patched from now on, whenever their events are switched.
///
/// # Safety
/// Each address is where a function of the program begins, which stays mapped; what lies there is `place.off` or
/// `place.on`, and `place` is what `mote_patch::Place` says of it.
pub unsafe fn add_functions(functions: &'static [Function]) -> bool {
    session::functions::add(functions)
}

/// What becomes of the function at `address` that was added before: it keeps its event if it has the same description
/// and values, or is on. Another one, which is off, is replaced: it is as if it had not been added. `counter` is where
/// its calls are to be counted, or null.
///
/// # Cost
/// Linear in the functions that were added.
pub fn keeps_function(
    address: usize,
    description: &CStr,
    values: (&[[u8; VALUE_BYTES]], Callers),
    counter: *mut Counter,
) -> Kept {
    session::functions::keeps(address, description, values, counter)
}

/// Forgets all functions, if the process is in no session, none of them is on, and `is_off` says of each that its place
/// is as in the file. Their probes are switched on no more; functions of the same addresses may be added anew. Returns
/// whether that was done.
///
/// # Cost
/// Linear in the functions that were added.
pub fn retire_functions(is_off: impl Fn(&Function) -> bool) -> bool {
    session::functions::retire(is_off)
}

/// Tells the session of an event that has no site, and switches it on if the session wants it.
///
/// For adapters that learn of events at run time; not for probes: it talks to the session.
pub fn announce(event: &'static DynamicEvent) {
    registry::add_dynamic(event);
    session::announce_dynamic(event);
}

/// Bytes of a text before its NUL; `None` when it cannot be read up to there. For events that have a filter.
///
/// # Safety
/// No other thread changes the text meanwhile. While no filter was ever loaded, `text` must be readable.
///
/// # Signal safety
/// Callable from a handler.
pub unsafe fn text_len(text: *const u8) -> Option<usize> {
    // SAFETY: the caller's promise.
    unsafe { filter::text_len(text) }
}

/// True when this process is part of a session.
pub fn is_traced() -> bool {
    session::is_joined()
}

/// The numbers of `.init_array` arguments, for documentation of the signature.
pub type Constructor = unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char);

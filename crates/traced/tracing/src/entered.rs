//! Which spans the calling thread is in, with our ids.
//!
//! The registry of tracing-subscriber knows this as well, but to ask it for an event's span takes a reference count, a
//! lock and a table: as long as to record the event. So each thread keeps what it has entered, in the registry's order:
//! spans may be left out of turn, and one that is entered again does not count until it is left once.
//!
//! What a thread keeps is of one layer: two layers of ours may belong to two subscribers, with spans of their own.
//! Where it is not certain, all functions say nothing, and the registry is asked: when a thread has entered nothing
//! since the layer is there, and for good once a second layer has met spans of another one in the thread. A layer that
//! is taken out of its subscriber while the thread is in spans must not be put back (`tracing_subscriber::reload`).

use crate::callsite::Callsite;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_core::span::Id;

/// A layer, by a number that no other one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) fn new() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A span that the thread is in.
#[derive(Clone, Copy)]
struct Entered {
    /// The registry's id.
    theirs: u64,
    ours: u64,
    callsite: &'static Callsite,
    /// The thread was in it already.
    again: bool,
}

struct Thread {
    owner: Owner,
    entered: Vec<Entered>,
    /// Two layers have met here.
    is_shared: bool,
}

thread_local! {
    static THREAD: RefCell<Thread> =
        const { RefCell::new(Thread { owner: Owner(0), entered: Vec::new(), is_shared: false }) };
}

/// Looks at what the thread has entered of a layer; nothing where that is not certain, and in a thread that is ending.
fn with<T>(owner: Owner, look: impl FnOnce(&mut Thread) -> Option<T>) -> Option<T> {
    let look = |thread: &mut Thread| {
        if thread.entered.is_empty() {
            thread.owner = owner;
        } else if thread.owner != owner {
            thread.is_shared = true;
            thread.entered.clear();
        }
        if thread.is_shared { None } else { look(thread) }
    };
    THREAD.try_with(|thread| thread.try_borrow_mut().ok().and_then(|mut thread| look(&mut thread))).ok()?
}

/// Notes that the thread goes into a span.
pub(crate) fn enter(owner: Owner, theirs: &Id, ours: u64, callsite: &'static Callsite) {
    with(owner, |thread| {
        let theirs = theirs.into_u64();
        let again = thread.entered.iter().any(|entered| entered.theirs == theirs);
        thread.entered.push(Entered { theirs, ours, callsite, again });
        Some(())
    });
}

/// Notes that the thread leaves a span. Returns our id and the callsite, if they are known.
pub(crate) fn exit(owner: Owner, theirs: &Id) -> Option<(u64, &'static Callsite)> {
    with(owner, |thread| {
        let is_it = |entered: &Entered| entered.theirs == theirs.into_u64();
        let at = thread.entered.iter().rposition(is_it)?;
        let Entered { ours, callsite, .. } = thread.entered.remove(at);
        Some((ours, callsite))
    })
}

/// Our id of the span that the thread is in, if it is known.
pub(crate) fn current(owner: Owner) -> Option<u64> {
    with(owner, |thread| {
        thread.entered.iter().rev().find(|entered| !entered.again).map(|entered| entered.ours)
    })
}

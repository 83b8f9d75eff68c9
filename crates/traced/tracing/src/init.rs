//! Mote as the subscriber of a program that has none, without ever standing in the way of one that it sets.
//!
//! tracing has one place for a global subscriber, which is given once: a program whose own attempt fails ends, as a
//! rule. So [`init`] does not take the place. It registers a subscriber that tracing asks about each callsite that is
//! passed for the first time, and about each further subscriber that is made, and goes by that:
//!
//! | what happens first | then |
//! |---|---|
//! | the program makes a subscriber of its own | mote gives way: its subscriber is dropped, and the trace says so |
//! | a callsite is passed by the thread that called `init` | mote is the subscriber of this thread only, from there on |
//! | a callsite is passed for the first time by another thread | mote becomes the global subscriber |
//!
//! A program that sets up a subscriber does so on its first thread, as a rule after it has read its settings; its
//! other threads come later. What is recorded from when on is told by events of the provider `mote_tracing`.

use crate::layer::Layer;
use std::any::TypeId;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing_core::dispatcher::{self, DefaultGuard, Dispatch};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::{Interest, NoSubscriber};
use tracing_core::{Event, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Layered, SubscriberExt};

/// `init` was not called, or the program is not recorded.
const IDLE: u8 = 0;
/// The program may set a subscriber of its own.
const WAITING: u8 = 1;
/// Mote is the global subscriber.
const GLOBAL: u8 = 2;
/// The program has a subscriber of its own.
const GAVE_WAY: u8 = 3;

/// Only ever rises.
static STATE: AtomicU8 = AtomicU8::new(IDLE);
/// Keeps our subscriber alive while it waits; tracing itself has weak references only.
static OURS: Mutex<Option<Dispatch>> = Mutex::new(None);

thread_local! {
    /// This thread has called `init`.
    static CALLED_INIT: Cell<bool> = const { Cell::new(false) };
    /// Makes mote the subscriber of this thread.
    static SCOPE: Cell<Option<DefaultGuard>> = const { Cell::new(None) };
}

/// Makes the events and spans of a program that has no subscriber mote events. Call it first in `main`.
///
/// A program that sets a subscriber of its own, before or after, keeps it, and mote records nothing of tracing: use
/// [`layer`](crate::layer) there. A program that is not recorded is not changed at all.
///
/// Until another thread than the caller comes upon a callsite that no thread has passed before, only the calling thread
/// is recorded, because the program may yet set its subscriber; [`install`] does not wait.
///
/// Returns false when the program has a subscriber already.
pub fn init() -> bool {
    if is_taken() {
        tell_given_way();
        return false;
    }
    if mote::is_traced() && STATE.load(Ordering::Acquire) == IDLE {
        let dispatch = Dispatch::new(Waiting::new());
        *ours() = Some(dispatch);
        // Where tracing knows of one subscriber only, it asks the one that is set instead: none.
        drop(Dispatch::new(Waiting::new()));
        CALLED_INIT.with(|called| called.set(true));
        STATE.store(WAITING, Ordering::Release);
    }
    true
}

/// Makes mote the global subscriber at once, for programs that will not set one: theirs would fail.
///
/// Returns false when the program has one already; then nothing has changed. Does nothing in a program that is not
/// recorded.
pub fn install() -> bool {
    if is_taken() {
        tell_given_way();
        return false;
    }
    let started = init();
    take_place();
    started && STATE.load(Ordering::Acquire) != GAVE_WAY
}

/// Whether the calling thread's events go to a subscriber, of the program or of a library, that is not ours.
fn is_taken() -> bool {
    dispatcher::get_default(|now| !now.is::<NoSubscriber>() && !now.is::<Waiting>())
}

/// What is kept. Threads hold it for some instructions, only where a callsite is passed for the first time: tracing
/// itself takes a lock there.
fn ours() -> MutexGuard<'static, Option<Dispatch>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes mote the global subscriber, unless the program has one. When it returns, there is one, of mote or of the
/// program.
fn take_place() {
    let kept = ours();
    if STATE.load(Ordering::Acquire) != WAITING {
        return;
    }
    let Some(dispatch) = kept.clone() else { return };
    if dispatcher::set_global_default(dispatch).is_err() {
        drop(kept);
        return give_way();
    }
    STATE.store(GLOBAL, Ordering::Release);
    drop(kept);
    mote::event!(
        mote_tracing::all_threads,
        "from now on events and spans of all threads are recorded; before, those of the thread that called init"
    );
}

/// Leaves everything to the subscriber of the program.
fn give_way() {
    let mut kept = ours();
    if STATE.load(Ordering::Acquire) != WAITING {
        return;
    }
    STATE.store(GAVE_WAY, Ordering::Release);
    let dispatch = kept.take();
    drop(kept);
    drop(dispatch);
    tell_given_way();
}

#[cold]
#[inline(never)]
fn tell_given_way() {
    mote::event!(
        Warning,
        mote_tracing::gave_way,
        advice: &str = "the program has its own subscriber: add mote_tracing::layer() to it, or nothing of tracing is recorded",
        "the program has a subscriber of its own, so its events of tracing are not recorded"
    );
}

/// What is asked while nothing is decided, and records as the layer does.
struct Waiting {
    inner: Layered<Layer, Registry>,
}

impl Waiting {
    fn new() -> Waiting {
        Waiting { inner: tracing_subscriber::registry().with(Layer::new()) }
    }

    /// A thread passes a callsite for the first time.
    fn decide() {
        if STATE.load(Ordering::Acquire) != WAITING {
            return leave_scope();
        }
        if is_taken() {
            leave_scope();
            return give_way();
        }
        if !CALLED_INIT.try_with(Cell::get).unwrap_or(false) {
            return take_place();
        }
        enter_scope();
    }
}

/// Whether this thread's subscriber can be changed: not while it is looking at an event.
fn can_change_scope() -> bool {
    dispatcher::get_current(|_| ()).is_some()
}

fn enter_scope() {
    let scope = SCOPE.try_with(Cell::take).ok().flatten();
    let scope = match scope {
        None if can_change_scope() => ours().clone().as_ref().map(dispatcher::set_default),
        scope => scope,
    };
    let _ = SCOPE.try_with(|mine| mine.set(scope));
}

fn leave_scope() {
    if can_change_scope() {
        drop(SCOPE.try_with(Cell::take));
    }
}

impl Subscriber for Waiting {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        Waiting::decide();
        match STATE.load(Ordering::Acquire) {
            GAVE_WAY => Interest::never(),
            _ => self.inner.register_callsite(metadata),
        }
    }

    /// Asked when a subscriber is made: ours at first, then others.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        if STATE.load(Ordering::Acquire) == WAITING {
            leave_scope();
            give_way();
        }
        match STATE.load(Ordering::Acquire) {
            GAVE_WAY => Some(LevelFilter::OFF),
            _ => self.inner.max_level_hint(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.inner.enabled(metadata)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.inner.new_span(attributes)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.inner.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.inner.record_follows_from(span, follows);
    }

    fn event(&self, event: &Event<'_>) {
        self.inner.event(event);
    }

    fn enter(&self, span: &Id) {
        self.inner.enter(span);
    }

    fn exit(&self, span: &Id) {
        self.inner.exit(span);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.inner.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        self.inner.try_close(id)
    }

    fn current_span(&self) -> Current {
        self.inner.current_span()
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Waiting>() {
            return Some((&raw const *self).cast());
        }
        // SAFETY: the caller's promise is passed on: it uses the pointer as the type that it asked for.
        unsafe { self.inner.downcast_raw(id) }
    }
}

//! A session's channel as probes meet it, and the channels of all sessions.
//!
//! # Invariants
//! `channel-never-freed`: a [`Channel`] lives as long as the process, also when its session has ended: its memory is
//! private then (`Writer::forsake`), and no thread reads what is written there.

use crate::stack;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use mote_loss::Cause;
use mote_ring::writer::{Former, MapError, Payload};
use mote_ring::{Direct, Geometry, Record, Writer};
use mote_sync::thread;
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result, process};
use mote_wire::{SESSIONS_MAX, Whose};

/// How many bits of an address there are: the rest of a word has the event's id.
pub(crate) const ADDRESS_BITS: u32 = 48;

/// The channel of a session, for the life of the process.
#[derive(Debug)]
pub struct Channel {
    pub(crate) writer: Writer,
    /// Most bytes of the thread's stack that go with each record ([`crate::stack`]); 0: none.
    pub(crate) stack: u32,
    /// The session's number, below [`SESSIONS_MAX`]; the next session with this number has another channel.
    pub(crate) session: usize,
    /// How many sessions the process had joined by then, this one included; may wrap around.
    pub(crate) joined: u32,
    /// No other process writes to its rings, nor may a child.
    own: AtomicBool,
}

/// Id of this process, for filters and what they keep aside.
pub(crate) static PID: AtomicU32 = AtomicU32::new(0);

/// The channels of the sessions that the process is in.
static CHANNELS: [AtomicPtr<Channel>; SESSIONS_MAX] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; SESSIONS_MAX];

impl Channel {
    /// Maps the channel in `memfd` for good.
    ///
    /// # Errors
    /// `EINVAL` when sizes and memfd do not go together; as mmap(2).
    pub(crate) fn map(
        memfd: &Fd,
        (whose, geometry, stack): (Whose, Geometry, u32),
        session: usize,
        joined: u32,
    ) -> Result<&'static Channel> {
        let writer = Writer::map(memfd, geometry).map_err(errno)?;
        let own = AtomicBool::new(whose == Whose::Own);
        let place = Mapping::private(size_of::<Channel>())?.leak().cast::<Channel>();
        if place.addr() >> ADDRESS_BITS != 0 {
            return Err(Errno(libc::ENOMEM));
        }
        // SAFETY: fresh memory of the right size; pages are aligned for any type.
        unsafe { place.write(Channel { writer, stack, session, joined, own }) };
        // SAFETY: just written, and never freed.
        Ok(unsafe { &*place })
    }

    /// The shortest way for an event of this id, which takes nothing else along.
    pub(crate) fn direct(&'static self, id: u16) -> Option<Direct> {
        if self.stack == 0 { Direct::to(&self.writer, id) } else { None }
    }

    /// Writes a record. What became of it is counted in the ring.
    ///
    /// # Safety
    /// The payload's bytes must be readable: for `Words` up to the end of the last 8-byte word.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub unsafe fn write(&self, record: Record<'_>) {
        if self.stack == 0 {
            // SAFETY: the caller's promise.
            let _ = unsafe { self.writer.write(record) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.write_behind_stack(record) };
        }
    }

    /// As [`Channel::write`], for a small record, of `len` bytes at `from`. Its parts stay in registers.
    ///
    /// # Safety
    /// The bytes must be readable up to the end of the last 8-byte word.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub unsafe fn write_words(&self, tag: u16, thread: u32, from: *const u8, len: usize) {
        if self.stack == 0 {
            // SAFETY: the caller's promise.
            let _ = unsafe { self.writer.write_words(tag, thread, from, len) };
        } else {
            let payload = Payload::Words { from, len };
            // SAFETY: the caller's promise.
            unsafe { self.write_behind_stack(Record { tag, thread, payload }) };
        }
    }

    /// # Safety
    /// As for [`Channel::write`].
    #[cold]
    #[inline(never)]
    unsafe fn write_behind_stack(&self, record: Record<'_>) {
        self.with_stack(record, &mut |record| {
            // SAFETY: the caller's promise; a stack is readable as far as it is copied.
            let _ = unsafe { self.writer.write(record) };
        });
    }

    /// Has a record written as it is, or with a stack in front if the session wants one. One that has too many parts
    /// for that is lost, which is counted.
    pub(crate) fn with_stack(&self, record: Record<'_>, write: &mut dyn FnMut(Record<'_>)) {
        if self.stack == 0 {
            write(record);
        } else if !stack::in_front(self.stack, record, write) {
            self.writer.lose(Cause::TooBig);
        }
    }

    /// Whether its rings are this process's alone.
    pub(crate) fn is_own(&self) -> bool {
        self.own.load(Ordering::Relaxed)
    }

    /// Notes whether its rings are this process's alone.
    pub(crate) fn set_whose(&self, whose: Whose) {
        self.own.store(whose == Whose::Own, Ordering::Relaxed);
    }

    /// Goes over to other rings. Threads that still write to the former ones may be let go with the result.
    ///
    /// # Errors
    /// As for `map`.
    pub(crate) fn renew(&self, memfd: &Fd, geometry: Geometry) -> Result<Former> {
        self.writer.renew(memfd, geometry).map_err(errno)
    }

    /// Makes the channel known to all threads.
    pub(crate) fn publish(&'static self) {
        if let Some(place) = CHANNELS.get(self.session) {
            place.store((&raw const *self).cast_mut(), Ordering::Release);
        }
    }

    /// The channel is its session's no more.
    pub(crate) fn withdraw(&self) {
        if let Some(place) = CHANNELS.get(self.session) {
            place.store(core::ptr::null_mut(), Ordering::Release);
        }
    }

    /// Lets the shared memory go, when the session has ended or the rings are another process's.
    pub(crate) fn forsake(&self) {
        // SAFETY: no thread is to read what is written from now on. When it cannot be done the memory stays shared.
        let _ = unsafe { self.writer.forsake() };
    }
}

fn errno(error: MapError) -> Errno {
    match error {
        MapError::Geometry => Errno(libc::EINVAL),
        MapError::System(errno) => errno,
    }
}

/// In a child of fork: what a handler has interrupted and forked in is its parent's to finish; rings that are its
/// parent's alone it has no more.
///
/// # Safety
/// The calling thread is the only one, and takes no signal.
pub(crate) unsafe fn after_fork() {
    for channel in (0..SESSIONS_MAX).filter_map(of) {
        if channel.is_own() {
            channel.forsake();
            continue;
        }
        // SAFETY: the caller's promise. Without memory for it that event spoils a ring's counts, as a kill would.
        let _ = unsafe { channel.writer.part_from_writes() };
    }
}

/// The channel of a session, while the process is in it.
pub(crate) fn of(session: usize) -> Option<&'static Channel> {
    let channel = CHANNELS.get(session)?.load(Ordering::Acquire).cast_const();
    // SAFETY: null, or `channel-never-freed`.
    unsafe { channel.as_ref() }
}

/// Gives the calling thread its name in all traces, and notes its id. Returns the id.
///
/// # Signal safety
/// Callable from a handler.
#[cold]
pub fn introduce_thread() -> u32 {
    let (tid, pid, comm) = (process::tid() as u32, process::pid() as u32, process::comm());
    // In this order, as with `publish` and then looking for threads (`names`): one of both sees the other.
    thread::set_id(tid);
    (0..SESSIONS_MAX).filter_map(of).for_each(|channel| channel.writer.introduce(tid, pid, comm));
    tid
}

/// Id of the calling thread, which has a name in all traces when this returns.
#[inline(always)]
pub(crate) fn this_thread() -> u32 {
    match thread::id() {
        0 => introduce_thread(),
        id => id,
    }
}

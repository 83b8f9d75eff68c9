//! The handshake, and switching events on and off.
//!
//! # Who may do what
//! `PLACE` and `CHANNEL` are set once, before `main`, and never change. Everything that announces or switches holds
//! the control path (`hold`); probes never do.

use crate::environment::Place;
use crate::event::Event;
use crate::link::Link;
use crate::registry::{self, DynamicEvent, Range, Site};
use crate::{control, fork, hold, keep, leaving};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use mote_layout::site::SiteRecord;
use mote_ring::Writer;
use mote_ring::writer::MapError;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};
use mote_text::{Code, Edit};
use mote_wire::{How, ID_ON, MESSAGE_MAX, Message, Ready};

/// The session's place, kept for children and late libraries.
struct Known(core::cell::UnsafeCell<Option<Place>>);
// SAFETY: written once, in `join`, before `JOINED` is set; read only after.
unsafe impl Sync for Known {}
static PLACE: Known = Known(core::cell::UnsafeCell::new(None));
static JOINED: AtomicBool = AtomicBool::new(false);
static CHANNEL: AtomicPtr<Writer> = AtomicPtr::new(core::ptr::null_mut());

/// Memory for messages, of the control path only.
struct Scratch(Mapping);

impl Scratch {
    fn new() -> Result<Scratch> {
        Mapping::private(2 * MESSAGE_MAX).map(Scratch)
    }

    /// A buffer to send from and one to receive into.
    fn buffers(&mut self) -> (&mut [u8], &mut [u8]) {
        // SAFETY: the mapping is private, of `2 * MESSAGE_MAX` bytes, and exclusively borrowed.
        let whole = unsafe { core::slice::from_raw_parts_mut(self.0.base(), 2 * MESSAGE_MAX) };
        whole.split_at_mut(MESSAGE_MAX)
    }
}

/// Whether this process is part of a session.
pub(crate) fn is_joined() -> bool {
    JOINED.load(Ordering::Acquire)
}

/// The session's place; `None` before [`join`].
pub(crate) fn place() -> Option<Place> {
    // SAFETY: written once before `JOINED` was set, never after.
    if is_joined() { unsafe { PLACE.0.get().read() } } else { None }
}

/// Joins the session at `place`; on any failure the program goes on untraced.
pub(crate) fn join(place: Place) {
    let guard = hold::control();
    if is_joined() {
        return;
    }
    mote_sync::rseq::find();
    // Before anything refers to this object: a failed handshake leaves traces, too.
    keep::loaded();
    let Ok(link) = introduce(&place) else {
        // What was armed before it failed would have nobody to disarm it.
        switch_off();
        return;
    };
    // SAFETY: nobody reads `PLACE` before `JOINED` is set, and the control path is ours.
    unsafe { PLACE.0.get().write(Some(place)) };
    JOINED.store(true, Ordering::Release);
    fork::watch();
    leaving::watch();
    introduce_thread();
    drop(guard);
    control::listen(link);
}

/// Gives the calling thread its name in the trace now, while system calls are still allowed: the program may be about
/// to lock itself in.
pub(crate) fn introduce_thread() {
    // SAFETY: null or a leaked `Writer` (agent-I1).
    if let Some(channel) = unsafe { CHANNEL.load(Ordering::Acquire).cast_const().as_ref() } {
        channel.introduce_thread();
    }
}

/// Says hello, maps the channel, announces all events.
fn introduce(place: &Place) -> Result<Link> {
    let link = Link::open(place, How::Start)?;
    let mut scratch = Scratch::new()?;
    let channel = welcome(&link, &mut scratch)?;
    CHANNEL.store((&raw const *channel).cast_mut(), Ordering::Release);
    let mut ready = Ready::default();
    for range in registry::objects() {
        announce_range(&link, &mut scratch, channel, range, &mut ready)?;
    }
    link.send(&Message::Ready(ready), scratch.buffers().0)?;
    Ok(link)
}

/// Waits for the session's channel and maps it.
fn welcome(link: &Link, scratch: &mut Scratch) -> Result<&'static Writer> {
    let (_, into) = scratch.buffers();
    let mut received = link.answer(into)?;
    let bytes = into.get(..received.len).unwrap_or(&[]);
    let Ok(Message::Welcome(geometry)) = Message::decode(bytes) else {
        return Err(Errno(libc::ECONNREFUSED));
    };
    let memfd = received.fds.iter_mut().find_map(Option::take).ok_or(Errno(libc::EBADF))?;
    let writer = Writer::map(&memfd, geometry).map_err(|error| match error {
        MapError::Geometry => Errno(libc::EINVAL),
        MapError::System(errno) => errno,
    })?;
    let place = Mapping::private(size_of::<Writer>())?.leak().cast::<Writer>();
    // SAFETY: fresh memory of the right size; pages are aligned for any type.
    unsafe { place.write(writer) };
    // SAFETY: just written, and never freed.
    Ok(unsafe { &*place })
}

/// Adds an object's sites, and announces them when the session was joined before.
///
/// # Safety
/// As `registry::add_sites`.
pub(crate) unsafe fn add_object(first: *const SiteRecord, end: *const SiteRecord) {
    let guard = hold::control();
    // SAFETY: the caller's promise.
    let range = unsafe { registry::add_sites(first, end) };
    if let Some(range) = range
        && let Some((link, mut scratch, channel)) = reconnect()
    {
        let mut ready = Ready::default();
        let _ = announce_range(&link, &mut scratch, channel, range, &mut ready);
        let _ = link.send(&Message::Ready(ready), scratch.buffers().0);
    }
    drop(guard);
}

/// Forgets an object's sites; nobody patches them when this has returned.
pub(crate) fn remove_object(first: *const SiteRecord) {
    let guard = hold::control();
    registry::remove_sites(first);
    drop(guard);
}

/// Announces an event without a site.
pub(crate) fn announce_dynamic(event: &'static DynamicEvent) {
    let guard = hold::control();
    if let Some((link, mut scratch, channel)) = reconnect() {
        let _ = announce_one(&link, &mut scratch, channel, event);
    }
    drop(guard);
}

fn reconnect() -> Option<(Link, Scratch, &'static Writer)> {
    let place = place()?;
    // SAFETY: set before `JOINED`, to a leaked `Writer`; null after the session has ended.
    let channel = unsafe { CHANNEL.load(Ordering::Acquire).cast_const().as_ref() }?;
    let link = Link::open(&place, How::Library).ok()?;
    Some((link, Scratch::new().ok()?, channel))
}

fn announce_one(
    link: &Link,
    scratch: &mut Scratch,
    channel: &'static Writer,
    event: &'static DynamicEvent,
) -> Result<()> {
    let (to, from) = scratch.buffers();
    let texts = event.description.to_bytes_with_nul();
    link.send(&Message::Events { count: 1, texts }, to)?;
    let received = link.answer(from)?;
    if let Ok(Message::Ids(tail)) = Message::decode(from.get(..received.len).unwrap_or(&[])) {
        for word in mote_wire::ids(tail).take(1) {
            assign(&event.event, channel, word);
        }
    }
    Ok(())
}

/// Tells the session of an object's events, in as many messages as needed, then arms those it wants.
fn announce_range(
    link: &Link,
    scratch: &mut Scratch,
    channel: &'static Writer,
    range: Range,
    ready: &mut Ready,
) -> Result<()> {
    let mut rest = range.sites().peekable();
    while rest.peek().is_some() {
        let asked = rest.clone();
        let count = ask(link, scratch, &mut rest)?;
        let (_, from) = scratch.buffers();
        let received = link.answer(from)?;
        let Ok(Message::Ids(tail)) = Message::decode(from.get(..received.len).unwrap_or(&[])) else {
            return Err(Errno(libc::EPROTO));
        };
        for (site, word) in asked.take(count).zip(mote_wire::ids(tail)) {
            assign(site.event(), channel, word);
        }
    }
    switch(range.sites().filter(|site| site.event().is_on()), true, ready);
    ready.sites += range.sites().count() as u32;
    Ok(())
}

/// Sends as many descriptions as fit into one message; at least one, or an error.
fn ask(
    link: &Link,
    scratch: &mut Scratch,
    sites: &mut core::iter::Peekable<impl Iterator<Item = Site>>,
) -> Result<usize> {
    const HEAD: usize = 8;
    let (to, texts) = scratch.buffers();
    let mut used = 0;
    let mut count = 0;
    while let Some(site) = sites.peek() {
        let text = site.description().to_bytes_with_nul();
        // One that is too long for any message goes as an empty text, which the session refuses.
        let text = if text.len() > MESSAGE_MAX - HEAD { c"".to_bytes_with_nul() } else { text };
        let Some(place) =
            texts.get_mut(used..used + text.len()).filter(|_| used + text.len() <= MESSAGE_MAX - HEAD)
        else {
            break;
        };
        place.copy_from_slice(text);
        used += text.len();
        count += 1;
        sites.next();
    }
    let texts = texts.get(..used).unwrap_or(&[]);
    link.send(&Message::Events { count: count as u32, texts }, to)?;
    Ok(count)
}

fn assign(event: &Event, channel: &'static Writer, word: u32) {
    if word & ID_ON != 0 {
        event.on(channel, (word & 0xffff) as u16);
    }
}

/// Patches sites on or off and notes how that went.
fn switch(sites: impl Iterator<Item = Site>, on: bool, ready: &mut Ready) {
    let mut tested = 0;
    let mut wanted = 0;
    let edits = sites.filter_map(|site| {
        wanted += 1;
        let Some((addr, target)) = site.code() else {
            tested += 1;
            return None;
        };
        Some(Edit { addr, to: if on { Code::Jump(target) } else { Code::Nop } })
    });
    // SAFETY: the sites' records come from the macros and the header (`registry::add_sites`):
    // 1. each code address is a 5-byte site of a mapped object;
    // 2. it is one instruction that nothing jumps into;
    // 3. its target is the label of the same `asm!` block.
    let applied = unsafe { mote_text::apply(edits, |_, _| ()) };
    match applied {
        Ok(applied) => {
            ready.armed += (applied.changed + applied.already) as u32 + tested;
            ready.failed += applied.refused as u32;
        }
        Err(error) => {
            ready.armed += tested;
            ready.failed += wanted - tested;
            ready.errno = match error {
                mote_text::Error::NotWritable { errno, .. }
                | mote_text::Error::NoBarrier(errno)
                | mote_text::Error::Unfinished(errno) => errno.0 as u32,
                _ => libc::EIO as u32,
            };
        }
    }
}

/// Switches everything off for good: the session has ended.
pub(crate) fn end() {
    let guard = hold::control();
    switch_off();
    drop(guard);
}

/// Switches everything off. With the control path held.
fn switch_off() {
    CHANNEL.store(core::ptr::null_mut(), Ordering::Release);
    let mut ready = Ready::default();
    for range in registry::objects() {
        switch(range.sites(), false, &mut ready);
        range.sites().for_each(|site| site.event().off());
    }
    registry::dynamic().for_each(|event| event.event.off());
}

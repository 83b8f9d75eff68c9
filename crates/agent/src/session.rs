//! The handshake, and what the session says after it.
//!
//! # Who may do what
//! `PLACE` and `CHANNEL` are set once, before `main`, and never change. Everything that announces or switches holds
//! the control path (`hold`); probes never do.

use crate::environment::Place;
use crate::filters::Filters;
use crate::hold::Control;
use crate::link::Link;
use crate::registry::{self, DynamicEvent, Range, Site};
use crate::{control, fork, hold, keep, leaving, switch};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use mote_layout::site::SiteRecord;
use mote_ring::Writer;
use mote_ring::writer::MapError;
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result, process, time};
use mote_wire::{How, MESSAGE_MAX, Message, Ready};

/// The session's place, kept for children and late libraries.
struct Known(core::cell::UnsafeCell<Option<Place>>);
// SAFETY: written once, in `join`, before `JOINED` is set; read only after.
unsafe impl Sync for Known {}
static PLACE: Known = Known(core::cell::UnsafeCell::new(None));
static JOINED: AtomicBool = AtomicBool::new(false);
static CHANNEL: AtomicPtr<Writer> = AtomicPtr::new(core::ptr::null_mut());
/// Process id, for filters and what they keep aside.
pub(crate) static PID: AtomicU32 = AtomicU32::new(0);

/// The filters, of whoever has the control path.
struct Shelf(core::cell::UnsafeCell<Filters>);
// SAFETY: `filters` gives it to the holder of the control path only.
unsafe impl Sync for Shelf {}
static FILTERS: Shelf = Shelf(core::cell::UnsafeCell::new(Filters::new()));

/// The filters.
fn filters(_: &mut Control) -> &mut Filters {
    // SAFETY: there is one `Control` at a time, and it is borrowed for as long as the result.
    unsafe { &mut *FILTERS.0.get() }
}

/// How long retired filters are waited for when the session ends, in nanoseconds, and how often it is looked.
const FAREWELL: (u64, u32) = (1_000_000, 50);

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
    let mut guard = hold::control();
    if is_joined() {
        return;
    }
    note_process();
    mote_sync::rseq::find();
    // Before anything refers to this object: a failed handshake leaves traces, too.
    keep::loaded();
    let Ok(link) = introduce(&place, filters(&mut guard)) else {
        // What was armed before it failed would have nobody to disarm it.
        switch_off(&mut guard);
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

/// Notes which process this is.
pub(crate) fn note_process() {
    let pid = process::pid() as u32;
    PID.store(pid, Ordering::Relaxed);
    mote_vm::note_process(pid);
}

/// The channel, while there is a session.
pub(crate) fn channel() -> Option<&'static Writer> {
    // SAFETY: null or a leaked `Writer` (agent-I1).
    unsafe { CHANNEL.load(Ordering::Acquire).cast_const().as_ref() }
}

/// Id of the calling thread.
pub(crate) fn this_thread() -> u32 {
    match (mote_sync::thread::id(), channel()) {
        (0, Some(channel)) => channel.introduce_thread(),
        (0, None) => process::tid() as u32,
        (id, _) => id,
    }
}

/// Gives the calling thread its name in the trace now, while system calls are still allowed: the program may be about
/// to lock itself in.
pub(crate) fn introduce_thread() {
    if let Some(channel) = channel() {
        channel.introduce_thread();
    }
}

/// Says hello, maps the channel, announces all events.
fn introduce(place: &Place, filters: &mut Filters) -> Result<Link> {
    let link = Link::open(place, How::Start)?;
    let mut scratch = Scratch::new()?;
    let channel = welcome(&link, &mut scratch)?;
    CHANNEL.store((&raw const *channel).cast_mut(), Ordering::Release);
    let mut ready = Ready::default();
    for range in registry::objects() {
        announce_range(&link, &mut scratch, filters, channel, range, &mut ready)?;
    }
    settle(&link, &mut scratch, filters, channel)?;
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
    let mut guard = hold::control();
    // SAFETY: the caller's promise.
    let range = unsafe { registry::add_sites(first, end) };
    if let Some(range) = range
        && let Some((link, mut scratch, channel)) = reconnect()
    {
        let mut ready = Ready::default();
        let filters = filters(&mut guard);
        let _ = announce_range(&link, &mut scratch, filters, channel, range, &mut ready);
        let _ = settle(&link, &mut scratch, filters, channel);
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
    let mut guard = hold::control();
    if let Some((link, mut scratch, channel)) = reconnect() {
        let filters = filters(&mut guard);
        let _ = announce_one(&link, &mut scratch, filters, channel, event);
        let _ = settle(&link, &mut scratch, filters, channel);
    }
    drop(guard);
}

fn reconnect() -> Option<(Link, Scratch, &'static Writer)> {
    let (place, channel) = (place()?, channel()?);
    let link = Link::open(&place, How::Library).ok()?;
    Some((link, Scratch::new().ok()?, channel))
}

fn announce_one(
    link: &Link,
    scratch: &mut Scratch,
    filters: &mut Filters,
    channel: &'static Writer,
    event: &'static DynamicEvent,
) -> Result<()> {
    let texts = event.description.to_bytes_with_nul();
    link.send(&Message::Events { count: 1, texts }, scratch.buffers().0)?;
    for word in mote_wire::ids(ids(link, scratch, filters)?).take(1) {
        switch::assign(filters, channel, &event.event, event.description, word);
    }
    Ok(())
}

/// Waits for the tail of an `Ids`; takes in the filters that come before it.
fn ids<'s>(link: &Link, scratch: &'s mut Scratch, filters: &mut Filters) -> Result<&'s [u8]> {
    let len = loop {
        let (_, from) = scratch.buffers();
        let received = link.answer(from)?;
        match Message::decode(from.get(..received.len).unwrap_or(&[])) {
            Ok(Message::Ids(_)) => break received.len,
            Ok(Message::Filters { generation }) => filters.take_in(generation, &received.fds),
            _ => return Err(Errno(libc::EPROTO)),
        };
    };
    let (_, from) = scratch.buffers();
    match Message::decode(from.get(..len).unwrap_or(&[])) {
        Ok(Message::Ids(tail)) => Ok(tail),
        _ => Err(Errno(libc::EPROTO)),
    }
}

/// After events were announced: the filters that have come with them are for all events, and the session wants to know.
fn settle(link: &Link, scratch: &mut Scratch, filters: &mut Filters, channel: &'static Writer) -> Result<()> {
    if filters.take_change() {
        switch::decide_all(filters, channel);
    }
    filters.close_workshop();
    if filters.take_news() {
        let installed = filters.installed(switch::count(filters));
        link.send(&Message::Installed(installed), scratch.buffers().0)?;
    }
    Ok(())
}

/// Tells the session of an object's events, in as many messages as needed, then arms those it wants.
fn announce_range(
    link: &Link,
    scratch: &mut Scratch,
    filters: &mut Filters,
    channel: &'static Writer,
    range: Range,
    ready: &mut Ready,
) -> Result<()> {
    let mut rest = range.sites().peekable();
    while rest.peek().is_some() {
        let asked = rest.clone();
        let count = ask(link, scratch, &mut rest)?;
        let tail = ids(link, scratch, filters)?;
        for (site, word) in asked.take(count).zip(mote_wire::ids(tail)) {
            switch::assign(filters, channel, site.event(), site.description(), word);
        }
    }
    switch::patch(range.sites().filter(|site| site.event().is_on()), true, ready);
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

/// Takes in filters that have come on the main link, and tells the session what became of them.
pub(crate) fn install(socket: &Fd, generation: u32, fds: &[Option<Fd>]) {
    let mut guard = hold::control();
    let (Some(channel), filters) = (channel(), filters(&mut guard)) else { return };
    filters.take_in(generation, fds);
    if filters.take_change() {
        switch::decide_all(filters, channel);
    }
    filters.close_workshop();
    if filters.take_news() {
        let mut buffer = [0; 64 + mote_wire::WHY_MAX];
        let installed = Message::Installed(filters.installed(switch::count(filters)));
        if let Some(bytes) = installed.encode(&mut buffer) {
            // A session that does not listen will not be told.
            let _ = mote_sys::socket::send(socket.raw(), bytes, &[], mote_sys::socket::Wait::No);
        }
    }
    drop(guard);
}

/// Frees filters that nobody runs any more. Answers whether some are still to be waited for.
pub(crate) fn tidy() -> bool {
    filters(&mut hold::control()).table().tidy()
}

/// Switches everything off for good: the session has ended.
pub(crate) fn end() {
    let mut guard = hold::control();
    switch_off(&mut guard);
    drop(guard);
    for _ in 0..FAREWELL.1 {
        if !tidy() {
            break;
        }
        let _ = time::sleep(FAREWELL.0);
    }
}

/// Switches everything off. With the control path held.
fn switch_off(guard: &mut Control) {
    CHANNEL.store(core::ptr::null_mut(), Ordering::Release);
    switch::everything_off();
    let table = filters(guard).table();
    table.unmark();
    table.sweep();
}

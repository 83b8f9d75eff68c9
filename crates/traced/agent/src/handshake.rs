//! The conversation that makes a process part of a session: welcome, events and their ids, filters before them. With
//! the control path held.

use crate::channel::Channel;
use crate::filters::Filters;
use crate::link::Link;
use crate::registry::{self, DynamicEvent, Range, Site};
use crate::stack;
use crate::subscription::Subscription;
use crate::switch::{self, Common};
use mote_ring::Geometry;
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};
use mote_wire::{MESSAGE_MAX, Message, Ready, Whose};

/// Memory for messages, of the control path only.
pub(crate) struct Scratch(Mapping);

impl Scratch {
    pub(crate) fn new() -> Result<Scratch> {
        Mapping::private(2 * MESSAGE_MAX).map(Scratch)
    }

    /// A buffer to send from and one to receive into.
    pub(crate) fn buffers(&mut self) -> (&mut [u8], &mut [u8]) {
        // SAFETY: the mapping is private, of `2 * MESSAGE_MAX` bytes, and exclusively borrowed.
        let whole = unsafe { core::slice::from_raw_parts_mut(self.0.base(), 2 * MESSAGE_MAX) };
        whole.split_at_mut_checked(MESSAGE_MAX).unwrap_or_default()
    }
}

/// Rings that a session has sent.
pub(crate) struct Rings {
    memfd: Fd,
    whose: Whose,
    geometry: Geometry,
    /// Most bytes of a stack that go with each record.
    stack: u32,
    /// The maps that go with them.
    maps: Option<Fd>,
}

impl Rings {
    /// Maps them as the channel of the session `number`, the process's `joined`th.
    pub(crate) fn map(&self, number: usize, joined: u32) -> Result<&'static Channel> {
        Channel::map(&self.memfd, (self.whose, self.geometry, self.stack), number, joined)
    }
}

/// In a child of a process that has rings of its own: waits for other ones, and goes over to them and to the maps that
/// go with them.
pub(crate) fn fresh_rings(link: &Link, channel: &Channel, filters: &Filters) -> Result<()> {
    let mut scratch = Scratch::new()?;
    let Rings { memfd, whose, geometry, maps, .. } = rings(link, &mut scratch)?;
    maps.map_or(Ok(()), |maps| filters.go_over(&maps))?;
    // What was there is forsaken since fork.
    let _former = channel.renew(&memfd, geometry)?;
    channel.set_whose(whose);
    Ok(())
}

/// Waits for the welcome, and the rings with it.
///
/// # Errors
/// `ETIMEDOUT`; `ECONNREFUSED` when the process is not wanted; `EMFILE` when the rings' file found no descriptor.
pub(crate) fn rings(link: &Link, scratch: &mut Scratch) -> Result<Rings> {
    let (_, into) = scratch.buffers();
    let mut received = link.answer(into)?;
    let bytes = into.get(..received.len).unwrap_or(&[]);
    let Ok(Message::Welcome { whose, geometry, stack }) = Message::decode(bytes) else {
        return Err(Errno(libc::ECONNREFUSED));
    };
    let mut fds = received.fds.iter_mut().filter_map(Option::take);
    let memfd = fds.next().ok_or(Errno(libc::EMFILE))?;
    Ok(Rings { memfd, whose, geometry, stack, maps: fds.next() })
}

/// Announces all events that there are, and says when that is done.
pub(crate) fn announce_all(
    link: &Link,
    scratch: &mut Scratch,
    wants: &mut Subscription,
    common: &mut Common,
    late_ms: u32,
) -> Result<()> {
    let mut ready = Ready { late_ms, replaces: stack::replaces(), ..Ready::default() };
    for range in registry::objects() {
        announce_range(link, scratch, wants, common, range, &mut ready)?;
    }
    for event in registry::dynamic() {
        announce_dynamic(link, scratch, wants, common, event)?;
    }
    settle(wants, common, |news| link.send(news, scratch.buffers().0))?;
    link.send(&Message::Ready(ready), scratch.buffers().0)
}

/// Announces the events of an object that has come later.
pub(crate) fn announce_object(
    link: &Link,
    scratch: &mut Scratch,
    wants: &mut Subscription,
    common: &mut Common,
    range: Range,
) -> Result<()> {
    let mut ready = Ready { replaces: stack::replaces(), ..Ready::default() };
    // Whatever came of it, those that were switched on are told.
    let announced = announce_range(link, scratch, wants, common, range, &mut ready);
    let settled = settle(wants, common, |news| link.send(news, scratch.buffers().0));
    link.send(&Message::Ready(ready), scratch.buffers().0)?;
    announced.and(settled)
}

/// Announces an event without a site.
pub(crate) fn announce_one(
    link: &Link,
    scratch: &mut Scratch,
    wants: &mut Subscription,
    common: &mut Common,
    event: &'static DynamicEvent,
) -> Result<()> {
    announce_dynamic(link, scratch, wants, common, event)?;
    settle(wants, common, |news| link.send(news, scratch.buffers().0))
}

fn announce_dynamic(
    link: &Link,
    scratch: &mut Scratch,
    wants: &mut Subscription,
    common: &mut Common,
    event: &'static DynamicEvent,
) -> Result<()> {
    let texts = event.description.to_bytes_with_nul();
    link.send(&Message::Events { count: 1, has_more: false, texts }, scratch.buffers().0)?;
    for word in mote_wire::ids(ids(link, scratch, wants, common)?).take(1) {
        switch::assign(wants, common, &event.event, event.description, word);
    }
    Ok(())
}

/// Waits for the tail of an `Ids`; takes in the filters that come before it.
fn ids<'s>(
    link: &Link,
    scratch: &'s mut Scratch,
    wants: &mut Subscription,
    common: &mut Common,
) -> Result<&'s [u8]> {
    let len = loop {
        let (_, from) = scratch.buffers();
        let received = link.answer(from)?;
        match Message::decode(from.get(..received.len).unwrap_or(&[])) {
            Ok(Message::Ids(_)) => break received.len,
            Ok(Message::Filters { generation }) => wants.filters.take_in(generation, &received.fds),
            // The agent is awake.
            Ok(Message::Attend) => {}
            Ok(Message::Replaces { find }) => stack::take_replaces(find),
            Ok(Message::Cooperate { slots }) => common.take_area(link.session, slots, &received.fds),
            _ => return Err(Errno(libc::EPROTO)),
        };
    };
    let (_, from) = scratch.buffers();
    match Message::decode(from.get(..len).unwrap_or(&[])) {
        Ok(Message::Ids(tail)) => Ok(tail),
        _ => Err(Errno(libc::EPROTO)),
    }
}

/// After events were announced, or a bundle has come: filters that have come are for all events, and the session wants
/// to know.
pub(crate) fn settle(
    wants: &mut Subscription,
    common: &mut Common,
    tell: impl FnOnce(&Message<'_>) -> Result<()>,
) -> Result<()> {
    if wants.filters.take_change() {
        switch::decide_all(wants, common);
    }
    wants.filters.close_workshop();
    if wants.filters.take_news() {
        let counts = switch::count(wants);
        tell(&Message::Installed(wants.filters.installed(counts)))?;
    }
    Ok(())
}

/// Tells the session of an object's events, in as many messages as needed, then arms those it wants.
fn announce_range(
    link: &Link,
    scratch: &mut Scratch,
    wants: &mut Subscription,
    common: &mut Common,
    range: Range,
    ready: &mut Ready,
) -> Result<()> {
    // Functions that no session wants are patched when all are asked for: none of them occurs before. Other sites may
    // be on for another session, or test a byte that is on at once.
    let is_quiet = range.is_quiet();
    let mut rest = range.sites().peekable();
    while rest.peek().is_some() {
        let asked = rest.clone();
        let count = ask(link, scratch, &mut rest, is_quiet)?;
        let tail = ids(link, scratch, wants, common)?;
        for (site, word) in asked.take(count).zip(mote_wire::ids(tail)) {
            switch::assign(wants, common, site.event(), site.description(), word);
        }
    }
    common.patch(range.sites().filter(Site::is_wanted), true, ready);
    ready.sites += range.sites().count() as u32;
    Ok(())
}

/// Sends as many descriptions as fit into one message; at least one, or an error. `is_quiet`: none of them occurs
/// before all are asked for.
fn ask(
    link: &Link,
    scratch: &mut Scratch,
    sites: &mut core::iter::Peekable<impl Iterator<Item = Site>>,
    is_quiet: bool,
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
        place.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        used += text.len();
        count += 1;
        sites.next();
    }
    let texts = texts.get(..used).unwrap_or(&[]);
    let has_more = is_quiet && sites.peek().is_some();
    link.send(&Message::Events { count: count as u32, has_more, texts }, to)?;
    Ok(count)
}

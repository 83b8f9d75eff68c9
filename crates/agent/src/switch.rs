//! Switching events on and off, with or without filters. With the control path held.

use crate::event::Event;
use crate::filters::{Counts, Filters};
use crate::registry::{self, Site};
use core::ffi::CStr;
use mote_ring::Writer;
use mote_text::{Code, Edit};
use mote_wire::bundle::Fate;
use mote_wire::{ID_ON, Ready};

/// Goes by a word of `Ids`.
pub(crate) fn assign(
    filters: &mut Filters,
    channel: &'static Writer,
    event: &Event,
    description: &CStr,
    word: u32,
) {
    event.tell((word & 0xffff) as u16, word & ID_ON != 0);
    decide(filters, channel, event, description);
}

/// Switches an event as the newest bundle has it. One whose filter is refused is off.
fn decide(filters: &mut Filters, channel: &'static Writer, event: &Event, description: &CStr) {
    const UNFILTERED: *const crate::filter::Filter = core::ptr::null();
    let Some(id) = event.id() else { return };
    let filter = match filters.fate(id) {
        Fate::Unsaid => event.is_wanted().then_some(UNFILTERED),
        Fate::Off => None,
        Fate::Unfiltered => Some(UNFILTERED),
        Fate::Filtered(place) => filters.filter_for(place, description),
    };
    match filter {
        Some(filter) => {
            filters.table().mark(filter);
            event.on(channel, filter);
        }
        None if event.is_on() => event.off(),
        None => {}
    }
}

/// Switches all events as the newest bundle has them, and retires the filters that none leads to any more.
pub(crate) fn decide_all(filters: &mut Filters, channel: &'static Writer) {
    filters.table().unmark();
    for site in registry::objects().flat_map(registry::Range::sites) {
        decide(filters, channel, site.event(), site.description());
    }
    for event in registry::dynamic() {
        decide(filters, channel, &event.event, event.description);
    }
    filters.table().sweep();
    // How that went is told at the first time, by `Ready`.
    let mut ready = Ready::default();
    for range in registry::objects() {
        patch(range.sites().filter(|site| site.event().is_on()), true, &mut ready);
        patch(range.sites().filter(|site| !site.event().is_on()), false, &mut ready);
    }
}

/// Counts events by what became of their filters.
pub(crate) fn count(filters: &Filters) -> Counts {
    let mut counts = Counts::default();
    // An event has many sites, and many events the same id.
    let mut seen = [0u64; (1 << 16) / 64];
    let sites = registry::objects().flat_map(registry::Range::sites).map(|site| site.event());
    for event in sites.chain(registry::dynamic().map(|event| &event.event)) {
        let Some(id) = event.id() else { continue };
        let (word, bit) = (usize::from(id) / 64, 1 << (id % 64));
        let Some(word) = seen.get_mut(word).filter(|word| **word & bit == 0) else { continue };
        *word |= bit;
        let filter = event.filter();
        if !filter.is_null() {
            counts.running += 1;
            counts.interpreted += u32::from(filters.is_interpreted(filter));
        } else if matches!(filters.fate(id), Fate::Filtered(_)) {
            counts.refused += 1;
        }
    }
    counts
}

/// Patches sites on or off and notes how that went.
pub(crate) fn patch(sites: impl Iterator<Item = Site>, on: bool, ready: &mut Ready) {
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

/// Switches everything off.
pub(crate) fn everything_off() {
    let mut ready = Ready::default();
    for range in registry::objects() {
        patch(range.sites(), false, &mut ready);
        range.sites().for_each(|site| site.event().off());
    }
    registry::dynamic().for_each(|event| event.event.off());
}

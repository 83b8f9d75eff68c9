//! The sites, events and switches that this copy of the library knows.
//!
//! Every object that links mote statically has a copy of its own, and registers with the session by itself; objects
//! that share `libmote.so` add their sites here. Changed under `session`'s lock only.

use crate::event::Event;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};
use mote_layout::site::{Of, RECORD_BYTES, SiteAddresses, SiteRecord};
use mote_patch::{Code, Edit};

/// Most objects that share one copy of the library.
const OBJECTS_MAX: usize = 256;

/// The site records of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    first: *const SiteRecord,
    count: usize,
}

struct Slot {
    first: AtomicPtr<SiteRecord>,
    end: AtomicPtr<SiteRecord>,
}

static OBJECTS: [Slot; OBJECTS_MAX] = [const {
    Slot { first: AtomicPtr::new(core::ptr::null_mut()), end: AtomicPtr::new(core::ptr::null_mut()) }
}; OBJECTS_MAX];

/// An event without a site, made at run time.
#[derive(Debug)]
pub struct DynamicEvent {
    /// Its state.
    pub event: Event,
    /// Its description (`mote_layout::describe`).
    pub description: &'static CStr,
    next: AtomicPtr<DynamicEvent>,
}

impl DynamicEvent {
    /// An event that is off.
    pub const fn new(description: &'static CStr) -> DynamicEvent {
        DynamicEvent { event: Event::new(), description, next: AtomicPtr::new(core::ptr::null_mut()) }
    }
}

static DYNAMIC: AtomicPtr<DynamicEvent> = AtomicPtr::new(core::ptr::null_mut());

/// One site, with addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site(SiteAddresses);

impl Site {
    /// What has it on or off; `None` when it tests a byte instead of being patched.
    pub(crate) fn edit(&self, on: bool) -> Option<Edit> {
        edit(&self.0, on)
    }

    /// The event's state.
    pub(crate) fn event(&self) -> &'static Event {
        // SAFETY: records are made by the macros and the header only, which point them to a static `Event`;
        // `add_sites` has its caller's promise that they are those of a mapped object.
        unsafe { &*core::ptr::with_exposed_provenance::<Event>(self.0.event as usize) }
    }

    /// The event's description.
    pub(crate) fn description(&self) -> &'static CStr {
        // SAFETY: as in `event`; descriptions end with a NUL.
        unsafe { CStr::from_ptr(core::ptr::with_exposed_provenance(self.0.description as usize)) }
    }
}

/// The site of a switch, with addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwitchSite(SiteAddresses);

impl SwitchSite {
    /// What has it on or off; `None` when it tests a byte instead of being patched.
    pub(crate) fn edit(&self, on: bool) -> Option<Edit> {
        edit(&self.0, on)
    }

    /// Address of the switch.
    pub(crate) fn switch(&self) -> usize {
        self.0.event as usize
    }
}

fn edit(site: &SiteAddresses, on: bool) -> Option<Edit> {
    let (code, target) = site.code?;
    let to = if on { Code::Jump(target as usize) } else { Code::Nop };
    Some(Edit { addr: code as usize, to })
}

impl Range {
    /// The sites of events.
    pub(crate) fn sites(self) -> impl Iterator<Item = Site> + Clone {
        self.all(Of::Event).map(Site)
    }

    /// The sites of switches.
    pub(crate) fn switch_sites(self) -> impl Iterator<Item = SwitchSite> + Clone {
        self.all(Of::Switch).map(SwitchSite)
    }

    fn all(self, of: Of) -> impl Iterator<Item = SiteAddresses> + Clone {
        (0..self.count).filter_map(move |index| {
            let at = self.first.wrapping_add(index);
            // SAFETY: `index` is inside the section that `add_sites` was promised.
            let record = unsafe { at.read_unaligned() };
            (record.of() == of).then(|| record.resolve(at.expose_provenance() as u64))
        })
    }
}

/// Adds an object's sites; `None` when it is known already, has none, or there are too many objects.
///
/// # Safety
/// `first..end` must be the section of site records of an object, and stay mapped until `remove_sites`.
pub(crate) unsafe fn add_sites(first: *const SiteRecord, end: *const SiteRecord) -> Option<Range> {
    let count = (end as usize).checked_sub(first as usize)? / RECORD_BYTES;
    let known = OBJECTS.iter().any(|slot| core::ptr::eq(slot.first.load(Ordering::Acquire), first));
    if count == 0 || known {
        return None;
    }
    let free = OBJECTS.iter().find(|slot| slot.first.load(Ordering::Acquire).is_null())?;
    free.end.store(end.cast_mut(), Ordering::Release);
    free.first.store(first.cast_mut(), Ordering::Release);
    Some(Range { first, count })
}

/// The sites of the object whose section begins at `first`, if it is known.
pub(crate) fn object(first: *const SiteRecord) -> Option<Range> {
    objects().find(|range| core::ptr::eq(range.first, first))
}

/// Forgets an object's sites.
pub(crate) fn remove_sites(first: *const SiteRecord) {
    for slot in OBJECTS.iter().filter(|slot| core::ptr::eq(slot.first.load(Ordering::Acquire), first)) {
        slot.first.store(core::ptr::null_mut(), Ordering::Release);
    }
}

/// All objects' sites.
pub(crate) fn objects() -> impl Iterator<Item = Range> + Clone {
    OBJECTS.iter().filter_map(|slot| {
        let first = slot.first.load(Ordering::Acquire).cast_const();
        let end = slot.end.load(Ordering::Acquire) as usize;
        (!first.is_null()).then(|| Range { first, count: (end - first as usize) / RECORD_BYTES })
    })
}

/// Adds an event without a site.
pub(crate) fn add_dynamic(event: &'static DynamicEvent) {
    let mut head = DYNAMIC.load(Ordering::Acquire);
    loop {
        event.next.store(head, Ordering::Relaxed);
        let new = (&raw const *event).cast_mut();
        match DYNAMIC.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// All events without a site.
pub(crate) fn dynamic() -> impl Iterator<Item = &'static DynamicEvent> {
    let mut next = DYNAMIC.load(Ordering::Acquire).cast_const();
    core::iter::from_fn(move || {
        // SAFETY: the list holds only `&'static` references, never removed.
        let event = unsafe { next.as_ref() }?;
        next = event.next.load(Ordering::Acquire);
        Some(event)
    })
}

//! The sites, events and switches that this copy of the library knows.
//!
//! Every object that links mote statically has a copy of its own, and registers with the session by itself; objects
//! that share `libmote.so` add their sites here. A recorder may add functions of the program, which have none. Changed
//! under `session`'s lock only.

use crate::counter::Counter;
use crate::event::Event;
use crate::quota::Quota;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use mote_layout::functions::VALUE_BYTES;
use mote_layout::site::{Of, RECORD_BYTES, SiteAddresses, SiteRecord};
use mote_patch::{Code, Edit, Place};
use mote_sync::{List, Listed, Next};

/// Most objects that share one copy of the library.
const OBJECTS_MAX: usize = 256;

/// Most times that functions are added before they are retired.
const FUNCTIONS_MAX: usize = 64;

/// The sites of one object, or functions that were added together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Range {
    /// Site records.
    Carried {
        /// The first record.
        first: *const SiteRecord,
        /// How many they are.
        count: usize,
    },
    /// Functions of the program that a recorder has chosen.
    Functions(&'static [Function]),
}

/// A function of the program that has an event of its own: its place is where the site would be.
#[derive(Debug)]
pub struct Function {
    /// The event's state.
    pub event: Event,
    /// Its description (`mote_layout::describe`).
    pub description: &'static CStr,
    /// Where it is patched.
    pub address: usize,
    /// The bytes of the place, without and with the jump to its probe.
    pub place: Place,
    /// What its event has besides its duration (`mote_layout::functions::Value`): for its sessions.
    pub values: &'static [[u8; VALUE_BYTES]],
    /// Which calls are wanted: inside of what calls.
    pub callers: Callers,
    /// Another description has taken its place.
    pub is_replaced: AtomicBool,
    /// How often its calls may be recorded, where that is limited.
    pub quota: Quota,
    /// Where its calls are counted, if they are counted and not recorded: it stays for good. Changes only while the
    /// event is off.
    pub counter: AtomicPtr<Counter>,
}

/// What calls of a function have to do with those of callers, of which each set is a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// Calls are wanted inside of calls of these only; 0: anywhere.
    pub below: u64,
    /// The set that the function is a caller of; 0 for none.
    pub of: u64,
}

/// What becomes of a function that was added before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was not added, or is replaced.
    No,
    /// It stays as it is, and does what is wanted.
    Yes,
    /// It stays as it is, as it is on for a session that has its calls counted: others get nothing of them.
    Busy,
}

/// Functions that were added together.
struct Added {
    first: AtomicPtr<Function>,
    count: AtomicUsize,
}

static FUNCTIONS: [Added; FUNCTIONS_MAX] =
    [const { Added { first: AtomicPtr::new(core::ptr::null_mut()), count: AtomicUsize::new(0) } };
        FUNCTIONS_MAX];

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
    next: Next<DynamicEvent>,
}

impl DynamicEvent {
    /// An event that is off.
    pub const fn new(description: &'static CStr) -> DynamicEvent {
        DynamicEvent { event: Event::new(), description, next: Next::new() }
    }
}

impl Listed for DynamicEvent {
    fn next(&self) -> &Next<DynamicEvent> {
        &self.next
    }
}

static DYNAMIC: List<DynamicEvent> = List::new();

/// One site.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site {
    /// With the addresses of its record.
    Carried(SiteAddresses),
    /// A function.
    Function(&'static Function),
}

impl Site {
    /// What has it on or off; `None` when it tests a byte instead of being patched.
    pub(crate) fn edit(&self, on: bool) -> Option<Edit> {
        match self {
            Site::Carried(record) => edit(record, on),
            Site::Function(function) => {
                let to = if on { Code::On(function.place) } else { Code::Off(function.place) };
                Some(Edit { addr: function.address, to })
            }
        }
    }

    /// Whether it is to be on. Out of line: every program carries this code, and has several lists of sites.
    #[inline(never)]
    pub(crate) fn is_wanted(&self) -> bool {
        let is_paused = match self {
            Site::Carried(_) => false,
            Site::Function(function) => function.quota.is_paused.load(Ordering::Relaxed),
        };
        self.event().is_on() && !is_paused
    }

    /// The event's state.
    pub(crate) fn event(&self) -> &'static Event {
        match self {
            // SAFETY: records are made by the macros and the header only, which point them to a static `Event`;
            // `add_sites` has its caller's promise that they are those of a mapped object.
            Site::Carried(record) => unsafe {
                &*core::ptr::with_exposed_provenance::<Event>(record.event as usize)
            },
            Site::Function(function) => &function.event,
        }
    }

    /// The event's description.
    pub(crate) fn description(&self) -> &'static CStr {
        match self {
            // SAFETY: as in `event`; descriptions end with a NUL.
            Site::Carried(record) => unsafe {
                CStr::from_ptr(core::ptr::with_exposed_provenance(record.description as usize))
            },
            Site::Function(function) => function.description,
        }
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
    /// Whether they are functions of the program that no session wants.
    pub(crate) fn is_quiet(self) -> bool {
        matches!(self, Range::Functions(functions) if functions.iter().all(|one| !one.event.is_on()))
    }

    /// The sites of events.
    pub(crate) fn sites(self) -> impl Iterator<Item = Site> + Clone {
        let functions = if let Range::Functions(functions) = self { functions } else { &[] };
        let functions = functions.iter().filter(|function| !function.is_replaced.load(Ordering::Relaxed));
        self.all(Of::Event).map(Site::Carried).chain(functions.map(Site::Function))
    }

    /// The sites of switches.
    pub(crate) fn switch_sites(self) -> impl Iterator<Item = SwitchSite> + Clone {
        self.all(Of::Switch).map(SwitchSite)
    }

    fn all(self, of: Of) -> impl Iterator<Item = SiteAddresses> + Clone {
        let (first, count) = match self {
            Range::Carried { first, count } => (first, count),
            Range::Functions(_) => (core::ptr::null(), 0),
        };
        (0..count).filter_map(move |index| {
            let at = first.wrapping_add(index);
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
    Some(Range::Carried { first, count })
}

/// Adds functions, whose memory stays for good; `None` when there are none, or were added too often.
pub(crate) fn add_functions(functions: &'static [Function]) -> Option<Range> {
    let free = FUNCTIONS.iter().find(|added| added.first.load(Ordering::Acquire).is_null())?;
    if functions.is_empty() {
        return None;
    }
    free.count.store(functions.len(), Ordering::Release);
    free.first.store(functions.as_ptr().cast_mut(), Ordering::Release);
    Some(Range::Functions(functions))
}

/// Whether no function is on, and `is_off` says the same of each.
pub(crate) fn are_quiet(is_off: impl Fn(&Function) -> bool) -> bool {
    functions().all(|function| !function.event.is_on() && is_off(function))
}

/// Forgets all functions: they may be added anew.
pub(crate) fn remove_functions() {
    functions().for_each(|function| function.is_replaced.store(true, Ordering::Relaxed));
    FUNCTIONS.iter().for_each(|added| added.first.store(core::ptr::null_mut(), Ordering::Release));
}

/// What becomes of the function at `address` that was added before: it stays if its event is on, or if it is the same.
/// If not, it is replaced from now on. One whose calls are counted counts them in `counter` from now on.
pub(crate) fn keeps_function(
    address: usize,
    description: &CStr,
    (values, callers): (&[[u8; VALUE_BYTES]], Callers),
    counter: *mut Counter,
) -> Kept {
    let mut there = functions()
        .filter(|function| function.address == address && !function.is_replaced.load(Ordering::Relaxed));
    let kept = there.find_map(|function| {
        let is_counted = !function.counter.load(Ordering::Relaxed).is_null();
        if function.event.is_on() {
            return Some(if is_counted { Kept::Busy } else { Kept::Yes });
        }
        // What is counted must be as much, as the code is by that.
        let is_same = function.description == description
            && function.callers == callers
            && (!is_counted || function.values == values);
        function.is_replaced.store(!is_same, Ordering::Relaxed);
        if is_same && is_counted {
            function.counter.store(counter, Ordering::Release);
        }
        is_same.then_some(Kept::Yes)
    });
    kept.unwrap_or(Kept::No)
}

/// The functions that were added.
pub(crate) fn functions() -> impl Iterator<Item = &'static Function> {
    objects().flat_map(|range| if let Range::Functions(functions) = range { functions } else { &[] })
}

/// The sites of the object whose section begins at `first`, if it is known.
pub(crate) fn object(first: *const SiteRecord) -> Option<Range> {
    carried()
        .find(|range| matches!(range, Range::Carried { first: known, .. } if core::ptr::eq(*known, first)))
}

/// Forgets an object's sites.
pub(crate) fn remove_sites(first: *const SiteRecord) {
    for slot in OBJECTS.iter().filter(|slot| core::ptr::eq(slot.first.load(Ordering::Acquire), first)) {
        slot.first.store(core::ptr::null_mut(), Ordering::Release);
    }
}

/// All objects' sites, and functions.
pub(crate) fn objects() -> impl Iterator<Item = Range> + Clone {
    carried().chain(FUNCTIONS.iter().filter_map(|added| {
        let first = added.first.load(Ordering::Acquire).cast_const();
        let count = added.count.load(Ordering::Acquire);
        // SAFETY: `add_functions` has put a `'static` slice there, its length first; both under the same lock.
        (!first.is_null()).then(|| Range::Functions(unsafe { core::slice::from_raw_parts(first, count) }))
    }))
}

fn carried() -> impl Iterator<Item = Range> + Clone {
    OBJECTS.iter().filter_map(|slot| {
        let first = slot.first.load(Ordering::Acquire).cast_const();
        let end = slot.end.load(Ordering::Acquire) as usize;
        (!first.is_null()).then(|| Range::Carried { first, count: (end - first as usize) / RECORD_BYTES })
    })
}

/// Adds an event without a site.
pub(crate) fn add_dynamic(event: &'static DynamicEvent) {
    DYNAMIC.add(event);
}

/// All events without a site.
pub(crate) fn dynamic() -> impl Iterator<Item = &'static DynamicEvent> {
    DYNAMIC.iter()
}

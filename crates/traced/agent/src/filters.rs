//! The newest bundle of a session: what is to become of each event, and which filters it has.
//!
//! What the session wants is checked here and in `loader`, and nothing of it believed. A filter that is refused leaves
//! its event off.

use crate::beginning::Beginning;
use crate::filter::Filter;
use crate::loader::{Loaded, Loader, Table};
use core::ffi::CStr;
use core::fmt::Write;
use mote_sys::fd::{self, Fd};
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};
use mote_wire::bundle::{BYTES_MAX, Disposition, Received};
use mote_wire::{Installed, WHY_MAX};

/// The newest bundle, in memory of our own.
struct Copy {
    /// Points into `memory`.
    received: Received<'static>,
    _memory: Mapping,
}

/// All that is known of the filters of one session. Behind the control path (`hold`).
pub(crate) struct Filters {
    /// The session's number.
    session: usize,
    generation: u32,
    bundle: Option<Copy>,
    /// The newest bundle was not understood.
    failed: bool,
    loader: Loader,
    why: Why,
    /// A bundle has come that events do not go by yet.
    changed: bool,
    /// Something was loaded or refused that the session was not told of.
    news: bool,
}

/// Why the first filter of a bundle was refused.
struct Why(Beginning<WHY_MAX>);

impl Filters {
    /// None, of the session of this number. All of it are zeros for number 0.
    pub(crate) const fn new(session: usize) -> Filters {
        Filters {
            session,
            generation: 0,
            bundle: None,
            failed: false,
            loader: Loader::new(session),
            why: Why(Beginning::new()),
            changed: false,
            news: false,
        }
    }

    /// Takes in a bundle that came with `generation`, unless it is no newer than the one that is here. Events do not
    /// change by that alone.
    pub(crate) fn take_in(&mut self, generation: u32, fds: &[Option<Fd>]) {
        // The numbers may wrap around.
        if self.bundle.is_some() && generation.wrapping_sub(self.generation) as i32 <= 0 {
            return;
        }
        self.generation = generation;
        self.why.0.clear();
        self.changed = true;
        self.news = true;
        self.bundle = match self.open(fds) {
            Ok(copy) => Some(copy),
            Err(errno) => {
                self.why.say(format_args!("the filters were not understood: error {}", errno.0));
                None
            }
        };
        self.failed = self.bundle.is_none();
    }

    fn open(&mut self, fds: &[Option<Fd>]) -> Result<Copy> {
        let mut fds = fds.iter().flatten();
        let (Some(maps), Some(bundle)) = (fds.next(), fds.next()) else { return Err(Errno(libc::EBADF)) };
        let copy = Copy::of(bundle)?;
        self.loader.prepare(&copy.received, maps)?;
        Ok(copy)
    }

    /// What is to become of the event of this id. When a bundle was not understood nothing is to be on.
    pub(crate) fn disposition(&self, id: u16) -> Disposition {
        match &self.bundle {
            Some(copy) => copy.received.disposition(u32::from(id)),
            None if self.failed => Disposition::Off,
            None => Disposition::Unsaid,
        }
    }

    /// The filter for an event with this description, loaded if need be; `None` when it is refused.
    pub(crate) fn filter_for(&mut self, place: u32, description: &CStr) -> Option<*const Filter> {
        let copy = self.bundle.as_ref()?;
        match self.loader.load(&copy.received, place, description) {
            Ok(Loaded { filter, is_new }) => {
                self.news |= is_new;
                Some(filter)
            }
            Err(refused) => {
                self.news = true;
                self.why.say(format_args!("{}: {refused}", Name(description)));
                None
            }
        }
    }

    /// Says that an event of this session cannot be recorded for want of memory.
    pub(crate) fn no_room(&mut self, description: &CStr) {
        self.news = true;
        let name = Name(description);
        self.why.say(format_args!("{name}: no memory to record it for another session"));
    }

    /// Lets the memory go that filters share with others: what they keep there is kept for no reader from now on. For a
    /// child of fork whose parent's it is.
    ///
    /// # Errors
    /// As [`Loader::forsake`].
    pub(crate) fn forsake(&self) -> Result<()> {
        self.loader.forsake()
    }

    /// Goes over to other memory to be shared with others.
    ///
    /// # Errors
    /// As [`Loader::go_over`].
    pub(crate) fn go_over(&self, memfd: &Fd) -> Result<()> {
        self.loader.go_over(memfd)
    }

    /// Forgets all of it and unmaps the maps, when the session has ended.
    ///
    /// # Safety
    /// No filter is loaded, retired ones included: the last [`Table::tidy`] has said so.
    pub(crate) unsafe fn forget(&mut self) {
        // SAFETY: the caller's promise: no program is there to follow them.
        unsafe { self.loader.unmap() };
        *self = Filters::new(self.session);
    }

    /// The table of loaded filters.
    pub(crate) fn table(&mut self) -> &mut Table {
        self.loader.table()
    }

    /// Gives back what is needed only while filters are made.
    pub(crate) fn close_workshop(&mut self) {
        self.loader.close_workshop();
    }

    /// Whether events are to be decided about anew; not any more after this.
    pub(crate) fn take_change(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Whether there is something to tell the session; not any more after this.
    pub(crate) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    /// The message about it.
    pub(crate) fn installed(&self, counts: Counts) -> Installed<'_> {
        let Counts { running, interpreted, refused } = counts;
        Installed { generation: self.generation, running, interpreted, refused, why: self.why.0.bytes() }
    }

    /// Whether the filter there is interpreted.
    pub(crate) fn is_interpreted(&self, filter: *const Filter) -> bool {
        self.loader.is_interpreted(filter)
    }
}

/// How many events have a filter, an interpreted one, a refused one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) running: u32,
    pub(crate) interpreted: u32,
    pub(crate) refused: u32,
}

impl Copy {
    /// Reads a bundle into memory of our own, and decodes it there.
    fn of(file: &Fd) -> Result<Copy> {
        let size = fd::identity(file.raw())?.size;
        if size == 0 || size > BYTES_MAX {
            return Err(Errno(libc::EFBIG));
        }
        let memory = Mapping::private(size as usize)?;
        // SAFETY: fresh private memory of that size, which no other code has the address of.
        let bytes = unsafe { core::slice::from_raw_parts_mut(memory.base(), size as usize) };
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match fd::read_at(file, rest, read as u64)? {
                0 => return Err(Errno(libc::EIO)),
                more => read += more,
            }
        }
        // SAFETY: as above; it is not written any more, and lives as long as `Copy`, which gives it out for that time
        // only.
        let bytes: &'static [u8] = unsafe { core::slice::from_raw_parts(memory.base(), size as usize) };
        let received = Received::decode(bytes).map_err(|_| Errno(libc::EINVAL))?;
        Ok(Copy { received, _memory: memory })
    }
}

/// `provider:name` of a description: its second line.
struct Name<'a>(&'a CStr);

impl core::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let line = self.0.to_bytes().split(|byte| *byte == b'\n').nth(1).unwrap_or(b"?");
        f.write_str(core::str::from_utf8(line).unwrap_or("?"))
    }
}

impl Why {
    /// Notes a reason, if it is the first.
    fn say(&mut self, reason: core::fmt::Arguments<'_>) {
        if self.0.is_empty() {
            // What does not fit is cut.
            let _ = self.0.write_fmt(reason);
        }
    }
}

//! From a bundle to filters that run: what the session wants is checked here, and nothing of it believed.
//!
//! A program is verified for the description of the event that it is for, with the maps of the session and the helpers
//! of this process. What is refused leaves its event off.

use crate::filter::{Filter, How};
use crate::growing::Growing;
use crate::helpers;
use crate::maps::Maps;
use crate::table::Table;
use core::ffi::CStr;
use core::fmt::Write;
use mote_bpf::environment::{Entry, INSNS_MAX, STEPS_MAX};
use mote_bpf::{Environment, Insn, Word, verify};
use mote_layout::cooperation::READABLE_BYTES;
use mote_layout::{context, parse};
use mote_rcu::library;
use mote_sys::fd::{self, Fd};
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};
use mote_vm::{Engine, Program, Setup};
use mote_wire::bundle::{BYTES_MAX, Disposition, Received};
use mote_wire::{Installed, WHY_MAX};

/// Most words of an event that can have a filter.
const WORDS_MAX: usize = 4096;

/// The newest bundle, in memory of our own.
struct Copy {
    /// Points into `memory`.
    received: Received<'static>,
    _memory: Mapping,
}

/// What a filter is made in; large, so that it is there only while filters are made.
struct Workshop {
    room: mote_vm::WorkspaceGuard,
    insns: Growing<Insn, INSNS_MAX>,
    words: Growing<Word, WORDS_MAX>,
}

/// All that is known of the filters of one session. Behind the control path (`hold`).
pub(crate) struct Filters {
    /// The session's number.
    session: usize,
    generation: u32,
    bundle: Option<Copy>,
    /// The newest bundle was not understood.
    failed: bool,
    maps: Maps,
    table: Table,
    workshop: Option<Workshop>,
    why: Why,
    /// A bundle has come that events do not go by yet.
    changed: bool,
    /// Something was loaded or refused that the session was not told of.
    news: bool,
}

/// Why the first filter of a bundle was refused.
struct Why {
    text: [u8; WHY_MAX],
    len: usize,
}

impl Filters {
    /// None, of the session of this number. All of it are zeros for number 0.
    pub(crate) const fn new(session: usize) -> Filters {
        Filters {
            session,
            generation: 0,
            bundle: None,
            failed: false,
            maps: Maps::new(),
            table: Table::new(),
            workshop: None,
            why: Why { text: [0; WHY_MAX], len: 0 },
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
        self.why.len = 0;
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
        library::prepare();
        helpers::note_executable();
        self.maps.extend(self.session, &copy.received, maps)?;
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
        let (name, refused) = match self.load(place, description) {
            Ok(filter) => return Some(filter),
            Err(refused) => (Name(description), refused),
        };
        self.news = true;
        match refused {
            Refused::Description => self.why.say(format_args!("{name}: its description has too many fields")),
            Refused::Program(why) => self.why.say(format_args!("{name}: {why}")),
            Refused::Load(why) => self.why.say(format_args!("{name}: {why}")),
            Refused::System(errno) => {
                self.why.say(format_args!("{name}: no room for its filter (error {})", errno.0))
            }
        }
        None
    }

    fn load(&mut self, place: u32, description: &CStr) -> core::result::Result<*const Filter, Refused> {
        let Some(copy) = &self.bundle else { return Err(Refused::Description) };
        let program = copy.received.program(place).ok_or(Refused::Description)?;
        if self.workshop.is_none() {
            let room = mote_vm::workspace()?;
            self.workshop = Some(Workshop { room, insns: Growing::new(), words: Growing::new() });
        }
        let Some(workshop) = &mut self.workshop else { return Err(Refused::Description) };
        let description = parse::parse(description.to_bytes_with_nul()).map_err(|_| Refused::Description)?;
        workshop.words.clear();
        for word in context::words(&description) {
            workshop.words.push(word).map_err(|_| Refused::Description)?;
        }
        if let Some(known) = self.table.find(program.serial, workshop.words.all()) {
            return Ok(known);
        }
        workshop.insns.clear();
        for insn in program.insns {
            workshop.insns.push(insn)?;
        }
        let environment = Environment {
            entry: Entry::Context(workshop.words.all()),
            maps: self.maps.shapes(),
            helpers: mote_bpf::helper::TRACER,
            steps_max: STEPS_MAX,
        };
        let state = READABLE_BYTES as u32;
        let (verified, reads_state) =
            verify::verify_traced(workshop.insns.all(), &environment, state, &mut workshop.room)
                .map_err(Refused::Program)?;
        let helpers = helpers::of(self.session).ok_or(Errno(libc::EINVAL))?;
        let setup = Setup {
            maps: self.maps.maps(),
            helpers: &helpers.plain,
            faulting: &helpers.faulting,
            ..Setup::default()
        };
        let loaded = Program::load(&verified, &setup).map_err(Refused::Load)?;
        let how = How { keeps_on_fault: program.keeps_on_fault, reads_state };
        let filter = Filter::new(loaded, verified.insns(), workshop.words.all(), how);
        self.news = true;
        Ok(self.table.add(program.serial, filter)?)
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
    /// As [`Maps::forsake`].
    pub(crate) fn forsake(&self) -> Result<()> {
        self.maps.forsake(self.session)
    }

    /// Goes over to other memory to be shared with others.
    ///
    /// # Errors
    /// As [`Maps::go_over`].
    pub(crate) fn go_over(&self, memfd: &Fd) -> Result<()> {
        self.maps.go_over(self.session, memfd)
    }

    /// Forgets all of it and unmaps the maps, when the session has ended.
    ///
    /// # Safety
    /// No filter is loaded, retired ones included: the last [`Table::tidy`] has said so.
    pub(crate) unsafe fn forget(&mut self) {
        // SAFETY: the caller's promise: no program is there to follow them.
        unsafe { self.maps.unmap() };
        *self = Filters::new(self.session);
    }

    /// The table of loaded filters.
    pub(crate) fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Gives back what is needed only while filters are made.
    pub(crate) fn close_workshop(&mut self) {
        self.workshop = None;
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
        let why = self.why.text.get(..self.why.len).unwrap_or(&[]);
        Installed { generation: self.generation, running, interpreted, refused, why }
    }

    /// Whether the filter there is interpreted.
    pub(crate) fn is_interpreted(&self, filter: *const Filter) -> bool {
        self.table.engine(filter) == Some(Engine::Interpreter)
    }
}

/// How many events have a filter, an interpreted one, a refused one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) running: u32,
    pub(crate) interpreted: u32,
    pub(crate) refused: u32,
}

enum Refused {
    Description,
    Program(mote_bpf::verify::Rejection),
    Load(mote_vm::LoadError),
    System(Errno),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused::System(errno)
    }
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
        if self.len == 0 {
            // What does not fit is cut.
            let _ = self.write_fmt(reason);
        }
    }
}

impl Write for Why {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let rest = self.text.get_mut(self.len..).unwrap_or(&mut []);
        let mut fits = text.len().min(rest.len());
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        let (Some(to), Some(from)) = (rest.get_mut(..fits), text.as_bytes().get(..fits)) else {
            return Err(core::fmt::Error);
        };
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        self.len += fits;
        if fits == text.len() { Ok(()) } else { Err(core::fmt::Error) }
    }
}

//! From programs of a bundle to filters that run.
//!
//! A program is verified for the description of the event that it is for, with the maps of the session and the helpers
//! of this process. Nothing of it is believed.

use crate::filter::{Engine, Filter, How};
use crate::growing::Growing;
use crate::helpers;
use crate::maps::Maps;
pub(crate) use crate::table::Table;
use core::ffi::CStr;
use mote_bpf::environment::{Entry, INSNS_MAX, STEPS_MAX};
use mote_bpf::{Environment, Insn, Word, verify};
use mote_layout::cooperation::READABLE_BYTES;
use mote_layout::tracer;
use mote_layout::{context, parse};
use mote_rcu::library;
use mote_sys::fd::Fd;
use mote_sys::{Errno, Result};
use mote_vm::{Program, Setup};
use mote_wire::bundle::Received;

/// Most words of an event that can have a filter.
const WORDS_MAX: usize = 4096;

/// What a filter is made in; large, so that it is there only while filters are made.
struct Workshop {
    room: mote_vm::WorkspaceGuard,
    insns: Growing<Insn, INSNS_MAX>,
    words: Growing<Word, WORDS_MAX>,
}

/// What filters of one session are made with, and what was made. Behind the control path (`hold`).
pub(crate) struct Loader {
    /// The session's number.
    session: usize,
    maps: Maps,
    table: Table,
    workshop: Option<Workshop>,
}

/// A filter, and whether it was made just now.
pub(crate) struct Loaded {
    pub(crate) filter: *const Filter,
    pub(crate) is_new: bool,
}

/// Why there is no filter.
pub(crate) enum Refused {
    Description,
    Program(verify::Rejection),
    Load(mote_vm::LoadError),
    System(Errno),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused::System(errno)
    }
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Refused::Description => f.write_str("its description has too many fields"),
            Refused::Program(why) => why.fmt(f),
            Refused::Load(why) => why.fmt(f),
            Refused::System(errno) => write!(f, "no room for its filter (error {})", errno.0),
        }
    }
}

impl Loader {
    /// With nothing, of the session of this number. All of it are zeros for number 0.
    pub(crate) const fn new(session: usize) -> Loader {
        Loader { session, maps: Maps::new(), table: Table::new(), workshop: None }
    }

    /// Prepares for the programs of a bundle: maps what they share with the session.
    ///
    /// # Errors
    /// As [`Maps::extend`].
    pub(crate) fn prepare(&mut self, bundle: &Received<'_>, maps: &Fd) -> Result<()> {
        library::prepare();
        helpers::note_executable();
        self.maps.extend(self.session, bundle, maps)
    }

    /// The filter at a place of the bundle, for an event with this description; made if need be.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn load(
        &mut self,
        bundle: &Received<'_>,
        place: u32,
        description: &CStr,
    ) -> core::result::Result<Loaded, Refused> {
        let program = bundle.program(place).ok_or(Refused::Description)?;
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
        if let Some(filter) = self.table.find(program.serial, workshop.words.all()) {
            return Ok(Loaded { filter, is_new: false });
        }
        workshop.insns.clear();
        for insn in program.insns {
            workshop.insns.push(insn)?;
        }
        let environment = Environment {
            entry: Entry::Context(workshop.words.all()),
            maps: self.maps.shapes(),
            helpers: tracer::HELPERS,
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
        Ok(Loaded { filter: self.table.add(program.serial, filter)?, is_new: true })
    }

    /// Lets the memory go that filters share with others.
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

    /// Unmaps the maps.
    ///
    /// # Safety
    /// As [`Maps::unmap`].
    pub(crate) unsafe fn unmap(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { self.maps.unmap() };
    }

    /// The table of loaded filters.
    pub(crate) fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Gives back what is needed only while filters are made.
    pub(crate) fn close_workshop(&mut self) {
        self.workshop = None;
    }

    /// Whether the filter there is interpreted.
    pub(crate) fn is_interpreted(&self, filter: *const Filter) -> bool {
        self.table.engine(filter) == Some(Engine::Interpreter)
    }
}

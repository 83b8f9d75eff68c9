//! A descriptor that a process makes for the recorder, by a system call; it keeps none.
//!
//! ```text
//! recorder                                             process
//! writes code behind the end of some binary's code
//! sends a thread there that waits, as for a join, or
//! leads one through it that runs                       makes the descriptor; waits, for a second at most
//! takes the descriptor over (pidfd_getfd(2))
//! says that the thread may go on                       makes the calls of a list, closes it, goes back to where it was
//! takes the code away
//! ```
//! The thread takes no lock and uses no memory but its stack, so that any may be sent, also one that is in the middle
//! of its allocator. A recorder that is killed at any step leaves the process running, and what it has watched as it
//! was.

use crate::arch::descriptor as code;
use crate::error::Error;
use crate::image::{self, Room};
use crate::placed::Placed;
use crate::shared::descriptor::{self, Step};
use crate::stop::Waiting;
use crate::target::{Patience, Target, errno, fresh_number, take_back};
use crate::thread::Call;
use mote_layout::join::RESTART_BYTES;
use mote_symbol::mapped;
use mote_sys::fd::{self, Fd};
use mote_sys::{Errno, process};
use std::time::Duration;

/// How long a thread that waits is looked for, before one that runs is led there.
const PREFER: Duration = Duration::from_millis(20);
/// How long the thread may take to come there, and to make it.
const MAKING: Duration = Duration::from_secs(2);

/// What makes a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    /// `userfaultfd(flags)`
    Tracker(i32),
    /// `memfd_create(name, flags)`; the name is cut at 15 bytes.
    Memory(&'static str, u32),
}

/// The system calls that the process is to make: where in the file behind the descriptor the list of them is, and how
/// many they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    list: u64,
    count: u64,
}

impl Steps {
    /// Writes the list into the file, from `list` on, which is a multiple of a page; the file is long enough.
    pub(crate) fn write(file: &Fd, list: u64, steps: &[Step]) -> Result<Steps, Errno> {
        let bytes: Vec<u8> = steps.iter().flat_map(|step| step.to_bytes()).collect();
        fd::write_at(file, &bytes, list)?;
        Ok(Steps { list, count: steps.len() as u64 })
    }
}

/// A place in a process for the code, and what it is to make.
pub(crate) struct Maker<'t> {
    target: &'t Target,
    room: Room,
    made: Made,
}

impl Maker<'_> {
    /// Looks for a place. Nothing is changed.
    ///
    /// # Errors
    /// [`Error`]: there is none.
    pub(crate) fn new(target: &Target, made: Made) -> Result<Maker<'_>, Error> {
        let own = (code::code(), code::words_at());
        let image = image::read(target.pid().unsigned_abs(), target.memory(), &[], own)?;
        Ok(Maker { target, room: image.room, made })
    }

    /// Has a thread of the process make it; `fill` says what is to be done with it.
    ///
    /// # Errors
    /// [`Error`]: the process cannot be asked, its kernel does not make it, or `fill` fails.
    ///
    /// # Cost
    /// A thread makes a detour of some milliseconds.
    pub(crate) fn make(
        &self,
        fill: impl FnOnce(&Fd) -> Result<Steps, Error>,
        patience: Patience<'_>,
    ) -> Result<Fd, Error> {
        self.target.lock(patience)?;
        let made = self.make_locked(fill, patience);
        self.target.unlock();
        made
    }

    fn make_locked(
        &self,
        fill: impl FnOnce(&Fd) -> Result<Steps, Error>,
        patience: Patience<'_>,
    ) -> Result<Fd, Error> {
        let (target, placed) = (self.target, self.placed());
        target.check()?;
        let number = fresh_number().map_err(|why| Error::Forbidden(errno(&why)))?;
        let at = self.room.address;
        let entry = at + RESTART_BYTES;
        let tell = |waiting: &Waiting| self.put(waiting.kind);
        let sent = match target.send((entry, number), &tell, patience.at_most(PREFER)) {
            Err(Error::NoThread(busy)) => {
                self.put(0)?;
                let led = target.lead(at + code::runs_at() as u64, patience.at_most(MAKING));
                match led.and_then(|led| led.ok_or(Error::NoThread(busy))) {
                    Ok(sent) => sent,
                    Err(why) => {
                        placed.put_back()?;
                        return Err(why);
                    }
                }
            }
            sent => sent?,
        };
        let made = self.take(sent.tid, fill, patience.at_most(MAKING));
        if matches!(made, Err(Error::Silent(_) | Error::Over)) {
            take_back(entry, &sent);
        }
        placed.remove(&patience, &sent)?;
        made
    }

    /// Where a thread goes that is stopped at the program's begin; the code is there then, and ends with a breakpoint.
    pub(crate) fn prepare_start(&self) -> Result<u64, Error> {
        self.put(0)?;
        Ok(self.room.address + code::start_at() as u64)
    }

    /// Puts back what was where the code is, while no thread is in it.
    pub(crate) fn end_start(&self) -> Result<(), Error> {
        self.placed().put_back()
    }

    /// Takes over what the thread makes, and lets it go on.
    pub(crate) fn take(
        &self,
        tid: i32,
        fill: impl FnOnce(&Fd) -> Result<Steps, Error>,
        patience: Patience<'_>,
    ) -> Result<Fd, Error> {
        let (target, placed) = (self.target, self.placed());
        let made = loop {
            let line = mapped::table(&format!("/proc/{}/task/{tid}/syscall", target.pid()));
            let waits = |call: &Call| {
                call.number == libc::SYS_ppoll && call.arguments[0] == u64::from(descriptor::MARK)
            };
            let here = Call::place(&line).filter(|(_, at)| placed.code().contains(at));
            if let Some((call, _)) = Call::parse(&line).filter(waits).zip(here) {
                break call.arguments[descriptor::MADE].cast_signed();
            }
            target.check()?;
            patience.wait(Error::Silent(MAKING.as_secs()))?;
        };
        let taken = match i32::try_from(made) {
            Ok(number) if number >= 0 => match self.made {
                Made::Memory(..) => target.memory_of(number),
                Made::Tracker(_) => process::pidfd_open(target.pid())
                    .and_then(|process| process::descriptor_of(&process, number))
                    .map_err(Error::Forbidden),
            },
            _ => Err(Error::Refused(Errno(made.unsigned_abs() as i32))),
        };
        let filled = taken.and_then(|taken| fill(&taken).map(|steps| (taken, steps)));
        let Steps { list, count } = filled.as_ref().map_or(Steps::default(), |(_, steps)| *steps);
        // It goes on by itself, too, later: this is no memory of the program's.
        let words = self.room.address + code::words_at() as u64;
        for (word, at) in [(list, descriptor::LIST), (count + 1, descriptor::GO)] {
            let _ = placed.write_at(words + at as u64, &word.to_le_bytes());
        }
        filled.map(|(taken, _)| taken)
    }

    /// Writes the code, with its words.
    fn put(&self, kind: u64) -> Result<(), Error> {
        let name_at = self.room.address + (code::words_at() + descriptor::NAME) as u64;
        let (number, arguments, name) = match self.made {
            Made::Tracker(flags) => (libc::SYS_userfaultfd, [flags as u64, 0], ""),
            Made::Memory(name, flags) => (libc::SYS_memfd_create, [name_at, u64::from(flags)], name),
        };
        let mut words = [0; descriptor::WORDS_BYTES];
        let numbers = [(descriptor::KIND, kind), (descriptor::CALL, number as u64)];
        let arguments = [descriptor::CALL + 8, descriptor::CALL + 16].into_iter().zip(arguments);
        for (at, word) in numbers.into_iter().chain(arguments) {
            words.iter_mut().skip(at).zip(word.to_le_bytes()).for_each(|(to, byte)| *to = byte);
        }
        let name = name.bytes().take(descriptor::NAME_BYTES - 1);
        words.iter_mut().skip(descriptor::NAME).zip(name).for_each(|(to, byte)| *to = byte);
        let code = code::code().get(..code::words_at()).unwrap_or_default();
        self.placed().put(&[code, &words].concat())
    }

    fn placed(&self) -> Placed<'_> {
        Placed { target: self.target, room: &self.room }
    }
}

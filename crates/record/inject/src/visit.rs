//! Loads a library into a process that carries nothing of ours.
//!
//! ```text
//! recorder                                             process
//! stops a thread that waits, as for a join (`target`)
//! writes code behind the end of some binary's code
//! sends the thread there                               maps memory, makes a thread of ours, goes back to its call
//! (or lets one run that is stopped at `main`'s begin)  that thread makes two empty files
//! writes library and plan into them                    waits
//! says where they are, and that they are whole         reserves the plan's memory
//!                                                      dlopen, mote_load_functions
//! opens its threads to SIGTRAP                         mote_join_
//! looks for the answer in the memory                   answers
//! ```
//! As there, a recorder that is killed at any step leaves the process running.

use crate::arch::visit as code;
use crate::bare::Bare;
use crate::elsewhere::Leaving;
use crate::error::Error;
use crate::image::{self, Room};
use crate::placed::Placed;
use crate::shared::{area, words};
use crate::stop::{Stopped, Waiting};
use crate::target::{LOOKING, Patience, Target, apart, errno, fresh_number, signals, take_back};
use mote_layout::functions::{Plan, RESERVED_AT};
use mote_layout::retired::{RELEASE, RETIRE, RETIRED_AT};
use mote_sys::Errno;
use mote_sys::fd::{self, Fd};
use mote_sys::signal::TRAPS;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How long loading is waited for: the library tells the session of each function, and switches all that it wants.
const ATTENDING: Duration = Duration::from_secs(60);

/// Most pieces of that code: a process has no more mappings.
const PIECES_MAX: u64 = 1 << 20;
/// The library's functions that are called.
const FUNCTIONS: [&str; 2] = ["mote_load_functions", "mote_join_"];

/// A function that other C libraries do not have, for which the library is not built.
const OF_GLIBC: &str = "gnu_get_libc_version";

/// What is loaded into a process.
#[derive(Clone, Copy, Debug)]
pub struct Load<'l> {
    /// The library's file.
    pub library: &'l [u8],
    /// What `mote_load_functions` is given (`mote_layout::functions`).
    pub plan: &'l [u8],
    /// The session that it is to join, as in the environment; empty where the program has it there.
    pub place: &'l str,
}

/// A process that a library can be loaded into.
pub struct Visit {
    target: Target,
    room: Room,
    area: u64,
}

/// What has come of a load.
#[derive(Debug)]
pub struct Loaded {
    /// Functions that are there for this plan: those that other sessions have on for something else are not.
    pub functions: u64,
    /// The process was in a session before: this one, or another.
    pub is_in_one: bool,
    /// It has no library; its calls are counted without.
    pub bare: Option<Bare>,
}

impl Loaded {
    /// What has come of counting calls without a library.
    pub fn bare(bare: Bare) -> Loaded {
        Loaded { functions: bare.functions() as u64, is_in_one: false, bare: Some(bare) }
    }
}

impl Visit {
    /// Looks whether a library can be loaded into a process. Nothing is changed.
    ///
    /// # Errors
    /// [`Error`]: it may not be looked into, or is in a state in which it is not to be touched; it has no dynamic
    /// linker.
    pub fn open(pid: i32) -> Result<Visit, Error> {
        let target = Target::any(pid)?;
        let own = (code::code(), code::words_at());
        let needed = [&words::FUNCTIONS[..], &[OF_GLIBC]].concat();
        let image = image::read(pid.unsigned_abs(), target.memory(), &needed, own)?;
        Ok(Visit { target, room: image.room, area: image.hole })
    }

    /// Loads it, by a thread that waits in a system call. Returns how many functions have probes now.
    ///
    /// # Errors
    /// [`Error`]; the process goes on as before.
    pub fn load(&self, load: Load<'_>, patience: Patience<'_>) -> Result<Loaded, Error> {
        self.target.lock(patience)?;
        let loaded = self.load_locked(load, patience);
        self.target.unlock();
        loaded.map(|(loaded, _)| loaded)
    }

    /// Returns the plan's file, too.
    fn load_locked(&self, load: Load<'_>, patience: Patience<'_>) -> Result<(Loaded, Fd), Error> {
        self.target.check()?;
        let number = fresh_number().map_err(|why| Error::Forbidden(errno(&why)))?;
        let entry = self.room.address + mote_layout::join::RESTART_BYTES;
        // Now that the thread is stopped by us, no recorder has it that is still loading something at the program's
        // begin, with the same room and maybe the same place for its memory.
        let tell = |waiting: &Waiting| {
            if self.target.memory().read_exact_at(&mut [0], self.area).is_ok() {
                return Err(Error::Refused(Errno(libc::EEXIST)));
            }
            self.put_code(waiting.kind)
        };
        let sent = self.target.send((entry, number), &tell, patience.at_most(LOOKING))?;
        let done = self.attend_to(load, patience.at_most(ATTENDING));
        match done {
            Err(Error::Silent(_) | Error::Over) => take_back(entry, &sent),
            _ => self.placed().remove(&patience, &sent)?,
        }
        done
    }

    /// Has the code of earlier plans taken away, if no session has the process; false when threads of it were not seen
    /// elsewhere in time, and where the process has no library of ours, or another one.
    ///
    /// # Errors
    /// [`Error`]; the process goes on as before.
    ///
    /// # Cost
    /// Two loads, and stops each thread for some 0.1 ms.
    pub fn reclaim(&self, library: &[u8], patience: Patience<'_>) -> Result<bool, Error> {
        self.target.lock(patience)?;
        let reclaimed = self.reclaim_locked(library, patience);
        self.target.unlock();
        reclaimed
    }

    fn reclaim_locked(&self, library: &[u8], patience: Patience<'_>) -> Result<bool, Error> {
        let (pid, memory) = (self.target.pid().unsigned_abs(), self.target.memory());
        if image::loaded(pid, memory, library, FUNCTIONS).is_none() {
            return Ok(false);
        }
        let number = fresh_number().map_err(|why| Error::Forbidden(errno(&why)))?;
        let ask = |what: u64| {
            let plan = [what, number].map(u64::to_le_bytes);
            self.load_locked(Load { library, plan: plan.as_flattened(), place: "" }, patience)
        };
        let (retired, answer) = match ask(RETIRE) {
            // A session has it.
            Err(Error::Refused(Errno(libc::EBUSY))) => return Ok(false),
            retired => retired?,
        };
        if retired.functions == 0 {
            return Ok(true);
        }
        let pairs = retired_code(&answer, retired.functions);
        let [stubs, tops, code @ ..] = pairs.as_slice() else {
            return Err(Error::Refused(Errno(libc::EINVAL)));
        };
        let own = image::ours(pid).into_iter().map(|(range, _)| range).collect();
        let leaving = Leaving::of_library(code.to_vec(), own, stubs.clone(), [tops.start, tops.end]);
        if !leaving.wait(&self.target, &patience)? {
            return Ok(false);
        }
        match ask(RELEASE) {
            Err(Error::Refused(Errno(libc::ESTALE))) => Ok(false),
            released => released.map(|_| true),
        }
    }

    /// Where a thread goes that is stopped at the program's begin; the code is there then.
    pub(crate) fn prepare_start(&self) -> Result<u64, Error> {
        self.put_code(0)?;
        Ok(self.room.address + code::start_at() as u64)
    }

    /// Puts back what was where the code is, while no thread is in it.
    pub(crate) fn end_start(&self) -> Result<(), Error> {
        self.placed().put_back()
    }

    /// Fills the files, and waits for what the process makes of them.
    pub(crate) fn attend(&self, load: Load<'_>, patience: Patience<'_>) -> Result<Loaded, Error> {
        self.attend_to(load, patience).map(|(loaded, _)| loaded)
    }

    /// Returns the plan's file, too.
    fn attend_to(&self, load: Load<'_>, patience: Patience<'_>) -> Result<(Loaded, Fd), Error> {
        let done = self.attend_until_done(load, patience);
        // The memory goes; it may have gone with the process.
        if !matches!(done, Err(Error::Silent(_) | Error::Over)) {
            let _ = self.write(area::STATE, &area::TAKEN.to_le_bytes());
        }
        done
    }

    fn attend_until_done(&self, load: Load<'_>, patience: Patience<'_>) -> Result<(Loaded, Fd), Error> {
        let silent = || Error::Silent(ATTENDING.as_secs());
        // Nothing is there before it is mapped.
        while self.word(area::STATE).unwrap_or(0) as u32 != area::FILES {
            if self.word(area::LEFT).unwrap_or(0) as u32 != 0
                && let made @ 1.. = self.word(area::MADE)?
            {
                return Err(Error::Refused(Errno(made as i32)));
            }
            self.target.check()?;
            patience.wait(silent())?;
        }
        self.fill((area::LIBRARY, area::LIBRARY_PATH), load.library)?;
        let file = self.fill((area::PLAN, area::PLAN_PATH), &reserved(load.plan))?;
        let memories = Plan::parse(load.plan).map_or(0, |plan| plan.memories().count());
        self.write(area::PLAN_BYTES, &(load.plan.len() as u64).to_le_bytes())?;
        self.write(area::PLAN_MEMORIES, &(memories as u64).to_le_bytes())?;
        let place = load.place.as_bytes();
        if place.len() >= area::PLACE_BYTES {
            return Err(Error::Refused(Errno(libc::ENAMETOOLONG)));
        }
        self.write(area::PLACE, &[place, &[0]].concat())?;
        // A library of ours that another recorder has loaded meanwhile is used. No thread is held while we look for it.
        let (pid, memory) = (self.target.pid().unsigned_abs(), self.target.memory());
        let loaded = image::loaded(pid, memory, load.library, FUNCTIONS);
        let loaded = loaded.unwrap_or_default().map(u64::to_le_bytes);
        let at = self.room.address + (code::words_at() + words::LOAD_FUNCTIONS) as u64;
        self.placed().write_at(at, loaded.as_flattened())?;
        self.write(area::STATE, &area::GO.to_le_bytes())?;
        loop {
            match self.word(area::STATE)? as u32 {
                area::DONE => break,
                area::FAILED => return Err(Error::NotLoaded(self.why())),
                area::WAITS => {
                    // Allocators may have made threads for those that were new here.
                    let_take_traps(&self.target, &patience)?;
                    self.write(area::STATE, &area::JOIN.to_le_bytes())?;
                    patience.wait(silent())?;
                }
                _ => patience.wait(silent())?,
            }
        }
        let functions = self.word(area::LOADED)? as i64;
        let joined = self.word(area::JOINED)? as i64;
        // It has come meanwhile, by itself, or is in another one.
        let is_in_one = joined == -i64::from(libc::EBUSY);
        match [functions, joined].into_iter().find(|result| *result < 0 && !(is_in_one && *result == joined))
        {
            Some(error) => Err(Error::Refused(Errno(error.unsigned_abs() as i32))),
            None => Ok((Loaded { functions: functions.unsigned_abs(), is_in_one, bare: None }, file)),
        }
    }

    /// Fills one of the process's files, and tells it the path.
    fn fill(&self, (fd, path): (usize, usize), bytes: &[u8]) -> Result<Fd, Error> {
        let fd = self.word(fd)? as i64;
        let number = i32::try_from(fd).ok().filter(|number| *number >= 0);
        let number = number.ok_or(Error::Refused(Errno(fd.unsigned_abs() as i32)))?;
        let file = self.target.memory_of(number)?;
        fd::write_at(&file, bytes, 0).map_err(Error::Forbidden)?;
        self.write(path, format!("/proc/self/fd/{fd}\0").as_bytes())?;
        Ok(file)
    }

    /// Why the dynamic linker has not loaded the library.
    fn why(&self) -> String {
        let mut text = vec![0; 300];
        let at = self.word(area::WHY).unwrap_or(0);
        let read = self.target.memory().read_at(&mut text, at).unwrap_or(0);
        let text = text.get(..read).unwrap_or_default();
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    /// Writes the code with its words, but for those of a library that is there already.
    fn put_code(&self, kind: u64) -> Result<(), Error> {
        let mut bytes = code::code().to_vec();
        let functions = self.room.functions.get(..words::FUNCTIONS.len()).unwrap_or_default();
        let words = [&[self.area], functions, &[kind]].concat();
        for (word, to) in
            words.iter().zip(bytes.get_mut(code::words_at()..).unwrap_or_default().chunks_mut(8))
        {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.placed().put(&bytes)
    }

    fn placed(&self) -> Placed<'_> {
        Placed { target: &self.target, room: &self.room }
    }

    fn word(&self, at: usize) -> Result<u64, Error> {
        let mut word = [0; 8];
        let read = self.target.memory().read_exact_at(&mut word, self.area + at as u64);
        // The states are half a word each.
        let word = u64::from_le_bytes(word);
        let half = if at == area::STATE || at == area::LEFT { word & u64::from(u32::MAX) } else { word };
        read.map(|()| half).map_err(|_| self.target.why_not())
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<(), Error> {
        self.placed().write_at(self.area + at as u64, bytes)
    }
}

/// The plan, for a process in which its memory has been reserved.
fn reserved(plan: &[u8]) -> Vec<u8> {
    let mut plan = plan.to_vec();
    if let Some(word) = plan.get_mut(RESERVED_AT) {
        *word = 1;
    }
    plan
}

/// Where the stubs are, how far from a thread's pointer its words of tops lie, and the code of plans that were given
/// up, as the library has written it: of so many pieces.
fn retired_code(answer: &Fd, pieces: u64) -> Vec<Range<u64>> {
    let mut bytes = vec![0; 16 * (2 + pieces.min(PIECES_MAX) as usize)];
    let read = fd::read_at(answer, &mut bytes, RETIRED_AT as u64).unwrap_or(0);
    let words = bytes.get(..read).unwrap_or_default().as_chunks::<8>().0.as_chunks::<2>().0;
    words.iter().map(|[begin, end]| u64::from_le_bytes(*begin)..u64::from_le_bytes(*end)).collect()
}

/// Whether a library of ours was loaded into a process before.
pub fn was_visited(pid: i32) -> bool {
    !image::ours(pid.unsigned_abs()).is_empty()
}

/// Lets all threads of a process take SIGTRAP and SIGILL that have blocked them, so that functions can be switched
/// beside them: those that block all signals, as allocators' and loggers' threads do. Returns how many still do: they
/// wait for one of them.
///
/// # Errors
/// [`Error`]: it may not be touched, or has ended.
pub fn open_to_traps(pid: i32, patience: &Patience<'_>) -> Result<usize, Error> {
    let_take_traps(&Target::any(pid)?, patience)
}

fn let_take_traps(target: &Target, patience: &Patience<'_>) -> Result<usize, Error> {
    let mut closed = 0;
    for tid in target.threads()? {
        if signals(target.pid(), tid, "SigBlk:") & TRAPS == 0 {
            continue;
        }
        let open = || {
            let stopped = Stopped::stop(tid, patience).ok()??;
            // It is for a thread that waits for signals (sigwait).
            let waits = stopped.call() == Some(libc::SYS_rt_sigtimedwait);
            (!waits && stopped.unblock(TRAPS).is_ok()).then_some(())
        };
        closed += usize::from(apart(open).flatten().is_none());
    }
    Ok(closed)
}

//! Words with names: those of the session, which all of its processes share, or of the process where there is none.

use crate::cooperate::{Words, header, own_area, shared, take_area, take_shared, words_at};
use crate::growing::Growing;
use crate::{hold, session};
use core::cell::UnsafeCell;
use mote_layout::cooperation::{self as layout, SHARED_BYTES, WORDS};
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};
use mote_wire::Message;

/// Most names of shared words that a process opens.
const NAMES_MAX: usize = 256;

/// A name that was opened.
#[derive(Clone, Copy)]
struct Known {
    name: [u8; layout::SHARED_NAME_MAX],
    len: usize,
    each_thread: bool,
    words: Words,
}

/// The names, and how much of the memory of a process without a session they take.
struct Names {
    known: Growing<Known, NAMES_MAX>,
    memory: *mut u8,
    used: u32,
    used_of_threads: u32,
}
struct Shelf(UnsafeCell<Names>);
// SAFETY: only `share` uses it, with the control path held.
unsafe impl Sync for Shelf {}
static NAMES: Shelf = Shelf(UnsafeCell::new(Names {
    known: Growing::new(),
    memory: core::ptr::null_mut(),
    used: 0,
    used_of_threads: 0,
}));

/// Words of this name: those of the session, if there is one, else memory of this process. The same name gives the same
/// words.
///
/// # Errors
/// `EINVAL` for a name that is empty or too long, or no words; `ENOSPC` when there are no more words to be had, or
/// fewer of this name; `ENOMEM`.
///
/// # Signal safety
/// Not for handlers.
///
/// # Cost
/// The first time in a process a question to the session.
pub fn share(name: &[u8], count: u32, each_thread: bool) -> Result<Words> {
    let most = if each_thread { WORDS as u32 } else { layout::SHARED_WORDS };
    if name.is_empty() || name.len() > layout::SHARED_NAME_MAX || count == 0 || count > most {
        return Err(Errno(libc::EINVAL));
    }
    let mut guard = hold::control();
    // SAFETY: the control path is ours until `guard` is dropped, behind the last use.
    let names = unsafe { &mut *NAMES.0.get() };
    let known =
        |known: &&Known| known.each_thread == each_thread && known.name.get(..known.len) == Some(name);
    let words = match names.known.all().iter().find(known).map(|known| known.words) {
        Some(words) if words.count >= count => Ok(words),
        Some(words) if words.is_shared || !session::is_joined() => Err(Errno(libc::ENOSPC)),
        _ => match request(&mut guard, name, count, each_thread) {
            // The session cannot be reached, or there is none.
            Err(Errno(libc::ENOTCONN)) => names.own(count, each_thread),
            answered => answered,
        },
    };
    if let Ok(words) = words {
        names.remember(name, each_thread, words)?;
    }
    drop(guard);
    words
}

/// Asks the session for words. `ENOTCONN` when it does not answer.
fn request(control: &mut hold::Control, name: &[u8], words: u32, each_thread: bool) -> Result<Words> {
    const NO_SESSION: Errno = Errno(libc::ENOTCONN);
    let (link, mut scratch, number) = session::reconnect(control).ok_or(NO_SESSION)?;
    let (to, from) = scratch.buffers();
    link.send(&Message::Share { words, each_thread, name }, to).map_err(|_| NO_SESSION)?;
    let received = link.answer(from).map_err(|_| NO_SESSION)?;
    let Ok(Message::Shared { at, words: count, slots }) =
        Message::decode(from.get(..received.len).unwrap_or(&[]))
    else {
        return Err(NO_SESSION);
    };
    let most = if each_thread { WORDS as u32 } else { layout::SHARED_WORDS };
    if count < words || at.checked_add(count).is_none_or(|end| end > most) {
        return Err(Errno(libc::ENOSPC));
    }
    let mut fds = received.fds.iter().flatten();
    take_shared(number, fds.next().ok_or(NO_SESSION)?)?;
    if each_thread {
        if let Some(area) = fds.next().filter(|_| header().is_none()) {
            take_area(area, slots)?;
        }
        header().ok_or(NO_SESSION)?;
        return Ok(Words { at, of_all: &[], count, is_shared: true });
    }
    let of_all = words_at(shared(number).ok_or(NO_SESSION)?, at, count);
    Ok(Words { at: 0, of_all, count, is_shared: true })
}

impl Names {
    /// Words of this process alone.
    fn own(&mut self, count: u32, each_thread: bool) -> Result<Words> {
        if each_thread {
            own_area()?;
            let at = self.used_of_threads;
            self.used_of_threads =
                at.checked_add(count).filter(|end| *end <= WORDS as u32).ok_or(Errno(libc::ENOSPC))?;
            return Ok(Words { at, of_all: &[], count, is_shared: false });
        }
        if self.memory.is_null() {
            self.memory = Mapping::private(SHARED_BYTES)?.leak();
        }
        let at = self.used;
        self.used =
            at.checked_add(count).filter(|end| *end <= layout::SHARED_WORDS).ok_or(Errno(libc::ENOSPC))?;
        Ok(Words { at: 0, of_all: words_at(self.memory, at, count), count, is_shared: false })
    }

    fn remember(&mut self, name: &[u8], each_thread: bool, words: Words) -> Result<()> {
        let mut known = Known { name: [0; layout::SHARED_NAME_MAX], len: name.len(), each_thread, words };
        known.name.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        let is_it = |old: &Known| old.each_thread == each_thread && old.name.get(..old.len) == Some(name);
        match self.known.all_mut().iter_mut().find(|old| is_it(old)) {
            Some(old) => *old = known,
            None => self.known.push(known)?,
        }
        Ok(())
    }
}

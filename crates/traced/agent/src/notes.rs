//! Finds the objects of the program that carry events by `mote.h`, before they announce themselves.
//!
//! The loader calls constructors in the order of dependencies: that of `libmote.so` comes before the program's, which
//! tells of the program's events. So that one conversation with a session is about the whole program, each object has
//! an ELF note that leads to that constructor, and it is called here, before the sessions are joined: all objects are
//! in place by then, and relocated. It does nothing the second time.

use crate::ending;
use core::ffi::{c_int, c_void};

/// The note's name, with its NUL, and its type: `mote.h` makes it.
const NAME: &[u8] = b"mote\0";
const CONSTRUCTOR: u32 = 1;
/// Name and description begin at multiples of this (elf(5), "Notes").
const ALIGN: usize = 4;
/// Three words: length of the name, of the description, and the type.
const HEAD: usize = 12;

/// What an object runs to tell of its events.
type Enter = extern "C" fn();

/// Has all objects that are loaded tell of their events.
pub(crate) fn enter_all() {
    // SAFETY: the callback takes what dl_iterate_phdr(3) gives, and keeps nothing of it.
    unsafe { libc::dl_iterate_phdr(Some(enter), core::ptr::null_mut()) };
    // When their own turn comes they are to ask again.
    ending::watch_again();
}

unsafe extern "C" fn enter(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the loader gives a whole description of an object, which stays while it is looked at.
    let object = unsafe { &*object };
    for index in 0..usize::from(object.dlpi_phnum) {
        // SAFETY: the object has as many headers.
        let header = unsafe { object.dlpi_phdr.wrapping_add(index).read() };
        if header.p_type == libc::PT_NOTE {
            let at = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let notes = core::ptr::with_exposed_provenance::<u8>(at);
            // SAFETY: the loader has mapped the segment, which is not written to.
            let notes = unsafe { core::slice::from_raw_parts(notes, header.p_memsz as usize) };
            constructors(notes).for_each(|constructor| {
                // SAFETY: the note of this name and type is `mote.h`'s, which leads to `mote_object_enter_` of the same
                // object: a function that may be called at any time, and any number of times.
                let constructor = unsafe { core::mem::transmute::<*const c_void, Enter>(constructor) };
                constructor();
            });
        }
    }
    0
}

/// Where the constructors are that notes of ours lead to.
fn constructors(notes: &[u8]) -> impl Iterator<Item = *const c_void> {
    let mut rest = notes;
    core::iter::from_fn(move || {
        loop {
            let (found, next) = first(rest)?;
            rest = next;
            if found.is_some() {
                return found;
            }
        }
    })
}

/// Where the first note leads to, if it is ours, and those behind it.
fn first(notes: &[u8]) -> Option<(Option<*const c_void>, &[u8])> {
    let (name_len, description_len) = (word(notes, 0)? as usize, word(notes, 4)? as usize);
    let name = notes.get(HEAD..)?.get(..name_len)?;
    let description = notes.get(HEAD + name_len.next_multiple_of(ALIGN)..)?;
    let constructor = description
        .get(..description_len.min(4))
        .filter(|_| name == NAME && word(notes, 8) == Some(CONSTRUCTOR))
        .and_then(|from| Some(from.as_ptr().wrapping_offset(word(from, 0)? as i32 as isize).cast()));
    Some((constructor, description.get(description_len.next_multiple_of(ALIGN)..).unwrap_or(&[])))
}

fn word(from: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(from.get(at..)?.first_chunk().copied()?))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    fn note(name: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, description.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
        }
        for part in [name, description] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn notes_of_ours_are_found_among_others() {
        let notes = [
            note(b"GNU\0", 1, &[9; 16]),
            note(b"mote\0", 1, &16i32.to_ne_bytes()),
            note(b"mote\0", 2, &[0; 4]),
            note(b"odd", 1, b"five!"),
            note(b"mote\0", 1, &(-8i32).to_ne_bytes()),
        ]
        .concat();
        let found: Vec<usize> =
            super::constructors(&notes).map(|at| at as usize - notes.as_ptr() as usize).collect();
        let first = 32 + 12 + 8;
        let last = notes.len() - 4;
        assert_eq!(found, [first + 16, last - 8]);
        for end in 0..notes.len() {
            assert!(super::constructors(&notes[..end]).count() <= 2);
        }
        let huge = [[0xff; 12], [0; 12]].concat();
        assert_eq!(super::constructors(&huge).count(), 0);
    }
}

//! Where sessions are: the variable `MOTE_SESSION=VERSION,FD,INODE,PATH`, with further ones behind semicolons (a
//! recording in a recording).
//!
//! FD is the mailbox, an inherited socket; INODE tells whether the descriptor still is that socket, because programs
//! close what they did not open and the number is used again. PATH is the session's socket in the file
//! system, for programs that have closed the mailbox.

use core::ffi::{CStr, c_char};
use mote_wire::{ENVIRONMENT, PLACES_APART};

/// Where the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the inherited mailbox.
    pub(crate) mailbox: i32,
    /// Its inode.
    pub(crate) inode: u64,
    path: [u8; 108],
    path_len: usize,
}

impl Place {
    /// Path of the session's socket; may be empty.
    pub(crate) fn path(&self) -> &[u8] {
        self.path.get(..self.path_len).unwrap_or(&[])
    }

    /// That path, and the directory that the socket is in, as calls of the kernel take them; `None` where a path cannot
    /// be a socket's.
    pub(crate) fn files(&self) -> Option<Files> {
        let path = self.path();
        let slash = path.iter().rposition(|byte| *byte == b'/')?;
        let mut files = Files { directory: [0; 109], socket: [0; 109] };
        copy(files.directory.get_mut(..slash)?, path.get(..slash)?);
        copy(files.socket.get_mut(..path.len())?, path);
        Some(files)
    }

    /// The place of one session. One without a mailbox has -1 in its place.
    pub(crate) fn parse(value: &[u8]) -> Option<Place> {
        let mut parts = value.splitn(4, |byte| *byte == b',');
        // Whatever version: the session says that it is another one where a person reads it.
        number(parts.next()?)?;
        let mailbox = match parts.next()? {
            b"-1" => -1,
            digits => i32::try_from(number(digits)?).ok()?,
        };
        let inode = number(parts.next()?)?;
        let from = parts.next()?;
        let mut path = [0; 108];
        path.get_mut(..from.len())?.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        Some(Place { mailbox, inode, path, path_len: from.len() })
    }
}

/// Two paths, each with a NUL behind it.
pub(crate) struct Files {
    directory: [u8; 109],
    socket: [u8; 109],
}

impl Files {
    /// The path of the directory that the session's socket is in.
    pub(crate) fn directory(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.directory).unwrap_or(c"")
    }

    /// The path of the session's socket.
    pub(crate) fn socket(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.socket).unwrap_or(c"")
    }
}

/// Copies as many bytes as both have.
fn copy(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Set to 1, it allows two-byte stores over sites that are running on processors whose vendor does not promise that
/// they work (`mote_patch::Hops`).
const HOP: &str = "MOTE_HOP";

/// Whether the environment sets a variable of ours to 1.
///
/// # Safety
/// As [`find`].
pub(crate) unsafe fn allows_hops(environment: *const *const c_char) -> bool {
    // SAFETY: the caller's promise.
    unsafe { variables(environment) }.any(|variable| {
        // SAFETY: the caller's promise: a NUL-terminated string.
        let value = unsafe { value_of(variable, HOP) };
        value == Some(b"1")
    })
}

/// The strings of the environment.
///
/// # Safety
/// As [`find`].
unsafe fn variables(environment: *const *const c_char) -> impl Iterator<Item = *const c_char> {
    let mut next = environment;
    core::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: the array ends with a null, behind which nothing is read.
        let variable = unsafe { next.read() };
        next = if variable.is_null() { core::ptr::null() } else { next.wrapping_add(1) };
        (!variable.is_null()).then_some(variable)
    })
}

/// The places of the sessions that the environment names; none that is not well formed. None at all in a program that
/// runs with raised privileges: there the environment is not to be trusted.
///
/// # Safety
/// `environment` must be null or a NULL-terminated array of NUL-terminated strings, which no thread changes while the
/// result is used.
pub(crate) unsafe fn find(environment: *const *const c_char) -> Option<impl Iterator<Item = Place> + Clone> {
    // SAFETY: the caller's promise.
    let mut variables = unsafe { variables(environment) };
    // SAFETY: the caller's promise: NUL-terminated strings.
    let value = variables.find_map(|variable| unsafe { value_of(variable, ENVIRONMENT) })?;
    if is_privileged() {
        return None;
    }
    Some(value.split(|byte| *byte == PLACES_APART as u8).filter_map(Place::parse))
}

/// The value when `variable` is the one of this name.
///
/// # Safety
/// `variable` must be a NUL-terminated string.
unsafe fn value_of<'a>(variable: *const c_char, name: &str) -> Option<&'a [u8]> {
    let mut at = variable.cast::<u8>();
    for expected in name.bytes().chain([b'=']) {
        // SAFETY: all bytes before were equal to non-NUL bytes, so this one is inside the string.
        if unsafe { at.read() } != expected {
            return None;
        }
        at = at.wrapping_add(1);
    }
    // SAFETY: `at` is inside the caller's string, which no thread changes before `main`.
    Some(unsafe { CStr::from_ptr(at.cast()) }.to_bytes())
}

fn is_privileged() -> bool {
    // SAFETY: getauxval reads a table that the C library keeps for the process's life.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_parsed_and_nonsense_is_not() {
        let place = Place::parse(b"1,1000,4711,/tmp/a,b").expect("well formed");
        assert_eq!((place.mailbox, place.inode, place.path()), (1000, 4711, &b"/tmp/a,b"[..]));
        let files = place.files().expect("a directory and what is in it");
        assert_eq!((files.directory(), files.socket()), (c"/tmp", c"/tmp/a,b"));
        assert!(Place::parse(b"1,1000,4711,relative").is_some_and(|place| place.files().is_none()));
        assert_eq!(Place::parse(b"2,-1,4711,/tmp/a").map(|place| place.mailbox), Some(-1));
        for bad in [&b""[..], b"x,3,4,/x", b"1,-3,4,/x", b"1,3,x,/x", b"1,99999999999,4,/x", b"1,3,4"] {
            assert_eq!(Place::parse(bad), None);
        }
        assert_eq!(Place::parse(&[b"1,3,4,".as_slice(), &[b'a'; 109]].concat_for_test()), None);
    }

    trait Concat {
        fn concat_for_test(&self) -> [u8; 115];
    }

    impl Concat for [&[u8]; 2] {
        fn concat_for_test(&self) -> [u8; 115] {
            let mut whole = [0; 115];
            whole[..6].copy_from_slice(self[0]);
            whole[6..].copy_from_slice(self[1]);
            whole
        }
    }
}

//! Helpers for maps: look up, update, delete, add, keep the last.

use super::{errno, map_of, process};
use crate::entry::Returned;
use crate::fault::{Fault, load_u64};
use crate::map::Map;
use crate::map::array;
use crate::map::hash::{Find, Hash, Inserted, Missed};
use crate::map::key::{KEY_WORDS, Key};
use crate::map::memory::{Memory, Words};
use crate::map::place::{ArrayPlace, Place, words};
use crate::touch;

const ENOENT: u64 = errno(2);
const E2BIG: u64 = errno(7);
const EBUSY: u64 = errno(16);
const EEXIST: u64 = errno(17);
const EINVAL: u64 = errno(22);

/// `BPF_NOEXIST`
const NEW: u64 = 1;
/// `BPF_EXIST`
const EXISTING: u64 = 2;

fn number(missed: Missed) -> u64 {
    match missed {
        Missed::Full => E2BIG,
        Missed::Busy => EBUSY,
    }
}

/// Calls `then` with a key of exactly so many words, which is copied before it is hashed and compared: it may change
/// meanwhile.
///
/// # Safety
/// `at` points to `bytes` bytes, or to what a word of the context says is readable.
#[inline(always)]
unsafe fn with_words<const WORDS: usize, R>(
    at: u64,
    bytes: u32,
    then: impl FnOnce(&Key<'_>) -> R,
) -> Result<R, Fault> {
    // It stays where it is: a copy by wide moves would wait for the narrow stores.
    let mut all = [0; WORDS];
    let (mut at, mut left) = (at, bytes as usize);
    if let Some((last, whole)) = all.split_last_mut() {
        for word in whole {
            // SAFETY: the caller's promise.
            *word = unsafe { load_u64(at) }?;
            (at, left) = (at.wrapping_add(8), left - 8);
        }
        // SAFETY: the caller's promise.
        *last = unsafe { touch::word(at, left) }?;
    }
    Ok(then(&Key::new(&all)))
}

/// Calls `then` with the key at `at`: short keys stay in registers.
///
/// # Safety
/// As [`with_words`].
#[inline(always)]
unsafe fn with_key<R>(map: &Map, at: u64, then: impl FnOnce(&Key<'_>) -> R) -> Result<R, Fault> {
    let bytes = map.shape().key_bytes;
    match words(bytes) {
        // SAFETY: the caller's promise.
        1 => unsafe { with_words::<1, R>(at, bytes, then) },
        // SAFETY: the caller's promise.
        2 => unsafe { with_words::<2, R>(at, bytes, then) },
        // SAFETY: the caller's promise.
        4 => unsafe { with_words::<4, R>(at, bytes, then) },
        count => {
            let mut all = [0; KEY_WORDS];
            let key = all.get_mut(..count).unwrap_or_default();
            for (i, word) in key.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *word = unsafe { touch::word(at.wrapping_add(i as u64 * 8), bytes as usize - i * 8) }?;
            }
            Ok(then(&Key::new(key)))
        }
    }
}

/// The word of an array's value for the index at `at`: of this CPU, if there is one for each.
///
/// # Safety
/// As [`with_words`].
#[inline(always)]
unsafe fn value_of(place: &ArrayPlace, at: u64) -> Result<Option<usize>, Fault> {
    // SAFETY: the caller's promise.
    let index = unsafe { crate::fault::load_u32(at) }?;
    let copy = if place.copy_words == 0 { 0 } else { process::cpu() };
    Ok(place.value(index, copy))
}

/// `map_lookup_elem`: the address of the value, or 0.
pub(super) unsafe extern "C" fn lookup(map: u64, key: u64, _: u64, _: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a map.
    let map = unsafe { map_of(map) };
    let at = match &map.place {
        // SAFETY: the verifier: a key.
        Place::Array(place) => unsafe { value_of(place, key) },
        Place::Hash(place) | Place::Lru(place) => {
            let hash = map.hash(place);
            // SAFETY: the verifier: a key.
            unsafe {
                with_key(map, key, |key| match hash.find(key) {
                    Find::Found(found) => {
                        map.used(&hash, found.node);
                        Some(place.value(found.node))
                    }
                    _ => None,
                })
            }
        }
        Place::Ring(_) => Ok(None),
    };
    at.map(|at| at.map_or(0, |at| map.memory.address(at))).into()
}

/// `map_add`: 0, or negative.
pub(super) unsafe extern "C" fn add(map: u64, key: u64, delta: u64, _: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a map.
    let map = unsafe { map_of(map) };
    match &map.place {
        // SAFETY: the verifier: a key.
        Place::Array(place) => unsafe { value_of(place, key) }.map(|at| match at {
            Some(at) => {
                map.memory.add(at, delta);
                0
            }
            None => ENOENT,
        }),
        Place::Hash(place) | Place::Lru(place) => {
            let hash = map.hash(place);
            // SAFETY: the verifier: a key.
            unsafe { with_key(map, key, |key| map.add_hash(&hash, key, delta).map_or_else(number, |()| 0)) }
        }
        Place::Ring(_) => Ok(EINVAL),
    }
    .into()
}

/// `map_delete_elem`: 0, or negative.
pub(super) unsafe extern "C" fn delete(map: u64, key: u64, _: u64, _: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a map.
    let map = unsafe { map_of(map) };
    let (Place::Hash(place) | Place::Lru(place)) = &map.place else { return Ok(EINVAL).into() };
    let hash = map.hash(place);
    // SAFETY: the verifier: a key.
    unsafe {
        with_key(map, key, |key| match hash.delete(key) {
            Ok(true) => 0,
            Ok(false) => ENOENT,
            Err(missed) => number(missed),
        })
    }
    .into()
}

/// `map_update_elem`: 0, or negative.
pub(super) unsafe extern "C" fn update(map: u64, key: u64, value: u64, flags: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a map.
    let map = unsafe { map_of(map) };
    if flags > EXISTING {
        return Ok(EINVAL).into();
    }
    match &map.place {
        // SAFETY: the verifier: a key, a value.
        Place::Array(place) => unsafe { update_array(map, place, key, value, flags) },
        Place::Hash(place) | Place::Lru(place) => {
            let hash = map.hash(place);
            // SAFETY: the verifier: a value.
            let update = |key: &Key<'_>| unsafe { update_hash(map, &hash, key, value, flags) };
            // SAFETY: the verifier: a key.
            unsafe { with_key(map, key, update) }.and_then(|done| done)
        }
        Place::Ring(_) => Ok(EINVAL),
    }
    .into()
}

/// # Safety
/// `key` and `value` are as the verifier says.
unsafe fn update_array(
    map: &Map,
    place: &ArrayPlace,
    key: u64,
    value: u64,
    flags: u64,
) -> Result<u64, Fault> {
    // SAFETY: the caller's promise.
    let Some(at) = (unsafe { value_of(place, key) })? else { return Ok(E2BIG) };
    if flags == NEW {
        return Ok(EEXIST);
    }
    // SAFETY: the caller's promise.
    unsafe { write(map.memory, at, value, map.shape().value_bytes as usize) }?;
    Ok(0)
}

/// # Safety
/// `value` is as the verifier says.
unsafe fn update_hash(
    map: &Map,
    hash: &Hash<Words>,
    key: &Key<'_>,
    value: u64,
    flags: u64,
) -> Result<u64, Fault> {
    let bytes = map.shape().value_bytes as usize;
    let found = match hash.find(key) {
        Find::Found(found) => found,
        Find::Busy => {
            map.count_dropped();
            return Ok(EBUSY);
        }
        Find::None(_) if flags == EXISTING => return Ok(ENOENT),
        Find::None(_) => {
            let mut fault = None;
            let made = map.make(hash, key, |memory, at| {
                // SAFETY: the caller's promise.
                let written = unsafe { write(*memory, at, value, bytes) };
                fault = written.err();
                fault.is_none()
            });
            match (made, fault) {
                (_, Some(fault)) => return Err(fault),
                (Err(missed), None) => {
                    map.count_dropped();
                    return Ok(number(missed));
                }
                (Ok(Some(Inserted::Present(found))), None) => found,
                (Ok(_), None) => return Ok(0),
            }
        }
    };
    if flags == NEW {
        return Ok(EEXIST);
    }
    map.used(hash, found.node);
    // SAFETY: the caller's promise.
    unsafe { write(map.memory, hash.place.value(found.node), value, bytes) }?;
    Ok(0)
}

/// Copies bytes from `from`, which may be unreadable, into words of a map.
///
/// # Safety
/// As [`with_words`].
///
/// # Errors
/// A fault; some words are written then.
pub(super) unsafe fn write(memory: Words, at: usize, from: u64, bytes: usize) -> Result<(), Fault> {
    for i in 0..bytes.div_ceil(8) {
        // SAFETY: the caller's promise.
        let word = unsafe { touch::word(from.wrapping_add(i as u64 * 8), bytes - i * 8) }?;
        memory.put(at + i, word);
    }
    Ok(())
}

/// `keep_last`: 0, or negative.
pub(super) unsafe extern "C" fn keep_last(map: u64, data: u64, size: u64, _: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a map.
    let map = unsafe { map_of(map) };
    let Place::Array(place) = &map.place else { return Ok(EINVAL).into() };
    let room = (place.value_words - 1) * 8;
    let bytes = usize::try_from(size).unwrap_or(usize::MAX).min(room);
    let mut fault = None;
    let kept = array::keep(map.memory, place, |memory, at| {
        // SAFETY: the verifier: so many readable bytes.
        fault = unsafe { write(memory, at, data, bytes) }.err();
        (bytes.div_ceil(8)..place.value_words - 1).for_each(|i| memory.put(at + i, 0));
        fault.is_none()
    });
    match fault {
        Some(fault) => Err(fault).into(),
        None => Ok(if kept { 0 } else { EINVAL }).into(),
    }
}

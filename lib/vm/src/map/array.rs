//! Arrays: values by index, which are always there.

use super::memory::{Memory, before_contents};
use super::place::ArrayPlace;

/// Takes the next place of an array of numbered values ([`keep_last`](mote_bpf::helper::KEEP_LAST)): `fill` writes the
/// words behind the number, from the index that it gets, and returns false when it could not.
///
/// # Progress
/// Wait-free. Two writers meet in one value only if one of them sleeps while all the others are filled; the number is 0
/// then, or that of the later one.
pub(crate) fn keep<M: Memory>(memory: M, place: &ArrayPlace, fill: impl FnOnce(M, usize) -> bool) -> bool {
    let Some(counter) = place.value(0, 0) else { return false };
    let rest = (place.entries as u64).saturating_sub(1);
    if rest == 0 {
        return false;
    }
    let number = memory.add(counter, 1);
    let Some(turn) = number.checked_rem(rest) else { return false };
    let Some(at) = place.value(1 + turn as u32, 0) else { return false };
    memory.put(at, 0);
    before_contents();
    let is_whole = fill(memory, at + 1);
    if is_whole {
        memory.publish(at, number.wrapping_add(1));
    }
    is_whole
}

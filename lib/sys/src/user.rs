//! Users: who we are, and which user stands for those without a number.
//!
//! In a user namespace the kernel shows every user that has no number there as one and the same: the overflow user, by
//! default 65534. Two that are shown so need not be the same, so this number equals no user's, not even itself.

use crate::fd;
use crate::raw::syscall;

/// What it is when the kernel cannot be asked (`DEFAULT_OVERFLOWUID`).
const OVERFLOW: u32 = 65534;

/// The user's number of this process: its real, its effective and its saved one, in its own user namespace.
pub fn own() -> [u32; 3] {
    let mut ids = [OVERFLOW; 3];
    let [real, effective, saved] = ids.each_mut().map(|id| &raw mut *id as usize);
    // SAFETY: the kernel writes one number to each of three places of its size.
    let _ = unsafe { syscall(libc::SYS_getresuid, [real, effective, saved, 0, 0, 0]) };
    ids
}

/// The number that stands for all users without one (proc_sys_kernel(5), `overflowuid`).
///
/// # Cost
/// Three system calls.
pub fn overflow() -> u32 {
    let mut text = [0; 16];
    let file = fd::open(c"/proc/sys/kernel/overflowuid", libc::O_RDONLY, 0);
    let len = file.and_then(|file| fd::read(&file, &mut text)).unwrap_or(0);
    text.get(..len).and_then(number).unwrap_or(OVERFLOW)
}

/// Whether two numbers stand for the same user.
pub fn are_same(one: u32, other: u32) -> bool {
    one == other && one != overflow()
}

fn number(text: &[u8]) -> Option<u32> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let digits = text.get(..end).filter(|digits| !digits.is_empty())?;
    digits
        .iter()
        .try_fold(0u32, |n, digit| n.checked_mul(10)?.checked_add(u32::from(digit.wrapping_sub(b'0'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_equals_nobody() {
        let own = own();
        // SAFETY: getuid takes nothing and cannot fail.
        assert_eq!(own[0], unsafe { libc::getuid() });
        assert!(are_same(1234, 1234) && !are_same(0, 1));
        assert!(!are_same(overflow(), overflow()), "two strangers");
    }

    #[test]
    fn numbers_of_the_kernel() {
        assert_eq!(number(b"65534\n"), Some(65534));
        assert_eq!(number(b"\n"), None);
        assert_eq!(number(b"99999999999\n"), None);
    }
}

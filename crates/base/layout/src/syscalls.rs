//! Names and numbers of system calls on this processor: filters, thresholds and the kernel's events name them.

use crate::arch::SYSCALLS as TABLE;

/// The number of a system call.
pub const fn number(name: &str) -> Option<u32> {
    let mut table = TABLE.as_slice();
    while let [(number, known), rest @ ..] = table {
        if is_same(known.as_bytes(), name.as_bytes()) {
            return Some(*number as u32);
        }
        table = rest;
    }
    None
}

/// The name of a system call.
pub fn name(number: u32) -> Option<&'static str> {
    let at = TABLE.binary_search_by_key(&number, |(known, _)| u32::from(*known)).ok()?;
    TABLE.get(at).map(|(_, name)| *name)
}

/// All names, in the order of the numbers.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(_, name)| *name)
}

const fn is_same(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
        if *first != *other {
            return false;
        }
        (a, b) = (rest, others);
    }
    a.is_empty() && b.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cooperation::SYSCALLS;

    #[test]
    fn names_and_numbers_lead_to_one_another() {
        assert_eq!((number("read"), number("write"), number("openat")), (Some(0), Some(1), Some(257)));
        assert_eq!((number(""), number("rea"), number("reads"), name(400)), (None, None, None, None));
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        for (at, text) in TABLE {
            assert_eq!((number(text), name(at.into())), (Some(at.into()), Some(text)));
            assert!(usize::from(at) < SYSCALLS, "{text} can have a threshold");
        }
    }
}

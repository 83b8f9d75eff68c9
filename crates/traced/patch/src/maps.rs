//! Which protection the mappings of this process have, from `/proc/self/maps` (proc_pid_maps(5)).

use core::ops::Range;
use mote_sys::fd;

/// Bytes at the start of a line that hold the range and the protection: two addresses of 16 digits, `-`, a space,
/// `rwxp`.
const HEAD: usize = 38;

/// Calls `found` with each mapping's addresses and protection (`libc::PROT_*`), in rising order.
///
/// When the file cannot be read, `found` is not called any more.
pub(crate) fn each(mut found: impl FnMut(Range<usize>, i32)) {
    let Ok(file) = fd::open(c"/proc/self/maps", libc::O_RDONLY, 0) else { return };
    let mut lines = Lines { head: [0; HEAD], len: 0 };
    let mut buffer = [0u8; 2048];
    while let Ok(len @ 1..) = fd::read(&file, &mut buffer) {
        for byte in buffer.iter().take(len) {
            if let Some((range, protection)) = lines.push(*byte).and_then(parse) {
                found(range, protection);
            }
        }
    }
}

/// Cuts bytes into lines, and keeps only the head of each.
struct Lines {
    head: [u8; HEAD],
    len: usize,
}

impl Lines {
    /// Takes a byte; returns the head of the line that it ends.
    fn push(&mut self, byte: u8) -> Option<&[u8]> {
        if byte == b'\n' {
            let len = core::mem::take(&mut self.len);
            return self.head.get(..len);
        }
        if let Some(to) = self.head.get_mut(self.len) {
            *to = byte;
            self.len += 1;
        }
        None
    }
}

fn parse(line: &[u8]) -> Option<(Range<usize>, i32)> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut ends = words.next()?.split(|byte| *byte == b'-');
    let range = hex(ends.next()?)?..hex(ends.next()?)?;
    let &[r, w, x, ..] = words.next()? else { return None };
    let bit = |letter, name, bit| if letter == name { bit } else { 0 };
    let protection =
        bit(r, b'r', libc::PROT_READ) | bit(w, b'w', libc::PROT_WRITE) | bit(x, b'x', libc::PROT_EXEC);
    Some((range, protection))
}

/// The number that `digits` are in base 16.
pub(crate) fn hex(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |sum: usize, digit| Some(sum << 4 | char::from(*digit).to_digit(16)? as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let rx = libc::PROT_READ | libc::PROT_EXEC;
        let line = b"55d0c0de1000-55d0c0de2000 r-xp 00001000 fd:01 393";
        assert_eq!(parse(line), Some((0x55d0c0de1000..0x55d0c0de2000, rx)));
        let line = b"ffffffffff600000-ffffffffff601000 --xp";
        assert_eq!(parse(line), Some((0xffffffffff600000..0xffffffffff601000, libc::PROT_EXEC)));
        for broken in [&b""[..], b"55-", b"55-66", b"55-66 r", b"-55 rwxp", b"g-h rwxp"] {
            assert_eq!(parse(broken), None);
        }
    }

    #[test]
    fn the_own_text_is_found() {
        let here = the_own_text_is_found as fn() as usize;
        let mut protection = None;
        each(|range, found| {
            if range.contains(&here) {
                protection = Some(found);
            }
        });
        assert_eq!(protection, Some(libc::PROT_READ | libc::PROT_EXEC));
    }
}

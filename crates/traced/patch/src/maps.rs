//! The mappings of this process, from `/proc/self/maps` (proc_pid_maps(5)).

use core::ops::Range;
use mote_sys::fd;

/// Bytes of a line that are looked at: all of it, with the longest path there is.
const LINE: usize = 128 + libc::PATH_MAX as usize;

/// A mapping, as its line says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Its addresses.
    pub(crate) range: Range<usize>,
    /// `libc::PROT_*`.
    pub(crate) protection: i32,
    /// What is written to it stays in this process.
    pub(crate) is_private: bool,
    /// Where in its file it begins.
    pub(crate) offset: usize,
    /// Its file.
    pub(crate) file: File,
    /// The file's path, or what else it is; escaped, where it has a line's end.
    pub(crate) path: &'a [u8],
}

/// Which file it is, of all that the kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) device: (usize, usize),
    /// 0 when there is none.
    pub(crate) inode: usize,
}

/// Calls `found` with each mapping, in rising order.
///
/// When the file cannot be read, `found` is not called any more.
///
/// Not generic: each program that is traced has this code.
pub(crate) fn each(found: &mut dyn FnMut(Line<'_>)) {
    let Ok(file) = fd::open(c"/proc/self/maps", libc::O_RDONLY, 0) else { return };
    let mut lines = Lines { line: [0; LINE], len: 0 };
    let mut buffer = [0u8; 2048];
    while let Ok(len @ 1..) = fd::read(&file, &mut buffer) {
        for byte in buffer.iter().take(len) {
            if let Some(line) = lines.push(*byte).and_then(parse) {
                found(line);
            }
        }
    }
}

/// Cuts bytes into lines.
struct Lines {
    line: [u8; LINE],
    len: usize,
}

impl Lines {
    /// Takes a byte; returns the line that it ends.
    fn push(&mut self, byte: u8) -> Option<&[u8]> {
        if byte == b'\n' {
            let len = core::mem::take(&mut self.len);
            return self.line.get(..len);
        }
        if let Some(to) = self.line.get_mut(self.len) {
            *to = byte;
            self.len += 1;
        }
        None
    }
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let range = pair(words.next()?, b'-')?;
    let &[r, w, x, shared, ..] = words.next()? else { return None };
    let bit = |letter, name, bit| if letter == name { bit } else { 0 };
    let protection =
        bit(r, b'r', libc::PROT_READ) | bit(w, b'w', libc::PROT_WRITE) | bit(x, b'x', libc::PROT_EXEC);
    let offset = hex(words.next()?)?;
    let device = pair(words.next()?, b':')?;
    let inode = core::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let path = words.next().unwrap_or_default().trim_ascii_start();
    let file = File { device, inode };
    Some(Line { range: range.0..range.1, protection, is_private: shared == b'p', offset, file, path })
}

/// Two numbers in base 16.
fn pair(word: &[u8], between: u8) -> Option<(usize, usize)> {
    let mut numbers = word.split(|byte| *byte == between);
    Some((hex(numbers.next()?)?, hex(numbers.next()?)?))
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
        let file = File { device: (0xfd, 1), inode: 393 };
        let of_file = |path| Line {
            range: 0x55d0c0de1000..0x55d0c0de2000,
            protection: rx,
            is_private: true,
            offset: 0x1000,
            file,
            path,
        };
        let line = b"55d0c0de1000-55d0c0de2000 r-xp 00001000 fd:01 393          /usr/bin/a b";
        assert_eq!(parse(line), Some(of_file(b"/usr/bin/a b")));
        assert_eq!(parse(b"55d0c0de1000-55d0c0de2000 r-xp 00001000 fd:01 393"), Some(of_file(b"")));
        let line =
            parse(b"ffffffffff600000-ffffffffff601000 --xs 00000000 00:00 0 [vsyscall]").expect("a line");
        assert_eq!((line.protection, line.is_private, line.file.inode), (libc::PROT_EXEC, false, 0));
        let broken =
            ["", "55-", "55-66", "55-66 r", "-55 rwxp 0 0:0 0", "g-h rwxp 0 0:0 0", "1-2 rwxp 0 0 0"];
        for broken in broken {
            assert_eq!(parse(broken.as_bytes()), None);
        }
    }

    #[test]
    fn the_own_text_is_found() {
        let here = the_own_text_is_found as fn() as usize;
        let mut protection = None;
        each(&mut |line| {
            if line.range.contains(&here) {
                protection = Some(line.protection);
            }
        });
        assert_eq!(protection, Some(libc::PROT_READ | libc::PROT_EXEC));
    }
}

//! Memory of a process that may be written while it may be executed: by one mapping, or by two of the same memory, as
//! run-time compilers have it that keep their code writable elsewhere.

/// Such memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// Where it is written.
    pub(crate) start: u64,
    /// Behind its last byte there.
    pub(crate) end: u64,
    /// Where it is executed.
    pub(crate) code: u64,
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug)]
struct Line<'m> {
    start: u64,
    end: u64,
    is_writable: bool,
    is_executable: bool,
    is_shared: bool,
    /// The offset in its file.
    offset: u64,
    /// Device and inode.
    file: (&'m str, &'m str),
}

impl<'m> Line<'m> {
    fn parse(line: &'m str) -> Option<Line<'m>> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        let protection = words.next()?;
        let offset = hex(words.next()?)?;
        let file = (words.next()?, words.next()?);
        let path = words.next().unwrap_or_default().trim_start();
        let (start, end) = (hex(start)?, hex(end)?);
        let has = |letter| protection.contains(letter);
        let line = Line {
            start,
            end,
            is_writable: has('w'),
            is_executable: has('x'),
            is_shared: has('s'),
            offset,
            file,
        };
        // Stacks are written all the time, and have no code but that of nested functions in C.
        (start < end && path != "[stack]").then_some(line)
    }

    /// Where this mapping has memory that is executed by that one.
    fn writes(&self, code: &Line<'_>) -> Option<Open> {
        let first = self.offset.max(code.offset);
        let (own, other) = (first - self.offset, first - code.offset);
        let bytes =
            (self.end - self.start).checked_sub(own)?.min((code.end - code.start).checked_sub(other)?);
        let start = self.start + own;
        (bytes > 0).then_some(Open { start, end: start + bytes, code: code.start + other })
    }
}

/// All such memory by a process's maps (proc_pid_maps(5)), in the order of addresses. Where the same is written by
/// several mappings it is there several times; where it is executed by several, the first one counts.
pub(crate) fn find(maps: &str) -> Vec<Open> {
    let all: Vec<Line<'_>> = maps.lines().filter_map(Line::parse).collect();
    let is_open = |line: &&Line<'_>| line.is_writable && line.is_executable;
    let mut found: Vec<Open> = all
        .iter()
        .filter(is_open)
        .map(|line| Open { start: line.start, end: line.end, code: line.start })
        .collect();
    for code in all.iter().filter(|line| line.is_shared && line.is_executable) {
        let is_same = |line: &&Line<'_>| line.is_shared && line.is_writable && line.file == code.file;
        let others = all.iter().filter(is_same).filter(|line| line.start != code.start);
        for other in others.filter_map(|line| line.writes(code)) {
            if !found.iter().any(|known| known.start < other.end && other.start < known.end) {
                found.push(other);
            }
        }
    }
    found.sort_unstable_by_key(|open| open.start);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(maps: &str, expect: &[(u64, u64, u64)]) {
        let found = find(maps).into_iter().map(|open| (open.start, open.end, open.code));
        assert_eq!(found.collect::<Vec<_>>(), expect, "{maps}");
    }

    #[test]
    fn memory_that_stays_writable_and_executable() {
        check(
            "1000-3000 rwxp 00000000 00:00 0 \n\
             4000-5000 r-xp 00000000 08:01 12                         /bin/cat\n\
             5000-6000 rw-p 00001000 08:01 12                         /bin/cat\n\
             7000-9000 rwxp 00000000 00:00 0                          [stack]\n",
            &[(0x1000, 0x3000, 0x1000)],
        );
        check("", &[]);
        check("nothing\n1000-\n3000-2000 rwxp 0 0 0\n1000-2000 rwxp 0\n", &[]);
    }

    #[test]
    fn memory_that_is_mapped_twice() {
        // Pages 1 to 2 of a file are executed, 0 to 3 written; another file has nothing to do with it.
        check(
            "10000-12000 r-xs 00001000 00:01 7                        /memfd:code (deleted)\n\
             20000-24000 rw-s 00000000 00:01 7                        /memfd:code (deleted)\n\
             30000-34000 rw-s 00000000 00:01 8                        /memfd:data (deleted)\n",
            &[(0x21000, 0x23000, 0x10000)],
        );
        // No part of it is both.
        check(
            "10000-11000 r-xs 00001000 00:01 7                        /memfd:code (deleted)\n\
             20000-21000 rw-s 00000000 00:01 7                        /memfd:code (deleted)\n",
            &[],
        );
        // A private mapping does not see what is written later.
        check(
            "10000-11000 r-xp 00000000 00:01 7                        /memfd:code (deleted)\n\
             20000-21000 rw-s 00000000 00:01 7                        /memfd:code (deleted)\n",
            &[],
        );
    }
}

//! Tables of run-time compilers with times: `jit-PID.dump` (the kernel's
//! tools/perf/Documentation/jitdump-specification.txt). OpenJDK writes them by perf's agent (libperf-jvmti), node by
//! `--perf-prof`.
//!
//! ```text
//! header: magic, version, size, machine, process, time, flags
//! record: kind, size, time ─ load: thread, address, size, number, name, code
//!                          ─ move: from where to where
//! ```
//! Nothing in it is believed: what its sizes do not allow ends it, and what lies beside is passed over.

use std::ops::Range;

/// `JiTD`, as it is written by a processor whose first byte is the least one.
const MAGIC: u32 = 0x4a69_5444;
/// Bytes of the header that all versions have, and of that of a record.
const HEADER: usize = 40;
const RECORD: usize = 16;
/// Times are the time stamp counter's (`JITDUMP_FLAGS_ARCH_TIMESTAMP`).
const OF_COUNTER: u64 = 1;
/// Kinds of records; the others are lines, unwinding tables and the end.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
/// Functions that are read.
const FUNCTIONS_MAX: usize = 1 << 20;
/// How many that begin before an address are looked through.
const BEFORE_MAX: usize = 64;

/// The functions that a process has compiled, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitDump {
    /// By address, then by time.
    functions: Vec<Compiled>,
    names: String,
    code: Vec<u8>,
    /// Times are those of the time stamp counter, not of `CLOCK_MONOTONIC`.
    is_of_counter: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Compiled {
    range: Range<u64>,
    time: u64,
    number: u64,
    name: Range<usize>,
    code: Range<usize>,
}

/// A function as it was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load<'d> {
    /// When the compiler had written it.
    pub time: u64,
    /// Its first address.
    pub start: u64,
    /// What it is called.
    pub name: &'d str,
    /// Its instructions, as far as they were written; none of one that was moved.
    pub code: &'d [u8],
}

/// Bytes that are read from front to back.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.0.split_at_checked(len)?;
        self.0 = left;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn words<const N: usize>(&mut self) -> Option<[u32; N]> {
        let mut words = [0; N];
        words.iter_mut().try_for_each(|word| self.word().map(|read| *word = read))?;
        Some(words)
    }

    fn longs<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut longs = [0; N];
        longs.iter_mut().try_for_each(|long| self.long().map(|read| *long = read))?;
        Some(longs)
    }
}

impl JitDump {
    /// Reads it, as far as it goes: a process may still write it, or have ended meanwhile. `None` where it is none, or
    /// of a processor whose bytes are in the other order.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<JitDump> {
        let mut header = Bytes(bytes);
        let [magic, _version, size] = header.words()?;
        if magic != MAGIC || (size as usize) < HEADER {
            return None;
        }
        let [_machine, _free, _process] = header.words()?;
        let [_time, flags] = header.longs()?;
        let mut dump = JitDump { is_of_counter: flags & OF_COUNTER != 0, ..JitDump::default() };
        let mut left = Bytes(bytes.get(size as usize..)?);
        while dump.functions.len() < FUNCTIONS_MAX {
            let Some([kind, size]) = left.words() else { break };
            let Some(time) = left.long() else { break };
            let Some(record) = (size as usize).checked_sub(RECORD).and_then(|len| left.take(len)) else {
                break;
            };
            // A record that is too short has nothing to say.
            let _ = match kind {
                LOAD => dump.load(time, Bytes(record)),
                MOVE => dump.moved(time, Bytes(record)),
                _ => None,
            };
        }
        dump.functions.sort_by_key(|function| (function.range.start, function.time));
        Some(dump)
    }

    fn load(&mut self, time: u64, mut record: Bytes<'_>) -> Option<()> {
        let [_process, _thread] = record.words()?;
        let [_unrelocated, start, len, number] = record.longs()?;
        let end = record.0.iter().position(|byte| *byte == 0)?;
        let name = String::from_utf8_lossy(record.take(end)?);
        let code = record.0.get(1..)?;
        let code = code.get(..usize::try_from(len).ok()?).unwrap_or(code);
        let (name_at, code_at) = (self.names.len(), self.code.len());
        self.names.push_str(&name);
        self.code.extend_from_slice(code);
        self.functions.push(Compiled {
            range: start..start.checked_add(len)?,
            time,
            number,
            name: name_at..self.names.len(),
            code: code_at..self.code.len(),
        });
        Some(())
    }

    fn moved(&mut self, time: u64, mut record: Bytes<'_>) -> Option<()> {
        let [_process, _thread] = record.words()?;
        let [_unrelocated, _from, to, len, number] = record.longs()?;
        let loaded = self.functions.iter().rev().find(|function| function.number == number)?;
        let (name, end) = (loaded.name.clone(), to.checked_add(len)?);
        self.functions.push(Compiled { range: to..end, time, number, name, code: 0..0 });
        Some(())
    }

    /// Whether its times are those of the time stamp counter; otherwise they are `CLOCK_MONOTONIC`, in nanoseconds.
    #[must_use]
    pub fn is_of_counter(&self) -> bool {
        self.is_of_counter
    }

    /// Translates all times by `of`.
    #[must_use]
    pub fn with_times(mut self, of: impl Fn(u64) -> u64) -> JitDump {
        self.functions.iter_mut().for_each(|function| function.time = of(function.time));
        self.functions.sort_by_key(|function| (function.range.start, function.time));
        self
    }

    /// All functions, in the order of addresses.
    pub fn loads(&self) -> impl Iterator<Item = Load<'_>> {
        self.functions.iter().map(|function| Load {
            time: function.time,
            start: function.range.start,
            name: self.names.get(function.name.clone()).unwrap_or_default(),
            code: self.code.get(function.code.clone()).unwrap_or_default(),
        })
    }

    /// The function at an address up to a time, and the offset in it: the last one that was compiled there by then, or
    /// else the first one behind. Without a time, the last one of all.
    #[must_use]
    pub fn find(&self, address: u64, until: Option<u64>) -> Option<(&str, u64)> {
        let behind = self.functions.partition_point(|function| function.range.start <= address);
        let before = self.functions.get(behind.saturating_sub(BEFORE_MAX)..behind)?;
        let there = || before.iter().filter(|function| function.range.contains(&address));
        let is_then = |function: &&Compiled| until.is_none_or(|until| function.time <= until);
        let last = there().filter(is_then).max_by_key(|function| function.time);
        let function = last.or_else(|| there().min_by_key(|function| function.time))?;
        Some((self.names.get(function.name.clone())?, address - function.range.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u64) -> Vec<u8> {
        let words = [MAGIC, 1, 40, 62, 0, 7].map(u32::to_le_bytes);
        let longs = [5, flags].map(u64::to_le_bytes);
        [words.as_flattened(), longs.as_flattened()].concat()
    }

    fn record(kind: u32, time: u64, longs: &[u64], rest: &[u8]) -> Vec<u8> {
        let longs: Vec<u8> = longs.iter().flat_map(|long| long.to_le_bytes()).collect();
        let body = [[7_u32, 8].map(u32::to_le_bytes).as_flattened(), &longs, rest].concat();
        let head = [kind, (RECORD + body.len()) as u32].map(u32::to_le_bytes);
        [head.as_flattened(), &time.to_le_bytes(), &body].concat()
    }

    fn load(time: u64, start: u64, number: u64, name: &str, code: &[u8]) -> Vec<u8> {
        record(
            LOAD,
            time,
            &[start, start, code.len() as u64, number],
            &[name.as_bytes(), &[0], code].concat(),
        )
    }

    #[test]
    fn functions_have_the_name_that_they_had_then() {
        let bytes = [
            header(0),
            load(10, 0x1000, 1, "first", &[1; 16]),
            record(4, 11, &[], &[0; 64]),
            load(20, 0x1000, 2, "second", &[2; 16]),
            record(MOVE, 30, &[0, 0x1000, 0x2000, 16, 2], &[]),
        ]
        .concat();
        let dump = JitDump::parse(&bytes).expect("one");
        for (address, until, expect) in [
            (0x1004, Some(10), Some(("first", 4))),
            (0x1004, Some(19), Some(("first", 4))),
            (0x100f, Some(25), Some(("second", 15))),
            (0x1004, None, Some(("second", 4))),
            // Its name is noted behind its first instruction, perhaps.
            (0x1004, Some(9), Some(("first", 4))),
            (0x2000, Some(30), Some(("second", 0))),
            (0x1010, None, None),
            (0, None, None),
        ] {
            assert_eq!(dump.find(address, until), expect, "{address:#x} until {until:?}");
        }
        let loads: Vec<_> = dump.loads().map(|load| (load.time, load.start, load.code.len())).collect();
        assert_eq!(loads, [(10, 0x1000, 16), (20, 0x1000, 16), (30, 0x2000, 0)]);
        let later = dump.clone().with_times(|time| 2 * time);
        assert_eq!(later.find(0x1000, Some(39)), Some(("first", 0)));
        // What is cut ends there.
        for len in 0..bytes.len() {
            let read = JitDump::parse(&bytes[..len]);
            assert_eq!(read.is_some(), len >= HEADER, "{len}");
            assert!(read.is_none_or(|read| read.loads().count() <= 3));
        }
    }

    #[test]
    fn what_cannot_be_is_passed_over() {
        assert_eq!(JitDump::parse(b"DTiJ"), None);
        assert_eq!(JitDump::parse(&[0; 100]), None);
        assert!(JitDump::parse(&header(OF_COUNTER)).is_some_and(|dump| dump.is_of_counter()));
        let wrong = [
            // Longer than it is, at the end of all addresses, without a name, of nothing that was there.
            record(LOAD, 1, &[0, 0x1000, u64::MAX, 1], b"long\0code"),
            record(LOAD, 1, &[0, u64::MAX, 16, 1], b"end\0code"),
            record(LOAD, 1, &[0, 0x1000, 16, 1], b"name"),
            record(LOAD, 1, &[0], &[]),
            record(MOVE, 1, &[0, 0, 0x2000, 16, 9], &[]),
            record(MOVE, 1, &[], &[]),
        ];
        for record in &wrong {
            let dump = JitDump::parse(&[&header(0)[..], record, &load(1, 0x3000, 1, "good", &[1])].concat());
            let dump = dump.expect("one");
            assert_eq!(dump.find(0x3000, None), Some(("good", 0)), "{record:?}");
            assert!(dump.loads().count() <= 2);
        }
        // A size that is none ends it.
        let ends = [&header(0)[..], &[0, 0, 0, 0, 3, 0, 0, 0], &[0; 100]].concat();
        assert_eq!(JitDump::parse(&ends).expect("one").loads().count(), 0);
    }
}

//! Records of perf_event_open(2) that are no samples: what processes map, fork and run.

use mote_journal::Map;
use mote_symbol::{IN_MEMORY, LIBRARY};

/// Kinds of records (`enum perf_event_type`).
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const SWITCH: u32 = 14;
const SWITCH_OF_CPU: u32 = 15;
/// In `misc` of a record: the name is that of a new program; the mapping has a build id.
const COMM_EXEC: u16 = 1 << 13;
const HAS_BUILD_ID: u16 = 1 << 14;
/// The thread leaves the CPU; although it could go on.
const SWITCH_OUT: u16 = 1 << 13;
const PREEMPTED: u16 = 1 << 14;
/// `PROT_EXEC`
const EXECUTABLE: u32 = 4;

/// A record of the side band.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The executable mapping is new.
    Map(Map),
    /// The thread is called so; true: it runs a new program.
    Name(String, bool),
    /// Process and thread that made it.
    Fork((u32, u32)),
    Exit,
    /// The thread leaves the CPU; true: although it could go on.
    Out(bool),
    /// It has a CPU again.
    In,
    Lost(u64),
}

impl Record {
    /// Whether what the process has mapped is not what it was.
    pub(crate) fn changes_mappings(&self) -> bool {
        matches!(self.what, What::Map(_) | What::Name(_, true) | What::Fork(_))
    }

    /// Reads a record with its header; `None` for one of another kind, or of data.
    pub(crate) fn read(bytes: &[u8]) -> Option<Record> {
        let kind = number(bytes, 0, 4)? as u32;
        let misc = number(bytes, 4, 2)? as u16;
        let id = |at| number(bytes, at, 4).map(|id| id as u32);
        // They end with the time.
        let (body, time) = bytes.split_last_chunk::<8>()?;
        let at = u64::from_le_bytes(*time);
        let (pid, tid, what) = match kind {
            LOST => (0, 0, What::Lost(number(bytes, 16, 8)?)),
            COMM => (id(8)?, id(12)?, What::Name(text(body, 16), misc & COMM_EXEC != 0)),
            // Process, parent, thread, thread of the parent.
            EXIT => (id(8)?, id(16)?, What::Exit),
            FORK => (id(8)?, id(16)?, What::Fork((id(12)?, id(20)?))),
            MMAP2 => (id(8)?, id(12)?, What::Map(mapping(body, misc)?)),
            // They end with process, thread and time; of a CPU, with the other thread's before.
            SWITCH | SWITCH_OF_CPU => {
                let at = body.len().checked_sub(8)?;
                let is_out = misc & SWITCH_OUT != 0;
                let what = if is_out { What::Out(misc & PREEMPTED != 0) } else { What::In };
                (id(at)?, id(at + 4)?, what)
            }
            _ => return None,
        };
        Some(Record { pid, tid, at, what })
    }
}

fn mapping(body: &[u8], misc: u16) -> Option<Map> {
    let [start, len, offset] = [16, 24, 32].map(|at| number(body, at, 8));
    let protection = number(body, 64, 4)? as u32;
    if protection & EXECUTABLE == 0 {
        return None;
    }
    let build_id = if misc & HAS_BUILD_ID == 0 {
        String::new()
    } else {
        let len = usize::from(*body.get(40)?).min(20);
        body.get(44..44 + len)?.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let path = match text(body, 72).as_str() {
        "" | "//anon" => "[anon]".to_owned(),
        path if path.starts_with(IN_MEMORY) => LIBRARY.to_owned(),
        path if path.starts_with("[anon")
            || path.starts_with("/memfd:")
            || path.starts_with("anon_inode:") =>
        {
            "[anon]".to_owned()
        }
        path => path.to_owned(),
    };
    let start = start?;
    Some(Map { start, end: start.saturating_add(len?), offset: offset?, path, build_id })
}

/// A number of so many bytes.
pub(crate) fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..len)?.copy_from_slice(bytes.get(at..at + len)?);
    Some(u64::from_le_bytes(word))
}

/// The text at `at` up to its NUL.
fn text(bytes: &[u8], at: usize) -> String {
    let text = bytes.get(at..).unwrap_or_default().split(|byte| *byte == 0).next();
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_records_are_none() {
        let mut map = vec![10, 0, 0, 0, 0, 0x40, 0, 0];
        map.extend([7_u32, 7].iter().flat_map(|id| id.to_le_bytes()));
        map.extend([0x1000_u64, 0x2000, 0x3000].iter().flat_map(|word| word.to_le_bytes()));
        map.extend([3, 0, 0, 0, 0xab, 0xcd, 0xef].iter().chain(&[0; 17]));
        map.extend([5_u32, 2].iter().flat_map(|word| word.to_le_bytes()));
        map.extend(b"/bin/app");
        map.extend(9_u64.to_le_bytes());
        let expected = Map {
            start: 0x1000,
            end: 0x3000,
            offset: 0x3000,
            path: "/bin/app".to_owned(),
            build_id: "abcdef".to_owned(),
        };
        assert_eq!(Record::read(&map), Some(Record { pid: 7, tid: 7, at: 9, what: What::Map(expected) }));
        for len in 0..80 {
            let _ = Record::read(&map[..len]);
        }
        assert_eq!(Record::read(&map[..40]), None);
    }
}

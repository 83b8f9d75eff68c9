//! Processes and their threads.

use super::event::{Kind, Record};
use super::files;
use super::write::Fields;
use std::fs;
use std::path::Path;

/// Thread types, modes and states of LTTng (`lttng-statedump-impl.c`).
const USER_THREAD: i64 = 0;
const KERNEL_THREAD: i64 = 1;
const MODE_UNKNOWN: i64 = 5;
const SUBMODE_UNKNOWN: i64 = 1;
const UNNAMED: i64 = 0;
const WAIT_CPU: i64 = 2;
const ZOMBIE: i64 = 4;
const WAIT: i64 = 5;
const DEAD: i64 = 7;
/// `PF_KTHREAD` (`include/linux/sched.h`).
const PF_KTHREAD: u64 = 0x0020_0000;

/// The ids of all processes, in order.
pub(super) fn all(proc: &Path) -> Vec<u32> {
    numbers(proc)
}

/// The entries of a directory that are numbers, in order.
pub(super) fn numbers(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// A process: its threads, files and mappings.
pub(super) fn process(proc: &Path, pid: u32, take: &mut dyn FnMut(Record)) {
    let directory = proc.join(pid.to_string());
    let mut kernel_thread = false;
    for tid in numbers(&directory.join("task")) {
        let task = directory.join("task").join(tid.to_string());
        if let Some(stat) = Stat::read(&task) {
            kernel_thread = stat.kernel_thread;
            take(stat.record(tid, pid));
            if let Some(record) = namespace(&task, tid) {
                take(record);
            }
        }
    }
    if !kernel_thread {
        files::descriptors(&directory, pid, take);
        files::mappings(&directory, pid, take);
    }
}

/// What `/proc/PID/task/TID/stat` says.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: Vec<u8>,
    state: u8,
    parent: i64,
    kernel_thread: bool,
    cpu: u32,
}

impl Stat {
    fn read(task: &Path) -> Option<Stat> {
        Stat::parse(&fs::read(task.join("stat")).ok()?)
    }

    /// `4711 (name) S 1 ...`; the name may hold anything, parentheses too. (proc_pid_stat(5); the fields are counted
    /// from the state, the third.)
    fn parse(text: &[u8]) -> Option<Stat> {
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let name = text.get(open + 1..close)?.to_vec();
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at - 3)?.parse::<i64>().ok();
        let flags = number(9)?.cast_unsigned();
        Some(Stat {
            name,
            state: *fields.first()?.as_bytes().first()?,
            parent: number(4)?,
            kernel_thread: flags & PF_KTHREAD != 0,
            cpu: u32::try_from(number(39)?).ok()?,
        })
    }

    fn record(&self, tid: u32, pid: u32) -> Record {
        let kind = if self.kernel_thread { KERNEL_THREAD } else { USER_THREAD };
        // LTTng has all that could run as waiting for a CPU; the reader finds out by the next switch.
        let status = match self.state {
            b'R' => WAIT_CPU,
            b'S' | b'D' | b'I' => WAIT,
            b'Z' => ZOMBIE,
            b'X' => DEAD,
            _ => UNNAMED,
        };
        let table = if self.kernel_thread { 0 } else { pid };
        Fields::new(Kind::Process)
            .i32(tid.into())
            .i32(pid.into())
            .i32(self.parent)
            .name(&self.name)
            .i32(kind)
            .i32(MODE_UNKNOWN)
            .i32(SUBMODE_UNKNOWN)
            .i32(status)
            .u32(self.cpu)
            .u64(table.into())
            .record()
    }
}

/// The innermost pid namespace of a thread, and its ids there.
fn namespace(task: &Path, tid: u32) -> Option<Record> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let ids = |key: &str| -> Option<Vec<i64>> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().map(|id| id.parse().ok()).collect()
    };
    let (tids, pids) = (ids("NSpid:")?, ids("NStgid:")?);
    // Only in the outermost namespace the parent's id is known.
    let parent = if tids.len() == 1 { *ids("PPid:")?.first()? } else { 0 };
    let (level, inode) = (tids.len() as u32 - 1, inode(&task.join("ns/pid")).unwrap_or(0));
    Some(of_namespace((tid, level, inode), [*tids.last()?, *pids.last()?, parent]))
}

/// The record of a thread in a namespace at a level, with an inode, where it, its process and that one's parent have
/// these ids.
pub(super) fn of_namespace((tid, level, inode): (u32, u32, u32), [vtid, vpid, vppid]: [i64; 3]) -> Record {
    let record = Fields::new(Kind::Namespace).i32(tid.into()).i32(vtid).i32(vpid).i32(vppid);
    record.i32(level.into()).u32(inode).record()
}

/// Of a link `pid:[4026531836]`.
fn inode(link: &Path) -> Option<u32> {
    let target = fs::read_link(link).ok()?;
    target.to_str()?.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let rest: String = (4..=52).map(|field| format!(" {field}")).collect();
        let read = Stat::parse(format!("7 (a) (b) S{rest}\n").as_bytes()).expect("well formed");
        let expected =
            Stat { name: b"a) (b".to_vec(), state: b'S', parent: 4, kernel_thread: false, cpu: 39 };
        assert_eq!(read, expected);
        for bad in ["", "7 (a", "7 (a) ", "7 (a) S 1", "7 ) ( S 1", "7 (a) S x"] {
            assert_eq!(Stat::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}

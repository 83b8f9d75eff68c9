//! How much memory there is.
//!
//! A memfd has no limit of its own: taking more than there is ends in the kernel killing some process, perhaps not the
//! one that took it. So a program that wants much asks first.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that can be taken now: what the machine has free (`MemAvailable`), or less where a control group leaves less;
/// `None` if neither is known.
///
/// # Cost
/// Reads some files of /proc and two for each control group above this process.
pub fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib << 10)
    });
    let groups = groups().into_iter().map(|group| group.limit.saturating_sub(group.usage));
    machine.into_iter().chain(groups).min()
}

/// The smallest memory limit in bytes of the control groups that this process is in, and the group's directory; `None`:
/// no limit.
pub fn group_limit() -> Option<(u64, PathBuf)> {
    groups().into_iter().map(|group| (group.limit, group.directory)).min()
}

/// A control group with a limit of memory.
struct Group {
    limit: u64,
    usage: u64,
    directory: PathBuf,
}

/// The limited groups that this process is in, of version 1 and 2 (Linux, admin-guide/cgroup-v2).
fn groups() -> Vec<Group> {
    let lines = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut all = Vec::new();
    for line in lines.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit, usage) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            _ => continue,
        };
        let group = Path::new(root).join(path.trim_start_matches('/'));
        all.extend(group.ancestors().take_while(|dir| dir.starts_with(root)).filter_map(|dir| {
            let number = |file| fs::read_to_string(dir.join(file)).ok()?.trim().parse::<u64>().ok();
            Some(Group {
                limit: number(limit)?,
                usage: number(usage).unwrap_or(0),
                directory: dir.to_owned(),
            })
        }));
    }
    // Version 1 writes "no limit" as a number that no machine has.
    all.retain(|group| group.limit < 1 << 60);
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_some_memory_and_not_all() {
        let available = super::available().expect("Linux tells");
        assert!(available > 1 << 20 && available < 1 << 50, "{available}");
    }
}

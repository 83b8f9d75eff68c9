//! Facts that the kernel tells in files.

use std::fs;

/// Capabilities, by their bit (linux/capability.h).
#[derive(Clone, Copy, Debug)]
pub(super) enum Capability {
    IpcLock = 14,
    SysPtrace = 19,
    SysAdmin = 21,
    Perfmon = 38,
    Bpf = 39,
}

/// The first line of a file; `None` when it cannot be read.
pub(super) fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().next().map(|line| line.trim().to_owned())
}

/// The number in a file.
pub(super) fn number(path: &str) -> Option<i64> {
    line(path)?.parse().ok()
}

/// What stands behind `key:` in `/proc/self/status`.
pub(super) fn status(key: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// Whether we have `capability`.
pub(super) fn has(capability: Capability) -> bool {
    let all = status("CapEff").and_then(|bits| u64::from_str_radix(&bits, 16).ok());
    all.is_some_and(|bits| bits & 1 << capability as u32 != 0)
}

/// A soft limit of this process; `None` for no limit.
pub(super) fn soft_limit(name: &str) -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// How many CPUs a list such as `0-3,8` names.
pub(super) fn count(list: &str) -> u64 {
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').filter_map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(count("0-3,8-11"), 8);
        assert_eq!(count("0"), 1);
        assert_eq!(count("3-1, x,"), 0);
    }

    #[test]
    fn this_process_has_a_status_and_limits() {
        assert!(status("Pid").is_some_and(|pid| pid == std::process::id().to_string()));
        assert_eq!(status("Nothing"), None);
        assert!(soft_limit("Max open files").is_some_and(|most| most > 2));
    }
}

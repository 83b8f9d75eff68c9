//! What the kernel says of a process.

use mote_symbol::mapped;
use std::fs;

/// Path of the executable; empty when the process has gone or may not be looked at.
pub(crate) fn executable(pid: i32) -> String {
    fs::read_link(format!("/proc/{pid}/exe"))
        .map_or_else(|_| String::new(), |path| path.display().to_string())
}

/// What `/proc/ID/status` says of a process or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// Its name.
    pub(crate) name: String,
    /// The process that it is of.
    pub(crate) pid: u32,
    /// The process's parent.
    pub(crate) parent: u32,
}

/// As proc(5) tells; `None` when it has ended.
pub(crate) fn status(id: u32) -> Option<Status> {
    let bytes = fs::read(format!("/proc/{id}/status")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim_start);
    Some(Status {
        name: value("Name:")?.to_owned(),
        pid: value("Tgid:")?.parse().ok()?,
        parent: value("PPid:")?.parse().ok()?,
    })
}

/// The users that a process or thread runs as: real, effective, saved, and that of files; `None` when it has ended.
pub(crate) fn users(id: u32) -> Option<[u32; 4]> {
    let bytes = fs::read(format!("/proc/{id}/status")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let users: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    users.try_into().ok()
}

/// `include/linux/sched.h`.
const PF_EXITING: u64 = 4;

/// Whether the process is there, and no zombie.
pub(crate) fn runs(pid: i32) -> bool {
    // While it ends its descriptors are closed before its state says so.
    mapped::state(pid).is_some_and(|(state, flags)| !matches!(state, 'Z' | 'X') && flags & PF_EXITING == 0)
}

/// The id of a process as it sees it itself, in the innermost of its pid namespaces; `None` when it has ended.
pub(crate) fn own_id(pid: u32) -> Option<u32> {
    let bytes = fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

/// Whether `/proc` is that of this process's pid namespace: then ids are the same in both.
pub(crate) fn proc_is_ours() -> bool {
    fs::read_link("/proc/self").is_ok_and(|own| own.to_str() == Some(&std::process::id().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_status() {
        let own = std::process::id();
        let status = status(own).expect("it is there");
        assert_eq!(status.pid, own);
        assert_eq!(status.parent, std::os::unix::process::parent_id());
        assert!(!status.name.is_empty());
        assert_eq!(own_id(own), Some(own));
        assert_eq!(super::status(u32::MAX), None);
        let user = nix::unistd::getuid().as_raw();
        assert_eq!(users(own).map(|users| users[0]), Some(user));
        assert_eq!(users(u32::MAX), None);
        assert_eq!(executable(own as i32), std::env::current_exe().expect("known").display().to_string());
    }
}

//! Whose a process is, as the kernel says: which processes may share memory with it ([`Principal`]), and the recorder's
//! own rights.

use mote_session::Principal;
use mote_session::trust::Trust;
use mote_sys::user;
use std::fs;

/// Bit of CAP_SETUID in a set of capabilities (linux/capability.h).
const SETUID: u64 = 1 << 7;

/// The rights of this process.
pub(crate) fn trust() -> Trust {
    let [_, effective, _] = user::own();
    Trust::new(effective, user::overflow())
}

/// Whose the process `pid` is, by what the kernel says of it (proc(5)) and of the sender of its hello: `uid`. One that
/// may not be looked at shares with no other process; nor does one that is another user's by now: then the id may be
/// another process's. Two processes whose users have no number here need not be the same user's.
pub(crate) fn of(pid: i32, uid: u32) -> Principal {
    let alone = alone(pid);
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return alone };
    match (user_in(&status), namespace(pid)) {
        (Some(now), Some(namespace)) if !can_change(&status) && user::are_same(now, uid) => {
            Principal::User { uid, namespace }
        }
        _ => alone,
    }
}

/// The process alone.
pub(crate) fn alone(pid: i32) -> Principal {
    Principal::Process { pid, started: started(pid).unwrap_or(0) }
}

/// Whether this recorder may record others than its own user's processes.
pub(crate) fn may_record_others() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| can_change(&status))
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// The user, if all four of its ids are the same: real, effective, saved, of files.
fn user_in(status: &str) -> Option<u32> {
    let mut ids = field(status, "Uid")?.split_ascii_whitespace().map(|id| id.parse().ok());
    let first: Option<u32> = ids.next()?;
    ids.all(|id| id == first).then_some(first)?
}

/// Whether a process of this status is root, or may change its user: permitted capabilities can be made effective at
/// any time.
fn can_change(status: &str) -> bool {
    let holds = |set| {
        let bits = field(status, set).and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        bits.is_none_or(|bits| bits & SETUID != 0)
    };
    user_in(status).is_none_or(|uid| uid == 0) || holds("CapPrm") || holds("CapEff")
}

fn namespace(pid: i32) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{pid}/ns/user")).ok()?;
    link.to_str()?.strip_prefix("user:[")?.strip_suffix(']')?.parse().ok()
}

/// Field 22 of proc_pid_stat(5).
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uids: &str, permitted: &str, effective: &str) -> String {
        format!("Name:\tx\nUid:\t{uids}\nGid:\t0\t0\t0\t0\nCapPrm:\t{permitted}\nCapEff:\t{effective}\n")
    }

    #[test]
    fn processes_that_can_become_another_user_share_with_none() {
        let none = "0000000000000000";
        assert!(!can_change(&status("1000\t1000\t1000\t1000", none, none)));
        for changes in [
            status("0\t0\t0\t0", none, none),
            status("1000\t0\t0\t0", none, none),
            status("1000\t1000\t0\t1000", none, none),
            status("1000\t1000\t1000\t1000", "0000000000000080", none),
            status("1000\t1000\t1000\t1000", none, "00000000000000ff"),
            "Name:\tx\n".to_owned(),
        ] {
            assert!(can_change(&changes), "{changes}");
        }
    }

    #[test]
    fn this_process_has_one_principal() {
        let pid = std::process::id() as i32;
        let uid = user::own()[0];
        assert_eq!(of(pid, uid), of(pid, uid));
        assert!(!of(pid, uid + 1).is_shared(), "somebody else has said hello");
        assert!(started(pid).is_some() && namespace(pid).is_some());
        assert_eq!(of(-1, uid), Principal::Process { pid: -1, started: 0 });
    }
}

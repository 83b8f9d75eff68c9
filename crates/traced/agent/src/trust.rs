//! Whom a process believes: a session that is of its own user, or root's; a process of root's only root's
//! (`docs/security.md`).
//!
//! Of which user a session is the kernel says: with each message that it sends ([`Received::sender`]), of what listens
//! at a path, and of files, which have an owner. The user that stands for all who have no number in the process's user
//! namespace is never believed.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering};
use mote_sys::fd::{self, Identity};
use mote_sys::socket::Received;
use mote_sys::user;
use mote_wire::SESSIONS_MAX;

const ROOT: u32 = 0;
/// Others may not put anything in the place of a session's socket.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The process that speaks for the session of this number, once it was believed; 0 when that is not known here (it is
/// of another pid namespace). What it says later is believed without another look: also when this process has gone into
/// a user namespace, where its user has no number, meanwhile.
static SPEAKER: [AtomicI32; SESSIONS_MAX] = [const { AtomicI32::new(0) }; SESSIONS_MAX];

/// No process speaks for the session yet.
pub(crate) fn forget(session: usize) {
    note(session, 0);
}

fn note(session: usize, pid: i32) {
    if let Some(speaker) = SPEAKER.get(session) {
        speaker.store(pid, Ordering::Relaxed);
    }
}

/// Whether a message is from the session of this number.
///
/// # Cost
/// At most five system calls for the first message; none for the others, where the recorder's process has an id here.
pub(crate) fn is_from(session: usize, received: &Received) -> bool {
    let Some(sender) = received.sender else { return false };
    let known = SPEAKER.get(session).map_or(0, |speaker| speaker.load(Ordering::Relaxed));
    if known != 0 && known == sender.pid {
        return true;
    }
    let is_believed = believes(sender.uid);
    if is_believed {
        note(session, sender.pid);
    }
    is_believed
}

/// Whether this user's sessions are believed: root's, and, where all user ids of the process are this one's, the user's
/// own.
pub(crate) fn believes(uid: u32) -> bool {
    uid == ROOT || is_own(user::own(), uid, user::are_same)
}

fn is_own(own: [u32; 3], uid: u32, are_same: impl Fn(u32, u32) -> bool) -> bool {
    own == [uid; 3] && are_same(uid, uid)
}

/// Whether what is at these paths can be a session's: a socket, and the directory that it is in, of a user who is
/// believed, to which no other user can write.
pub(crate) fn is_place(directory: &CStr, socket: &CStr) -> bool {
    let is_theirs = |file: &Identity| believes(file.owner);
    let is_closed = |file: &Identity| file.is_directory && file.mode & WRITABLE_BY_OTHERS == 0;
    fd::identity_at(directory).is_ok_and(|file| is_closed(&file) && is_theirs(&file))
        && fd::identity_at(socket).is_ok_and(|file| file.is_socket && is_theirs(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_user_and_root_are_believed() {
        let are_same = |one, other| one == other && one != 65534;
        let believed = |own, uid| uid == ROOT || is_own(own, uid, are_same);
        assert!(believed([1000; 3], 1000) && believed([1000; 3], 0) && !believed([1000; 3], 1001));
        assert!(believed([0; 3], 0) && !believed([0; 3], 1000));
        for raised in [[1000, 0, 0], [1000, 1000, 0], [0, 1000, 1000], [1000, 1001, 1001]] {
            assert!(!believed(raised, 1000) && believed(raised, 0), "{raised:?}");
        }
        assert!(!believed([65534; 3], 65534) && believed([65534; 3], 0));
    }
}

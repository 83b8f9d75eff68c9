//! Access rights: the one place where users are compared (`docs/security.md`).
//!
//! Root may record processes of all users, other users only their own. The overflow user, which stands for all users
//! without a number in this user namespace (`mote_sys::user::overflow`), equals no user, not even itself.

use mote_sys::socket::Credentials;

/// The recorder's user, and the overflow user.
#[derive(Clone, Copy, Debug)]
pub struct Trust {
    own: u32,
    overflow: u32,
}

const ROOT: u32 = 0;

impl Trust {
    /// Of a recorder that runs as `own`, in a user namespace with this overflow user.
    pub fn new(own: u32, overflow: u32) -> Trust {
        Trust { own, overflow }
    }

    /// The recorder's user.
    pub fn own(self) -> u32 {
        self.own
    }

    /// Whether the recorder is root's.
    pub fn is_root(self) -> bool {
        self.own == ROOT
    }

    /// Whether two are the same user.
    pub fn are_same(self, one: u32, other: u32) -> bool {
        one == other && one != self.overflow
    }

    /// Whether the sender is unknown: the kernel was not asked yet when the message was sent, or neither the process
    /// nor its user has a number in our namespaces.
    pub fn is_stranger(self, peer: Credentials) -> bool {
        peer.pid == 0 && peer.uid == self.overflow
    }

    /// Whether a process may be recorded here.
    pub fn records(self, peer: Credentials) -> bool {
        !self.is_stranger(peer) && (self.is_root() || self.are_same(peer.uid, self.own))
    }

    /// Whether requests about the recording are done for this user.
    pub fn obeys(self, uid: u32) -> bool {
        uid == ROOT || self.are_same(uid, self.own)
    }

    /// Whether a recorder of user `uid` is asked, about what belongs to `owner`: root asks also the owner's.
    pub fn asks(self, uid: u32, owner: u32) -> bool {
        uid == ROOT || self.are_same(uid, self.own) || (self.is_root() && self.are_same(uid, owner))
    }

    /// Whether a recorder of user `uid` is asked for a process of `owner`, and sent the way in for such processes:
    /// nobody else can have it in a recording that we can see.
    pub fn invites(self, uid: u32, owner: u32) -> bool {
        self.are_same(uid, self.own) || (self.is_root() && self.are_same(uid, owner))
    }
}

/// Which processes one way into the session admits.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// The recorder's rights.
    pub trust: Trust,
    /// Only this user's processes.
    pub only: Option<u32>,
}

impl Guard {
    /// Admits a process.
    ///
    /// # Errors
    /// Why not, for a person.
    pub fn admit(self, peer: Credentials) -> Result<(), String> {
        let Credentials { pid, uid, .. } = peer;
        if self.trust.records(peer) && self.only.is_none_or(|only| only == uid) {
            return Ok(());
        }
        Err(match self.only {
            _ if uid == self.trust.overflow => {
                format!(
                    "process {pid} belongs to a user ({uid}) that does not exist here; only root can record it"
                )
            }
            Some(only) => {
                format!("process {pid} belongs to user {uid}, but came to the socket of user {only}")
            }
            None => {
                format!("process {pid} belongs to user {uid}; only root can record processes of other users")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(pid: i32, uid: u32) -> Credentials {
        Credentials { pid, uid, gid: uid }
    }

    #[test]
    fn root_records_all_and_is_recorded_by_none() {
        let root = Trust { own: 0, overflow: 65534 };
        let user = Trust { own: 1000, overflow: 65534 };
        let nobody = Trust { own: 65534, overflow: 65534 };
        for uid in [0, 1000, 1001, 65534] {
            assert!(root.records(peer(7, uid)));
            assert_eq!(user.records(peer(7, uid)), uid == 1000);
            assert!(!nobody.records(peer(7, uid)), "also not itself");
        }
        assert!(!root.records(peer(0, 65534)), "a message of nobody");
        assert!(root.records(peer(0, 0)) && user.records(peer(0, 1000)), "of another pid namespace");
        for (trust, obeyed) in [(root, [0].as_slice()), (user, &[0, 1000]), (nobody, &[0])] {
            let all = [0, 1000, 1001, 65534].into_iter().filter(|uid| trust.obeys(*uid));
            assert_eq!(all.collect::<Vec<_>>(), obeyed);
        }
        let guard = Guard { trust: root, only: Some(1000) };
        assert!(guard.admit(peer(7, 1000)).is_ok() && guard.admit(peer(7, 0)).is_err());
    }
}

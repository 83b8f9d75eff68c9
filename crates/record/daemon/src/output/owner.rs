//! Whose a recording is: root's, or that of whoever had root make it.
//!
//! `sudo mote record` is to leave a recording that its caller can read, unless it holds what that user could not have
//! seen. The rule is about processes: each one that was recorded runs as that user, or as root as a part of the command
//! that the user has had started. Kernel events of everybody, and processes that were chosen by number and are others',
//! are not theirs. `--owner` decides otherwise.
//!
//! The recording is given when it has ended, by descriptor, from the files up to its directory: until that last one is
//! given, nobody but root can enter.

use crate::output::folder::Folder;
use crate::process;
use nix::unistd::{Uid, geteuid};

/// Processes that are looked at again in each round of the loop: they may have become another user's since they came.
pub(crate) const LOOKS: usize = 8;

/// A user, as the kernel knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub(crate) uid: u32,
    /// Their group, if it is known.
    pub(crate) gid: Option<u32>,
}

impl User {
    /// The user with this name or number.
    ///
    /// # Errors
    /// For a person: there is none.
    pub fn find(text: &str) -> Result<User, String> {
        let found = match text.parse::<u32>() {
            Ok(uid) if uid != u32::MAX => {
                let known = nix::unistd::User::from_uid(Uid::from_raw(uid)).ok().flatten();
                Some(User { uid, gid: known.map(|user| user.gid.as_raw()) })
            }
            _ => {
                let known = nix::unistd::User::from_name(text).ok().flatten();
                known.map(|user| User { uid: user.uid.as_raw(), gid: Some(user.gid.as_raw()) })
            }
        };
        found.ok_or_else(|| format!("there is no user '{text}'; give a name or a number"))
    }

    /// Whether this process could make a recording theirs.
    pub fn may_be_given_to(self) -> bool {
        geteuid().is_root() || geteuid().as_raw() == self.uid
    }

    /// `alice (uid 1000)`.
    pub(crate) fn describe(self) -> String {
        match nix::unistd::User::from_uid(Uid::from_raw(self.uid)) {
            Ok(Some(user)) => format!("{} (uid {})", user.name, self.uid),
            _ => format!("uid {}", self.uid),
        }
    }
}

/// Who has called sudo to have this program run as root.
pub(crate) fn sudo_user() -> Option<User> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    // The last stands for all users who have no number here: it is nobody.
    let none = [0, u32::MAX, mote_sys::user::overflow()];
    let uid = number("SUDO_UID").filter(|uid| !none.contains(uid) && geteuid().is_root())?;
    Some(User { uid, gid: number("SUDO_GID") })
}

/// What becomes of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// It stays with the user who records.
    Stays,
    /// It is given to this user, whatever is in it.
    Given(User),
    /// It is given to this user, who has called sudo, unless it holds what is not theirs.
    Theirs(User),
    /// It is not given to that user: the reason.
    Kept(User, String),
}

/// Who is to have the recording.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) ownership: Ownership,
    /// The command was started for the user, and all that is recorded comes from it.
    is_launched: bool,
    /// Where to go on looking.
    pub(crate) next: u64,
    /// Snapshots, which go where the recording goes.
    pub(crate) snapshots: Vec<Folder>,
}

impl Owner {
    /// As `--owner` and sudo say. `is_launched`: all that is recorded comes from a command that the user has started.
    pub(crate) fn of(owner: Option<User>, is_launched: bool) -> Owner {
        let ownership = match (owner, sudo_user()) {
            (Some(user), _) if user.uid == geteuid().as_raw() => Ownership::Stays,
            (Some(user), _) => Ownership::Given(user),
            (None, Some(user)) => Ownership::Theirs(user),
            (None, None) => Ownership::Stays,
        };
        Owner { ownership, is_launched, next: 0, snapshots: Vec::new() }
    }

    /// Whether it matters whose the recorded processes are.
    pub(crate) fn asks(&self) -> bool {
        matches!(self.ownership, Ownership::Theirs(_))
    }

    /// A process or thread is recorded, which runs as these users.
    pub(crate) fn saw(&mut self, id: u32, uids: &[u32]) {
        let Ownership::Theirs(user) = self.ownership else { return };
        let is_theirs = |uid: u32| uid == user.uid || (uid == 0 && self.is_launched);
        if let Some(other) = uids.iter().copied().find(|uid| !is_theirs(*uid)) {
            let other = User { uid: other, gid: None }.describe();
            self.ownership =
                Ownership::Kept(user, format!("it has process {id}, which belongs to another user, {other}"));
        }
    }

    /// A process is recorded. The kernel says which users it runs as, not the process; `uid` is what the kernel said
    /// when the process came.
    pub(crate) fn came(&mut self, pid: i32, uid: u32) {
        if self.asks() {
            let users = process::users(pid.unsigned_abs());
            self.saw(pid.unsigned_abs(), &users.map_or_else(|| vec![uid], |users| users.to_vec()));
        }
    }

    /// Kernel events are of these threads.
    pub(crate) fn note(&mut self, threads: &[u32]) {
        for id in threads {
            if let Some(users) = self.asks().then(|| process::users(*id)).flatten() {
                self.saw(*id, &users);
            }
        }
    }

    /// It cannot be known whose processes these are.
    pub(crate) fn note_unknown(&mut self) {
        self.keep_from_user("it has kernel events of processes whose owners mote cannot see");
    }

    /// Kernel events of all processes are recorded.
    pub(crate) fn note_all(&mut self) {
        self.keep_from_user("it has kernel events of all processes");
    }

    /// The code of all processes is recorded.
    pub(crate) fn note_all_code(&mut self) {
        self.keep_from_user("it has the code of all processes");
    }

    fn keep_from_user(&mut self, why: &str) {
        if let Ownership::Theirs(user) = self.ownership {
            self.ownership = Ownership::Kept(user, why.to_owned());
        }
    }

    /// A snapshot was made.
    pub(crate) fn keep(&mut self, snapshot: &Folder) {
        if self.ownership != Ownership::Stays {
            self.snapshots.push(snapshot.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: User = User { uid: 1000, gid: None };

    fn owner(is_launched: bool) -> Owner {
        Owner { ownership: Ownership::Theirs(ALICE), is_launched, next: 0, snapshots: Vec::new() }
    }

    fn is_theirs(is_launched: bool, uids: &[u32]) -> bool {
        let mut owner = owner(is_launched);
        owner.saw(7, uids);
        owner.saw(8, &[ALICE.uid]);
        owner.ownership == Ownership::Theirs(ALICE)
    }

    #[test]
    fn it_is_given_when_all_of_it_is_theirs() {
        assert!(is_theirs(false, &[1000, 1000, 1000, 1000]));
        assert!(is_theirs(true, &[0, 0, 0, 0]), "the command, which sudo has started as root");
        assert!(!is_theirs(false, &[0, 0, 0, 0]), "a process of root that was there");
        assert!(!is_theirs(true, &[33, 33, 33, 33]));
        assert!(!is_theirs(true, &[1000, 1000, 33, 1000]), "it can become that one again");
    }

    #[test]
    fn users_have_names_or_numbers() {
        assert_eq!(User::find("root"), Ok(User { uid: 0, gid: Some(0) }));
        assert_eq!(User::find("0").map(|user| user.uid), Ok(0));
        assert_eq!(User::find("4000000000").map(|user| user.uid), Ok(4_000_000_000));
        for none in ["no-such-user", "", "-1", "4294967295", "a\0b"] {
            assert!(User::find(none).is_err_and(|why| why.contains("no user")), "{none}");
        }
    }
}

//! Whose the recording is to be: who runs the processes in it, and that it is given away at the end.

use super::Recorder;
use crate::output::owner::{LOOKS, Ownership};
use crate::process;
use mote_session::PeerId;

/// The users that a process runs as. The kernel says so, not the process; `uid` is what it said when the process came.
fn users_of(pid: i32, uid: u32) -> Vec<u32> {
    process::users(pid.unsigned_abs()).map_or_else(|| vec![uid], |users| users.to_vec())
}

impl Recorder<'_> {
    /// A process has come.
    pub(crate) fn note_owner(&mut self, pid: i32, uid: u32) {
        if self.owner.asks() {
            self.owner.saw(pid.unsigned_abs(), &users_of(pid, uid));
        }
    }

    /// Kernel events are of these threads.
    pub(crate) fn note_owners(&mut self, threads: &[u32]) {
        for id in threads {
            if let Some(users) = self.owner.asks().then(|| process::users(*id)).flatten() {
                self.owner.saw(*id, &users);
            }
        }
    }

    /// It cannot be known whose processes these are.
    pub(crate) fn note_unknown_owners(&mut self) {
        if let Ownership::Theirs(user) = self.owner.ownership {
            let why = "it has kernel events of processes whose owners mote cannot see";
            self.owner.ownership = Ownership::Kept(user, why.to_owned());
        }
    }

    /// Looks again at some of the processes that are there.
    pub(crate) fn look_at_owners(&mut self, most: usize) {
        if !self.owner.asks() {
            return;
        }
        let next = PeerId(self.owner.next + 1);
        let connections = self.connections.range(next..).chain(self.connections.range(..next));
        for (id, connection) in connections.take(most) {
            self.owner.next = id.0;
            self.owner.saw(connection.pid.unsigned_abs(), &users_of(connection.pid, connection.uid));
        }
    }

    /// The same in a round of the loop.
    pub(crate) fn look_at_some_owners(&mut self) {
        self.look_at_owners(LOOKS);
    }

    /// Gives the recording, which has ended, to whoever is to have it.
    pub(crate) fn hand_over(&mut self) {
        let (user, reason) = match self.owner.ownership.clone() {
            Ownership::Stays => return,
            Ownership::Given(user) => (user, ""),
            Ownership::Theirs(user) => (user, ", who has called sudo"),
            Ownership::Kept(user, why) => {
                let told = user.describe();
                self.watch.say(&format!(
                    "the recording stays root's: {why}; --owner {} gives it to {told} anyway",
                    user.uid
                ));
                return;
            }
        };
        let directory = &self.trace.directory;
        let snapshots = std::mem::take(&mut self.owner.snapshots);
        let given = snapshots.iter().try_for_each(|snapshot| snapshot.give(user));
        match given.and_then(|()| directory.give(user)) {
            Ok(()) => self.watch.say(&format!("the recording now belongs to {}{reason}", user.describe())),
            Err(why) => self.problem(format!(
                "the recording cannot be given to {}: {why}; as root, chown -R {} {}",
                user.describe(),
                user.uid,
                self.trace.directory.path().display()
            )),
        }
    }
}

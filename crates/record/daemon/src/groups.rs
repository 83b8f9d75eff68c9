//! Which processes share rings, and how much memory each group of them gets.
//!
//! Processes of one user share; each that could become another user has rings of its own ([`crate::principal`]). All groups together take no more memory than
//! the recording was given. Where there can be but one group it gets all of that. Else the first gets half, and each that comes later a third of
//! what is left then, but not more than [`LATER_MAX`] a CPU; what groups give back that have ended is there again.

use crate::consumer::{Change, Shared};
use crate::error::Error;
use crate::principal::Principal;
use crate::spare::Spare;
use mote_ring::geometry::{SUB_BITS_MAX, SUB_BITS_MIN};
use mote_ring::reader::{Channel, MakeError};
use mote_ring::{Geometry, Mode};
use mote_wire::Whose;
use std::sync::Arc;
use std::time::Instant;

/// Most bytes of a CPU's ring for a group that is not the first: they are taken while its process waits, or just before that.
const LATER_MAX: u64 = 8 << 20;
/// Least: two sub-buffers of the smallest size.
const LEAST: u64 = 2 << SUB_BITS_MIN;

/// Processes that share rings.
struct Group {
    number: u64,
    principal: Principal,
    channel: Arc<Channel>,
    /// The processes of its connections.
    members: Vec<i32>,
    /// Since when it has had none.
    empty_since: Option<Instant>,
    /// Its rings were damaged, and its processes have others.
    retired: bool,
}

/// All groups.
pub(crate) struct Groups<'r> {
    shared: &'r Shared,
    /// Sizes of the rings if there were one group only.
    wanted: Geometry,
    /// CPUs whose rings' memory is taken at once.
    online: u32,
    /// Bytes a CPU that are not taken.
    free: u64,
    all: Vec<Group>,
    made: u64,
    /// Rings for the next group, and how many bytes a CPU.
    spare: Option<(Spare, u64)>,
    /// Users of whom a process has damaged shared rings: none of theirs shares any more.
    distrusted: Vec<Principal>,
}

/// Rings for a process.
pub(crate) struct Rings {
    /// The group's number.
    pub(crate) group: u64,
    pub(crate) whose: Whose,
    pub(crate) channel: Arc<Channel>,
}

impl<'r> Groups<'r> {
    /// No group yet, but the memory for the first. `many` says that there may be several.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Geometry`].
    pub(crate) fn new(
        wanted: Geometry,
        online: u32,
        many: bool,
        shared: &'r Shared,
    ) -> Result<Groups<'r>, Error> {
        let free = wanted.ring_bytes();
        let mut groups = Groups {
            shared,
            wanted,
            online,
            free,
            all: Vec::new(),
            made: 0,
            spare: None,
            distrusted: Vec::new(),
        };
        let first = if many { groups.sizes(free / 2) } else { wanted };
        let made = groups.make(first).map_err(|error| match error {
            MakeError::Geometry(bad) => Error::Geometry(bad),
            MakeError::System(why) => Error::Memory { bytes: first.ring_bytes() * u64::from(online), why },
        })?;
        groups.spare = Some((Spare::Made(made), first.ring_bytes()));
        Ok(groups)
    }

    /// Rings for one more connection of the process `pid`, which is `principal`'s: those of its group, or of a new one. `None` when there is no memory left for a new one.
    pub(crate) fn join(&mut self, principal: Principal, pid: i32) -> Option<Rings> {
        let principal = self.trusted(principal, pid);
        let at = match self.of(principal) {
            Some(at) => at,
            None => {
                self.found(principal)?;
                self.all.len() - 1
            }
        };
        let group = self.all.get_mut(at)?;
        group.members.push(pid);
        group.empty_since = None;
        let whose = if principal.is_shared() { Whose::Shared } else { Whose::Own };
        Some(Rings { group: group.number, whose, channel: group.channel.clone() })
    }

    /// A process has damaged these rings, of which nobody knows who it was. From now on each of its user's processes has rings of its own. False when they were
    /// a process's own anyway, or this was done before.
    pub(crate) fn retire(&mut self, number: u64) -> bool {
        let group = self.all.iter_mut().find(|group| group.number == number);
        let Some(group) = group.filter(|group| group.principal.is_shared() && !group.retired) else {
            return false;
        };
        group.retired = true;
        self.distrusted.push(group.principal);
        // It is read on for a moment; its memory is there when those who had it have other rings.
        self.free += group.channel.geometry().ring_bytes();
        true
    }

    /// Whether these rings are not used any more by those who have others.
    pub(crate) fn is_retired(&self, number: u64) -> bool {
        self.all.iter().any(|group| group.number == number && group.retired)
    }

    /// Whose a process is that is `principal`'s: its own, if its user's processes are not to share.
    fn trusted(&self, principal: Principal, pid: i32) -> Principal {
        if self.distrusted.contains(&principal) { Principal::alone(pid) } else { principal }
    }

    /// The group of one more connection of a process that has its rings already, as a child of fork.
    pub(crate) fn join_again(&mut self, principal: Principal, pid: i32) -> Option<u64> {
        let group = self.of(principal).and_then(|at| self.all.get_mut(at))?;
        group.members.push(pid);
        group.empty_since = None;
        Some(group.number)
    }

    /// Rings for a child that goes on in rings that are not used any more; `None` when it may go on there.
    pub(crate) fn join_others(&mut self, principal: Principal, pid: i32) -> Option<Rings> {
        let others = self.trusted(principal, pid);
        if others == principal { None } else { self.join(others, pid) }
    }

    /// The group that processes of this principal join. One of a process's own that was left ends; those without an id here cannot be told from one another.
    fn of(&self, principal: Principal) -> Option<usize> {
        let is_own = matches!(principal, Principal::Process { pid: 1.., .. });
        let takes =
            |group: &Group| !group.retired && (principal.is_shared() || is_own && !group.members.is_empty());
        self.all.iter().position(|group| group.principal == principal && takes(group))
    }

    /// The newest group that a process is in.
    pub(crate) fn of_process(&self, pid: i32) -> Option<u64> {
        let newest = self.all.iter().rev().find(|group| pid > 0 && group.members.contains(&pid));
        newest.map(|group| group.number)
    }

    /// A connection of the process `pid`, of this group, is no more.
    pub(crate) fn leave(&mut self, number: u64, pid: i32) {
        let Some(group) = self.all.iter_mut().find(|group| group.number == number) else { return };
        if let Some(at) = group.members.iter().position(|member| *member == pid) {
            group.members.swap_remove(at);
        }
        if group.members.is_empty() {
            group.empty_since = Some(Instant::now());
            // A user's next process goes on in them.
            if !group.principal.is_shared() || group.retired {
                self.shared.change(Change::Left(number));
            }
        }
    }

    /// The consumer has done with these groups.
    pub(crate) fn ended(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.forget(*number);
        }
    }

    /// Takes memory for the next group, if there may be one that does not come from a user's process. To be called when nobody waits.
    pub(crate) fn prepare(&mut self) {
        let alone = self.all.iter().all(|group| group.principal.is_shared());
        if self.spare.is_some() || alone {
            return;
        }
        self.make_room();
        let Some(sizes) = self.next_sizes() else { return };
        let bytes = sizes.ring_bytes();
        self.spare = Spare::begin(sizes, self.online).map(|spare| (spare, bytes));
        if self.spare.is_some() {
            self.free = self.free.saturating_sub(bytes);
        }
    }

    /// The rings that were made ahead, if they could be.
    fn spare(&mut self) -> Option<Channel> {
        let (spare, bytes) = self.spare.take()?;
        let channel = spare.take();
        if channel.is_none() {
            self.free += bytes;
        }
        channel
    }

    /// Ends groups without a process for as long as the next one's rings would be small for it. Those of a flight recorder, which hold what they will be
    /// asked for, only when there is no other memory.
    fn make_room(&mut self) {
        let enough = if self.wanted.mode == Mode::Overwrite {
            LEAST
        } else {
            (self.wanted.ring_bytes() / 8).min(LATER_MAX)
        };
        while self.next_sizes().is_none_or(|sizes| sizes.ring_bytes() < enough) && self.evict().is_some() {}
    }

    /// A new group for `principal`; `None` when there is no memory for its rings.
    fn found(&mut self, principal: Principal) -> Option<()> {
        if self.spare.is_none() {
            self.make_room();
        }
        let channel = match self.spare() {
            Some(channel) => channel,
            None => self.make(self.next_sizes()?).ok()?,
        };
        let (number, channel) = (self.made, Arc::new(channel));
        self.made += 1;
        self.shared.change(Change::Come(number, channel.clone()));
        self.all.push(Group {
            number,
            principal,
            channel,
            members: Vec::new(),
            empty_since: None,
            retired: false,
        });
        Some(())
    }

    /// Ends the group that has been without a process for longest.
    fn evict(&mut self) -> Option<()> {
        let empty = self.all.iter().filter_map(|group| Some((group.empty_since?, group.number)));
        let (_, number) = empty.min()?;
        self.shared.change(Change::Evict(number));
        self.forget(number);
        Some(())
    }

    fn forget(&mut self, number: u64) {
        if let Some(at) = self.all.iter().position(|group| group.number == number) {
            let group = self.all.remove(at);
            if !group.retired {
                self.free += group.channel.geometry().ring_bytes();
            }
        }
    }

    fn make(&mut self, sizes: Geometry) -> Result<Channel, MakeError> {
        let channel = Channel::make(sizes, 0..self.online)?;
        self.free = self.free.saturating_sub(sizes.ring_bytes());
        Ok(channel)
    }

    /// Sizes of the next group's rings; `None` when too little is left.
    fn next_sizes(&self) -> Option<Geometry> {
        (self.free >= LEAST).then(|| self.sizes((self.free / 3).min(LATER_MAX)))
    }

    /// Rings of `bytes` a CPU, rounded down to a power of two, with sub-buffers as large as was asked for where two of them fit.
    fn sizes(&self, bytes: u64) -> Geometry {
        let bits = bytes.max(LEAST).ilog2();
        let sub_bits = self.wanted.sub_bits.min(bits - 1).clamp(SUB_BITS_MIN, SUB_BITS_MAX);
        Geometry { sub_bits, count_bits: bits - sub_bits, ..self.wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_ring::Clock;

    const WANTED: Geometry =
        Geometry { cpus: 1, shared: 1, sub_bits: 14, count_bits: 4, mode: Mode::Discard, clock: Clock::Tsc };

    fn process(pid: i32) -> Principal {
        Principal::Process { pid, started: 1 }
    }

    fn bytes(rings: &Rings) -> u64 {
        rings.channel.geometry().ring_bytes()
    }

    fn groups(many: bool, shared: &Shared) -> Groups<'_> {
        Groups::new(WANTED, 1, many, shared).expect("memory")
    }

    #[test]
    fn processes_of_a_user_share_all_that_there_is() {
        let shared = Shared::default();
        let mut groups = groups(false, &shared);
        let user = Principal::User { uid: 1000, namespace: 7 };
        let first = groups.join(user, 1).expect("memory");
        let second = groups.join(user, 1).expect("memory");
        assert_eq!((first.whose, first.group, bytes(&first)), (Whose::Shared, second.group, 256 << 10));
        assert_eq!(groups.join_again(user, 2), Some(first.group));
        assert_eq!(groups.join_again(Principal::User { uid: 1000, namespace: 8 }, 3), None);
        assert_eq!((groups.of_process(2), groups.of_process(3)), (Some(first.group), None));
        assert!(
            groups.join(Principal::User { uid: 1001, namespace: 7 }, 1).is_none(),
            "there is no memory left"
        );
    }

    #[test]
    fn all_together_take_no_more_than_was_given() {
        let shared = Shared::default();
        let mut groups = groups(true, &shared);
        let mut all = Vec::new();
        while let Some(rings) = groups.join(process(1 + all.len() as i32), 1 + all.len() as i32) {
            assert_eq!(rings.whose, Whose::Own);
            assert!(rings.channel.geometry().sub_count() >= 2);
            groups.prepare();
            all.push(rings);
        }
        assert!(all.len() > 8, "{}", all.len());
        assert_eq!(bytes(&all[0]), 128 << 10);
        assert!(all.iter().map(bytes).sum::<u64>() <= WANTED.ring_bytes());
        // What has ended makes room.
        groups.leave(all[1].group, 2);
        assert!(groups.join(process(1000), 1).is_some());
        // A process that has left has other rings when it comes again: the former ones may be gone.
        groups.leave(all[0].group, 1);
        let again = groups.join(process(1), 1).expect("memory");
        assert_ne!(again.group, all[0].group);
        assert_eq!(groups.of_process(1), Some(again.group));
    }

    #[test]
    fn processes_without_an_id_here_share_nothing() {
        let shared = Shared::default();
        let mut groups = groups(true, &shared);
        let first = groups.join(process(0), 0).expect("memory");
        let second = groups.join(process(0), 0).expect("memory");
        assert_ne!(first.group, second.group);
        assert_eq!(groups.of_process(0), None);
    }

    #[test]
    fn who_shared_damaged_rings_shares_no_more() {
        let shared = Shared::default();
        let mut groups = groups(false, &shared);
        let user = Principal::User { uid: 1000, namespace: 7 };
        let first = groups.join(user, 1).expect("memory");
        assert!(groups.retire(first.group) && !groups.retire(first.group));
        let own = groups.join(user, std::process::id() as i32).expect("its memory is there again");
        assert_eq!(own.whose, Whose::Own);
        assert_ne!(own.group, first.group);
        assert!(!groups.retire(own.group), "it does no harm to others");
    }
}

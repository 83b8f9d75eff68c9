//! Which processes share rings, and how much memory each group of them gets.
//!
//! Processes of one user share; a process that could become another user has rings of its own ([`Principal`]). All
//! groups together take no more memory than the recording was given. Where there can be but one group it gets all of
//! that. Else the first gets half, and each later one a third of what is left then, at most [`LATER_MAX`] a CPU. What a
//! group gives back when it ends is free again.
//!
//! Nothing is allocated here: [`Groups`] says which rings to make, and is told whether that could be done.

use mote_ring::geometry::{Geometry, Mode, SUB_BITS_MAX, SUB_BITS_MIN};
use mote_wire::Whose;
use std::time::Instant;

/// Most bytes of a CPU's ring for a group that is not the first: they are taken while its process waits, or just before
/// that.
const LATER_MAX: u64 = 8 << 20;
/// Least: two sub-buffers of the smallest size.
const LEAST: u64 = 2 << SUB_BITS_MIN;

/// Number of a group, and of its rings.
pub type GroupId = u64;

/// The owner of a process's memory: the processes that may share memory with it.
///
/// Processes of one user, in one user namespace, can reach each other's memory anyway (ptrace(2), `/proc/PID/mem`). A
/// process that can become another user without an execve(2) takes with it what it has mapped; so it shares with no
/// other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The processes of this user in the user namespace of this inode.
    User {
        /// The user.
        uid: u32,
        /// Inode of the namespace.
        namespace: u64,
    },
    /// The process alone.
    Process {
        /// Its id.
        pid: i32,
        /// When it started, in clock ticks since boot, so that its id is not taken for another one's.
        started: u64,
    },
}

impl Principal {
    /// Whether several processes may have it.
    pub fn is_shared(self) -> bool {
        matches!(self, Principal::User { .. })
    }
}

/// Processes that share rings.
#[derive(Debug)]
struct Group {
    id: GroupId,
    principal: Principal,
    sizes: Geometry,
    memory: Memory,
    /// The processes of its connections.
    members: Vec<i32>,
    /// Since when it has had none.
    empty_since: Option<Instant>,
    /// Its rings were damaged, and its processes get others.
    retired: bool,
}

/// The memory of a group's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// Was made ahead, and no process has asked for it yet.
    Ahead,
    /// Is to be made, and no process has asked for it yet.
    None,
    /// Is being made.
    Asked,
    /// The rings that were made ahead are being taken.
    AskedAhead,
    /// The rings are made.
    Made,
}

/// All groups.
#[derive(Debug)]
pub struct Groups {
    /// Sizes of the rings if there were one group only.
    wanted: Geometry,
    /// Bytes a CPU that are not taken.
    free: u64,
    all: Vec<Group>,
    made: u64,
    /// Rings that were made ahead for the next group.
    spare: Option<Geometry>,
    /// Users of whom a process has damaged shared rings: none of theirs shares any more.
    distrusted: Vec<Principal>,
}

/// Rings of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// The group.
    pub group: GroupId,
    /// Whether other processes may have them, too.
    pub whose: Whose,
    /// They have to be made first.
    pub make: Option<Make>,
}

/// Rings that are to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Make {
    /// The group's.
    pub group: GroupId,
    /// How large.
    pub sizes: Geometry,
    /// Those that were made ahead are taken.
    pub is_ahead: bool,
}

/// What becomes of a group's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// None of its processes is left, as far as is known: the rings are read until nothing more comes.
    Left(GroupId),
    /// The memory is wanted: they are read to the end now.
    Evict(GroupId),
}

impl Groups {
    /// No group yet; the rings for the first are made ahead ([`Groups::ahead`]). `many` says that there may be several.
    pub(crate) fn new(wanted: Geometry, many: bool) -> Groups {
        let free = wanted.ring_bytes();
        let mut groups =
            Groups { wanted, free, all: Vec::new(), made: 0, spare: None, distrusted: Vec::new() };
        let first = if many { groups.sizes(free / 2) } else { wanted };
        groups.free = free.saturating_sub(first.ring_bytes());
        groups.spare = Some(first);
        groups
    }

    /// Sizes of the rings that are made ahead.
    pub fn ahead(&self) -> Option<Geometry> {
        self.spare
    }

    /// Rings for one more connection of the process `pid`, which is `principal`'s: those of its group, or of a new one.
    /// `None` when there is no memory left for a new one. `alone` is the principal of the process alone.
    pub(crate) fn join(
        &mut self,
        (principal, alone): (Principal, Principal),
        pid: i32,
        changes: &mut Vec<Change>,
    ) -> Option<Rings> {
        let principal = self.trusted(principal, alone);
        let at = match self.of(principal) {
            Some(at) => at,
            None => {
                self.found(principal, changes)?;
                self.all.len() - 1
            }
        };
        let group = self.all.get_mut(at)?;
        let make = match group.memory {
            Memory::Asked | Memory::AskedAhead | Memory::Made => None,
            first => Some(Make { group: group.id, sizes: group.sizes, is_ahead: first == Memory::Ahead }),
        };
        if let Some(make) = make {
            group.memory = if make.is_ahead { Memory::AskedAhead } else { Memory::Asked };
        }
        group.members.push(pid);
        group.empty_since = None;
        let whose = if principal.is_shared() { Whose::Shared } else { Whose::Own };
        Some(Rings { group: group.id, whose, make })
    }

    /// Whether the rings of a group are there.
    pub(crate) fn is_made(&self, id: GroupId) -> bool {
        self.get(id).is_some_and(|group| group.memory == Memory::Made)
    }

    /// The rings of a group are there.
    pub(crate) fn made(&mut self, id: GroupId) {
        self.all.iter_mut().filter(|group| group.id == id).for_each(|group| group.memory = Memory::Made);
    }

    /// Rings could not be made. Returns which to make instead, if they were those that were made ahead; else the group
    /// is no more.
    pub(crate) fn not_made(&mut self, id: GroupId) -> Option<Make> {
        let at = self.all.iter().position(|group| group.id == id)?;
        let was_ahead = self.all[at].memory == Memory::AskedAhead;
        self.free += self.all[at].sizes.ring_bytes();
        let Some(sizes) = self.next_sizes().filter(|_| was_ahead) else {
            self.all.remove(at);
            return None;
        };
        self.free = self.free.saturating_sub(sizes.ring_bytes());
        (self.all[at].sizes, self.all[at].memory) = (sizes, Memory::Asked);
        Some(Make { group: id, sizes, is_ahead: false })
    }

    /// A process has damaged these rings; which one is unknown. From now on each of its user's processes has rings of
    /// its own. False when they were a process's own anyway, or this was done before.
    pub(crate) fn retire(&mut self, id: GroupId) -> bool {
        let group = self.all.iter_mut().find(|group| group.id == id);
        let Some(group) = group.filter(|group| group.principal.is_shared() && !group.retired) else {
            return false;
        };
        group.retired = true;
        self.distrusted.push(group.principal);
        // The rings are read on for a moment; their memory is there when their processes have others.
        self.free += group.sizes.ring_bytes();
        true
    }

    /// Whether these rings are not used any more by processes that have others.
    pub(crate) fn is_retired(&self, id: GroupId) -> bool {
        self.get(id).is_some_and(|group| group.retired)
    }

    fn get(&self, id: GroupId) -> Option<&Group> {
        self.all.iter().find(|group| group.id == id)
    }

    /// The principal of a process that is `principal`'s: its own, if its user's processes are not to share.
    fn trusted(&self, principal: Principal, alone: Principal) -> Principal {
        if self.distrusted.contains(&principal) { alone } else { principal }
    }

    /// The group of one more connection of a process that has its rings already, as a child of fork.
    pub(crate) fn join_again(&mut self, principal: Principal, pid: i32) -> Option<GroupId> {
        let group = self.of(principal).and_then(|at| self.all.get_mut(at))?;
        group.members.push(pid);
        group.empty_since = None;
        Some(group.id)
    }

    /// Rings for a child that goes on in rings that are not used any more; `None` when it may go on there.
    pub(crate) fn join_others(
        &mut self,
        (principal, alone): (Principal, Principal),
        pid: i32,
        changes: &mut Vec<Change>,
    ) -> Option<Rings> {
        let others = self.trusted(principal, alone);
        if others == principal { None } else { self.join((others, alone), pid, changes) }
    }

    /// The group that processes of this principal join. A process's own group that was left ends; processes without an
    /// id here cannot be told from one another.
    fn of(&self, principal: Principal) -> Option<usize> {
        let is_own = matches!(principal, Principal::Process { pid: 1.., .. });
        let takes =
            |group: &Group| !group.retired && (principal.is_shared() || is_own && !group.members.is_empty());
        self.all.iter().position(|group| group.principal == principal && takes(group))
    }

    /// The newest group that a process is in.
    pub(crate) fn of_process(&self, pid: i32) -> Option<GroupId> {
        let newest = self.all.iter().rev().find(|group| pid > 0 && group.members.contains(&pid));
        newest.map(|group| group.id)
    }

    /// A connection of the process `pid`, of this group, is closed.
    pub(crate) fn leave(&mut self, id: GroupId, pid: i32, now: Instant) -> Option<Change> {
        let group = self.all.iter_mut().find(|group| group.id == id)?;
        if let Some(at) = group.members.iter().position(|member| *member == pid) {
            group.members.swap_remove(at);
        }
        if !group.members.is_empty() {
            return None;
        }
        group.empty_since = Some(now);
        // A user's next process goes on in them.
        (!group.principal.is_shared() || group.retired).then_some(Change::Left(id))
    }

    /// The rings of a group are not read any more.
    pub(crate) fn forget(&mut self, id: GroupId) {
        if let Some(at) = self.all.iter().position(|group| group.id == id) {
            let group = self.all.remove(at);
            if !group.retired {
                self.free += group.sizes.ring_bytes();
            }
        }
    }

    /// Takes memory for the next group, if there may be one that does not come from a user's process: sizes of the
    /// rings to make ahead. To be called when no process waits.
    pub(crate) fn prepare(&mut self, changes: &mut Vec<Change>) -> Option<Geometry> {
        let alone = self.all.iter().all(|group| group.principal.is_shared());
        if self.spare.is_some() || alone {
            return None;
        }
        self.make_room(changes);
        let sizes = self.next_sizes()?;
        self.free = self.free.saturating_sub(sizes.ring_bytes());
        self.spare = Some(sizes);
        self.spare
    }

    /// Rings cannot be made ahead.
    pub(crate) fn not_ahead(&mut self) {
        if let Some(sizes) = self.spare.take() {
            self.free += sizes.ring_bytes();
        }
    }

    /// Ends groups without a process for as long as the next one's rings would be small for it. Those of a flight
    /// recorder, which hold what a person may ask for, only when there is no other memory.
    fn make_room(&mut self, changes: &mut Vec<Change>) {
        let enough = if self.wanted.mode == Mode::Overwrite {
            LEAST
        } else {
            (self.wanted.ring_bytes() / 8).min(LATER_MAX)
        };
        while self.next_sizes().is_none_or(|sizes| sizes.ring_bytes() < enough) {
            let Some(evicted) = self.evict() else { return };
            changes.push(Change::Evict(evicted));
        }
    }

    /// A new group for `principal`; `None` when there is no memory for its rings.
    fn found(&mut self, principal: Principal, changes: &mut Vec<Change>) -> Option<()> {
        if self.spare.is_none() {
            self.make_room(changes);
        }
        let (sizes, memory) = match self.spare.take() {
            Some(sizes) => (sizes, Memory::Ahead),
            None => {
                let sizes = self.next_sizes()?;
                self.free = self.free.saturating_sub(sizes.ring_bytes());
                (sizes, Memory::None)
            }
        };
        let id = self.made;
        self.made += 1;
        self.all.push(Group {
            id,
            principal,
            sizes,
            memory,
            members: Vec::new(),
            empty_since: None,
            retired: false,
        });
        Some(())
    }

    /// Ends the group that has been without a process for longest.
    fn evict(&mut self) -> Option<GroupId> {
        let empty = self.all.iter().filter_map(|group| Some((group.empty_since?, group.id)));
        let (_, id) = empty.min()?;
        self.forget(id);
        Some(id)
    }

    /// Sizes of the next group's rings; `None` when too little is left.
    fn next_sizes(&self) -> Option<Geometry> {
        (self.free >= LEAST).then(|| self.sizes((self.free / 3).min(LATER_MAX)))
    }

    /// Rings of `bytes` a CPU, rounded down to a power of two, with sub-buffers as large as was asked for where two of
    /// them fit.
    fn sizes(&self, bytes: u64) -> Geometry {
        let bits = bytes.max(LEAST).ilog2();
        let sub_bits = self.wanted.sub_bits.min(bits - 1).clamp(SUB_BITS_MIN, SUB_BITS_MAX);
        Geometry { sub_bits, count_bits: bits - sub_bits, ..self.wanted }
    }

    /// Bytes a CPU of all rings that there are, or are to be made; damaged ones not.
    pub fn taken(&self) -> u64 {
        let groups = self.all.iter().filter(|group| !group.retired).map(|group| group.sizes);
        groups.chain(self.spare).map(|sizes| sizes.ring_bytes()).sum()
    }

    /// The groups, each with its principal and the processes of its connections.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, Principal, &[i32])> {
        self.all.iter().map(|group| (group.id, group.principal, group.members.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_ring::Clock;

    const WANTED: Geometry =
        Geometry { cpus: 1, shared: 1, sub_bits: 14, count_bits: 4, mode: Mode::Discard, clock: Clock::Tsc };
    const USER: Principal = Principal::User { uid: 1000, namespace: 7 };

    fn process(pid: i32) -> Principal {
        Principal::Process { pid, started: 1 }
    }

    /// Joins, and has the rings made.
    fn join(groups: &mut Groups, principal: Principal, pid: i32) -> Option<Rings> {
        let rings = groups.join((principal, process(pid)), pid, &mut Vec::new())?;
        groups.made(rings.group);
        Some(rings)
    }

    fn leave(groups: &mut Groups, rings: Rings, pid: i32) -> Option<Change> {
        groups.leave(rings.group, pid, Instant::now())
    }

    fn bytes(groups: &Groups, rings: Rings) -> u64 {
        groups.get(rings.group).map_or(0, |group| group.sizes.ring_bytes())
    }

    #[test]
    fn processes_of_a_user_share_all_that_there_is() {
        let mut groups = Groups::new(WANTED, false);
        let first = join(&mut groups, USER, 1).expect("memory");
        let second = join(&mut groups, USER, 1).expect("memory");
        assert!(first.make.is_some_and(|make| make.is_ahead) && second.make.is_none());
        assert_eq!(
            (first.whose, first.group, bytes(&groups, first)),
            (Whose::Shared, second.group, 256 << 10)
        );
        assert_eq!(groups.join_again(USER, 2), Some(first.group));
        assert_eq!(groups.join_again(Principal::User { uid: 1000, namespace: 8 }, 3), None);
        assert_eq!((groups.of_process(2), groups.of_process(3)), (Some(first.group), None));
        let other = Principal::User { uid: 1001, namespace: 7 };
        assert!(join(&mut groups, other, 1).is_none(), "there is no memory left");
    }

    #[test]
    fn all_together_take_no_more_than_was_given() {
        let mut groups = Groups::new(WANTED, true);
        let mut all = Vec::new();
        while let Some(rings) = join(&mut groups, process(1 + all.len() as i32), 1 + all.len() as i32) {
            assert_eq!(rings.whose, Whose::Own);
            groups.prepare(&mut Vec::new());
            all.push(rings);
        }
        assert!(all.len() > 8, "{}", all.len());
        assert_eq!(bytes(&groups, all[0]), 128 << 10);
        assert!(groups.taken() <= WANTED.ring_bytes());
        // What has ended makes room.
        assert_eq!(leave(&mut groups, all[1], 2), Some(Change::Left(all[1].group)));
        assert!(join(&mut groups, process(1000), 1).is_some());
        // A process that has left gets other rings when it comes again: the former ones may be gone.
        leave(&mut groups, all[0], 1);
        let again = join(&mut groups, process(1), 1).expect("memory");
        assert_ne!(again.group, all[0].group);
        assert_eq!(groups.of_process(1), Some(again.group));
    }

    #[test]
    fn processes_without_an_id_here_share_nothing() {
        let mut groups = Groups::new(WANTED, true);
        let first = join(&mut groups, process(0), 0).expect("memory");
        let second = join(&mut groups, process(0), 0).expect("memory");
        assert_ne!(first.group, second.group);
        assert_eq!(groups.of_process(0), None);
    }

    #[test]
    fn processes_that_shared_damaged_rings_share_no_more() {
        let mut groups = Groups::new(WANTED, false);
        let first = join(&mut groups, USER, 1).expect("memory");
        assert!(groups.retire(first.group) && !groups.retire(first.group));
        let own = join(&mut groups, USER, 7).expect("its memory is there again");
        assert_eq!(own.whose, Whose::Own);
        assert_ne!(own.group, first.group);
        assert!(!groups.retire(own.group), "it does no harm to others");
    }

    #[test]
    fn rings_that_cannot_be_made_take_no_memory() {
        let mut groups = Groups::new(WANTED, true);
        let rings = groups.join((process(1), process(1)), 1, &mut Vec::new()).expect("memory");
        assert!(rings.make.is_some_and(|make| make.is_ahead));
        let smaller = groups.not_made(rings.group).expect("there is memory");
        assert!(!smaller.is_ahead && smaller.sizes.ring_bytes() < WANTED.ring_bytes());
        assert_eq!(groups.not_made(rings.group), None);
        assert_eq!((groups.taken(), groups.of_process(1)), (0, None));
    }
}

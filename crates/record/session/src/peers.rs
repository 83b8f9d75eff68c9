//! The connections of a session, by their numbers, within what each user may have.

use crate::peer::{Peer, PeerId, Way};
use crate::quota::Quota;
use crate::trust::Guard;
use mote_sys::socket::Credentials;
use std::collections::BTreeMap;
use std::time::Instant;

/// All connections, and what was taken of each user's quota.
pub(crate) struct Peers {
    all: BTreeMap<PeerId, Peer>,
    quota: Quota,
}

impl Peers {
    /// None so far.
    pub(crate) fn new(quota: Quota) -> Peers {
        Peers { all: BTreeMap::new(), quota }
    }

    /// Takes a connection in, if its sender may join and its user may have one more.
    ///
    /// # Errors
    /// Why it may not, for a person.
    pub(crate) fn connect(
        &mut self,
        id: PeerId,
        (way, sender, guard): (Way, Credentials, Guard),
        now: Instant,
    ) -> Result<(), String> {
        guard.admit(sender)?;
        self.quota.admit(sender.uid, self.all.values())?;
        self.all.insert(id, Peer::new(way, sender, guard, now));
        Ok(())
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.all.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        self.all.remove(&id)
    }

    /// All of them, in the order in which they have come.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.all.iter().map(|(id, peer)| (*id, peer))
    }

    /// The numbers of those of which this is true.
    pub(crate) fn that(&self, is_one: impl Fn(&Peer) -> bool) -> Vec<PeerId> {
        self.iter().filter(|(_, peer)| is_one(peer)).map(|(id, _)| id).collect()
    }

    /// Whether this is true of one of them.
    pub(crate) fn any(&self, is_one: impl Fn(&Peer) -> bool) -> bool {
        self.all.values().any(is_one)
    }

    /// How many are connections of processes.
    pub(crate) fn processes(&self) -> usize {
        self.all.values().filter(|peer| peer.is_process()).count()
    }

    /// Those that have said nothing for so long that they are given up.
    pub(crate) fn silent(&self, now: Instant) -> Vec<PeerId> {
        self.that(|peer| Quota::is_silent(peer, now))
    }

    /// How many more kinds of events a user's processes may announce.
    pub(crate) fn events_left(&self, uid: u32) -> usize {
        self.quota.events_left(uid)
    }

    /// Notes that a user's processes have announced events that were not known.
    pub(crate) fn take_events(&mut self, uid: u32, count: usize) {
        self.quota.take_events(uid, count);
    }
}

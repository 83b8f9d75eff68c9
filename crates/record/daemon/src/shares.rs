//! What each user may take of the recorder, so that nobody's processes keep those of others waiting or out: time in a turn of the loop, descriptors, events.
//!
//! The recorder's own user may take all descriptors and events that there are, and as much time as the others.

use crate::peer::Peer;
use nix::sys::resource::{Resource, getrlimit};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time of one user's processes in one turn of the loop. A message that was begun is served to its end.
const TURN: Duration = Duration::from_millis(5);
/// Connections of one user that have not said hello, and for how long.
const SILENT_MAX: usize = 64;
const SILENCE: Duration = Duration::from_secs(20);
/// Kinds of events that another user's processes may announce, all together.
const EVENTS_MAX: usize = 4096;
/// Descriptors where no limit is known.
const DESCRIPTORS: u64 = 1024;

/// What was taken so far.
#[derive(Debug)]
pub(crate) struct Shares {
    own: u32,
    descriptors: usize,
    events: HashMap<u32, usize>,
    /// Time in this turn.
    spent: HashMap<u32, Duration>,
}

impl Shares {
    /// Nothing was taken. `own` is the recorder's user.
    pub(crate) fn new(own: u32) -> Shares {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(DESCRIPTORS, |(soft, _)| soft);
        let descriptors = usize::try_from(limit).unwrap_or(usize::MAX);
        Shares { own, descriptors, events: HashMap::new(), spent: HashMap::new() }
    }

    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self) {
        self.spent.clear();
    }

    /// Whether a user's processes have time left in this turn.
    pub(crate) fn has_time(&self, uid: u32) -> bool {
        self.spent.get(&uid).is_none_or(|spent| *spent < TURN)
    }

    /// Notes that a user's process has had the loop's time since `began`.
    pub(crate) fn spend(&mut self, uid: u32, began: Instant) {
        *self.spent.entry(uid).or_default() += began.elapsed();
    }

    /// How many more kinds of events a user's processes may announce.
    pub(crate) fn events_left(&self, uid: u32) -> usize {
        if uid == self.own {
            return usize::MAX;
        }
        EVENTS_MAX.saturating_sub(self.events.get(&uid).copied().unwrap_or(0))
    }

    /// Notes that a user's processes have announced events that nobody had announced before.
    pub(crate) fn take_events(&mut self, uid: u32, count: usize) {
        *self.events.entry(uid).or_default() += count;
    }

    /// Whether there is room for one more process, or connection, of a user: others have half of all descriptors each, and three quarters together.
    ///
    /// # Errors
    /// What there are too many of, for a person.
    pub(crate) fn admit(&self, uid: u32, peers: &[Peer]) -> Result<(), String> {
        let silent = peers.iter().filter(|peer| peer.uid == uid && peer.hello.is_none()).count();
        if silent >= SILENT_MAX {
            return Err(format!("user {uid} has {silent} connections that say nothing"));
        }
        let of_user = peers.iter().filter(|peer| peer.uid == uid).count();
        let of_others = peers.iter().filter(|peer| peer.uid != self.own).count();
        let is_full = of_user >= self.descriptors / 2 || of_others >= self.descriptors / 4 * 3;
        if uid != self.own && is_full {
            return Err(format!(
                "user {uid} has {of_user} processes here, and others than the recorder's have {of_others}: more open files are not for them; raise `ulimit -n`"
            ));
        }
        Ok(())
    }

    /// Whether a connection has said nothing for so long that it is given up.
    pub(crate) fn is_silent(peer: &Peer) -> bool {
        peer.hello.is_none() && peer.since.elapsed() > SILENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_nothing_from_another() {
        let mut shares = Shares::new(1000);
        shares.take_events(1001, EVENTS_MAX - 1);
        assert_eq!((shares.events_left(1001), shares.events_left(1002)), (1, EVENTS_MAX));
        shares.take_events(1001, 10);
        assert_eq!((shares.events_left(1001), shares.events_left(1000)), (0, usize::MAX));
        let long_ago = Instant::now().checked_sub(TURN).expect("a time");
        shares.spend(1001, long_ago);
        assert!(!shares.has_time(1001) && shares.has_time(1000));
        shares.begin_turn();
        assert!(shares.has_time(1001));
    }
}

//! How many connections and events each user's processes may have, so that one user takes none from another.
//!
//! The recorder's own user may take all that there are.

use crate::peer::Peer;
use mote_words::counted;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Connections of one user that have not said hello, and for how long.
const SILENT_MAX: usize = 64;
const SILENCE: Duration = Duration::from_secs(20);
/// Kinds of events that another user's processes may announce, all together.
const EVENTS_MAX: usize = 4096;

/// What was taken so far.
#[derive(Debug)]
pub(crate) struct Quota {
    own: u32,
    descriptors: usize,
    events: HashMap<u32, usize>,
}

impl Quota {
    /// Nothing was taken. `own` is the recorder's user; `descriptors` is how many files it may have open.
    pub(crate) fn new(own: u32, descriptors: usize) -> Quota {
        Quota { own, descriptors, events: HashMap::new() }
    }

    /// How many more kinds of events a user's processes may announce.
    pub(crate) fn events_left(&self, uid: u32) -> usize {
        if uid == self.own {
            return usize::MAX;
        }
        EVENTS_MAX.saturating_sub(self.events.get(&uid).copied().unwrap_or(0))
    }

    /// Notes that a user's processes have announced events that were not known.
    pub(crate) fn take_events(&mut self, uid: u32, count: usize) {
        *self.events.entry(uid).or_default() += count;
    }

    /// Whether there is room for one more connection of a user. Other users than the recorder's have half of all
    /// descriptors each, and three quarters together.
    ///
    /// # Errors
    /// What there are too many of, for a person.
    pub(crate) fn admit<'p>(
        &self,
        uid: u32,
        peers: impl Iterator<Item = &'p Peer> + Clone,
    ) -> Result<(), String> {
        let silent = peers.clone().filter(|peer| peer.uid == uid && peer.hello.is_none()).count();
        if silent >= SILENT_MAX {
            return Err(format!("user {uid} has too many connections ({silent}) that have sent nothing"));
        }
        let of_user = peers.clone().filter(|peer| peer.uid == uid).count();
        let of_others = peers.filter(|peer| peer.uid != self.own).count();
        let is_full = of_user >= self.descriptors / 2 || of_others >= self.descriptors / 4 * 3;
        if uid != self.own && is_full {
            return Err(format!(
                "user {uid} has {}, and all users but the recorder's own have {of_others}: the recorder's open files \
                 do not suffice for more; raise `ulimit -n`",
                counted(of_user, "process", "processes")
            ));
        }
        Ok(())
    }

    /// Whether a connection has said nothing for so long that it is given up.
    pub(crate) fn is_silent(peer: &Peer, now: Instant) -> bool {
        peer.hello.is_none() && now.saturating_duration_since(peer.since) > SILENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_no_events_from_another() {
        let mut quota = Quota::new(1000, 1024);
        quota.take_events(1001, EVENTS_MAX - 1);
        assert_eq!((quota.events_left(1001), quota.events_left(1002)), (1, EVENTS_MAX));
        quota.take_events(1001, 10);
        assert_eq!((quota.events_left(1001), quota.events_left(1000)), (0, usize::MAX));
    }
}

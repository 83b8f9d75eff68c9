//! How much of the event loop's time each user's processes get in one round, so that no user keeps the others waiting.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time of one user's processes in one round of the loop. A message that was begun is served to its end.
const TURN: Duration = Duration::from_millis(5);

/// Time that was spent in this round, by user.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    spent: HashMap<u32, Duration>,
}

impl Turns {
    /// A round of the loop begins.
    pub(crate) fn begin_round(&mut self) {
        self.spent.clear();
    }

    /// Whether a user's processes have time left in this round.
    pub(crate) fn has_time(&self, uid: u32) -> bool {
        self.spent.get(&uid).is_none_or(|spent| *spent < TURN)
    }

    /// Notes that a user's process has had the loop's time since `began`.
    pub(crate) fn spend(&mut self, uid: u32, began: Instant) {
        *self.spent.entry(uid).or_default() += began.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_no_time_from_another() {
        let mut turns = Turns::default();
        let long_ago = Instant::now().checked_sub(TURN).expect("a time");
        turns.spend(1001, long_ago);
        assert!(!turns.has_time(1001) && turns.has_time(1000));
        turns.begin_round();
        assert!(turns.has_time(1001));
    }
}

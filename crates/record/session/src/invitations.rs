//! Other recordings that join processes of this one: their invitations, and the children that these are passed on to.

use crate::input::{MailboxId, Ticket};
use mote_wire::Hello;
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Most joins that a recorder keeps in mind.
const FORWARDS_MAX: usize = 64;

/// Another recording that processes of this one are in, too.
pub(crate) struct Forward {
    pub(crate) pids: HashSet<i32>,
    pub(crate) place: String,
    pub(crate) mailbox: MailboxId,
}

/// An invitation on the way.
struct Inviting {
    forward: Forward,
    /// Receipts that are to come.
    receipts: usize,
    /// How many have taken it.
    taken: usize,
}

/// What came of an invitation.
pub(crate) enum Invited {
    /// Some connection has taken it. The mailbox of the oldest recording is given up if there are too many.
    Taken { given_up: Option<MailboxId> },
    /// No connection has taken it.
    Refused(MailboxId),
}

/// Invitations, and where they were taken.
#[derive(Default)]
pub(crate) struct Invitations {
    under_way: BTreeMap<Ticket, Inviting>,
    forwards: VecDeque<Forward>,
}

impl Invitations {
    /// An invitation is sent over so many connections.
    pub(crate) fn begin(&mut self, ticket: Ticket, forward: Forward, receipts: usize) {
        self.under_way.insert(ticket, Inviting { forward, receipts, taken: 0 });
    }

    /// One connection has taken an invitation, or not. `None` while others have not answered.
    pub(crate) fn receipt(&mut self, ticket: Ticket, taken: bool) -> Option<Invited> {
        let inviting = self.under_way.get_mut(&ticket)?;
        inviting.taken += usize::from(taken);
        inviting.receipts = inviting.receipts.saturating_sub(1);
        if inviting.receipts > 0 {
            return None;
        }
        let Inviting { forward, taken, .. } = self.under_way.remove(&ticket)?;
        if taken == 0 {
            return Some(Invited::Refused(forward.mailbox));
        }
        let is_full = self.forwards.len() >= FORWARDS_MAX;
        let oldest = if is_full { self.forwards.pop_front() } else { None };
        self.forwards.push_back(forward);
        Some(Invited::Taken { given_up: oldest.map(|oldest| oldest.mailbox) })
    }

    /// The recordings that a process is invited to, because its parent, or the program before it, has joined them: the
    /// place and the mailbox of each.
    pub(crate) fn of_process(&mut self, pid: i32, hello: Hello) -> Vec<(String, MailboxId)> {
        let mut invited = Vec::new();
        for forward in &mut self.forwards {
            if forward.pids.contains(&pid) || forward.pids.contains(&(hello.parent as i32)) {
                forward.pids.insert(pid);
                invited.push((forward.place.clone(), forward.mailbox));
            }
        }
        invited
    }
}

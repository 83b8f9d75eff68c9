//! Where processes wait that have said hello through a mailbox, each user's in a row of their own.
//!
//! All users' processes share the mailbox that a command has inherited. It is emptied as fast as it can be, and the
//! rows take turns: a long row makes no process of another one wait.

use crate::registration::listener::{Letter, Listener};
use mote_session::trust::Guard;
use std::collections::VecDeque;

/// Letters that are taken out of one mailbox in one turn.
const TAKEN: usize = 512;
/// Longest hello.
const LETTER_MAX: usize = 256;
/// Most that wait in one row.
const ROW_MAX: usize = 256;

/// All rows.
#[derive(Default)]
pub(crate) struct Backlog {
    rows: Vec<(u32, VecDeque<Waiting>)>,
}

/// A process that waits to be let in.
pub(crate) struct Waiting {
    pub(crate) guard: Guard,
    pub(crate) bytes: Vec<u8>,
    pub(crate) letter: Letter,
}

impl Backlog {
    /// Empties a mailbox; those for whom there is no room are sent away, and their users told.
    pub(crate) fn take(&mut self, listener: &Listener) -> Vec<u32> {
        let mut sent_away = Vec::new();
        let mut buffer = [0; LETTER_MAX];
        for _ in 0..TAKEN {
            let Some(letter) = listener.receive(&mut buffer) else { break };
            let bytes = buffer.get(..letter.len).unwrap_or(&[]).to_vec();
            let uid = letter.sender.uid;
            let row = self.row(uid);
            if row.len() < ROW_MAX {
                row.push_back(Waiting { guard: listener.guard(), bytes, letter });
            } else if !sent_away.contains(&uid) {
                sent_away.push(uid);
            }
        }
        sent_away
    }

    fn row(&mut self, uid: u32) -> &mut VecDeque<Waiting> {
        let at = self.rows.iter().position(|(known, _)| *known == uid).unwrap_or_else(|| {
            self.rows.push((uid, VecDeque::new()));
            self.rows.len() - 1
        });
        &mut self.rows[at].1
    }

    /// The users with a row.
    pub(crate) fn users(&self) -> Vec<u32> {
        self.rows.iter().map(|(uid, _)| *uid).collect()
    }

    /// The next one of a user's row.
    pub(crate) fn next(&mut self, uid: u32) -> Option<Waiting> {
        let next = self.row(uid).pop_front();
        self.rows.retain(|(_, row)| !row.is_empty());
        next
    }

    /// Whether no process waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

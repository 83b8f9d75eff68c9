//! When a recording is over: what signals have asked for, and which processes are left.

use std::time::{Duration, Instant};

/// How long a process that is not known may keep the recording open after the last known one has ended; and how many
/// rounds: when the whole machine stood still, it has had no more time than we.
const LATE: (Duration, u32) = (Duration::from_secs(1), 5);

/// How long processes may be left after the command before it is told: the last ones are mostly just ending.
const TELL_AFTER: Duration = Duration::from_millis(200);

/// What has been asked about the end.
#[derive(Default)]
pub struct End {
    /// It was asked for, and is not waited for any more.
    pub now: bool,
    /// It was told that it is over.
    pub is_announced: bool,
    asked: bool,
    /// Since when the command has ended and only children are left, and whether that was told.
    left_since: Option<Instant>,
    is_waiting_announced: bool,
    /// Rounds of the loop in which neither the command nor a process was left.
    rounds_alone: u32,
    /// Since when that is so.
    alone_since: Option<Instant>,
    /// In the last of these rounds no process was left that could say hello.
    was_deserted: bool,
}

impl End {
    /// A round in which processes are left, though the command has ended. True, once, when it is time to tell.
    pub fn in_company(&mut self, now: Instant) -> bool {
        (self.rounds_alone, self.alone_since, self.was_deserted) = (0, None, false);
        let since = *self.left_since.get_or_insert(now);
        let tell = !self.is_waiting_announced && now.saturating_duration_since(since) >= TELL_AFTER;
        self.is_waiting_announced |= tell;
        tell
    }

    /// A round in which neither the command nor a process is left; `deserted` when no process holds the mailbox. True
    /// when the recording is over.
    ///
    /// What the last processes have sent is still to be read, so there is one more round when they are gone. And a
    /// child whose parent has ended may not have come to its first word: it holds the mailbox. Its word is read in a
    /// round that begins after no process holds it any more, not in one that has begun before (`models/session.pml`).
    pub fn alone(&mut self, now: Instant, deserted: bool) -> bool {
        self.rounds_alone += 1;
        let alone_for = now.saturating_duration_since(*self.alone_since.get_or_insert(now));
        let late = alone_for >= LATE.0 && self.rounds_alone >= LATE.1;
        let over = self.rounds_alone > 1 && (late || self.was_deserted);
        self.was_deserted = deserted;
        over
    }

    /// Whether the next round may be the last, and is not to be waited for.
    pub fn is_last_round(&self) -> bool {
        self.rounds_alone == 1 || self.was_deserted
    }

    /// A signal asks for the end. Returns whether to pass the signal on to the command.
    ///
    /// The command gets the signal, and ends if it wants to. When it has ended already, or with the second request that
    /// is no Ctrl-C, the recording ends. Without a command, the first request ends the recording.
    #[must_use]
    pub fn signal(&mut self, signal: Signal, command: Command) -> bool {
        match command {
            Command::None => self.now = true,
            Command::Ended => self.now = true,
            Command::Runs => self.now |= self.asked && !signal.is_interrupt,
        }
        self.asked = true;
        command == Command::Runs && !signal.from_terminal
    }
}

/// The recorded command, as far as the end of the recording depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// There is none.
    None,
    /// It runs.
    Runs,
    /// It has ended.
    Ended,
}

/// A signal that asks for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// It came from the terminal, so the command has got it, too.
    pub from_terminal: bool,
    /// It is SIGINT, which a person at a terminal may send to the command several times.
    pub is_interrupt: bool,
}

/// What the end of a recording depends on beside the session.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// The command.
    pub command: Command,
    /// The recording's time is over, or no more can be written.
    pub is_cut: bool,
    /// No process can come any more: the mailbox is closed at the other end, and empty.
    pub is_deserted: bool,
    /// Threads that are left and that the kernel's side follows.
    pub threads: usize,
    /// Running processes were asked for; whether all of them are gone.
    pub attached: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by `models/session.pml`: a child said hello, wrote and ended between the look at the door and the look
    /// whether a process holds it; the recording ended without its hello.
    #[test]
    fn a_hello_right_before_the_mailbox_is_deserted_is_read() {
        let (mut end, now) = (End::default(), Instant::now());
        assert!(!end.alone(now, false), "a child holds the mailbox");
        assert!(!end.alone(now, true), "its hello may have come after the last look at the listener");
        assert!(end.is_last_round());
        assert!(end.alone(now, true));
    }

    #[test]
    fn who_holds_the_mailbox_for_ever_is_not_waited_for() {
        let (mut end, now) = (End::default(), Instant::now());
        let (late, rounds) = LATE;
        assert!((1..rounds).all(|_| !end.alone(now, false)));
        assert!(end.alone(now + late, false));
        assert!(!end.in_company(now + late), "it may just be ending");
        assert!(end.in_company(now + late + TELL_AFTER));
        assert!(!end.in_company(now + late + TELL_AFTER), "told once");
        assert!(!end.alone(now + late, true), "one more round when the last process is gone");
    }

    #[test]
    fn who_stood_still_with_the_whole_machine_is_waited_for() {
        let (mut end, now) = (End::default(), Instant::now());
        assert!(!end.alone(now, false));
        assert!(!end.alone(now + 10 * LATE.0, false), "it has not run either");
    }
}

//! How many snapshots of packets a recording has, and what is left out.

use mote_words::counted_grouped;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Snapshots that a recording has: an event that happens for ever must not fill the disk.
pub(super) const SNAPSHOTS_MAX: u32 = 100;
/// Bytes that they have together.
const BYTES_MAX: u64 = 1 << 30;
/// One for each of these: meanwhile the trace of that CPU is off for a moment, and the recorder is busy.
const EACH: Duration = Duration::from_millis(100);
/// Time that is saved up for several at once.
const SAVED_MAX: Duration = Duration::from_secs(1);

/// Why there is no snapshot for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    /// Requests of that CPU waited already.
    Refused,
    /// Too many were asked for in a short time.
    TooOften,
    /// There are as many as a recording has.
    TooMany,
    /// They have as many bytes as they may have.
    NoRoom,
    /// There are no packets of that time.
    Nothing,
    /// All packets of that time were written over.
    TooLate,
    /// It could not be written.
    Failed,
}

/// What there is so far.
#[derive(Debug)]
pub(super) struct Limits {
    taken: u32,
    bytes: u64,
    /// Time that was not used for snapshots yet.
    saved: Duration,
    looked: Instant,
    left_out: BTreeMap<LeftOut, u64>,
}

impl Limits {
    /// Of a recording that begins.
    pub(super) fn new(now: Instant) -> Limits {
        Limits { taken: 0, bytes: 0, saved: SAVED_MAX, looked: now, left_out: BTreeMap::new() }
    }

    /// Whether one may be taken now. Returns its number, and how many bytes it may have.
    ///
    /// # Errors
    /// Why not; it counts as left out.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(u32, u64), LeftOut> {
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        self.saved = (self.saved + passed).min(SAVED_MAX);
        let why = match () {
            () if self.taken >= SNAPSHOTS_MAX => LeftOut::TooMany,
            () if self.saved < EACH => LeftOut::TooOften,
            () => {
                self.saved -= EACH;
                return Ok((self.taken + 1, BYTES_MAX.saturating_sub(self.bytes)));
            }
        };
        self.leave_out(why, 1);
        Err(why)
    }

    /// One was written.
    pub(super) fn take(&mut self, bytes: u64) {
        self.taken += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// So many were not.
    pub(super) fn leave_out(&mut self, why: LeftOut, count: u64) {
        if count > 0 {
            *self.left_out.entry(why).or_default() += count;
        }
    }

    /// What was left out, as sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        let sentence = |(why, count): (&LeftOut, &u64)| {
            let events = counted_grouped(*count, "event has", "events have");
            format!("{events} no snapshot of the hardware trace: {}", why.text())
        };
        self.left_out.iter().map(sentence).collect()
    }
}

impl LeftOut {
    fn text(self) -> String {
        match self {
            LeftOut::Refused => "one of that CPU was being taken".to_owned(),
            LeftOut::TooOften => format!(
                "at most {} a second are taken; a narrower condition (`if`) asks for fewer",
                1000 / EACH.as_millis()
            ),
            LeftOut::TooMany => {
                format!("a recording has {SNAPSHOTS_MAX}; a narrower condition (`if`) asks for fewer")
            }
            LeftOut::NoRoom => format!("together they have at most {}", mote_words::size(BYTES_MAX)),
            LeftOut::Nothing => "no packets of its CPU and time are there; was its code traced?".to_owned(),
            LeftOut::TooLate => {
                "its packets were written over before they were read; use a larger --pt=snapshot=SIZE"
                    .to_owned()
            }
            LeftOut::Failed => "it could not be written".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_at_once_then_one_at_a_time() {
        let now = Instant::now();
        let mut limits = Limits::new(now);
        let burst = SAVED_MAX.as_millis() / EACH.as_millis();
        for _ in 0..burst {
            assert!(limits.admit(now).is_ok());
        }
        assert_eq!(limits.admit(now), Err(LeftOut::TooOften));
        assert_eq!(limits.admit(now + EACH / 2), Err(LeftOut::TooOften));
        assert!(limits.admit(now + EACH).is_ok());
        assert_eq!(limits.admit(now + EACH), Err(LeftOut::TooOften));
        let said = limits.sentences();
        assert!(matches!(said.as_slice(), [one] if one.starts_with("3 events have no snapshot")), "{said:?}");
    }

    #[test]
    fn a_recording_has_so_many_and_so_many_bytes() {
        let mut now = Instant::now();
        let mut limits = Limits::new(now);
        for number in 1..=SNAPSHOTS_MAX {
            now += EACH;
            assert_eq!(limits.admit(now), Ok((number, BYTES_MAX - u64::from(number - 1))));
            limits.take(1);
        }
        assert_eq!(limits.admit(now + EACH), Err(LeftOut::TooMany));
        assert_eq!(limits.sentences().len(), 1);
        let mut limits = Limits::new(now);
        limits.take(BYTES_MAX + 5);
        assert_eq!(limits.admit(now), Ok((2, 0)));
    }
}

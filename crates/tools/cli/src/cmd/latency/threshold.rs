//! `read=1ms`, `*=10ms`: from which duration on system calls are recorded.

use crate::units;
use mote_layout::syscalls;

/// One of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threshold {
    /// Which call; `None` for all that have none of their own.
    number: Option<u32>,
    ns: u64,
}

impl Threshold {
    /// Reads `NAME=TIME`.
    ///
    /// # Errors
    /// What is wrong and what would be right, for a person.
    pub(super) fn parse(text: &str) -> Result<Threshold, String> {
        let Some((name, time)) = text.split_once('=') else {
            return Err("give a system call and a time, as in read=1ms, or *=10ms".to_owned());
        };
        let ns = if time == "never" { u64::MAX } else { units::time(time)?.max(1) };
        if name == "*" {
            return Ok(Threshold { number: None, ns });
        }
        match syscalls::number(name) {
            Some(number) => Ok(Threshold { number: Some(number), ns }),
            None => Err(unknown(name)),
        }
    }
}

fn unknown(name: &str) -> String {
    let similar = mote_pattern::similar(name, syscalls::names());
    match &similar[..] {
        [] => format!("there is no system call `{name}`; `mote list -k syscalls` shows all"),
        similar => format!("there is no system call `{name}`; did you mean {}?", similar.join(" or ")),
    }
}

/// Those with a name; of several for one call the last.
pub(super) fn named(all: &[Threshold]) -> Vec<(u32, u64)> {
    all.iter().filter_map(|one| Some((one.number?, one.ns))).collect()
}

/// The one for all others, if it was given.
pub(super) fn others(all: &[Threshold]) -> Option<u64> {
    all.iter().rfind(|one| one.number.is_none()).map(|one| one.ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        let all: Vec<Threshold> =
            ["read=1ms", "*=5ms", "fsync=never"].iter().map(|text| Threshold::parse(text).unwrap()).collect();
        assert_eq!(named(&all), [(0, 1_000_000), (74, u64::MAX)]);
        assert_eq!(others(&all), Some(5_000_000));
        assert!(Threshold::parse("raed=1ms").unwrap_err().contains("did you mean read"), "similar names");
        for wrong in ["read", "read=", "read=1", "read=fast", "=1ms"] {
            assert!(Threshold::parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! The slowest request of a recording of the demo: which thread answered it, and when.

use anyhow::Context;
use mote_analysis::Analysis;
use mote_timeline::{Range, Record, Trace};
use mote_view::civil::{DAY, SECOND};
use std::collections::HashMap;
use std::path::Path;

/// A request, from the moment it was read until its answer was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slowest {
    /// The thread that answered it.
    pub(crate) tid: u32,
    /// When it was read, nanoseconds since 1970.
    pub(crate) from: i64,
    /// When its answer was sent.
    pub(crate) to: i64,
}

impl Slowest {
    /// Looks for it; `None` when no request was answered.
    ///
    /// # Errors
    /// The recording cannot be opened.
    pub(crate) fn of(dir: &Path) -> anyhow::Result<Option<Slowest>> {
        let trace = Trace::open(dir).context("the recording of the demo cannot be opened")?;
        Ok(mote_analysis::run(&mut trace.events(Range::ALL), Requests::default()))
    }

    /// How long it took.
    pub(crate) fn nanos(&self) -> u64 {
        self.to.abs_diff(self.from)
    }

    /// Arguments of `mote view` that show what its thread did meanwhile.
    pub(crate) fn arguments(&self) -> [String; 6] {
        let flag = |name: &str| format!("--{name}");
        [flag("tid"), self.tid.to_string(), flag("from"), of_day(self.from), flag("to"), of_day(self.to)]
    }
}

/// Follows the requests of each thread.
#[derive(Default)]
struct Requests {
    /// By thread: when its request was read.
    begun: HashMap<u32, i64>,
    slowest: Option<Slowest>,
}

impl Analysis for Requests {
    type Output = Option<Slowest>;

    fn event(&mut self, record: &Record<'_>) {
        let Some(tid) = record.tid() else { return };
        match record.name() {
            "http:request_start" => {
                self.begun.insert(tid, record.time());
            }
            "http:request_done" => {
                let Some(from) = self.begun.remove(&tid) else { return };
                let request = Slowest { tid, from, to: record.time() };
                self.slowest = self.slowest.into_iter().chain([request]).max_by_key(Slowest::nanos);
            }
            _ => {}
        }
    }

    fn finish(self) -> Option<Slowest> {
        self.slowest
    }
}

/// `HH:MM:SS.fraction` in UTC, as `mote view` shows times.
fn of_day(nanos: i64) -> String {
    let (seconds, fraction) = (nanos.rem_euclid(DAY) / SECOND, nanos.rem_euclid(SECOND));
    format!("{:02}:{:02}:{:02}.{fraction:09}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_are_shown() {
        assert_eq!(of_day(3 * DAY + 3_661 * SECOND + 7), "01:01:01.000000007");
    }
}

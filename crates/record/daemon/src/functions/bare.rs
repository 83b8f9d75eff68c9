//! Processes that count calls without the library: their probes know of no recording, and are taken away by us.

use crate::call_counts::CallCounts;
use mote_inject::{Bare, LeftOff, Patience};
use mote_words::counted_grouped;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long taking them away may take.
const ENDING: Duration = Duration::from_secs(5);

/// From so many on, those that have ended are looked for.
const MANY: usize = 32;

/// Those of a recording, each with what was written there.
#[derive(Debug, Default)]
pub(super) struct BareProcesses(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    all: Vec<(i32, Bare)>,
    is_over: bool,
}

impl BareProcesses {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows one. Where the recording has ended its probes are taken away again.
    ///
    /// # Errors
    /// What is to be said when that cannot be done.
    pub(super) fn add(&self, pid: i32, bare: Bare, counts: &CallCounts) -> Result<(), String> {
        let mut inner = self.inner();
        if inner.is_over {
            drop(inner);
            return end(&bare, Instant::now() + ENDING);
        }
        inner.all.push((pid, bare));
        if inner.all.len().is_multiple_of(MANY) {
            // What has nobody any more needs no descriptors.
            for (_, gone) in inner.all.extract_if(.., |(_, bare)| !bare.has_holder()) {
                counts.settle(gone.number());
            }
        }
        Ok(())
    }

    pub(super) fn has(&self, pid: i32) -> bool {
        self.inner().all.iter().any(|(known, _)| *known == pid)
    }

    /// Takes their probes away, and those of their children. Returns what went wrong.
    pub(super) fn end(&self) -> Vec<String> {
        let all = {
            let mut inner = self.inner();
            inner.is_over = true;
            std::mem::take(&mut inner.all)
        };
        let until = Instant::now() + ENDING;
        all.iter().filter_map(|(_, bare)| end(bare, until).err()).collect()
    }
}

fn end(bare: &Bare, until: Instant) -> Result<(), String> {
    bare.end(Patience { until, over: &AtomicBool::new(false) })
        .map_err(|(pid, why)| format!("the probes in process {pid} were not taken away, and count on: {why}"))
}

/// What is to be said of such a process, behind what is said of its functions.
pub(super) fn remark(bare: &Bare) -> String {
    let LeftOff { busy, changed } = bare.left_off();
    let left_off = [
        (busy, "in which threads stand"),
        (changed, "whose calls another recording counts, or one that was killed did"),
    ];
    let nothing = left_off.into_iter().filter(|(count, _)| *count > 0).map(|(count, why)| {
        format!("; nothing of {}, {why}", counted_grouped(count as u64, "function", "functions"))
    });
    let stops = "; it loads no library: all of its threads were stopped for that, and will be at the end";
    nothing.chain([stops.to_owned()]).collect()
}

//! The end of the kernel's side: what its trace came to, and what there was nothing of.

use super::recorded::KernelRecorded;
use super::{Kernel, Remarks};
use crate::consumer::trace::Consumed;
use mote_journal::{KERNEL_LOSSES, Summary};
use mote_words::counted;

/// What the kernel takes to detach a trace event, about.
const DETACHING_MS: u64 = 60;
/// From so many seconds on that is said.
const DETACHING_REPORTED_S: u64 = 3;

impl Kernel {
    /// What the trace came to. The state dump counts, too.
    pub(crate) fn summary(&self, consumed: &Consumed, duration_ns: u64) -> Summary {
        let mut whole = consumed.clone();
        whole.totals.add(&self.dumped);
        let mut summary = self.trace.summary(&self.events, &whole, duration_ns);
        summary.processes = self.names.processes() as u32;
        summary.threads = self.names.threads() as u32;
        let losses = self.tracer.losses();
        let counts = [losses.nested, losses.threads, losses.foreign_abi];
        for ((cause, _), count) in KERNEL_LOSSES.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
            summary.lost.insert(cause.to_owned(), count);
        }
        summary.empty_texts = losses.texts;
        summary
    }

    /// The patterns of whose events there were none in the trace. Those that are only counted are not meant.
    fn silent(&self, summary: &Summary) -> Vec<String> {
        let counts = |pattern: &str| {
            let mut rules = self.wanting.rule_list.rules();
            rules.any(|rule| rule.pattern() == pattern && rule.only_records())
        };
        let happened = |names: &[String]| names.iter().any(|name| summary.events.contains_key(name));
        let silent = self.wanting.patterns.iter().filter(|(text, names)| counts(text) && !happened(names));
        let mut silent: Vec<String> = silent.map(|(text, _)| text.clone()).collect();
        silent.dedup();
        silent
    }
}

impl Kernel {
    /// Ends the trace. `stopped` says why the recording was ended, if it was.
    pub(crate) fn finish(
        &mut self,
        consumed: &Consumed,
        duration_ns: u64,
        stopped: Option<String>,
    ) -> (KernelRecorded, Remarks) {
        self.keep_tables();
        let mut remarks = Remarks { problems: self.write_born().into_iter().collect(), ..Remarks::default() };
        let summary = Summary { stopped, ..self.summary(consumed, duration_ns) };
        let done = KernelRecorded { silent: self.silent(&summary), summary, latency: self.latencies() };
        let left = self.tracer.left_behind();
        let time = (left as u64 * DETACHING_MS).div_ceil(1000);
        if time >= DETACHING_REPORTED_S {
            remarks.said.push(format!(
                "the kernel is still detaching {}, for about {time} s; nothing is recorded meanwhile",
                counted(left, "event", "events")
            ));
        }
        (done, remarks)
    }
}

//! Where events were lost, how many, and why, as the packets of a recording tell it.

use crate::analysis::Analysis;
use crate::report::{GAPS_MAX, Gap, Lost, LostCause};
use mote_journal::Summary;
use mote_loss::Cause;
use mote_timeline::{LossRecord, Place, Record, Trace};
use std::collections::BTreeMap;

/// Sums up losses by cause and by place, as events of a trace come by.
#[derive(Debug)]
pub struct Losses<'t> {
    trace: &'t Trace,
    /// By cause, in the order of [`Cause::ALL`].
    causes: [u64; Cause::ALL.len()],
    events: u64,
    is_unknown: bool,
    packets: u64,
    gaps: Vec<Gap>,
    more_gaps: u64,
}

impl<'t> Losses<'t> {
    /// No loss so far of `trace`, whose journal may know of more: of what was lost behind the last packet.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Losses<'t> {
        let causes = [0; Cause::ALL.len()];
        Losses { trace, causes, events: 0, is_unknown: false, packets: 0, gaps: Vec::new(), more_gaps: 0 }
    }

    /// By cause: what packets tell, or the journal where it knows of more.
    fn by_cause(&self, mut journal: BTreeMap<&str, u64>) -> Vec<LostCause> {
        let mut causes = Vec::new();
        let mut add = |cause: &str, events: u64, advice: &str| {
            if events > 0 {
                let (cause, advice) = (cause.to_owned(), advice.to_owned());
                causes.push(LostCause { cause, events: Some(events), advice });
            }
        };
        for (cause, packets) in Cause::ALL.iter().zip(self.causes) {
            add(cause.name(), packets.max(journal.remove(cause.name()).unwrap_or(0)), cause.advice());
        }
        for (cause, events) in journal {
            add(cause, events, mote_journal::kernel_loss_advice(cause).unwrap_or_default());
        }
        let unspecified = self.events.saturating_sub(self.causes.iter().sum());
        add("unspecified", unspecified, "the tracer's buffers were full: give it larger or more sub-buffers");
        if self.is_unknown || self.trace.lost_unknown() {
            let (cause, advice) = (mote_journal::UNKNOWN_LOSS, mote_journal::UNKNOWN_LOSS_ADVICE);
            causes.push(LostCause { cause: cause.to_owned(), events: None, advice: advice.to_owned() });
        }
        causes
    }
}

impl Analysis for Losses<'_> {
    type Output = Lost;

    #[inline]
    fn event(&mut self, _record: &Record<'_>) {}

    fn loss(&mut self, record: &LossRecord<'_>) {
        let loss = record.loss;
        self.events += loss.events;
        self.packets += loss.packets;
        self.is_unknown |= loss.unknown > 0;
        for (sum, count) in self.causes.iter_mut().zip(loss.causes) {
            *sum += count;
        }
        match self.gaps.len() {
            _ if loss.events == 0 && loss.unknown == 0 => {}
            GAPS_MAX.. => self.more_gaps += 1,
            _ => self.gaps.push(gap(record)),
        }
    }

    fn finish(self) -> Lost {
        let origins = self.trace.origins().iter();
        let summaries: Vec<&Summary> =
            origins.filter_map(|origin| origin.facts.as_ref()?.summary.as_ref()).collect();
        let mut journal: BTreeMap<&str, u64> = BTreeMap::new();
        for (cause, events) in summaries.iter().flat_map(|summary| &summary.lost) {
            *journal.entry(cause).or_insert(0) += events;
        }
        let causes = self.by_cause(journal);
        // Unknown if one of them is.
        let events = causes.iter().map(|cause| cause.events).sum();
        let texts = summaries.iter().map(|summary| summary.empty_texts).sum();
        let flight_recorder = self.trace.is_of_flight_recorder();
        let Losses { packets, gaps, more_gaps, .. } = self;
        Lost { events, packets, flight_recorder, texts, causes, gaps, more_gaps }
    }
}

fn gap(record: &LossRecord<'_>) -> Gap {
    let loss = record.loss;
    let causes = Cause::ALL.iter().zip(loss.causes).filter(|(_, count)| *count > 0);
    Gap {
        stream: record.stream.label.clone(),
        since_ns: loss.since,
        until_ns: loss.until,
        exact: loss.place == Place::Gap,
        events: loss.known(),
        causes: causes.map(|(cause, count)| (cause.name().to_owned(), count)).collect(),
    }
}

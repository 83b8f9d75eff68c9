//! One CTF trace of a recording, as the loop sees it: its directory with metadata and journal.
//!
//! A recording has one of the processes; and below it one of the kernel, if that was asked for.

use crate::error::Error;
use crate::output::directory::Directory;
use crate::output::metadata::{self, Frame};

use crate::consumer::state::TraceState;
use crate::consumer::trace::Consumed;
use crate::consumer::walk::Steps;
use crate::options::Ctf;
use mote_clock::{Conversion, Sample};
use mote_journal::{ClockSample, EventSource, Fact, Summary};
use mote_loss::Cause;
use mote_session::events::{Announced, Events};
use std::cell::RefCell;
use std::sync::Arc;

/// A trace.
pub(crate) struct Trace {
    pub(crate) directory: Directory,
    pub(crate) state: Arc<TraceState>,
    frame: Frame,
    ctf: Ctf,
    printed: RefCell<Printed>,
}

/// The metadata of the first events: those of a trace only become more.
#[derive(Default)]
struct Printed {
    events: u32,
    text: String,
}

impl Trace {
    /// A trace that begins.
    pub(crate) fn new(directory: Directory, frame: Frame, ctf: Ctf, state: Arc<TraceState>) -> Trace {
        Trace { directory, state, frame, ctf, printed: RefCell::default() }
    }

    /// What its metadata say besides the events.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Its id.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.frame.uuid
    }

    /// Takes a description in; readers of rings know how to walk the event from now on.
    pub(crate) fn announce(&self, events: &mut Events, text: &[u8]) -> Announced {
        let announced = events.announce(text);
        if let Announced::New(id) = announced {
            self.state.add_event(events.description(id).map(|event| Steps::of(&event)).unwrap_or_default());
        }
        announced
    }

    /// Notes where events come from. They are not in the metadata yet.
    pub(crate) fn note_events(&mut self, events: &Events, new: &[u32]) -> bool {
        let mut noted = true;
        for id in new {
            let Some(event) = events.description(*id) else { continue };
            noted &= self.directory.note(&Fact::Event(EventSource {
                id: *id,
                provider: event.provider.to_owned(),
                name: event.name.to_owned(),
                level: event.level as u8,
                file: event.file.to_owned(),
                line: event.line,
                text: event.text.to_owned(),
            }));
        }
        noted
    }

    /// Notes samples of the clocks.
    pub(crate) fn note_samples(&mut self, samples: impl Iterator<Item = Sample>) -> bool {
        samples.fold(true, |noted, sample| {
            let fact = Fact::Clock(ClockSample {
                ticks: sample.ticks,
                monotonic_ns: sample.monotonic_ns,
                realtime_ns: sample.realtime_ns,
                error_ns: sample.error_ns,
            });
            self.directory.note(&fact) & noted
        })
    }

    /// Writes the metadata as they are now.
    ///
    /// # Errors
    /// [`Error::Output`], [`Error::Metadata`].
    pub(crate) fn write_metadata(
        &self,
        events: &Events,
        conversion: Option<Conversion>,
    ) -> Result<(), Error> {
        let Some(conversion) = conversion else { return Ok(()) };
        let mut printed = self.printed.borrow_mut();
        // Without events babeltrace2 does not find the length of a context's sequence.
        let has_stacks = self.frame.has_stacks && !events.is_empty();
        let frame = Frame { has_stacks, ..self.frame.clone() };
        let new = metadata::trace_class(&frame, &conversion, events.from(printed.events));
        let frame = metadata::trace_class(&frame, &conversion, std::iter::empty());
        let (frame, new) = match self.ctf {
            Ctf::V1_8 => (mote_ctf::write::tsdl(&frame)?, mote_ctf::write::tsdl_events(&new)?),
            Ctf::V2 => (mote_ctf::write::json(&frame), mote_ctf::write::json_events(&new)),
        };
        printed.text += &new;
        printed.events = events.len();
        self.directory.write_metadata(&(frame + &printed.text))
    }

    /// What the trace came to, without the number of processes and threads.
    pub(crate) fn summary(&self, events: &Events, consumed: &Consumed, duration_ns: u64) -> Summary {
        let name = |id: usize| events.description(id as u32).map(|e| format!("{}:{}", e.provider, e.name));
        let mut summary = Summary {
            duration_ns,
            bytes: consumed.totals.bytes,
            packets: consumed.totals.packets,
            overwritten_bytes: consumed.totals.overwritten,
            lost_unknown: consumed.lost.unknown + consumed.totals.damages,
            ..Summary::default()
        };
        for (id, count) in consumed.totals.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            *summary.events.entry(name(id).unwrap_or_default()).or_default() += count;
        }
        let lost = Cause::ALL.iter().map(|cause| (cause.name(), consumed.lost.events[*cause as usize]));
        let unwritten = ("not_written", consumed.totals.unwritten);
        for (cause, count) in lost.chain([unwritten]).filter(|(_, count)| *count > 0) {
            summary.lost.insert(cause.to_owned(), count);
        }
        summary
    }
}

//! What is made before the kernel's side of a recording begins: its events, their programs, its directory.

use super::choose::{Choice, Wanting};
use crate::area::session::SessionArea;
use crate::consumer::stacks::StacksOf;
use crate::consumer::state::TraceState;
use crate::consumer::totals::Context;
use crate::consumer::trace::Destination;
use crate::error::Error;
use crate::options::{KernelOptions, Options, Stacks};
use crate::output::directory::Directory;
use crate::output::metadata::Frame;
use crate::setup;
use crate::trace::Trace;
use crate::watch::Watch;
use mote_clock::Source;
use mote_generate::Chosen;
use mote_journal::Fact;
use mote_kernel::dump;
use mote_kernel::map::Buffers;
use mote_kernel::session::{Kernel as Tracer, Request, THREADS, Targets};
use mote_ring::Mode;
use mote_session::events::{Announced, Events};
use mote_words::counted;
use std::sync::Arc;

/// The trace's directory in that of the recording.
pub(crate) const DIRECTORY: &str = "kernel";

/// The trace of the kernel before it begins, and the ids of the events of the state dump.
pub(crate) struct Made {
    pub(crate) tracer: Tracer,
    pub(crate) trace: Trace,
    pub(crate) events: Events,
    pub(crate) dump: Vec<u32>,
    /// Ids of the events of slow calls, if these are wanted.
    pub(crate) slow: Option<[u32; 2]>,
    /// What is asked of events, and what has become of it.
    pub(crate) wanting: Wanting,
}

impl Made {
    /// Where its streams go, with such stacks.
    pub(crate) fn destination(&self, cpus: u32, mode: Mode, stacks: Stacks) -> Destination {
        let sink = self.trace.directory.sink();
        let context = Context { sink, uuid: self.trace.uuid(), clock: Source::Monotonic };
        let state = self.trace.state.clone();
        let stacks = (stacks.user && stacks.copy > 0).then(|| StacksOf::Anyone(self.tracer.state().clone()));
        Destination { state, context, home: DIRECTORY, inside: "", cpus, mode, stacks }
    }
}

/// Chooses the events, attaches their programs, and makes the directory. Nothing is recorded before the tracer is
/// switched on.
///
/// # Errors
/// [`Error::Kernel`] when nothing could be recorded.
pub(crate) fn make(
    wanted: &KernelOptions,
    options: &Options,
    (directory, frame): (&Directory, &Frame),
    session_area: &SessionArea,
    watch: &mut dyn Watch,
) -> Result<Made, Error> {
    let directory = directory.make_inside(DIRECTORY, &options.streams)?;
    let frame = setup::kernel_frame(frame);
    let mut wanting = Wanting::new(wanted, options, session_area)?;
    let Choice { events, maps, remarks, facts } = wanting.choose(wanted, options, session_area)?;
    if events.is_empty() && wanted.latency.is_none() {
        return Err(Error::Kernel(NOTHING_LEFT.to_owned()));
    }
    remarks.iter().for_each(|remark| watch.say(remark));
    let mut trace = Trace::new(directory, frame, options.ctf, Arc::new(TraceState::default()));
    let (mut events_of_trace, mut chosen) = (Events::default(), Vec::new());
    for (event, filter) in events {
        let id = announce(&trace, &mut events_of_trace, &event.description())?;
        chosen.push(Chosen { id: id as u16, event, filter });
    }
    let dump: Result<Vec<u32>, Error> =
        dump::descriptions().iter().map(|text| announce(&trace, &mut events_of_trace, text)).collect();
    let dump = dump?;
    let slow = match wanted.latency {
        Some(_) => {
            let [slow, open] = mote_slow::event::descriptions();
            Some([
                announce(&trace, &mut events_of_trace, &slow)?,
                announce(&trace, &mut events_of_trace, &open)?,
            ])
        }
        None => None,
    };
    let buffers = Buffers {
        sub_bits: wanted.buffers.sub_bits,
        count_bits: wanted.buffers.count_bits,
        mode: options.mode,
    };
    // Slow calls are looked for in the table of threads, which has all threads then.
    let targets = match options.command.is_empty() {
        _ if wanted.all && wanted.latency.is_none() => Targets::Others,
        true if !wanted.all => {
            Targets::ProbedIn(options.attach.iter().map(|pid| pid.unsigned_abs()).collect())
        }
        _ => Targets::Launch,
    };
    let count = chosen.len();
    let request = Request { events: chosen, targets, buffers, maps, threads: THREADS };
    let tracer = match facts {
        Some(facts) => Tracer::start_with(request, facts),
        None => Tracer::start(request),
    };
    let tracer = tracer.map_err(|why| Error::Kernel(why.to_string()))?;
    let session = setup::kernel_session(options, wanted, trace.frame(), tracer.geometry());
    trace.directory.note(&Fact::Session(session));
    let all: Vec<u32> = (0..events_of_trace.len()).collect();
    trace.note_events(&events_of_trace, &all);
    note_refused((&mut trace, &events_of_trace), &tracer, watch);
    tracer.notes().iter().for_each(|note| watch.say(note));
    let refused = tracer.refused();
    if let Some((_, why)) = refused.first().filter(|_| refused.len() == count) {
        return Err(Error::Kernel(format!(
            "no kernel event could be attached, of {count} that were chosen; the first: {why}"
        )));
    }
    Ok(Made { tracer, trace, events: events_of_trace, dump, slow, wanting })
}

/// Refused events that are named one by one. The journal has all of them.
const REFUSED_MAX: usize = 5;

/// Tells which events are not recorded, because the kernel did not take their programs. The others are.
fn note_refused((trace, events): (&mut Trace, &Events), tracer: &Tracer, watch: &mut dyn Watch) {
    let refused = tracer.refused();
    let more = refused.len().saturating_sub(REFUSED_MAX);
    for (count, (id, why)) in refused.into_iter().enumerate() {
        let Some(event) = events.description(u32::from(id)) else { continue };
        let (provider, name) = (event.provider.to_owned(), event.name.to_owned());
        if count < REFUSED_MAX {
            watch.say(&format!("{provider}:{name} is not recorded: {why}"));
        }
        trace.directory.note(&Fact::Refused { provider, name, why });
    }
    if more > 0 {
        watch.say(&format!(
            "{} not recorded, for similar reasons; see {DIRECTORY}/mote/journal.jsonl",
            counted(more, "more event is", "more events are")
        ));
    }
}

/// What is said when there is nothing to record.
const NOTHING_LEFT: &str =
    "no kernel event would be recorded: -x excludes all that -k chooses, or no rule can hold for them";

/// The id of an event, which is known to the trace from now on.
///
/// # Errors
/// [`Error::Kernel`] when there are too many.
pub(crate) fn announce(trace: &Trace, events: &mut Events, text: &str) -> Result<u32, Error> {
    match trace.announce(events, text.as_bytes()) {
        Announced::New(id) | Announced::Known(id) => Ok(id),
        Announced::Malformed(why) => {
            Err(Error::Kernel(format!("an event's description is malformed: {why}")))
        }
        Announced::TooMany => {
            Err(Error::Kernel("there are more kernel events than a trace can hold".to_owned()))
        }
    }
}

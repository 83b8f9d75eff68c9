//! One recording, from start to end.

use crate::areas::Areas;
use crate::command::Signals;
use crate::commons::Commons;
use crate::consumer::{self, Shared};
use crate::cooperate::{self, Cooperation, NEEDS_KERNEL};
use crate::directory::Directory;
use crate::error::Error;
use crate::filters::Filters;
use crate::flow::Flow;
use crate::groups::Groups;
use crate::kernel::{self, Kernel, KernelRecorded, Made};
use crate::options::{self, Mode, Options};
use crate::principal;
use crate::recorder::{Recorder, Session};
use crate::rules::NO_SNAPSHOTS;
use crate::samples::Samples;
use crate::setup;
use crate::snapshot::Beside;
use crate::stream::Context;
use crate::tap::Pipe;
use crate::trace::Trace;
use mote_clock::Source;
use mote_journal::{Fact, Summary};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// The directory of the processes' trace in a recording that has one of the kernel, too. LTTng calls it so.
const PROCESSES: &str = "ust";

/// What a recording tells while it runs.
pub trait Watch {
    /// How far it is; called about ten times a second.
    fn progress(&mut self, progress: &Progress);
    /// Counts and histograms so far, as text; called as often as was asked for.
    fn aggregates(&mut self, text: &str);
    /// What is known of system calls so far; called as often as was asked for.
    fn latency(&mut self, _now: &crate::Latencies) {}
    /// Something that was asked for is not done.
    fn problem(&mut self, text: &str) {
        self.say(text);
    }
    /// Something that a person should know now.
    fn say(&mut self, text: &str);
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events in the trace so far; packets written in a hurry are counted a little later.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Lost events, as far as their number is known.
    pub lost: u64,
    /// How many times more were lost, of which nobody knows the number.
    pub lost_unknown: u64,
    /// Processes in the session now.
    pub processes: usize,
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Where it is.
    pub directory: PathBuf,
    /// What it came to.
    pub summary: Summary,
    /// What the kernel's side came to, if its events were asked for.
    pub kernel: Option<KernelRecorded>,
    /// What went wrong, in words.
    pub problems: Vec<String>,
    /// Counts and histograms, as text; empty when no rule asked for any.
    pub aggregates: String,
}

/// Records a command until it and all its children have ended, the duration is over, or a signal asks to stop.
///
/// # Errors
/// [`Error`] when nothing could be recorded. What goes wrong later is in [`Recorded::problems`], and the trace is
/// whole up to there.
pub fn record(options: &Options, watch: &mut dyn Watch) -> Result<Recorded, Error> {
    let signals = Signals::catch()?;
    // Where there are two traces, both are below the recording's directory.
    let inside = if options.kernel.is_some() { PROCESSES } else { "" };
    let mut directory = Directory::make(&options.output, inside)?;
    let source = Source::choose(options.clock).source;
    let shared = Shared::default();
    let (sizes, online) = setup::rings(options, source)?;
    let groups = Groups::new(sizes, online, principal::may_record_others(), &shared)?;
    let samples = Samples::begin(source);
    let frame = setup::frame(options, source, &samples.first());
    let commons = Commons::new(options.kernel.is_some());
    let areas = Areas::new(&shared, commons.clone())?;
    let filters = Filters::new(options, commons.names().clone())?;
    let cooperation = Cooperation::new(commons.clone(), options.kernel.is_some());
    let asks = |kernel: &options::KernelOptions| kernel.rules.iter().any(mote_filter::Rule::snapshots);
    if (filters.snapshots() || options.kernel.as_ref().is_some_and(asks)) && options.mode != Mode::Overwrite {
        return Err(Error::Rule(NO_SNAPSHOTS));
    }
    if filters.asks_kernel() && options.kernel.is_none() {
        return Err(Error::Rule(NEEDS_KERNEL));
    }
    let options = &*cooperate::with_slow_calls(options, &filters);
    directory.note(&Fact::Session(setup::session(options, &frame, sizes, samples.frequency())));
    let made = match &options.kernel {
        Some(wanted) => Some(kernel::make(wanted, options, (&directory, &frame), &commons, watch)?),
        None => None,
    };
    let (tracer, made) = made.unzip();
    let beside = Beside { recording: directory.path().to_owned(), parent: directory.parent().clone() };
    let flow = Arc::new(Flow::default());
    let own = (directory.trace().clone(), directory.inner().clone());
    let context = Context { directory: &own.0, hidden: &own.1, uuid: frame.uuid, clock: source };
    let cpus = options::cpus();
    let mode = options.mode;
    let pipe = Pipe { flow: &flow, context, home: "", inside, cpus, mode };
    let place = made.as_ref().map(Made::place);
    let of_kernel = tracer.as_ref().zip(place.as_ref());
    let of_kernel = of_kernel.map(|(tracer, place)| (place.pipe(cpus, mode), tracer.channel()));
    let trace = Trace::new(directory, frame, options.ctf, flow.clone());
    let (tell, hear) = channel();
    std::thread::scope(|scope| {
        let consumer =
            std::thread::Builder::new().name("mote-consumer".to_owned()).spawn_scoped(scope, || {
                consumer::consume(&beside, (pipe, of_kernel), &shared, &commons, &|notice| {
                    drop(tell.send(notice))
                })
            });
        let consumer = consumer.map_err(|why| Error::Loop { what: "start the consumer", why })?;
        let session = Session { groups, shared: &shared, areas, source };
        let kernel = options.kernel.as_ref().zip(tracer.as_ref()).zip(made);
        let kernel = kernel.map(|((wanted, tracer), made)| Kernel::new(wanted, tracer, made));
        let mut recorder =
            Recorder::new(options, session, (trace, kernel), samples, watch, hear, (filters, cooperation));
        let served = recorder.serve(&signals);
        shared.stop();
        let consumed = consumer.join().map_err(|_| Error::Loop {
            what: "empty the rings",
            why: std::io::Error::other("the consumer has failed"),
        })?;
        Ok(recorder.finish(served?, &consumed, &signals))
    })
}

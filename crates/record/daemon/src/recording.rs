//! One recording, from start to end, in an event loop that may serve others beside it.
//!
//! A loop polls [`Recording::polled`] for at most [`Recording::patience`], gives signals to [`Recording::signal`], then
//! calls [`Recording::serve`], until [`Recording::is_over`]. [`record()`] is that loop for one recording.

use crate::area::session::SessionArea;
use crate::command::{Arrived, Command, Signals};
use crate::consumer::snapshot::Beside;
use crate::consumer::state::TraceState;
use crate::consumer::totals::Context;
use crate::consumer::trace::Destination;
use crate::consumer::{ConsumerThread, Shared, Task};
use crate::control::server::Server;
use crate::cooperation::{self, Cooperation};
use crate::error::Error;
use crate::kernel::{self, Kernel};
use crate::options::{self, Mode, Options};
use crate::output::directory::Directory;
use crate::output::owner::Owner;
use crate::recorder::group_areas::GroupAreas;
use crate::recorder::rings::Rings;
use crate::recorder::{Recorder, TICK, TICK_SOON};
use crate::registration::attached::Attached;
use crate::registration::awaited::Awaited;
use crate::registration::backlog::Backlog;
use crate::registration::listeners::Listeners;
use crate::registration::principal;
use crate::registration::turns::Turns;
use crate::samples::Samples;
use crate::trace::Trace;
use crate::watch::{Recorded, Watch};
use crate::{objects, setup};
use mote_clock::Source;
use mote_filter::Rule;
use mote_journal::Fact;
use mote_ring::Geometry;
use mote_session::layout::Layout;
use mote_session::{Input, NEEDS_KERNEL, NO_EVENT, NO_SNAPSHOTS, Outlook, PeerId, Session, Settings};
use mote_symbol::collect::BuildIds;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The directory of the processes' trace in a recording that has one of the kernel, too. LTTng calls it so.
const PROCESSES: &str = "ust";

/// Records until the command and all its children have ended, the duration is over, or a signal asks to stop.
///
/// # Errors
/// [`Error`] when nothing could be recorded. What goes wrong later is in [`Recorded::problems`], and the trace is
/// whole up to there.
pub fn record(options: &Options, watch: &mut dyn Watch) -> Result<Recorded, Error> {
    let signals = Signals::catch()?;
    let mut recording = Recording::begin(options, &signals, watch)?;
    while !recording.is_over() {
        let mut polled = recording.polled();
        polled.push(signals.polled());
        let patience = recording.patience();
        match mote_sys::socket::wait_any(&mut polled, patience.as_millis() as i32) {
            Ok(_) | Err(mote_sys::Errno(libc::EINTR)) => {}
            Err(why) => return Err(Error::Session { what: "wait for processes", why }),
        }
        while let Some(arrived) = signals.next() {
            recording.signal(arrived);
        }
        let ready = polled.into_iter().filter(|polled| polled.revents != 0).map(|polled| polled.fd).collect();
        recording.serve(&ready);
    }
    recording.finish(&signals)
}

/// A recording that runs.
pub struct Recording<'w> {
    server: Server,
    listeners: Listeners,
    recorder: Recorder<'w>,
    /// It was told that the recording has begun.
    is_announced: bool,
}

impl<'w> Recording<'w> {
    /// Begins a recording, and starts the command if there is one.
    ///
    /// # Errors
    /// [`Error`] when nothing could be recorded; nothing is left of it then.
    pub fn begin(
        options: &Options,
        signals: &Signals,
        watch: &'w mut dyn Watch,
    ) -> Result<Recording<'w>, Error> {
        let mut recorder = make(options, watch)?;
        let mut listeners = Listeners::open()?;
        let server = Server::open(listeners.sockets(), listeners.trust(), recorder.trace.directory.inner())?;
        recorder.note_samples();
        recorder.write_metadata()?;
        recorder.attach(&mut listeners)?;
        recorder.begin_slow_calls();
        recorder.begin_cooperation();
        recorder.begin_kernel();
        recorder.follow_all();
        recorder.perform();
        recorder.command = start(&recorder, &listeners, signals)?;
        recorder.trace.directory.keep();
        recorder.kernel.iter_mut().for_each(|kernel| kernel.trace.directory.keep());
        listeners.hand_over();
        recorder.began = Instant::now();
        let mut recording = Recording { server, listeners, recorder, is_announced: false };
        recording.announce();
        Ok(recording)
    }

    /// Says that the recording has begun, once all processes that are expected are in it.
    fn announce(&mut self) {
        if !self.is_announced && self.recorder.has_all_expected() {
            self.is_announced = true;
            self.recorder.watch.begun(self.recorder.trace.directory.path());
        }
    }

    /// What to wait for.
    pub fn polled(&self) -> Vec<libc::pollfd> {
        let readable = self
            .listeners
            .polled()
            .chain(self.recorder.connections.values().map(crate::registration::connection::Connection::raw));
        let readable = readable.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        readable.chain(self.server.polled()).collect()
    }

    /// How long to wait for it.
    pub fn patience(&self) -> Duration {
        let recorder = &self.recorder;
        if recorder.session.is_last_round() || !recorder.backlog.is_empty() {
            return Duration::ZERO;
        }
        let soon = recorder.kernel.as_ref().is_some_and(Kernel::snapshots_slow);
        let tick = if soon { TICK_SOON } else { TICK };
        let left = |duration: Duration| duration.saturating_sub(recorder.began.elapsed());
        recorder.options.duration.map_or(tick, |duration| left(duration).min(tick))
    }

    /// Serves what has arrived. Of the connections of processes only those are read whose descriptors are `ready`.
    pub fn serve(&mut self, ready: &HashSet<i32>) {
        self.recorder.serve(&self.listeners, &mut self.server, ready);
        self.announce();
    }

    /// A signal has arrived: one that asks for the end goes to the command first; SIGUSR2 asks for a snapshot.
    pub fn signal(&mut self, arrived: Arrived) {
        if arrived.asks_for_snapshot()
            && let Err(why) = self.recorder.ask_for_snapshot()
        {
            self.recorder.watch.say(why);
        }
        if !arrived.asks_to_end() {
            return;
        }
        let command = self.recorder.command_state();
        self.recorder.take(Input::Signal { signal: arrived.as_request(), command });
    }

    /// Whether the recording is over.
    pub fn is_over(&mut self) -> bool {
        let recorder = &mut self.recorder;
        let command = recorder.command_state();
        let attached = recorder.attached_are_gone();
        let timed_out =
            recorder.options.duration.is_some_and(|duration| recorder.began.elapsed() >= duration);
        let is_cut = timed_out || recorder.shared.failure().is_some();
        let is_deserted = self.listeners.is_deserted() && recorder.backlog.is_empty() && !recorder.pressed;
        let threads = recorder.kernel.as_ref().map_or(0, Kernel::left);
        recorder.take(Input::Outlook(Outlook { command, is_cut, is_deserted, threads, attached }));
        recorder.is_over
    }

    /// Ends the recording, and waits for the command to end, passing signals on.
    ///
    /// # Errors
    /// [`Error::Loop`] when the thread that empties the rings has failed.
    pub fn finish(self, signals: &Signals) -> Result<Recorded, Error> {
        let Recording { server, listeners, mut recorder, .. } = self;
        let duration_ns = recorder.began.elapsed().as_nanos() as u64;
        recorder.look_at_owners(usize::MAX);
        recorder.look_for_awaited(true);
        recorder.end_kernel();
        recorder.end_slow_calls();
        recorder.say_goodbye(&listeners);
        drop((server, listeners));
        let consumed = recorder.consumer.finish().ok_or_else(|| Error::Loop {
            what: "empty the rings",
            why: std::io::Error::other("the thread that writes the trace has failed (a bug of mote)"),
        })?;
        let command = recorder.command.take();
        let wait = |watch: &mut dyn Watch| command.and_then(|command| command.wait(signals, watch));
        Ok(recorder.finish(duration_ns, &consumed, wait))
    }
}

/// Makes everything that a recording needs before its first process may come.
fn make<'w>(options: &Options, watch: &'w mut dyn Watch) -> Result<Recorder<'w>, Error> {
    // Where there are two traces, both are below the recording's directory.
    let inside = if options.kernel.is_some() { PROCESSES } else { "" };
    let mut directory = Directory::make(&options.output, inside)?;
    let source = Source::choose(options.clock).source;
    let shared = Arc::new(Shared::default());
    let (sizes, online) = setup::rings(options, source)?;
    let session_area = SessionArea::new(options.kernel.is_some());
    let (areas, layout) = GroupAreas::new(shared.clone())?;
    let settings = settings(options, sizes, layout, &session_area)?;
    let session = Session::new(settings).map_err(|(path, why)| Error::Object(path, why))?;
    let rings = Rings::new(session.first_rings().unwrap_or(sizes), online, shared.clone())?;
    let samples = Samples::begin(source);
    let frame = setup::frame(options, source, &samples.first());
    let cooperation = Cooperation::new(session_area.clone(), options.kernel.is_some());
    check(options, &session)?;
    let options = cooperation::with_slow_calls(options.clone(), session.filters());
    directory.note(&Fact::Session(setup::session(&options, &frame, sizes, samples.frequency())));
    let made = match &options.kernel {
        Some(wanted) => Some(kernel::make(wanted, &options, (&directory, &frame), &session_area, watch)?),
        None => None,
    };
    let beside = Beside { recording: directory.path().to_owned(), parent: directory.parent().clone() };
    let state = Arc::new(TraceState::default());
    let context = Context { sink: directory.sink(), uuid: frame.uuid, clock: source };
    let (cpus, mode) = (options::cpus(), options.mode);
    let processes = Destination { state: state.clone(), context, home: "", inside, cpus, mode };
    let of_kernel = made.as_ref().map(|made| (made.destination(cpus, mode), made.tracer.channel().clone()));
    let trace = Trace::new(directory, frame, options.ctf, state);
    let (tell, hear) = channel();
    let task = Task { beside, processes, kernel: of_kernel, shared: shared.clone(), session_area };
    let consumer = ConsumerThread::start(task, tell);
    let consumer = consumer.map_err(|why| Error::Loop { what: "start the consumer", why })?;
    let kernel = options.kernel.clone().zip(made).map(|(wanted, made)| Kernel::new(wanted, made));
    Ok(Recorder {
        consumer,
        hear,
        shared,
        owner: Owner::of(&options),
        options,
        watch,
        session,
        performs: false,
        connections: BTreeMap::new(),
        accepted: 0,
        first: PeerId(0),
        pressed: false,
        backlog: Backlog::default(),
        turns: Turns::default(),
        rings,
        areas,
        bundle: None,
        mailboxes: BTreeMap::new(),
        answers: Vec::new(),
        columns: BTreeMap::new(),
        source,
        samples,
        kernel,
        trace,
        cooperation,
        attached: Attached::default(),
        awaited: Awaited::default(),
        build_ids: BuildIds::default(),
        began: Instant::now(),
        shown: Instant::now(),
        command: None,
        is_over: false,
    })
}

/// What the session is told.
fn settings(
    options: &Options,
    rings: Geometry,
    layout: Layout,
    session_area: &SessionArea,
) -> Result<Settings, Error> {
    Ok(Settings {
        rules: options.rules.clone(),
        objects: objects::read(&options.objects)?,
        exclude: options.exclude.clone(),
        keeps_on_fault: options.keeps_on_fault,
        is_flight_recorder: options.mode == Mode::Overwrite,
        has_kernel: options.kernel.is_some(),
        own: principal::trust().own(),
        descriptors: setup::descriptors(),
        rings,
        many_groups: principal::may_record_others(),
        layout,
        names: session_area.names().clone(),
    })
}

/// Whether the rules fit this kind of recording.
fn check(options: &Options, session: &Session) -> Result<(), Error> {
    let snapshots = |kernel: &options::KernelOptions| kernel.rules.iter().any(Rule::snapshots);
    let filters = session.filters();
    if (filters.snapshots() || options.kernel.as_ref().is_some_and(snapshots))
        && options.mode != Mode::Overwrite
    {
        return Err(Error::Rule(NO_SNAPSHOTS));
    }
    if filters.asks_kernel() && options.kernel.is_none() {
        return Err(Error::Rule(NEEDS_KERNEL));
    }
    if !options.yields() {
        return Err(Error::Rule(NO_EVENT));
    }
    Ok(())
}

/// Starts the command. What is recorded of the kernel is on by then.
fn start(
    recorder: &Recorder<'_>,
    listeners: &Listeners,
    signals: &Signals,
) -> Result<Option<Command>, Error> {
    let (session_area, options) = (&recorder.cooperation.session_area, &recorder.options);
    if options.command.is_empty() {
        options.attach.first().into_iter().for_each(|pid| session_area.set_target(pid.unsigned_abs()));
        return Ok(None);
    }
    let variable = listeners.variable()?;
    let launching = recorder.kernel.as_ref().map(|kernel| kernel.tracer.launching()).transpose();
    let _launching = launching.map_err(|why| Error::Kernel(why.to_string()))?;
    let command = Command::start(&options.command, (variable.0, &variable.1), signals)?;
    session_area.set_target(command.id());
    Ok(Some(command))
}

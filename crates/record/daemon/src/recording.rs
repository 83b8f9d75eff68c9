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
use crate::recorder::clock::Clock;
use crate::recorder::group_areas::GroupAreas;
use crate::recorder::group_memory::GroupMemory;
use crate::recorder::kernel_side::KernelSide;
use crate::recorder::output::Output;
use crate::recorder::peers::Peers;
use crate::recorder::requests::Requests;
use crate::recorder::rings::Rings;
use crate::recorder::screen::Screen;
use crate::recorder::subjects::Subjects;
use crate::recorder::{Recorder, TICK, TICK_SOON};
use crate::registration::listeners::Listeners;
use crate::registration::principal;
use crate::trace::Trace;
use crate::watch::{Recorded, Watch};
use crate::{objects, setup};
use mote_clock::Source;
use mote_filter::Rule;
use mote_journal::Fact;
use mote_ring::Geometry;
use mote_session::layout::Layout;
use mote_session::{Input, NEEDS_KERNEL, NO_EVENT, NO_SNAPSHOTS, Outlook, Session, Settings};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

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
        let server =
            Server::open(listeners.sockets(), listeners.trust(), recorder.output.trace.directory.inner())?;
        recorder.note_samples();
        recorder.write_metadata()?;
        recorder.subjects.attach(&mut listeners, &recorder.options, recorder.screen.watch)?;
        recorder.begin_kernel();
        recorder.perform();
        recorder.subjects.command = start(&recorder, &listeners, signals)?;
        recorder.output.trace.directory.keep();
        recorder.kernel.get_mut().into_iter().for_each(|kernel| kernel.trace.directory.keep());
        listeners.hand_over();
        recorder.clock.begin();
        let mut recording = Recording { server, listeners, recorder, is_announced: false };
        recording.announce();
        Ok(recording)
    }

    /// Says that the recording has begun, once all processes that are expected are in it.
    fn announce(&mut self) {
        let Recorder { subjects, session, screen, output, .. } = &mut self.recorder;
        if !self.is_announced && subjects.have_come(session) {
            self.is_announced = true;
            screen.watch.begun(output.trace.directory.path());
        }
    }

    /// What to wait for.
    pub fn polled(&self) -> Vec<libc::pollfd> {
        let readable = self.listeners.polled().chain(self.recorder.peers.polled());
        let readable = readable.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        readable.chain(self.server.polled()).collect()
    }

    /// How long to wait for it.
    pub fn patience(&self) -> Duration {
        let recorder = &self.recorder;
        if recorder.session.is_last_round() || recorder.peers.has_waiting() {
            return Duration::ZERO;
        }
        let soon = recorder.kernel.get().is_some_and(Kernel::snapshots_slow);
        let tick = if soon { TICK_SOON } else { TICK };
        let left = |duration: Duration| duration.saturating_sub(recorder.clock.elapsed());
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
            self.recorder.screen.say(why);
        }
        if !arrived.asks_to_end() {
            return;
        }
        let command = self.recorder.subjects.command_state();
        self.recorder.take(Input::Signal { signal: arrived.as_request(), command });
    }

    /// Whether the recording is over.
    pub fn is_over(&mut self) -> bool {
        let recorder = &mut self.recorder;
        let command = recorder.subjects.command_state();
        let (attached, remarks) = recorder.subjects.are_gone(&recorder.options);
        recorder.tell(remarks);
        let timed_out =
            recorder.options.duration.is_some_and(|duration| recorder.clock.elapsed() >= duration);
        let is_cut = timed_out || recorder.consumer.shared.failure().is_some();
        let is_deserted = self.listeners.is_deserted() && recorder.peers.is_at_rest();
        let threads = recorder.kernel.get().map_or(0, Kernel::left);
        recorder.take(Input::Outlook(Outlook { command, is_cut, is_deserted, threads, attached }));
        recorder.is_over
    }

    /// Ends the recording, and waits for the command to end, passing signals on.
    ///
    /// # Errors
    /// [`Error::Loop`] when the thread that empties the rings has failed.
    pub fn finish(self, signals: &Signals) -> Result<Recorded, Error> {
        let Recording { server, listeners, mut recorder, .. } = self;
        let duration_ns = recorder.clock.duration_ns();
        recorder.end_subjects();
        recorder.say_goodbye(&listeners);
        drop((server, listeners));
        let consumed = recorder.consumer.finish().ok_or_else(|| Error::Loop {
            what: "empty the rings",
            why: std::io::Error::other("the consumer has failed"),
        })?;
        let command = recorder.subjects.command.take();
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
    let clock = Clock::new(source);
    let frame = setup::frame(options, source, &clock.samples.first());
    let cooperation = Cooperation::new(session_area.clone(), options.kernel.is_some());
    check(options, &session)?;
    let options = cooperation::with_slow_calls(options.clone(), session.filters());
    directory.note(&Fact::Session(setup::session(&options, &frame, sizes, clock.samples.frequency())));
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
    let task = Task { beside, processes, kernel: of_kernel, shared: shared.clone(), session_area };
    let consumer = ConsumerThread::start(task);
    let consumer = consumer.map_err(|why| Error::Loop { what: "start the consumer", why })?;
    let kernel = options.kernel.clone().zip(made).map(|(wanted, made)| Kernel::new(wanted, made));
    Ok(Recorder {
        consumer,
        session,
        performs: false,
        is_over: false,
        clock,
        peers: Peers::new(),
        memory: GroupMemory::new(rings, areas),
        requests: Requests::default(),
        subjects: Subjects::default(),
        kernel: KernelSide::new(kernel, cooperation),
        output: Output::new(trace, Owner::of(&options)),
        screen: Screen::new(watch, &options),
        options,
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
    let (session_area, options) = (&recorder.kernel.cooperation.session_area, &recorder.options);
    if options.command.is_empty() {
        options.attach.first().into_iter().for_each(|pid| session_area.set_target(pid.unsigned_abs()));
        return Ok(None);
    }
    let variable = listeners.variable()?;
    let launching = recorder.kernel.get().map(|kernel| kernel.tracer.launching()).transpose();
    let _launching = launching.map_err(|why| Error::Kernel(why.to_string()))?;
    let command = Command::start(&options.command, (variable.0, &variable.1), signals)?;
    session_area.set_target(command.id());
    Ok(Some(command))
}

//! One recording, from start to end, in an event loop that may serve others beside it: what it waits for, also at its
//! beginning and its end, is a descriptor or a time. It begins when all running processes that are to be recorded were
//! looked at: these may take 10 s to answer, or never do.
//!
//! A loop polls [`Recording::polled`] for at most [`Recording::patience`], gives signals to [`Recording::signal`], and
//! calls [`Recording::serve`], until [`Recording::ended`] has what the recording came to. [`record()`] is that loop for
//! one recording.

use crate::area::packets::{Places, Requests as Asked};
use crate::area::session::SessionArea;
use crate::command::{Arrived, Command, Signals};
use crate::consumer::snapshot::Beside;
use crate::consumer::stacks::StacksOf;
use crate::consumer::state::TraceState;
use crate::consumer::totals::Context;
use crate::consumer::trace::Destination;
use crate::consumer::{ConsumerThread, Shared, Task};
use crate::cooperation::{self, Cooperation};
use crate::error::Error;
use crate::functions::{self, Functions, Given};
use crate::hardware::Hardware;
use crate::kernel::{self, Kernel};
use crate::options::{self, Mode, Options};
use crate::output::directory::{Directory, PROCESSES};
use crate::output::owner::Owner;
use crate::profile::Profile;
use crate::recorder::Recorder;
use crate::recorder::clock::Clock;
use crate::recorder::group_areas::GroupAreas;
use crate::recorder::group_memory::GroupMemory;
use crate::recorder::kernel_side::KernelSide;
use crate::recorder::outcome::Outcome;
use crate::recorder::output::Output;
use crate::recorder::peers::Peers;
use crate::recorder::requests::Requests;
use crate::recorder::rings::Rings;
use crate::recorder::sampled::Sampled;
use crate::recorder::screen::Screen;
use crate::recorder::subjects::Subjects;
use crate::recorder::ways_in::WaysIn;
use crate::registration::listeners::Listeners;
use crate::registration::principal;
use crate::trace::Trace;
use crate::watch::{Recorded, Watch};
use crate::{objects, setup};
use mote_clock::Source;
use mote_filter::Rule;
use mote_journal::Fact;
use mote_layout::functions::SAMPLING_PROVIDER;
use mote_pmu::is_program;
use mote_ring::Geometry;
use mote_sampler::Reports;
use mote_session::layout::Layout;
use mote_session::{
    Input, NEEDS_KERNEL, NO_EVENT, NO_PACKETS, NO_PROFILE, NO_SNAPSHOTS, Session, Settings, Stage,
};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Records until the command and all its children have ended, the duration is over, or a signal asks to stop.
///
/// # Errors
/// [`Error`] when nothing could be recorded. What goes wrong later is in [`Recorded::problems`], and the trace is
/// whole up to there.
pub fn record(options: &Options, watch: &mut dyn Watch) -> Result<Recorded, Error> {
    let signals = Signals::catch()?;
    let mut recording = Recording::begin(options, &signals, watch)?;
    loop {
        let mut polled = recording.polled();
        polled.push(signals.polled());
        let ready = wait(&mut polled, recording.patience())?;
        while let Some(arrived) = signals.next() {
            recording.signal(arrived);
        }
        recording.serve(&ready);
        if let Some(ended) = recording.ended() {
            return ended;
        }
    }
}

/// Waits until something can be served. Returns the descriptors that are ready.
///
/// # Errors
/// [`Error::Session`], as poll(2).
pub fn wait(polled: &mut [libc::pollfd], patience: Duration) -> Result<HashSet<i32>, Error> {
    match mote_sys::socket::wait_any(polled, patience.as_millis() as i32) {
        Ok(_) | Err(mote_sys::Errno(libc::EINTR)) => {}
        Err(why) => return Err(Error::Session { what: "wait for processes", why }),
    }
    Ok(polled.iter().filter(|polled| polled.revents != 0).map(|polled| polled.fd).collect())
}

/// How often the loop looks around while running processes are looked at.
const TICK_BEGINNING: Duration = Duration::from_millis(1);

/// A recording that runs.
pub struct Recording<'w> {
    state: State<'w>,
    recorder: Recorder<'w>,
    /// It was told that the recording has begun.
    is_announced: bool,
    /// What it came to was given.
    is_given: bool,
}

/// How far the beginning of a recording is.
enum State<'w> {
    /// Running processes are looked at.
    Begins(Box<Beginning<'w>>),
    /// It has begun.
    Begun,
    /// It could not begin; the reason, until it was given.
    Failed(Option<Error>),
}

/// What a recording begins with when all running processes were looked at.
struct Beginning<'w> {
    ways_in: WaysIn,
    /// Functions that get probes.
    functions: Option<Arc<Functions>>,
    signals: &'w Signals,
    /// Signals that have arrived meanwhile.
    arrived: Vec<Arrived>,
    /// The end was asked for meanwhile.
    is_to_end: bool,
}

impl<'w> Recording<'w> {
    /// Begins a recording, and starts the command if there is one. Beside running processes this takes some rounds of
    /// the loop: see [`Recording::serve`].
    ///
    /// # Errors
    /// [`Error`] when nothing could be recorded; nothing is left of it then. What is only known when a running process
    /// was looked at comes out of [`Recording::ended`].
    pub fn begin(
        options: &Options,
        signals: &'w Signals,
        watch: &'w mut dyn Watch,
    ) -> Result<Recording<'w>, Error> {
        let mut recorder = make(&with_facts_of_samples(options), watch)?;
        let mut ways_in = WaysIn::open(recorder.output.trace.directory.inner())?;
        let listeners = &mut ways_in.listeners;
        recorder.note_samples();
        recorder.write_metadata()?;
        let clock = &recorder.clock.samples;
        let options = &recorder.options;
        let functions = Functions::of(
            Given { patterns: &options.functions, under: &options.under, asked: &options.asked_functions() },
            options,
            recorder.clock.source(),
            clock.frequency(),
        )?;
        let (subjects, screen) = (&mut recorder.subjects, &mut recorder.screen);
        subjects.attach(listeners, &recorder.options, functions.as_ref(), screen.watch)?;
        let beginning = Beginning { ways_in, functions, signals, arrived: Vec::new(), is_to_end: false };
        let state = State::Begins(Box::new(beginning));
        let mut recording = Recording { state, recorder, is_announced: false, is_given: false };
        recording.go_on()?;
        Ok(recording)
    }

    /// Goes on to begin, if all running processes were looked at.
    ///
    /// # Errors
    /// As [`Recording::begin`].
    fn go_on(&mut self) -> Result<(), Error> {
        let Recorder { subjects, screen, options, .. } = &mut self.recorder;
        if !subjects.were_asked(options, screen.watch)? {
            return Ok(());
        }
        let State::Begins(beginning) = std::mem::replace(&mut self.state, State::Begun) else {
            return Ok(());
        };
        let Beginning { ways_in, functions, signals, arrived, is_to_end } = *beginning;
        self.begin_to_record(ways_in, functions, signals)?;
        arrived.into_iter().for_each(|arrived| self.signal(arrived));
        if is_to_end {
            self.end();
        }
        Ok(())
    }

    /// Begins to record: all running processes were looked at.
    fn begin_to_record(
        &mut self,
        mut ways_in: WaysIn,
        functions: Option<Arc<Functions>>,
        signals: &Signals,
    ) -> Result<(), Error> {
        let (recorder, listeners) = (&mut self.recorder, &mut ways_in.listeners);
        recorder.keep_symbols();
        recorder.begin_kernel();
        recorder.begin_profile()?;
        recorder.perform();
        // With processes that run the command is only what the recording lasts for.
        let functions = functions.filter(|_| recorder.options.attach.is_empty());
        let is_traced = Hardware::is_of_command(&recorder.options);
        if !is_traced {
            recorder.begin_hardware(None)?;
        }
        recorder.subjects.command = start(recorder, listeners, signals, functions.is_some() || is_traced)?;
        if is_traced {
            recorder.trace_command()?;
        }
        match functions {
            Some(functions) => recorder.subjects.probe_command(&functions)?,
            None if is_traced => recorder.subjects.let_command_go(),
            None => {}
        }
        recorder.output.trace.directory.keep();
        recorder.kernel.get_mut().into_iter().for_each(|kernel| kernel.trace.directory.keep());
        recorder.profile.iter_mut().for_each(|profile| profile.trace.directory.keep());
        listeners.hand_over();
        recorder.ways_in = Some(ways_in);
        recorder.clock.begin();
        self.announce();
        Ok(())
    }

    /// Says that the recording has begun, once all processes that are expected are in it.
    fn announce(&mut self) {
        let Recorder { subjects, session, screen, output, clock, .. } = &mut self.recorder;
        if !self.is_announced && subjects.have_come(session) {
            self.is_announced = true;
            clock.is_whole();
            screen.watch.begun(output.trace.directory.path());
        }
    }

    /// What to wait for.
    pub fn polled(&self) -> Vec<libc::pollfd> {
        let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled: Vec<libc::pollfd> = self.recorder.peers.polled().map(readable).collect();
        // At the end nobody is let in: the ways in are looked at in each round.
        if let Some(ways_in) = self.recorder.ways_in.as_ref().filter(|_| self.is_recording()) {
            polled.extend(ways_in.listeners.polled().map(readable));
            polled.extend(ways_in.server.polled());
        }
        polled
    }

    /// How long to wait for it.
    pub fn patience(&self) -> Duration {
        match self.state {
            State::Begins(_) => TICK_BEGINNING,
            State::Begun | State::Failed(_) => self.recorder.patience(),
        }
    }

    /// Whether it begins or goes on, and has not begun to end.
    pub fn is_recording(&self) -> bool {
        !matches!(self.state, State::Failed(_)) && self.recorder.session.stage().is_recording()
    }

    /// Serves what has arrived. Of the connections of processes only those are read whose descriptors are `ready`. May
    /// find that the recording is over, and begin to end it.
    pub fn serve(&mut self, ready: &HashSet<i32>) {
        match self.state {
            State::Begins(_) => {
                if let Err(why) = self.go_on() {
                    self.state = State::Failed(Some(why));
                }
            }
            State::Begun if self.is_recording() => {
                self.recorder.serve(ready);
                self.announce();
            }
            State::Begun => self.recorder.serve_end(),
            State::Failed(_) => {}
        }
    }

    /// A signal has arrived: one that asks for the end goes to the command first; SIGUSR2 asks for a snapshot.
    pub fn signal(&mut self, arrived: Arrived) {
        if let State::Begins(beginning) = &mut self.state {
            return beginning.arrived.push(arrived);
        }
        if arrived.asks_for_snapshot()
            && self.is_recording()
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

    /// Begins to end the recording. What it waits for from then on (processes that switch off, a bounded time; the
    /// rings, until they are read; the command) is served like everything else, until it has [`Recording::ended`].
    pub fn end(&mut self) {
        match &mut self.state {
            State::Begins(beginning) => beginning.is_to_end = true,
            State::Begun => self.recorder.begin_to_end(),
            State::Failed(_) => {}
        }
    }

    /// What the recording came to, once it has ended; this is given once.
    ///
    /// # Errors
    /// [`Error::Loop`] when the thread that empties the rings has failed; as [`Recording::begin`] when it could not
    /// begin, and then nothing is left of it when this is dropped.
    pub fn ended(&mut self) -> Option<Result<Recorded, Error>> {
        if let State::Failed(why) = &mut self.state {
            return why.take().map(Err);
        }
        if self.recorder.session.stage() != Stage::Ended || std::mem::replace(&mut self.is_given, true) {
            return None;
        }
        Some(self.recorder.outcome.take())
    }
}

/// Makes everything that a recording needs before its first process may come.
fn make<'w>(options: &Options, watch: &'w mut dyn Watch) -> Result<Recorder<'w>, Error> {
    // Where there are two traces, both are below the recording's directory.
    let inside = if options.kernel.is_none() && options.profile.is_none() { "" } else { PROCESSES };
    let mut directory = Directory::make(&options.output, inside, &options.streams)?;
    let source = Source::choose(options.clock).source;
    let shared = Arc::new(Shared::default());
    let (sizes, online) = setup::rings(options, source)?;
    let session_area = SessionArea::new(options.kernel.is_some());
    let places = Arc::new(Places::new(session_area.clone()));
    let (areas, layout) = GroupAreas::new(shared.clone(), places.clone())?;
    let asked = Arc::new(Mutex::new(Asked::new(places)));
    let settings = settings(options, sizes, layout, &session_area)?;
    let session = Session::new(settings).map_err(|(path, why)| Error::Object(path, why))?;
    let rings = Rings::new(session.first_rings().unwrap_or(sizes), online, shared.clone())?;
    let clock = Clock::new(source);
    let frame = setup::frame(options, source, &clock.samples.first());
    let cooperation = Cooperation::new(session_area.clone(), options.kernel.is_some());
    check(options, &session)?;
    let options = cooperation::with_slow_calls(setup::with_room(options, sizes), session.filters());
    directory.note(&Fact::Session(setup::session(&options, &frame, sizes, clock.samples.frequency())));
    let made = match &options.kernel {
        Some(wanted) => Some(kernel::make(wanted, &options, (&directory, &frame), &session_area, watch)?),
        None => None,
    };
    let profile = match &options.profile {
        Some(wanted) => Some(Profile::make(wanted, &options, (&directory, &frame), &asked)?),
        None => None,
    };
    let profile = profile.map(|(profile, said)| {
        said.iter().for_each(|text| watch.say(text));
        profile
    });
    let hardware = options.hardware.as_ref().map(|wanted| Hardware::make(&directory, wanted, asked.clone()));
    let hardware = hardware.transpose()?;
    let beside = Beside { recording: directory.path().to_owned(), parent: directory.parent().clone() };
    let state = Arc::new(TraceState::default());
    let context = Context { sink: directory.sink(), uuid: frame.uuid, clock: source };
    let (cpus, mode) = (options::cpus(), options.mode);
    let reports = (options.stack > 0).then(Arc::<Reports>::default);
    let stacks = reports.clone().map(StacksOf::Processes);
    let processes = Destination { state: state.clone(), context, home: "", inside, cpus, mode, stacks };
    let of_kernel = made
        .as_ref()
        .zip(options.kernel.as_ref())
        .map(|(made, wanted)| (made.destination(cpus, mode, wanted.stacks), made.tracer.channel().clone()));
    let trace = Trace::new(directory, frame, options.ctf, state);
    let task = Task { beside, processes, kernel: of_kernel, shared: shared.clone(), session_area };
    let consumer = ConsumerThread::start(task);
    let consumer = consumer.map_err(|why| Error::Loop { what: "start the consumer", why })?;
    let kernel = options.kernel.clone().zip(made).map(|(wanted, made)| Kernel::new(wanted, made));
    let owner = owner(&options);
    Ok(Recorder {
        consumer,
        session,
        performs: false,
        clock,
        ways_in: None,
        peers: Peers::new(),
        memory: GroupMemory::new(rings, areas),
        requests: Requests::default(),
        subjects: Subjects::default(),
        kernel: KernelSide::new(kernel, cooperation),
        profile,
        sampled: Sampled::of(&options, asked),
        hardware,
        output: Output::new(trace, owner, reports),
        screen: Screen::new(watch, &options),
        outcome: Outcome::default(),
        options,
    })
}

/// The same with what is told of samples besides them, where rules ask for samples of functions.
fn with_facts_of_samples(options: &Options) -> Options {
    let mut options = options.clone();
    if !options.asked_functions().is_empty() {
        options.rules.push(Rule::record(&format!("{SAMPLING_PROVIDER}:*")));
    }
    options
}

/// Whose the recording is to be.
fn owner(options: &Options) -> Owner {
    let mut owner = Owner::of(options.owner, options.attach.is_empty());
    if options.kernel.as_ref().is_some_and(|kernel| kernel.all) {
        owner.note_all();
    }
    if options.hardware.as_ref().is_some_and(|hardware| hardware.all) {
        owner.note_all_code();
    }
    owner
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
        keeps_last_packets: Hardware::keeps_last(options),
        is_profiled: options.profile.is_some(),
        functions: options.asked_functions(),
        has_kernel: options.kernel.is_some(),
        own: principal::trust().own(),
        descriptors: setup::descriptors(),
        rings,
        many_groups: principal::may_record_others(),
        layout,
        names: session_area.names().clone(),
    })
}

/// Why nothing gets probes.
const NO_PROCESS: &str = "they get probes in a command and in the processes of -p; give one of them";

/// Whether the rules fit this kind of recording.
fn check(options: &Options, session: &Session) -> Result<(), Error> {
    let snapshots = |kernel: &options::KernelOptions| kernel.rules.iter().any(Rule::snapshots);
    let filters = session.filters();
    if (filters.snapshots() || options.kernel.as_ref().is_some_and(snapshots))
        && options.mode != Mode::Overwrite
    {
        return Err(Error::Rule(NO_SNAPSHOTS));
    }
    let packets = |kernel: &options::KernelOptions| kernel.rules.iter().any(Rule::snapshots_packets);
    if (filters.snapshots_packets() || options.kernel.as_ref().is_some_and(packets))
        && !Hardware::keeps_last(options)
    {
        return Err(Error::Rule(NO_PACKETS));
    }
    let profiles = |kernel: &options::KernelOptions| kernel.rules.iter().any(Rule::profiles);
    if (filters.profiles() || options.kernel.as_ref().is_some_and(profiles)) && options.profile.is_none() {
        return Err(Error::Rule(NO_PROFILE));
    }
    if filters.asks_kernel() && options.kernel.is_none() {
        return Err(Error::Rule(NEEDS_KERNEL));
    }
    if !options.yields() {
        return Err(Error::Rule(NO_EVENT));
    }
    if options.has_functions() && options.command.is_empty() && options.attach.is_empty() {
        return Err(Error::Functions(NO_PROCESS.to_owned()));
    }
    Ok(())
}

/// Starts the command. What is recorded of the kernel is on by then.
fn start(
    recorder: &Recorder<'_>,
    listeners: &Listeners,
    signals: &Signals,
    is_held: bool,
) -> Result<Option<Command>, Error> {
    let (session_area, options) = (&recorder.kernel.cooperation.session_area, &recorder.options);
    if options.command.is_empty() {
        options.attach.first().into_iter().for_each(|pid| session_area.set_target(pid.unsigned_abs()));
        return Ok(None);
    }
    let variable = listeners.variable()?;
    let launching = recorder.kernel.get().map(|kernel| kernel.tracer.launching()).transpose();
    let _launching = launching.map_err(|why| Error::Kernel(why.to_string()))?;
    let (variable, words) = ((variable.0, variable.1.as_str()), &options.command);
    let command = match is_held {
        // What holds it is a program of ours, which is not to be in the session, and would be all that is recorded.
        true if !words.first().is_some_and(is_program) => {
            let name = words.first().cloned().unwrap_or_default();
            return Err(Error::Command(name.to_string_lossy().into_owned(), ErrorKind::NotFound.into()));
        }
        true => Command::start(&functions::held(words, variable)?, (variable.0, ""), signals)?,
        false => Command::start(words, variable, signals)?,
    };
    session_area.set_target(command.id());
    Ok(Some(command))
}

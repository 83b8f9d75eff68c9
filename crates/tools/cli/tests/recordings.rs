//! Several recordings in one event loop, in one thread.
//!
//! The recorded program is this one: started with a word of [`ROLE`] in its environment, [`plays_a_program`] records
//! events.

use mote_ctf::Schema;
use mote_daemon::command::Signals;
use mote_daemon::options::{CallsAre, Memory, Mode, Streams};
use mote_daemon::{Buffers, Ctf, Options, Progress, Recorded, Recording, Watch, wait};
use mote_filter::Rule;
use mote_timeline::{Entry, Part, Range, Storage, Trace};
use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the program that is recorded does: how many events it records; or the path of a file until which it does.
const ROLE: &str = "MOTE_RECORDINGS_ROLE";
/// Events of the program that counts.
const COUNT: u64 = 1000;
/// No step of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

mote::tracepoint! {
    /// Told once a round.
    beat in recordings(Info) { number: u64 }
}

#[test]
fn plays_a_program() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.parse::<u64>() {
        Ok(count) => (0..count).for_each(|number| mote::emit!(beat, number)),
        Err(_) => {
            let mut number = 0_u64;
            while !Path::new(&role).exists() {
                mote::emit!(beat, number);
                number += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// What a recording has told.
#[derive(Default)]
struct Told {
    events: u64,
    begun: u32,
    said: Vec<String>,
}

impl Watch for Told {
    fn begun(&mut self, _directory: &Path) {
        self.begun += 1;
    }

    fn progress(&mut self, progress: &Progress) {
        self.events = progress.events;
    }

    fn aggregates(&mut self, text: &str) {
        self.say(text);
    }

    fn say(&mut self, text: &str) {
        self.said.push(text.to_owned());
    }
}

/// A directory of this test's, removed with all that is in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = env::temp_dir().join(format!("mote-recordings-{name}-{}", std::process::id()));
        fs::create_dir(&place).expect("a directory");
        Place(place)
    }

    /// What to record of this program with this role, and where to.
    fn options(&self, output: &str, role: &str) -> Options {
        let program = env::current_exe().expect("a path");
        let role = format!("{ROLE}={role}");
        let words: [OsString; 6] = [
            "env".into(),
            role.into(),
            program.into(),
            "--exact".into(),
            "--quiet".into(),
            "plays_a_program".into(),
        ];
        Options {
            output: self.0.join(output),
            streams: Streams::Files,
            rules: vec![Rule::record("recordings:*")],
            objects: Vec::new(),
            keeps_on_fault: false,
            interval: None,
            columns: 100,
            exclude: Vec::new(),
            buffers: Buffers { sub_bits: 16, count_bits: 4 },
            mode: Mode::Discard,
            ctf: Ctf::V1_8,
            duration: None,
            clock: None,
            stack: 0,
            kernel: None,
            profile: None,
            hardware: None,
            owner: None,
            attach: Vec::new(),
            functions: Vec::new(),
            under: Vec::new(),
            probe_lists: Vec::new(),
            calls: CallsAre::Recorded,
            sampling: None,
            command: words.to_vec(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One round of the loop for all of them.
fn serve(recordings: &mut [&mut Recording<'_>], signals: &Signals) {
    let mut polled: Vec<libc::pollfd> = recordings.iter().flat_map(|one| one.polled()).collect();
    polled.push(signals.polled());
    let patience = recordings.iter().map(|one| one.patience()).min().unwrap_or_default();
    let ready: HashSet<i32> = wait(&mut polled, patience).expect("poll(2)");
    while signals.next().is_some() {}
    recordings.iter_mut().for_each(|one| one.serve(&ready));
}

/// Serves a recording until it has ended.
fn serve_until_ended(recording: &mut Recording<'_>, signals: &Signals) -> Recorded {
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "the recording does not end");
        serve(&mut [recording], signals);
        if let Some(ended) = recording.ended() {
            return ended.expect("recorded");
        }
    }
}

/// The numbers in a recording, in the order of time.
fn numbers(trace: &Trace) -> Vec<u64> {
    let mut events = trace.events(Range::ALL);
    let mut numbers = Vec::new();
    while let Some(entry) = events.next() {
        let Entry::Event(record) = entry else { panic!("something is lost") };
        assert_eq!(record.name(), "recordings:beat");
        let event = record.event().expect("whole");
        let number = event.payload().integer("number").expect("a number");
        numbers.push(u64::try_from(number).expect("as it was"));
    }
    assert!(events.problems().is_empty(), "{:?}", events.problems().list());
    numbers
}

/// The numbers in the directory of a recording.
fn numbers_in(recorded: &Recorded) -> Vec<u64> {
    numbers(&Trace::open(&recorded.directory).expect("a recording"))
}

/// The trace of the processes in memory.
fn trace_in(memory: &Memory) -> Trace {
    let schema = Schema::parse(memory.metadata("ust").as_bytes()).expect("metadata");
    let storage = |(name, bytes): (String, Vec<u8>)| {
        let bytes: Arc<[u8]> = bytes.into();
        (PathBuf::from(name), Box::new(bytes) as Box<dyn Storage>)
    };
    let streams = memory.streams("ust").into_iter().map(storage).collect();
    Trace::of(vec![Part { dir: PathBuf::from("ust"), schema, facts: None, streams }])
}

/// Two recordings are served by one thread. One ends with its command, while the other goes on; that one is ended by
/// the embedder, and does not keep the loop while it waits for its command.
#[test]
fn two_are_served_in_one_loop_and_end_at_different_times() {
    let place = Place::new("two");
    let stop = place.0.join("stop");
    let signals = Signals::catch().expect("signals");
    let (mut told_of_counting, mut told_of_beating) = (Told::default(), Told::default());
    let (counting_options, beating_options) = (
        place.options("counting", &COUNT.to_string()),
        place.options("beating", stop.to_str().expect("text")),
    );
    let mut beating = Recording::begin(&beating_options, &signals, &mut told_of_beating).expect("it begins");
    let mut counting =
        Recording::begin(&counting_options, &signals, &mut told_of_counting).expect("it begins");
    let until = Instant::now() + PATIENCE;
    let counted = loop {
        assert!(Instant::now() < until, "the first one does not end");
        serve(&mut [&mut counting, &mut beating], &signals);
        if let Some(ended) = counting.ended() {
            break ended.expect("recorded");
        }
    };
    assert!(counting.ended().is_none(), "what it came to is given once");
    assert!(beating.is_recording() && beating.ended().is_none(), "the other one goes on");
    // It goes on for a while, with the first one still there, which has nothing more to serve.
    let more = Instant::now() + Duration::from_millis(300);
    while Instant::now() < more {
        serve(&mut [&mut counting, &mut beating], &signals);
    }
    drop(counting);
    assert_eq!(numbers_in(&counted), (0..COUNT).collect::<Vec<u64>>());
    assert_eq!((counted.summary.status, counted.summary.total()), (Some(0), COUNT));

    beating.end();
    beating.end();
    assert!(!beating.is_recording());
    // Its command runs on: the loop has its turn all the time.
    for _ in 0..50 {
        serve(&mut [&mut beating], &signals);
        assert!(beating.ended().is_none(), "its command runs");
    }
    fs::write(&stop, "").expect("a file");
    let beaten = serve_until_ended(&mut beating, &signals);
    drop(beating);
    let numbers = numbers_in(&beaten);
    assert!(!numbers.is_empty() && numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    assert_eq!((beaten.summary.status, beaten.summary.total()), (Some(0), numbers.len() as u64));
    assert!(beaten.problems.is_empty() && counted.problems.is_empty(), "{beaten:?} {counted:?}");
    assert_eq!((told_of_counting.begun, told_of_beating.begun), (1, 1));
    let waits = |said: &String| said.contains("waiting for the command to end");
    assert_eq!(told_of_beating.said.iter().filter(|said| waits(said)).count(), 1);
}

/// A process that runs already is looked at from round to round, and the recording begins with it.
#[test]
fn a_running_process_is_recorded_until_it_ends() {
    let place = Place::new("running");
    let stop = place.0.join("stop");
    let program = env::current_exe().expect("a path");
    let mut running = Command::new(program);
    running.args(["--exact", "--quiet", "plays_a_program"]).env(ROLE, &stop).stdout(Stdio::null());
    let mut running = running.spawn().expect("it starts");
    let (signals, mut told) = (Signals::catch().expect("signals"), Told::default());
    let options = Options {
        attach: vec![running.id().cast_signed()],
        command: Vec::new(),
        ..place.options("attached", "")
    };
    let mut recording = Recording::begin(&options, &signals, &mut told).expect("it begins");
    let more = Instant::now() + Duration::from_millis(500);
    while Instant::now() < more {
        serve(&mut [&mut recording], &signals);
        assert!(recording.is_recording() && recording.ended().is_none(), "the process runs");
    }
    fs::write(&stop, "").expect("a file");
    let recorded = serve_until_ended(&mut recording, &signals);
    drop(recording);
    assert!(running.wait().expect("a child").success());
    let numbers = numbers_in(&recorded);
    assert!(!numbers.is_empty() && numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
    assert_eq!((told.begun, recorded.problems.len()), (1, 0), "{recorded:?}");
}

/// What is only known when a process was looked at is said at the end, and nothing is left of the recording.
#[test]
fn a_process_that_carries_no_events_ends_the_recording_before_it_begins() {
    let place = Place::new("empty");
    let mut sleeps = Command::new("sleep").arg("600").spawn().expect("every machine has it");
    let (signals, mut told) = (Signals::catch().expect("signals"), Told::default());
    let options = Options {
        attach: vec![sleeps.id().cast_signed()],
        command: Vec::new(),
        ..place.options("nothing", "")
    };
    let until = Instant::now() + PATIENCE;
    let why = Recording::begin(&options, &signals, &mut told).and_then(|mut recording| {
        loop {
            assert!(Instant::now() < until, "it goes on");
            serve(&mut [&mut recording], &signals);
            if let Some(ended) = recording.ended() {
                assert!(!recording.is_recording() && recording.ended().is_none(), "it is said once");
                break ended;
            }
        }
    });
    sleeps.kill().and_then(|()| sleeps.wait()).expect("a child");
    let why = why.expect_err("nothing can be recorded").to_string();
    assert!(why.contains(&sleeps.id().to_string()), "{why}");
    assert_eq!(told.begun, 0);
    assert!(!options.output.exists(), "a recording is left");
}

#[test]
fn events_can_be_kept_in_memory() {
    let place = Place::new("memory");
    let (signals, memory, mut told) =
        (Signals::catch().expect("signals"), Memory::of(1 << 20), Told::default());
    let options =
        Options { streams: Streams::Memory(memory.clone()), ..place.options("counting", &COUNT.to_string()) };
    let mut recording = Recording::begin(&options, &signals, &mut told).expect("it begins");
    let recorded = serve_until_ended(&mut recording, &signals);
    drop(recording);
    assert_eq!((recorded.summary.total(), recorded.problems.len()), (COUNT, 0), "{recorded:?}");
    assert_eq!(numbers(&trace_in(&memory)), (0..COUNT).collect::<Vec<u64>>());
    let is_stream = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("cpu_");
    let mut files = fs::read_dir(&recorded.directory).expect("a directory").flatten();
    assert!(!files.any(|entry| is_stream(&entry)), "it is on disk, too");
}

/// As with a full disk: what is there is whole, and the recording stops.
#[test]
fn a_recording_stops_when_its_memory_is_full() {
    let place = Place::new("full");
    let stop = place.0.join("stop");
    let (signals, memory, mut told) =
        (Signals::catch().expect("signals"), Memory::of(4 << 10), Told::default());
    let options = Options {
        streams: Streams::Memory(memory.clone()),
        ..place.options("beating", stop.to_str().expect("text"))
    };
    let mut recording = Recording::begin(&options, &signals, &mut told).expect("it begins");
    let until = Instant::now() + PATIENCE;
    while recording.is_recording() {
        assert!(Instant::now() < until, "it goes on");
        serve(&mut [&mut recording], &signals);
    }
    fs::write(&stop, "").expect("a file");
    let recorded = serve_until_ended(&mut recording, &signals);
    drop(recording);
    let why = recorded.summary.stopped.clone().unwrap_or_default();
    assert!(why.contains("No space left") || why.contains("ENOSPC") || why.contains("28"), "{why}");
    let numbers = numbers(&trace_in(&memory));
    // The program may have moved to another CPU, whose smaller packet had room where the one before had none.
    assert!(!numbers.is_empty() && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert_eq!(recorded.summary.total(), numbers.len() as u64);
}

//! A hardware trace beside events, on a machine that has none: the ring of a simulated one is recorded into a
//! recording, which the verbs then read.
//!
//! No command line leads to a simulated machine: it is this test that gives it to the recorder. The recorded program is
//! this one: with [`ROLE`] in its environment it records events. It is also what `mote` is for the recorder, where that
//! starts a command which waits; so it has a `main` of its own.

mod snapshots;

use mote_clock::{Sample, Source};
use mote_daemon::options::{CallsAre, Mode, Streams};
use mote_daemon::{Buffers, Ctf, HardwareOptions, Options, Progress, Recorded, Watch};
use mote_filter::Rule;
use mote_perfdata::record::{EXECUTABLE, File as Which, Lifetime, Mmap, Mode as Of, Task, aux};
use mote_perfdata::{Attribute, Record, SampleId};
use mote_pmu::simulated::{Simulated, Step};
use mote_pmu::{AnyMachine, Device, Kept, Machine, Settings, Targets, TimeScale};
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Encoder, Packet, Tnt};
use mote_symbol::Image;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use serde_json::Value;
use std::env;
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the program that is recorded does: how many events it records; and how many milliseconds pass before each.
const ROLE: &str = "MOTE_HARDWARE_TRACE_ROLE";
const PAUSE: &str = "MOTE_HARDWARE_TRACE_PAUSE";
const EVENTS: u64 = 3;
/// How often the code that is traced is executed, by each of two threads.
const VISITS: u64 = 10;
/// Ticks between two of them.
const APART: u64 = 10_000;

/// `work` calls `leaf` twice.
const CODE: &str = "
    .globl _start, work, leaf
    .text
_start: call work
    syscall
    .size _start, . - _start
    .type work, @function
work: call leaf
    call leaf
    ret
    .size work, . - work
    .type leaf, @function
leaf: ret
    .size leaf, . - leaf
";

mote::tracepoint! {
    /// Told once a round.
    beat in hardware_trace(Info) { number: u64 }
}

fn main() -> ExitCode {
    if let Ok(count) = env::var(ROLE) {
        let pause = env::var(PAUSE).map_or(0, |pause| pause.parse().expect("a number"));
        for number in 0..count.parse().expect("a number") {
            std::thread::sleep(Duration::from_millis(pause));
            mote::emit!(beat, number);
        }
        return ExitCode::SUCCESS;
    }
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == mote_daemon::HOLD) {
        panic!("{}", Command::new(MOTE).args(words).exec());
    }
    // As the harness of other tests is asked by tools.
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    if env::var_os("MOTE_FIGURES").is_some() {
        snapshots::figures();
        return ExitCode::SUCCESS;
    }
    for clock in [Source::Tsc, Source::Monotonic] {
        calls_lie_among_events(clock);
    }
    what_is_lost_is_said();
    what_cannot_be_recorded_leaves_nothing();
    snapshots::the_packets_before_an_event_are_kept();
    snapshots::what_is_not_kept_is_said();
    snapshots::rules_need_a_trace();
    // As other programs of tests say it.
    println!("test result: ok. 7 passed; 0 failed");
    ExitCode::SUCCESS
}

const MOTE: &str = env!("CARGO_BIN_EXE_mote");

/// A machine whose clocks are those of this one, and where time passes.
struct Here(Simulated);

impl Machine for Here {
    fn open(&mut self, attribute: &Attribute, thread: i32, cpu: i32) -> Result<Fd, Errno> {
        self.0.open(attribute, thread, cpu)
    }

    fn send_to(&mut self, event: &Fd, other: &Fd) -> Result<(), Errno> {
        self.0.send_to(event, other)
    }

    fn filter(&mut self, event: &Fd, filter: &CStr) -> Result<(), Errno> {
        self.0.filter(event, filter)
    }

    fn enable(&mut self, event: &Fd) -> Result<(), Errno> {
        self.0.enable(event)
    }

    fn disable(&mut self, event: &Fd) -> Result<(), Errno> {
        self.0.disable(event)
    }

    fn wait(&mut self, time: Duration) {
        std::thread::sleep(time);
        self.0.wait(time);
    }

    fn clocks(&self) -> Option<Sample> {
        Some(Sample::take(Source::Tsc))
    }
}

/// When packets were written, and of which process.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Sample,
    pid: i32,
}

/// What happens on CPU 0 of the machine: two threads of the process take turns, in the middle of calls. Whether packets
/// are lost then, too.
fn steps(program: &Path, Begun { at, pid }: Begun, is_lossy: bool) -> Vec<Step> {
    let mmap = mapping(program, Task { pid, tid: pid });
    let threads = [0, 1].map(|number| Task { pid, tid: pid + number });
    let id =
        |task, time| SampleId { task: Some(task), time: Some(time), id: Some(1), stream: None, cpu: Some(0) };
    let switch = |is_out| Record::Switch { is_out, is_preempted: false, other: None };
    let fork = Lifetime { task: threads[1], parent: threads[0], time: at.ticks };
    let mut steps = vec![
        Step::Record(0, Record::Mmap(mmap), id(threads[0], at.ticks)),
        Step::Record(0, Record::Fork(fork), id(threads[0], at.ticks)),
        Step::Record(0, Record::ItraceStart(threads[0]), id(threads[0], at.ticks)),
    ];
    let (start, work) = (place(program, "_start"), place(program, "work"));
    for number in 0..2 * VISITS {
        let task = threads[(number % 2) as usize];
        let time = at.ticks + (number + 1) * APART;
        // A thread is interrupted between the two calls of `leaf`, and goes on there when it has the CPU again.
        let is_first = number / 2 % 2 == 0;
        let packets =
            if is_first { visit(time, start, None) } else { visit(time, work + 5, Some(start + 5)) };
        steps.push(Step::Packets(0, packets));
        steps.push(Step::Record(0, switch(false), id(task, time + 5)));
        steps.push(Step::Flags(0, if is_lossy { aux::PARTIAL } else { 0 }));
        steps.push(Step::Record(0, switch(true), id(task, time + APART / 2)));
    }
    steps
}

/// The address of a function.
fn place(program: &Path, name: &str) -> u64 {
    let image = Image::open(program).expect("a program");
    image.table.iter().find(|symbol| symbol.name == name).expect("a symbol").address
}

/// The program's code, as it is mapped.
fn mapping(program: &Path, task: Task) -> Mmap {
    let image = Image::open(program).expect("a program");
    let code = image.segments.iter().find(|segment| segment.executable).expect("code");
    Mmap {
        task,
        mode: Of::User,
        start: code.address,
        len: code.len.next_multiple_of(4096),
        offset: code.offset,
        file: Which::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
        protection: EXECUTABLE,
        flags: 2,
        path: program.to_owned(),
    }
}

/// Packets of a visit: when, and where it begins. There `leaf` is called, which returns; then `work` returns to an
/// address, or is interrupted.
fn visit(time: u64, from: u64, returns_to: Option<u64>) -> Vec<u8> {
    let ip = |compression, bits| Ip { compression, bits };
    // The processor knows its calls since the last PSB: to these returns are compressed.
    let returns = Packet::Tnt(Tnt { bits: 1, count: 1, is_long: false });
    let then = match returns_to {
        Some(address) => Packet::Tip(ip(Compression::Full, address)),
        None => Packet::Fup(ip(Compression::Full, from + WORK_FROM_START)),
    };
    let packets = [
        Packet::Psb,
        Packet::Tsc(time & (u64::MAX >> 8)),
        Packet::PsbEnd,
        Packet::TipPge(ip(Compression::Full, from)),
        returns,
        then,
        Packet::TipPgd(ip(Compression::Suppressed, 0)),
    ];
    let mut encoder = Encoder::new();
    for packet in packets {
        let _ = encoder.push(packet).expect("a packet");
    }
    encoder.bytes().to_vec()
}

/// From `_start` to what is behind the first call of `work`: a call and a system call, and a call.
const WORK_FROM_START: u64 = 5 + 2 + 5;

/// What the recorder says.
#[derive(Default)]
struct Said(Vec<String>);

impl Watch for Said {
    fn progress(&mut self, _: &Progress) {}

    fn aggregates(&mut self, _: &str) {}

    fn say(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

/// A recording of this program, and of code that the machine says it has executed.
struct Recording {
    place: tempfile::TempDir,
    begun: Begun,
    recorded: Recorded,
}

impl Recording {
    fn dir(&self) -> PathBuf {
        self.place.path().join("trace")
    }

    fn of(name: &str, clock: Source, is_lossy: bool) -> Option<Recording> {
        let place = tempfile::Builder::new().prefix(name).tempdir().expect("a directory");
        let program = assemble(place.path())?;
        let begun: Arc<Mutex<Option<Begun>>> = Arc::default();
        let told = begun.clone();
        let machine = move |targets: &Targets| -> AnyMachine {
            let Targets::Command(pid) = *targets else { panic!("{targets:?}") };
            let begun = Begun { at: Sample::take(Source::Tsc), pid };
            *told.lock().expect("nobody else has it") = Some(begun);
            let clock = TimeScale { shift: 0, mult: 1, zero: 0 };
            Box::new(Here(Simulated::new(8, clock, steps(&program, begun, is_lossy))))
        };
        let options = options(place.path(), clock, Arc::new(machine));
        let mut said = Said::default();
        let recorded =
            mote_daemon::record(&options, &mut said).unwrap_or_else(|why| panic!("{why}: {:?}", said.0));
        let begun = begun.lock().expect("nobody else has it").expect("it was asked for a machine");
        Some(Recording { place, begun, recorded })
    }
}

fn assemble(place: &Path) -> Option<PathBuf> {
    let (source, program) = (place.join("code.s"), place.join("code"));
    fs::write(&source, CODE).expect("a file");
    let built = Command::new("cc").args(["-nostdlib", "-static", "-o"]).args([&program, &source]).status();
    match built {
        Ok(status) => assert!(status.success(), "{CODE}"),
        Err(_) => {
            mote_skip::skip("hardware trace beside events: there is no C compiler");
            return None;
        }
    }
    Some(program)
}

fn options(
    place: &Path,
    clock: Source,
    machine: Arc<dyn Fn(&Targets) -> AnyMachine + Send + Sync>,
) -> Options {
    let program = env::current_exe().expect("a path");
    Options {
        stack: 0,
        output: place.join("trace"),
        streams: Streams::Files,
        rules: vec![Rule::record("hardware_trace:*")],
        objects: Vec::new(),
        keeps_on_fault: false,
        interval: None,
        columns: 100,
        exclude: Vec::new(),
        buffers: Buffers { sub_bits: 16, count_bits: 4 },
        mode: Mode::Discard,
        ctf: Ctf::V1_8,
        duration: None,
        clock: Some(clock),
        kernel: None,
        profile: None,
        hardware: Some(HardwareOptions {
            device: device(place),
            settings: Settings::default(),
            memory: 64 << 10,
            kept: Kept::All,
            filter: None,
            jit: false,
            cpus: vec![0],
            all: false,
            machine,
        }),
        owner: None,
        attach: Vec::new(),
        functions: Vec::new(),
        under: Vec::new(),
        probe_lists: Vec::new(),
        calls: CallsAre::Recorded,
        sampling: None,
        command: ["env".into(), format!("{ROLE}={EVENTS}").into(), program.into()].to_vec(),
    }
}

/// Intel PT with TSC packets, number 8.
fn device(place: &Path) -> Device {
    let folder = place.join("device");
    fs::create_dir_all(folder.join("format")).expect("a directory");
    fs::write(folder.join("type"), "8").expect("a file");
    fs::write(folder.join("format/tsc"), "config:10").expect("a file");
    Device::read(&folder).expect("a device")
}

/// What `mote` prints, with its exit status.
fn run(words: &[&OsStr]) -> (String, String, Option<i32>) {
    let done = Command::new(MOTE).args(words).stdin(Stdio::null()).output().expect("mote runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(done.stdout), text(done.stderr), done.status.code())
}

fn mote(words: &[&str], dir: &Path) -> String {
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).chain([dir.as_os_str()]).collect();
    let (printed, said, status) = run(&words);
    assert_eq!(status, Some(0), "{words:?}: {said}");
    printed
}

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn calls_lie_among_events(clock: Source) {
    let Some(recording) = Recording::of("calls", clock, false) else { return };
    let dir = recording.dir();
    let Recorded { hardware, problems, summary, .. } = &recording.recorded;
    assert_eq!((problems.as_slice(), summary.status), ([].as_slice(), Some(0)), "{clock:?}");
    assert!(
        hardware.as_ref().is_some_and(|hardware| hardware.summary.bytes > 0 && !hardware.summary.has_lost())
    );
    let journal = fs::read_to_string(dir.join("mote/journal.jsonl")).expect("a journal");
    assert!(journal.contains(r#"{"fact":"hardware","directory":"pt"}"#), "{journal}");
    merged(&recording, clock);
    other_verbs(&dir);
}

/// The events that `mote view` shows.
fn merged(recording: &Recording, clock: Source) {
    let (dir, Begun { at, pid }) = (recording.dir(), recording.begun);
    let alone = json(&mote(&["view", "--format", "json"], &dir));
    assert_eq!(alone.len() as u64, EVENTS, "the hardware trace is shown where that is asked for");
    let all = json(&mote(&["view", "--pt", "--format", "json"], &dir));
    let times: Vec<i64> = all.iter().map(|event| event["time"].as_i64().expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    // Packets were written before the program began.
    assert_eq!(all[all.len() - EVENTS as usize..], alone[..], "{clock:?}");
    for (number, tid) in [pid, pid + 1].into_iter().enumerate() {
        let of = |name: &str| {
            let is_it = |event: &&Value| event["event"] == name && event["tid"] == tid && event["pid"] == pid;
            all.iter().filter(is_it).collect::<Vec<_>>()
        };
        assert_eq!(of("f:leaf").len() as u64, VISITS, "{tid}: {all:?}");
        let works = of("f:work");
        assert_eq!(works.len() as u64, VISITS / 2, "{tid}: {all:?}");
        let per_tick = 1e9 / hz();
        for (turn, work) in works.into_iter().enumerate() {
            // It has begun in one visit, and ended in the next one of its thread.
            let duration = work["fields"]["duration"].as_f64().expect("a duration");
            assert!((duration / (2.0 * APART as f64 * per_tick) - 1.0).abs() < 0.01, "{work}");
            let ticks = (4 * turn + 3 + number) as f64 * APART as f64;
            let expected = at.realtime_ns as f64 + ticks * per_tick;
            let time = work["time"].as_f64().expect("a time");
            assert!((time - expected).abs() < 1e6, "{clock:?} {work}: {expected}");
        }
    }
}

/// Ticks of the counter in a second.
fn hz() -> f64 {
    let [first, last] = mote_clock::quick_pair(Source::Tsc, 20_000_000);
    mote_clock::frequency_hz(&first, &last).expect("a frequency") as f64
}

fn other_verbs(dir: &Path) {
    let calls = json(&mote(&["pt", "calls", "--format", "json"], dir));
    let count =
        |name: &str| calls.iter().find(|call| call["function"] == name).map(|call| call["calls"].clone());
    assert_eq!((count("work"), count("leaf")), (Some(VISITS.into()), Some((2 * VISITS).into())), "{calls:?}");
    let checked = json(&mote(&["pt", "check", "--format", "json"], dir));
    assert!(checked[0]["gap_count"] == 0 && checked[0]["damaged"] == 0, "{checked:?}");
    let dumped = mote(&["pt", "dump"], dir);
    assert!(dumped.contains("PSB") && dumped.contains("TIP.PGE"), "{dumped}");
    assert!(mote(&["pt", "flow", "--function", "leaf"], dir).contains("leaf"));
    mote(&["pt", "stats"], dir);
    let graph = json(&mote(&["pt", "calls", "--graph", "--format", "json"], dir));
    assert_eq!(graph.len() as u64, 3 * VISITS);
    let functions = mote(&["functions", "--pt", "--format", "json", "-i"], dir);
    let functions: Value = serde_json::from_str(&functions).expect("JSON");
    assert_eq!(functions["functions"].as_array().map(Vec::len), Some(2), "{functions}");
    let folded = mote(&["export", "--pt", "--to", "folded"], dir);
    // A call of `leaf` is a return: it takes no time of its own.
    assert!(folded.contains(";work "), "{folded}");
    // Written into the recording, calls are among its events by themselves.
    let inside = dir.join("calls");
    mote(&["pt", "calls", "-o", inside.to_str().expect("a path")], dir);
    let events =
        |flag: &[&str]| json(&mote(&[&["view", "--format", "json"], flag].concat(), dir)).len() as u64;
    assert_eq!([events(&[]), events(&["--pt"])], [3 * VISITS + EVENTS; 2]);
}

/// The rest of the recording is valid, and everything says what is missing.
fn what_is_lost_is_said() {
    let Some(recording) = Recording::of("lossy", Source::Tsc, true) else { return };
    let Recorded { problems, .. } = &recording.recorded;
    assert!(problems.iter().any(|text| text.starts_with("hardware trace: ")), "{problems:?}");
    assert_eq!(json(&mote(&["view", "--format", "json"], &recording.dir())).len() as u64, EVENTS);
    let journal = fs::read_to_string(recording.dir().join("mote/journal.jsonl")).expect("a journal");
    assert!(journal.contains("hardware trace: "), "{journal}");
    let sideband = fs::read_to_string(recording.dir().join("pt/sideband.jsonl")).expect("notes");
    assert!(sideband.contains(r#""kind":"lost""#), "{sideband}");
}

fn what_cannot_be_recorded_leaves_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let machine = |_: &Targets| -> AnyMachine {
        let mut machine = Simulated::new(8, TimeScale { shift: 0, mult: 1, zero: 0 }, []);
        machine.refusal = Some(Errno(libc::EACCES));
        Box::new(Here(machine))
    };
    let options = options(place.path(), Source::Tsc, Arc::new(machine));
    let why = mote_daemon::record(&options, &mut Said::default()).expect_err("it is not allowed").to_string();
    assert!(why.contains("cannot record the hardware trace") && why.contains("perf_event_paranoid"), "{why}");
    assert!(!options.output.exists(), "nothing is left of it");
    // On a machine without, the command says what `mote pt record` says.
    if Path::new(mote_pmu::device::FOLDER).exists() {
        return mote_skip::skip("this machine has Intel PT");
    }
    let output = place.path().join("none");
    let words = |verb: &[&str]| -> Vec<OsString> {
        let end = ["-o".as_ref(), output.as_os_str(), "--".as_ref(), "true".as_ref()];
        verb.iter().map(OsString::from).chain(end.map(OsStr::to_owned)).collect()
    };
    let said = |verb: &[&str]| {
        let words = words(verb);
        let (_, said, status) = run(&words.iter().map(OsString::as_os_str).collect::<Vec<_>>());
        assert_eq!((status, output.exists()), (Some(2), false), "{said}");
        said
    };
    let beside = said(&["record", "--pt"]);
    assert_eq!(beside, said(&["pt", "record"]));
    assert!(beside.contains("Broadwell") && beside.contains("mote pt synth"), "{beside}");
}

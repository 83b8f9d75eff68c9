//! The packets before an event, kept because a rule asks for them: on a machine whose processors write packets all the
//! time, over those before.

use super::*;

/// A processor executes the code once in so many nanoseconds, and writes a PSB each time.
const PERIOD_NS: u64 = 100_000;
/// Bytes of memory of each CPU: about 100 ms.
const MEMORY: usize = 64 << 10;
/// How long before an event.
const WANTED_NS: u64 = 5_000_000;

/// A machine where time passes, and each CPU executes the code up to now.
struct Live {
    machine: Simulated,
    program: PathBuf,
    cpus: u32,
    begun: Begun,
    hz: f64,
    visits: u64,
}

impl Live {
    fn new(program: &Path, begun: Begun, cpus: u32) -> Live {
        let mut machine = Simulated::new(8, TimeScale { shift: 0, mult: 1, zero: 0 }, []);
        machine.overwrites = true;
        Live { machine, program: program.to_owned(), cpus, begun, hz: hz(), visits: 0 }
    }

    /// When a visit begins, as the time stamp counter.
    fn time(&self, visit: u64) -> u64 {
        self.begun.at.ticks + (visit as f64 * PERIOD_NS as f64 * self.hz / 1e9) as u64
    }

    /// What happens up to now.
    fn steps(&mut self) -> Vec<Step> {
        let now = Source::Tsc.ticks();
        let task = Task { pid: self.begun.pid, tid: self.begun.pid };
        let (mut steps, at) = (Vec::new(), self.begun.at.ticks);
        let cpus = 0..self.cpus as i32;
        if self.visits == 0 {
            let id = |cpu: i32| SampleId {
                task: Some(task),
                time: Some(at),
                id: Some(1),
                stream: None,
                cpu: Some(cpu as u32),
            };
            steps.push(Step::Record(0, Record::Mmap(mapping(&self.program, task)), id(0)));
            steps.extend(cpus.clone().map(|cpu| Step::Record(cpu, Record::ItraceStart(task), id(cpu))));
        }
        let (start, work) = (place(&self.program, "_start"), place(&self.program, "work"));
        while self.time(self.visits) < now {
            let time = self.time(self.visits);
            let is_first = self.visits.is_multiple_of(2);
            let packets =
                if is_first { visit(time, start, None) } else { visit(time, work + 5, Some(start + 5)) };
            steps.extend(cpus.clone().map(|cpu| Step::Packets(cpu, packets.clone())));
            self.visits += 1;
        }
        steps
    }
}

impl Machine for Live {
    fn open(&mut self, attribute: &Attribute, thread: i32, cpu: i32) -> Result<Fd, Errno> {
        self.machine.open(attribute, thread, cpu)
    }

    fn send_to(&mut self, event: &Fd, other: &Fd) -> Result<(), Errno> {
        self.machine.send_to(event, other)
    }

    fn filter(&mut self, event: &Fd, filter: &CStr) -> Result<(), Errno> {
        self.machine.filter(event, filter)
    }

    fn enable(&mut self, event: &Fd) -> Result<(), Errno> {
        self.machine.enable(event)
    }

    fn disable(&mut self, event: &Fd) -> Result<(), Errno> {
        self.machine.disable(event)
    }

    fn wait(&mut self, time: Duration) {
        std::thread::sleep(time);
        let steps = self.steps();
        self.machine.then(steps);
        self.machine.wait(time);
    }

    fn clocks(&self) -> Option<Sample> {
        Some(Sample::take(Source::Tsc))
    }
}

/// A recording of so many events with a pause before each, by these rules, and what the recorder said.
fn record(
    place: &Path,
    (events, pause_ms): (u64, u64),
    rules: &[&str],
    change: impl FnOnce(&mut Options),
) -> Option<(Result<Recorded, mote_daemon::Error>, Vec<String>)> {
    let program = assemble(place)?;
    let cpus = mote_daemon::options::cpus();
    let machine = move |targets: &Targets| -> AnyMachine {
        let Targets::Command(pid) = *targets else { panic!("{targets:?}") };
        let begun = Begun { at: Sample::take(Source::Tsc), pid };
        Box::new(Live::new(&program, begun, cpus))
    };
    let mut options = options(place, Source::Tsc, Arc::new(machine));
    options.rules = rules.iter().map(|rule| Rule::parse(rule).expect("a rule")).collect();
    let hardware = options.hardware.as_mut().expect("it is asked for");
    (hardware.kept, hardware.memory, hardware.cpus) = (Kept::Last, MEMORY, (0..cpus).collect());
    let program = env::current_exe().expect("a path");
    let variables = [format!("{ROLE}={events}"), format!("{PAUSE}={pause_ms}")];
    options.command =
        vec!["env".into(), variables[0].clone().into(), variables[1].clone().into(), program.into()];
    change(&mut options);
    let mut said = Said::default();
    let recorded = mote_daemon::record(&options, &mut said);
    Some((recorded, said.0))
}

fn number(event: &Value, field: &str) -> u64 {
    event["fields"][field].as_u64().unwrap_or_else(|| panic!("{field}: {event}"))
}

pub(crate) fn the_packets_before_an_event_are_kept() {
    let place = tempfile::tempdir().expect("a directory");
    let rules =
        ["hardware_trace:*", "hardware_trace:beat if number == 2 || number == 4 do pt snapshot 5ms, count"];
    let Some((recorded, said)) = record(place.path(), (6, 40), &rules, |_| {}) else { return };
    let recorded = recorded.unwrap_or_else(|why| panic!("{why}: {said:?}"));
    assert_eq!(recorded.problems, [] as [&str; 0], "{said:?}");
    assert!(recorded.aggregates.contains('2'), "{}", recorded.aggregates);
    let dir = place.path().join("trace");
    let all = json(&mote(&["view", "--time", "monotonic", "--format", "json"], &dir));
    let of = |name: &str| all.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let (beats, snapshots) = (of("hardware_trace:beat"), of("pt_snapshot"));
    assert_eq!((beats.len(), snapshots.len()), (6, 2), "{all:?}");
    for (snapshot, asker) in snapshots.into_iter().zip([beats[2], beats[4]]) {
        one_snapshot(&dir, snapshot, asker);
    }
    let told = said.iter().filter(|text| text.starts_with("hardware trace of the 5.")).collect::<Vec<_>>();
    assert!(told.len() == 2 && told[0].contains("before hardware_trace:beat (thread "), "{said:?}");
    calls_are_among_events(&dir, [beats[2], beats[4]]);
    // The last packets of all are there, as ever.
    mote(&["pt", "check"], &dir);
}

/// Calls that were executed before each of these events are among all events, and each of them once.
fn calls_are_among_events(dir: &Path, events: [&Value; 2]) {
    let all = json(&mote(&["view", "--pt", "--time", "monotonic", "--format", "json"], dir));
    let calls: Vec<&Value> = all.iter().filter(|event| event["event"] == "f:leaf").collect();
    let time = |event: &Value| event["time"].as_u64().expect("a time");
    for event in events.map(time) {
        let before = (event - WANTED_NS + PERIOD_NS)..event;
        let count = calls.iter().filter(|call| before.contains(&time(call))).count();
        assert!(count as u64 >= WANTED_NS / PERIOD_NS / 4, "{count} calls before {event}");
    }
    let place = |call: &Value| (call["cpu"].as_u64(), call["time"].as_u64(), call["tid"].as_u64());
    let once: std::collections::BTreeSet<_> = calls.iter().map(|call| place(call)).collect();
    assert_eq!(once.len(), calls.len(), "calls of several captures are told once");
}

/// A snapshot that is whole, for an event.
fn one_snapshot(dir: &Path, snapshot: &Value, asker: &Value) {
    let fields = &snapshot["fields"];
    assert_eq!(
        (&fields["event"], &snapshot["tid"]),
        (&"hardware_trace:beat".into(), &asker["tid"]),
        "{snapshot}"
    );
    assert_eq!((number(snapshot, "duration"), number(snapshot, "overwritten")), (WANTED_NS, 0), "{snapshot}");
    let time = |event: &Value| event["time"].as_u64().expect("a time");
    let event = time(snapshot);
    assert!(event.abs_diff(time(asker)) < 1_000_000, "{snapshot} {asker}");
    // A PSB period at most, and what the clocks are apart.
    let covered = number(snapshot, "covered");
    assert!((WANTED_NS..WANTED_NS + PERIOD_NS + 20_000).contains(&covered), "{snapshot}");
    let directory = dir.join(fields["directory"].as_str().expect("a directory"));
    let cpu = number(snapshot, "cpu");
    let names: Vec<_> =
        fs::read_dir(&directory).expect("it is there").map(|entry| entry.expect("a file")).collect();
    let names: std::collections::BTreeSet<_> =
        names.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, [format!("cpu{cpu}.pt"), "sideband.jsonl".to_owned()].into());
    let bytes = fs::metadata(directory.join(format!("cpu{cpu}.pt"))).expect("packets").len();
    assert_eq!(bytes, number(snapshot, "bytes"));
    let checked = json(&mote(&["pt", "check", "--format", "json"], &directory));
    assert!(checked[0]["gap_count"] == 0 && checked[0]["damaged"] == 0, "{checked:?}");
    let flow = json(&mote(&["pt", "flow", "--format", "json"], &directory));
    assert!(flow.iter().any(|line| line["function"] == "leaf"), "{flow:?}");
    let bounds = |line: &Value| [0, 1].map(|at| line["time"][at].as_u64());
    let first = flow.iter().find_map(|line| bounds(line)[0]).expect("a time");
    let last = flow.iter().filter_map(|line| bounds(line)[0]).max().expect("a time");
    let slack = 500_000;
    assert!(
        first + WANTED_NS + PERIOD_NS + slack >= event && first + WANTED_NS <= event + slack,
        "{first} {event}"
    );
    assert!(last <= event + slack && last + PERIOD_NS + slack >= event, "{last} {event}");
    for verb in ["calls", "stats", "dump"] {
        mote(&["pt", verb], &directory);
    }
}

pub(crate) fn what_is_not_kept_is_said() {
    let place = tempfile::tempdir().expect("a directory");
    // Far more than the memory holds, far more often than they are taken.
    let rules = ["hardware_trace:*", "hardware_trace:beat if number >= 300 do pt snapshot 1s"];
    let Some((recorded, said)) = record(place.path(), (400, 1), &rules, |_| {}) else { return };
    let Recorded { problems, .. } = recorded.unwrap_or_else(|why| panic!("{why}: {said:?}"));
    let has = |part: &str| problems.iter().filter(|text| text.contains(part)).count();
    let dir = place.path().join("trace");
    let count = (1..).take_while(|number| dir.join(format!("pt/snapshot-{number}")).exists()).count();
    assert!((10..50).contains(&count), "{count}");
    assert_eq!(has("which were written over before they were read: use a larger"), count, "{problems:?}");
    assert_eq!(has("no snapshot of the hardware trace: at most 10 a second are taken"), 1, "{problems:?}");
    let shown = mote(&["view", "--format", "json", "--event", "pt_snapshot"], &dir);
    let shown = json(&shown);
    assert_eq!(shown.len(), count);
    // What is there is the memory, which the snapshot says.
    let whole = number(&shown[0], "covered") + number(&shown[0], "overwritten");
    assert!(
        whole.abs_diff(1_000_000_000) < 1_000_000 && number(&shown[0], "overwritten") > 500_000_000,
        "{shown:?}"
    );
    mote(&["pt", "check"], &dir.join("pt/snapshot-1"));
}

pub(crate) fn rules_need_a_trace() {
    let place = tempfile::tempdir().expect("a directory");
    let rules = ["hardware_trace:beat do pt snapshot 5ms"];
    let changes: [fn(&mut Options); 2] = [
        |options| options.hardware.as_mut().expect("it is asked for").kept = Kept::All,
        |options| options.hardware = None,
    ];
    for change in changes {
        let Some((recorded, _)) = record(place.path(), (1, 0), &rules, change) else { return };
        let why = recorded.expect_err("packets are not kept so").to_string();
        assert!(why.contains("`pt snapshot` needs") && why.contains("--pt=snapshot=16M"), "{why}");
    }
    // Such a rule asks for the trace by itself.
    if Path::new(mote_pmu::device::FOLDER).exists() {
        return mote_skip::skip("this machine has Intel PT");
    }
    let output = place.path().join("none");
    let words = ["record", "--on", "net:* do pt snapshot 5ms", "-o"].map(OsStr::new);
    let (_, said, status) =
        run(&[words.as_slice(), &[output.as_os_str(), "--".as_ref(), "true".as_ref()]].concat());
    assert!(status == Some(2) && said.contains("Intel PT") && !output.exists(), "{said}");
}

/// How long after events the packets stop, in nanoseconds: `MOTE_FIGURES=1 cargo test --release -p mote-cli --test
/// hardware_trace`.
pub(crate) fn figures() {
    let place = tempfile::tempdir().expect("a directory");
    let rules = ["hardware_trace:*", "hardware_trace:beat do pt snapshot 5ms"];
    let memory = |options: &mut Options| options.hardware.as_mut().expect("it is asked for").memory = 4 << 20;
    let Some((recorded, said)) = record(place.path(), (60, 110), &rules, memory) else { return };
    recorded.unwrap_or_else(|why| panic!("{why}: {said:?}"));
    let shown = mote(&["view", "--format", "json", "--event", "pt_snapshot"], &place.path().join("trace"));
    let mut latencies: Vec<u64> = json(&shown).iter().map(|event| number(event, "latency")).collect();
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 100];
    println!(
        "{} snapshots: latency {} ns (median), {} (90 %), {} (most)",
        latencies.len(),
        at(50),
        at(90),
        at(100)
    );
}

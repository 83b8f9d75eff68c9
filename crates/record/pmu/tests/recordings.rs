//! Whole recordings of a simulated machine, opened as captures: what was executed is found, of the process that ran.

use mote_capture::perf::export;
use mote_capture::{Capture, Of, SIDEBAND, What, check, follow};
use mote_perfdata::record::{File as Which, Lifetime, Mmap, Mode, Task};
use mote_perfdata::{Record, SampleId};
use mote_pmu::simulated::{Simulated, Step};
use mote_pmu::{Device, Error, Files, Kept, Options, Session, Settings, Targets, TimeScale, record};
use mote_pt::flow::{Event, Gap, Graph, Sink};
use mote_pt::insn::Block;
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Encoder, Packet, Tnt};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const CLOCK: TimeScale = TimeScale { shift: 0, mult: 1, zero: 0 };

fn device(folder: &Path) -> Device {
    std::fs::write(folder.join("type"), "8").expect("a file");
    std::fs::create_dir(folder.join("format")).expect("a directory");
    for (name, bits) in [("tsc", "10"), ("mtc", "9"), ("mtc_period", "14-17"), ("noretcomp", "11")] {
        std::fs::write(folder.join("format").join(name), format!("config:{bits}")).expect("a file");
    }
    std::fs::write(folder.join("tsc_art_ratio"), "100:1").expect("a file");
    Device::read(folder).expect("a device")
}

fn id(task: Task, cpu: u32, time: u64) -> SampleId {
    SampleId { task: Some(task), time: Some(time), id: Some(1), stream: None, cpu: Some(cpu) }
}

/// Packets of one visit of a thread: time, where it begins, so many conditional branches, where it is left.
fn visit(time: u64, address: u64, branches: &[bool]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    [Packet::Psb, Packet::Tsc(time), Packet::PsbEnd].into_iter().for_each(|packet| {
        let _ = encoder.push(packet).expect("a packet");
    });
    come_and_go(encoder, address, branches)
}

fn come_and_go(mut encoder: Encoder, address: u64, branches: &[bool]) -> Vec<u8> {
    let mut push = |packet| {
        let _ = encoder.push(packet).expect("a packet");
    };
    push(Packet::TipPge(Ip { compression: Compression::Full, bits: address }));
    for some in branches.chunks(6) {
        let bits = some.iter().fold(0, |bits, taken| bits << 1 | u64::from(*taken));
        push(Packet::Tnt(Tnt { bits, count: some.len() as u8, is_long: false }));
    }
    push(Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 }));
    encoder.bytes().to_vec()
}

/// What two processes with different code at the same address do in turns on two CPUs.
fn turns(file: &Path) -> Vec<Step> {
    let (first, second) = (Task { pid: 7, tid: 7 }, Task { pid: 8, tid: 8 });
    let switch = |is_out| Record::Switch { is_out, is_preempted: false, other: None };
    let mut steps = vec![
        Step::Record(0, map(file, first, 0), id(first, 0, 10)),
        Step::Record(1, map(file, second, 16), id(second, 1, 11)),
        Step::Record(0, Record::ItraceStart(first), id(first, 0, 12)),
        Step::Record(1, Record::ItraceStart(second), id(second, 1, 13)),
    ];
    let mut many = vec![true; 29];
    many.push(false);
    let turns = [
        (0, first, 100, [true, true, true, false].as_slice()),
        (1, second, 100, &[true, false]),
        (0, second, 200, &[true, true, false]),
        (1, first, 300, &[false]),
        (0, first, 400, &many),
    ];
    for (cpu, task, time, branches) in turns {
        // Its packets are written before the kernel says that it runs.
        steps.push(Step::Packets(cpu, visit(time, 0x1000, branches)));
        steps.push(Step::Record(cpu, switch(false), id(task, cpu as u32, time + 5)));
        steps.push(Step::Flags(cpu, 0));
        steps.push(Step::Wait);
        steps.push(Step::Record(cpu, switch(true), id(task, cpu as u32, time + 50)));
    }
    let gone = Lifetime { task: first, parent: first, time: 999 };
    steps.push(Step::Record(0, Record::Exit(gone), id(first, 0, 999)));
    steps
}

fn map(file: &Path, task: Task, offset: u64) -> Record {
    Record::Mmap(Mmap {
        task,
        mode: Mode::User,
        start: 0x1000,
        len: 0x1000,
        offset,
        file: Which::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
        protection: 5,
        flags: 2,
        path: file.to_owned(),
    })
}

/// Two pieces of code. At offset 0: dec ecx; jne -4; syscall. At 16: nop; dec ecx; jne -5; syscall.
fn code(folder: &Path) -> PathBuf {
    let file = folder.join("code");
    let mut code = vec![0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x05];
    code.resize(16, 0x90);
    code.extend([0x90, 0xff, 0xc9, 0x75, 0xfb, 0x0f, 0x05]);
    std::fs::write(&file, code).expect("a file");
    file
}

fn options() -> Options {
    Options {
        settings: Settings::default(),
        targets: Targets::Command(7),
        cpus: vec![0, 1],
        memory: 64 << 10,
        kept: Kept::All,
        filter: None,
        jit: false,
    }
}

/// Records what happens on two CPUs, and opens it.
fn recorded(folder: &Path, steps: Vec<Step>) -> Capture {
    let machine = Simulated::new(8, CLOCK, steps);
    let (device, options) = (device(folder), options());
    let output = folder.join("capture");
    std::fs::create_dir(&output).expect("a directory");
    let goes_on = |machine: &Simulated| machine.left() > 0;
    let (recorded, _) =
        record(machine, &device, &options, &output, &[], || {}, goes_on).expect("a recording");
    assert!(!recorded.summary.has_lost() && recorded.summary.bytes > 0, "{recorded:?}");
    Capture::open(&output).expect("a capture")
}

/// How many instructions a stream has, which has no gap.
fn instructions(capture: &Capture, of: Of) -> u64 {
    let stream = capture.streams().find(|stream| stream.of == of).expect("packets");
    let found = check(&stream.bytes, &capture.code(stream), None, 1).expect("it is read");
    assert_eq!((found.gaps.as_slice(), found.damaged), ([].as_slice(), 0), "{of}");
    found.instructions.count
}

#[test]
fn processes_take_turns_on_cpus() {
    let folder = tempfile::tempdir().expect("a directory");
    let capture = recorded(folder.path(), turns(&code(folder.path())));
    let processor = capture.processor();
    let clocks = (processor.tsc_hz, processor.art_hz, processor.tsc);
    assert_eq!(clocks, (Some(1_000_000_000), 10_000_000, true));
    assert!(capture.notes().iter().any(|note| note.what == What::Exit { status: None }));
    // Turns of the first have 2 instructions for each branch, and a system call where the last is not taken; those of
    // the second have one more for each.
    assert_eq!(instructions(&capture, Of::Cpu(0)), (4 * 2 + 1) + (3 * 3 + 1) + (30 * 2 + 1));
    assert_eq!(instructions(&capture, Of::Cpu(1)), (2 * 3 + 1) + (2 + 1));
    compare_with_perf(&capture, folder.path());
}

/// A program becomes another one between two packets of time: from where it comes back from execve(2) on.
#[test]
fn what_a_program_becomes_counts_from_its_return_on() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = code(folder.path());
    let task = Task { pid: 7, tid: 7 };
    let mut then = Encoder::new();
    let _ = then.push(Packet::Tsc(103)).expect("a packet");
    let exec = Record::Comm { task, is_exec: true, name: "other".into() };
    let steps = vec![
        Step::Record(0, map(&file, task, 0), id(task, 0, 10)),
        Step::Record(0, Record::ItraceStart(task), id(task, 0, 12)),
        Step::Packets(0, visit(100, 0x1000, &[true, false])),
        Step::Packets(0, come_and_go(then, 0x1000, &[true, false])),
        Step::Record(0, exec, id(task, 0, 105)),
        Step::Record(0, map(&file, task, 16), id(task, 0, 106)),
        Step::Packets(0, come_and_go(Encoder::new(), 0x1000, &[true, true, false])),
        Step::Flags(0, 0),
    ];
    let capture = recorded(folder.path(), steps);
    // The second visit is before that, too, as far as the packets say: it is of the new program already.
    let of_old = 2 * 2 + 1;
    assert_eq!(instructions(&capture, Of::Cpu(0)), of_old + (2 * 3 + 1) + (3 * 3 + 1));
}

/// What a program writes itself is copied from its memory, as it is when it is mapped: of this process, whose memory
/// the packets lead through.
#[test]
fn code_of_no_file_is_copied_from_memory() {
    let folder = tempfile::tempdir().expect("a directory");
    let task = Task { pid: std::process::id().cast_signed(), tid: 7 };
    let mut memory = vec![0x90_u8; 3 * 4096];
    let skip = memory.as_ptr().align_offset(4096);
    // dec ecx; jne -4; syscall
    memory[skip..skip + 6].copy_from_slice(&[0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x05]);
    let start = std::hint::black_box(&memory)[skip..].as_ptr() as usize as u64;
    let mapping = |start, path: &str, task| {
        let Record::Mmap(mmap) = map(Path::new(path), task, 0) else { panic!("it is one") };
        Record::Mmap(Mmap { start, ..mmap })
    };
    let steps = vec![
        Step::Record(0, mapping(start, "//anon", task), id(task, 0, 10)),
        // Of a process that is not there.
        Step::Record(0, mapping(0x1000, "//anon", Task { pid: i32::MAX, tid: 8 }), id(task, 0, 11)),
        Step::Record(0, Record::ItraceStart(task), id(task, 0, 12)),
        Step::Packets(0, visit(100, start, &[true, true, false])),
        Step::Flags(0, 0),
        Step::Wait,
    ];
    let capture = recorded(folder.path(), steps);
    assert_eq!(instructions(&capture, Of::Cpu(0)), 3 * 2 + 1);
    let lost: Vec<&str> = capture
        .notes()
        .iter()
        .filter_map(|note| match &note.what {
            What::Lost { why } => Some(why.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(lost, ["1 mapping of code of no file could not be read"]);
}

/// A flight recorder: a snapshot is a capture of what memory has then, and recording goes on.
#[test]
fn a_snapshot_is_a_capture() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut machine = Simulated::new(8, CLOCK, turns(&code(folder.path())));
    machine.overwrites = true;
    let (device, options) = (device(folder.path()), Options { kept: Kept::Last, ..options() });
    let [whole, part] = ["whole", "part"].map(|name| folder.path().join(name));
    [&whole, &part].into_iter().for_each(|path| std::fs::create_dir(path).expect("a directory"));
    let mut session =
        Session::begin(machine, &device, &options, Box::new(whole.clone()), &[]).expect("a recording");
    session.enable().expect("it is switched on");
    // Up to the first wait of the second process's turn.
    (0..2).for_each(|_| session.round().expect("it is written"));
    assert!(session.snapshot(Box::new(part.clone())).expect("it is written") > 0);
    while session.machine().left() > 0 {
        session.round().expect("it is written");
    }
    let (recorded, _) = session.finish().expect("it is written");
    assert!(!recorded.summary.has_lost() && recorded.summary.bytes > 0, "{recorded:?}");
    let of = |path: &Path, cpu| instructions(&Capture::open(path).expect("a capture"), Of::Cpu(cpu));
    assert_eq!([of(&part, 0), of(&part, 1)], [4 * 2 + 1, 2 * 3 + 1]);
    assert_eq!(of(&whole, 1), (2 * 3 + 1) + (2 + 1));
}

/// Memory that is stopped while the processor writes a packet ends in the middle of it, which is no damage.
#[test]
fn a_packet_that_is_cut_off_where_memory_was_stopped_is_no_damage() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut steps = turns(&code(folder.path()));
    // The first bytes of a TSC packet.
    steps.push(Step::Packets(0, vec![0x19, 1, 2]));
    let mut machine = Simulated::new(8, CLOCK, steps);
    machine.overwrites = true;
    let (device, options) = (device(folder.path()), Options { kept: Kept::Last, ..options() });
    let output = folder.path().join("capture");
    std::fs::create_dir(&output).expect("a directory");
    let (recorded, _) = record(machine, &device, &options, &output, &[], || {}, |machine| machine.left() > 0)
        .expect("it is recorded");
    let capture = Capture::open(&output).expect("a capture");
    assert!(capture.processor().last_packets && !recorded.summary.has_lost());
    let mut cut_off = Vec::new();
    for stream in capture.streams() {
        let found = check(&stream.bytes, &capture.code(stream), None, 2).expect("it is read");
        assert_eq!((found.gap_count, found.damaged), (0, 0), "{}: {:?}", stream.of, found.gaps);
        assert_eq!(
            found.bytes,
            std::fs::metadata(output.join(format!("cpu{}.pt", cut_off.len()))).expect("packets").len()
        );
        cut_off.push(found.cut_off);
    }
    assert_eq!(cut_off, [3, 0]);
}

/// A disk that is full when packets come.
#[derive(Debug)]
struct Full(PathBuf);

impl Files for Full {
    fn create(&self, name: &str) -> io::Result<File> {
        let is_sideband = name == SIDEBAND;
        if is_sideband { Files::create(&self.0, name) } else { File::options().write(true).open("/dev/full") }
    }
}

#[test]
fn a_full_disk_is_told_and_what_is_there_is_a_capture() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut steps = turns(&code(folder.path()));
    // Records are there before the first packets.
    (0..3).for_each(|_| steps.insert(4, Step::Wait));
    let machine = Simulated::new(8, CLOCK, steps);
    let (device, options) = (device(folder.path()), options());
    let output = folder.path().join("capture");
    std::fs::create_dir(&output).expect("a directory");
    let files = Box::new(Full(output.clone()));
    let mut session = Session::begin(machine, &device, &options, files, &[]).expect("a recording");
    session.enable().expect("it is switched on");
    let why = std::iter::repeat_with(|| session.round()).find_map(Result::err).expect("there is no room");
    assert!(matches!(&why, Error::Output(why) if why.raw_os_error() == Some(libc::ENOSPC)), "{why}");
    drop(session);
    // Of a recorder that was killed in the middle of a line as much is there.
    let path = output.join(SIDEBAND);
    let text = std::fs::read_to_string(&path).expect("notes");
    for cut in [text.len(), text.len() - 5] {
        std::fs::write(&path, &text[..cut]).expect("a file");
        let capture = Capture::open(&output).expect("a capture");
        let is_cut = cut < text.len();
        assert_eq!(capture.problems().len(), usize::from(is_cut), "{:?}", capture.problems());
        assert_eq!(capture.notes().len() + 1 + usize::from(is_cut), text.lines().count());
    }
}

/// Addresses of instructions, in their order.
#[derive(Default)]
struct Addresses(Vec<u64>);

impl Sink for Addresses {
    fn block(&mut self, block: &Block, graph: &Graph) {
        let mut address = block.start;
        for length in graph.lengths(block) {
            self.0.push(address);
            address += u64::from(*length);
        }
    }

    fn event(&mut self, _: u64, _: Event) {}

    fn gap(&mut self, _: Gap) {}
}

/// perf decodes the capture as a file of its own, with the same processes in turns, to the same instructions.
fn compare_with_perf(capture: &Capture, folder: &Path) {
    let file = folder.join("perf.data");
    export(capture, &file, &folder.join("code")).expect("a file");
    let perf =
        Command::new("perf").args(["script", "--itrace=i0nse", "-F", "cpu,ip", "-i"]).arg(&file).output();
    let Ok(done) = perf else { return mote_skip::skip("perf is not installed") };
    let (text, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && !said.contains("error"), "{said}");
    for stream in capture.streams() {
        let mut ours = Addresses::default();
        follow(&stream.bytes, &capture.code(stream), &mut ours, |_| true).expect("it is read");
        let cpu = format!("[{:03}]", stream.cpu().expect("a processor"));
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(&cpu));
        let theirs: Vec<u64> =
            lines.map(|ip| u64::from_str_radix(ip.trim(), 16).expect("an address")).collect();
        assert_eq!(ours.0, theirs, "{}", stream.of);
    }
}

//! Code that a process makes at run time: it is copied by the kernel's programs when it becomes executable, here of
//! this process, whose packets a simulated processor writes. Each version has its own number of instructions.

mod support;

use mote_capture::{Capture, What, check};
use mote_clock::Sample;
use mote_perfdata::record::{EXECUTABLE, File as Which, Mmap, Mode, Task};
use mote_perfdata::{Attribute, Record, SampleId};
use mote_pmu::simulated::{Simulated, Step};
use mote_pmu::{Error, Machine, TimeScale, record};
use mote_pt::image::Space;
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Encoder, Packet, Tnt};
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::mem::{Mapping, PAGE_BYTES};
use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::time::Duration;
use support::{device, now, options};

const TURNS: u64 = 60;
/// Versions of each round.
const AT_ONCE: u64 = 4;
const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;
const DATA: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A machine on which this process makes code, and executes it.
struct Maker {
    simulated: Simulated,
    memory: Mapping,
    turn: u64,
}

impl Maker {
    fn start(&self) -> u64 {
        self.memory.base() as u64
    }

    fn protect(&self, protection: i32) {
        let base = self.memory.base();
        // SAFETY: a page that is ours alone; nobody reads or writes it while it may not be.
        let failed = unsafe { libc::mprotect(base.cast(), PAGE_BYTES, protection) };
        assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    }

    /// So many NOPs as the turn says; then dec ecx; jne -4; syscall.
    fn make(&mut self) {
        let nops = self.turn as usize;
        let code: Vec<u8> =
            std::iter::repeat_n(0x90, nops).chain([0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x05]).collect();
        self.protect(DATA);
        // SAFETY: within the page, which is writable now.
        unsafe { self.memory.base().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        self.protect(CODE);
    }

    /// It is executed, with one round of the loop.
    fn packets(&self) -> Vec<u8> {
        let packets = [
            Packet::Psb,
            Packet::Tsc(now()),
            Packet::PsbEnd,
            Packet::TipPge(Ip { compression: Compression::Full, bits: self.start() }),
            Packet::Tnt(Tnt { bits: 0b10, count: 2, is_long: false }),
            // Without it, nothing says that the next version came behind the return to this one.
            Packet::Tsc(now()),
            Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 }),
        ];
        let mut encoder = Encoder::new();
        for packet in packets {
            let _ = encoder.push(packet).expect("a packet");
        }
        encoder.bytes().to_vec()
    }
}

impl Machine for Maker {
    fn open(&mut self, attribute: &Attribute, thread: i32, cpu: i32) -> Result<Fd, Errno> {
        self.simulated.open(attribute, thread, cpu)
    }

    fn send_to(&mut self, event: &Fd, other: &Fd) -> Result<(), Errno> {
        self.simulated.send_to(event, other)
    }

    fn filter(&mut self, event: &Fd, filter: &CStr) -> Result<(), Errno> {
        self.simulated.filter(event, filter)
    }

    fn enable(&mut self, event: &Fd) -> Result<(), Errno> {
        self.simulated.enable(event)
    }

    fn disable(&mut self, event: &Fd) -> Result<(), Errno> {
        self.simulated.disable(event)
    }

    fn wait(&mut self, time: Duration) {
        for _ in 0..AT_ONCE.min(TURNS - self.turn) {
            self.make();
            self.simulated.then([Step::Packets(0, self.packets()), Step::Flags(0, 0)]);
            self.turn += 1;
        }
        self.simulated.then([Step::Wait]);
        std::thread::sleep(time);
        self.simulated.wait(time);
    }

    fn clocks(&self) -> Option<Sample> {
        let now = now();
        Some(Sample { ticks: now, monotonic_ns: now, realtime_ns: now, error_ns: 0 })
    }
}

/// Makes code, and records that; `None`, as a skip, where it cannot be copied.
fn recorded(folder: &Path, jit: bool) -> Option<Capture> {
    let pid = std::process::id().cast_signed();
    let task = Task { pid, tid: pid };
    let memory = Mapping::private(PAGE_BYTES).expect("memory");
    let mapped = Record::Mmap(Mmap {
        task,
        mode: Mode::User,
        start: memory.base() as u64,
        len: PAGE_BYTES as u64,
        offset: 0,
        file: Which::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
        protection: EXECUTABLE,
        flags: 2,
        path: "//anon".into(),
    });
    // As run-time compilers name their functions.
    let table = Path::new("/tmp").join(format!("perf-{pid}.map"));
    if jit {
        fs::write(&table, format!("{:x} 1000 made\n", memory.base() as u64)).expect("a file");
    }
    let id = SampleId { task: Some(task), time: Some(now()), id: Some(1), stream: None, cpu: Some(0) };
    let steps = [mapped, Record::ItraceStart(task)].map(|record| Step::Record(0, record, id));
    let clock = TimeScale { shift: 0, mult: 1, zero: 0 };
    let machine = Maker { simulated: Simulated::new(8, clock, steps), memory, turn: 0 };
    let output = folder.join("capture");
    fs::create_dir(&output).expect("a directory");
    let goes_on = |machine: &Maker| machine.turn < TURNS;
    let recorded = record(machine, &device(folder), &options(pid, jit), &output, &[], || {}, goes_on);
    if jit {
        fs::remove_file(&table).expect("it was there");
    }
    match recorded {
        Ok((recorded, _)) => assert!(!recorded.summary.has_lost(), "{recorded:?}"),
        Err(Error::Generated(why)) => {
            mote_skip::skip(why);
            return None;
        }
        Err(why) => panic!("{why}"),
    }
    Some(Capture::open(&output).expect("a capture"))
}

/// How many instructions are followed, and how many gaps there are.
fn followed(capture: &Capture) -> (u64, usize) {
    let stream = capture.streams().next().expect("packets");
    let found = check(&stream.bytes, &capture.code(stream), None, 1).expect("it is read");
    (found.instructions.count, found.gaps.len())
}

#[test]
fn each_version_is_followed() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some(capture) = recorded(folder.path(), true) else { return };
    // NOPs; two rounds of two instructions, and the system call.
    let expect: u64 = (0..TURNS).map(|turn| turn + 2 * 2 + 1).sum();
    assert_eq!(followed(&capture), (expect, 0));
    let stream = capture.streams().next().expect("packets");
    let code = capture.code(stream);
    let start = capture.notes().iter().find_map(|note| match note.what {
        What::Code { start, .. } => Some(start),
        _ => None,
    });
    let place = code.place(Space(0), start.expect("code"));
    assert_eq!(place.map(|place| place.function).as_deref(), Some("made"));
}

/// What shows that the test is one: without copies the versions between two looks are not known.
#[test]
fn versions_are_missed_without_copies() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some(capture) = recorded(folder.path(), false) else { return };
    let expect: u64 = (0..TURNS).map(|turn| turn + 2 * 2 + 1).sum();
    assert_ne!(followed(&capture), (expect, 0));
    // That is said: where code has changed between two looks, and when these were.
    let stream = capture.streams().next().expect("packets");
    let code = capture.code(stream);
    let [uncertain] = code.uncertain() else { panic!("{:?}", code.uncertain()) };
    assert!(uncertain.until.is_some_and(|until| until > uncertain.since), "{uncertain:?}");
}

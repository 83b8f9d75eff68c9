//! A session that follows threads of the test.

use mote_catalog::btf::Btf;
use mote_generate::state::Layout;
use mote_generate::threads::TRACED;
use mote_kernel::map::{Mapped, State};
use mote_layout::cooperation as area;
use mote_slow::{Latency, Settings, Slow};
use std::io::{Read, Write};
use std::mem::offset_of;
use std::time::Duration;

/// Programs that look at the threads that a test has followed.
pub(crate) struct Session {
    pub state: State,
    pub latency: Latency,
}

/// Number of a system call.
pub(crate) fn call(name: &str) -> u32 {
    mote_layout::syscalls::number(name).expect("a system call")
}

impl Session {
    /// `None`, and a word about it, where programs cannot be loaded.
    pub(crate) fn here(settings: &Settings) -> Option<Session> {
        if let Some(missing) = mote_kernel::privilege::check() {
            mote_skip::skip(missing);
            return None;
        }
        let btf = match Btf::of_kernel() {
            Ok(btf) => btf,
            Err(error) => {
                mote_skip::skip(error);
                return None;
            }
        };
        let cpus = mote_sys::process::possible_cpus().expect("CPUs");
        let state = State::create(Layout { cpus, threads: 4096 }).expect("a table");
        let latency = Latency::attach(&state, &btf, settings).unwrap_or_else(|error| panic!("{error}"));
        Some(Session { state, latency })
    }

    /// What a followed thread that does this has of slow calls.
    pub(crate) fn thread(&mut self, work: impl FnOnce() + Send) -> Vec<Slow> {
        self.with_area(0, work)
    }

    /// As `thread`, of a process whose area has this index.
    pub(crate) fn with_area(&mut self, index: u32, work: impl FnOnce() + Send) -> Vec<Slow> {
        let state = &self.state;
        let tid = std::thread::scope(|scope| {
            let work = move || {
                let tid = mote_sys::process::tid() as u32;
                let entry = state.follow(tid, TRACED).expect("space");
                state.set_index(entry, index);
                work();
                tid
            };
            scope.spawn(work).join().expect("the work")
        });
        // It is followed to its end, as by a session.
        while std::path::Path::new(&format!("/proc/self/task/{tid}")).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.state.clear(tid, TRACED);
        let mut all = Vec::new();
        self.latency.slow(|slow| all.push(slow));
        all.retain(|slow| slow.tid == tid);
        all
    }
}

/// Reads from a pipe to which another thread writes when the read has waited for a while.
pub(crate) fn blocked_read(after: Duration) {
    let (mut from, mut to) = std::io::pipe().expect("a pipe");
    let tid = mote_sys::process::tid() as u32;
    let writer = std::thread::Builder::new().name("the writer".to_owned());
    let writer = writer.spawn(move || {
        until_it_reads(tid);
        std::thread::sleep(after);
        to.write_all(b"x").expect("space");
    });
    let mut byte = [0];
    from.read_exact(&mut byte).expect("a byte");
    writer.expect("a thread").join().expect("it wrote");
}

/// An area as the recorder makes one for a process, here with index 1.
pub(crate) struct Area {
    memory: Mapped,
}

impl Area {
    pub(crate) fn new(session: &Session) -> Area {
        let memory = Mapped::create("area", area::area_bytes(area::SLOTS) as u32).expect("memory");
        session.latency.set_area(1, memory.map()).expect("space");
        let area = Area { memory };
        area.asks(true);
        area
    }

    /// Whether the process looks at what is published, or has thresholds.
    pub(crate) fn asks(&self, yes: bool) {
        self.memory.store32(offset_of!(area::Header, asked), yes.into());
    }

    /// Sets a threshold for the whole process.
    pub(crate) fn process(&self, number: u32, word: u32) {
        self.memory.store32(offset_of!(area::Header, thresholds) + 4 * number as usize, word);
    }

    /// The slot of the calling thread.
    fn slot(&self) -> Option<usize> {
        let tid = mote_sys::process::tid() as u32;
        let home = tid % area::SLOTS;
        let slots = (0..area::PROBES).map(|probe| area::slot_at((home + probe) % area::SLOTS));
        slots.into_iter().find(|slot| self.memory.load32(*slot) == tid)
    }

    /// Sets a threshold for the calling thread.
    pub(crate) fn thread(&self, number: u32, word: u32) {
        let slot = self.slot().expect("the kernel has claimed one");
        self.memory.store32(slot + offset_of!(area::Slot, thresholds) + 4 * number as usize, word);
    }

    /// What is published of the calling thread; zeros without a slot.
    pub(crate) fn state(&self) -> Published {
        let Some(slot) = self.slot() else { return Published::default() };
        let word = |offset: usize| self.memory.load64(slot + area::STATE_AT + offset);
        Published {
            switches: word(offset_of!(area::State, switches)),
            preemptions: word(offset_of!(area::State, preemptions)),
            offcpu_ns: word(offset_of!(area::State, offcpu_ns)),
            runqueue_ns: word(offset_of!(area::State, runqueue_ns)),
            faults: word(offset_of!(area::State, faults)),
            syscalls: word(offset_of!(area::State, syscalls)),
            last_wait: word(offset_of!(area::State, last_wait)),
            last_wait_syscall: word(offset_of!(area::State, last_wait_syscall)),
        }
    }

    /// Writes nonsense everywhere.
    pub(crate) fn fill(&self, pattern: u32) {
        (0..self.memory.len()).step_by(4).for_each(|at| self.memory.store32(at, pattern));
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    pub switches: u64,
    pub preemptions: u64,
    pub offcpu_ns: u64,
    pub runqueue_ns: u64,
    pub faults: u64,
    pub syscalls: u64,
    pub last_wait: u64,
    pub last_wait_syscall: u64,
}

/// What `/proc` says of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Schedstat {
    pub run_delay_ns: u64,
    pub switches: u64,
    pub involuntary: u64,
    pub faults: u64,
}

impl Schedstat {
    pub(crate) fn of_thread() -> Schedstat {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/{name}")).expect(name);
        let number =
            |text: Option<&str>| text.and_then(|text| text.trim().parse::<u64>().ok()).expect("a number");
        let status = read("status");
        let line = |name: &str| number(status.lines().find_map(|line| line.strip_prefix(name)));
        let (voluntary, involuntary) =
            (line("voluntary_ctxt_switches:"), line("nonvoluntary_ctxt_switches:"));
        let stat = read("stat");
        let after_name = stat.rsplit_once(')').expect("a name").1;
        let field = |at: usize| number(after_name.split_whitespace().nth(at - 3));
        Schedstat {
            run_delay_ns: number(read("schedstat").split_whitespace().nth(1)),
            switches: voluntary + involuntary,
            involuntary,
            faults: field(10) + field(12),
        }
    }
}

/// What a thread that reads for long looks like meanwhile.
pub(crate) fn while_blocked<T>(session: &Session, look: impl FnOnce(&Session, u32) -> T) -> T {
    let (mut from, mut to) = std::io::pipe().expect("a pipe");
    let (tell, hear) = std::sync::mpsc::channel();
    let state = &session.state;
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let tid = mote_sys::process::tid() as u32;
            state.follow(tid, TRACED).expect("space");
            tell.send(tid).expect("the test waits for it");
            from.read_exact(&mut [0]).expect("a byte");
            state.clear(tid, TRACED);
        });
        let tid = hear.recv().expect("it says");
        until_it_reads(tid);
        let seen = look(session, tid);
        to.write_all(b"x").expect("space");
        reader.join().expect("it reads");
        seen
    })
}

/// Waits until a thread waits in read(2).
fn until_it_reads(tid: u32) {
    let call = format!("/proc/{tid}/syscall");
    while !std::fs::read_to_string(&call).is_ok_and(|text| text.starts_with("0 ")) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads that do not wait.
pub(crate) fn short_reads(count: usize) {
    let mut zeros = std::fs::File::open("/dev/zero").expect("a device");
    (0..count).for_each(|_| zeros.read_exact(&mut [0]).expect("a byte"));
}

/// Writes some and waits until it is on the device.
pub(crate) fn write_and_sync(mut file: &std::fs::File) {
    file.write_all(&[7; 1 << 20]).expect("space");
    file.sync_all().expect("a device");
}

/// A file that has no name.
pub(crate) fn tempfile() -> std::io::Result<std::fs::File> {
    tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR"))
}

/// CLOCK_MONOTONIC.
pub(crate) fn now() -> u64 {
    mote_sys::time::clock_gettime(mote_sys::time::ClockId::Monotonic)
}

/// Shares a CPU with a thread that computes, and gives it away again and again.
pub(crate) fn yields_to_another(time: Duration) {
    let stop = &std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        on_first_cpu();
        let other = scope.spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let end = std::time::Instant::now() + time;
        while std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        other.join().expect("it stops");
    });
}

/// The calling thread, and those that it makes, run on the first CPU only.
fn on_first_cpu() {
    let mut set = [0_u64; 16];
    set[0] = 1;
    // SAFETY: the kernel reads as many bytes of the set as it is told.
    let done = unsafe { libc::sched_setaffinity(0, size_of_val(&set), set.as_ptr().cast()) };
    assert_eq!(done, 0);
}

/// A system call that waits for nothing: getppid.
pub(crate) fn fast_call() {
    std::hint::black_box(std::os::unix::process::parent_id());
}

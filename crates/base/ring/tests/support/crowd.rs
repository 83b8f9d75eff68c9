//! The writers of a round: a director, its child processes, their threads, and what befalls them.

use super::board::Board;
use super::child;
use super::emit::{self, Emitter, Site};
use super::random::Random;
use super::scenario::{Case, Kind};
use mote_ring::{Geometry, Writer};
use mote_sys::fd::Fd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What the director is told.
#[derive(Clone, Copy)]
pub struct Orders<'a> {
    pub case: Case,
    pub geometry: Geometry,
    pub memfd: &'a Fd,
    pub board: &'a Board,
    pub length: Duration,
    pub seed: u64,
    /// Threads rest now and then, so that the reader keeps up.
    pub rests: bool,
}

/// The life of the director: keeps the processes up until time is over.
pub fn direct(orders: Orders<'_>) {
    die_with_parent();
    let scenario = orders.case.scenario;
    let mut random = Random::new(orders.seed);
    if random.once_in(2) {
        // SAFETY: lets the reader run when it wants to.
        unsafe { libc::nice(15) };
    }
    let writer = emit::map(orders.memfd, orders.geometry);
    let end = Instant::now() + orders.length;
    let mut children: Vec<(i32, Instant)> = Vec::new();
    while Instant::now() < end {
        while children.len() < scenario.processes {
            let seed = random.next();
            let pid = child::start(|| live(orders, writer, seed));
            let life = scenario.life_us.map_or(600_000_000, |most| random.below(most) + 1);
            children.push((pid, Instant::now() + Duration::from_micros(life)));
        }
        children.retain(|(pid, death)| {
            let kill = scenario.killed && Instant::now() >= *death;
            if kill {
                child::kill(*pid, libc::SIGKILL);
                orders.board.count_kill();
            }
            !(if kill { gone(*pid) } else { child::ended(*pid).is_some_and(|end| expect(end, 0)) })
        });
        if scenario.stopped && random.once_in(4) && !children.is_empty() {
            let (pid, _) = children[random.below(children.len() as u64) as usize];
            child::kill(pid, libc::SIGSTOP);
            std::thread::sleep(Duration::from_micros(random.below(4000)));
            child::kill(pid, libc::SIGCONT);
        }
        std::thread::sleep(Duration::from_micros(100 + random.below(400)));
    }
    orders.board.stop();
    for (pid, _) in children {
        expect(child::wait(pid), 0);
    }
}

fn gone(pid: i32) -> bool {
    let end = child::wait(pid);
    end == 0 || expect(end, 1000 + libc::SIGKILL)
}

fn expect(end: i32, wanted: i32) -> bool {
    assert_eq!(end, wanted, "end of a child (status, or 1000 and the signal)");
    true
}

fn die_with_parent() {
    // SAFETY: asks for a signal; touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Threads of this process, for those who torment them.
static TIDS: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];
/// Set when this process is to end.
static OVER: AtomicBool = AtomicBool::new(false);

/// The life of a process.
fn live(orders: Orders<'_>, inherited: &'static Writer, seed: u64) {
    die_with_parent();
    let scenario = orders.case.scenario;
    let mut random = Random::new(seed);
    let writer = if random.once_in(2) { inherited } else { emit::map(orders.memfd, orders.geometry) };
    let beside = (orders.case.kind == Kind::Direct).then(|| emit::beside(orders.geometry.cpus));
    let sub_bytes = orders.geometry.sub_bytes() as usize;
    let site = Site { writer, beside, board: orders.board, kind: orders.case.kind, sub_bytes };
    let life =
        scenario.life_us.filter(|_| !scenario.killed).map(|most| Duration::from_micros(random.below(most)));
    emit::handle_signals();
    std::thread::scope(|scope| {
        for number in 1..scenario.threads {
            let seed = random.next();
            scope.spawn(move || run_thread(orders, site, number, seed));
        }
        if scenario.signals || scenario.migrate {
            let seed = random.next();
            scope.spawn(move || torment(orders, seed));
        }
        let end = life.map(|life| Instant::now() + life);
        let watch = scope.spawn(move || {
            while !orders.board.stopped() && end.is_none_or(|end| Instant::now() < end) {
                std::thread::sleep(Duration::from_millis(1));
            }
            OVER.store(true, Relaxed);
        });
        run_thread(orders, site, 0, seed);
        watch.join().expect("the watch ends");
    });
}

fn run_thread(orders: Orders<'_>, site: Site<'_>, number: usize, seed: u64) {
    let Some(emitter) = Emitter::new(site, seed) else { return };
    TIDS[number].store(mote_sys::process::tid(), Relaxed);
    let mut random = Random::new(!seed);
    let scenario = orders.case.scenario;
    emitter.serve(|| {
        let timer = scenario.signals.then(|| Timer::start(30 + random.below(400)));
        while !OVER.load(Relaxed) {
            for _ in 0..1 + random.below(300) {
                emitter.emit();
            }
            if scenario.migrate && random.once_in(3) {
                bind(0, &mut random);
            }
            if orders.rests {
                let _ = mote_sys::time::sleep(random.below(300_000));
            }
        }
        drop(timer);
    });
    TIDS[number].store(0, Relaxed);
}

/// Sends signals to the threads of this process and moves them, until it ends.
fn torment(orders: Orders<'_>, seed: u64) {
    let scenario = orders.case.scenario;
    let mut random = Random::new(seed);
    if scenario.signals {
        process_timer(70 + random.below(200) as i64);
    }
    while !OVER.load(Relaxed) {
        let tid = TIDS[random.below(scenario.threads as u64) as usize].load(Relaxed);
        if tid != 0 && scenario.signals && random.once_in(2) {
            // SAFETY: a signal that is handled; a thread that has ended is an error that does not matter.
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, libc::SIGUSR1) };
        }
        if tid != 0 && scenario.migrate {
            bind(tid, &mut random);
        }
        let _ = mote_sys::time::sleep(1_000 + random.below(60_000));
    }
    if scenario.signals {
        process_timer(0);
    }
}

/// Lets the thread `tid`, or with 0 the own one, run on one CPU, or on all.
fn bind(tid: i32, random: &mut Random) {
    let cpus = mote_sys::process::possible_cpus().unwrap_or(1).min(64);
    let one = 1u64 << random.below(cpus.into());
    let mask = if random.once_in(4) { u64::MAX } else { one };
    // SAFETY: the mask is 8 readable bytes; a thread that has ended or a CPU that is off is an error that does not
    // matter.
    unsafe { libc::sched_setaffinity(tid, 8, (&raw const mask).cast()) };
}

/// SIGALRM to the process every `us` microseconds; 0 ends it.
fn process_timer(us: i64) {
    let tick = libc::timeval { tv_sec: 0, tv_usec: us };
    let timer = libc::itimerval { it_interval: tick, it_value: tick };
    // SAFETY: `timer` outlives the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

/// SIGUSR2 to the calling thread at intervals.
struct Timer(libc::timer_t);

impl Timer {
    fn start(us: u64) -> Timer {
        // SAFETY: all zero is a valid sigevent.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGUSR2;
        event.sigev_notify_thread_id = mote_sys::process::tid();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both structs outlive the call.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
        assert_eq!(made, 0, "timer_create");
        let tick = libc::timespec { tv_sec: 0, tv_nsec: us as i64 * 1000 };
        let spec = libc::itimerspec { it_interval: tick, it_value: tick };
        // SAFETY: the timer was just made; `spec` outlives the call.
        unsafe { libc::timer_settime(timer, 0, &spec, std::ptr::null_mut()) };
        Timer(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: made by `start` and not deleted yet.
        unsafe { libc::timer_delete(self.0) };
    }
}

//! Signals: handlers that emit, threads that block everything, a program with a SIGTRAP handler of its own.

use crate::words::Words;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

static HANDLED: AtomicU64 = AtomicU64::new(0);
static INSIDE: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);
static TRAPS: AtomicU64 = AtomicU64::new(0);

/// Blocks all signals for the calling thread.
pub(crate) fn block_all() {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None).expect("a mask");
}

fn handle(signal: Signal, handler: extern "C" fn(i32)) {
    let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handlers of this file only emit and count.
    unsafe { sigaction(signal, &action) }.expect("an action");
}

extern "C" fn emit_in_handler(_signal: i32) {
    let seq = HANDLED.fetch_add(1, Ordering::Relaxed);
    if INSIDE.load(Ordering::Relaxed) {
        INTERRUPTED.fetch_add(1, Ordering::Relaxed);
    }
    mote::event!(e2e::in_handler, seq: u64 = seq, text: &str = "from the handler");
}

/// `handler TIMES`: a timer's signals interrupt a loop that does little but emit, small events and large ones, until
/// they came so often and once inside of an event. Prints how often that was.
pub(crate) fn handler(words: &Words) {
    handle(Signal::SIGALRM, emit_in_handler);
    timer(250);
    let (times, until) = (words.number(0), Instant::now() + crate::words::PATIENCE);
    let enough = || HANDLED.load(Ordering::Relaxed) >= times && INTERRUPTED.load(Ordering::Relaxed) > 0;
    let text = "a long text that is copied from where it lies; ".repeat(40);
    let mut seq = 0u64;
    while !enough() && Instant::now() < until {
        INSIDE.store(true, Ordering::Relaxed);
        mote::event!(e2e::interrupted, seq: u64 = seq, text: &str = &text);
        INSIDE.store(false, Ordering::Relaxed);
        mote::event!(e2e::small, seq: u64 = seq);
        seq += 1;
        std::thread::sleep(Duration::from_micros(1));
    }
    timer(0);
    println!("emitted {seq}\nhandled {}", HANDLED.load(Ordering::Relaxed));
    println!("interrupted {}", INTERRUPTED.load(Ordering::Relaxed));
}

/// A page that cannot be read until the handler has forked.
static HIDDEN: AtomicUsize = AtomicUsize::new(0);
static CHILD: AtomicI32 = AtomicI32::new(0);
const PAGE: usize = 4096;

extern "C" fn fork_and_show(_signal: i32) {
    let page = HIDDEN.load(Ordering::Relaxed) as *mut libc::c_void;
    // SAFETY: our own page.
    unsafe { libc::mprotect(page, PAGE, libc::PROT_READ) };
    // SAFETY: fork in a handler: the program has one thread as far as it knows, which holds no lock of the C library.
    CHILD.store(unsafe { libc::fork() }, Ordering::Relaxed);
}

/// `fork-inside ROUNDS EVENTS`: each round a large event's bytes fault while they are copied into the ring, and the
/// handler forks; parent and child both return into the event, and emit that many events of their own.
pub(crate) fn fork_inside(words: &Words) {
    let (rounds, events) = (words.number(0), words.number(1));
    handle(Signal::SIGSEGV, fork_and_show);
    // SAFETY: a fresh page.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    HIDDEN.store(page as usize, Ordering::Relaxed);
    // SAFETY: it can be read by whoever waits for the handler.
    let bytes = unsafe { std::slice::from_raw_parts(page.cast::<u8>(), PAGE) };
    let emit =
        |who: u64| (0..events).for_each(|seq| mote::event!(e2e::forked, who: u64 = who, seq: u64 = seq));
    emit(0);
    for round in 1..=rounds {
        // SAFETY: our own page.
        unsafe { libc::mprotect(page, PAGE, libc::PROT_NONE) };
        mote::event!(e2e::forked_in, round: u64 = round, bytes: &[u8] = bytes);
        match CHILD.load(Ordering::Relaxed) {
            0 => {
                emit(2 * round);
                // SAFETY: ends the child without running the parent's exit handlers twice.
                unsafe { libc::_exit(0) }
            }
            child => {
                emit(2 * round - 1);
                nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None).expect("a child");
            }
        }
    }
}

/// SIGALRM each so many microseconds; none with 0.
fn timer(micros: i64) {
    let every = libc::timeval { tv_sec: 0, tv_usec: micros };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: reads the struct.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

/// `blocked THREADS`: threads that block all signals emit at full speed until most sites are switched off. Says how
/// many are NOPs then, and how many are when the threads have gone.
pub(crate) fn blocked(words: &Words) {
    let (sites, _) = crate::sites::nops();
    let stop = AtomicBool::new(false);
    let sum = AtomicU64::new(0);
    println!("started 1");
    let off = std::thread::scope(|scope| {
        for who in 0..words.number(0) {
            let (stop, sum) = (&stop, &sum);
            scope.spawn(move || {
                block_all();
                let mut seq = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    mote::event!(e2e::blocked, who: u64 = who, seq: u64 = seq);
                    seq += 1;
                }
                sum.fetch_add(seq, Ordering::Relaxed);
            });
        }
        let until = Instant::now() + crate::words::PATIENCE;
        while crate::sites::nops().1 * 10 < sites * 6 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let off = crate::sites::nops().1;
        stop.store(true, Ordering::Relaxed);
        off
    });
    // Nobody blocks anything any more.
    let until = Instant::now() + crate::words::PATIENCE;
    while crate::sites::nops().1 != sites && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let later = crate::sites::nops().1;
    println!("emitted {}\nsites {sites}\noff-at-end {off}\noff-later {later}", sum.load(Ordering::Relaxed));
}

extern "C" fn count_trap(_signal: i32) {
    TRAPS.fetch_add(1, Ordering::Relaxed);
    mote::event!(e2e::in_own_trap);
}

/// Installs a SIGTRAP handler and makes traps, with threads in event sites, until the sites are off: all its traps
/// must reach it, and none of the patcher's.
pub(crate) fn own_trap() {
    handle(Signal::SIGTRAP, count_trap);
    let (sites, _) = crate::sites::nops();
    let stop = AtomicBool::new(false);
    let mut made = 0u64;
    println!("started 1");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                mote::event!(e2e::beside_traps);
            }
        });
        let until = Instant::now() + crate::words::PATIENCE;
        while crate::sites::nops().1 != sites && Instant::now() < until {
            trap();
            made += 1;
            std::thread::sleep(Duration::from_micros(100));
        }
        trap();
        made += 1;
        stop.store(true, Ordering::Relaxed);
    });
    println!(
        "made {made}\nhandled {}\noff-at-end {}",
        TRAPS.load(Ordering::Relaxed),
        sites - crate::sites::nops().1
    );
}

fn trap() {
    // SAFETY: the program handles SIGTRAP; execution goes on behind the instruction.
    unsafe { std::arch::asm!("int3") };
}

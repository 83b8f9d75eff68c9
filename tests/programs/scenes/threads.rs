//! Threads, CPUs, and libraries that are loaded while they run.

use crate::words::Words;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::ffi::{CString, c_void};
use std::time::Duration;

/// `many THREADS EVENTS`.
pub(crate) fn many(words: &Words) {
    let (threads, events) = (words.number(0), words.number(1));
    std::thread::scope(|scope| {
        for who in 0..threads {
            std::thread::Builder::new()
                .name(format!("worker-{who}"))
                .spawn_scoped(scope, move || {
                    for seq in 0..events {
                        let check = (who * 1_000_003) ^ seq;
                        mote::event!(e2e::threaded, who: u64 = who, seq: u64 = seq, check: u64 = check);
                    }
                })
                .expect("a thread");
        }
    });
    println!("emitted {}", threads * events);
}

/// `bursts THREADS BURSTS EVENTS MILLISECONDS`: each thread stays on a CPU and writes so many events at a time, with a
/// pause after each burst. All are numbered.
pub(crate) fn bursts(words: &Words) {
    let (threads, bursts, events) = (words.number(0), words.number(1), words.number(2));
    let pause = Duration::from_millis(words.number(3));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for who in 0..threads {
            scope.spawn(move || {
                pin(&[who as usize % cpus]);
                for burst in 0..bursts {
                    for seq in burst * events..(burst + 1) * events {
                        let check = (who * 1_000_003) ^ seq;
                        mote::event!(e2e::threaded, who: u64 = who, seq: u64 = seq, check: u64 = check);
                    }
                    std::thread::sleep(pause);
                }
            });
        }
    });
    println!("threads {threads}\neach {}", bursts * events);
}

pub(crate) fn pin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    for cpu in cpus {
        let _ = set.set(*cpu);
    }
    let _ = sched_setaffinity(Pid::from_raw(0), &set);
}

/// `migrate ROUNDS`: one thread goes from CPU to CPU between its events.
pub(crate) fn migrate(words: &Words) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for seq in 0..words.number(0) {
        pin(&[seq as usize % cpus]);
        mote::event!(e2e::migrated, seq: u64 = seq);
    }
    println!("cpus {cpus}");
}

/// Threads with names, one of which is changed after its first event.
pub(crate) fn renamed() {
    let thread = std::thread::Builder::new().name("first-name".to_owned()).spawn(|| {
        mote::event!(e2e::named, step: u8 = 0);
    });
    thread.expect("a thread").join().expect("it ends");
    mote::event!(e2e::named, step: u8 = 1);
}

/// `dlopen LIBRARY EVENTS THREADS`: loads a library that carries events while threads run with all signals blocked,
/// calls it, and with a fourth word unloads it.
pub(crate) fn dlopen(words: &Words) {
    mote::event!(e2e::before_load);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..words.number(2) {
            scope.spawn(|| {
                crate::signals::block_all();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        load_and_call(words);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    mote::event!(e2e::after_load);
}

fn load_and_call(words: &Words) {
    let path = CString::new(words.text(0)).expect("no NUL");
    // SAFETY: the library's constructors are mote's own.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "cannot load {path:?}");
    // SAFETY: a library that is loaded, and a name.
    let work = unsafe { libc::dlsym(library, c"plugin_work".as_ptr()) };
    assert!(!work.is_null(), "no plugin_work");
    // SAFETY: the function has this type.
    let work = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64)>(work) };
    work(words.number(1));
    if words.text(3) == "unload" {
        // SAFETY: nothing of the library is used any more.
        unsafe { libc::dlclose(library) };
        std::thread::sleep(Duration::from_millis(50));
    }
}

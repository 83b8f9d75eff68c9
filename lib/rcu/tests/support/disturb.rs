//! What befalls readers and updaters: signals, migrations, forks.

use super::random::Random;
use super::subject::Subject;
use super::updater;
use super::world::{TARGETS, World};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Signals that handlers read in.
const SIGNAL: i32 = libc::SIGUSR1;
/// A child that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
static BODY: AtomicUsize = AtomicUsize::new(0);

/// Makes handlers read `world`.
pub fn install<S: Subject>(world: &'static World) {
    BODY.store(0, SeqCst);
    WORLD.store(std::ptr::from_ref(world).cast_mut(), SeqCst);
    BODY.store(read_in_handler::<S> as fn(&World) as usize, SeqCst);
    // SAFETY: the handler reads in sections and adds to atomics.
    unsafe { libc::signal(SIGNAL, handler as *const () as usize) };
}

extern "C" fn handler(_: i32) {
    let (world, body) = (WORLD.load(SeqCst), BODY.load(SeqCst));
    if world.is_null() || body == 0 {
        return;
    }
    // SAFETY: `install` has stored such a function.
    let body = unsafe { std::mem::transmute::<usize, fn(&World)>(body) };
    // SAFETY: worlds live for ever.
    body(unsafe { &*world });
}

fn read_in_handler<S: Subject>(world: &World) {
    let seed = world.in_handlers.fetch_add(1, Relaxed);
    S::in_handler(|guard| {
        let age = world.look(guard, &mut Random::new(seed), |random| {
            (0..random.below(200)).for_each(|_| std::hint::spin_loop());
        });
        world.count(age);
    });
}

/// Sends signals to the threads of `world` and moves them to other CPUs, until it stops.
pub fn keep_disturbing(world: &World, seed: u64) {
    let mut random = Random::new(seed);
    // SAFETY: getpid(2) has no conditions.
    let pid = unsafe { libc::getpid() };
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    while !world.stopped() {
        let tid = world.targets[random.below(TARGETS as u64) as usize].load(Relaxed);
        if tid != 0 {
            if random.once_in(8) {
                migrate(tid, random.below(cpus as u64) as usize, random.once_in(2));
            }
            // SAFETY: tgkill(2) touches no memory; a thread that has ended is not found.
            unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, SIGNAL) };
        }
        std::thread::sleep(Duration::from_micros(random.below(150)));
    }
}

/// Binds a thread to `cpu`, or lets it run on all.
fn migrate(tid: i32, cpu: usize, only: bool) {
    // SAFETY: a CPU set is a plain array of bits, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for number in 0..libc::CPU_SETSIZE as usize {
        if !only || number == cpu {
            // SAFETY: `number` is below the set's size.
            unsafe { libc::CPU_SET(number, &mut set) };
        }
    }
    // SAFETY: the kernel reads one set. A thread that has ended, or a CPU that is not ours, is refused.
    unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &set) };
}

/// Forks now and then, until the world stops.
pub fn keep_forking<S: Subject>(world: &'static World) {
    while !world.stopped() {
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: the child runs our code and leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let well = updater::update_in_child::<S>(world);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if well { 0 } else { 1 }) };
        }
        world.forks.fetch_add(1, Relaxed);
        if pid < 0 || !ends_well(pid) {
            world.failed_forks.fetch_add(1, Relaxed);
        }
    }
}

fn ends_well(pid: i32) -> bool {
    let end = Instant::now() + PATIENCE;
    let mut status = 0;
    // SAFETY: waits for our own child.
    while unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > end {
            // SAFETY: our own child, which has not been waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    status == 0
}

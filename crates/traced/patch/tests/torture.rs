//! Arming and disarming under running threads: no pass goes a wrong way, nothing crashes. Each scenario runs in a
//! process of its own. `TOGGLES` sets the calls of `apply` in each; the default is 20,000 for the plain one and less
//! for the others. `EVERY` sets after how many of them a program takes SIGTRAP over again.

mod support;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use support::child::{self, End};
use support::sites;
use support::torture::{self, Options, Report};

fn toggles(usual: u64) -> u64 {
    usual_or("TOGGLES", usual)
}

/// What the variable `name` says, or the usual number.
fn usual_or(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[track_caller]
fn check(name: &str, options: Options) -> Report {
    let report = torture::run(options);
    println!(
        "{name}: {} toggles, {} sites changed, {} blocked, {} passes, {} checked, {} hits, {} violations, {:.1} us/apply, {:.1} us/site",
        report.toggles,
        report.changed,
        report.blocked,
        report.passes,
        report.checked,
        report.hits,
        report.violations,
        report.applying.as_secs_f64() * 1e6 / report.toggles as f64,
        report.applying.as_secs_f64() * 1e6 / report.changed as f64,
    );
    assert_eq!(report.violations, 0);
    assert!(report.changed > report.toggles, "most toggles change several sites");
    assert!(report.checked > report.toggles, "runners were checked");
    assert!(report.hits > 0, "armed sites were met");
    report
}

/// With so many calls of `apply` through gates, and a quarter of it by other pages, for which the patcher sleeps.
#[track_caller]
fn passes_each_way(usual: u64, scenario: impl Fn(u64)) {
    child::passes(|| scenario(toggles(usual / 4)));
    passes_through_gates(|| scenario(toggles(usual)));
}

#[track_caller]
fn passes_through_gates(scenario: impl FnOnce()) {
    child::passes(|| {
        child::lock_memory();
        scenario();
    });
}

#[test]
fn threads_at_full_speed() {
    passes_each_way(20_000, |toggles| {
        let report = check("threads", Options { toggles, ..Options::default() });
        assert_eq!(report.blocked, 0);
    });
}

#[test]
fn through_writable_pages_when_proc_mem_is_refused() {
    child::passes(|| {
        child::refuse(libc::SYS_pwrite64, None, libc::EPERM);
        let report = check("writable pages", Options { toggles: toggles(5_000), ..Options::default() });
        assert_eq!(report.blocked, 0);
    });
}

fn blocks_sigtrap(number: usize) {
    if number == 0 {
        child::block(libc::SIGTRAP);
    }
}

#[test]
fn a_thread_that_blocks_sigtrap_meets_no_breakpoint() {
    child::passes(|| {
        let options = Options { toggles: toggles(3_000), prepare: blocks_sigtrap, ..Options::default() };
        assert_eq!(check("pages, SIGTRAP blocked", options).blocked, 0);
        assert_eq!(mote_sys::signal::action(libc::SIGTRAP).expect("action").handler, libc::SIG_DFL);
    });
}

#[test]
fn a_thread_that_blocks_sigtrap_lives() {
    passes_through_gates(|| {
        let prepare = |number| {
            if number == 0 {
                mote_patch::set_hops(mote_patch::Hops::Always);
            }
            blocks_sigtrap(number);
        };
        let report =
            check("blocks SIGTRAP", Options { toggles: toggles(10_000), prepare, ..Options::default() });
        assert!(report.blocked > 0, "sites at 7 modulo 8 cannot be changed");
    });
}

static SEEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn seen_by_program(_: i32) {
    SEEN.fetch_add(1, SeqCst);
    sites::all().iter().for_each(|site| {
        site.pass();
    });
}

#[test]
fn the_programs_own_traps_reach_its_handler() {
    for before in [true, false] {
        passes_through_gates(|| {
            static RAISED: AtomicU64 = AtomicU64::new(0);
            let set = || child::set_handler(libc::SIGTRAP, seen_by_program as *const () as usize, 0);
            if !before {
                // Ours first: two threads make the first edits need a handler.
                let options = Options { toggles: 50, ..Options::default() };
                torture::run(options);
            }
            set();
            let between = || {
                RAISED.fetch_add(1, SeqCst);
                child::int3();
            };
            // It takes SIGTRAP over again now and then; not with a trap of ours on its way, see
            // docs/soundness/patch.md, residual races.
            let before_toggle = |toggle: u64| {
                let every = usual_or("EVERY", 100);
                if toggle % every == every - 1 {
                    torture::settle();
                    child::set_handler(libc::SIGTRAP, seen_by_program as *const () as usize, 0);
                }
            };
            let options = Options { toggles: toggles(5_000), between, before_toggle, ..Options::default() };
            check("own traps", options);
            assert_eq!(SEEN.load(SeqCst), RAISED.load(SeqCst));
            assert!(RAISED.load(SeqCst) > 0);
        });
    }
}

extern "C" fn storm(_: i32) {
    sites::all().iter().for_each(|site| {
        site.pass();
    });
}

#[test]
fn signals_that_run_through_sites() {
    passes_each_way(10_000, |toggles| {
        for signal in [libc::SIGUSR1, libc::SIGALRM] {
            child::set_handler(signal, storm as *const () as usize, libc::SA_RESTART);
        }
        let tick = libc::timeval { tv_sec: 0, tv_usec: 300 };
        let timer = libc::itimerval { it_interval: tick, it_value: tick };
        let before_toggle = |_| {
            // SAFETY: a signal to the own process, which handles it.
            unsafe { libc::kill(mote_sys::process::pid(), libc::SIGUSR1) };
        };
        let between = || {
            // SAFETY: a signal to the own thread, which handles it.
            unsafe { libc::raise(libc::SIGUSR1) };
        };
        // SAFETY: `timer` outlives the call.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
        check("signal storm", Options { toggles, between, before_toggle, ..Options::default() });
    });
}

/// Two more threads patch the same sites at the same time: each site is always a whole instruction, and the lock
/// keeps batches apart.
#[test]
fn several_patchers() {
    passes_each_way(5_000, |toggles| {
        let edits = |n: u64| {
            let arm = move |site: &sites::Site| {
                if n.is_multiple_of(2) { site.arm() } else { site.disarm() }
            };
            sites::all().iter().skip(n as usize % 68).take(5).map(arm)
        };
        let run = |start: u64| {
            for n in start..start + toggles {
                sites::apply_in_time(edits(n));
                assert!(pass_all() <= 2);
            }
        };
        std::thread::scope(|scope| {
            let patchers: Vec<_> = [0, 31].map(|start| scope.spawn(move || run(start))).into();
            run(17);
            for patcher in patchers {
                patcher.join().expect("patcher");
            }
        });
        sites::apply_all(sites::all().iter().map(|site| site.disarm()));
        assert_eq!(pass_all(), 0);
    });
}

fn pass_all() -> u32 {
    sites::all().iter().map(|site| site.pass()).max().unwrap_or(0)
}

#[test]
fn children_of_a_fork_find_whole_text() {
    passes_each_way(4_000, |toggles| {
        let before_toggle = |toggle: u64| {
            if !toggle.is_multiple_of(20) {
                return;
            }
            std::thread::scope(|scope| {
                // On another thread than the one that patches; it takes the lock as the agent would.
                scope.spawn(|| {
                    mote_patch::fork_prepare();
                    let end = child::run(|| {
                        mote_patch::fork_done();
                        assert!(pass_all() <= 2);
                        sites::apply_all(sites::all().iter().map(|site| site.arm()));
                        assert!(sites::all().iter().all(|site| site.pass() == 1));
                    });
                    mote_patch::fork_done();
                    assert_eq!(end, End::Exit(0));
                });
            });
        };
        check("fork", Options { toggles, runners: 2, before_toggle, ..Options::default() });
    });
}

/// A fork that no handler announced copies text in the middle of a batch; the child runs through it all the same, and
/// can finish it.
#[test]
fn children_of_an_unannounced_fork_can_go_on() {
    passes_through_gates(|| {
        static OPEN: AtomicU64 = AtomicU64::new(0);
        let between = || {
            let end = child::run(|| {
                // Open sites act as what they become.
                assert!(pass_all() <= 2);
                let foreign = |site: &&sites::Site| {
                    // SAFETY: a site.
                    matches!(unsafe { mote_patch::state(site.addr) }, mote_patch::State::Foreign(_))
                };
                let open = sites::all().iter().filter(foreign).count();
                // SAFETY: a child with one thread, which holds no guard.
                unsafe { mote_patch::reset_after_fork() }.expect("reset");
                assert_eq!(sites::all().iter().filter(foreign).count(), 0);
                sites::apply_all(sites::all().iter().map(|site| site.arm_other()));
                assert!(sites::all().iter().all(|site| site.pass() == 2));
                // SAFETY: ends the child.
                unsafe { libc::_exit(if open > 0 { 7 } else { 0 }) };
            });
            match end {
                End::Exit(0) => {}
                End::Exit(7) => {
                    OPEN.fetch_add(1, SeqCst);
                }
                other => panic!("child ended with {other:?}"),
            }
        };
        check(
            "unannounced fork",
            Options { toggles: toggles(4_000), runners: 2, between, ..Options::default() },
        );
        println!("unannounced fork: {} children found an open batch", OPEN.load(SeqCst));
        assert!(OPEN.load(SeqCst) > 0);
    });
}

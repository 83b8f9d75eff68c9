//! What patching costs: prints the figures that `docs/soundness/patch.md` quotes. That all sites are what they were
//! made is checked; how long it took depends on what else the machine does.

mod support;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::child;
use support::sites::{self, Site};

/// Prints the median of five runs, each the mean of `repeat` calls of `apply`.
fn cost(name: &str, repeat: u32, sites: &[Site]) {
    let mut runs: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            for n in 0..repeat {
                let edit = |site: &Site| if n.is_multiple_of(2) { site.arm() } else { site.disarm() };
                let (applied, _) = sites::apply(sites.iter().map(edit));
                applied.expect("applied");
            }
            start.elapsed().as_secs_f64() * 1e6 / f64::from(repeat)
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    let (median, spread) = (runs[2], runs[4] - runs[0]);
    println!("{name}, {} sites: {median:.1} us (spread {spread:.1})", sites.len());
    // The last edits have disarmed them.
    assert!(repeat.is_multiple_of(2) && sites.iter().all(|site| site.pass() == 0));
}

/// Runs `patch` beside `count` threads that are in `run` over and over.
fn beside(count: usize, run: fn(), patch: impl FnOnce()) {
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, SeqCst);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(move || {
                while !STOP.load(SeqCst) {
                    run();
                }
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        patch();
        STOP.store(true, SeqCst);
    });
}

fn doze() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn one_site_and_a_batch() {
    child::passes(usual_costs);
    println!("through gates:");
    child::passes(|| {
        child::lock_memory();
        usual_costs();
        let hops: Vec<Site> = sites::all().iter().copied().filter(|site| site.addr % 8 != 7).collect();
        let block_and_doze = || {
            mote_patch::set_hops(mote_patch::Hops::Always);
            child::block(libc::SIGTRAP);
            doze();
        };
        beside(1, block_and_doze, || {
            cost("beside a thread that blocks SIGTRAP", 100, &hops[..1]);
            cost("beside a thread that blocks SIGTRAP", 50, &hops);
        });
    });
}

fn usual_costs() {
    let all = sites::all();
    cost("alone", 500, &all[..1]);
    cost("alone", 50, &all[..64]);
    beside(1, std::hint::spin_loop, || {
        cost("beside 1 running thread", 200, &all[..1]);
        cost("beside 1 running thread", 50, &all[..64]);
    });
    beside(64, doze, || {
        cost("beside 64 sleeping threads", 20, &all[..1]);
        cost("beside 64 sleeping threads", 20, &all[..64]);
    });
}

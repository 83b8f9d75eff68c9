//! `torture patch`: threads run through sites while these are armed, moved and disarmed.

use super::finding::{Finding, add};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use support::child::{self, End};
use support::sites;
use support::torture::{self, Options, Report};

#[path = "../../../crates/traced/patch/tests/support/mod.rs"]
mod support;

/// Calls of `apply` in one child.
const TOGGLES: u64 = 1_000;

type Scenario = (&'static str, fn() -> Report);

const SCENARIOS: [Scenario; 4] = [
    ("threads", || torture::run(plain())),
    ("writable_pages", || {
        child::refuse(libc::SYS_pwrite64, None, libc::EPERM);
        torture::run(plain())
    }),
    ("sigtrap_blocked", || {
        let prepare = |number| {
            if number == 0 {
                mote_patch::set_hops(mote_patch::Hops::Always);
                child::block(libc::SIGTRAP);
            }
        };
        torture::run(Options { prepare, ..plain() })
    }),
    ("signals", signals),
];

/// Runs all scenarios within `length`, and reports each.
pub(super) fn run(length: Duration, report: impl Fn(&Finding)) -> Finding {
    let share = length / SCENARIOS.len() as u32;
    let mut sum = Finding::default();
    for (name, scenario) in SCENARIOS {
        let mut finding = Finding { case: name.to_owned(), ..Finding::default() };
        let (mut toggles, mut changed) = (0, 0);
        let end = Instant::now() + share;
        while Instant::now() < end {
            match in_child(scenario) {
                Ok([violations, checked, some_toggles, some_changed]) => {
                    finding.violations += violations;
                    finding.events += checked;
                    toggles += some_toggles;
                    changed += some_changed;
                }
                Err(how) => {
                    finding.violations += 1;
                    finding.messages.push(format!("{name}: the process ended with {how:?}"));
                }
            }
        }
        finding.details = format!("{toggles} toggles, {changed} sites changed");
        report(&finding);
        add(&mut sum, &finding);
    }
    sum
}

fn plain() -> Options {
    Options { toggles: TOGGLES, ..Options::default() }
}

extern "C" fn storm(_: i32) {
    sites::all().iter().for_each(|site| {
        site.pass();
    });
}

fn signals() -> Report {
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
    torture::run(Options { between, before_toggle, ..plain() })
}

/// Runs a scenario in a process of its own. Returns violations, checked passes, toggles and changed sites, or how it
/// died.
fn in_child(scenario: fn() -> Report) -> Result<[u64; 4], End> {
    let (mut from, to) = std::io::pipe().map_err(|_| End::Exit(-1))?;
    let end = child::run(|| {
        let report = scenario();
        let numbers = [report.violations, report.checked, report.toggles, report.changed];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        (&to).write_all(&bytes).expect("a pipe that is read");
    });
    drop(to);
    let mut bytes = Vec::new();
    let whole = from.read_to_end(&mut bytes).is_ok_and(|len| len == 32) && end == End::Exit(0);
    let (words, _) = bytes.as_chunks::<8>();
    match words {
        [a, b, c, d] if whole => Ok([*a, *b, *c, *d].map(u64::from_le_bytes)),
        _ => Err(end),
    }
}

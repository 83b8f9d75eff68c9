//! Torture: threads run through all sites at full speed while they are armed, moved and disarmed.
//!
//! The promise that is checked: every pass that starts after `apply` returned goes the new way. For each site there
//! is a word that says which way, or that it is changing. A runner reads it before and after its pass; if it is the
//! same and not "changing", the whole pass lay between two changes, and there is only one right answer.

use super::sites::{self, Site};
use mote_patch::{Code, Refusal};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Calls of `apply`, each with a random part of the sites.
    pub toggles: u64,
    /// Threads that run through the sites.
    pub runners: usize,
    /// What each runner does first, with its number.
    pub prepare: fn(usize),
    /// What each runner does after each round through all sites.
    pub between: fn(),
    /// What the patching thread does before each `apply`, with the number of the toggle.
    pub before_toggle: fn(u64),
}

impl Default for Options {
    fn default() -> Options {
        Options { toggles: 20_000, runners: 3, prepare: |_| {}, between: || {}, before_toggle: |_| {} }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Calls of `apply`.
    pub toggles: u64,
    /// Sites changed.
    pub changed: u64,
    /// Sites that could not be changed because SIGTRAP was blocked.
    pub blocked: u64,
    /// Passes through a site.
    pub passes: u64,
    /// Passes whose way was checked.
    pub checked: u64,
    /// Passes that went to a target.
    pub hits: u64,
    /// Passes that went a wrong way. Must be 0.
    pub violations: u64,
    /// Time spent in `apply`.
    pub applying: Duration,
}

/// The word of a site: bits 0..2 the answer of a pass, or `CHANGING`; above, a count that makes each state unique.
const CHANGING: u64 = 3;

static STATES: [AtomicU64; 128] = [const { AtomicU64::new(0) }; 128];
static STOP: AtomicBool = AtomicBool::new(false);
/// Runners that have begun: before, glibc has their signals blocked.
static BEGUN: AtomicUsize = AtomicUsize::new(0);
/// Rounds through all sites that each runner has made.
static ROUNDS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Runs the torture in this process. One at a time.
pub fn run(options: Options) -> Report {
    let sites = sites::all();
    assert!(sites.len() <= STATES.len());
    STOP.store(false, SeqCst);
    BEGUN.store(0, SeqCst);
    for (state, site) in STATES.iter().zip(sites) {
        state.store(site.pass().into(), SeqCst);
    }
    std::thread::scope(|scope| {
        let runners: Vec<_> =
            (0..options.runners).map(|n| scope.spawn(move || runner(n, sites, options))).collect();
        while BEGUN.load(SeqCst) < options.runners {
            std::thread::yield_now();
        }
        let mut report = patch(sites, options);
        STOP.store(true, SeqCst);
        for runner in runners {
            let seen = runner.join().expect("runner");
            report.passes += seen.passes;
            report.checked += seen.checked;
            report.hits += seen.hits;
            report.violations += seen.violations;
        }
        report
    })
}

/// Waits until each runner has made a whole round from now on: none has a trap of a batch before under way.
pub fn settle() {
    let rounds = ROUNDS.iter().take(BEGUN.load(SeqCst));
    let wanted: Vec<_> = rounds.map(|round| (round, round.load(SeqCst) + 2)).collect();
    while !STOP.load(SeqCst) && wanted.iter().any(|(round, wanted)| round.load(SeqCst) < *wanted) {
        std::thread::yield_now();
    }
}

fn runner(number: usize, sites: &[Site], options: Options) -> Report {
    (options.prepare)(number);
    BEGUN.fetch_add(1, SeqCst);
    let mut seen = Report::default();
    while !STOP.load(SeqCst) {
        for (site, state) in sites.iter().zip(&STATES) {
            let before = state.load(SeqCst);
            let way = site.pass();
            let after = state.load(SeqCst);
            seen.passes += 1;
            seen.hits += u64::from(way != 0);
            if before == after && before & 3 != CHANGING {
                seen.checked += 1;
                seen.violations += u64::from(u64::from(way) != before & 3);
            } else {
                seen.violations += u64::from(way > 2);
            }
        }
        (options.between)();
        ROUNDS[number].fetch_add(1, SeqCst);
    }
    seen
}

fn patch(sites: &[Site], options: Options) -> Report {
    let mut report = Report::default();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut last: Vec<u64> = sites.iter().map(|site| site.pass().into()).collect();
    for toggle in 0..options.toggles {
        (options.before_toggle)(toggle);
        let chosen: Vec<_> = choose(sites, &mut random);
        for (n, _, _) in &chosen {
            STATES[*n].store((toggle + 1) << 2 | CHANGING, SeqCst);
        }
        let edits = chosen.iter().map(|(_, _, edit)| *edit);
        let start = Instant::now();
        let (applied, refused) = sites::apply(edits);
        report.applying += start.elapsed();
        report.changed += applied.expect("applied").changed as u64;
        for (n, way, edit) in &chosen {
            match refused.iter().find(|(refused, _)| refused == edit) {
                None => last[*n] = *way,
                Some((_, why)) => {
                    assert_eq!(*why, Refusal::Blocked);
                    report.blocked += 1;
                }
            }
            STATES[*n].store((toggle + 1) << 2 | last[*n], SeqCst);
        }
        report.toggles += 1;
        if toggle % 8 == 0 {
            // Lets runners see the sites in peace for a moment.
            std::thread::sleep(Duration::from_micros(random.below(200)));
        }
    }
    report
}

/// Chooses one site, some, or all, and what each should become.
fn choose(sites: &[Site], random: &mut Random) -> Vec<(usize, u64, mote_patch::Edit)> {
    let one_of = [1, 4, 68][random.below(3) as usize];
    sites
        .iter()
        .enumerate()
        .filter_map(|(n, site)| {
            if random.below(one_of) != 0 {
                return None;
            }
            let way = random.below(3);
            let to = match way {
                0 => Code::Nop,
                1 => Code::Jump(site.target),
                _ => Code::Jump(site.other_target),
            };
            Some((n, way, mote_patch::Edit { addr: site.addr, to }))
        })
        .collect()
}

/// xorshift64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

//! All threads of one flavour for a while, and the verdict.

use super::subject::Subject;
use super::world::{AGES, TRACKS, World};
use super::{disturb, reader, updater};
use mote_reclaim::end_guards_of_the_dead;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What befalls the threads of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Everything: readers come, go and die, are interrupted and moved; the process forks; all kinds of updaters.
    Storm,
    /// One reader against one updater at full speed: for what is out of order by nanoseconds.
    Race,
}

impl Weather {
    pub const ALL: [Weather; 2] = [Weather::Storm, Weather::Race];

    pub fn name(self) -> &'static str {
        match self {
            Weather::Storm => "storm",
            Weather::Race => "race",
        }
    }

    fn readers(self) -> u64 {
        if self == Weather::Storm { 3 } else { 1 }
    }

    fn tracks(self) -> usize {
        if self == Weather::Storm { TRACKS } else { 1 }
    }
}

/// Without an update for so long something hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a round has found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Sections that saw something too old or broken, children that failed, pointers that hang.
    pub violations: u64,
    /// Sections by the age of what they saw.
    pub ages: [u64; AGES],
    pub updates: Vec<u64>,
    pub in_handlers: u64,
    pub lives: u64,
    pub deaths_inside: u64,
    pub forks: u64,
    pub messages: Vec<String>,
}

impl Verdict {
    /// Sections looked at.
    pub fn sections(&self) -> u64 {
        self.ages.iter().sum()
    }
}

/// Tortures one flavour for `length`.
pub fn run<S: Subject>(weather: Weather, length: Duration, seed: u64) -> Verdict {
    // SAFETY: what readers look at lives for ever; they leave their references behind when they die.
    unsafe { end_guards_of_the_dead::<S>() };
    // Threads that hang, and late signals, may use it for ever.
    let world: &'static World = Box::leak(Box::new(World::new(weather.tracks())));
    disturb::install::<S>(world);
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for number in 0..weather.readers() {
        let seed = seed ^ (number << 8);
        threads.push(match weather {
            Weather::Storm => thread::spawn(move || reader::keep_reading::<S>(world, seed)),
            Weather::Race => thread::spawn(move || reader::race::<S>(world, seed)),
        });
    }
    for place in 0..weather.tracks() {
        threads.push(thread::spawn(move || updater::keep_updating::<S>(world, place, seed + place as u64)));
    }
    if weather == Weather::Storm {
        threads.push(thread::spawn(move || disturb::keep_disturbing(world, seed)));
        threads.push(thread::spawn(move || disturb::keep_forking::<S>(world)));
    }
    let mut messages = watch(world, length);
    world.stop.store(true, Relaxed);
    messages.extend(end(threads));
    verdict(world, messages)
}

/// Waits for the threads, but not for ever; returns what is wrong with them.
fn end(threads: Vec<JoinHandle<()>>) -> Option<String> {
    let began = Instant::now();
    let hang = || threads.iter().filter(|thread| !thread.is_finished()).count();
    while hang() != 0 && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
    let hang = hang();
    if hang != 0 {
        return Some(format!("{hang} threads hang"));
    }
    let ended = |thread: JoinHandle<()>| thread.join().is_ok();
    (!threads.into_iter().all(ended)).then(|| "a thread has panicked".to_owned())
}

/// Lets `length` pass; returns which tracks hang.
fn watch(world: &World, length: Duration) -> Vec<String> {
    let began = Instant::now();
    let mut last = vec![(0, began); world.tracks.len()];
    let mut patience = length;
    while began.elapsed() < patience {
        thread::sleep(Duration::from_millis(10).min(length));
        for (place, (track, last)) in world.tracks.iter().zip(&mut last).enumerate() {
            let updates = track.updates.load(Relaxed);
            if updates != last.0 {
                *last = (updates, Instant::now());
            } else if last.1.elapsed() > PATIENCE {
                return vec![format!("pointer {place} hangs after {updates} updates")];
            }
        }
        // On a busy machine some updater may not have had its turn.
        if last.iter().any(|(updates, _)| *updates < 2) {
            patience = began.elapsed() + Duration::from_millis(50);
        }
        patience = patience.max(length);
    }
    Vec::new()
}

fn verdict(world: &World, mut messages: Vec<String>) -> Verdict {
    let ages = world.histogram();
    let mut violations = world.violations() + messages.len() as u64;
    let broken = world.broken.load(Relaxed);
    if broken != 0 {
        messages.push(format!("{broken} sections saw an element that was used again"));
    }
    if ages[2..].iter().any(|count| *count != 0) {
        messages.push(format!("sections by the age of what they saw: {ages:?}; only 0 and 1 are allowed"));
    }
    let failed = world.failed_forks.load(Relaxed);
    if failed != 0 {
        messages.push(format!("{failed} children of a fork failed or hung"));
    }
    if ages[0] + ages[1] == 0 {
        violations += 1;
        messages.push("nothing was read".to_owned());
    }
    Verdict {
        violations,
        ages,
        updates: world.tracks.iter().map(|track| track.updates.load(Relaxed)).collect(),
        in_handlers: world.in_handlers.load(Relaxed),
        lives: world.lives.load(Relaxed),
        deaths_inside: world.deaths_inside.load(Relaxed),
        forks: world.forks.load(Relaxed),
        messages,
    }
}

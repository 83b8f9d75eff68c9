//! A round: one channel, its writers, its reader, the verdict.

use super::board::Board;
use super::check::Check;
use super::child;
use super::crowd::{self, Orders};
use super::drain::Drain;
use super::random::Random;
use super::scenario::{Case, Kind};
use super::tally::Tally;
use mote_ring::reader::Channel;
use mote_ring::{Clock, Geometry};
use mote_sys::{time, tsc};
use std::time::{Duration, Instant};

/// Runs rounds of `case` for `length`, each of about `round` and with sizes of its own.
pub fn run_for(case: Case, length: Duration, round: Duration, seed: u64) -> Tally {
    mote_sync::rseq::find();
    let end = Instant::now() + length;
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    while Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now());
        tally.add(&run(case, left.min(round), random.next()));
    }
    tally
}

/// Runs one round.
pub fn run(case: Case, length: Duration, seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let geometry = geometry(case, &mut random);
    let channel = Channel::make(geometry, 0..geometry.rings()).expect("memory for the rings");
    let board = Board::new();
    let mut check = Check::new(geometry.rings() as usize, geometry.cpus as usize, now(geometry.clock));
    let orders = Orders {
        case,
        geometry,
        memfd: channel.memfd(),
        board: &board,
        length,
        seed: random.next(),
        rests: random.once_in(2),
    };
    let mut drain = Drain::new(&channel, random.next());
    let director = child::start(|| crowd::direct(orders));
    let end = loop {
        if let Some(end) = child::ended(director) {
            break end;
        }
        drain.pass(&mut check);
    };
    if end != 0 {
        check.violation(|| format!("the writers ended with {end}"));
    }
    let may_tear = case.scenario.killed && !matches!(case.kind, Kind::Rseq | Kind::Direct);
    let torn = drain.finish(&mut check, may_tear);
    let (told, lost) = (board.told(), drain.lost());
    check.finish(&told, &lost, torn, case.mode);
    for message in &mut check.messages {
        *message = format!("{} seed {seed:#x} {geometry:?}: {message}", case.name());
    }
    Tally {
        rounds: 1,
        events: check.events,
        emitted: told.iter().map(|told| told.begun).sum(),
        lost_counted: lost.iter().sum::<u64>() + torn,
        torn,
        overwritten: drain.overwritten,
        nested: board.nested(),
        kills: board.kills(),
        killed_inside: told.iter().map(|told| told.open()).sum(),
        violations: check.violations,
        messages: check.messages,
    }
}

/// Small rings, so that writers leave sub-buffers and lap the reader all the time.
fn geometry(case: Case, random: &mut Random) -> Geometry {
    let cpus = mote_sys::process::possible_cpus().expect("the number of CPUs");
    Geometry {
        cpus: if case.scenario.one_ring { 1 } else { cpus },
        shared: 1 + random.below(2) as u32,
        sub_bits: 12 + random.below(5) as u32,
        count_bits: 1 + random.below(3) as u32,
        mode: case.mode,
        clock: case.scenario.clock,
    }
}

fn now(clock: Clock) -> u64 {
    match clock {
        Clock::Tsc => tsc::count(),
        Clock::Monotonic => time::clock_gettime(time::ClockId::Monotonic),
    }
}

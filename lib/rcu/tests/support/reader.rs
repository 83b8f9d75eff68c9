//! Readers: threads that live for a moment or longer, and sections of all kinds.

use super::random::Random;
use super::subject::Subject;
use super::world::{AGES, Age, World};
use mote_reclaim::Guard;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Starts readers one after the other until the world stops.
pub fn keep_reading<S: Subject>(world: &'static World, seed: u64) {
    let mut random = Random::new(seed);
    while !world.stopped() {
        let seed = random.next();
        let life = Duration::from_micros(if random.once_in(4) { 50 } else { 1000 + random.below(20_000) });
        if std::thread::spawn(move || live::<S>(world, seed, life)).join().is_err() {
            world.broken.fetch_add(1, Relaxed);
        }
        world.lives.fetch_add(1, Relaxed);
    }
}

/// One reader for all of the round, in sections that last about as long as a grace period.
///
/// Before each it writes lines that the updater also writes. The store that begins the section has to wait behind
/// those, and the loads of the section do not, unless something keeps them in order.
pub fn race<S: Subject>(world: &'static World, seed: u64) {
    let mut random = Random::new(seed);
    let mut reader = S::register();
    while !world.stopped() {
        let mut ages = [0u64; AGES + 1];
        for number in 0..256 {
            let spins = random.below(100);
            let noise = || world.noise.iter().for_each(|line| line.store(spins, Relaxed));
            let look = |guard: &Guard<'_, S>| {
                let stay = |_: &mut Random| (0..spins).for_each(|_| std::hint::spin_loop());
                let Age(age) = world.look(guard, &mut random, stay);
                ages[age] += 1;
            };
            if number % 8 == 0 {
                S::nested_section(&mut reader, look);
            } else {
                S::section(&mut reader, noise, look);
            }
        }
        world.ages.iter().zip(ages).for_each(|(sum, count)| _ = sum.fetch_add(count, Relaxed));
        world.broken.fetch_add(ages[AGES], Relaxed);
    }
}

/// The life of one reader.
fn live<S: Subject>(world: &World, seed: u64, life: Duration) {
    let mut random = Random::new(seed);
    let _target = world.target();
    let mut reader = S::register();
    let end = Instant::now() + life;
    let mut sections = 0u64;
    while !sections.is_multiple_of(64) || Instant::now() < end {
        let look = |guard: &Guard<'_, S>| world.count(world.look(guard, &mut random, stay));
        if sections.is_multiple_of(3) {
            S::nested_section(&mut reader, look);
        } else {
            S::section(&mut reader, || (), look);
        }
        sections += 1;
    }
    match random.below(8) {
        0 => {
            S::die_inside(reader);
            world.deaths_inside.fetch_add(1, Relaxed);
        }
        1 => std::mem::forget(reader),
        _ => {}
    }
}

/// Stays in a section: mostly not at all.
pub fn stay(random: &mut Random) {
    match random.below(4096) {
        0 => std::thread::sleep(Duration::from_micros(50)),
        1..8 => std::thread::yield_now(),
        8..128 => (0..random.below(4000)).for_each(|_| std::hint::spin_loop()),
        128..1024 => (0..random.below(50)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

//! Updaters: one for each pointer, each waits for grace periods in its own way.

use super::beside::beside;
use super::random::Random;
use super::subject::Subject;
use super::world::{Element, TRACKS, World};
use mote_reclaim::{Head, barrier, call, start_poll, synchronize};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// Updates track `place` until the world stops.
pub fn keep_updating<S: Subject>(world: &'static World, place: usize, seed: u64) {
    let mut random = Random::new(seed);
    let _target = world.target();
    let mut reader = S::register();
    while !world.stopped() {
        if world.tracks.len() == 1 {
            world.noise.iter().for_each(|line| line.store(1, Relaxed));
        }
        world.tracks[place].update(|old| wait::<S>(&mut reader, place, old));
        if world.tracks.len() > 1 && random.once_in(512) {
            std::thread::sleep(Duration::from_micros(random.below(200)));
        }
    }
}

fn wait<S: Subject>(reader: &mut S::Reader, place: usize, old: &Element) {
    match place {
        0 | 1 => S::wait(reader),
        2 => {
            let token = start_poll::<S>();
            while !token.is_done() {
                // A section between two looks; for QSBR it ends in a quiescent state.
                S::section(reader, || (), |_| ());
                std::thread::yield_now();
            }
        }
        _ => {
            old.passed.store(false, Relaxed);
            // SAFETY: the element lives for ever, and the callback only stores to an atomic of it.
            unsafe { call::<S>(NonNull::from(&old.head), pass) };
            while !old.passed.load(Acquire) {
                S::section(reader, || (), |_| ());
                std::thread::yield_now();
            }
        }
    }
}

/// The callback.
///
/// # Safety
/// `head` is the first field of an [`Element`].
unsafe fn pass(head: NonNull<Head>) {
    // SAFETY: the caller's promise.
    unsafe { head.cast::<Element>().as_ref() }.passed.store(true, Release);
}

/// What the child of a fork does: a few updates of each kind beside a reader. Returns true when all is well.
pub fn update_in_child<S: Subject>(world: &'static World) -> bool {
    for track in &world.tracks {
        for _ in 0..3 {
            track.update(|_| beside(synchronize::<S>));
        }
    }
    let token = start_poll::<S>();
    let polled = beside(move || (0..1_000_000).any(|_| token.is_done()));
    mote_reclaim::defer::<S>(|| {});
    beside(barrier::<S>);
    let mut random = Random::new(1);
    let mut reader = S::register();
    (0..TRACKS * 4).for_each(|_| {
        S::section(&mut reader, || (), |guard| world.count(world.look(guard, &mut random, |_| ())))
    });
    polled && world.violations() == 0
}

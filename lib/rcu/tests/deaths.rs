//! Threads that die inside of a section hold nothing up in a program that says that it leaks no guards. A file of its
//! own: it says so for the process.

use mote_reclaim::*;
use std::mem::forget;

/// Says that no thread uses what was dereferenced with a guard of a dead thread.
fn no_leaks<F: Flavor>() {
    // SAFETY: nothing is dereferenced here.
    unsafe { end_guards_of_the_dead::<F>() };
}

fn deaths_hold_nothing_up<F: Registered>() {
    no_leaks::<F>();
    let inside = || {
        let thread = Thread::<F>::register().expect("a free slot");
        forget(thread.read());
        forget(thread);
    };
    for _ in 0..3 {
        std::thread::spawn(inside).join().expect("an end without a word");
    }
    synchronize::<F>();
    defer::<F>(|| ());
    barrier::<F>();
}

#[test]
fn threads_that_die_inside_a_section_hold_nothing_up() {
    deaths_hold_nothing_up::<Qsbr>();
    deaths_hold_nothing_up::<General>();
    deaths_hold_nothing_up::<Expedited>();
    deaths_hold_nothing_up::<Signal>();
    no_leaks::<Library>();
    std::thread::spawn(|| forget(library::read())).join().expect("an end without a word");
    synchronize::<Library>();
}

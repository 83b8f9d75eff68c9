//! With a queue for each CPU, callbacks run on several workers, none is lost, and `barrier` waits for all.

use mote_reclaim::{Library, barrier, defer, library, pending, reclaim_per_cpu};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

const EACH: u32 = 5_000;

/// Lets the calling thread run on `cpu` only. False when it may not.
fn pin(cpu: usize) -> bool {
    // SAFETY: a CPU set is a plain array of bits, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel reads one set.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0 }
}

#[test]
fn each_cpu_has_a_worker_and_barrier_waits_for_all() {
    reclaim_per_cpu::<Library>();
    let ran = Arc::new(Mutex::new(HashMap::<usize, (u32, HashSet<ThreadId>)>::new()));
    let enqueuers: Vec<_> = [0, 1]
        .map(|cpu| {
            let ran = ran.clone();
            thread::spawn(move || {
                let pinned = pin(cpu);
                for number in 0..EACH {
                    let ran = ran.clone();
                    let _section = (number % 2 == 0).then(library::read);
                    defer::<Library>(move || {
                        let mut ran = ran.lock().expect("no callback panics");
                        let (count, workers) = ran.entry(cpu).or_default();
                        *count += 1;
                        workers.insert(thread::current().id());
                    });
                }
                pinned && mote_sync::rseq::cpu_hint().is_some()
            })
        })
        .into_iter()
        .collect();
    let pinned =
        enqueuers.into_iter().map(|thread| thread.join().expect("no panic")).fold(true, |a, b| a & b);
    barrier::<Library>();
    let ran = ran.lock().expect("no callback panics");
    let counts = [0, 1].map(|cpu| ran.get(&cpu).map_or(0, |(count, _)| *count));
    assert_eq!((counts, pending::<Library>()), ([EACH; 2], 0));
    if !pinned {
        mote_skip::skip("which workers ran them; this machine has no second CPU, or no rseq(2)");
        return;
    }
    let workers = |cpu: usize| &ran.get(&cpu).expect("counted").1;
    assert_eq!((workers(0).len(), workers(1).len()), (1, 1), "one worker for a CPU");
    assert!(workers(0).is_disjoint(workers(1)), "a worker of its own for each CPU");
}

//! Panics that are caught, on the way of which values are dropped: in the first thread, in others, and in a destructor.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

static DROPPED: AtomicU64 = AtomicU64::new(0);

struct Counted(Vec<u64>);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0.len() as u64, Ordering::Relaxed);
    }
}

/// Catches a panic while one is on its way.
struct Catches;

impl Drop for Catches {
    fn drop(&mut self) {
        let caught = catch_unwind(|| deep(3));
        DROPPED.fetch_add(u64::from(caught.is_err()), Ordering::Relaxed);
    }
}

#[inline(never)]
fn deep(level: usize) -> u64 {
    let counted = Counted(vec![1; level]);
    let text = format!("level {}", level);
    if level == 0 {
        panic!("at the end of {}", text);
    }
    deep(level - 1) + counted.0.len() as u64 + text.len() as u64
}

/// What a closure, a trait object and an iterator have to unwind.
#[inline(never)]
fn through(calls: &[Box<dyn Fn(usize) -> u64 + Send + Sync>], level: usize) -> u64 {
    calls.iter().map(|call| call(level)).sum()
}

fn main() {
    // Nothing is said: what is written would be of the same length each time, but it is no use.
    std::panic::set_hook(Box::new(|_| {}));
    let mut caught = 0;
    for level in 1..20 {
        caught += u64::from(catch_unwind(|| deep(level)).is_err());
    }
    let calls: Vec<Box<dyn Fn(usize) -> u64 + Send + Sync>> =
        vec![Box::new(|level| level as u64), Box::new(|level| deep(level)), Box::new(|_| unreachable!())];
    caught += u64::from(catch_unwind(AssertUnwindSafe(|| through(&calls, 5))).is_err());
    let nested = catch_unwind(|| {
        let _catches = Catches;
        deep(2)
    });
    caught += u64::from(nested.is_err());
    let again = catch_unwind(|| {
        let first = catch_unwind(|| deep(4)).expect_err("it panics");
        let _counted = Counted(vec![0; 7]);
        resume_unwind(first)
    });
    caught += u64::from(again.is_err());
    let threads: Vec<_> = (0..3).map(|level| thread::spawn(move || deep(10 + level))).collect();
    caught += threads.into_iter().filter_map(|thread| thread.join().err()).count() as u64;
    // 19, one each of the three, three threads.
    println!("{} caught, {} dropped", caught, DROPPED.load(Ordering::Relaxed));
}

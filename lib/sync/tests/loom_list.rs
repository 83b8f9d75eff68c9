//! A list that only grows, in all interleavings and memory orders, by loom. What is in it has a cell that loom watches:
//! it is filled before it is added.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mote-trace-sync --test loom_list`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use mote_sync::{List, Listed, Next};

struct Number {
    number: UnsafeCell<u32>,
    next: Next<Number>,
}

// SAFETY: loom checks all accesses of the cell, which is the point.
unsafe impl Sync for Number {}

impl Listed for Number {
    fn next(&self) -> &Next<Number> {
        &self.next
    }
}

fn add(list: &List<Number>, number: u32) {
    let one: &'static Number = Box::leak(Box::new(Number { number: UnsafeCell::new(0), next: Next::new() }));
    // SAFETY: loom says when another thread is there.
    one.number.with_mut(|place| unsafe { *place = number });
    list.add(one);
}

fn numbers(list: &List<Number>) -> Vec<u32> {
    // SAFETY: as above.
    let mut all: Vec<u32> = list.iter().map(|one| one.number.with(|place| unsafe { *place })).collect();
    all.sort_unstable();
    all
}

#[test]
fn nothing_is_lost_and_what_is_found_is_whole() {
    loom::model(|| {
        let list = Arc::new(List::new());
        let on_thread = |work: fn(&List<Number>)| {
            let list = Arc::clone(&list);
            thread::spawn(move || work(&list))
        };
        let threads = [
            on_thread(|list| add(list, 1)),
            on_thread(|list| add(list, 2)),
            on_thread(|list| assert!(numbers(list).iter().all(|number| (1..=2).contains(number)))),
        ];
        for thread in threads {
            thread.join().expect("it ends");
        }
        assert_eq!(numbers(&list), [1, 2]);
    });
}

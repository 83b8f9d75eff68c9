//! Values that are made of others, step by step.

use crate::own;
use crate::support::*;
use mote_catalog::event::{Origin, Step};
use mote_kernel::session::Targets;

/// The kernel does not let a typed program follow an address that a process gives: then arguments are read by calls,
/// between the steps of a value.
#[test]
fn a_value_outlives_the_reading_of_an_argument() {
    if !can() {
        return;
    }
    /// tgkill(PROCESS, thread, 0) is refused at once, and its arguments are ours.
    const PROCESS: i32 = -1234;
    const CHOSEN: i32 = 7;
    let when = Step::When { argument: 1, equals: CHOSEN as u64, value: 42 };
    let made = Origin::Made { from: Box::new(Origin::Argument(0)), steps: vec![when, Step::Add(1)] };
    let untyped = Origin::Member { argument: 0, path: vec![0], bytes: 8 };
    let fields = vec![number("there", 64, untyped), number("made", 32, made)];
    let kernel = start(request(vec![chosen(1, entry(libc::SYS_tgkill, fields))], Targets::Launch));
    own(&kernel);
    kernel.enable();
    for thread in [CHOSEN, CHOSEN + 1] {
        assert!(mote_sys::thread::exists(PROCESS, thread));
    }
    kernel.disable();
    let records = read(&kernel, |_, _| 12);
    let tid = mote_sys::process::tid() as u32;
    let mine = records.iter().filter(|record| record.tid == tid);
    let made: Vec<i32> =
        mine.map(|record| i32::from_le_bytes(record.fields[8..].try_into().expect("4 bytes"))).collect();
    assert_eq!(made, [43, PROCESS + 1]);
}

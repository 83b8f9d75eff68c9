//! One area after the other, good and bad ones. The state is the process's: one test does it all.

extern crate std;
use super::state::{NOTHING, state};
use super::*;
use mote_layout::cooperation::{MAGIC, VERSION, threshold_word};
use mote_sys::mem::sealed_memfd;
use std::vec::Vec;

const SLOTS: u32 = 16;
const REFUSED: Result<()> = Err(Errno(libc::EINVAL));

/// A sealed file that begins as an area of `slots` slots does, and has so many bytes.
fn area(slots: u32, bytes: usize) -> Fd {
    let file = sealed_memfd(c"mote-area", bytes as u64).expect("memory");
    let words = [MAGIC, u64::from(VERSION) | u64::from(slots) << 32];
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    fd::write_at(&file, &bytes, 0).expect("it fits");
    file
}

fn good() -> Fd {
    area(SLOTS, area_bytes(SLOTS))
}

/// What cannot be an area is refused, and changes nothing.
fn bad_ones_are_refused() {
    let refuse = |file: &Fd, slots| assert_eq!(take_area(file, slots), REFUSED);
    refuse(&area(SLOTS, area_bytes(SLOTS) - 4096), SLOTS);
    refuse(&area(SLOTS + 1, area_bytes(SLOTS)), SLOTS);
    refuse(&good(), 0);
    refuse(&good(), SLOTS_MAX + 1);
    refuse(&sealed_memfd(c"empty", area_bytes(SLOTS) as u64).expect("memory"), SLOTS);
    // Not sealed: it could shrink under us. And no memory at all.
    for path in [c"/proc/self/exe", c"/dev/zero"] {
        refuse(&fd::open(path, libc::O_RDONLY, 0).expect("it is there"), SLOTS);
    }
    assert_eq!(take_shared(0, &good()), REFUSED);
    assert!(take_shared(SESSIONS_MAX, &good()).is_err());
}

#[test]
fn areas_come_and_go() {
    assert!(slot().is_none() && header().is_none());
    assert_eq!(state(), NOTHING.0.as_ptr() as u64);
    assert!(!set_threshold(1, 5) && threshold(1) == 0);
    bad_ones_are_refused();
    assert!(header().is_none());
    assert_eq!(take_area(&good(), SLOTS), Ok(()));
    bad_ones_are_refused();
    // No session looks, but what is set is there.
    assert!(!set_threshold(1, threshold_word(200_000)) && threshold(1) == 3125);
    assert!(!set_threshold(512, 1) && threshold(512) == 0);
    let ours = slot().expect("there is room");
    let id = process::tid() as u32;
    assert_eq!(ours.thread.load(Ordering::Relaxed), id);
    assert_eq!(state(), (&raw const ours.state) as u64);
    // When the slot is taken away another one is found.
    ours.thread.store(id + 1, Ordering::Relaxed);
    let other = slot().expect("there is room");
    assert!(!core::ptr::eq(ours, other) && threshold(1) == 0);
    // Another area takes this one's place, with what was set here.
    set_threshold(2, 7);
    other.words[3].store(9, Ordering::Relaxed);
    let before = AREA.load(Ordering::Relaxed);
    assert_eq!(take_area(&area(SLOTS * 2, area_bytes(SLOTS * 2)), SLOTS * 2), REFUSED);
    assert_eq!(take_area(&good(), SLOTS), Ok(()));
    assert_eq!(AREA.load(Ordering::Relaxed), before);
    let moved = slot().expect("there is room");
    assert_eq!((threshold(2), moved.words[3].load(Ordering::Relaxed)), (7, 9));
    what_is_a_parents_is_let_go();
    full_areas_are_counted();
    the_slots_of_the_dead_are_taken_over();
}

/// As in a child: what was set is there still, and in no other process's memory.
fn what_is_a_parents_is_let_go() {
    let parents = good();
    let read = || {
        let mut bytes = std::vec![0; area_bytes(SLOTS)];
        assert_eq!(fd::read_at(&parents, &mut bytes, 0), Ok(bytes.len()));
        bytes
    };
    assert_eq!(take_area(&parents, SLOTS), Ok(()));
    assert!(!set_process_threshold(3, 11));
    slot().expect("there is room").words[3].store(10, Ordering::Relaxed);
    after_fork(true);
    let before = read();
    assert!(header().is_some_and(|header| header.asked.load(Ordering::Relaxed) == 1));
    let ours = slot().expect("there is room");
    assert_eq!((threshold(2), ours.words[3].load(Ordering::Relaxed)), (7, 10));
    set_threshold(2, 8);
    ours.words[3].store(11, Ordering::Relaxed);
    assert!(read() == before, "it writes to its parent's");
}

/// Threads that live keep their slots, and the others are counted once each.
fn full_areas_are_counted() {
    let (done, wait) = (std::sync::Barrier::new(41), std::sync::Barrier::new(41));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..40)
            .map(|_| {
                scope.spawn(|| {
                    let had = slot().is_some();
                    // As often as it likes.
                    let still = (0..5000).all(|_| slot().is_some() == had);
                    assert!(still && (had || state() == NOTHING.0.as_ptr() as u64));
                    done.wait();
                    wait.wait();
                    had
                })
            })
            .collect();
        done.wait();
        let without = header().expect("there").without_slot.load(Ordering::Relaxed);
        wait.wait();
        let had =
            threads.into_iter().map(|thread| thread.join().expect("it ends")).filter(|had| *had).count();
        assert_eq!(had as u64 + without, 40);
        assert!((8..SLOTS as usize).contains(&had), "{had}");
    });
}

fn the_slots_of_the_dead_are_taken_over() {
    // The kernel takes threads off its list a moment after they were joined.
    for _ in 0..100 {
        let taken = std::thread::spawn(|| slot().map(|slot| slot.thresholds[4].load(Ordering::Relaxed)));
        assert_eq!(taken.join().expect("it ends"), Some(0));
    }
}

//! Many threads, a reader that cannot keep up, interrupts between: what is emitted is read once, in order, or counted
//! as lost.

use crate::support::*;
use mote_catalog::event::Origin;
use mote_kernel::session::{Kernel, Targets};
use mote_ring::Mode;
use mote_ring::reader::{Look, Reader};
use std::sync::atomic::{AtomicBool, Ordering};

const THREADS: i32 = 6;
const CALLS: i32 = 30_000;
/// tgkill(-1000 - thread, number, 0): refused at once, and its arguments are ours.
const FIRST: i32 = -1000;
/// Prefix and two numbers.
const BYTES: usize = 12 + 8;

/// Takes what is there; returns the numbers by threads, and how many bytes were overwritten.
fn take(reader: &mut Reader<'_>, seen: &mut [Vec<i32>]) -> u64 {
    let mut overwritten = 0;
    loop {
        match reader.look() {
            Look::Ready(chunk) => {
                let mut bytes = vec![0; chunk.len()];
                let whole = reader.copy(chunk, &mut bytes);
                reader.release(chunk);
                assert_eq!(bytes.len() % BYTES, 0, "records of one size");
                for record in bytes.chunks(BYTES).filter(|_| whole) {
                    let number = |at: usize| i32::from_le_bytes(record[at..at + 4].try_into().unwrap());
                    let thread = FIRST - number(12);
                    if (0..THREADS).contains(&thread) {
                        seen[thread as usize].push(number(16));
                    }
                }
                if !whole {
                    overwritten += bytes.len() as u64;
                }
            }
            Look::Overwritten(bytes) => overwritten += bytes,
            Look::Empty => return overwritten,
            Look::Damaged => panic!("a ring contradicts itself"),
        }
    }
}

fn hammer(thread: i32) {
    for number in 0..CALLS {
        assert!(mote_sys::thread::exists(FIRST - thread, number));
    }
}

/// Returns the numbers that were read by threads, the bytes overwritten, and the events lost.
fn torture(kernel: &Kernel, slow: bool) -> (Vec<Vec<i32>>, u64, u64) {
    let done = AtomicBool::new(false);
    let rings = kernel.geometry().rings();
    let mut readers: Vec<_> = (0..rings).map(|ring| kernel.channel().reader(ring).unwrap()).collect();
    let mut seen = vec![Vec::new(); THREADS as usize];
    let mut overwritten = 0;
    kernel.enable();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || hammer(thread))).collect();
        let done = &done;
        scope.spawn(move || {
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            readers.iter_mut().for_each(|reader| overwritten += take(reader, &mut seen));
            if slow {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    });
    kernel.disable();
    readers.iter_mut().for_each(|reader| overwritten += take(reader, &mut seen));
    assert_eq!(kernel.losses().nested, 0);
    (seen, overwritten, lost(kernel).iter().sum())
}

fn kernel(mode: Mode) -> Kernel {
    let event = entry(
        libc::SYS_tgkill,
        vec![number("tgid", 32, Origin::Argument(0)), number("pid", 32, Origin::Argument(1))],
    );
    let mut request = request(vec![chosen(1, event)], Targets::Launch);
    request.buffers.sub_bits = 12;
    request.buffers.count_bits = 2;
    request.buffers.mode = mode;
    let kernel = start(request);
    // This thread and those that it makes, not those of another test.
    kernel.state().follow(mote_sys::process::tid() as u32, mote_generate::threads::TRACED).unwrap();
    kernel
}

#[test]
fn what_is_emitted_is_read_or_counted() {
    if !can() {
        return;
    }
    for slow in [false, true] {
        let kernel = kernel(Mode::Discard);
        let (seen, overwritten, lost) = torture(&kernel, slow);
        let read: usize = seen.iter().map(Vec::len).sum();
        println!("{read} read, {lost} lost");
        assert_eq!((read as u64 + lost, overwritten), ((THREADS * CALLS) as u64, 0));
        for mut numbers in seen {
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), all, "none is read twice");
        }
    }
}

#[test]
fn a_flight_recorder_never_shows_what_is_torn() {
    if !can() {
        return;
    }
    let kernel = kernel(Mode::Overwrite);
    let (seen, overwritten, lost) = torture(&kernel, true);
    println!("{} read, {overwritten} bytes overwritten", seen.iter().map(Vec::len).sum::<usize>());
    assert!(overwritten > 0 && lost == 0);
    for mut numbers in seen {
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all, "none is read twice");
        assert!(numbers.iter().all(|number| (0..CALLS).contains(number)));
    }
}

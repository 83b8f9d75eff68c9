//! A channel whose memory is exchanged while threads write: nothing is lost, doubled or torn at the change.

mod common;

use common::{Lab, kinds, read_all, small};
use mote_ring::reader::Channel;
use mote_ring::writer::{MapError, Payload};
use mote_ring::{Clock, Geometry, Mode, Outcome, Record, Writer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Room for all that a round writes.
const ROOMY: Geometry =
    Geometry { cpus: 0, shared: 2, sub_bits: 16, count_bits: 7, mode: Mode::Discard, clock: Clock::Tsc };

/// Writes numbered records until told to stop; returns how many.
fn write_until(writer: &Writer, thread: u32, stop: &AtomicBool, written: &AtomicU64) -> u64 {
    let mut count = 0u64;
    while !stop.load(Ordering::Acquire) && count < 60_000 {
        let payload = Payload::Words { from: (&raw const count).cast(), len: 8 };
        // SAFETY: the payload is one whole word.
        let outcome = unsafe { writer.write(Record { tag: 8, thread, payload }) };
        assert_eq!(outcome, Outcome::Written);
        count += 1;
        written.fetch_add(1, Ordering::Relaxed);
    }
    count
}

#[test]
fn writes_go_over_to_other_rings_and_none_is_lost() {
    let cpus = mote_sys::process::possible_cpus().expect("the number of CPUs");
    // Of other sizes each time.
    let geometry =
        |round: u32| Geometry { cpus, sub_bits: 16 + round % 3, count_bits: 7 - round % 3, ..ROOMY };
    let channels: Vec<Channel> =
        (0..8).map(|round| Channel::make(geometry(round), 0..0).expect("memory")).collect();
    mote_sync::rseq::find();
    let writer = Writer::map(channels[0].memfd(), geometry(0)).expect("address space");
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|id| {
                scope.spawn({
                    let (w, s, n) = (&writer, &stop, &written);
                    move || write_until(w, id, s, n)
                })
            })
            .collect();
        for (round, channel) in channels.iter().enumerate().skip(1) {
            let reached = round as u64 * 2_000;
            while written.load(Ordering::Relaxed) < reached {
                std::hint::spin_loop();
            }
            writer.renew(channel.memfd(), geometry(round as u32)).expect("address space");
        }
        stop.store(true, Ordering::Release);
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    let mut seen = vec![Vec::new(); counts.len()];
    for channel in &channels {
        for ring in 0..channel.geometry().rings() {
            for record in read_all(&mut channel.reader(ring).expect("there is one")) {
                let number = u64::from_le_bytes(record.payload.try_into().expect("a word"));
                seen[record.thread as usize].push(number);
            }
        }
    }
    for (thread, count) in counts.into_iter().enumerate() {
        seen[thread].sort_unstable();
        assert_eq!(seen[thread], (0..count).collect::<Vec<_>>(), "thread {thread}");
    }
}

#[test]
fn what_was_before_can_be_let_go_while_it_is_written_to() {
    for kind in kinds() {
        let lab = Lab::new(kind, small(Mode::Discard));
        assert_eq!(lab.write(1, b"before"), Outcome::Written);
        let next = Channel::make(small(Mode::Discard), 0..0).expect("memory");
        let former = lab.writer.renew(next.memfd(), small(Mode::Discard)).expect("address space");
        // SAFETY: what is written there has been read, or is not asked for.
        unsafe { former.forsake() }.expect("memory");
        assert_eq!(lab.write(1, b"after"), Outcome::Written);
        assert_eq!(read_all(&mut lab.reader()).len(), 1, "the old memory is the reader's still");
        let after = read_all(&mut next.reader(lab.ring).expect("there is one"));
        assert_eq!(after.len(), 1);
        assert_eq!(after[0].payload, b"after");
    }
}

#[test]
fn another_clock_is_refused() {
    let lab = Lab::new(common::Kind::Atomic, small(Mode::Discard));
    let other = Geometry { clock: Clock::Monotonic, ..small(Mode::Discard) };
    let channel = Channel::make(other, 0..0).expect("memory");
    assert_eq!(lab.writer.renew(channel.memfd(), other).err(), Some(MapError::Geometry));
    assert_eq!(lab.write(1, b"still here"), Outcome::Written);
    assert_eq!(read_all(&mut lab.reader()).len(), 1);
}

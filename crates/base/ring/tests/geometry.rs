//! What lies where in a channel.

use mote_ring::control::{CONTROL_BYTES, SLOT_BYTES};
use mote_ring::geometry::{BadGeometry, COUNT_BITS_MAX, RINGS_MAX, SUB_BITS_MAX, SUB_BITS_MIN};
use mote_ring::reader::{Channel, MakeError};
use mote_ring::threads::TABLE_BYTES;
use mote_ring::writer::MapError;
use mote_ring::{Clock, Geometry, Mode, Writer};
use mote_sys::fd::Fd;

const USUAL: Geometry =
    Geometry { cpus: 2, shared: 1, sub_bits: 12, count_bits: 2, mode: Mode::Discard, clock: Clock::Tsc };

#[test]
fn parts_follow_one_another_and_never_overlap() {
    for (cpus, shared) in [(0, 1), (1, 1), (2, 3), (RINGS_MAX, RINGS_MAX)] {
        for (sub_bits, count_bits) in
            [(SUB_BITS_MIN, 1), (SUB_BITS_MIN, COUNT_BITS_MAX), (16, 5), (SUB_BITS_MAX, 5)]
        {
            let geometry =
                Geometry { cpus, shared, sub_bits, count_bits, ..USUAL }.check().expect("within bounds");
            let control = CONTROL_BYTES as u64 + SLOT_BYTES as u64 * geometry.sub_count();
            let mut end = TABLE_BYTES as u64;
            for ring in 0..geometry.rings() {
                let at = geometry.control_offset(ring);
                assert!(
                    at >= end && at.is_multiple_of(128),
                    "control of ring {ring} at {at} in {geometry:?}"
                );
                end = at + control;
            }
            for ring in 0..geometry.rings() {
                let at = geometry.data_offset(ring);
                assert!(at >= end && at.is_multiple_of(4096), "data of ring {ring} at {at} in {geometry:?}");
                end = at + geometry.ring_bytes();
            }
            assert_eq!(geometry.total_bytes(), end);
            assert_eq!(geometry.ring_bytes(), geometry.sub_bytes() * geometry.sub_count());
        }
    }
}

#[test]
fn sizes_out_of_bounds_are_refused() {
    assert_eq!(USUAL.check(), Ok(USUAL));
    let bad = [
        Geometry { sub_bits: SUB_BITS_MIN - 1, ..USUAL },
        Geometry { sub_bits: SUB_BITS_MAX + 1, ..USUAL },
        Geometry { count_bits: 0, ..USUAL },
        Geometry { count_bits: COUNT_BITS_MAX + 1, ..USUAL },
        Geometry { sub_bits: SUB_BITS_MAX, count_bits: 6, ..USUAL },
        Geometry { sub_bits: u32::MAX, count_bits: u32::MAX, ..USUAL },
        Geometry { shared: 0, ..USUAL },
        Geometry { shared: RINGS_MAX + 1, ..USUAL },
        Geometry { cpus: RINGS_MAX + 1, ..USUAL },
    ];
    for geometry in bad {
        assert_eq!(geometry.check(), Err(BadGeometry), "{geometry:?}");
        let made = Channel::make(geometry, 0..0).map(drop);
        assert_eq!(made, Err(MakeError::Geometry(BadGeometry)));
    }
}

#[test]
fn a_file_that_is_too_small_or_can_shrink_is_not_mapped() {
    let channel = Channel::make(USUAL, 0..3).expect("memory");
    assert!(Writer::map(channel.memfd(), USUAL).is_ok());
    let more = Geometry { count_bits: 3, ..USUAL };
    assert_eq!(Writer::map(channel.memfd(), more).map(drop), Err(MapError::Geometry));
    // SAFETY: the name is NUL-terminated.
    let raw = unsafe { libc::memfd_create(c"open".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    assert!(raw >= 0);
    let open = Fd::from_raw(raw);
    mote_sys::fd::truncate(&open, USUAL.total_bytes()).expect("a memfd can grow");
    assert_eq!(Writer::map(&open, USUAL).map(drop), Err(MapError::Geometry));
}

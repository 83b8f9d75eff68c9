//! A hostile writer: the control words of a ring hold anything, and change between looks.
#![no_main]

use mote_ring::reader::{Channel, Look};
use mote_ring::{Clock, Geometry, Mode};
use mote_sys::fd;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mode = if bytes.first().is_some_and(|byte| byte & 1 == 0) { Mode::Discard } else { Mode::Overwrite };
    let geometry = Geometry { cpus: 1, shared: 1, sub_bits: 12, count_bits: 2, mode, clock: Clock::Tsc };
    let channel = Channel::make(geometry, std::iter::empty()).expect("there is memory");
    let mut readers: Vec<_> = (0..2).filter_map(|ring| channel.reader(ring)).collect();
    let mut buffer = vec![0; geometry.sub_bytes() as usize];
    // Each step scribbles 8 bytes somewhere into the control words and looks.
    for step in bytes.get(1..).unwrap_or(&[]).chunks_exact(10) {
        let at = u64::from(u16::from_le_bytes([step[0], step[1]])) % 384;
        for (ring, reader) in (0..).zip(&mut readers) {
            fd::write_at(channel.memfd(), &step[2..], geometry.control_offset(ring) + at).expect("writable");
            match reader.look() {
                Look::Ready(chunk) => {
                    assert!(chunk.len() <= buffer.len());
                    reader.copy(chunk, &mut buffer[..chunk.len()]);
                    reader.release(chunk);
                }
                Look::Empty => drop(reader.give_up()),
                Look::Overwritten(_) | Look::Damaged => {}
            }
        }
    }
});

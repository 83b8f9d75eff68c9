//! What an event cannot cost less than: the bare restartable sequence, behind a call, that writes the same record into
//! a ring of the same size.
//!
//! All that does not change is at hand in registers or in one line of the cache: no switch, no event, no session, no
//! second kind of writer, no exchange of rings. The fields come through memory. The ring's pages are of a memfd, as a
//! channel's are.

use super::session::flight_buffers;
use super::turns::Body;
use crate::arch::{Ring, write_none, write_two};
use anyhow::Context;
use mote_sync::rseq;
use mote_sys::mem::{self, Mapping, PAGE_BYTES};
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table of rings; the workload stays on one CPU, whose ring alone has memory.
struct Rings(Vec<Ring>);
// SAFETY: the sequences and `next_sub_buffer` go by the CPU; the pointers lead to memory that is never unmapped.
unsafe impl Send for Rings {}
// SAFETY: as above.
unsafe impl Sync for Rings {}

static RINGS: OnceLock<Rings> = OnceLock::new();

/// The floor of `two_ints`, and of an event without fields, for a thread that stays on CPU `cpu`.
///
/// # Errors
/// No restartable sequences; no memory.
pub(super) fn bodies(cpu: usize) -> anyhow::Result<[(&'static str, Body); 2]> {
    anyhow::ensure!(rseq::find(), "the C library registers no restartable sequences");
    let buffers = flight_buffers();
    let bytes = 1 << (buffers.sub_bits + buffers.count_bits);
    // A record that goes over the ring's end needs a page more.
    let mapped = bytes + PAGE_BYTES;
    let memory = |error| anyhow::anyhow!("no memory for a ring: {error}");
    let memfd = mem::sealed_memfd(c"floor", mapped as u64).map_err(memory)?;
    let ring = |_| {
        let data = Mapping::shared(&memfd, mapped).map_err(memory)?.leak();
        let limit = AtomicU64::new(1 << buffers.sub_bits);
        Ok(Ring { pos: AtomicU64::new(0), limit, data, mask: bytes as u64 - 1 })
    };
    let rings = (0..=cpu).map(ring).collect::<anyhow::Result<Vec<Ring>>>()?;
    RINGS.set(Rings(rings)).ok().context("the floor was made twice")?;
    Ok([("floor", two_ints), ("floor/none", none)])
}

fn rings() -> &'static [Ring] {
    RINGS.get().map_or(&[], |rings| &rings.0)
}

/// Enters the next sub-buffer of the ring that is full; a flight recorder asks no reader.
#[cold]
#[inline(never)]
fn next_sub_buffer() {
    for ring in rings() {
        ring.limit.fetch_add(1 << flight_buffers().sub_bits, Ordering::Relaxed);
    }
}

fn two_ints(events: u64) {
    let (rings, area) = (rings().as_ptr(), rseq::area());
    for i in 0..events {
        let fields = [u64::from(i as u32) | (i * 3) << 32, (i * 3) >> 32];
        // SAFETY: the thread stays on the CPU whose ring is there; the fields are two words.
        while !unsafe { write_two(rings, area, 7, &fields) } {
            next_sub_buffer();
        }
    }
}

fn none(events: u64) {
    let (rings, area) = (rings().as_ptr(), rseq::area());
    for _ in 0..events {
        // SAFETY: the thread stays on the CPU whose ring is there.
        while !unsafe { write_none(rings, area, black_box(7)) } {
            next_sub_buffer();
        }
    }
}

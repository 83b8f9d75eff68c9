//! What an event cannot cost less than: the bare restartable sequence, behind a call, that writes the same record into
//! a ring of the same size.
//!
//! All that does not change is at hand in registers or in one line of the cache: no switch, no event, no session, no
//! second kind of writer, no exchange of rings. The fields come through memory. The ring's pages are of a memfd, as a
//! channel's are.

use super::session::flight_buffers;
use super::turns::Body;
use anyhow::Context;
use mote_sync::rseq;
use mote_sys::mem::{self, Mapping};
use std::arch::asm;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// One CPU's ring, as the sequence reads it.
#[repr(C, align(64))]
struct Ring {
    pos: AtomicU64,
    limit: AtomicU64,
    data: *mut u8,
    mask: u64,
}

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
    let mapped = bytes + 4096;
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

/// Enters the next sub-buffer of the ring that is full; a flight recorder asks nobody.
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

/// The sequence, with the instructions that write the fields.
macro_rules! bare {
    ($rings:ident, $area:ident, $id:ident, $bytes:literal, [$($copy:literal),*] $($operand:tt)*) => {{
        let full: u64;
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "2:",
            ".long 0, 0",
            ".quad 3f, (5f - 3f), 4f",
            ".popsection",
            "6:",
            "lea {t}, [rip + 2b]",
            "mov [{rs} + {RSEQ_CS}], {t}",
            "3:",
            "mov {t:e}, [{rs} + {CPU_ID}]",
            "shl {t}, 6",
            "add {t}, {rings}",
            "mov {p}, [{t}]",
            ::core::concat!("lea {n}, [{p} + ", $bytes, "]"),
            "cmp {n}, [{t} + 8]",
            "ja 7f",
            "mov {d}, {p}",
            "and {d}, [{t} + 24]",
            "add {d}, [{t} + 16]",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "shl rax, 16",
            "or rax, {id}",
            "mov [{d}], rax",
            "mov eax, fs:[0x10]",
            "mov [{d} + 8], eax",
            $($copy,)*
            "mov [{t}], {n}",
            "5:",
            "xor eax, eax",
            "jmp 9f",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {SIGNATURE}",
            "4:",
            "jmp 6b",
            "7:",
            "mov eax, 1",
            "9:",
            RSEQ_CS = const rseq::RSEQ_CS,
            CPU_ID = const rseq::CPU_ID,
            SIGNATURE = const rseq::SIGNATURE,
            rs = in(reg) $area,
            rings = in(reg) $rings,
            id = in(reg) $id,
            t = out(reg) _,
            p = out(reg) _,
            n = out(reg) _,
            d = out(reg) _,
            out("rax") full,
            out("rdx") _,
            $($operand)*
            options(nostack),
        );
        full == 0
    }};
}

/// Writes a record of 24 bytes; false when the sub-buffer is full.
///
/// # Safety
/// `rings` has a ring with memory for the CPU that the thread stays on.
#[inline(never)]
unsafe fn write_two(rings: *const Ring, area: *mut rseq::Area, id: u64, fields: &[u64; 2]) -> bool {
    let from = fields.as_ptr();
    // SAFETY: the sequence touches the thread's own area and the ring of its CPU only, the caller's promise. The
    // mapping has a page more than the ring, for the record that goes over its end.
    unsafe {
        bare!(
            rings, area, id, "24",
            ["mov rdx, [{from}]", "mov [{d} + 12], rdx", "mov edx, [{from} + 8]", "mov [{d} + 20], edx"]
            from = in(reg) from,
        )
    }
}

/// As [`write_two`], of a record without fields: 12 bytes.
///
/// # Safety
/// As [`write_two`].
#[inline(never)]
unsafe fn write_none(rings: *const Ring, area: *mut rseq::Area, id: u64) -> bool {
    // SAFETY: as in `write_two`.
    unsafe { bare!(rings, area, id, "12", []) }
}

//! The end of a sub-buffer: entering the next one, closing this one, counting what a full ring loses.

use super::frame::sequence;
use crate::control::{Control, Slot};
use crate::geometry::{Clock, Mode};
use crate::sequence::LOST;
use crate::writer::{Rings, Writer};
use core::mem::offset_of;
use mote_sync::rseq;

/// Enters the next sub-buffer, if a record of `len` bytes really does not fit and the mode allows it. Closes this one
/// if not.
///
/// Returns `DONE` when the record may be tried again, `NO_ROOM` when the ring is full and the sub-buffer was closed
/// before.
pub(crate) fn switch(channel: &Writer, len: usize) -> u32 {
    let end: u32;
    // SAFETY: as in `write_words`. The stores to the slots of the sub-buffer that ends and of the one that `pos` goes
    // to are repeated by the thread that comes so far in the end, so an abort between them and the commit does no harm:
    // no thread reads the second before `pos` is there, and while one is open nothing is lost, so that closing it
    // changes no count. The room that is asked for (`len + 19`) is the most that either kind of record asks for.
    unsafe {
        sequence!(
            "mov {p}, [{c}]",
            "mov {x}, {p}",
            "and {x}, [{ch} + {SUB_MASK}]",
            "lea {x}, [{x} + {len} + 19]",
            "cmp {x}, [{ch} + {SUB_BYTES}]",
            "jb 5f",
            // {n}: this sub-buffer's last byte, and the next one's first if that may be entered.
            "mov {n}, {p}",
            "or {n}, [{ch} + {SUB_MASK}]",
            "cmp dword ptr [{ch} + {MODE}], {OVERWRITE}",
            "je 12f",
            "mov {x}, {n}",
            "inc {x}",
            "add {x}, [{ch} + {SUB_BYTES}]",
            "sub {x}, [{c} + {CONSUMED}]",
            "cmp {x}, [{ch} + {RING_BYTES}]",
            "ja 13f",
            "12:",
            "inc {n}",
            "13:",
            "cmp {p}, {n}",
            "je 8f",
            "mov ecx, [{ch} + {SUB_BITS}]",
            // Its end was noted when it was closed.
            "lea {x}, [{p} + 1]",
            "test {x}, [{ch} + {SUB_MASK}]",
            "jz 16f",
            "mov {x}, {p}",
            "and {x}, [{ch} + {RING_MASK}]",
            "shr {x}, cl",
            "shl {x}, {SLOT_SHIFT}",
            "add {x}, {c}",
            "mov [{x} + {SLOT_END}], {p}",
            "cmp dword ptr [{ch} + {CLOCK}], {TSC}",
            "jne 14f",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "jmp 15f",
            "14:",
            "mov rax, [{c} + {LAST_TIME}]",
            "15:",
            "mov [{x} + {SLOT_TIME}], rax",
            "16:",
            "mov {x}, {n}",
            "and {x}, [{ch} + {RING_MASK}]",
            "shr {x}, cl",
            "shl {x}, {SLOT_SHIFT}",
            "add {x}, {c}",
            "mov rax, [{c} + {LOST}]",
            "mov [{x} + {SLOT_LOST}], rax";
            commit "mov [{c}], {n}";
            SUB_MASK = const offset_of!(Rings, sub_mask),
            SUB_BYTES = const offset_of!(Rings, sub_bytes),
            SUB_BITS = const offset_of!(Rings, sub_bits),
            RING_MASK = const offset_of!(Rings, ring_mask),
            RING_BYTES = const offset_of!(Rings, ring_bytes),
            MODE = const offset_of!(Rings, mode),
            OVERWRITE = const Mode::Overwrite as u32,
            CLOCK = const offset_of!(Rings, clock),
            TSC = const Clock::Tsc as u32,
            CONSUMED = const offset_of!(Control, consumed),
            LAST_TIME = const offset_of!(Control, last_time),
            LOST = const LOST,
            SLOT_SHIFT = const size_of::<Slot>().trailing_zeros(),
            SLOT_END = const size_of::<Control>() + offset_of!(Slot, end),
            SLOT_TIME = const size_of::<Control>() + offset_of!(Slot, time_end),
            SLOT_LOST = const size_of::<Control>() + offset_of!(Slot, lost),
            rs = in(reg) rseq::area(),
            wr = in(reg) channel,
            ch = out(reg) _,
            len = in(reg) len,
            c = out(reg) _,
            p = out(reg) _,
            n = out(reg) _,
            x = out(reg) _,
            out("rax") end,
            out("rcx") _,
            out("rdx") _,
            options(nostack),
        );
    }
    end
}

/// Counts one event that a full ring could not take. Returns `NO_ROOM` when the sub-buffer is not closed (any more).
pub(crate) fn count_ring_full(channel: &Writer) -> u32 {
    let end: u32;
    // SAFETY: as in `write_words`: one read-modify-write instruction on the counter is the commit, and
    // no thread on another CPU touches the counter of this CPU's ring.
    unsafe {
        sequence!(
            "mov {x}, [{c}]",
            "inc {x}",
            "test {x}, [{ch} + {SUB_MASK}]",
            "jnz 8f";
            commit "inc qword ptr [{c} + {LOST}]";
            SUB_MASK = const offset_of!(Rings, sub_mask),
            LOST = const LOST,
            rs = in(reg) rseq::area(),
            wr = in(reg) channel,
            ch = out(reg) _,
            c = out(reg) _,
            x = out(reg) _,
            out("rax") end,
            options(nostack),
        );
    }
    end
}

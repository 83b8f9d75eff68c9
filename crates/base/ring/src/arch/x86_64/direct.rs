//! Writing a small record with nothing in the way.
//!
//! As in [`super::record`], but for what is known when the record begins: that sequences can be used, and that the
//! clock is the time-stamp counter ([`crate::Direct`]). So there is no other end than its own; a thread that cannot go
//! it jumps to `otherwise`, and begins anew by the general way.
//!
//! # Registers
//! ```text
//! {to} address of the writer above the tag   {first}, {second} or {from}: the fields   {len} their bytes
//! {c} control   {d} data   {p} rseq's distance from the thread pointer, then pos   rax, rdx scratch
//! ```
//! All of them together are the registers that a function may change, so that it saves none.
//!
//! # Three differences
//! - The thread's area and its id are reached by `fs:` and a distance, without an address in a register.
//! - The header is written as tag, low and high part of the time: no shifting.
//! - The abort handler is the beginning itself. The signature that has to stand in front of it is the displacement of a
//!   NOP.

/// The time into the record; it is in `edx` and `eax` behind that.
macro_rules! read_time {
    () => {
        "rdtsc\n mov [{d} + 2], eax\n mov [{d} + 6], dx"
    };
}

/// Writes a record of `$len` bytes behind the prefix; `$copy` writes the fields, and `$time` the time ([`read_time`]
/// where nothing is said). Jumps to `otherwise` where there is no ring, no room, no counter, or the thread has no name
/// yet. `$touched` bytes have to lie in the sub-buffer: all that is written, and at least one byte more than the record
/// has, because a position at the last byte says that the sub-buffer is closed.
///
/// `$first` is what comes first in the sequence.
///
/// With `as $timing` in front, the time is read or given as that says ([`Timing`]).
macro_rules! direct {
    (
        as $timing:ident: $type:ident, $touched:literal, $len:literal, [$($copy:literal),*], $otherwise:block,
        $to:ident; $($operand:tt)*
    ) => {
        match $type::HOW {
            How::Now => direct!($touched, $len, [$($copy),*], $otherwise, $to; $($operand)*),
            How::Noting => direct!(
                $touched,
                $len,
                at [read_time!(), "shl rdx, 32", "or rdx, rax", "mov [{moment} + {TIME}], rdx"],
                [$($copy),*],
                $otherwise,
                $to;
                moment = in(reg) $timing.moment(),
                TIME = const offset_of!(Moment, time),
                $($operand)*
            ),
            // The two bytes that the store has too much are the thread's id, which comes after.
            How::Noted => direct!(
                $touched,
                $len,
                at [
                    "cmp {c}, [{moment} + {CONTROL}]",
                    "jne {otherwise}",
                    "cmp {p}, [{moment} + {POS}]",
                    "jne {otherwise}",
                    "mov rax, [{moment} + {TIME}]",
                    "mov [{d} + 2], rax"
                ],
                [$($copy),*],
                $otherwise,
                $to;
                moment = in(reg) $timing.moment(),
                CONTROL = const offset_of!(Moment, control),
                POS = const offset_of!(Moment, pos),
                TIME = const offset_of!(Moment, time),
                $($operand)*
            ),
        }
    };
    ($touched:literal, $len:literal, [$($copy:literal),*], $otherwise:block, $to:ident; $($operand:tt)*) => {
        direct!($touched, $len, at [read_time!()], [$($copy),*], $otherwise, $to; $($operand)*)
    };
    (
        $touched:literal, $len:literal, at [$($time:expr),*], [$($copy:literal),*], $otherwise:block, $to:ident;
        $($operand:tt)*
    ) => {
        direct!($touched, $len, first [], at [$($time),*], [$($copy),*], $otherwise, $to; $($operand)*)
    };
    (
        $touched:literal, $len:literal, first [$($first:literal),*], at [$($time:expr),*], [$($copy:literal),*],
        $otherwise:block, $to:ident; $($operand:tt)*
    ) => {
        ::core::arch::asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "2:",
            ".long 0, 0",
            ".quad 3f, (5f - 3f), 6f",
            ".popsection",
            // nop dword ptr [rax + SIGNATURE]
            ".byte 0x0f, 0x1f, 0x80",
            ".long {SIGNATURE}",
            "6:",
            mote_sys::exception!(mote_clocks, "6b" => "{otherwise}"),
            // Hidden, so that no table of the linker is between.
            "mov {p}, [rip + mote_rseq_offset]",
            "lea rax, [rip + 2b]",
            "mov fs:[{p} + {RSEQ_CS}], rax",
            "3:",
            $($first,)*
            "mov rdx, {to}",
            "shr rdx, {TAG_BITS}",
            "mov rdx, [rdx + {LIVE}]",
            "mov eax, fs:[{p} + {CPU_ID}]",
            "cmp eax, [rdx + {CPUS}]",
            "jae {otherwise}",
            "shl rax, {RING_SHIFT}",
            "mov {c}, [rdx + rax + {TABLE}]",
            "mov {d}, [rdx + rax + {TABLE} + 8]",
            "mov {p}, [{c}]",
            // In one sub-buffer: no bit differs from its size on.
            concat!("lea rax, [{p} + ", $touched, "]"),
            "xor rax, {p}",
            "cmp rax, [rdx + {SUB_BYTES}]",
            "jae {otherwise}",
            "mov rax, [rdx + {RING_MASK}]",
            "and rax, {p}",
            "add {d}, rax",
            $($time,)*
            "mov [{d}], {to:x}",
            "mov rax, [rip + mote_thread_id@gottpoff]",
            "mov eax, fs:[rax]",
            "test eax, eax",
            "jz {otherwise}",
            "mov [{d} + 8], eax",
            $($copy,)*
            concat!("lea {p}, [{p} + ", $len, " + 12]"),
            "mov [{c}], {p}",
            "5:",
            RSEQ_CS = const rseq::RSEQ_CS,
            CPU_ID = const rseq::CPU_ID,
            SIGNATURE = const rseq::SIGNATURE,
            TAG_BITS = const TAG_BITS,
            LIVE = const Writer::RINGS_AT,
            CPUS = const offset_of!(Rings, cpus),
            TABLE = const TABLE_AT,
            RING_SHIFT = const RING_SHIFT,
            SUB_BYTES = const offset_of!(Rings, sub_bytes),
            RING_MASK = const offset_of!(Rings, ring_mask),
            to = in(reg) $to,
            c = out(reg) _,
            d = out(reg) _,
            p = out(reg) _,
            otherwise = label $otherwise,
            $($operand)*
            out("rax") _,
            out("rdx") _,
            options(nostack),
        )
    };
}

use crate::control::RING_SHIFT;
use crate::direct::{Piece, Row, Shape, TAG_BITS};
use crate::timing::{How, Moment, Timing};
use crate::writer::{Rings, TABLE_AT, Writer};
use core::mem::offset_of;
use mote_sync::rseq;

/// Writes a record without fields; false when it has to be written otherwise.
///
/// # Safety
/// `to` is of [`crate::Direct`].
#[inline(always)]
pub(crate) unsafe fn write_none<T: Timing>(to: u64, timing: T) -> bool {
    // SAFETY: as in `write_two`.
    unsafe { direct!(as timing: T, "13", "0", [], { return false }, to;) };
    true
}

/// Writes a record of this shape; false when it has to be written otherwise.
///
/// # Safety
/// `to` is of [`crate::Direct`].
#[inline(always)]
pub(crate) unsafe fn write_two<S: Shape, T: Timing>(to: u64, timing: T, first: u64, second: u64) -> bool {
    const { assert!(S::LEN <= 16 && S::SECOND_AT <= 8) };
    // SAFETY: the sequence
    // 1. touches the control words and data of the ring of the CPU that it runs on, which the mapping holds for ever
    //    (`Writer::map`), and finds it in the table behind `Rings`, which never changes; `to` leads to a writer that
    //    lives as long as the process, `Direct`'s invariant;
    // 2. writes behind `pos` and inside the sub-buffer: all that it writes, 28 bytes, ends in the one that `pos` is in;
    // 3. ends with the store of `pos`; an abort before it goes to `6:`, the start;
    // 4. touches the thread's own area, which is where `mote_rseq_offset` says: `Direct` is made where it has been
    //    found;
    // 5. reads and writes the moment that `timing` has.
    unsafe {
        direct!(
            as timing: T, "29", "{len}", ["mov [{d} + 12], {first}", "mov [{d} + 12 + {second_at}], {second}"],
            { return false }, to;
            len = const S::LEN,
            second_at = const S::SECOND_AT,
            first = in(reg) first,
            second = in(reg) second,
        );
    }
    true
}

/// Writes a record of the first `len` bytes of `first` and then `second`; false when it has to be written otherwise.
///
/// # Safety
/// `to` is of [`crate::Direct`]; `len` is at most 16.
#[inline(always)]
pub(crate) unsafe fn write_packed(to: u64, first: u64, second: u64, len: usize) -> bool {
    // SAFETY: as in `write_two`.
    unsafe {
        direct!(
            "29", "{len}", ["mov [{d} + 12], {first}", "mov [{d} + 20], {second}"], { return false }, to;
            len = in(reg) len,
            first = in(reg) first,
            second = in(reg) second,
        );
    }
    true
}

/// Writes a record of one number of 8 bytes: how long it is since `began`, in ticks, times `tick`, without the lower 32
/// bits of the product. False when it has to be written otherwise.
///
/// # Safety
/// `to` is of [`crate::Direct`].
#[inline(always)]
pub(crate) unsafe fn write_elapsed(to: u64, began: u64, tick: u64) -> bool {
    // SAFETY: as in `write_two`.
    unsafe {
        direct!(
            "28", "8",
            // RDTSC waits for what comes before, and what comes behind it waits for that: the way to the ring is long.
            first ["rdtsc", "shl rdx, 32", "or rdx, rax", "mov {now}, rdx"],
            // The two bytes that the store has too much are the thread's id, which comes after.
            at ["mov [{d} + 2], {now}"],
            // Intel's processors come late for lines that are only stored to; wherever it is, it never faults.
            [
                "prefetchw [{d} + 1024]",
                "sub {now}, {began}",
                "mov rax, {now}",
                "mul {tick}",
                "shrd rax, rdx, 32",
                "mov [{d} + 12], rax"
            ],
            { return false }, to;
            now = out(reg) _,
            began = in(reg) began,
            tick = in(reg) tick,
        );
    }
    true
}

/// Writes a record of `len` bytes at `from`, in whole words; false when it has to be written otherwise.
///
/// # Safety
/// `to` is of [`crate::Direct`]; the bytes are readable up to the end of the last 8-byte word.
#[inline(always)]
pub(crate) unsafe fn write_words(to: u64, from: *const u8, len: usize) -> bool {
    // SAFETY: as in `write_two`; `len + 19` bytes are what it writes, at most; it reads the payload's words, the
    // caller's promise.
    unsafe {
        direct!(
            "{len} + 19",
            "{len}",
            [
                "xor eax, eax",
                "test {len}, {len}",
                "jz 13f",
                "12:",
                "mov rdx, [{from} + rax]",
                "mov [{d} + rax + 12], rdx",
                "add rax, 8",
                "cmp rax, {len}",
                "jb 12b",
                "13:"
            ],
            { return false }, to;
            len = in(reg) len,
            from = in(reg) from,
        );
    }
    true
}

/// Writes a record of `R::COUNT` pieces at `from`; false when it has to be written otherwise.
///
/// Each piece is stored as a whole word, and the next one over what it has too much: no piece is shifted, and each is
/// loaded as it was stored.
///
/// # Safety
/// `to` is of [`crate::Direct`]; the pieces are readable, of 8 bytes at most each.
#[inline(always)]
pub(crate) unsafe fn write_pieces<R: Row, T: Timing>(to: u64, timing: T, from: *const Piece) -> bool {
    const { assert!(offset_of!(Piece, value) == 0 && offset_of!(Piece, len) == 8 && size_of::<Piece>() == 16) };
    // SAFETY: as in `write_two`; each piece takes 8 bytes at most, and is stored as 8; it reads the pieces, the
    // caller's promise.
    unsafe {
        direct!(
            as timing: T,
            "8 * {count} + 13",
            // What `d` has been moved by since `p` was made less by it.
            "{d}",
            [
                "sub {p}, {d}",
                "add {d}, 12",
                ".set mote_piece, 0",
                ".rept {count}",
                "mov rax, [{from} + mote_piece]",
                "mov [{d}], rax",
                "add {d}, [{from} + mote_piece + 8]",
                ".set mote_piece, mote_piece + 16",
                ".endr",
                "sub {d}, 12"
            ],
            { return false }, to;
            from = in(reg) from,
            count = const R::COUNT,
        );
    }
    true
}

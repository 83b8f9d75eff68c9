//! The default writer: one record is one restartable sequence.
//!
//! # Protocol
//! The sequence takes the channel's rings as they are now, reads the CPU's number, takes that CPU's ring, loads `pos`, checks that the record ends inside
//! the sub-buffer, reads the time, writes prefix and payload behind `pos`, and stores the new `pos`. That last
//! store is the commit. Preemption, migration or a signal before it sends the thread to the abort
//! handler, which starts over; what was written is behind `pos`, where nobody reads.
//!
//! # What follows
//! - The times in a ring never decrease: an interrupted sequence reads the time again.
//! - A handler that writes a record inside an interrupted one simply goes first.
//! - A thread that is killed anywhere leaves a whole ring: nothing is reserved that is not committed.
//! - Where a full ring has lost something is exact: the sequence that counts a loss sees that the sub-buffer is closed, and
//!   nobody can enter the next one while it lasts.
//!
//! # Why the time needs no fence
//! RDTSC may be executed before the load of `pos` that stands before it: it is not a serialising instruction (Intel SDM vol. 2B and AMD APM vol. 3, RDTSC),
//! and a fence would cost as much as the rest. That does no harm. Whoever writes to a ring runs on its CPU; migration ends the sequence, and it starts over.
//! So the records of a ring are in the program order of one logical processor, whichever threads they are of. What has to hold is only that of
//! two RDTSCs of one processor the later one does not read less. That is the counter's own promise: it "is guaranteed to return a monotonically increasing unique
//! value whenever executed" (SDM vol. 3B, 17.17, "Time-Stamp Counter"). No processor is known that executes two of them in exchanged order, with the stores of one record
//! and the loads and checks of the next one between them. That a virtual processor's counter goes on where it was when it moves to
//! another core is its host's promise (SDM vol. 3C, "TSC offsetting").
//!
//! Should a time go back all the same (a host that breaks this, a counter that somebody has written to), it is not believed: the consumer's walk
//! stops at that record, and says that the rest of those bytes is damaged. `mote-bench torture ring` looks for it, with signals and migration.
//!
//! # Progress
//! A sequence restarts only when its own thread was interrupted. It waits for nobody.
//!
//! # Registers of the record sequence
//! ```text
//! {rs} rseq area   {wr} channel   {ch} its rings now   {pl} payload   {len} its bytes   {tag}, {tid}
//! {c} control      {d} data       {p} pos        {x} scratch       rax time/index   rdx scratch
//! ```

use crate::control::{Control, RING_SHIFT, Slot};
use crate::geometry::{Clock, Mode};
use crate::writer::{Fragment, Outcome, Payload, Record, Rings, TABLE_AT, Write, Writer};
use core::arch::asm;
use core::mem::offset_of;
use mote_layout::Cause;
use mote_sync::rseq;
use mote_sys::tsc;

/// Writes by restartable sequences; serves threads that the C library has registered.
#[derive(Clone, Copy, Debug)]
pub struct RseqWriter;

/// How a sequence ended.
const DONE: u32 = 0;
/// The record does not end inside the sub-buffer; or the ring is full, and the sub-buffer closed.
const NO_ROOM: u32 = 1;
/// The CPU has no ring, or the thread no registration.
const NO_RING: u32 = 2;
/// The time is older than the newest record's (only where the clock is not the TSC).
const LATE: u32 = 3;
/// The thread may not read the TSC.
const NO_CLOCK: u32 = 4;
/// So often in a row a time is never late, unless another process has written one from the future into the ring.
const LATE_MAX: u32 = 1000;

impl Write for RseqWriter {
    #[inline(always)]
    unsafe fn write(&self, channel: &Writer, record: Record<'_>) -> Outcome {
        if let Payload::Words { from, len } = record.payload
            // SAFETY: the caller's promise.
            && let Some(outcome) = unsafe { try_words(channel, record.tag, record.thread, from, len) }
        {
            return outcome;
        }
        // SAFETY: the caller's promise.
        unsafe { write_slow(channel, record) }
    }
}

/// The first try of a small record; `None` when it must be tried otherwise.
///
/// # Safety
/// As [`Writer::write_words`].
#[inline(always)]
pub(crate) unsafe fn try_words(
    channel: &Writer,
    tag: u16,
    thread: u32,
    from: *const u8,
    len: usize,
) -> Option<Outcome> {
    if channel.clock() != Clock::Tsc as u32 {
        return None;
    }
    // SAFETY: the caller's promise.
    match unsafe { write_words(channel, tag, thread, from, len) } {
        DONE => Some(Outcome::Written),
        NO_RING => Some(Outcome::NotHere),
        _ => None,
    }
}

/// Everything but the first try of a small record: large ones, other clocks, the next sub-buffer.
#[cold]
#[inline(never)]
unsafe fn write_slow(channel: &Writer, record: Record<'_>) -> Outcome {
    let len = record.payload.len();
    if len > channel.rings().payload_max() {
        return channel.rings().count_lost(Cause::TooBig);
    }
    let mut late = 0;
    let mut allowed = None;
    while late < LATE_MAX {
        // SAFETY: the caller's promise, and `len` was checked.
        let ended = match unsafe { write_any(channel, record) } {
            NO_ROOM => match switch(channel, len) {
                DONE => continue,
                // Closed. Should somebody enter the next one before this is counted, there may be room now.
                NO_ROOM => match count_ring_full(channel) {
                    DONE => return Outcome::Lost(Cause::RingFull),
                    NO_ROOM => continue,
                    ended => ended,
                },
                ended => ended,
            },
            ended => ended,
        };
        match ended {
            DONE => return Outcome::Written,
            LATE => late += 1,
            NO_CLOCK if allowed.is_none() && channel.clock() == Clock::Tsc as u32 => {
                allowed = tsc::allow();
                if allowed.is_none() {
                    return channel.rings().count_lost(Cause::NoClock);
                }
            }
            NO_CLOCK => return channel.rings().count_lost(Cause::NoClock),
            _ => return Outcome::NotHere,
        }
    }
    Outcome::NotHere
}

unsafe fn write_any(channel: &Writer, record: Record<'_>) -> u32 {
    let now = match channel.clock() == Clock::Tsc as u32 {
        true => 0,
        false => match channel.now() {
            Some(now) => now,
            None => return NO_CLOCK,
        },
    };
    let one;
    let (list, len) = match record.payload {
        Payload::Words { from, len } if now == 0 => {
            // SAFETY: the caller's promise.
            return unsafe { write_words(channel, record.tag, record.thread, from, len) };
        }
        Payload::Words { from, len } => {
            one = [Fragment { from, len }];
            (one.as_slice(), len)
        }
        Payload::Fragments { list, len } => (list, len),
    };
    let large = Large {
        list: list.as_ptr(),
        end: list.as_ptr_range().end,
        len,
        tag: u64::from(record.tag),
        thread: u64::from(record.thread),
        now,
    };
    // SAFETY: the caller's promise; `large` describes the record's fragments.
    unsafe { write_fragments(channel, &large) }
}

/// Opens a sequence: descriptor, then `2:` where it can be restarted, then the CPU's ring in {c} and {d}.
/// The abort handler `4:` lies in the function, not in a section of its own: a signal's handler returns there, and who unwinds the
/// stack from it (`pthread_exit`, cancellation) must find the frame described.
/// `5:` is where the sequence ends, behind its commit; `7:` leaves as `NO_RING`, `8:` as `NO_ROOM`, `17:` as `LATE`, `18:` as
/// `NO_CLOCK`: the handler of SIGSEGV goes there (`mote_sys::tsc`), because RDTSC is the only instruction that raises a general protection fault.
macro_rules! sequence {
    ($($line:literal),* ; commit $commit:literal ; $($operand:tt)*) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "2:",
            ".long 0, 0",
            ".quad 3f, (5f - 3f), 4f",
            ".popsection",
            "6:",
            "lea {x}, [rip + 2b]",
            "mov [{rs} + {RSEQ_CS}], {x}",
            "3:",
            "mov {ch}, [{wr} + {LIVE}]",
            "mov {x:e}, [{rs} + {CPU_ID}]",
            "cmp {x:e}, [{ch} + {CPUS}]",
            "jae 7f",
            "shl {x}, {RING_SHIFT}",
            "add {x}, {ch}",
            "mov {c}, [{x} + {TABLE}]",
            $($line,)*
            $commit,
            "5:",
            "xor eax, eax",
            "jmp 9f",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {SIGNATURE}",
            "4:",
            "jmp 6b",
            mote_sys::exception!(mote_clocks, "4b" => "18f"),
            "18:",
            "mov eax, {NO_CLOCK}",
            "jmp 9f",
            "7:",
            "mov eax, {NO_RING}",
            "jmp 9f",
            "17:",
            "mov eax, {LATE}",
            "jmp 9f",
            "8:",
            "mov eax, {NO_ROOM}",
            "9:",
            RSEQ_CS = const rseq::RSEQ_CS,
            CPU_ID = const rseq::CPU_ID,
            CPUS = const offset_of!(Rings, cpus),
            LIVE = const Writer::RINGS_AT,
            TABLE = const TABLE_AT,
            RING_SHIFT = const RING_SHIFT,
            SIGNATURE = const rseq::SIGNATURE,
            NO_RING = const NO_RING,
            NO_ROOM = const NO_ROOM,
            LATE = const LATE,
            NO_CLOCK = const NO_CLOCK,
            $($operand)*
        )
    };
}

/// Writes prefix and `len` bytes from `from`, in whole words.
#[inline(always)]
unsafe fn write_words(channel: &Writer, tag: u16, thread: u32, from: *const u8, len: usize) -> u32 {
    let end: u32;
    // SAFETY: the sequence
    // 1. touches the control words and data of the ring of the CPU that it runs on, which the mapping
    //    holds for ever (`Writer::map`), and finds it in the table behind `Rings`, which never changes;
    // 2. writes behind `pos` and inside the sub-buffer: `x` is the offset of the record's end plus the up
    //    to 7 bytes that the last word reaches over, and is compared with the sub-buffer's size;
    // 3. reads the payload's words, the caller's promise;
    // 4. ends with the store of `pos`; an abort before it goes to `4:`, and thence to the start.
    unsafe {
        sequence!(
            "mov {d}, [{x} + {TABLE} + 8]",
            "mov {p}, [{c}]",
            "mov {x}, {p}",
            "and {x}, [{ch} + {SUB_MASK}]",
            "lea {x}, [{x} + {len} + 19]",
            "cmp {x}, [{ch} + {SUB_BYTES}]",
            "jae 8f",
            "mov {x}, {p}",
            "and {x}, [{ch} + {RING_MASK}]",
            "add {d}, {x}",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "shl rax, 16",
            "or rax, {tag}",
            "mov [{d}], rax",
            "mov [{d} + 8], {tid:e}",
            "xor eax, eax",
            "test {len}, {len}",
            "jz 13f",
            "12:",
            "mov rdx, [{pl} + rax]",
            "mov [{d} + rax + 12], rdx",
            "add rax, 8",
            "cmp rax, {len}",
            "jb 12b",
            "13:",
            "lea {p}, [{p} + {len} + 12]";
            commit "mov [{c}], {p}";
            SUB_MASK = const offset_of!(Rings, sub_mask),
            SUB_BYTES = const offset_of!(Rings, sub_bytes),
            RING_MASK = const offset_of!(Rings, ring_mask),
            rs = in(reg) rseq::area(),
            wr = in(reg) channel,
            ch = out(reg) _,
            pl = in(reg) from,
            len = in(reg) len,
            tag = in(reg) u64::from(tag),
            tid = in(reg) thread,
            c = out(reg) _,
            d = out(reg) _,
            p = out(reg) _,
            x = out(reg) _,
            out("rax") end,
            out("rdx") _,
            options(nostack),
        );
    }
    end
}

/// A record of fragments, as the assembly reads it.
#[repr(C)]
struct Large {
    list: *const Fragment,
    end: *const Fragment,
    len: usize,
    tag: u64,
    thread: u64,
    now: u64,
}

/// Writes prefix and fragments. `now` is 0 where the clock is the TSC.
unsafe fn write_fragments(channel: &Writer, large: &Large) -> u32 {
    let end: u32;
    // SAFETY: as in `write_words`; the fragments are readable, the caller's promise, and copied exactly.
    // Where the clock is not the TSC, `last_time` is written before `pos`: should the sequence be aborted
    // between the two, later records are only made to wait for a time that has passed already.
    unsafe {
        sequence!(
            "mov rdi, [{x} + {TABLE} + 8]",
            "mov {p}, [{c}]",
            "mov {x}, {p}",
            "and {x}, [{ch} + {SUB_MASK}]",
            "add {x}, [{la} + {LEN}]",
            "add {x}, 13",
            "cmp {x}, [{ch} + {SUB_BYTES}]",
            "jae 8f",
            "mov {x}, {p}",
            "and {x}, [{ch} + {RING_MASK}]",
            "add rdi, {x}",
            "mov rax, [{la} + {NOW}]",
            "test rax, rax",
            "jnz 12f",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "jmp 13f",
            "12:",
            "cmp rax, [{c} + {LAST_TIME}]",
            "jb 17f",
            "mov [{c} + {LAST_TIME}], rax",
            "13:",
            "shl rax, 16",
            "or rax, [{la} + {TAG}]",
            "mov [rdi], rax",
            "mov eax, [{la} + {THREAD}]",
            "mov [rdi + 8], eax",
            "add rdi, 12",
            "mov {x}, [{la} + {LIST}]",
            "14:",
            "cmp {x}, [{la} + {END}]",
            "je 15f",
            "mov rsi, [{x}]",
            "mov rcx, [{x} + 8]",
            "rep movsb",
            "add {x}, 16",
            "jmp 14b",
            "15:",
            "add {p}, [{la} + {LEN}]",
            "add {p}, 12";
            commit "mov [{c}], {p}";
            SUB_MASK = const offset_of!(Rings, sub_mask),
            SUB_BYTES = const offset_of!(Rings, sub_bytes),
            RING_MASK = const offset_of!(Rings, ring_mask),
            LAST_TIME = const offset_of!(Control, last_time),
            LEN = const offset_of!(Large, len),
            NOW = const offset_of!(Large, now),
            TAG = const offset_of!(Large, tag),
            THREAD = const offset_of!(Large, thread),
            LIST = const offset_of!(Large, list),
            END = const offset_of!(Large, end),
            rs = in(reg) rseq::area(),
            wr = in(reg) channel,
            ch = out(reg) _,
            la = in(reg) large,
            c = out(reg) _,
            p = out(reg) _,
            x = out(reg) _,
            out("rax") end,
            out("rcx") _,
            out("rdx") _,
            out("rsi") _,
            out("rdi") _,
            options(nostack),
        );
    }
    end
}

/// Enters the next sub-buffer, if a record of `len` bytes really does not fit and the mode allows it. Closes this one if not.
///
/// Returns `DONE` when the record may be tried again, `NO_ROOM` when the ring is full and the sub-buffer was closed before.
fn switch(channel: &Writer, len: usize) -> u32 {
    let end: u32;
    // SAFETY: as in `write_words`. The stores to the slots of the sub-buffer that ends and of the one that `pos` goes to are
    // repeated by whoever comes so far in the end, so an abort between them and the commit does no harm: nobody reads
    // the second before `pos` is there, and while one is open nothing is lost, so that closing it changes no count. The
    // room that is asked for (`len + 19`) is the most that either kind of record asks for.
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

/// Where events are counted that a full ring could not take.
const LOST: usize = offset_of!(Control, lost) + 8 * Cause::RingFull as usize;

/// Counts one event that a full ring could not take. Returns `NO_ROOM` when the sub-buffer is not closed (any more).
fn count_ring_full(channel: &Writer) -> u32 {
    let end: u32;
    // SAFETY: as in `write_words`: one read-modify-write instruction on the counter is the commit, and
    // nobody on another CPU touches the counter of this CPU's ring.
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

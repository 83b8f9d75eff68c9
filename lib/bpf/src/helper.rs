//! Functions that programs may call, and what the verifier knows of them.
//!
//! Numbers below 1000 are the kernel's (`enum bpf_func_id` of `include/uapi/linux/bpf.h`, Linux 6.18) and mean what
//! they mean there, so that a program that uses only those runs on either side. Those from 1000 to 1099 are this
//! machine's; those from [`OWN`] on are for hosts that run programs.

/// What a helper takes for one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Nothing: the register is not looked at.
    None,
    /// Any number, never a pointer.
    Number,
    /// A map.
    Map,
    /// A map of this kind.
    MapOf(crate::map::MapKind),
    /// Points to as many readable bytes as the map's keys have.
    Key,
    /// Points to as many readable bytes as the map's values have.
    Value,
    /// Points to readable bytes, as many as the next argument says.
    Readable,
    /// Points to writable bytes, as many as the next argument says; they are initialised after.
    Writable,
    /// Points to read-only memory in which a NUL is certain.
    Constant,
    /// How many bytes the argument before it points to: at least 1.
    Size,
    /// As `Size`; 0 is allowed, and then the pointer before it may be null.
    SizeOrZero,
    /// Points into a text or sequence of the context, or to its end (see [`crate::environment`]); at any place between
    /// them.
    Start,
    /// The `End` of what the argument before it starts.
    End,
    /// The context, as `r1` was.
    Context,
    /// A record that a ring buffer reserved; it is given back.
    Record,
}

/// What a helper leaves in `r0`, as the verifier knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// Any number.
    Number,
    /// A number from 0 to this.
    UpTo(u64),
    /// Nothing: `r0` must not be read after.
    Nothing,
    /// Points to a value of the map that it was given, or 0.
    ValueOrNull,
    /// Points to a record of as many bytes as its (constant) second argument says, or 0. It must be given back.
    RecordOrNull,
}

/// What the verifier has to know of a helper: its number, its arguments, and what it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Helper {
    /// The number by which `call` instructions name it.
    pub id: u32,
    /// Name in assembly, as in the kernel but without `bpf_`.
    pub name: &'static str,
    /// What it takes in `r1` to `r5`.
    pub args: [Arg; 5],
    /// What it leaves in `r0`.
    pub returns: Returns,
}

impl Helper {
    /// A helper that takes these arguments, at most five.
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler only: a wrong index is its error")]
    pub const fn new(id: u32, name: &'static str, args: &[Arg], returns: Returns) -> Helper {
        let mut all = [Arg::None; 5];
        let mut i = 0;
        while i < args.len() {
            all[i] = args[i];
            i += 1;
        }
        Helper { id, name, args: all, returns }
    }
}

const fn helper(id: u32, name: &'static str, args: &[Arg], returns: Returns) -> Helper {
    Helper::new(id, name, args, returns)
}

use crate::map::MapKind::{Array, Programs, RingBuffer};
use Arg::{Constant, Context, End, Key, Map, MapOf, Number, Readable, Record, Size, Start, Value, Writable};

/// `map_lookup_elem(map, key)`
pub const MAP_LOOKUP: u32 = 1;
/// `map_update_elem(map, key, value, flags)`: 0, or an error number, negative.
pub const MAP_UPDATE: u32 = 2;
/// `map_delete_elem(map, key)`
pub const MAP_DELETE: u32 = 3;
/// `ktime_get_ns()`: `CLOCK_MONOTONIC`, ns.
pub const KTIME_GET_NS: u32 = 5;
/// `get_prandom_u32()`
pub const GET_PRANDOM_U32: u32 = 7;
/// `get_smp_processor_id()`
pub const GET_SMP_PROCESSOR_ID: u32 = 8;
/// `tail_call(ctx, programs, index)`: goes on with another program, and comes back only when there
/// is none at that index, or after [`TAIL_CALLS_MAX`].
pub const TAIL_CALL: u32 = 12;
/// Most tail calls of a run.
pub const TAIL_CALLS_MAX: u32 = 33;
/// `get_current_pid_tgid()`: process id << 32 | thread id.
pub const GET_CURRENT_PID_TGID: u32 = 14;
/// `get_current_comm(buffer, size)`: the thread's name, NUL-terminated.
pub const GET_CURRENT_COMM: u32 = 16;
/// `ringbuf_output(ring, data, size, flags)`
pub const RINGBUF_OUTPUT: u32 = 130;
/// `ringbuf_reserve(ring, size, flags)`
pub const RINGBUF_RESERVE: u32 = 131;
/// `ringbuf_submit(record, flags)`
pub const RINGBUF_SUBMIT: u32 = 132;
/// `ringbuf_discard(record, flags)`
pub const RINGBUF_DISCARD: u32 = 133;
/// `strncmp(text, size, constant)`: as C's, `constant` being NUL-terminated in read-only memory.
pub const STRNCMP: u32 = 182;

// What only programs in the kernel call: no environment here has them.

/// `perf_event_output(context, events, flags, data, size)`: a record of an event of perf_event_open(2); 0, or an error
/// number, negative. [`CURRENT_CPU`] as flags: of this CPU's.
pub const PERF_EVENT_OUTPUT: u32 = 25;
/// `BPF_F_CURRENT_CPU`
pub const CURRENT_CPU: i64 = 0xffff_ffff;
/// `get_stack(context, buffer, size, flags)`: addresses of the stack, 8 bytes each; returns their bytes, or an error
/// number, negative.
pub const GET_STACK: u32 = 67;
/// `probe_read_user(to, size, from)`: copies from the process's memory; 0, or an error number and zeros.
pub const PROBE_READ_USER: u32 = 112;
/// `probe_read_kernel(to, size, from)`: the same from the kernel's.
pub const PROBE_READ_KERNEL: u32 = 113;
/// `probe_read_user_str(to, size, from)`: copies a text with its NUL; returns its bytes, or an error number, negative.
pub const PROBE_READ_USER_STR: u32 = 114;
/// `probe_read_kernel_str(to, size, from)`: the same from the kernel's memory.
pub const PROBE_READ_KERNEL_STR: u32 = 115;
/// `jiffies64()`: ticks since the system was started.
pub const JIFFIES64: u32 = 118;
/// `get_current_ancestor_cgroup_id(level)`
pub const GET_CURRENT_ANCESTOR_CGROUP_ID: u32 = 123;
/// `get_task_stack(task, buffer, size, flags)`: as [`GET_STACK`], of another thread.
pub const GET_TASK_STACK: u32 = 141;
/// `this_cpu_ptr(variable)`: where this CPU's copy of a variable is.
pub const THIS_CPU_PTR: u32 = 154;
/// `get_current_task_btf()`: the running task, as a typed pointer.
pub const GET_CURRENT_TASK_BTF: u32 = 158;
/// `get_attach_cookie(context)`: the number that the program was attached with here.
pub const GET_ATTACH_COOKIE: u32 = 174;
/// `task_pt_regs(task)`: the registers that a thread has in its program, as a typed pointer (Linux 5.15).
pub const TASK_PT_REGS: u32 = 175;

/// The first number of helpers that an environment may have of its own.
pub const OWN: u32 = 1100;

// This machine's.

/// `memory_compare(a, a_size, b, b_size)`: less than, equal to or greater than 0, as `memcmp` and then the shorter
/// first.
pub const MEMORY_COMPARE: u32 = 1000;
/// `text_compare(start, end, constant, size)`: a text of the context against `size` bytes, as `memory_compare`; both
/// end at their first NUL. The paper's `bpf_strcmp`.
pub const TEXT_COMPARE: u32 = 1001;
/// `text_glob(start, end, pattern, size)`: 1 when a text of the context matches a pattern in which `*` stands for any
/// bytes, `?` for any one, and `\` makes the next literal; else 0.
pub const TEXT_GLOB: u32 = 1002;
/// `text_find(start, end, needle, size)`: place of the first occurrence, or `u64::MAX`.
pub const TEXT_FIND: u32 = 1003;
/// `text_copy(start, end, buffer, size)`: the text into a buffer, zeros behind; returns the text's bytes, all of them.
pub const TEXT_COPY: u32 = 1004;
/// `text_hash(start, end)`: 64 bits, FNV-1a with a final mix, the same in all processes.
pub const TEXT_HASH: u32 = 1005;
/// `map_add(map, key, delta)`: adds to the first 8 bytes of the value, atomically; makes an entry of zeros when there
/// is none. 0, or negative when the map is full, which the map counts.
pub const MAP_ADD: u32 = 1006;
/// `log_linear(value)`: bucket of a log-linear histogram ([`bucket`]).
pub const LOG_LINEAR: u32 = 1007;
/// `text_text_compare(a_start, a_end, b_start, b_end)`: two texts of the context.
pub const TEXT_TEXT_COMPARE: u32 = 1008;
/// `keep_last(array, data, size)`: writes `size` bytes into the next entry of an array whose values begin with a `u64`
/// sequence number (from 1; 0 while the entry is being written or empty), whose rest takes the data, zeros behind.
/// Entry 0 is the counter.
pub const KEEP_LAST: u32 = 1009;

/// The helpers that every environment has.
pub const BUILTIN: &[Helper] = &[
    helper(MAP_LOOKUP, "map_lookup_elem", &[Map, Key], Returns::ValueOrNull),
    helper(MAP_UPDATE, "map_update_elem", &[Map, Key, Value, Number], Returns::Number),
    helper(MAP_DELETE, "map_delete_elem", &[Map, Key], Returns::Number),
    helper(KTIME_GET_NS, "ktime_get_ns", &[], Returns::Number),
    helper(GET_PRANDOM_U32, "get_prandom_u32", &[], Returns::UpTo(u32::MAX as u64)),
    helper(GET_SMP_PROCESSOR_ID, "get_smp_processor_id", &[], Returns::UpTo(0xffff)),
    helper(TAIL_CALL, "tail_call", &[Context, MapOf(Programs), Number], Returns::Number),
    helper(GET_CURRENT_PID_TGID, "get_current_pid_tgid", &[], Returns::Number),
    helper(GET_CURRENT_COMM, "get_current_comm", &[Writable, Size], Returns::Number),
    helper(RINGBUF_OUTPUT, "ringbuf_output", &[MapOf(RingBuffer), Readable, Size, Number], Returns::Number),
    helper(RINGBUF_RESERVE, "ringbuf_reserve", &[MapOf(RingBuffer), Number, Number], Returns::RecordOrNull),
    helper(RINGBUF_SUBMIT, "ringbuf_submit", &[Record, Number], Returns::Nothing),
    helper(RINGBUF_DISCARD, "ringbuf_discard", &[Record, Number], Returns::Nothing),
    helper(STRNCMP, "strncmp", &[Readable, Size, Constant], Returns::Number),
    helper(MEMORY_COMPARE, "memory_compare", &[Readable, Size, Readable, Size], Returns::Number),
    helper(TEXT_COMPARE, "text_compare", &[Start, End, Readable, Size], Returns::Number),
    helper(TEXT_GLOB, "text_glob", &[Start, End, Readable, Size], Returns::UpTo(1)),
    helper(TEXT_FIND, "text_find", &[Start, End, Readable, Size], Returns::Number),
    helper(TEXT_COPY, "text_copy", &[Start, End, Writable, Size], Returns::Number),
    helper(TEXT_HASH, "text_hash", &[Start, End], Returns::Number),
    helper(MAP_ADD, "map_add", &[Map, Key, Number], Returns::Number),
    helper(LOG_LINEAR, "log_linear", &[Number], Returns::UpTo(BUCKETS as u64 - 1)),
    helper(TEXT_TEXT_COMPARE, "text_text_compare", &[Start, End, Start, End], Returns::Number),
    helper(KEEP_LAST, "keep_last", &[MapOf(Array), Readable, Size], Returns::Number),
];

/// How many [`SUB_BUCKETS`], as a power of two.
const SUB_BITS: u32 = 3;
/// Sub-buckets of an octave of a log-linear histogram: a bucket is at most 1/8 of its values wide.
pub const SUB_BUCKETS: u32 = 1 << SUB_BITS;
/// Buckets of a log-linear histogram of 64-bit values.
pub const BUCKETS: u32 = crate::bucket::buckets::<SUB_BITS>();

/// The bucket of a value, of [`crate::bucket`]: values below 8 have one each; above, each power of two has 8, equally
/// wide.
#[inline(always)]
pub const fn bucket(value: u64) -> u32 {
    crate::bucket::bucket::<SUB_BITS>(value)
}

/// The smallest value of a bucket.
pub const fn bucket_start(bucket: u32) -> u64 {
    crate::bucket::start::<SUB_BITS>(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_helper_has_a_number_and_a_name_of_its_own() {
        for (at, one) in BUILTIN.iter().enumerate() {
            assert!(
                !BUILTIN[..at].iter().any(|other| other.id == one.id || other.name == one.name),
                "{}",
                one.name
            );
        }
    }
}

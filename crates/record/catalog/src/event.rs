//! An event of the kernel: what the catalogue knows of it, and what the generator of programs needs.

use mote_layout::types::Scalar;
use std::path::PathBuf;

/// Most bytes of a text in a record, its NUL included; longer ones are cut.
pub const TEXT_MAX: u32 = 256;

/// An event of the kernel, or of a probe that the kernel serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The family, which is the provider in patterns and rules: `sched`, `syscalls`, `block`; `uprobe` and `usdt` for
    /// probes.
    pub provider: String,
    /// Its name in the trace: LTTng's where LTTng has it (`sched_switch`, `syscall_entry_openat`).
    pub name: String,
    /// Its fields, in the order of the record.
    pub fields: Vec<Field>,
    /// Where its program is attached.
    pub hook: Hook,
}

/// Where a program is attached, and with that what its context is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A raw tracepoint; the context is its arguments, a 64-bit word each.
    Raw {
        /// The tracepoint's name, as the kernel has it.
        name: String,
        /// The id of its type `btf_trace_NAME`, when the kernel carries BTF: then pointers in the arguments can be
        /// followed by plain loads.
        btf_id: Option<u32>,
    },
    /// A trace event of tracefs; the context is its record, as its `format` says.
    Tracepoint {
        /// `system/name` below `events`.
        path: String,
        /// Its number, for perf_event_open(2).
        id: u64,
    },
    /// The entry of a system call, by its number.
    SyscallEntry(u32),
    /// The return of a system call, by its number.
    SyscallExit(u32),
    /// An instruction of a program or library; the context is the registers.
    Uprobe {
        /// The file.
        path: PathBuf,
        /// Offset of the instruction in it.
        offset: u64,
        /// Offset in the file of the counter that switches a USDT probe on; 0 when it has none.
        semaphore: u64,
        /// At the return of the function that begins there.
        returns: bool,
    },
    /// An instruction of the kernel, where the kernel has kprobes; the context is the registers.
    Kprobe {
        /// The function.
        function: String,
        /// Offset of the instruction in it.
        offset: u64,
        /// At its return.
        returns: bool,
    },
    /// Entry or return of a function of the kernel, by a jump that the kernel puts there (fentry, fexit); the context
    /// is its arguments, a 64-bit word each, and behind them the result.
    Fentry {
        /// The function.
        function: String,
        /// Its number in the kernel's BTF.
        btf_id: u32,
        /// At its return.
        returns: bool,
    },
}

impl Hook {
    /// The file and the address in it, of a probe of a program.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        match self {
            Hook::Uprobe { path, offset, .. } => Some(format!("{}+{offset:#x}", path.display())),
            _ => None,
        }
    }
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the trace.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where the program finds it.
    pub from: Origin,
}

/// Type of a field. Its bytes in the record are those of `mote_layout::types`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// One value.
    Scalar(Scalar),
    /// A text up to its NUL, at most [`TEXT_MAX`] bytes.
    Text,
    /// So many bytes that hold a text, up to the first NUL: a thread's name.
    FixedText(u16),
    /// A fixed number of values.
    Array(Scalar, u16),
    /// A varying number of values, at most so many.
    Sequence(Scalar, u16),
    /// An integer with named values: label, first and last value.
    Enumeration(Scalar, Vec<(String, i64, i64)>),
    /// An integer whose bits have names: label and value.
    Flags(Scalar, Vec<(String, u64)>),
    /// As an enumeration in rules, but a plain integer in the trace, because existing analyses expect one there.
    Labelled(Scalar, Vec<(String, i64, i64)>),
}

/// Where a program finds the value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// At this offset of the trace event's record.
    Record(u32),
    /// Where the record's 32-bit word at `offset` says: bytes in the upper half, offset in the lower (`__data_loc`);
    /// when `relative`, counted from behind the word (`__rel_loc`).
    Location {
        /// Offset of the word.
        offset: u32,
        /// `__rel_loc`.
        relative: bool,
    },
    /// Argument of the raw tracepoint, of the system call, or word of the function's context, counted from 0.
    Argument(u8),
    /// The same where it is a pointer, as a number: of what the verifier knows as a pointer it lets programs calculate
    /// nothing, and some it shows to none.
    Address(u8),
    /// In the structure that an argument points to. All offsets but the last are of pointers, which are followed; the
    /// value, or the first byte of the fixed text, lies at the last.
    Member {
        /// Which argument.
        argument: u8,
        /// Offsets in bytes.
        path: Vec<u32>,
        /// How many bytes lie there.
        bytes: u8,
    },
    /// The text that this argument points to in the memory of the process.
    UserText(u8),
    /// The nanoseconds of a `struct timespec` of 64-bit numbers in the memory of the process; -1 without one.
    UserTime(Timespec),
    /// A part of the socket address (`struct sockaddr`) that a system call is given or returns.
    Socket(Socket, Part),
    /// The text in the kernel's memory to which a member (as in `Member`) points.
    KernelText {
        /// Which argument.
        argument: u8,
        /// Offsets in bytes; empty when the argument is the pointer.
        path: Vec<u32>,
    },
    /// What the system call, or the function, returned.
    Result,
    /// How long the system call took, in nanoseconds.
    Duration,
    /// A value of the interrupted registers and the process's memory, for probes of programs.
    Operand(Operand),
    /// The text at the address that the operand gives.
    OperandText(Operand),
    /// The text at the address that the other origin gives, in the memory of the process or of the kernel, by the half
    /// in which the address is. For functions of the kernel only: a program could name an address of the kernel.
    AnyText(Box<Origin>),
    /// Return addresses of the kernel's stack, the innermost first (`crate::stack`).
    KernelStack,
    /// The process's stack.
    UserStack {
        /// Most bytes of it that are copied for the recorder (`mote_layout::stack`); 0: return addresses, as far as
        /// frame pointers lead.
        copy: u32,
    },
    /// Id of the running thread, as the recorder's pid namespace has it.
    Tid,
    /// Id of the thread to which this argument points, or of its process, as the recorder's pid namespace has it.
    TaskId {
        /// Which argument.
        argument: u8,
        /// Where the outermost namespace's is: one offset in bytes.
        path: Vec<u32>,
        /// Of its process.
        process: bool,
    },
    /// Name of the running thread, as [`Type::FixedText`] of 16 bytes.
    Comm,
    /// An integer that is made of another: 64 bits of it, extended by the sign of the field's type, through each step
    /// in turn.
    Made {
        /// The integer that it is made of.
        from: Box<Origin>,
        /// What is done with it.
        steps: Vec<Step>,
    },
}

/// A time in the memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timespec {
    /// Which argument points to it.
    pub argument: u8,
    /// Only when the low 7 bits of an argument are a number below 64 of which the bit is set here; otherwise the
    /// pointer is something else.
    pub when: Option<(u8, u64)>,
}

/// A socket address in the memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Which argument points to it.
    pub address: u8,
    /// Which argument is its length, or when it is returned points to its length.
    pub length: u8,
    /// The system call has written it, unless it failed.
    pub returned: bool,
}

/// What of a socket address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its family; 0 without an address.
    Family,
    /// The port of the internet's families and of vsock(7), the port id of netlink(7); 0 for others.
    Port,
    /// As [`Type::Text`]: an address of the internet's families as inet_ntop(3) has it; the path of a unix socket, or
    /// `@` and its abstract name; empty for others.
    Text,
}

/// One step from what the kernel has to what the trace says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Only these bits.
    And(u64),
    /// The sum, wrapping.
    Add(i64),
    /// Shifted right by so many bits, zeros following.
    Shift(u8),
    /// `value` instead, when that argument is equal to `equals`.
    When {
        /// Which argument.
        argument: u8,
        /// Compared with.
        equals: u64,
        /// The value then.
        value: i64,
    },
    /// The union of what all fitting rules set.
    Bits(Vec<Bits>),
    /// A thread's id as the kernel counts, from which it is the recorder's pid namespace's: as the thread table has it;
    /// negative when it has none.
    RecorderTid,
}

/// Bits that are set when others have a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Which are looked at.
    pub mask: u64,
    /// Their value.
    pub equals: u64,
    /// Which are set then.
    pub set: u64,
}

/// An operand of a USDT probe, or an argument of a function by its register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A number.
    Constant(i64),
    /// Byte offset of a register in `struct pt_regs`.
    Register(u16),
    /// What lies in memory at the sum of registers and a displacement.
    Memory {
        /// Offset of the base register in `struct pt_regs`.
        base: u16,
        /// Offset of the index register, and its factor.
        index: Option<(u16, u8)>,
        /// Added.
        displacement: i64,
        /// How many bytes lie there: 1, 2, 4 or 8.
        bytes: u8,
    },
}

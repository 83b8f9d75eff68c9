//! What is said of a refused program: where, which register, what was known of it, and why.

use core::fmt::{self, Display, Formatter};

use crate::environment::{FRAMES_MAX, INSNS_MAX, STACK_BYTES};
use crate::insn::Reg;
use crate::op::DecodeError;

use super::state::RECORDS_MAX;

/// Why a program was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The slot of the instruction.
    pub insn: u32,
    /// The register that it is about, if it is about one.
    pub reg: Option<Reg>,
    /// What was known of that register.
    pub known: Known,
    /// Why the program is refused at this place.
    pub reason: Reason,
}
const _: () = assert!(size_of::<Rejection>() <= 80);

/// What was known of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// There is no register to speak of.
    Nothing,
    /// Nothing was written to it, on this path; or what it held does not outlive a call.
    Uninitialised,
    /// It is this number.
    Constant(u64),
    /// A number between these two.
    Unsigned(u64, u64),
    /// A number between these two, as a signed one.
    Signed(i64, i64),
    /// It could be any number.
    Number,
    /// A pointer.
    Pointer {
        /// Into what.
        to: Pointee,
        /// True when it could also be null.
        or_null: bool,
        /// Its least offset.
        min: i64,
        /// Its greatest offset.
        max: i64,
    },
}

/// What pointers point to. Offsets count from its beginning, for the stack and for `End` from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointee {
    /// The context.
    Context,
    /// A map itself.
    Map(u32),
    /// A value of a map.
    Value(u32),
    /// The stack of a frame: 0 is the main function's.
    Stack(u32),
    /// The memory that the program was entered with.
    Memory,
    /// The bytes of a context word.
    Bytes(u32),
    /// A text or sequence of the context, whose start is this word.
    Start(u32),
    /// The end of a text or sequence of the context, whose start is this word.
    End(u32),
    /// A record of a ring buffer, of this many bytes.
    Record(u32),
}

/// Why a program is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There are no instructions, or more than [`INSNS_MAX`].
    Length(u32),
    /// It is not an instruction.
    Decode(DecodeError),
    /// There are more than [`super::FUNCTIONS_MAX`] functions.
    Functions,
    /// There is no helper of this number.
    Helper(u32),
    /// There is no map of this index.
    Map(u32),
    /// The map of this index has a shape that no map can have.
    MapShape(u32),
    /// The address of a value is asked of a map that is no array, or behind its first value.
    MapValue,
    /// The jump leads to this slot, outside the function.
    JumpOutside(i64),
    /// The jump leads to this slot, in the middle of a 16-byte instruction.
    JumpIntoHalf(i64),
    /// The function ends without `exit` or a jump back.
    RunsOn,
    /// No path leads here.
    Unreachable,
    /// The function is already running.
    Recursion,
    /// The call would be the 9th frame.
    Frames,
    /// All paths together have more than this many instructions.
    Steps(u32),
    /// Too much is known at too many branches.
    Work,
    /// A loop in which nothing changes.
    Endless,
    /// Too many branches wait to be followed.
    Branches,
    /// The register is read, but holds nothing.
    Uninitialised,
    /// `r10` is read-only.
    FramePointer,
    /// There must be a number.
    NeedsNumber,
    /// There must be a pointer.
    NeedsPointer,
    /// It may be null.
    MayBeNull,
    /// Nothing can be read or written through it: it is a map itself, or nothing.
    NoMemory,
    /// Bytes `min` to `max` are accessed, and there are `have`. For the stack and `End` they lie before the end.
    Outside {
        /// Least offset.
        min: i64,
        /// Greatest offset, behind the last byte.
        max: i64,
        /// How many bytes there are.
        have: u32,
    },
    /// Only so many bytes of the text or sequence, from its base, are known to be there; `need` are accessed.
    NotCompared {
        /// Bytes that are accessed.
        need: i64,
        /// Bytes known to be there.
        have: i64,
    },
    /// It is read-only.
    ReadOnly,
    /// A context word is read in part, together with another one, or is not there.
    ContextWord,
    /// The context is read at an offset that is not constant.
    ContextOffset,
    /// The stack is read at this offset from `r10`, where nothing was written.
    StackUninitialised(i64),
    /// A pointer would become a number: it is stored outside the stack, or in part, or read in part.
    PointerLeak,
    /// A pointer to the stack of a function would outlive it.
    StackEscapes,
    /// Pointers cannot be computed with like this.
    PointerArithmetic,
    /// A number that is added to a pointer into a text is not bounded enough.
    PointerUnbounded,
    /// A pointer cannot be compared like this.
    PointerComparison,
    /// An atomic operation on so many bytes is not at a multiple of them.
    Unaligned(u32),
    /// Atomic operations work on the stack, values of maps, records, and the entry's memory only.
    AtomicMemory,
    /// The helper takes another kind of map for this, or a map that may be written.
    WrongMap,
    /// The helper needs the context as it was given, or a record from its beginning.
    Moved,
    /// The helper needs a text or sequence, from a place that is known to lie in it.
    NeedsText,
    /// The helper needs text in read-only memory.
    NeedsConstant,
    /// It is the `End` of something else, or was moved.
    NeedsEnd,
    /// The size may be 0 or negative, or is not bounded.
    Size,
    /// The size of a record must be a constant, more than 0, that fits into the ring buffer.
    RecordSize,
    /// A record is still held: it must be submitted or discarded on every path.
    RecordHeld,
    /// What the context points to is read while a record is held: if it faults, the record would never be given back.
    FaultWithRecord,
    /// More than 8 records would be held at once.
    Records,
    /// Tail calls are made by the main function.
    TailCall,
    /// A tail call of a program that reads the state of its thread.
    TailCallWithState,
}

/// A rejection is made where the instruction is known, of a reason, and perhaps of a register.
impl Rejection {
    pub(crate) fn new(insn: usize, reason: Reason) -> Rejection {
        Rejection { insn: insn as u32, reg: None, known: Known::Nothing, reason }
    }
}

impl Display for Rejection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {}: ", self.insn)?;
        if let Some(reg) = self.reg {
            write!(f, "{reg} {}: ", self.known)?;
        }
        self.reason.fmt(f)
    }
}

impl Display for Known {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Known::Nothing => write!(f, "is not known"),
            Known::Uninitialised => write!(f, "holds nothing"),
            Known::Constant(value) if value as i64 >= 0 => write!(f, "is {value}"),
            Known::Constant(value) => write!(f, "is {}", value as i64),
            Known::Unsigned(min, max) => write!(f, "is a number in {min}..={max}"),
            Known::Signed(min, max) => write!(f, "is a number in {min}..={max}"),
            Known::Number => write!(f, "is any number"),
            Known::Pointer { to, or_null, min, max } => {
                let null = if or_null { ", or null" } else { "" };
                match (min, max) {
                    (0, 0) => write!(f, "points to {to}{null}"),
                    (i64::MIN, i64::MAX) => write!(f, "points anywhere near {to}{null}"),
                    _ if min == max => write!(f, "points to {to} {min:+}{null}"),
                    _ => write!(f, "points to {to} {min:+}..={max:+}{null}"),
                }
            }
        }
    }
}

impl Display for Pointee {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Pointee::Context => write!(f, "the context"),
            Pointee::Map(map) => write!(f, "map {map} itself"),
            Pointee::Value(map) => write!(f, "a value of map {map}"),
            Pointee::Stack(0) => write!(f, "the end of the stack"),
            Pointee::Stack(frame) => write!(f, "the end of the stack of frame {frame}"),
            Pointee::Memory => write!(f, "the memory"),
            Pointee::Bytes(word) => write!(f, "the bytes of word {word}"),
            Pointee::Start(word) => write!(f, "the text of word {word}"),
            Pointee::End(word) => write!(f, "the end of the text of word {word}"),
            Pointee::Record(bytes) => write!(f, "a record of {bytes} bytes"),
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Decode(why) => write!(f, "{why}"),
            Reason::Length(0) => write!(f, "there are no instructions; a program has at least `exit`"),
            Reason::Length(n) => write!(f, "{n} instructions are too many; {INSNS_MAX} is the most"),
            Reason::Helper(id) => write!(f, "there is no helper {id}; call one that the environment has"),
            Reason::Map(map) => write!(f, "there is no map {map}; name one that the environment has"),
            Reason::MapShape(map) => write!(f, "map {map} has a shape that no map can have; mend its sizes"),
            Reason::JumpOutside(to) => write!(f, "jumps to {to}, outside its function; stay in it"),
            Reason::JumpIntoHalf(to) => {
                write!(f, "jumps to {to}, the second half of an instruction; jump to its beginning")
            }
            Reason::Steps(max) => write!(
                f,
                "the paths up to here have more than {max} instructions; bound the loops, or do with fewer branches"
            ),
            Reason::Outside { min, max, have } => write!(
                f,
                "bytes {min} to {max} are accessed, and there are {have}; compare the offset with its bounds first"
            ),
            Reason::NotCompared { have: ..0, .. } => {
                write!(f, "it is not known to lie before the end; compare it with the end first")
            }
            Reason::NotCompared { need, have } => write!(
                f,
                "byte {need} is needed, and {have} are known to be there; compare with the end first"
            ),
            Reason::StackUninitialised(at) => {
                write!(f, "the stack is read at r10{at:+}, where nothing was written; write it first")
            }
            Reason::Unaligned(size) => write!(
                f,
                "an atomic operation on {size} bytes needs an address that is a multiple of {size}; align it"
            ),
            other => f.write_str(other.plain()),
        }
    }
}

impl Reason {
    /// The prose of those that carry nothing.
    fn plain(self) -> &'static str {
        match self {
            Reason::Functions => "there are more than 256 functions; inline some",
            Reason::MapValue => "only arrays have a value at a known address, and the offset must lie in it",
            Reason::RunsOn => "the function ends here without an exit; end it with `exit`",
            Reason::Unreachable => "no path leads here; leave it out",
            Reason::Recursion => "the function would call itself; use a loop",
            Reason::Frames => {
                const { assert!(FRAMES_MAX == 8) };
                "calls are more than 8 frames deep; inline some functions"
            }
            Reason::Work => {
                "following all branches takes too long with so much on the stack; keep less there, or do with fewer branches"
            }
            Reason::Endless => "the loop comes round with nothing more known; count its turns and end it",
            Reason::Branches => "too many branches wait to be followed; do with fewer, or with shorter loops",
            Reason::Uninitialised => "it is read before it is written; write it first, on every path",
            Reason::FramePointer => "r10 is read-only; copy it to another register",
            Reason::NeedsNumber => "a number is needed here",
            Reason::NeedsPointer => "a pointer is needed here",
            Reason::MayBeNull => "it may be null; compare it with 0 first",
            Reason::NoMemory => "nothing can be accessed through it; look a value up first",
            Reason::ReadOnly => "it is read-only; write elsewhere",
            Reason::ContextWord => "the context is read one word at a time, pointers with all 8 bytes",
            Reason::ContextOffset => "the context is read at constant offsets only",
            Reason::PointerLeak => {
                "a pointer would become a number; keep it in a register, or in 8 bytes of the stack at a multiple of 8"
            }
            Reason::StackEscapes => "the pointer would outlive the stack that it points to; copy the bytes",
            Reason::PointerArithmetic => {
                "pointers take only 64-bit additions and subtractions of numbers, after a check against null"
            }
            Reason::PointerUnbounded => "the distance is not bounded; compare it with at most 2^29 first",
            Reason::PointerComparison => {
                "a pointer is compared with 0, or with another one into the same thing, in 64 bits"
            }
            Reason::AtomicMemory => "atomic operations work on the stack, on values of maps, and on records",
            Reason::WrongMap => {
                "the helper does not take this map; its kind or its sizes differ, or it is read-only"
            }
            Reason::Moved => "the helper needs the context, or the record, from its beginning",
            Reason::NeedsText => {
                "a pointer into a text or sequence is needed, known to lie in it; compare it with its end"
            }
            Reason::NeedsConstant => "a pointer to text in a read-only array is needed",
            Reason::NeedsEnd => "the end of the text before it is needed, unmoved",
            Reason::Size => {
                "it must be a number of bytes, bounded, and not 0; compare it with its bounds first"
            }
            Reason::RecordSize => "the size of a record is a constant, not 0, that fits into the ring buffer",
            Reason::RecordHeld => "a record is still held; submit or discard it on every path",
            Reason::FaultWithRecord => {
                "the read can fault, and a record is held; read it before the record is reserved"
            }
            Reason::Records => {
                const { assert!(RECORDS_MAX == 8) };
                "more than 8 records would be held at once; give one back first"
            }
            Reason::TailCall => "only the main function makes tail calls; move it there",
            Reason::TailCallWithState => {
                "a program that reads the state of its thread (r2) makes no tail calls; leave one of both out"
            }
            _ => {
                const { assert!(STACK_BYTES == 512) };
                "it is refused"
            }
        }
    }
}

impl core::error::Error for Rejection {}

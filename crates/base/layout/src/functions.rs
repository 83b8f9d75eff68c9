//! The plan of probes in functions of a program that carries none: what a recorder has found out about a running
//! process, and what the library that it has loaded there (`hook`) does with it.
//!
//! ```text
//! header   magic, bytes of all, how many memories, functions, guards, values, bytes of texts,
//!          nanoseconds of a tick of the time-stamp counter, in units of 2^-32,
//!          whether its memory has been reserved, the budget, how many counters,
//!          the number of its counts, their rows, bytes of a row, the number of its callers
//! memories by address: what is to be mapped, and where: code that the recorder has written
//! functions
//! guards   by address
//! values   of functions whose events have more than a duration: those of one behind one another
//! counters
//! texts    descriptions (`crate::describe`), each with its NUL
//! code     the bytes of the memories
//! ```
//! All numbers are little-endian, all offsets in bytes from the plan's begin.
//!
//! # Code of a function
//! At `body` there is `call [body - 8]`, and behind it what the function's first bytes did: the copy of its first
//! instructions, and a jump to those behind them. `copy` is the address behind the call. The library puts the address
//! of its code into the 8 bytes at `body - 8`, and of its own record of the function into those at `body - 16`.
//! `target` is where the jump in the function leads: to the body, or to a jump there.
//!
//! # Guards
//! A jump that lies over several instructions has a breakpoint where each of these but the first one began
//! ([`Probe::guards`]): a thread that stood there when it was written goes on in the copy (`copy` of the [`Guard`]).
//! The bytes of its offset are chosen so. Where programs lie low, the last one may be a byte that is no instruction,
//! and raises SIGILL.
//!
//! # Values
//! A function without values has an event with one field, its duration. One with values has a field for each of them,
//! in their order, except for [`What::Count`], which belongs to the one behind it. Those before [`What::Duration`] are
//! of the moment when the function begins, and are packed then.
//!
//! # Samples
//! Of a function with [`What::Left`] only some calls are recorded, so that all of them together take no more than the
//! budget: it has a quota, and its probe is taken away when that is spent, until there is one again (iProbe, section
//! IV-B). [`What::Counter`] is what a counter counted during the call.
//!
//! # Counts
//! Of a function whose first value is [`What::Entries`] calls are counted in place of being recorded: its event never
//! occurs, and being on means that it is counted. [`What::Returns`] is the other value that it may have. The counts
//! ([`Counts`]) are rows of 64-bit words: one row for each CPU, and before them one that threads without restartable
//! sequences share. The functions have their words in the order of the plan: two each where returns are counted, too.
//!
//! # Callers
//! A plan with a number of callers is about calls inside of those of some functions ([`Scope::Caller`]): a call of the
//! others ([`Scope::Below`]) is recorded or counted only where its thread is in one of them. Plans of one number have
//! their callers together. A caller has a value at least.

/// The provider of functions' events.
pub const PROVIDER: &str = "f";

/// The provider of events about samples of functions, which the library has besides.
pub const SAMPLING_PROVIDER: &str = "fperf";

/// The function that an event `f:NAME` is of, or a pattern of such events; `None` for others.
pub fn function_of(event: &str) -> Option<&str> {
    event.strip_prefix(PROVIDER)?.strip_prefix(':')
}

/// First word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"moteFn5\0");
/// Bytes of the header.
pub const HEADER_BYTES: usize = 120;
/// Byte of the header that is not 0 where the plan's memory has been reserved by the process that has put it there.
pub const RESERVED_AT: usize = 64;
/// Bytes of a [`Memory`].
pub const MEMORY_BYTES: usize = 32;
/// Bytes of code of a probe that change: of a jump.
pub const JUMP_BYTES: usize = 5;
/// Bytes before the body where the library's record of the function is.
pub const RECORD_AT: u64 = 16;
/// Bytes before the body where the address of the library's code is.
pub const CODE_AT: u64 = 8;

/// Memory to be mapped, readable and executable; nothing else may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Where: whole pages.
    pub address: u64,
    /// Bytes: whole pages.
    pub len: u64,
    /// Where its bytes are in the plan.
    pub code: u64,
    /// How many they are; zeros follow.
    pub code_len: u64,
}

/// How a thread comes from a function to its probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By a jump.
    Jump,
    /// By a breakpoint: only the first byte changes.
    Trap,
}

/// Which calls of a function are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All calls.
    #[default]
    Anywhere,
    /// Those inside of a call of one of the plan's callers.
    Below,
    /// All calls: the function is a caller.
    Caller,
}

/// A probe of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Where the function begins.
    pub address: u64,
    /// See above.
    pub body: u64,
    /// See above.
    pub target: u64,
    /// See above.
    pub copy: u64,
    /// Where its description begins, from the begin of the texts: below 16 MiB.
    pub text: u32,
    /// Which its values are: the number of the first, and how many.
    pub values: (u32, u32),
    /// Bit n: at the function's byte n a guard stands.
    pub guards: u8,
    /// How it is reached.
    pub kind: Kind,
    /// Which calls are wanted.
    pub scope: Scope,
    /// What is there now.
    pub old: [u8; JUMP_BYTES],
    /// What is there while it is on.
    pub new: [u8; JUMP_BYTES],
}

/// Where a thread goes on that meets the breakpoint of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Of the breakpoint.
    pub address: u64,
    /// Of the instruction that stood there.
    pub copy: u64,
}

const PROBE_BYTES: usize = 56;
const GUARD_BYTES: usize = 16;

/// A value that an event of a function has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// What is recorded.
    pub what: What,
    /// What to begin with.
    pub from: Origin,
    /// The value lies in memory, where `from` points to.
    pub is_behind: bool,
    /// Bytes that it takes in a record: 1, 2, 4 or 8; of a text at most so many characters, and a NUL.
    pub bytes: u8,
    /// In memory: bytes from where `from` points to. In a register: bytes of it that lie before the value.
    pub offset: i32,
}

/// What is recorded of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// An integer, whose bits above are 0 for filters.
    Unsigned,
    /// An integer in two's complement.
    Signed,
    /// IEEE 754, of 4 or 8 bytes.
    Float,
    /// The text that it points to, up to a NUL.
    Text,
    /// The text that it is itself, up to a NUL.
    Characters,
    /// How many characters the text has that comes next, which it points to.
    Count,
    /// Nanoseconds of the call, in 8 bytes. What comes behind is of when it has returned.
    Duration,
    /// How the call has ended: [`RETURNED`] or [`UNWOUND`], in one byte.
    End,
    /// Of a call with a quota: for how long the probe was there when the call began, in nanoseconds, in 8 bytes.
    Since,
    /// The same: the how manieth quota it is of, in 4 bytes.
    Round,
    /// The same: how many calls are left of the quota, in 4 bytes.
    Left,
    /// Where the call returns to, in 8 bytes.
    Caller,
    /// What the sampling of calls inside of this one took of its time, in nanoseconds, in 8 bytes.
    Overhead,
    /// What part of the call was counted, in percent, in one byte: less where counters are shared (multiplexing).
    Counted,
    /// What the plan's counter of the number `offset` counted during the call, in 8 bytes.
    Counter,
    /// Of a function whose calls are counted: how many began, in 8 bytes.
    Entries,
    /// The same: how many ended, in 8 bytes.
    Returns,
}

/// The call has returned.
pub const RETURNED: u8 = 0;
/// The call has been left by an exception, or by longjmp: there is no result.
pub const UNWOUND: u8 = 1;

/// What a value is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The register of this integer argument, from 0.
    Integer(u8),
    /// The register of this argument in floating point, from 0.
    Vector(u8),
    /// The address behind the return address, where arguments begin that have no register.
    Stack,
    /// The register of this word of the result: 0 or 1.
    Result(u8),
    /// The register of this part of the result in floating point: 0 or 1.
    VectorResult(u8),
}

/// Bytes of a [`Value`].
pub const VALUE_BYTES: usize = 8;
/// Most bytes that the values of one call take in its record, with texts as long as they may be.
pub const RECORD_MAX: usize = 480;
/// Most values of one function.
pub const VALUES_MAX: usize = 32;

impl Origin {
    const INTEGER: u8 = 0;
    const VECTOR: u8 = 16;
    const STACK: u8 = 32;
    const RESULT: u8 = 48;
    const VECTOR_RESULT: u8 = 64;

    const fn to_byte(self) -> u8 {
        match self {
            Origin::Integer(number) => Origin::INTEGER | number & 15,
            Origin::Vector(number) => Origin::VECTOR | number & 15,
            Origin::Stack => Origin::STACK,
            Origin::Result(number) => Origin::RESULT | number & 15,
            Origin::VectorResult(number) => Origin::VECTOR_RESULT | number & 15,
        }
    }

    const fn from_byte(byte: u8) -> Option<Origin> {
        let number = byte & 15;
        Some(match byte & !15 {
            Origin::INTEGER => Origin::Integer(number),
            Origin::VECTOR => Origin::Vector(number),
            Origin::STACK => Origin::Stack,
            Origin::RESULT => Origin::Result(number),
            Origin::VECTOR_RESULT => Origin::VectorResult(number),
            _ => return None,
        })
    }
}

impl What {
    const ALL: [What; 17] = [
        What::Unsigned,
        What::Signed,
        What::Float,
        What::Text,
        What::Characters,
        What::Count,
        What::Duration,
        What::End,
        What::Since,
        What::Round,
        What::Left,
        What::Caller,
        What::Overhead,
        What::Counted,
        What::Counter,
        What::Entries,
        What::Returns,
    ];
}

impl Value {
    /// How long a call takes.
    pub const DURATION: Value =
        Value { what: What::Duration, from: Origin::Stack, is_behind: false, bytes: 8, offset: 0 };
    /// How a call has ended.
    pub const END: Value =
        Value { what: What::End, from: Origin::Stack, is_behind: false, bytes: 1, offset: 0 };

    /// How many calls began, of a function whose calls are counted.
    pub const ENTRIES: Value = Value::of_sample(What::Entries, 8);
    /// How many ended.
    pub const RETURNS: Value = Value::of_sample(What::Returns, 8);

    /// A value of a call that is a sample: of a kind that needs no place.
    pub const fn of_sample(what: What, bytes: u8) -> Value {
        Value { what, from: Origin::Stack, is_behind: false, bytes, offset: 0 }
    }

    /// What a counter counted.
    pub const fn counter(number: u8) -> Value {
        Value { offset: number as i32, ..Value::of_sample(What::Counter, 8) }
    }

    /// The bytes of the value in a plan, which [`Value::from_bytes`] reads.
    pub const fn to_bytes(self) -> [u8; VALUE_BYTES] {
        let [a, b, c, d] = self.offset.to_le_bytes();
        [self.what as u8, self.from.to_byte(), self.bytes, self.is_behind as u8, a, b, c, d]
    }

    /// A value as it lies in a plan; `None` when it is none.
    pub fn from_bytes(bytes: [u8; VALUE_BYTES]) -> Option<Value> {
        let [what, from, bytes, is_behind, a, b, c, d] = bytes;
        let what = *What::ALL.get(usize::from(what))?;
        let is_sound = match what {
            What::Unsigned | What::Signed => matches!(bytes, 1 | 2 | 4 | 8),
            What::Float => matches!(bytes, 4 | 8),
            What::Text | What::Characters | What::Count => true,
            What::Duration | What::Since | What::Caller | What::Overhead => bytes == 8,
            What::Counter | What::Entries | What::Returns => bytes == 8,
            What::Round | What::Left => bytes == 4,
            What::End | What::Counted => bytes == 1,
        };
        let offset = i32::from_le_bytes([a, b, c, d]);
        let from = Origin::from_byte(from)?;
        is_sound.then_some(Value { what, from, is_behind: is_behind != 0, bytes, offset })
    }

    /// Most bytes that it takes in a record.
    pub const fn bytes_max(self) -> usize {
        match self.what {
            What::Text | What::Characters => self.bytes as usize + 1,
            What::Count => 0,
            _ => self.bytes as usize,
        }
    }
}

/// Something that is counted for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// [`Counter::OWN`], or the type of an event of perf_event_open(2).
    pub kind: u32,
    /// Which of that type.
    pub config: u64,
}

/// Most counters of a plan.
pub const COUNTERS_MAX: usize = 8;
/// Bytes of a [`Counter`].
const COUNTER_BYTES: usize = 16;

impl Counter {
    /// Type of what threads may ask of themselves without any rights.
    pub const OWN: u32 = u32::MAX;
    /// Of [`Counter::OWN`]: nanoseconds on a CPU.
    pub const TASK_CLOCK: u64 = 0;
    /// Of [`Counter::OWN`]: page faults of both kinds.
    pub const PAGE_FAULTS: u64 = 1;
    /// Of [`Counter::OWN`]: page faults that were served without reading a file.
    pub const MINOR_FAULTS: u64 = 2;
    /// Of [`Counter::OWN`]: the others.
    pub const MAJOR_FAULTS: u64 = 3;
    /// Of [`Counter::OWN`]: voluntary and other switches to other threads.
    pub const CONTEXT_SWITCHES: u64 = 4;

    /// The words of which it is made in a plan.
    pub const fn to_words(self) -> [u64; COUNTER_BYTES / 8] {
        [self.kind as u64, self.config]
    }
}

/// Where calls are counted: rows of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// By which its session knows the plan; not 0.
    pub number: u64,
    /// One for all threads that have no restartable sequences, and one for each CPU.
    pub rows: u64,
    /// Bytes of a row: multiples of 128.
    pub row_bytes: u64,
}

/// Bytes of a count.
pub const COUNT_BYTES: usize = 8;
/// Rows begin at multiples of it, in bytes: two lines of a cache, which some processors fetch together.
const ROWS_APART: u64 = 128;
/// Most bytes of all rows.
const COUNTS_MAX: u64 = 1 << 30;

impl Counts {
    /// Rows for so many CPUs and words of each; `None` where that is more than 1 GiB.
    pub fn new(number: u64, cpus: u32, words: usize) -> Option<Counts> {
        let bytes = (words.max(1) as u64).checked_mul(COUNT_BYTES as u64)?;
        let row_bytes = bytes.checked_next_multiple_of(ROWS_APART)?;
        let counts = Counts { number, rows: u64::from(cpus) + 1, row_bytes };
        counts.bytes().map(|_| counts)
    }

    /// Bytes of all rows; `None` where there are none, or too many.
    pub fn bytes(&self) -> Option<usize> {
        let bytes = self.rows.checked_mul(self.row_bytes)?;
        let is_sound = self.number != 0 && self.rows > 1 && (1..=COUNTS_MAX).contains(&bytes);
        usize::try_from(bytes).ok().filter(|_| is_sound && self.row_bytes.is_multiple_of(COUNT_BYTES as u64))
    }

    /// How many words a row has.
    pub fn words(&self) -> usize {
        self.row_bytes as usize / COUNT_BYTES
    }

    /// The words of which they are made in a plan.
    pub const fn to_words(self) -> [u64; 3] {
        [self.number, self.rows, self.row_bytes]
    }
}

impl Memory {
    /// The words of which it is made in a plan.
    pub const fn to_words(self) -> [u64; MEMORY_BYTES / 8] {
        [self.address, self.len, self.code, self.code_len]
    }
}

impl Probe {
    /// The words of which it is made in a plan.
    pub const fn to_words(self) -> [u64; PROBE_BYTES / 8] {
        let [a, b, c, d, e] = self.old;
        let [v, w, x, y, z] = self.new;
        let kind = match self.kind {
            Kind::Jump => 0,
            Kind::Trap => 1,
        };
        [
            self.address,
            self.body,
            self.target,
            self.copy,
            u64::from_le_bytes([a, b, c, d, e, self.guards, kind, self.scope as u8]),
            u64::from_le_bytes([v, w, x, y, z, 0, 0, 0]) | (self.text as u64) << 40,
            (self.values.0 as u64) << 32 | self.values.1 as u64,
        ]
    }

    const fn from_words(words: [u64; PROBE_BYTES / 8]) -> Probe {
        let [address, body, target, copy, old, new, values] = words;
        let [a, b, c, d, e, guards, kind, scope] = old.to_le_bytes();
        let [v, w, x, y, z, ..] = new.to_le_bytes();
        let kind = if kind == 0 { Kind::Jump } else { Kind::Trap };
        let scope = match scope {
            0 => Scope::Anywhere,
            1 => Scope::Below,
            _ => Scope::Caller,
        };
        let (old, new, text) = ([a, b, c, d, e], [v, w, x, y, z], (new >> 40) as u32);
        let values = ((values >> 32) as u32, values as u32);
        Probe { address, body, target, copy, text, values, guards, kind, scope, old, new }
    }
}

impl Guard {
    /// The words of which it is made in a plan.
    pub const fn to_words(self) -> [u64; GUARD_BYTES / 8] {
        [self.address, self.copy]
    }
}

/// A plan, read.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'p> {
    bytes: &'p [u8],
    memories: &'p [u8],
    probes: &'p [u8],
    guards: &'p [u8],
    values: &'p [u8],
    counters: &'p [u8],
    texts: &'p [u8],
    /// What part of the time that the process runs its samples may take, in millionths; 0 for all of it.
    pub budget: u64,
    /// Nanoseconds of a tick of the time-stamp counter, in units of 2^-32.
    pub tick: u64,
    /// Whether its memory has been reserved for it: nothing else is there.
    pub is_reserved: bool,
    /// Where calls are counted; `None` where they are not.
    pub counts: Option<Counts>,
    /// The number of its callers; 0 where it has none.
    pub callers: u64,
}

impl<'p> Plan<'p> {
    /// Takes a plan apart; `None` when these bytes are none.
    pub fn parse(bytes: &'p [u8]) -> Option<Plan<'p>> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let [magic, all, memories, probes, guards, values, texts, tick, rest_of_header @ ..]: [u64;
            HEADER_BYTES / 8] = words(header)?;
        let [reserved, budget, counters, number, rows, row_bytes, callers] = rest_of_header;
        let counts = Counts { number, rows, row_bytes };
        let counts = match number {
            0 => None,
            _ => Some(counts.bytes().map(|_| counts)?),
        };
        if magic != MAGIC || all != bytes.len() as u64 {
            return None;
        }
        let part = |rest: &'p [u8], count: u64, each: usize| {
            rest.split_at_checked(usize::try_from(count).ok()?.checked_mul(each)?)
        };
        let (memories, rest) = part(rest, memories, MEMORY_BYTES)?;
        let (probes, rest) = part(rest, probes, PROBE_BYTES)?;
        let (guards, rest) = part(rest, guards, GUARD_BYTES)?;
        let (values, rest) = part(rest, values, VALUE_BYTES)?;
        let (counters, rest) =
            part(rest, counters, COUNTER_BYTES).filter(|_| counters <= COUNTERS_MAX as u64)?;
        let (texts, _) = part(rest, texts, 1)?;
        let is_reserved = reserved != 0;
        Some(Plan {
            bytes,
            memories,
            probes,
            guards,
            values,
            counters,
            texts,
            budget,
            tick,
            is_reserved,
            counts,
            callers,
        })
    }

    /// What is to be mapped.
    pub fn memories(&self) -> impl Iterator<Item = Memory> + use<'p> {
        self.memories
            .chunks_exact(MEMORY_BYTES)
            .filter_map(words)
            .map(|[address, len, code, code_len]| Memory { address, len, code, code_len })
    }

    /// The one that `address` lies in.
    pub fn memory_at(&self, address: u64) -> Option<Memory> {
        let memories = self.memories.as_chunks::<MEMORY_BYTES>().0;
        let behind =
            memories.partition_point(|memory| words(memory).is_some_and(|[at, ..]: [u64; 4]| at <= address));
        let [begin, len, code, code_len] = words(memories.get(behind.checked_sub(1)?)?)?;
        (address - begin < len).then_some(Memory { address: begin, len, code, code_len })
    }

    /// The probes of a plan, in its order; words that are none are left out.
    pub fn probes(&self) -> impl Iterator<Item = Probe> + use<'p> {
        self.probes.chunks_exact(PROBE_BYTES).filter_map(words).map(Probe::from_words)
    }

    /// How many they are.
    pub fn probe_count(&self) -> usize {
        self.probes.len() / PROBE_BYTES
    }

    /// Where threads go on that meet a guard, by address.
    pub fn guards(&self) -> impl Iterator<Item = Guard> + use<'p> {
        let guards = self.guards.chunks_exact(GUARD_BYTES).filter_map(words);
        guards.map(|[address, copy]| Guard { address, copy })
    }

    /// Where a thread goes on that meets the guard at `address`.
    pub fn guard(&self, address: u64) -> Option<u64> {
        let guards = self.guards.as_chunks::<GUARD_BYTES>().0;
        let at = guards.partition_point(|guard| words(guard).is_some_and(|[at, _]| at < address));
        let [found, copy]: [u64; 2] = words(guards.get(at)?)?;
        (found == address).then_some(copy)
    }

    /// The bytes of a memory; `None` when they are not in the plan.
    pub fn code(&self, memory: &Memory) -> Option<&'p [u8]> {
        let (at, len) = (usize::try_from(memory.code).ok()?, usize::try_from(memory.code_len).ok()?);
        self.bytes.get(at..at.checked_add(len)?)
    }

    /// The values of a probe, each as [`Value::from_bytes`] takes it; `None` when they are not in the plan, or are none
    /// that a call could have.
    pub fn values(&self, probe: &Probe) -> Option<&'p [[u8; VALUE_BYTES]]> {
        let (first, count) = (probe.values.0 as usize, probe.values.1 as usize);
        let values = self.values.as_chunks().0.get(first..first.checked_add(count)?)?;
        let mut bytes = 0;
        for value in values {
            bytes += Value::from_bytes(*value)?.bytes_max();
        }
        (bytes <= RECORD_MAX && count <= VALUES_MAX).then_some(values)
    }

    /// What is counted, by number.
    pub fn counters(&self) -> impl Iterator<Item = Counter> + use<'p> {
        let counters = self.counters.chunks_exact(COUNTER_BYTES).filter_map(words);
        counters.map(|[kind, config]| Counter { kind: kind as u32, config })
    }

    /// The description of a probe, with its NUL.
    pub fn text(&self, probe: &Probe) -> Option<&'p [u8]> {
        let text = self.texts.get(probe.text as usize..)?;
        text.get(..=text.iter().position(|byte| *byte == 0)?)
    }
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (chunks, []) = bytes.as_chunks::<8>() else { return None };
    let mut words = [0; N];
    if chunks.len() != N {
        return None;
    }
    words.iter_mut().zip(chunks).for_each(|(word, chunk)| *word = u64::from_le_bytes(*chunk));
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_what_they_were() {
        let probe = Probe {
            address: 0x5555_0000_1000,
            body: 0x5554_0000_0010,
            target: 0x5554_0000_0010,
            copy: 0x5554_0000_0016,
            text: 70_000,
            values: (90_000, 7),
            guards: 0b1010,
            kind: Kind::Trap,
            scope: Scope::Below,
            old: [1, 2, 3, 4, 5],
            new: [0xe9, 0xcc, 6, 7, 0xcc],
        };
        assert_eq!(Probe::from_words(probe.to_words()), probe);
        for scope in [Scope::Anywhere, Scope::Caller] {
            let other = Probe { scope, ..probe };
            assert_eq!(Probe::from_words(other.to_words()), other);
        }
    }

    #[test]
    fn values_are_what_they_were() {
        for what in What::ALL {
            for from in [
                Origin::Integer(5),
                Origin::Vector(7),
                Origin::Stack,
                Origin::Result(1),
                Origin::VectorResult(0),
            ] {
                let bytes = match what {
                    What::End | What::Counted => 1,
                    What::Round | What::Left => 4,
                    _ => 8,
                };
                let value = Value { what, from, is_behind: from == Origin::Stack, bytes, offset: -16 };
                assert_eq!(Value::from_bytes(value.to_bytes()), Some(value));
            }
        }
        assert_eq!(Value::from_bytes([0, 0, 3, 0, 0, 0, 0, 0]), None);
        assert_eq!(Value::from_bytes([17, 0, 8, 0, 0, 0, 0, 0]), None);
        assert_eq!(Value::from_bytes([0, 80, 8, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn counts_are_bounded() {
        let counts = Counts::new(7, 2, 1000).expect("small");
        assert_eq!((counts.bytes(), counts.words()), (Some(3 * 8064), 1008));
        assert_eq!(Counts::new(7, 2, 0).and_then(|counts| counts.bytes()), Some(3 * 128));
        assert_eq!(Counts::new(7, 8191, 1 << 20), None);
        assert_eq!(Counts { number: 1, rows: u64::MAX, row_bytes: 4096 }.bytes(), None);
        assert_eq!(Counts { number: 1, rows: 2, row_bytes: 12 }.bytes(), None);
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        assert!(Plan::parse(&[]).is_none());
        assert!(Plan::parse(&[0; HEADER_BYTES]).is_none());
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC.to_le_bytes());
        header[8] = HEADER_BYTES as u8;
        assert!(Plan::parse(&header).is_some());
        // More probes than there are.
        header[24] = 1;
        assert!(Plan::parse(&header).is_none());
        header[24..32].fill(0xff);
        assert!(Plan::parse(&header).is_none());
    }
}

//! The plan of probes in functions of a program that carries none: what a recorder has found out about a running
//! process, and what the library that it has loaded there (`hook`) does with it.
//!
//! ```text
//! header   magic, bytes of all, how many memories, functions, guards, bytes of texts,
//!          nanoseconds of a tick of the time-stamp counter, in units of 2^-32,
//!          whether its memory has been reserved
//! memories by address: what is to be mapped, and where: code that the recorder has written
//! functions
//! guards   by address
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
//! The bytes of its offset are chosen so.

/// The provider of functions' events.
pub const PROVIDER: &str = "f";

/// The function that an event `f:NAME` is of, or a pattern of such events; `None` for others.
pub fn function_of(event: &str) -> Option<&str> {
    event.strip_prefix(PROVIDER)?.strip_prefix(':')
}

/// First word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"moteFn1\0");
/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Byte of the header that is not 0 where the plan's memory has been reserved by who has put the plan there.
pub const RESERVED_AT: usize = 56;
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
    /// Bit n: at the function's byte n a guard stands.
    pub guards: u8,
    /// How it is reached.
    pub kind: Kind,
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

const PROBE_BYTES: usize = 48;
const GUARD_BYTES: usize = 16;

impl Memory {
    /// As it lies in a plan.
    pub const fn to_words(self) -> [u64; MEMORY_BYTES / 8] {
        [self.address, self.len, self.code, self.code_len]
    }
}

impl Probe {
    /// As it lies in a plan.
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
            u64::from_le_bytes([a, b, c, d, e, self.guards, kind, 0]),
            u64::from_le_bytes([v, w, x, y, z, 0, 0, 0]) | (self.text as u64) << 40,
        ]
    }

    const fn from_words(words: [u64; PROBE_BYTES / 8]) -> Probe {
        let [address, body, target, copy, old, new] = words;
        let [a, b, c, d, e, guards, kind, _] = old.to_le_bytes();
        let [v, w, x, y, z, ..] = new.to_le_bytes();
        let kind = if kind == 0 { Kind::Jump } else { Kind::Trap };
        let (old, new, text) = ([a, b, c, d, e], [v, w, x, y, z], (new >> 40) as u32);
        Probe { address, body, target, copy, text, guards, kind, old, new }
    }
}

impl Guard {
    /// As it lies in a plan.
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
    texts: &'p [u8],
    /// Nanoseconds of a tick of the time-stamp counter, in units of 2^-32.
    pub tick: u64,
    /// Whether its memory has been reserved for it: nothing else is there.
    pub is_reserved: bool,
}

impl<'p> Plan<'p> {
    /// Takes a plan apart; `None` when these bytes are none.
    pub fn parse(bytes: &'p [u8]) -> Option<Plan<'p>> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let [magic, all, memories, probes, guards, texts, tick, reserved]: [u64; HEADER_BYTES / 8] =
            words(header)?;
        if magic != MAGIC || all != bytes.len() as u64 {
            return None;
        }
        let part = |rest: &'p [u8], count: u64, each: usize| {
            rest.split_at_checked(usize::try_from(count).ok()?.checked_mul(each)?)
        };
        let (memories, rest) = part(rest, memories, MEMORY_BYTES)?;
        let (probes, rest) = part(rest, probes, PROBE_BYTES)?;
        let (guards, rest) = part(rest, guards, GUARD_BYTES)?;
        let (texts, _) = part(rest, texts, 1)?;
        let is_reserved = reserved != 0;
        Some(Plan { bytes, memories, probes, guards, texts, tick, is_reserved })
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

    /// The probes.
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
            guards: 0b1010,
            kind: Kind::Trap,
            old: [1, 2, 3, 4, 5],
            new: [0xe9, 0xcc, 6, 7, 0xcc],
        };
        assert_eq!(Probe::from_words(probe.to_words()), probe);
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

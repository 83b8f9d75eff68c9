//! One packet from the bytes at one place: layouts of SDM 3C, 33.4.2, a function each. It knows nothing of what was
//! before, and nothing of where a trace ends: it gets 16 bytes, as many as the longest packet has.
//!
//! Bits that the manual calls reserved are not guaranteed to be 0 (33.4.2), and are not looked at.

use super::decode::{Damage, Reserved};
use super::ip::{Compression, Ip};
use super::{Block, Packet, Tnt, psb};

/// The bytes at one place, 0 where a trace has ended.
pub(super) type Window = [u8; psb::LENGTH];

/// A packet and its length.
pub(super) type Parsed = Result<(Packet, usize), Bad>;

/// Why there is no packet.
pub(super) struct Bad {
    pub(super) damage: Damage,
    /// So many bytes say it: where there are fewer, the packet is cut off.
    pub(super) seen: usize,
}

fn bad(damage: Damage, seen: usize) -> Parsed {
    Err(Bad { damage, seen })
}

fn reserved(what: Reserved, seen: usize) -> Parsed {
    bad(Damage::Reserved(what), seen)
}

/// What a first byte says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Pad,
    Extended,
    ShortTnt,
    Cyc,
    Tip,
    TipPge,
    TipPgd,
    Fup,
    Mtc,
    Tsc,
    Mode,
    Trig,
    Unknown,
}

impl Opcode {
    const OF: [Opcode; 256] = {
        let mut table = [Opcode::Unknown; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = Opcode::compute(byte as u8);
            byte += 1;
        }
        table
    };

    #[inline(always)]
    pub(super) fn of(byte: u8) -> Opcode {
        Opcode::OF[usize::from(byte)]
    }

    const fn compute(byte: u8) -> Opcode {
        match byte {
            0x00 => Opcode::Pad,
            0x02 => Opcode::Extended,
            0x19 => Opcode::Tsc,
            0x59 => Opcode::Mtc,
            0x99 => Opcode::Mode,
            0xd9 => Opcode::Trig,
            _ if byte & 1 == 0 => Opcode::ShortTnt,
            _ if byte & 3 == 3 => Opcode::Cyc,
            _ => match byte & 0x1f {
                0x0d => Opcode::Tip,
                0x11 => Opcode::TipPge,
                0x01 => Opcode::TipPgd,
                0x1d => Opcode::Fup,
                _ => Opcode::Unknown,
            },
        }
    }
}

/// Gives the packet at the window's beginning to the macro `$give`, as its length and itself, if it is one of those of
/// which traces have most. What `$give` does ends in `return` or `continue`; where there is none, the program goes on
/// behind.
///
/// This is what decides how fast decoding is (`mote-bench pt`). Each kind has a `$give` of its own, so that a compiler
/// joins what is made of a packet to how it was read: a function could not do that. Kinds are found by conditions,
/// which processors foresee better than jumps by a table; lengths are constants where that can be, so that the next
/// packet need not wait for this one.
macro_rules! frequent {
    ($window:expr, $give:ident) => {
        let window: &$crate::packet::parse::Window = $window;
        let first = window[0];
        if first & 1 == 0 && first > 2 {
            $give!(1, Packet::Tnt(parse::short_tnt(first)));
        }
        if first == 0x2d {
            $give!(3, Packet::Tip(parse::ip_of::<2>(window, Compression::Update16)));
        }
        if first == 0x4d {
            $give!(5, Packet::Tip(parse::ip_of::<4>(window, Compression::Update32)));
        }
        if first == 0x6d {
            $give!(7, Packet::Tip(parse::ip_of::<6>(window, Compression::Sext48)));
        }
        if first & 3 == 3
            && let Some((cycles, length)) = parse::short_cyc(window)
        {
            $give!(length, Packet::Cyc(cycles));
        }
        if first == 0
            && let Some(length) = parse::short_padding(window)
        {
            $give!(length, Packet::Pad);
        }
        match Opcode::of(first) {
            Opcode::Mtc => $give!(2, Packet::Mtc(window[1])),
            Opcode::Fup if let Some((ip, length)) = parse::ip(window) => $give!(length, Packet::Fup(ip)),
            Opcode::TipPge if let Some((ip, length)) = parse::ip(window) => {
                $give!(length, Packet::TipPge(ip))
            }
            Opcode::TipPgd if let Some((ip, length)) = parse::ip(window) => {
                $give!(length, Packet::TipPgd(ip))
            }
            _ => (),
        }
    };
}
pub(super) use frequent;

/// The packet at the window's beginning.
pub(super) fn packet(window: &Window) -> Parsed {
    let first = window[0];
    match Opcode::of(first) {
        Opcode::Pad => Ok((Packet::Pad, 1)),
        Opcode::Extended => extended(window),
        Opcode::ShortTnt => Ok((Packet::Tnt(short_tnt(first)), 1)),
        Opcode::Cyc => cyc(window),
        Opcode::Tip => with_ip(window, Packet::Tip),
        Opcode::TipPge => with_ip(window, Packet::TipPge),
        Opcode::TipPgd => with_ip(window, Packet::TipPgd),
        Opcode::Fup => with_ip(window, Packet::Fup),
        Opcode::Mtc => Ok((Packet::Mtc(window[1]), 2)),
        Opcode::Tsc => Ok((Packet::Tsc(bytes(window, 1, 7)), 8)),
        Opcode::Mode => mode(window[1]),
        Opcode::Trig => Ok(trig(window)),
        Opcode::Unknown => bad(Damage::UnknownOpcode(first), 1),
    }
}

/// The item at the window's beginning, in a block (33.4.2.27); `None` where something else is.
pub(super) fn block_item(window: &Window, block: Block) -> Option<(Packet, usize)> {
    let first = window[0];
    let size = match block {
        Block::Short => 4,
        Block::Wide => 8,
    };
    (first & 7 == 4).then(|| (Packet::Bip { id: first >> 3, value: bytes(window, 1, size) }, 1 + size))
}

/// TNT-8 (33.4.2.1): the branches are below the highest bit that is set, and above bit 0. `byte` is above 2.
#[inline(always)]
pub(super) fn short_tnt(byte: u8) -> Tnt {
    /// Branches and their number, by half the byte. A table is faster than to compute it.
    const TABLE: [(u8, u8); 128] = {
        let mut table = [(0, 1); 128];
        let mut half = 2u8;
        while half < 128 {
            let stop = half.ilog2();
            table[half as usize] = (half ^ 1 << stop, stop as u8);
            half += 1;
        }
        table
    };
    let (bits, count) = TABLE[usize::from(byte >> 1)];
    Tnt { bits: bits.into(), count, is_long: false }
}

/// The address of TIP, TIP.PGE, TIP.PGD or FUP (33.4.2.2), and the packet's length; `None` for an IPBytes that means
/// nothing.
#[inline(always)]
pub(super) fn ip(window: &Window) -> Option<(Ip, usize)> {
    const FORMS: [Option<(Compression, u8)>; 8] = [
        Some((Compression::Suppressed, 0)),
        Some((Compression::Update16, 2)),
        Some((Compression::Update32, 4)),
        Some((Compression::Sext48, 6)),
        Some((Compression::Update48, 6)),
        None,
        Some((Compression::Full, 8)),
        None,
    ];
    let (compression, size) = FORMS[usize::from(window[0] >> 5)]?;
    Some((Ip { compression, bits: bytes(window, 1, size.into()) }, 1 + usize::from(size)))
}

/// The address of `SIZE` bytes.
#[inline(always)]
pub(super) fn ip_of<const SIZE: usize>(window: &Window, compression: Compression) -> Ip {
    Ip { compression, bits: bytes(window, 1, SIZE) }
}

fn with_ip(window: &Window, of: fn(Ip) -> Packet) -> Parsed {
    match ip(window) {
        Some((ip, length)) => Ok((of(ip), length)),
        None => reserved(Reserved::IpBytes(window[0] >> 5), 1),
    }
}

/// Whether bytes may be the first one of a CYC, and OVF (erratum SKD007).
#[inline(always)]
pub(super) fn is_cut_cyc(word: u32) -> bool {
    word & 0xff_ff07 == 0xf3_0207
}

/// The cycles of a CYC of up to 4 bytes, and its length; `None` for a longer one, and for one that may be cut.
#[inline(always)]
pub(super) fn short_cyc(window: &Window) -> Option<(u64, usize)> {
    let word = u32::from_le_bytes([window[0], window[1], window[2], window[3]]);
    // The lowest 1 is where a byte says that it is the last.
    let last = !word & 0x0101_0104;
    if last == 0 || is_cut_cyc(word) {
        return None;
    }
    let length = last.trailing_zeros() / 8 + 1;
    let kept = word & u32::MAX >> (32 - 8 * length);
    let cycles = kept >> 3 & 0x1f | (kept >> 9 & 0x7f) << 5 | (kept >> 17 & 0x7f) << 12 | kept >> 25 << 19;
    Some((cycles.into(), length as usize))
}

/// CYC (33.4.2.14). A count of more than 64 bits is none that a processor has.
pub(super) fn cyc(window: &Window) -> Parsed {
    let mut cycles = u64::from(window[0] >> 3);
    let mut shift = 5;
    let mut length = 1;
    let mut goes_on = window[0] & 4 != 0;
    while goes_on {
        let byte = window[length];
        let part = u64::from(byte >> 1);
        length += 1;
        if shift > 63 || part << shift >> shift != part {
            return bad(Damage::LongCyc, length);
        }
        cycles |= part << shift;
        shift += 7;
        goes_on = byte & 1 != 0;
    }
    Ok((Packet::Cyc(cycles), length))
}

/// How many PAD packets there are (33.4.2.20); `None` where they fill the window.
#[inline(always)]
pub(super) fn short_padding(window: &Window) -> Option<usize> {
    let length = u128::from_le_bytes(*window).trailing_zeros() as usize / 8;
    (length < window.len()).then_some(length)
}

/// MODE.Exec and MODE.TSX (33.4.2.8): the tables there have no meaning for both bits set.
fn mode(byte: u8) -> Parsed {
    let bit = |n: u8| byte >> n & 1 != 0;
    match byte >> 5 {
        0 if byte & 3 == 3 => reserved(Reserved::ModeExec, 2),
        0 => Ok((Packet::ModeExec { is_64_bit: bit(0), is_32_bit: bit(1), interrupts: bit(2) }, 2)),
        1 if byte & 3 == 3 => reserved(Reserved::ModeTsx, 2),
        1 => Ok((Packet::ModeTsx { in_transaction: bit(0), is_aborted: bit(1) }, 2)),
        leaf => reserved(Reserved::ModeLeaf(leaf), 2),
    }
}

/// TRIG, as libipt 2.2 has it: `pt_opcodes.h`.
fn trig(window: &Window) -> (Packet, usize) {
    let flags = window[1];
    let instructions = (flags & 0x40 != 0).then(|| u16::from_le_bytes([window[3], window[4]]));
    let length = if instructions.is_some() { 5 } else { 3 };
    let (is_multiple, has_fup) = (flags & 0x20 != 0, flags & 0x80 != 0);
    (Packet::Trig { triggers: window[2], is_multiple, instructions, has_fup }, length)
}

/// Packets whose first byte is 02.
fn extended(window: &Window) -> Parsed {
    let second = window[1];
    let has_fup = second & 0x80 != 0;
    let parsed = match second {
        0x82 => return psb(window),
        0x23 => (Packet::PsbEnd, 2),
        0xf3 => (Packet::Ovf, 2),
        0x83 => (Packet::TraceStop, 2),
        0x62 | 0xe2 => (Packet::Exstop { has_fup }, 2),
        0x33 | 0xb3 => (Packet::Bep { has_fup }, 2),
        0x63 => (Packet::Bbp { is_short: window[2] & 0x80 != 0, kind: window[2] & 0x1f }, 3),
        0x03 => (Packet::Cbr(window[2]), 4),
        0x22 => (pwre(window), 4),
        0x13 => {
            (Packet::Cfe { kind: window[2] & 0x1f, vector: window[3], has_fup: window[2] & 0x80 != 0 }, 4)
        }
        0x73 => (tma(window), 7),
        0xa2 => (Packet::Pwrx { last: window[2] >> 4, deepest: window[2] & 0xf, reason: window[3] & 0xf }, 7),
        0xc8 => (Packet::Vmcs(bytes(window, 2, 5) << 12), 7),
        0x43 => (pip(window), 8),
        0xa3 => return long_tnt(window),
        0xc2 => (Packet::Mwait { hints: window[2], extensions: window[6] & 3 }, 10),
        0x53 => (Packet::Evd { kind: window[2] & 0x3f, value: bytes(window, 3, 8) }, 11),
        0xc3 if window[2] == 0x88 => (Packet::Mnt(bytes(window, 3, 8)), 11),
        0xc3 => return bad(Damage::UnknownSecondExtension(window[2]), 3),
        _ if second & 0x1f == 0x12 => return ptw(window, has_fup),
        _ => return bad(Damage::UnknownExtension(second), 2),
    };
    Ok(parsed)
}

fn psb(window: &Window) -> Parsed {
    match window.iter().zip(&psb::BYTES).position(|(has, should)| has != should) {
        None => Ok((Packet::Psb, psb::LENGTH)),
        Some(wrong) => bad(Damage::BadPsb, wrong + 1),
    }
}

/// TNT-64 (33.4.2.1): as the short one, in 6 bytes.
fn long_tnt(window: &Window) -> Parsed {
    let payload = bytes(window, 2, 6);
    match payload.checked_ilog2() {
        None | Some(0) => reserved(Reserved::TntWithoutBranches, 8),
        Some(stop) => {
            let tnt = Tnt { bits: payload ^ 1 << stop, count: stop as u8, is_long: true };
            Ok((Packet::Tnt(tnt), 8))
        }
    }
}

fn pip(window: &Window) -> Packet {
    let payload = bytes(window, 2, 6);
    Packet::Pip { cr3: payload >> 1 << 5, is_guest: payload & 1 != 0 }
}

fn tma(window: &Window) -> Packet {
    let ctc = u16::from_le_bytes([window[2], window[3]]);
    Packet::Tma { ctc, fast: u16::from_le_bytes([window[5], window[6] & 1]) }
}

/// PWRE (33.4.2.24). HW is bit 7 of the first byte, where libipt 2.2 has bit 3.
fn pwre(window: &Window) -> Packet {
    Packet::Pwre { c_state: window[3] >> 4, sub_state: window[3] & 0xf, is_hardware: window[2] & 0x80 != 0 }
}

fn ptw(window: &Window, has_fup: bool) -> Parsed {
    let size = match window[1] >> 5 & 3 {
        0 => 4,
        1 => 8,
        other => return reserved(Reserved::PtwBytes(other), 2),
    };
    Ok((Packet::Ptw { value: bytes(window, 2, size), is_wide: size == 8, has_fup }, 2 + size))
}

/// The number in the `size` bytes from `at` on, the low ones first: at most 8.
#[inline(always)]
fn bytes(window: &Window, at: usize, size: usize) -> u64 {
    let word = u128::from_le_bytes(*window) >> (8 * at);
    word as u64 & mask(size)
}

#[inline(always)]
fn mask(size: usize) -> u64 {
    const MASKS: [u64; 9] = {
        let mut masks = [0; 9];
        let mut size = 1;
        while size <= 8 {
            masks[size] = u64::MAX >> (64 - 8 * size);
            size += 1;
        }
        masks
    };
    MASKS[size]
}

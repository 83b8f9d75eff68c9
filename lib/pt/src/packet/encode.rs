//! Packets as bytes: the inverse of [`super::decode`].

use super::ip::{Compression, Ip};
use super::{Block, Packet, Tnt, psb};
use std::io::{self, Write};
use thiserror::Error;

/// Writes packets.
///
/// It remembers, as a decoder does, whether it is in a block of items.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    block: Option<Block>,
}

/// A packet that has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unfit {
    /// A field has more bits than the packet has room for, or bits that it does not carry.
    #[error("{field} is {value:#x}, and the packet holds {mask:#x} of it")]
    Bits {
        /// Which one, as the manual calls it.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The bits that the packet has.
        mask: u64,
    },
    /// A TNT packet with no branches, or with more than its form holds.
    #[error("a TNT packet has {count} branches, and its form holds 1 to {most}")]
    Branches {
        /// How many.
        count: u8,
        /// How many it could have.
        most: u8,
    },
    /// A MODE.Exec packet with both CS.L and CS.D, or a MODE.TSX packet with both InTX and TXAbort.
    #[error("a MODE packet has two bits that exclude one another")]
    Mode,
    /// A BIP packet that is in no block.
    #[error("a BIP packet is in no block; write BBP before it")]
    NoBlock,
    /// A short TNT packet that readers would take for an item of the block.
    #[error("a short TNT packet looks like an item of the block that has not ended; write BEP before it")]
    InBlock,
}

/// The bytes of one packet.
#[derive(Default)]
struct Form {
    bytes: [u8; psb::LENGTH],
    length: usize,
}

impl Encoder {
    /// An encoder that has written nothing.
    #[must_use]
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// An encoder that appends to `bytes`.
    #[must_use]
    pub fn appending(bytes: Vec<u8>) -> Encoder {
        Encoder { bytes, block: None }
    }

    /// Appends a packet; returns how many bytes it has.
    ///
    /// # Errors
    /// The packet has no bytes. Nothing was appended.
    pub fn push(&mut self, packet: Packet) -> Result<usize, Unfit> {
        let form = self.form(packet)?;
        self.block = Block::after(self.block, &packet);
        let written = form.bytes.get(..form.length).unwrap_or_default();
        self.bytes.extend_from_slice(written);
        Ok(written.len())
    }

    /// Appends all of these packets.
    ///
    /// # Errors
    /// One of them has no bytes. Those before it were appended.
    pub fn extend(&mut self, packets: impl IntoIterator<Item = Packet>) -> Result<(), Unfit> {
        packets.into_iter().try_for_each(|packet| self.push(packet).map(drop))
    }

    /// Hands what was written on, and forgets it.
    ///
    /// # Errors
    /// As [`Write::write_all`]; it is forgotten all the same.
    pub fn write_to(&mut self, to: &mut impl Write) -> io::Result<()> {
        let written = to.write_all(&self.bytes);
        self.bytes.clear();
        written
    }

    /// What was written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn form(&self, packet: Packet) -> Result<Form, Unfit> {
        match packet {
            Packet::Pad => Ok(Form::of(&[0])),
            Packet::Psb => Ok(Form::of(&psb::BYTES)),
            Packet::PsbEnd => Ok(Form::of(&[0x02, 0x23])),
            Packet::Tnt(tnt) if tnt.is_long => long_tnt(tnt),
            Packet::Tnt(tnt) => self.short_tnt(tnt),
            Packet::Tip(ip) => with_ip(0x0d, ip),
            Packet::TipPge(ip) => with_ip(0x11, ip),
            Packet::TipPgd(ip) => with_ip(0x01, ip),
            Packet::Fup(ip) => with_ip(0x1d, ip),
            Packet::Pip { cr3, is_guest } => pip(cr3, is_guest),
            Packet::ModeExec { is_64_bit, is_32_bit, interrupts } => {
                mode(0, is_64_bit, is_32_bit, u8::from(interrupts) << 2)
            }
            Packet::ModeTsx { in_transaction, is_aborted } => mode(1, in_transaction, is_aborted, 0),
            Packet::TraceStop => Ok(Form::of(&[0x02, 0x83])),
            Packet::Cbr(ratio) => Ok(Form::of(&[0x02, 0x03, ratio, 0])),
            Packet::Tsc(tsc) => Ok(Form::of(&[0x19]).number(fitting("TSC", tsc, low(56))?, 7)),
            Packet::Mtc(ctc) => Ok(Form::of(&[0x59, ctc])),
            Packet::Tma { ctc, fast } => tma(ctc, fast),
            Packet::Cyc(cycles) => Ok(cyc(cycles)),
            Packet::Vmcs(base) => vmcs(base),
            Packet::Ovf => Ok(Form::of(&[0x02, 0xf3])),
            Packet::Mnt(value) => Ok(Form::of(&[0x02, 0xc3, 0x88]).number(value, 8)),
            Packet::Ptw { value, is_wide, has_fup } => ptw(value, is_wide, has_fup),
            Packet::Exstop { has_fup } => Ok(Form::of(&[0x02, 0x62 | bit(7, has_fup)])),
            Packet::Mwait { hints, extensions } => mwait(hints, extensions),
            Packet::Pwre { c_state, sub_state, is_hardware } => pwre(c_state, sub_state, is_hardware),
            Packet::Pwrx { last, deepest, reason } => pwrx(last, deepest, reason),
            Packet::Bbp { is_short, kind } => {
                Ok(Form::of(&[0x02, 0x63, bit(7, is_short) | small("BBP type", kind, 5)?]))
            }
            Packet::Bip { id, value } => self.bip(id, value),
            Packet::Bep { has_fup } => Ok(Form::of(&[0x02, 0x33 | bit(7, has_fup)])),
            Packet::Cfe { kind, vector, has_fup } => {
                Ok(Form::of(&[0x02, 0x13, bit(7, has_fup) | small("CFE type", kind, 5)?, vector]))
            }
            Packet::Evd { kind, value } => {
                Ok(Form::of(&[0x02, 0x53, small("EVD type", kind, 6)?]).number(value, 8))
            }
            Packet::Trig { triggers, is_multiple, instructions, has_fup } => {
                let flags = bit(7, has_fup) | bit(6, instructions.is_some()) | bit(5, is_multiple);
                let size = if instructions.is_some() { 2 } else { 0 };
                Ok(Form::of(&[0xd9, flags, triggers]).number(instructions.unwrap_or(0).into(), size))
            }
        }
    }

    fn short_tnt(&self, tnt: Tnt) -> Result<Form, Unfit> {
        let byte = (stopped(tnt, 6)? << 1) as u8;
        let is_item = self.block.is_some() && byte & 7 == 4;
        if is_item { Err(Unfit::InBlock) } else { Ok(Form::of(&[byte])) }
    }

    fn bip(&self, id: u8, value: u64) -> Result<Form, Unfit> {
        let size = match self.block {
            Some(Block::Short) => 4,
            Some(Block::Wide) => 8,
            None => return Err(Unfit::NoBlock),
        };
        let first = small("BIP id", id, 5)? << 3 | 4;
        Ok(Form::of(&[first]).number(fitting("BIP payload", value, low(8 * size))?, size))
    }
}

fn long_tnt(tnt: Tnt) -> Result<Form, Unfit> {
    Ok(Form::of(&[0x02, 0xa3]).number(stopped(tnt, 47)?, 6))
}

/// The branches with the stop bit above them.
fn stopped(tnt: Tnt, most: u8) -> Result<u64, Unfit> {
    if !(1..=most).contains(&tnt.count) {
        return Err(Unfit::Branches { count: tnt.count, most });
    }
    Ok(1 << tnt.count | fitting("TNT", tnt.bits, low(tnt.count.into()))?)
}

fn pip(cr3: u64, is_guest: bool) -> Result<Form, Unfit> {
    let cr3 = fitting("CR3", cr3, low(52) & !0x1f)?;
    Ok(Form::of(&[0x02, 0x43]).number(cr3 >> 5 << 1 | u64::from(is_guest), 6))
}

fn vmcs(base: u64) -> Result<Form, Unfit> {
    let base = fitting("VMCS base", base, low(52) & !0xfff)?;
    Ok(Form::of(&[0x02, 0xc8]).number(base >> 12, 5))
}

fn mode(leaf: u8, first: bool, second: bool, rest: u8) -> Result<Form, Unfit> {
    if first && second {
        return Err(Unfit::Mode);
    }
    Ok(Form::of(&[0x99, leaf << 5 | bit(0, first) | bit(1, second) | rest]))
}

fn tma(ctc: u16, fast: u16) -> Result<Form, Unfit> {
    let fast = fitting("FastCounter", fast.into(), low(9))?;
    Ok(Form::of(&[0x02, 0x73]).number(ctc.into(), 3).number(fast, 2))
}

/// Bytes of 5, 7, 7, ... bits, as few as do; the lowest bits of each but the last say that more follow.
fn cyc(cycles: u64) -> Form {
    let mut rest = cycles >> 5;
    let mut form = Form::of(&[(cycles << 3) as u8 | bit(2, rest != 0) | 3]);
    while rest != 0 {
        let byte = (rest << 1) as u8;
        rest >>= 7;
        form = form.number(u64::from(byte | bit(0, rest != 0)), 1);
    }
    form
}

fn ptw(value: u64, is_wide: bool, has_fup: bool) -> Result<Form, Unfit> {
    let size = if is_wide { 8 } else { 4 };
    let value = fitting("PTW payload", value, low(8 * size))?;
    Ok(Form::of(&[0x02, 0x12 | bit(5, is_wide) | bit(7, has_fup)]).number(value, size))
}

fn mwait(hints: u8, extensions: u8) -> Result<Form, Unfit> {
    let extensions = small("MWAIT extensions", extensions, 2)?;
    Ok(Form::of(&[0x02, 0xc2]).number(hints.into(), 4).number(extensions.into(), 4))
}

fn pwre(c_state: u8, sub_state: u8, is_hardware: bool) -> Result<Form, Unfit> {
    let states = small("C-state", c_state, 4)? << 4 | small("sub C-state", sub_state, 4)?;
    Ok(Form::of(&[0x02, 0x22, bit(7, is_hardware), states]))
}

fn pwrx(last: u8, deepest: u8, reason: u8) -> Result<Form, Unfit> {
    let states = small("last core C-state", last, 4)? << 4 | small("deepest core C-state", deepest, 4)?;
    Ok(Form::of(&[0x02, 0xa2, states, small("wake reason", reason, 4)?, 0, 0, 0]))
}

fn with_ip(opcode: u8, ip: Ip) -> Result<Form, Unfit> {
    let size = match ip.compression {
        Compression::Suppressed => 0,
        Compression::Update16 => 2,
        Compression::Update32 => 4,
        Compression::Sext48 | Compression::Update48 => 6,
        Compression::Full => 8,
    };
    let bits = fitting("IP payload", ip.bits, low(8 * size))?;
    Ok(Form::of(&[opcode | (ip.compression as u8) << 5]).number(bits, size))
}

impl Form {
    fn of(bytes: &[u8]) -> Form {
        bytes.iter().fold(Form::default(), |form, byte| form.number(u64::from(*byte), 1))
    }

    /// With the low `size` bytes of `value` behind it, the lowest first.
    fn number(mut self, value: u64, size: u32) -> Form {
        for byte in value.to_le_bytes().into_iter().take(size as usize) {
            if let Some(to) = self.bytes.get_mut(self.length) {
                *to = byte;
                self.length += 1;
            }
        }
        self
    }
}

/// Bit `n`, where `is_set`.
fn bit(n: u8, is_set: bool) -> u8 {
    u8::from(is_set) << n
}

/// The lowest `bits` bits, at most 64.
fn low(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits).unwrap_or(0)
}

fn fitting(field: &'static str, value: u64, mask: u64) -> Result<u64, Unfit> {
    if value & !mask == 0 { Ok(value) } else { Err(Unfit::Bits { field, value, mask }) }
}

fn small(field: &'static str, value: u8, bits: u32) -> Result<u8, Unfit> {
    fitting(field, value.into(), low(bits)).map(|_| value)
}

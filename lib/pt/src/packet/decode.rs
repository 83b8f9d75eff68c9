//! A trace's bytes as packets, and as damage where they are none.
//!
//! [`Decoder`] is an iterator of [`Item`]s, which lie side by side: the bytes of a trace are all in one of them. Damage
//! ends where the next PSB begins, and never ends a stream. A decoder keeps two things from packets before: whether it
//! is in a block of items (BBP to BEP), because items look like TNT packets, and how far a run of PSB bytes is in step.

use super::ip::Compression;
use super::parse::{self, Opcode, Parsed, Window, frequent};
use super::{Block, Packet, psb};
use crate::errata::Errata;
use thiserror::Error;

/// A packet, or damage, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Bytes from the beginning of the trace, the decoder's base included.
    pub offset: u64,
    /// How many bytes it takes. PAD packets in succession are one item, a byte each. A PSB takes fewer than 16 where
    /// packets before it seemed to have its first bytes: they were none, which damage between them says. OVF takes 3
    /// with the first one of a CYC that it has cut off ([`Errata::skd007`]).
    pub length: usize,
    /// The packet, or what is wrong with the bytes.
    pub what: Result<Packet, Damage>,
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Damage {
    /// No packet begins with this byte.
    #[error("no packet begins with byte {0:02x}; decoding goes on at the next PSB")]
    UnknownOpcode(u8),
    /// No packet begins with byte 02 and this one.
    #[error("no packet begins with bytes 02 {0:02x}; decoding goes on at the next PSB")]
    UnknownExtension(u8),
    /// No packet begins with bytes 02 c3 and this one.
    #[error("no packet begins with bytes 02 c3 {0:02x}; decoding goes on at the next PSB")]
    UnknownSecondExtension(u8),
    /// A packet has a value that means nothing.
    #[error("{0}; decoding goes on at the next PSB")]
    Reserved(Reserved),
    /// A CYC packet counts to more than 64 bits hold.
    #[error("a CYC packet has more than 64 bits; decoding goes on at the next PSB")]
    LongCyc,
    /// A PSB does not have its 16 bytes, or packets before seemed to have some of them.
    #[error("a PSB is incomplete; decoding goes on at the next PSB")]
    BadPsb,
    /// The trace ends in a packet.
    #[error("the trace ends in the middle of a packet")]
    Truncated,
}

/// A value that the manual reserves, or that has no meaning in its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Reserved {
    /// Of TIP, TIP.PGE, TIP.PGD or FUP (33.4.2.2).
    #[error("a packet with an address has the reserved IPBytes {0}")]
    IpBytes(u8),
    /// A MODE packet that is neither MODE.Exec nor MODE.TSX (33.4.2.8).
    #[error("a MODE packet has the unknown leaf {0}")]
    ModeLeaf(u8),
    /// CS.L and CS.D together (33.4.2.8).
    #[error("a MODE.Exec packet has both CS.L and CS.D")]
    ModeExec,
    /// InTX and TXAbort together (33.4.2.8).
    #[error("a MODE.TSX packet has both InTX and TXAbort")]
    ModeTsx,
    /// Of PTW (33.4.2.21).
    #[error("a PTW packet has the reserved PayloadBytes {0}")]
    PtwBytes(u8),
    /// TNT-64 without a stop bit, or with nothing below it (33.4.2.1).
    #[error("a TNT packet has no branches")]
    TntWithoutBranches,
}

/// Reads packets.
///
/// The trace is taken to begin with a packet; where it may not, [`Decoder::sync_forward`] comes first.
///
/// # Cost
/// Linear in the bytes, without allocation: `mote-bench pt`.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    state: State,
    /// Up to here PSB bytes are in step with what follows them.
    in_step: usize,
    errata: Errata,
}

/// What a decoder remembers of packets before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Plain,
    In(Block),
    /// In a PSB that ends there, and whose beginning packets before seemed to have.
    InPsb(usize),
}

impl State {
    fn block(self) -> Option<Block> {
        match self {
            State::In(block) => Some(block),
            State::Plain | State::InPsb(_) => None,
        }
    }
}

impl<'a> Decoder<'a> {
    /// A decoder of `bytes`, whose first one is byte `base` of the trace.
    #[must_use]
    pub fn new(bytes: &'a [u8], base: u64) -> Decoder<'a> {
        Decoder { bytes, at: 0, base, state: State::Plain, in_step: 0, errata: Errata::default() }
    }

    /// Reads packets as a processor with these errata writes them: [`Errata::skd007`] and [`Errata::skz84`].
    #[must_use]
    pub fn with_errata(self, errata: Errata) -> Decoder<'a> {
        Decoder { errata, ..self }
    }

    /// Where the next item begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.base.wrapping_add(self.at as u64)
    }

    /// Moves on to the first PSB that begins here or behind; returns its offset. Without one the decoder stays.
    ///
    /// Of more PSB bytes in succession than one PSB has, the last ones are it.
    pub fn sync_forward(&mut self) -> Option<u64> {
        psb::forward(self.bytes, self.at).map(|psb| self.move_to(psb))
    }

    /// Moves back to the last PSB that begins before here; returns its offset. Without one the decoder stays.
    pub fn sync_backward(&mut self) -> Option<u64> {
        psb::backward(self.bytes, self.at).map(|psb| self.move_to(psb))
    }

    /// Moves behind the last byte: [`Decoder::sync_backward`] then finds the last PSB.
    pub fn move_to_end(&mut self) {
        self.move_to(self.bytes.len());
    }

    fn move_to(&mut self, at: usize) -> u64 {
        *self = Decoder { at, errata: self.errata, ..Decoder::new(self.bytes, self.base) };
        self.offset()
    }

    /// The bytes that are left.
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline(always)]
    fn item(&mut self, length: usize, what: Result<Packet, Damage>) -> Item {
        let item = Item { offset: self.offset(), length, what };
        self.at += length;
        item
    }

    /// Whatever is next, near the end and in blocks, too.
    #[inline(never)]
    fn any(&mut self) -> Option<Item> {
        let rest = self.rest();
        let first = *rest.first()?;
        if let State::InPsb(end) = self.state {
            self.state = State::Plain;
            return Some(self.item(end - self.at, Ok(Packet::Psb)));
        }
        if first == 0 {
            return Some(self.padding());
        }
        let window = rest.first_chunk().copied().unwrap_or_else(|| padded(rest));
        let erroneous = self.erroneous(&window).filter(|(_, length)| *length <= rest.len());
        if let Some((packet, length)) = erroneous {
            return Some(self.item(length, Ok(packet)));
        }
        match self.parse(&window) {
            Ok((_, length)) if length > rest.len() => Some(self.damage(Damage::Truncated)),
            Err(bad) if bad.seen > rest.len() => Some(self.damage(Damage::Truncated)),
            Ok((Packet::Psb, _)) => Some(self.psb()),
            Ok((packet, length)) => {
                self.state = Block::after(self.state.block(), &packet).map_or(State::Plain, State::In);
                Some(self.item(length, Ok(packet)))
            }
            Err(bad) if bad.damage == Damage::BadPsb => Some(self.bad_psb()),
            Err(bad) => Some(self.damage(bad.damage)),
        }
    }

    /// What an erratum makes of the bytes.
    fn erroneous(&self, window: &Window) -> Option<(Packet, usize)> {
        let word = u32::from_le_bytes([window[0], window[1], window[2], window[3]]);
        if self.errata.skd007 && parse::is_cut_cyc(word) {
            return Some((Packet::Ovf, 3));
        }
        // TMA with reserved bits, and a byte behind it: both mean nothing.
        let is_tma = self.errata.skz84 && window.starts_with(&[0x02, 0x73]) && window[6] & 0xfe != 0;
        is_tma.then_some((Packet::Pad, 8))
    }

    fn parse(&self, window: &Window) -> Parsed {
        let item = self.state.block().and_then(|block| parse::block_item(window, block));
        item.map_or_else(|| parse::packet(window), Ok)
    }

    /// PAD packets, as many as there are.
    fn padding(&mut self) -> Item {
        let rest = self.rest();
        let whole = rest.chunks_exact(psb::LENGTH).take_while(|chunk| **chunk == [0; psb::LENGTH]).count();
        let more = rest.get(psb::LENGTH * whole..).unwrap_or_default();
        let window = more.first_chunk().copied().unwrap_or_else(|| padded(more));
        let zeros = parse::short_padding(&window).unwrap_or(psb::LENGTH).min(more.len());
        self.item(psb::LENGTH * whole + zeros, Ok(Packet::Pad))
    }

    /// A PSB, here; or what is left of one before it, where the bytes of both are one run. At the end of a trace it is
    /// the second that is cut off.
    fn psb(&mut self) -> Item {
        self.state = State::Plain;
        if self.at >= self.in_step {
            let end = psb::run_end(self.bytes, self.at);
            self.in_step = end;
            let too_many = (end - self.at) % psb::LENGTH;
            let is_cut_off = matches!(self.bytes.get(end..), Some([] | [0x02]));
            if too_many != 0 && !is_cut_off {
                return self.item(too_many, Err(Damage::BadPsb));
            }
        }
        self.item(psb::LENGTH, Ok(Packet::Psb))
    }

    /// Bytes of a PSB, too few. Where those before them belong to it, packets before were none: the trace had lost
    /// their end. The stream is in step again. (Those before are not of a PSB that was read: [`Decoder::psb`] leaves
    /// nothing of a run behind it.)
    fn bad_psb(&mut self) -> Item {
        let end = psb::run_end(self.bytes, self.at);
        if !self.bytes.get(..end).is_some_and(|bytes| bytes.ends_with(&psb::BYTES)) {
            return self.damage(Damage::BadPsb);
        }
        self.state = State::InPsb(end);
        self.item(1, Err(Damage::BadPsb))
    }

    /// Damage, up to the next PSB.
    #[cold]
    fn damage(&mut self, damage: Damage) -> Item {
        self.state = State::Plain;
        let end = psb::forward(self.bytes, self.at + 1).unwrap_or(self.bytes.len());
        self.item(end - self.at, Err(damage))
    }
}

/// Bytes with zeros behind them.
fn padded(bytes: &[u8]) -> Window {
    let mut window = Window::default();
    window.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    window
}

impl Iterator for Decoder<'_> {
    type Item = Item;

    #[inline]
    fn next(&mut self) -> Option<Item> {
        macro_rules! give {
            ($length:expr, $packet:expr) => {
                return Some(self.item($length, Ok($packet)))
            };
        }
        if self.state == State::Plain
            && let Some(window) = self.rest().first_chunk()
        {
            frequent!(window, give);
        }
        self.any()
    }

    /// As [`Decoder::next`], but faster: `for_each` and its like are made of this.
    #[inline]
    fn fold<B, F: FnMut(B, Item) -> B>(mut self, init: B, mut f: F) -> B {
        let end = self.base.wrapping_add(self.bytes.len() as u64);
        let mut result = init;
        loop {
            let mut rest = self.rest();
            while self.state == State::Plain
                && let Some(window) = rest.first_chunk()
            {
                macro_rules! give {
                    ($length:expr, $packet:expr) => {{
                        let (offset, length) = (end.wrapping_sub(rest.len() as u64), $length);
                        rest = &rest[length..];
                        result = f(result, Item { offset, length, what: Ok($packet) });
                        continue;
                    }};
                }
                frequent!(window, give);
                break;
            }
            self.at = self.bytes.len() - rest.len();
            let Some(item) = self.any() else { return result };
            result = f(result, item);
        }
    }
}

impl std::iter::FusedIterator for Decoder<'_> {}

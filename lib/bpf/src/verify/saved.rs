//! States as words: what is kept of one for later, in a tenth of its size.
//!
//! Only registers that are live are kept, and only slots that hold something. A number is kept as one word when it is a
//! constant, and as none when nothing is known of it but its bytes.
//!
//! | words | what |
//! |---|---|
//! | 1 | index of the running frame, count of the records |
//! | 1 each | ids of the records |
//! | for each frame: 1 | function, where the caller goes on |
//! | 1 | `written` |
//! | 1 | `used` |
//! | 1 | registers that follow, one bit each |
//! | some each | the registers |
//! | 1 and some each | the slots: their bytes, and what was spilled |

use super::range::Range;
use super::scalar::Scalar;
use super::state::{Byte, Slot, State};
use super::tnum::Tnum;
use super::value::{Kind, Value};
use crate::insn::Reg;
use crate::op::Width;

/// Words into which a state is being written.
pub(crate) struct Writer<'a> {
    room: &'a mut [u64],
    len: usize,
    full: bool,
}

/// How a number is kept.
const CONSTANT: u64 = 0;
const BYTES: u64 = 1;
const ALL: u64 = 2;

impl<'a> Writer<'a> {
    pub(crate) fn new(room: &'a mut [u64]) -> Writer<'a> {
        Writer { room, len: 0, full: false }
    }

    /// How many words were written; `None` when there was no space.
    pub(crate) fn finish(self) -> Option<usize> {
        (!self.full).then_some(self.len)
    }

    fn word(&mut self, word: u64) {
        match self.room.get_mut(self.len) {
            Some(place) => *place = word,
            None => self.full = true,
        }
        self.len += 1;
    }

    /// A state; of each frame the registers in `live`.
    pub(crate) fn state(&mut self, state: &State, live: impl Fn(usize) -> u16) {
        self.word(state.top as u64 | (state.record_count as u64) << 32);
        for record in state.held() {
            self.word(u64::from(*record));
        }
        for (number, frame) in state.running().iter().enumerate() {
            self.word(u64::from(frame.function) | u64::from(frame.back) << 32);
            self.word(frame.written);
            self.word(frame.used);
            let at = self.len;
            self.word(0);
            let (live, mut kept) = (live(number), 0u64);
            for reg in Reg::WRITABLE {
                let register = &frame.registers[reg];
                if live >> reg.number() & 1 != 0 && register.kind != Kind::Nothing {
                    kept |= 1 << reg.number();
                    self.value(register);
                }
            }
            if let Some(place) = self.room.get_mut(at) {
                *place = kept;
            }
            let mut used = frame.used;
            while used != 0 {
                self.slot(&frame.slots[used.trailing_zeros() as usize]);
                used &= used - 1;
            }
        }
    }

    fn slot(&mut self, slot: &Slot) {
        self.word(u64::from_le_bytes(slot.bytes.map(|byte| byte as u8)));
        if slot.bytes[0] == Byte::Part {
            self.value(&slot.value);
        }
    }

    fn value(&mut self, value: &Value) {
        let number = &value.number;
        let form = match number.as_constant() {
            Some(_) => CONSTANT,
            None => match whole_bytes(number) {
                Some(bits) => BYTES | u64::from(bits) << 8,
                None => ALL,
            },
        };
        let plain = value.id == 0 && value.since == 0 && value.range == 0;
        let flags = value.kind as u64 | u64::from(value.or_null) << 8 | u64::from(plain) << 9;
        self.word(flags | form << 10 | u64::from(value.object) << 32);
        if !plain {
            self.word(u64::from(value.id));
            self.word(u64::from(value.since as u32) | u64::from(value.range as u32) << 32);
        }
        match form {
            CONSTANT => self.word(number.bits.value),
            ALL => {
                let Scalar { bits, wide, low } = *number;
                for word in [bits.value, bits.mask, wide.umin, wide.umax, wide.smin as u64, wide.smax as u64]
                {
                    self.word(word);
                }
                self.word(low.umin | low.umax << 32);
                self.word(u64::from(low.smin as u32) | (low.smax as u64) << 32);
            }
            _ => {}
        }
    }
}

/// 8, 16, 32 or 64, when the number is any of so many bits.
fn whole_bytes(number: &Scalar) -> Option<u32> {
    if number.bits.value != 0 {
        return None;
    }
    let bits = number.bits.mask.trailing_ones();
    (matches!(bits, 8 | 16 | 32 | 64) && *number == of_bytes(bits)).then_some(bits)
}

/// Any number of so many bits.
fn of_bytes(bits: u32) -> Scalar {
    if bits == 64 {
        return Scalar::UNKNOWN;
    }
    let most = u64::MAX >> (64 - bits);
    let range = Range { umin: 0, umax: most, smin: 0, smax: most as i64 };
    let low = if bits == 32 { Range::any(Width::W32) } else { range };
    Scalar { bits: Tnum { value: 0, mask: most }, wide: range, low }
}

/// Words of which a state is being read. What is behind their end reads as zeros.
pub(crate) struct Reader<'a> {
    words: &'a [u64],
}

/// What is kept of a frame before its registers.
pub(crate) struct Head {
    pub(crate) function: u32,
    pub(crate) back: u32,
    pub(crate) written: u64,
    pub(crate) used: u64,
    pub(crate) registers: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(words: &'a [u64]) -> Reader<'a> {
        Reader { words }
    }

    pub(crate) fn word(&mut self) -> u64 {
        match self.words.split_first() {
            Some((first, rest)) => {
                self.words = rest;
                *first
            }
            None => 0,
        }
    }

    /// How many words were not read.
    pub(crate) fn left(&self) -> usize {
        self.words.len()
    }

    /// Index of the running frame, and how many records' ids follow.
    pub(crate) fn counts(&mut self) -> (usize, usize) {
        let word = self.word();
        (word as u32 as usize, (word >> 32) as usize)
    }

    pub(crate) fn head(&mut self) -> Head {
        let word = self.word();
        let (function, back) = (word as u32, (word >> 32) as u32);
        Head { function, back, written: self.word(), used: self.word(), registers: self.word() }
    }

    pub(crate) fn slot(&mut self) -> Slot {
        let bytes = self.word().to_le_bytes().map(|byte| match byte {
            1 => Byte::Any,
            2 => Byte::Zero,
            3 => Byte::Part,
            _ => Byte::Nothing,
        });
        let value = if bytes[0] == Byte::Part { self.value() } else { Value::NOTHING };
        Slot { bytes, value }
    }

    pub(crate) fn value(&mut self) -> Value {
        let head = self.word();
        let kind = Kind::ALL.get(head as u8 as usize).copied().unwrap_or(Kind::Nothing);
        let mut value =
            Value { kind, or_null: head >> 8 & 1 != 0, object: (head >> 32) as u32, ..Value::NOTHING };
        if head >> 9 & 1 == 0 {
            value.id = self.word() as u32;
            let word = self.word();
            (value.since, value.range) = (word as i32, (word >> 32) as i32);
        }
        value.number = match head >> 10 & 0xff {
            CONSTANT => Scalar::constant(self.word()),
            BYTES => of_bytes((head >> 18 & 0xff) as u32),
            _ => self.number(),
        };
        value
    }

    fn number(&mut self) -> Scalar {
        let bits = Tnum { value: self.word(), mask: self.word() };
        let (umin, umax) = (self.word(), self.word());
        let (smin, smax) = (self.word() as i64, self.word() as i64);
        let (low_u, low_s) = (self.word(), self.word());
        let low = Range {
            umin: low_u as u32 as u64,
            umax: low_u >> 32,
            smin: low_s as i32 as i64,
            smax: low_s as i64 >> 32,
        };
        Scalar { bits, wide: Range { umin, umax, smin, smax }, low }
    }

    /// The whole state.
    pub(crate) fn state(&mut self, state: &mut State) {
        let (top, records) = self.counts();
        (state.top, state.record_count) = (top, records);
        for record in 0..records {
            state.records[record] = self.word() as u32;
        }
        for number in 0..=top {
            let head = self.head();
            let frame = &mut state.frames[number];
            frame.enter(number as u32, head.function, head.back);
            (frame.written, frame.used) = (head.written, head.used);
            for reg in Reg::WRITABLE.into_iter().filter(|reg| head.registers >> reg.number() & 1 != 0) {
                frame.registers[reg] = self.value();
            }
            for index in (0..64).filter(|index| head.used >> index & 1 != 0) {
                frame.slots[index] = self.slot();
            }
        }
    }
}

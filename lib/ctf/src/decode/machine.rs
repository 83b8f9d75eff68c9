//! Runs programs over a packet's bytes.

use super::bits;
use super::program::{Bits, Body, Choice, Count, Effect, Kind, Op, Run};
use super::slots::Slots;
use super::{MAX_VALUES, PacketHeader};
use crate::error::{DecodeError, DecodeFault};
use crate::value::{Slot, Tag};

/// Number of scopes whose ends are noted.
pub(crate) const SCOPES: usize = 4;

/// Everything that decoding changes but the position.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// Values of the scopes being decoded.
    pub(crate) slots: Slots,
    /// Ends of scopes in `slots`.
    pub(crate) ends: [u32; SCOPES],
    /// Lengths and selectors.
    pub(crate) registers: Vec<Option<i128>>,
    /// The clock, raw cycles.
    pub(crate) clock: u64,
    /// Class of the event.
    pub(crate) event_class: Option<u64>,
    /// Class of the packet's stream.
    pub(crate) stream_class: Option<u64>,
    pub(crate) uuid: Option<[u8; 16]>,
    pub(crate) header: PacketHeader,
    /// Array elements that the event may still have.
    pub(crate) fuel: u64,
}

/// The bytes that a program reads.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) bytes: &'a [u8],
    /// End of the readable content, in bits; never beyond `bytes`.
    pub(crate) end: u64,
    /// The data end before the content does: what is beyond `end` is missing, not wrong.
    pub(crate) cut: bool,
}

type Position = Result<u64, DecodeError>;

impl Input<'_> {
    /// The error of a field at `at` that goes beyond the end.
    #[cold]
    fn error(&self, at: u64) -> DecodeError {
        DecodeError {
            kind: if self.cut { DecodeFault::Truncated } else { DecodeFault::BeyondContent },
            bit: at,
        }
    }

    /// `at` moved by `bits`, unless that is beyond the end.
    #[inline]
    fn advance(&self, at: u64, bits: u64) -> Position {
        match at.checked_add(bits) {
            Some(next) if next <= self.end => Ok(next),
            _ => Err(self.error(at)),
        }
    }

    /// The next multiple of `align`, a power of two, unless that is beyond the end.
    #[inline]
    fn align(&self, at: u64, align: u64) -> Position {
        let aligned = at.wrapping_add(align - 1) & !(align - 1);
        if aligned > self.end || aligned < at {
            return Err(self.error(at));
        }
        Ok(aligned)
    }

    /// The bytes from the byte-aligned position `at` to the end of the content.
    #[inline]
    fn rest(&self, at: u64) -> &[u8] {
        self.bytes.get((at / 8) as usize..(self.end / 8) as usize).unwrap_or(&[])
    }
}

impl Machine {
    /// Runs `ops` from bit `at`; returns where they end.
    pub(crate) fn run(&mut self, ops: &[Op], input: Input<'_>, mut at: u64) -> Position {
        for op in ops {
            at = match op {
                Op::Run(run) => self.fields(run, input, at)?,
                Op::Bits(field) => self.bits(field, input, at)?,
                Op::Leb128 { align, kind, effects } => self.leb128(input, at, *align, *kind, effects)?,
                Op::Align(align) => input.align(at, *align)?,
                Op::Terminated { unit } => self.terminated(input, at, *unit)?,
                Op::Text { length, unit } => self.text(input, at, *length, *unit)?,
                Op::Blob { length } => self.blob(input, at, *length)?,
                Op::PeekUuid => {
                    self.uuid = input.rest(at).first_chunk::<16>().copied();
                    at
                }
                Op::Array { length, min_bits, body } => self.array(input, at, *length, *min_bits, body)?,
                Op::Scalars { length, scalar, stride } => {
                    let (count, at) = self.begin_array(input, at, *length, u64::from(*stride) * 8)?;
                    let stride = *stride as usize;
                    let rest = input.rest(at);
                    let span = rest.get(..count as usize * stride).unwrap_or(rest);
                    let slots = self.slots.grab(span.len() / stride);
                    for (slot, chunk) in slots.iter_mut().zip(span.chunks_exact(stride)) {
                        *slot = scalar.load_tail(chunk);
                    }
                    at + span.len() as u64 * 8
                }
                Op::Variant { selector, options } => self.variant(input, at, *selector, options)?,
                Op::Optional { selector, ranges, body } => {
                    let value = self.register(*selector, at)?;
                    let present = ranges.as_ref().map_or(value != 0, |ranges| contains(ranges, value));
                    self.slots.push(Slot::new(Tag::Count, u64::from(present)));
                    if present { self.run(body, input, at)? } else { at }
                }
                Op::EndScope(index) => {
                    if let Some(end) = self.ends.get_mut(*index) {
                        *end = self.slots.len() as u32;
                    }
                    at
                }
            };
        }
        Ok(at)
    }

    /// Runs the program of an event header.
    #[inline(always)]
    pub(crate) fn header(&mut self, body: &Body, input: Input<'_>, at: u64) -> Position {
        match body {
            Body::Run(run) => match self.load(run, input, at) {
                Some((next, window)) => {
                    self.note(run, window);
                    Ok(next)
                }
                None => self.tail(run, input, at),
            },
            Body::Ops(ops) => self.run(ops, input, at),
        }
    }

    /// Runs the program of an event's contexts and payload, where nothing but the values matters.
    #[inline(always)]
    pub(crate) fn body(&mut self, body: &Body, input: Input<'_>, at: u64) -> Position {
        match body {
            Body::Run(run) => match self.load(run, input, at) {
                Some((next, _)) => Ok(next),
                None => self.tail(run, input, at),
            },
            Body::Ops(ops) => self.run(ops, input, at),
        }
    }

    fn fields(&mut self, run: &Run, input: Input<'_>, at: u64) -> Position {
        let first = self.slots.len();
        let next = match self.load(run, input, at) {
            Some((next, window)) => {
                self.note(run, window);
                next
            }
            None => self.tail(run, input, at)?,
        };
        for (index, effect) in &run.effects {
            if let Some(slot) = self.slots.as_slice().get(first + *index as usize) {
                self.effect(*effect, *slot, at)?;
            }
        }
        Ok(next)
    }

    /// Stores the values of a run, if its window lies in the content; returns where the run ends.
    #[inline(always)]
    fn load<'a>(&mut self, run: &Run, input: Input<'a>, at: u64) -> Option<(u64, &'a [u8])> {
        let base = at.wrapping_add(run.align - 1) & !(run.align - 1);
        let next = base.wrapping_add(run.bits);
        let byte = (base / 8) as usize;
        let window = input.bytes.get(byte..byte + run.window)?;
        if next > input.end {
            return None;
        }
        for (slot, field) in self.slots.grab(run.fields.len()).iter_mut().zip(&run.fields) {
            *slot = field.load(window);
        }
        Some((next, window))
    }

    /// Event class and clock of a run.
    #[inline(always)]
    fn note(&mut self, run: &Run, window: &[u8]) {
        if let Some(field) = run.event_class {
            self.event_class = Some(field.load_unsigned(window));
        }
        if let Some((field, bits)) = run.clock {
            self.clock = extend(self.clock, field.load_unsigned(window), bits);
        }
    }

    /// A run at the end of the data, where 8-byte loads would go beyond it: from a copy with zeros behind.
    /// Or an error.
    #[cold]
    #[inline(never)]
    fn tail(&mut self, run: &Run, input: Input<'_>, at: u64) -> Position {
        let base = input.align(at, run.align)?;
        let next = input.advance(base, run.bits)?;
        let mut copy = input.bytes.get((base / 8) as usize..).unwrap_or(&[]).to_vec();
        copy.resize(run.window, 0);
        let copied = Input { bytes: &copy, end: run.bits, cut: true };
        if let Some((_, window)) = self.load(run, copied, 0) {
            self.note(run, window);
        }
        Ok(next)
    }

    fn bits(&mut self, field: &Bits, input: Input<'_>, at: u64) -> Position {
        let base = input.align(at, field.align)?;
        let next = input.advance(base, u64::from(field.size))?;
        let slot = if field.reversed {
            bits::read_reversed(input.bytes, base, field.size, field.big, field.kind)
        } else {
            bits::read(input.bytes, base, field.size, field.big, field.kind)
        };
        self.slots.push(slot);
        for effect in &field.effects {
            self.effect(*effect, slot, base)?;
        }
        Ok(next)
    }

    /// LEB128, up to 64 bits (CTF2-SPEC-2.0 section 6.4.5).
    fn leb128(&mut self, input: Input<'_>, at: u64, align: u64, kind: Kind, effects: &[Effect]) -> Position {
        let mut at = input.align(at, align)?;
        let begin = at;
        let (mut value, mut shift) = (0_u128, 0_u32);
        loop {
            let byte = *input.rest(at).first().ok_or_else(|| input.error(begin))?;
            at += 8;
            value |= u128::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift >= 70 {
                return Err(DecodeError { kind: DecodeFault::BadLeb128, bit: begin });
            }
        }
        let too_long = DecodeError { kind: DecodeFault::BadLeb128, bit: begin };
        let slot = if kind == Kind::Signed {
            let signed = (value << (128 - shift)).cast_signed() >> (128 - shift);
            Slot::new(Tag::I64, i64::try_from(signed).map_err(|_| too_long)?.cast_unsigned())
        } else {
            Slot::new(Tag::U64, u64::try_from(value).map_err(|_| too_long)?)
        };
        self.slots.push(slot);
        for effect in effects {
            // The bits that are there are the clock's low ones (section 6.3).
            let effect = match *effect {
                Effect::Clock { .. } => Effect::Clock { bits: shift },
                Effect::EndClock { .. } => Effect::EndClock { bits: shift },
                other => other,
            };
            self.effect(effect, slot, begin)?;
        }
        Ok(at)
    }

    fn terminated(&mut self, input: Input<'_>, at: u64, unit: u8) -> Position {
        let at = input.align(at, 8)?;
        let rest = input.rest(at);
        let len = nul(rest, unit).ok_or_else(|| input.error(at))?;
        self.slots.push(Slot::span(Tag::Str, at / 8, len));
        Ok(at + (len as u64 + u64::from(unit)) * 8)
    }

    fn text(&mut self, input: Input<'_>, at: u64, length: Count, unit: u8) -> Position {
        let at = input.align(at, 8)?;
        let count = self.count(length, at)?;
        let next = self.sized(input, at, count)?;
        let whole = input.bytes.get((at / 8) as usize..(next / 8) as usize).unwrap_or(&[]);
        let len = nul(whole, unit).unwrap_or(whole.len());
        self.slots.push(Slot::span(Tag::Str, at / 8, len));
        Ok(next)
    }

    fn blob(&mut self, input: Input<'_>, at: u64, length: Count) -> Position {
        let at = input.align(at, 8)?;
        let count = self.count(length, at)?;
        let next = self.sized(input, at, count)?;
        self.slots.push(Slot::span(Tag::Bytes, at / 8, ((next - at) / 8) as usize));
        Ok(next)
    }

    /// `at` moved by so many bytes.
    fn sized(&self, input: Input<'_>, at: u64, bytes: u64) -> Position {
        let bad = DecodeError { kind: DecodeFault::BadLength(bytes), bit: at };
        let bits = bytes.checked_mul(8).ok_or(bad)?;
        if bits > input.end - at { self.too_long(input, bad) } else { Ok(at + bits) }
    }

    /// A length beyond the end: of cut data the cut is the fault, not the length.
    fn too_long(&self, input: Input<'_>, bad: DecodeError) -> Position {
        Err(if input.cut { input.error(bad.bit) } else { bad })
    }

    /// Checks an array's length against the bits left, and notes it if it is dynamic.
    fn begin_array(
        &mut self,
        input: Input<'_>,
        at: u64,
        length: Count,
        min_bits: u64,
    ) -> Result<(u64, u64), DecodeError> {
        let count = self.count(length, at)?;
        let bad = DecodeError { kind: DecodeFault::BadLength(count), bit: at };
        if count.checked_mul(min_bits).is_none_or(|bits| bits > input.end - at) {
            return self.too_long(input, bad).map(|at| (0, at));
        }
        if count > self.fuel || self.slots.len() > MAX_VALUES {
            return Err(DecodeError { kind: DecodeFault::TooManyValues, bit: at });
        }
        self.fuel -= count;
        if matches!(length, Count::Register(_)) {
            self.slots.push(Slot::new(Tag::Count, count));
        }
        Ok((count, at))
    }

    fn array(&mut self, input: Input<'_>, at: u64, length: Count, min_bits: u64, body: &[Op]) -> Position {
        let (count, mut at) = self.begin_array(input, at, length, min_bits)?;
        if body.is_empty() {
            return Ok(at);
        }
        for _ in 0..count {
            at = self.run(body, input, at)?;
            if self.slots.len() > MAX_VALUES {
                return Err(DecodeError { kind: DecodeFault::TooManyValues, bit: at });
            }
        }
        Ok(at)
    }

    fn variant(&mut self, input: Input<'_>, at: u64, selector: u16, options: &[Choice]) -> Position {
        let value = self.register(selector, at)?;
        let chosen = options.iter().enumerate().find(|(_, option)| contains(&option.ranges, value));
        let Some((index, option)) = chosen else {
            return Err(DecodeError { kind: DecodeFault::NoOption(value as i64), bit: at });
        };
        self.slots.push(Slot::new(Tag::Selected, index as u64));
        self.run(&option.body, input, at)
    }

    fn count(&self, count: Count, at: u64) -> Result<u64, DecodeError> {
        match count {
            Count::Static(n) => Ok(n),
            Count::Register(register) => {
                let value = self.register(register, at)?;
                let bad = DecodeFault::BadLength(value as u64);
                u64::try_from(value).map_err(|_| DecodeError { kind: bad, bit: at })
            }
        }
    }

    fn register(&self, register: u16, at: u64) -> Result<i128, DecodeError> {
        let value = self.registers.get(usize::from(register)).copied().flatten();
        value.ok_or(DecodeError { kind: DecodeFault::MissingReference, bit: at })
    }

    #[inline(never)]
    fn effect(&mut self, effect: Effect, slot: Slot, at: u64) -> Result<(), DecodeError> {
        let raw = slot.bits;
        let wide = if slot.tag == Tag::I64 { i128::from(raw.cast_signed()) } else { i128::from(raw) };
        match effect {
            Effect::Clock { bits } => self.clock = extend(self.clock, raw, bits),
            Effect::EventClass => self.event_class = Some(raw),
            Effect::Save(register) => {
                if let Some(place) = self.registers.get_mut(usize::from(register)) {
                    *place = Some(wide);
                }
            }
            other => self.packet_effect(other, raw, at)?,
        }
        Ok(())
    }

    fn packet_effect(&mut self, effect: Effect, raw: u64, at: u64) -> Result<(), DecodeError> {
        let header = &mut self.header;
        match effect {
            Effect::Magic if raw != u64::from(super::PACKET_MAGIC) => {
                return Err(DecodeError { kind: DecodeFault::BadMagic(raw as u32), bit: at });
            }
            Effect::StreamClass => self.stream_class = Some(raw),
            Effect::StreamId => header.stream_id = Some(raw),
            Effect::ContentBits => header.content_bits = Some(raw),
            Effect::PacketBits => header.packet_bits = Some(raw),
            Effect::SequenceNumber => header.sequence_number = Some(raw),
            Effect::Discarded => header.events_discarded = Some(raw),
            Effect::EndClock { bits } => header.timestamp_end = Some(extend(self.clock, raw, bits)),
            Effect::Cpu => header.cpu_id = u32::try_from(raw).ok(),
            _ => {}
        }
        Ok(())
    }
}

/// The clock after its low `bits` were seen to be `low`: if they are less than before, they have wrapped once
/// (CTF 1.8 section 8).
#[inline]
fn extend(clock: u64, low: u64, bits: u32) -> u64 {
    if bits >= 64 {
        return low;
    }
    let mask = (1_u64 << bits) - 1;
    let low = low & mask;
    let base = if low < clock & mask { clock.wrapping_add(1 << bits) } else { clock };
    (base & !mask) | low
}

fn contains(ranges: &[(i128, i128)], value: i128) -> bool {
    ranges.iter().any(|(lower, upper)| *lower <= value && value <= *upper)
}

/// Offset of the first NUL code unit of `unit` bytes.
#[inline]
fn nul(bytes: &[u8], unit: u8) -> Option<usize> {
    if unit <= 1 {
        return memchr::memchr(0, bytes);
    }
    let unit = usize::from(unit);
    bytes.chunks_exact(unit).position(|c| c.iter().all(|b| *b == 0)).map(|i| i * unit)
}

#[cfg(test)]
mod tests {
    use super::extend;

    #[test]
    fn clock_extension_follows_the_wrap_rule() {
        assert_eq!(extend(0x1_0000_00f0, 0xf1, 8), 0x1_0000_00f1);
        assert_eq!(extend(0x1_0000_00f0, 0xf0, 8), 0x1_0000_00f0);
        assert_eq!(extend(0x1_0000_00f0, 0x01, 8), 0x1_0000_0101);
        assert_eq!(extend(u64::MAX, 3, 8), 3);
        assert_eq!(extend(77, 5, 64), 5);
    }
}

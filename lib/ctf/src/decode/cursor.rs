//! The cursor: state of decoding one data stream, from packet to packet and event to event.

use super::machine::{Input, Machine};
use super::slots::Slots;
use super::{Event, MAX_VALUES, PacketHeader};
use crate::error::{DecodeError, DecodeFault};
use crate::model::StructClass;
use crate::schema::{EventPlan, Schema, StreamPlan};
use crate::value::Fields;

/// What a scope that is not there looks like.
static NOTHING: StructClass = StructClass { members: Vec::new(), min_align: 1 };

/// The state of decoding one data stream: position, clock, and the current event's values.
///
/// Keep one per stream file and use it for all its packets, in order: the clock goes on from packet to
/// packet where packets carry no time. It owns no bytes; give the same packet to every call between two
/// `begin`s.
#[derive(Debug, Default)]
pub struct Cursor {
    machine: Machine,
    state: State,
    /// Position, bits.
    at: u64,
    /// Values of the packet's header and, from `context_begin`, context.
    packet_slots: Slots,
    context_begin: usize,
    /// End of the packet's content, bits; [`UNKNOWN`] if only the data's end tells.
    content: u64,
    /// Index of the current event's class.
    event: usize,
}

/// The content ends with the data.
const UNKNOWN: u64 = u64::MAX;

/// What the cursor points to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing: no packet begun, or the packet is broken.
    #[default]
    Idle,
    /// A packet, before an event.
    Packet,
    /// An event.
    Event,
}

impl Cursor {
    /// A cursor at the start of a stream.
    #[must_use]
    pub fn new() -> Cursor {
        Cursor::default()
    }

    /// Begins a packet: decodes header and context from `prefix`, the packet's first bytes or all of it.
    ///
    /// # Errors
    /// [`DecodeFault::Truncated`] if `prefix` is too short: call again with more. Other faults are the
    /// packet's.
    pub fn begin(&mut self, schema: &Schema, prefix: &[u8]) -> Result<PacketHeader, DecodeError> {
        let clock = self.machine.clock;
        let begun = self.begin_packet(schema, prefix);
        self.state = if begun.is_ok() { State::Packet } else { State::Idle };
        if begun.is_err() {
            self.machine.clock = clock;
        }
        begun
    }

    fn begin_packet(&mut self, schema: &Schema, prefix: &[u8]) -> Result<PacketHeader, DecodeError> {
        let input = Input { bytes: prefix, end: readable(prefix)?, cut: true };
        self.machine.start_packet(schema.registers);
        let at = self.machine.run(&schema.packet_header, input, 0)?;
        let uuids = schema.trace().uuid.zip(self.machine.uuid);
        self.machine.header.foreign_uuid = uuids.is_some_and(|(own, theirs)| own != theirs);
        self.context_begin = self.machine.slots.len();
        let id = self.machine.stream_class.unwrap_or(schema.default_stream);
        let stream =
            schema.stream_index(id).ok_or(DecodeError { kind: DecodeFault::UnknownStream(id), bit: 0 })?;
        let plan =
            schema.streams.get(stream).ok_or(DecodeError { kind: DecodeFault::UnknownStream(id), bit: 0 })?;
        self.at = self.machine.run(&plan.packet_context, input, at)?;
        std::mem::swap(&mut self.packet_slots, &mut self.machine.slots);
        self.check_header(stream, plan)
    }

    /// Completes and checks what the packet says of itself.
    fn check_header(&mut self, stream: usize, plan: &StreamPlan) -> Result<PacketHeader, DecodeError> {
        let header = &mut self.machine.header;
        header.stream = stream;
        header.header_bits = self.at;
        header.timestamp_begin = plan.has_begin.then_some(self.machine.clock);
        header.packet_bits = header.packet_bits.or(header.content_bits);
        let content = header.content_bits.or(header.packet_bits);
        self.content = content.unwrap_or(UNKNOWN);
        let good = match (content, header.packet_bits) {
            (Some(content), Some(packet)) => {
                packet.is_multiple_of(8) && packet > 0 && content <= packet && self.at <= content
            }
            _ => true,
        };
        if !good {
            return Err(DecodeError { kind: DecodeFault::BadPacketSize, bit: 0 });
        }
        Ok(*header)
    }

    /// Context of the current packet: `cpu_id`, times, sizes; empty without a packet.
    #[must_use]
    pub fn packet_context<'a>(&'a self, schema: &'a Schema, packet: &'a [u8]) -> Fields<'a> {
        let stream = schema.trace().streams.get(self.machine.header.stream);
        let class = stream.and_then(|s| s.packet_context.as_ref());
        self.packet_fields(class, self.context_begin..self.packet_slots.len(), packet)
    }

    /// Header of the current packet: magic, UUID, stream; empty without a packet.
    #[must_use]
    pub fn packet_header<'a>(&'a self, schema: &'a Schema, packet: &'a [u8]) -> Fields<'a> {
        self.packet_fields(schema.trace().packet_header.as_ref(), 0..self.context_begin, packet)
    }

    fn packet_fields<'a>(
        &'a self,
        class: Option<&'a StructClass>,
        range: std::ops::Range<usize>,
        bytes: &'a [u8],
    ) -> Fields<'a> {
        match (class, self.packet_slots.as_slice().get(range)) {
            (Some(class), Some(slots)) if self.state != State::Idle => Fields { class, slots, bytes },
            _ => Fields { class: &NOTHING, slots: &[], bytes },
        }
    }

    /// Decodes the next event of `packet` (all of its bytes); `false` at the packet's end.
    ///
    /// # Errors
    /// Faults of the event. The packet cannot be decoded further; the next `begin` starts afresh.
    #[inline]
    pub fn advance(&mut self, schema: &Schema, packet: &[u8]) -> Result<bool, DecodeError> {
        match self.next(schema, packet) {
            Ok(more) => {
                self.state = if more { State::Event } else { State::Packet };
                Ok(more)
            }
            Err(error) => {
                self.state = State::Idle;
                Err(error)
            }
        }
    }

    fn next(&mut self, schema: &Schema, packet: &[u8]) -> Result<bool, DecodeError> {
        let begin = self.at;
        let plan = match schema.streams.get(self.machine.header.stream) {
            Some(plan) if self.state != State::Idle => plan,
            _ => return Err(DecodeError { kind: DecodeFault::NoPacket, bit: begin }),
        };
        let input = self.input(packet)?;
        if begin >= input.end {
            let cut = input.cut && self.content != UNKNOWN;
            return if cut {
                Err(DecodeError { kind: DecodeFault::Truncated, bit: begin })
            } else {
                Ok(false)
            };
        }
        self.machine.start_event(schema.packet_registers);
        let body = self.machine.header(&plan.event_header, input, begin)?;
        self.machine.ends[0] = self.machine.slots.len() as u32;
        let id = self.machine.event_class.unwrap_or(plan.default_event);
        let unknown = DecodeError { kind: DecodeFault::UnknownEvent(id), bit: begin };
        self.event = plan.event_index(id).ok_or(unknown)?;
        let event = plan.events.get(self.event).ok_or(unknown)?;
        self.at = self.machine.body(&event.body, input, body)?;
        self.note_ends(event);
        if self.at == begin {
            return Err(DecodeError { kind: DecodeFault::EmptyEvent, bit: begin });
        }
        Ok(true)
    }

    /// Where scopes end in the values, unless the program noted it.
    #[inline]
    fn note_ends(&mut self, event: &EventPlan) {
        let ends = &mut self.machine.ends;
        if let Some([common, specific]) = event.static_ends {
            ends[1] = ends[0] + common;
            ends[2] = ends[1] + specific;
        }
        ends[3] = self.machine.slots.len() as u32;
    }

    /// The part of `packet` that events may take.
    #[inline]
    fn input<'a>(&self, packet: &'a [u8]) -> Result<Input<'a>, DecodeError> {
        let available = readable(packet)?;
        Ok(Input { bytes: packet, end: self.content.min(available), cut: self.content > available })
    }

    /// Clock of the current event in raw cycles, of the packet's beginning before the first; 0 without a
    /// clock.
    #[must_use]
    #[inline]
    pub fn timestamp(&self) -> u64 {
        self.machine.clock
    }

    /// The event that the last `advance` decoded; `None` before the first, after the last and after an error.
    #[must_use]
    #[inline]
    pub fn event<'a>(&'a self, schema: &'a Schema, packet: &'a [u8]) -> Option<Event<'a>> {
        if self.state != State::Event {
            return None;
        }
        let stream = schema.trace().streams.get(self.machine.header.stream)?;
        let class = stream.events.get(self.event)?;
        let slots = self.machine.slots.as_slice();
        let scope = |class: Option<&'a StructClass>, from: u32, to: u32| Fields {
            class: class.unwrap_or(&NOTHING),
            slots: slots.get(from as usize..to as usize).unwrap_or(&[]),
            bytes: packet,
        };
        let [header, common, specific, payload] = self.machine.ends;
        Some(Event {
            class,
            stream,
            timestamp: self.machine.clock,
            scopes: [
                scope(stream.event_header.as_ref(), 0, header),
                scope(stream.common_context.as_ref(), header, common),
                scope(class.specific_context.as_ref(), common, specific),
                scope(class.payload.as_ref(), specific, payload),
            ],
        })
    }

    /// Index of the current event's class in its stream class's `events`.
    #[must_use]
    pub fn event_index(&self) -> Option<usize> {
        (self.state == State::Event).then_some(self.event)
    }

    /// Position in the packet: where the next event begins, in bits.
    #[must_use]
    pub fn bit(&self) -> u64 {
        self.at
    }
}

impl Machine {
    /// Forgets the packet before.
    fn start_packet(&mut self, registers: usize) {
        self.slots.clear();
        self.registers.clear();
        self.registers.resize(registers, None);
        self.stream_class = None;
        self.uuid = None;
        self.header = PacketHeader::default();
        self.fuel = MAX_VALUES as u64;
    }

    /// Forgets the event before; keeps the registers of the packet.
    #[inline]
    fn start_event(&mut self, packet_registers: usize) {
        self.slots.clear();
        self.event_class = None;
        self.fuel = MAX_VALUES as u64;
        if let Some(registers) = self.registers.get_mut(packet_registers..) {
            registers.fill(None);
        }
    }
}

/// The bits of `bytes`; places in a packet are kept in 32 bits.
#[inline]
fn readable(bytes: &[u8]) -> Result<u64, DecodeError> {
    match u32::try_from(bytes.len()) {
        Ok(len) => Ok(u64::from(len) * 8),
        Err(_) => Err(DecodeError { kind: DecodeFault::PacketTooLarge, bit: 0 }),
    }
}

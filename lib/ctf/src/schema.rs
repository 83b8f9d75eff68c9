//! A checked trace class with the programs that decode it.

use crate::check::{self, Scopes};
use crate::decode::compile::{Compiler, Registers, fault, static_values};
use crate::decode::program::{Body, Program};
use crate::error::{MetadataError, MetadataFault, MetadataWarning};
use crate::model::{
    ClockClass, EventClass, FieldClass, FieldRef, Roles, Scope, StreamClass, StructClass, TraceClass,
};
use crate::read::{Part, compiled};
use std::collections::HashMap;

/// Event ids below this are looked up in a table.
const DENSE: u64 = 1 << 16;

/// A trace class, checked and compiled for decoding. Immutable; share it between cursors and threads.
#[derive(Debug)]
pub struct Schema {
    trace: TraceClass,
    warnings: Vec<MetadataWarning>,
    pub(crate) packet_header: Program,
    pub(crate) streams: Vec<StreamPlan>,
    by_id: HashMap<u64, usize>,
    /// Stream class of packets that name none.
    pub(crate) default_stream: u64,
    /// Number of registers, and how many of them belong to packet scopes.
    pub(crate) registers: usize,
    pub(crate) packet_registers: usize,
}

/// How to decode packets and events of a stream class.
#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub(crate) packet_context: Program,
    pub(crate) event_header: Body,
    pub(crate) events: Vec<EventPlan>,
    /// Packets carry the time of their beginning.
    pub(crate) has_begin: bool,
    /// Event class of events that name none.
    pub(crate) default_event: u64,
    dense: Vec<u32>,
    sparse: HashMap<u64, usize>,
}

/// How to decode events of a class.
#[derive(Debug)]
pub(crate) struct EventPlan {
    /// Common context, specific context and payload.
    pub(crate) body: Body,
    /// Numbers of values of common and specific context, where they are fixed.
    pub(crate) static_ends: Option<[u32; 2]>,
}

type Checked<T> = Result<T, MetadataFault>;
/// A fault has the part of the trace class that it is in.
type Built<T> = Result<T, (MetadataFault, Part)>;

impl Schema {
    /// Parses and compiles metadata of either version.
    ///
    /// Oddities that do not change how a byte is read are [`Schema::warnings`].
    ///
    /// # Errors
    /// Metadata that breaks its grammar, refers to unknown things, or nests too deep: the first fault, with its
    /// line and column.
    pub fn parse(metadata: &[u8]) -> Result<Schema, MetadataError> {
        let (schema, warnings) = compiled(metadata, Schema::build)?;
        Ok(Schema { warnings, ..schema })
    }

    /// Compiles a trace class.
    ///
    /// # Errors
    /// Sizes, alignments or references that cannot be. They have no line.
    pub fn new(trace: TraceClass) -> Result<Schema, MetadataError> {
        Schema::build(trace).map_err(|(kind, _)| MetadataError::nowhere(kind))
    }

    fn build(trace: TraceClass) -> Built<Schema> {
        for (index, clock) in trace.clocks.iter().enumerate() {
            check_clock(clock).map_err(|kind| (kind, Part::Clock(index)))?;
        }
        let registers = collect_registers(&trace)?;
        let mut header = Compiler::new(&registers, false);
        let scope = header.scope(Scope::PacketHeader, trace.packet_header.as_ref());
        scope.map_err(|kind| (kind, Part::Trace))?;
        let packet_header = header.finish();
        let mut by_id = HashMap::new();
        let mut streams = Vec::with_capacity(trace.streams.len());
        for (index, stream) in trace.streams.iter().enumerate() {
            if by_id.insert(stream.id, index).is_some() {
                return Err((MetadataFault::Duplicate("stream class"), Part::Stream(index)));
            }
            streams.push(StreamPlan::new(&trace, stream, index, &registers)?);
        }
        let default_stream = if let [only] = &trace.streams[..] { only.id } else { 0 };
        let packet_registers = registers.keys().filter(|r| r.scope <= Scope::PacketContext).count();
        let registers = registers.len();
        Ok(Schema {
            trace,
            warnings: Vec::new(),
            packet_header,
            streams,
            by_id,
            default_stream,
            registers,
            packet_registers,
        })
    }

    /// What is odd about the metadata that it was parsed from, and how it is read: at most
    /// [`crate::MAX_WARNINGS`], in the order in which they were found. None of a model that was built by hand.
    #[must_use]
    pub fn warnings(&self) -> &[MetadataWarning] {
        &self.warnings
    }

    /// What the metadata declares of the whole trace.
    #[must_use]
    pub fn trace(&self) -> &TraceClass {
        &self.trace
    }

    pub(crate) fn stream_index(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }
}

impl StreamPlan {
    fn new(
        trace: &TraceClass,
        stream: &StreamClass,
        index: usize,
        registers: &Registers,
    ) -> Built<StreamPlan> {
        let of_stream = |kind| (kind, Part::Stream(index));
        let mut plan = StreamPlan::of_packets(trace, stream, registers).map_err(of_stream)?;
        for (number, event) in stream.events.iter().enumerate() {
            let of_event = |kind| (kind, Part::Event(index, number));
            plan.add_id(event.id, number).map_err(of_event)?;
            plan.events.push(EventPlan::new(stream, event, registers).map_err(of_event)?);
        }
        Ok(plan)
    }

    /// The plan without its events.
    fn of_packets(trace: &TraceClass, stream: &StreamClass, registers: &Registers) -> Checked<StreamPlan> {
        if stream.clock.is_some_and(|clock| clock >= trace.clocks.len()) {
            return fault(MetadataFault::Unknown("clock class"));
        }
        let has_clock = stream.clock.is_some();
        let mut context = Compiler::new(registers, has_clock);
        context.scope(Scope::PacketContext, stream.packet_context.as_ref())?;
        let mut header = Compiler::new(registers, has_clock);
        header.scope(Scope::EventHeader, stream.event_header.as_ref())?;
        Ok(StreamPlan {
            packet_context: context.finish(),
            event_header: header.finish().into(),
            events: Vec::with_capacity(stream.events.len()),
            has_begin: has_clock && has_role(stream.packet_context.as_ref(), Roles::TIMESTAMP),
            default_event: if let [only] = &stream.events[..] { only.id } else { 0 },
            dense: Vec::new(),
            sparse: HashMap::new(),
        })
    }

    fn add_id(&mut self, id: u64, index: usize) -> Checked<()> {
        if self.event_index(id).is_some() {
            return fault(MetadataFault::Duplicate("event class"));
        }
        match (usize::try_from(id), u32::try_from(index)) {
            (Ok(place), Ok(index)) if id < DENSE => {
                if self.dense.len() <= place {
                    self.dense.resize(place + 1, u32::MAX);
                }
                self.dense[place] = index;
            }
            _ => {
                self.sparse.insert(id, index);
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn event_index(&self, id: u64) -> Option<usize> {
        match usize::try_from(id).ok().and_then(|place| self.dense.get(place)) {
            Some(&index) => (index != u32::MAX).then_some(index as usize),
            None => self.sparse.get(&id).copied(),
        }
    }
}

impl EventPlan {
    fn new(stream: &StreamClass, event: &EventClass, registers: &Registers) -> Checked<EventPlan> {
        let (common, specific) = (stream.common_context.as_ref(), event.specific_context.as_ref());
        let static_ends = static_values(common).zip(static_values(specific)).map(|(c, s)| [c, s]);
        let mut compiler = Compiler::new(registers, false);
        compiler.scope(Scope::CommonContext, common)?;
        if static_ends.is_none() {
            compiler.end_scope(1);
        }
        compiler.scope(Scope::SpecificContext, specific)?;
        if static_ends.is_none() {
            compiler.end_scope(2);
        }
        compiler.scope(Scope::Payload, event.payload.as_ref())?;
        Ok(EventPlan { body: compiler.finish().into(), static_ends })
    }
}

/// A clock must run, and its zero must be a time that nanoseconds since its origin can tell.
fn check_clock(clock: &ClockClass) -> Checked<()> {
    if clock.frequency == 0 {
        return fault(MetadataFault::BadValue("clock frequency: it must not be 0"));
    }
    if i64::try_from(clock.to_nanos(0)).is_err() {
        return fault(MetadataFault::Unsupported("clock offset of more than 2^63 nanoseconds (292 years)"));
    }
    Ok(())
}

/// Whether a direct member has the role.
fn has_role(class: Option<&StructClass>, role: Roles) -> bool {
    class.is_some_and(|class| {
        class.members.iter().any(|m| match &m.class {
            FieldClass::Int(int) => int.roles.contains(role),
            FieldClass::Enum(class) => class.int.roles.contains(role),
            _ => false,
        })
    })
}

/// Gives every target of a reference a register; sorted by scope, so those of packets come first.
fn collect_registers(trace: &TraceClass) -> Built<Registers> {
    let mut registers = Registers::new();
    let mut scopes: Scopes<'_> = [trace.packet_header.as_ref(), None, None, None, None, None];
    collect(&scopes, Part::Trace, &[Scope::PacketHeader], &mut registers)?;
    for (index, stream) in trace.streams.iter().enumerate() {
        scopes[1] = stream.packet_context.as_ref();
        scopes[2] = stream.event_header.as_ref();
        scopes[3] = stream.common_context.as_ref();
        scopes[4] = None;
        scopes[5] = None;
        let of_stream = [Scope::PacketContext, Scope::EventHeader, Scope::CommonContext];
        collect(&scopes, Part::Stream(index), &of_stream, &mut registers)?;
        for (number, event) in stream.events.iter().enumerate() {
            scopes[4] = event.specific_context.as_ref();
            scopes[5] = event.payload.as_ref();
            let of_event = [Scope::SpecificContext, Scope::Payload];
            collect(&scopes, Part::Event(index, number), &of_event, &mut registers)?;
        }
    }
    for (number, register) in registers.values_mut().enumerate() {
        *register = u16::try_from(number).map_err(|_| (MetadataFault::TooBig, Part::Trace))?;
    }
    Ok(registers)
}

fn collect(scopes: &Scopes<'_>, part: Part, of: &[Scope], registers: &mut Registers) -> Built<()> {
    of.iter().try_for_each(|scope| {
        let found = |target: &FieldRef| {
            if !registers.contains_key(target) {
                registers.insert(target.clone(), 0);
            }
        };
        check::scope(scopes, *scope, found).map_err(|wrong| (wrong.kind, part))
    })
}

//! A checked trace class with the programs that decode it.

use crate::decode::compile::{Compiler, Registers, fault, static_values};
use crate::decode::program::{Body, Program};
use crate::error::{MetadataError, MetadataFault};
use crate::model::{
    EventClass, FieldClass, FieldRef, Length, Roles, Scope, StreamClass, StructClass, TraceClass,
};
use std::collections::HashMap;

/// Event ids below this are looked up in a table.
const DENSE: u64 = 1 << 16;

/// A trace class, checked and compiled for decoding. Immutable; share it between cursors and threads.
#[derive(Debug)]
pub struct Schema {
    trace: TraceClass,
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

type Checked<T> = Result<T, MetadataError>;

impl Schema {
    /// Parses and compiles metadata of either version.
    ///
    /// # Errors
    /// Metadata that breaks its grammar, refers to unknown things, or nests too deep.
    pub fn parse(metadata: &[u8]) -> Result<Schema, MetadataError> {
        Schema::new(crate::read::metadata(metadata)?)
    }

    /// Compiles a trace class.
    ///
    /// # Errors
    /// Sizes, alignments or references that cannot be.
    pub fn new(trace: TraceClass) -> Result<Schema, MetadataError> {
        if trace.clocks.iter().any(|clock| clock.frequency == 0) {
            return fault(MetadataFault::BadValue("clock frequency: it must not be 0"));
        }
        let registers = collect_registers(&trace)?;
        let mut header = Compiler::new(&registers, false);
        header.scope(Scope::PacketHeader, trace.packet_header.as_ref())?;
        let packet_header = header.finish();
        let mut by_id = HashMap::new();
        let mut streams = Vec::with_capacity(trace.streams.len());
        for (index, stream) in trace.streams.iter().enumerate() {
            if by_id.insert(stream.id, index).is_some() {
                return fault(MetadataFault::Duplicate("stream class"));
            }
            streams.push(StreamPlan::new(&trace, stream, &registers)?);
        }
        let default_stream = if let [only] = &trace.streams[..] { only.id } else { 0 };
        let packet_registers = registers.keys().filter(|r| r.scope <= Scope::PacketContext).count();
        let registers = registers.len();
        Ok(Schema { trace, packet_header, streams, by_id, default_stream, registers, packet_registers })
    }

    /// The trace class.
    #[must_use]
    pub fn trace(&self) -> &TraceClass {
        &self.trace
    }

    pub(crate) fn stream_index(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }
}

impl StreamPlan {
    fn new(trace: &TraceClass, stream: &StreamClass, registers: &Registers) -> Checked<StreamPlan> {
        if stream.clock.is_some_and(|clock| clock >= trace.clocks.len()) {
            return fault(MetadataFault::Unknown("clock class"));
        }
        let has_clock = stream.clock.is_some();
        let mut context = Compiler::new(registers, has_clock);
        context.scope(Scope::PacketContext, stream.packet_context.as_ref())?;
        let mut header = Compiler::new(registers, has_clock);
        header.scope(Scope::EventHeader, stream.event_header.as_ref())?;
        let mut plan = StreamPlan {
            packet_context: context.finish(),
            event_header: header.finish().into(),
            events: Vec::with_capacity(stream.events.len()),
            has_begin: has_clock && has_role(stream.packet_context.as_ref(), Roles::TIMESTAMP),
            default_event: if let [only] = &stream.events[..] { only.id } else { 0 },
            dense: Vec::new(),
            sparse: HashMap::new(),
        };
        for (index, event) in stream.events.iter().enumerate() {
            plan.add_id(event.id, index)?;
            plan.events.push(EventPlan::new(stream, event, registers)?);
        }
        Ok(plan)
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

/// The structures that a reference may point into, by scope.
type Context<'a> = [Option<&'a StructClass>; 6];

/// Gives every target of a reference a register; sorted by scope, so those of packets come first.
fn collect_registers(trace: &TraceClass) -> Checked<Registers> {
    let mut registers = Registers::new();
    let mut context: Context<'_> = [trace.packet_header.as_ref(), None, None, None, None, None];
    collect(&context, Scope::PacketHeader, &mut registers)?;
    for stream in &trace.streams {
        context[1] = stream.packet_context.as_ref();
        context[2] = stream.event_header.as_ref();
        context[3] = stream.common_context.as_ref();
        context[4] = None;
        context[5] = None;
        for scope in [Scope::PacketContext, Scope::EventHeader, Scope::CommonContext] {
            collect(&context, scope, &mut registers)?;
        }
        for event in &stream.events {
            context[4] = event.specific_context.as_ref();
            context[5] = event.payload.as_ref();
            collect(&context, Scope::SpecificContext, &mut registers)?;
            collect(&context, Scope::Payload, &mut registers)?;
        }
    }
    for (number, register) in registers.values_mut().enumerate() {
        *register = u16::try_from(number).map_err(|_| MetadataError::nowhere(MetadataFault::TooBig))?;
    }
    Ok(registers)
}

fn collect(context: &Context<'_>, scope: Scope, registers: &mut Registers) -> Checked<()> {
    let Some(class) = context[scope as usize] else { return Ok(()) };
    let mut targets = Vec::new();
    for member in &class.members {
        references(&member.class, 0, &mut targets)?;
    }
    for target in targets {
        if registers.contains_key(target) {
            continue;
        }
        let root = context[target.scope as usize];
        if !root.is_some_and(|root| names_integer(root, &target.path)) {
            return fault(MetadataFault::Unknown("length or selector field"));
        }
        registers.insert(target.clone(), 0);
    }
    Ok(())
}

/// All references inside a field class.
fn references<'a>(class: &'a FieldClass, depth: u32, found: &mut Vec<&'a FieldRef>) -> Checked<()> {
    if depth > crate::error::MAX_DEPTH {
        return fault(MetadataFault::TooDeep);
    }
    let mut length = |length: &'a Length| {
        if let Length::Dynamic(target) = length {
            found.push(target);
        }
    };
    match class {
        FieldClass::Text(c) => length(&c.length),
        FieldClass::Blob(c) => length(&c.length),
        FieldClass::Array(c) => {
            length(&c.length);
            references(&c.element, depth + 1, found)?;
        }
        FieldClass::Struct(c) => c.members.iter().try_for_each(|m| references(&m.class, depth + 1, found))?,
        FieldClass::Variant(c) => {
            found.push(&c.selector);
            c.options.iter().try_for_each(|o| references(&o.class, depth + 1, found))?;
        }
        FieldClass::Optional(c) => {
            found.push(&c.selector);
            references(&c.class, depth + 1, found)?;
        }
        _ => {}
    }
    Ok(())
}

/// Whether `path` leads to an integer, enumeration or truth value.
pub(crate) fn names_integer(class: &StructClass, path: &[String]) -> bool {
    let Some((name, rest)) = path.split_first() else { return false };
    class.member(name).is_some_and(|class| leads_to_integer(class, rest))
}

fn leads_to_integer(class: &FieldClass, path: &[String]) -> bool {
    match class {
        FieldClass::Int(_) | FieldClass::Enum(_) | FieldClass::Bool(_) => path.is_empty(),
        FieldClass::Struct(c) => names_integer(c, path),
        FieldClass::Array(c) if !path.is_empty() => leads_to_integer(&c.element, path),
        FieldClass::Optional(c) => leads_to_integer(&c.class, path),
        FieldClass::Variant(c) => c.options.iter().any(|o| leads_to_integer(&o.class, path)),
        _ => false,
    }
}

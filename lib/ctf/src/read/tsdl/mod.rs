//! TSDL, the metadata language of CTF 1.8: hand-written, one pass, types resolved as they are read.
//!
//! [`lexer`] makes tokens, [`parser`] holds the state, [`types`] reads type specifiers, [`values`] the values of
//! attributes, this file reads the blocks (`trace`, `stream`...), [`assemble`] puts them together, [`resolve`]
//! finds the targets of references.

mod assemble;
mod lexer;
mod parser;
mod resolve;
mod types;
mod values;

use super::{Metadata, roles};
use crate::error::{MetadataError, MetadataFault, Oddity};
use crate::model::{
    ClockClass, EnvValue, EventClass, LogLevel, Origin, StreamClass, StructClass, TraceClass,
};
use lexer::Token;
use parser::{Parsed, Parser, TypeScope, Value};
use std::collections::HashSet;

/// Everything read so far.
struct Reader<'t> {
    parser: Parser<'t>,
    trace: TraceClass,
    /// Where the `trace` block is.
    trace_at: usize,
    /// Clocks by the parser's index of their name, with their places.
    clocks: Vec<Option<(ClockClass, usize)>>,
    streams: Vec<StreamBlock>,
    events: Vec<EventBlock>,
}

/// A `stream` block.
struct StreamBlock {
    class: StreamClass,
    at: usize,
    has_id: bool,
}

/// An `event` block.
struct EventBlock {
    class: EventClass,
    at: usize,
    has_id: bool,
    /// Number of its stream class, where the block tells.
    stream: Option<u64>,
}

/// Parses the text of CTF 1.8 metadata.
pub(super) fn parse(text: &str) -> Result<Metadata, MetadataError> {
    let parser = Parser::new(text)?;
    let trace = TraceClass { byte_order: parser.order, ..TraceClass::default() };
    let mut reader =
        Reader { parser, trace, trace_at: 0, clocks: Vec::new(), streams: Vec::new(), events: Vec::new() };
    reader.blocks()?;
    reader.finish()
}

/// The right side of an assignment.
enum Assigned {
    Value(Value),
    Type(StructClass),
}

/// Whether an assignment means something.
enum Meaning {
    Known,
    Unknown,
}

impl Reader<'_> {
    fn blocks(&mut self) -> Parsed<()> {
        let mut traces = 0;
        loop {
            if self.parser.take(";") {
                continue;
            }
            let block = match self.parser.peek() {
                Token::End => break,
                _ if self.parser.at_declaration() => {
                    self.parser.declaration()?;
                    continue;
                }
                _ => self.parser.peek_ident().unwrap_or(""),
            };
            match block {
                "trace" if traces > 0 => return self.parser.fault(MetadataFault::Duplicate("trace block")),
                "trace" => {
                    traces += 1;
                    self.trace()?;
                }
                "stream" => self.stream()?,
                "event" => self.event()?,
                "clock" => self.clock()?,
                "env" => drop(self.block("an environment", Reader::environment)?),
                "callsite" => drop(self.block("a call site", |_, _, _| Ok(Meaning::Known))?),
                _ if traces == 0 => return self.parser.fault(MetadataFault::NotMetadata),
                _ => {
                    return self
                        .parser
                        .fault(MetadataFault::Expected("trace, stream, event, clock, env or callsite"));
                }
            }
        }
        if traces == 0 { self.parser.fault(MetadataFault::Expected("a trace block")) } else { Ok(()) }
    }

    /// `word { name = value; scope := type; ... }`: gives each assignment to `each`; returns their names.
    ///
    /// `kind` names the block. An attribute without a meaning is odd; a type without one is refused: something
    /// in packets or events would have it.
    fn block(
        &mut self,
        kind: &'static str,
        mut each: impl FnMut(&mut Self, &str, Assigned) -> Parsed<Meaning>,
    ) -> Parsed<HashSet<String>> {
        self.parser.skip();
        self.parser.expect("{")?;
        self.parser.scopes.push(TypeScope::default());
        let mut names = HashSet::new();
        while !self.parser.take("}") {
            if self.parser.take(";") {
                continue;
            }
            if self.parser.at_declaration() {
                self.parser.declaration()?;
                continue;
            }
            let at = self.parser.here();
            let name = self.parser.path()?.join(".");
            let assigned = if self.parser.take(":=") {
                Assigned::Type(self.parser.scope_type()?)
            } else {
                self.parser.expect("=")?;
                Assigned::Value(self.parser.value()?)
            };
            let is_type = matches!(assigned, Assigned::Type(_));
            match each(self, &name, assigned)? {
                Meaning::Known if names.contains(&name) => {
                    return self.parser.fault_at(at, MetadataFault::Duplicate("attribute"));
                }
                Meaning::Unknown if is_type => {
                    return self.parser.fault_at(at, MetadataFault::UnknownProperty(kind));
                }
                Meaning::Unknown => self.parser.oddities.note(at, Oddity::UnknownAttribute(kind)),
                Meaning::Known => {}
            }
            names.insert(name);
            self.parser.expect(";")?;
        }
        self.parser.scopes.pop();
        Ok(names)
    }

    fn trace(&mut self) -> Parsed<()> {
        self.trace_at = self.parser.here();
        let names = self.block("a trace", Reader::trace_attribute)?;
        for name in ["major", "minor", "byte_order"] {
            if !names.contains(name) {
                return self.parser.fault_at(self.trace_at, MetadataFault::Missing(name));
            }
        }
        Ok(())
    }

    fn trace_attribute(&mut self, name: &str, assigned: Assigned) -> Parsed<Meaning> {
        let parser = &self.parser;
        match (name, assigned) {
            ("major", Assigned::Value(v)) => {
                if parser.number::<i128>(v)? != 1 {
                    return parser
                        .fault_before(MetadataFault::Unsupported("CTF version other than 1.8 in TSDL"));
                }
            }
            ("minor", Assigned::Value(v)) => {
                if parser.number::<i128>(v)? != 8 {
                    return parser
                        .fault_before(MetadataFault::Unsupported("CTF version other than 1.8 in TSDL"));
                }
            }
            ("uuid", Assigned::Value(v)) => {
                let uuid = roles::parse_uuid(&parser.word(v)?);
                let bad = || parser.fault_before(MetadataFault::BadValue("uuid"));
                self.trace.uuid = Some(uuid.map_or_else(bad, Ok)?);
            }
            ("byte_order", Assigned::Value(v)) => {
                let word = parser.word(v)?;
                if word == "native" {
                    return parser
                        .fault_before(MetadataFault::BadValue("byte_order: a trace cannot be native"));
                }
                self.trace.byte_order = parser.byte_order(Value::Str(word))?;
            }
            ("packet.header", Assigned::Type(class)) => self.trace.packet_header = Some(class),
            _ => return Ok(Meaning::Unknown),
        }
        Ok(Meaning::Known)
    }

    fn environment(&mut self, name: &str, assigned: Assigned) -> Parsed<Meaning> {
        let value = match assigned {
            Assigned::Value(Value::Int(value)) => EnvValue::Int(self.parser.narrow(value)?),
            Assigned::Value(value) => EnvValue::Str(self.parser.word(value)?),
            Assigned::Type(_) => return self.parser.fault_before(MetadataFault::Expected("=")),
        };
        if self.trace.env(name).is_some() {
            return self.parser.fault_before(MetadataFault::Duplicate("environment entry"));
        }
        self.trace.environment.push((name.to_owned(), value));
        Ok(Meaning::Known)
    }

    fn stream(&mut self) -> Parsed<()> {
        let at = self.parser.here();
        let mut class = StreamClass::default();
        let names = self.block("a stream", |reader, name, assigned| {
            match (name, assigned) {
                ("id", Assigned::Value(v)) => class.id = reader.parser.number(v)?,
                ("packet.context", Assigned::Type(scope)) => class.packet_context = Some(scope),
                ("event.header", Assigned::Type(scope)) => class.event_header = Some(scope),
                ("event.context", Assigned::Type(scope)) => class.common_context = Some(scope),
                _ => return Ok(Meaning::Unknown),
            }
            Ok(Meaning::Known)
        })?;
        self.streams.push(StreamBlock { class, at, has_id: names.contains("id") });
        Ok(())
    }

    fn event(&mut self) -> Parsed<()> {
        let at = self.parser.here();
        let mut class = EventClass::default();
        let mut stream = None;
        let names = self.block("an event", |reader, name, assigned| {
            match (name, assigned) {
                ("id", Assigned::Value(v)) => class.id = reader.parser.number(v)?,
                ("stream_id", Assigned::Value(v)) => stream = Some(reader.parser.number(v)?),
                ("name", Assigned::Value(v)) => class.name = reader.parser.word(v)?,
                ("loglevel", Assigned::Value(v)) => {
                    class.log_level = Some(LogLevel(reader.parser.number(v)?))
                }
                ("model.emf.uri", Assigned::Value(v)) => class.emf_uri = Some(reader.parser.word(v)?),
                ("context", Assigned::Type(scope)) => class.specific_context = Some(scope),
                ("fields", Assigned::Type(scope)) => class.payload = Some(scope),
                _ => return Ok(Meaning::Unknown),
            }
            Ok(Meaning::Known)
        })?;
        self.events.push(EventBlock { class, at, has_id: names.contains("id"), stream });
        Ok(())
    }

    fn clock(&mut self) -> Parsed<()> {
        let at = self.parser.here();
        let mut clock = ClockClass { origin: Origin::Unknown, name: String::new(), ..ClockClass::default() };
        let mut offset: i128 = 0;
        self.block("a clock", |reader, name, assigned| {
            let Assigned::Value(v) = assigned else {
                return reader.parser.fault_before(MetadataFault::Expected("="));
            };
            let parser = &reader.parser;
            match name {
                "name" => clock.name = parser.word(v)?,
                "uuid" => clock.uid = Some(parser.word(v)?),
                "description" => clock.description = Some(parser.word(v)?),
                "freq" => {
                    clock.frequency = parser.number(v)?;
                    if clock.frequency == 0 {
                        return parser
                            .fault_before(MetadataFault::BadValue("clock frequency: it must not be 0"));
                    }
                }
                "precision" => clock.precision = Some(parser.number(v)?),
                "offset_s" => clock.offset_seconds = parser.number(v)?,
                "offset" => offset = parser.number(v)?,
                "absolute" => {
                    if parser.truth(v)? {
                        clock.origin = Origin::UnixEpoch;
                    }
                }
                _ => return Ok(Meaning::Unknown),
            }
            Ok(Meaning::Known)
        })?;
        self.set_offset(&mut clock, offset, at)?;
        let index = self.parser.clock_index(&clock.name, at);
        if self.clocks.len() <= index {
            self.clocks.resize(index + 1, None);
        }
        if self.clocks[index].replace((clock, at)).is_some() {
            return self.parser.fault_at(at, MetadataFault::Duplicate("clock"));
        }
        Ok(())
    }

    /// Sets the offset in cycles; of a negative one whole seconds go to the others.
    fn set_offset(&self, clock: &mut ClockClass, offset: i128, at: usize) -> Parsed<()> {
        let (mut seconds, mut cycles) = (i128::from(clock.offset_seconds), offset);
        if offset < 0 {
            seconds += offset.div_euclid(clock.frequency.into());
            cycles = offset.rem_euclid(clock.frequency.into());
        }
        match (i64::try_from(seconds), u64::try_from(cycles)) {
            (Ok(seconds), Ok(cycles)) => (clock.offset_seconds, clock.offset_cycles) = (seconds, cycles),
            _ => return self.parser.fault_at(at, MetadataFault::BadValue("clock offset: it is too large")),
        }
        Ok(())
    }
}

//! TSDL, the metadata language of CTF 1.8: hand-written, one pass, types resolved as they are read.
//!
//! [`lexer`] makes tokens, [`parser`] holds the state, [`types`] reads type specifiers, this file reads the
//! blocks (`trace`, `stream`...), [`resolve`] finds the targets of references when all blocks are there.

mod lexer;
mod parser;
mod resolve;
mod types;

use super::roles;
use crate::error::{MetadataError, MetadataFault};
use crate::model::{
    ClockClass, EnvValue, EventClass, LogLevel, Origin, StreamClass, StructClass, TraceClass,
};
use lexer::Token;
use parser::{Parsed, Parser, TypeScope, Value};

/// Everything read so far.
struct Reader<'t> {
    parser: Parser<'t>,
    trace: TraceClass,
    /// Clocks by the parser's index of their name.
    clocks: Vec<Option<ClockClass>>,
    /// Event classes with their stream's number.
    events: Vec<(u64, EventClass)>,
}

/// Parses the text of CTF 1.8 metadata.
pub(super) fn parse(text: &str) -> Result<TraceClass, MetadataError> {
    let parser = Parser::new(text)?;
    let trace = TraceClass { byte_order: parser.order, ..TraceClass::default() };
    let mut reader = Reader { parser, trace, clocks: Vec::new(), events: Vec::new() };
    reader.blocks()?;
    reader.finish()
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
                "trace" => {
                    traces += 1;
                    self.block(Reader::trace)?;
                }
                "stream" => self.stream()?,
                "event" => self.event()?,
                "clock" => self.clock()?,
                "env" => self.block(Reader::environment)?,
                "callsite" => self.block(|_, _, _| Ok(()))?,
                _ if traces == 0 => return self.parser.fault(MetadataFault::NotMetadata),
                _ => {
                    return self
                        .parser
                        .fault(MetadataFault::Expected("trace, stream, event, clock, env or callsite"));
                }
            }
        }
        match traces {
            1 => Ok(()),
            0 => self.parser.fault(MetadataFault::Expected("a trace block")),
            _ => self.parser.fault(MetadataFault::Duplicate("trace block")),
        }
    }

    /// `word { name = value; scope := type; ... }`: gives each assignment to `each`.
    fn block(&mut self, mut each: impl FnMut(&mut Self, &str, Assigned) -> Parsed<()>) -> Parsed<()> {
        self.parser.skip();
        self.parser.expect("{")?;
        self.parser.scopes.push(TypeScope::default());
        while !self.parser.take("}") {
            if self.parser.take(";") {
                continue;
            }
            if self.parser.at_declaration() {
                self.parser.declaration()?;
                continue;
            }
            let name = self.parser.path()?.join(".");
            let assigned = if self.parser.take(":=") {
                Assigned::Type(self.parser.scope_type()?)
            } else {
                self.parser.expect("=")?;
                Assigned::Value(self.parser.value()?)
            };
            each(self, &name, assigned)?;
            self.parser.expect(";")?;
        }
        self.parser.scopes.pop();
        Ok(())
    }

    fn trace(&mut self, name: &str, assigned: Assigned) -> Parsed<()> {
        match (name, assigned) {
            ("major", Assigned::Value(v)) => match self.parser.number::<u64>(v)? {
                1 => Ok(()),
                _ => self.parser.fault_before(MetadataFault::Unsupported("CTF version other than 1 in TSDL")),
            },
            ("uuid", Assigned::Value(v)) => {
                let text = self.parser.word(v)?;
                self.trace.uuid = Some(self.uuid(&text)?);
                Ok(())
            }
            ("byte_order", Assigned::Value(v)) => {
                self.trace.byte_order = self.parser.byte_order(v)?;
                Ok(())
            }
            ("packet.header", Assigned::Type(class)) => {
                self.trace.packet_header = Some(class);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn uuid(&self, text: &str) -> Parsed<[u8; 16]> {
        let bad = || self.parser.fault_before(MetadataFault::BadValue("uuid"));
        roles::parse_uuid(text).map_or_else(bad, Ok)
    }

    fn environment(&mut self, name: &str, assigned: Assigned) -> Parsed<()> {
        let value = match assigned {
            Assigned::Value(Value::Int(value)) => EnvValue::Int(self.parser.narrow(value)?),
            Assigned::Value(value) => EnvValue::Str(self.parser.word(value)?),
            Assigned::Type(_) => return self.parser.fault_before(MetadataFault::Expected("=")),
        };
        self.trace.environment.push((name.to_owned(), value));
        Ok(())
    }

    fn stream(&mut self) -> Parsed<()> {
        let mut stream = StreamClass::default();
        self.block(|reader, name, assigned| {
            match (name, assigned) {
                ("id", Assigned::Value(v)) => stream.id = reader.parser.number(v)?,
                ("packet.context", Assigned::Type(class)) => stream.packet_context = Some(class),
                ("event.header", Assigned::Type(class)) => stream.event_header = Some(class),
                ("event.context", Assigned::Type(class)) => stream.common_context = Some(class),
                _ => {}
            }
            Ok(())
        })?;
        if self.trace.streams.iter().any(|s| s.id == stream.id) {
            return self.parser.fault_before(MetadataFault::Duplicate("stream"));
        }
        self.trace.streams.push(stream);
        Ok(())
    }

    fn event(&mut self) -> Parsed<()> {
        let mut event = EventClass::default();
        let mut stream = 0;
        self.block(|reader, name, assigned| {
            match (name, assigned) {
                ("id", Assigned::Value(v)) => event.id = reader.parser.number(v)?,
                ("stream_id", Assigned::Value(v)) => stream = reader.parser.number(v)?,
                ("name", Assigned::Value(v)) => event.name = reader.parser.word(v)?,
                ("loglevel", Assigned::Value(v)) => {
                    event.log_level = Some(LogLevel(reader.parser.number(v)?))
                }
                ("model.emf.uri", Assigned::Value(v)) => event.emf_uri = Some(reader.parser.word(v)?),
                ("context", Assigned::Type(class)) => event.specific_context = Some(class),
                ("fields", Assigned::Type(class)) => event.payload = Some(class),
                _ => {}
            }
            Ok(())
        })?;
        self.events.push((stream, event));
        Ok(())
    }

    fn clock(&mut self) -> Parsed<()> {
        let mut clock = ClockClass { origin: Origin::Unknown, name: String::new(), ..ClockClass::default() };
        self.block(|reader, name, assigned| {
            let Assigned::Value(v) = assigned else {
                return reader.parser.fault_before(MetadataFault::Expected("="));
            };
            let parser = &reader.parser;
            match name {
                "name" => clock.name = parser.word(v)?,
                "uuid" => clock.uid = Some(parser.word(v)?),
                "description" => clock.description = Some(parser.word(v)?),
                "freq" => clock.frequency = parser.number(v)?,
                "precision" => clock.precision = Some(parser.number(v)?),
                "offset_s" => clock.offset_seconds = parser.number(v)?,
                "offset" => {
                    let offset: i128 = parser.number(v)?;
                    clock.offset_cycles = parser.narrow(offset)?;
                }
                "absolute" if parser.truth(v)? => clock.origin = Origin::UnixEpoch,
                _ => {}
            }
            Ok(())
        })?;
        if clock.frequency == 0 {
            return self.parser.fault_before(MetadataFault::BadValue("clock frequency: it must not be 0"));
        }
        let index = self.parser.clock_index(&clock.name);
        if self.clocks.len() <= index {
            self.clocks.resize(index + 1, None);
        }
        if self.clocks[index].replace(clock).is_some() {
            return self.parser.fault_before(MetadataFault::Duplicate("clock"));
        }
        Ok(())
    }

    /// Puts the parts together: clocks in order, events into streams, references to their targets.
    fn finish(mut self) -> Result<TraceClass, MetadataError> {
        self.clocks.resize(self.parser.clocks.len(), None);
        let clocks: Option<Vec<ClockClass>> = self.clocks.into_iter().collect();
        let mut trace = self.trace;
        trace.clocks =
            clocks.ok_or(MetadataError::nowhere(MetadataFault::Unknown("clock of an integer's `map`")))?;
        if trace.env_str("tracer_name").is_some_and(|name| name.starts_with("lttng")) {
            // LTTng's clocks say nothing and count from 1970.
            trace.clocks.iter_mut().for_each(|clock| clock.origin = Origin::UnixEpoch);
        }
        if trace.streams.is_empty() {
            trace.streams.push(StreamClass::default());
        }
        let places: std::collections::HashMap<u64, usize> =
            trace.streams.iter().enumerate().map(|(index, stream)| (stream.id, index)).collect();
        for (stream, event) in self.events {
            let place = places.get(&stream).and_then(|index| trace.streams.get_mut(*index));
            place
                .ok_or(MetadataError::nowhere(MetadataFault::Unknown("stream of an event")))?
                .events
                .push(event);
        }
        resolve::resolve(&mut trace)?;
        roles::infer(&mut trace);
        Ok(trace)
    }
}

/// The right side of an assignment.
enum Assigned {
    Value(Value),
    Type(StructClass),
}

//! CTF 2 metadata: a sequence of JSON objects, "fragments" (CTF2-SPEC-2.0 section 5).
//!
//! This file reads fragments; [`classes`] reads the field classes in them. Record separators (RFC 7464)
//! between fragments are allowed and not needed: LTTng writes none.

pub(crate) mod classes;

use super::{place, roles};
use crate::error::{MetadataError, MetadataFault};
use crate::model::{
    ByteOrder, ClockClass, EnvValue, EventClass, FieldClass, LogLevel, Origin, Scope, StreamClass,
    StructClass, TraceClass,
};
use classes::ClassReader;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// What may stand before a fragment.
pub(crate) const RECORD_SEPARATOR: u8 = 0x1e;

type Object = Map<String, Value>;
/// Faults get their place where the fragment's offset is known.
type Parsed<T> = Result<T, MetadataFault>;

/// Everything read so far.
#[derive(Default)]
struct Reader {
    trace: TraceClass,
    has_preamble: bool,
    has_trace: bool,
    has_order: bool,
    clock_ids: Vec<String>,
    stream_places: HashMap<u64, usize>,
    classes: ClassReader,
}

/// Parses CTF 2 metadata.
pub(super) fn parse(text: &str) -> Result<TraceClass, MetadataError> {
    let separated = text.replace(char::from(RECORD_SEPARATOR), " ");
    let mut reader = Reader::default();
    let mut fragments = serde_json::Deserializer::from_str(&separated).into_iter::<Value>();
    loop {
        let at = fragments.byte_offset();
        match fragments.next() {
            None => break,
            Some(Ok(Value::Object(fragment))) => {
                let start = at + separated.get(at..).map_or(0, |rest| rest.len() - rest.trim_start().len());
                reader.fragment(&fragment).map_err(|fault| place(text, start, fault))?;
            }
            Some(Ok(_)) => return Err(place(text, at, MetadataFault::Expected("a JSON object"))),
            Some(Err(error)) => return Err(json_fault(&error)),
        }
    }
    if !reader.has_preamble {
        return Err(MetadataError::nowhere(MetadataFault::Missing("preamble")));
    }
    Ok(reader.trace)
}

fn json_fault(error: &serde_json::Error) -> MetadataError {
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let kind = if error.is_eof() { "the rest of a JSON object" } else { "JSON" };
    MetadataError {
        kind: MetadataFault::Expected(kind),
        line: narrow(error.line()),
        column: narrow(error.column()),
    }
}

impl Reader {
    fn fragment(&mut self, fragment: &Object) -> Parsed<()> {
        let kind = text(fragment, "type")?.ok_or(MetadataFault::Missing("type"))?;
        if !self.has_preamble && kind != "preamble" {
            return Err(MetadataFault::Expected("a preamble as the first fragment"));
        }
        match kind.as_str() {
            "preamble" => self.preamble(fragment),
            "field-class-alias" => self.classes.add_alias(fragment),
            "trace-class" => self.trace_class(fragment),
            "clock-class" => self.clock_class(fragment),
            "data-stream-class" => self.stream_class(fragment),
            "event-record-class" => self.event_class(fragment),
            _ => Err(MetadataFault::Unknown("fragment type")),
        }
    }

    fn preamble(&mut self, fragment: &Object) -> Parsed<()> {
        if std::mem::replace(&mut self.has_preamble, true) {
            return Err(MetadataFault::Duplicate("preamble"));
        }
        if number::<u64>(fragment, "version")? != Some(2) {
            return Err(MetadataFault::Unsupported("CTF version other than 2 in JSON"));
        }
        // A declared extension may change the format: none is known here (section 5.4).
        if fragment.get("extensions").and_then(Value::as_object).is_some_and(|e| !e.is_empty()) {
            return Err(MetadataFault::Unsupported("declared extensions"));
        }
        self.trace.uuid = fragment.get("uuid").map(uuid).transpose()?;
        Ok(())
    }

    fn trace_class(&mut self, fragment: &Object) -> Parsed<()> {
        if std::mem::replace(&mut self.has_trace, true) {
            return Err(MetadataFault::Duplicate("trace class"));
        }
        self.trace.namespace = text(fragment, "namespace")?;
        self.trace.name = text(fragment, "name")?;
        self.trace.uid = text(fragment, "uid")?;
        for (name, value) in fragment.get("environment").and_then(Value::as_object).into_iter().flatten() {
            let value = match value {
                Value::String(text) => EnvValue::Str(text.clone()),
                value => EnvValue::Int(value.as_i64().ok_or(MetadataFault::BadValue("environment entry"))?),
            };
            self.trace.environment.push((name.clone(), value));
        }
        self.classes.clock = None;
        self.trace.packet_header =
            self.classes.scope(fragment, "packet-header-field-class", Scope::PacketHeader)?;
        self.trace.attributes = attributes(fragment, &[]);
        self.note_byte_order(self.trace.packet_header.as_ref().and_then(byte_order));
        Ok(())
    }

    /// CTF 2 has no native byte order: the first integer's is what a CTF 1.8 writer would call so.
    fn note_byte_order(&mut self, order: Option<ByteOrder>) {
        if let Some(order) = order.filter(|_| !self.has_order) {
            self.trace.byte_order = order;
            self.has_order = true;
        }
    }

    fn clock_class(&mut self, fragment: &Object) -> Parsed<()> {
        let id = text(fragment, "id")?.ok_or(MetadataFault::Missing("id"))?;
        if self.clock_ids.contains(&id) {
            return Err(MetadataFault::Duplicate("clock class"));
        }
        let empty = Object::new();
        let offset = fragment.get("offset-from-origin").and_then(Value::as_object).unwrap_or(&empty);
        let clock = ClockClass {
            name: text(fragment, "name")?.unwrap_or_else(|| id.clone()),
            uid: text(fragment, "uid")?,
            namespace: text(fragment, "namespace")?,
            description: text(fragment, "description")?,
            frequency: number(fragment, "frequency")?.ok_or(MetadataFault::Missing("frequency"))?,
            precision: number(fragment, "precision")?,
            accuracy: number(fragment, "accuracy")?,
            offset_seconds: number(offset, "seconds")?.unwrap_or(0),
            offset_cycles: number(offset, "cycles")?.unwrap_or(0),
            origin: origin(fragment.get("origin"))?,
        };
        if clock.frequency == 0 {
            return Err(MetadataFault::BadValue("clock frequency: it must not be 0"));
        }
        self.clock_ids.push(id);
        self.trace.clocks.push(clock);
        Ok(())
    }

    fn stream_class(&mut self, fragment: &Object) -> Parsed<()> {
        let clock = match text(fragment, "default-clock-class-id")? {
            Some(id) => {
                let place = self.clock_ids.iter().position(|known| *known == id);
                Some(place.ok_or(MetadataFault::Unknown("clock class"))?)
            }
            None => None,
        };
        let id = number(fragment, "id")?.unwrap_or(0);
        self.classes.clock = clock;
        let stream = StreamClass {
            id,
            name: text(fragment, "name")?,
            namespace: text(fragment, "namespace")?,
            uid: text(fragment, "uid")?,
            clock,
            packet_context: self.classes.scope(
                fragment,
                "packet-context-field-class",
                Scope::PacketContext,
            )?,
            event_header: self.classes.scope(
                fragment,
                "event-record-header-field-class",
                Scope::EventHeader,
            )?,
            common_context: self.classes.scope(
                fragment,
                "event-record-common-context-field-class",
                Scope::CommonContext,
            )?,
            events: Vec::new(),
            attributes: attributes(fragment, &[]),
        };
        if self.stream_places.insert(id, self.trace.streams.len()).is_some() {
            return Err(MetadataFault::Duplicate("data stream class"));
        }
        self.note_byte_order(stream.event_header.as_ref().and_then(byte_order));
        self.trace.streams.push(stream);
        Ok(())
    }

    fn event_class(&mut self, fragment: &Object) -> Parsed<()> {
        let stream = number(fragment, "data-stream-class-id")?.unwrap_or(0);
        let place = self.stream_places.get(&stream).copied();
        self.classes.clock = None;
        let event = EventClass {
            id: number(fragment, "id")?.unwrap_or(0),
            name: text(fragment, "name")?.unwrap_or_default(),
            namespace: text(fragment, "namespace")?,
            uid: text(fragment, "uid")?,
            log_level: attribute(fragment, "log-level").and_then(log_level),
            emf_uri: attribute(fragment, "emf-uri").and_then(Value::as_str).map(str::to_owned),
            specific_context: self.classes.scope(
                fragment,
                "specific-context-field-class",
                Scope::SpecificContext,
            )?,
            payload: self.classes.scope(fragment, "payload-field-class", Scope::Payload)?,
            attributes: attributes(fragment, &["log-level", "emf-uri"]),
        };
        let stream = place.and_then(|place| self.trace.streams.get_mut(place));
        stream.ok_or(MetadataFault::Unknown("data stream class of an event"))?.events.push(event);
        Ok(())
    }
}

/// The byte order of the first integer member.
fn byte_order(class: &StructClass) -> Option<ByteOrder> {
    class.members.iter().find_map(|member| match &member.class {
        FieldClass::Int(int) => Some(int.byte_order),
        _ => None,
    })
}

/// The text property `name`.
fn text(object: &Object, name: &'static str) -> Parsed<Option<String>> {
    match object.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(MetadataFault::BadValue(name)),
    }
}

/// The integer property `name`.
fn number<T: TryFrom<i128>>(object: &Object, name: &'static str) -> Parsed<Option<T>> {
    object.get(name).map(|value| integer(value).ok_or(MetadataFault::BadValue(name))).transpose()
}

fn integer<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    let wide = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))?;
    T::try_from(wide).ok()
}

fn uuid(value: &Value) -> Parsed<[u8; 16]> {
    let bytes: Option<Vec<u8>> = match value {
        Value::Array(bytes) => bytes.iter().map(integer).collect(),
        Value::String(text) => roles::parse_uuid(text).map(|uuid| uuid.to_vec()),
        _ => None,
    };
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(MetadataFault::BadValue("uuid"))
}

fn origin(value: Option<&Value>) -> Parsed<Origin> {
    match value {
        None => Ok(Origin::Unknown),
        Some(Value::String(name)) if name == "unix-epoch" => Ok(Origin::UnixEpoch),
        Some(Value::Object(origin)) => Ok(Origin::Custom {
            namespace: text(origin, "namespace")?,
            name: text(origin, "name")?.ok_or(MetadataFault::Missing("name of a clock's origin"))?,
            uid: text(origin, "uid")?.ok_or(MetadataFault::Missing("uid of a clock's origin"))?,
        }),
        Some(_) => Err(MetadataFault::BadValue("origin")),
    }
}

/// Namespaces under which LTTng and babeltrace2 put the attributes that the model knows.
const NAMESPACES: [&str; 2] = ["lttng.org,2009", "babeltrace.org,2020"];

fn attribute<'a>(fragment: &'a Object, name: &str) -> Option<&'a Value> {
    let attributes = fragment.get("attributes")?;
    NAMESPACES.iter().find_map(|namespace| attributes.get(namespace)?.get(name))
}

fn log_level(value: &Value) -> Option<LogLevel> {
    match value {
        // babeltrace2 writes `debug-line` where LTTng writes `debug:line`.
        Value::String(name) => LogLevel::from_name(&name.replace('-', ":")),
        value => value.as_i64().map(LogLevel),
    }
}

/// The attributes that the model does not know, as JSON text.
fn attributes(fragment: &Object, known: &[&str]) -> Option<String> {
    let mut all = fragment.get("attributes")?.as_object()?.clone();
    for namespace in NAMESPACES {
        if let Some(Value::Object(own)) = all.get_mut(namespace) {
            own.retain(|name, _| !known.contains(&name.as_str()));
            if own.is_empty() {
                all.remove(namespace);
            }
        }
    }
    (!all.is_empty()).then(|| Value::Object(all).to_string())
}

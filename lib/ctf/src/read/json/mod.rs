//! CTF 2 metadata: a sequence of JSON objects, "fragments" (CTF2-SPEC-2.0 section 5).
//!
//! This file reads fragments; [`classes`] reads the field classes in them, [`tree`] the JSON. Record separators
//! (RFC 7464) between fragments are allowed and not needed: LTTng writes none.

mod attributes;
pub(crate) mod classes;
mod tree;

use super::{ClassPlaces, Metadata, Oddities, max_classes, place, roles};
use crate::error::{MetadataError, MetadataFault, Oddity};
use crate::model::{
    ByteOrder, ClockClass, EnvValue, EventClass, FieldClass, Origin, Scope, StreamClass, StructClass,
    TraceClass,
};
use attributes::{attribute, attributes, common, log_level};
use classes::ClassReader;
use serde::de::DeserializeSeed;
use std::collections::HashMap;
use tree::{Json, Node, Object, Parsed, Places, ValueSeed, fault};

/// What may stand before a fragment.
pub(crate) const RECORD_SEPARATOR: u8 = 0x1e;

/// Everything read so far.
#[derive(Default)]
struct Reader<'t> {
    trace: TraceClass,
    has_preamble: bool,
    has_trace: bool,
    has_order: bool,
    clock_ids: HashMap<String, usize>,
    stream_places: HashMap<u64, usize>,
    classes: ClassReader<'t>,
    oddities: Oddities,
    places: ClassPlaces,
}

/// Parses CTF 2 metadata.
pub(super) fn parse(text: &str) -> Result<Metadata, MetadataError> {
    let separated = text.replace(char::from(RECORD_SEPARATOR), " ");
    let mut reader = Reader::default();
    reader.classes.max_classes = max_classes(text.len());
    let places = Places::new(&separated);
    let mut rest = separated.as_str();
    loop {
        rest = rest.trim_start();
        let at = separated.len() - rest.len();
        if rest.is_empty() {
            break;
        }
        places.move_to(at);
        let mut json = serde_json::Deserializer::from_str(rest).into_iter::<serde::de::IgnoredAny>();
        let end = match json.next() {
            Some(Ok(_)) => json.byte_offset(),
            Some(Err(error)) => return Err(json_fault(text, at, &error)),
            None => break,
        };
        let mut json = serde_json::Deserializer::from_str(rest.get(..end).unwrap_or(rest));
        let node = ValueSeed(&places).deserialize(&mut json).map_err(|error| json_fault(text, at, &error))?;
        if let Some(at) = places.take_duplicate() {
            return Err(place(text, at, MetadataFault::Duplicate("property of an object")));
        }
        let Json::Object(fragment) = node.value else {
            return Err(place(text, at, MetadataFault::Expected("a JSON object")));
        };
        reader.fragment(&fragment).map_err(|fault| place(text, fault.at, fault.kind))?;
        rest = rest.get(end..).unwrap_or("");
    }
    if !reader.has_preamble {
        return Err(place(text, text.len(), MetadataFault::Missing("preamble")));
    }
    Ok(Metadata { trace: reader.trace, oddities: reader.oddities, places: reader.places })
}

/// The fault of a fragment at byte `at` that is no JSON.
fn json_fault(text: &str, at: usize, error: &serde_json::Error) -> MetadataError {
    let rest = text.get(at..).unwrap_or("");
    let lines = rest.split_inclusive('\n').take(error.line().saturating_sub(1));
    let line = at + lines.map(str::len).sum::<usize>();
    let kind = if error.is_eof() { "the rest of a JSON object" } else { "JSON" };
    place(text, (line + error.column().saturating_sub(1)).min(text.len()), MetadataFault::Expected(kind))
}

impl<'t> Reader<'t> {
    fn fragment(&mut self, fragment: &Object<'t>) -> Parsed<()> {
        let kind = fragment.needed("type")?;
        let name = kind.text().unwrap_or("");
        if !self.has_preamble && name != "preamble" {
            return fault(fragment.at, MetadataFault::Expected("a preamble as the first fragment"));
        }
        match name {
            "preamble" => self.preamble(fragment),
            "field-class-alias" => self.classes.add_alias(fragment),
            "trace-class" => self.trace_class(fragment),
            "clock-class" => self.clock_class(fragment),
            "data-stream-class" => self.stream_class(fragment),
            "event-record-class" => self.event_class(fragment),
            _ => kind.fault(MetadataFault::Unknown("fragment type")),
        }
    }

    fn preamble(&mut self, fragment: &Object<'t>) -> Parsed<()> {
        if std::mem::replace(&mut self.has_preamble, true) {
            return fault(fragment.at, MetadataFault::Duplicate("preamble"));
        }
        fragment.only("the preamble", &["type", "version", "uuid", "attributes", "extensions"])?;
        let version = fragment.needed("version")?;
        if version.integer::<u64>() != Some(2) {
            return version.fault(MetadataFault::Unsupported("CTF version other than 2 in JSON"));
        }
        common(fragment)?;
        if let Some(node) = fragment.get("uuid") {
            self.trace.uuid = Some(self.uuid(node)?);
        }
        Ok(())
    }

    /// A UUID: 16 integers, or the usual text.
    fn uuid(&mut self, node: &Node<'t>) -> Parsed<[u8; 16]> {
        let bytes =
            node.array().and_then(|bytes| bytes.iter().map(Node::integer).collect::<Option<Vec<u8>>>());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        let text = || node.text().and_then(roles::parse_uuid);
        let text = text().inspect(|_| self.oddities.note(node.at, Oddity::TextUuid));
        bytes.or(text).map_or_else(|| node.fault(MetadataFault::BadValue("uuid")), Ok)
    }

    fn trace_class(&mut self, fragment: &Object<'t>) -> Parsed<()> {
        if std::mem::replace(&mut self.has_trace, true) {
            return fault(fragment.at, MetadataFault::Duplicate("trace class"));
        }
        if !self.trace.streams.is_empty() {
            return fault(fragment.at, MetadataFault::Expected("the trace class before data stream classes"));
        }
        const KNOWN: [&str; 8] = [
            "type",
            "namespace",
            "name",
            "uid",
            "environment",
            "packet-header-field-class",
            "attributes",
            "extensions",
        ];
        fragment.only("the trace class", &KNOWN)?;
        common(fragment)?;
        self.places.trace = fragment.at;
        self.trace.namespace = fragment.owned("namespace")?;
        self.trace.name = fragment.owned("name")?;
        self.trace.uid = fragment.owned("uid")?;
        if let Some(environment) = fragment.get("environment") {
            self.environment(environment)?;
        }
        self.classes.begin(None, self.trace.uuid.is_some());
        let name = "packet-header-field-class";
        self.trace.packet_header = self.classes.scope(fragment, name, Scope::PacketHeader, [None; 6])?;
        self.trace.attributes = attributes(fragment, &[]);
        self.note_byte_order(self.trace.packet_header.as_ref().and_then(byte_order));
        Ok(())
    }

    fn environment(&mut self, environment: &Node<'t>) -> Parsed<()> {
        let Some(entries) = environment.object() else {
            return environment.fault(MetadataFault::BadValue("environment"));
        };
        for (name, node) in &entries.properties {
            let value = match (&node.value, node.integer()) {
                (Json::Text(text), _) => EnvValue::Str(text.to_string()),
                (_, Some(value)) => EnvValue::Int(value),
                _ => return node.fault(MetadataFault::BadValue("environment entry")),
            };
            self.trace.environment.push((name.to_string(), value));
        }
        Ok(())
    }

    /// CTF 2 has no native byte order: the first integer's is what a CTF 1.8 writer would call so.
    fn note_byte_order(&mut self, order: Option<ByteOrder>) {
        if let Some(order) = order.filter(|_| !self.has_order) {
            self.trace.byte_order = if order.is_big() { ByteOrder::Big } else { ByteOrder::Little };
            self.has_order = true;
        }
    }

    fn clock_class(&mut self, fragment: &Object<'t>) -> Parsed<()> {
        const KNOWN: [&str; 13] = [
            "type",
            "id",
            "namespace",
            "name",
            "uid",
            "frequency",
            "origin",
            "offset-from-origin",
            "precision",
            "accuracy",
            "description",
            "attributes",
            "extensions",
        ];
        fragment.only("a clock class", &KNOWN)?;
        common(fragment)?;
        fragment.needed("id")?;
        let id = fragment.owned("id")?.unwrap_or_default();
        fragment.needed("frequency")?;
        let frequency = fragment.number("frequency")?.unwrap_or(0);
        if frequency == 0 {
            let fault = MetadataFault::BadValue("clock frequency: it must not be 0");
            return fragment.needed("frequency")?.fault(fault);
        }
        let (offset_seconds, offset_cycles) = self.clock_offset(fragment, frequency)?;
        let clock = ClockClass {
            name: fragment.owned("name")?.unwrap_or_else(|| id.clone()),
            uid: fragment.owned("uid")?,
            namespace: fragment.owned("namespace")?,
            description: fragment.owned("description")?,
            frequency,
            precision: fragment.number("precision")?,
            accuracy: fragment.number("accuracy")?,
            offset_seconds,
            offset_cycles,
            origin: origin(fragment.get("origin"))?,
        };
        if self.clock_ids.insert(id, self.trace.clocks.len()).is_some() {
            return fragment.needed("id")?.fault(MetadataFault::Duplicate("clock class"));
        }
        self.places.clocks.push(fragment.at);
        self.trace.clocks.push(clock);
        Ok(())
    }

    /// Seconds and cycles of `offset-from-origin`.
    fn clock_offset(&mut self, fragment: &Object<'t>, frequency: u64) -> Parsed<(i64, u64)> {
        let Some(node) = fragment.get("offset-from-origin") else { return Ok((0, 0)) };
        let Some(offset) = node.object() else {
            return node.fault(MetadataFault::BadValue("offset-from-origin"));
        };
        offset.only("a clock's offset", &["seconds", "cycles"])?;
        let cycles = offset.number("cycles")?.unwrap_or(0);
        if cycles >= frequency {
            self.oddities.note(offset.needed("cycles")?.at, Oddity::LargeCycles);
        }
        Ok((offset.number("seconds")?.unwrap_or(0), cycles))
    }

    fn stream_class(&mut self, fragment: &Object<'t>) -> Parsed<()> {
        const KNOWN: [&str; 11] = [
            "type",
            "id",
            "namespace",
            "name",
            "uid",
            "default-clock-class-id",
            "packet-context-field-class",
            "event-record-header-field-class",
            "event-record-common-context-field-class",
            "attributes",
            "extensions",
        ];
        fragment.only("a data stream class", &KNOWN)?;
        common(fragment)?;
        let clock = match fragment.text("default-clock-class-id")? {
            Some(id) => {
                let unknown = MetadataFault::Unknown("clock class before this one");
                let place = self.clock_ids.get(id).copied();
                Some(place.map_or_else(|| fragment.needed("default-clock-class-id")?.fault(unknown), Ok)?)
            }
            None => None,
        };
        let mut stream = StreamClass {
            id: fragment.number("id")?.unwrap_or(0),
            name: fragment.owned("name")?,
            namespace: fragment.owned("namespace")?,
            uid: fragment.owned("uid")?,
            clock,
            attributes: attributes(fragment, &[]),
            ..StreamClass::default()
        };
        if self.stream_places.insert(stream.id, self.trace.streams.len()).is_some() {
            let at = fragment.get("id").map_or(fragment.at, |node| node.at);
            return fault(at, MetadataFault::Duplicate("data stream class"));
        }
        self.classes.begin(clock, self.trace.uuid.is_some());
        let mut before = [None; 6];
        before[0] = self.trace.packet_header.as_ref();
        let name = "packet-context-field-class";
        stream.packet_context = self.classes.scope(fragment, name, Scope::PacketContext, before)?;
        before[1] = stream.packet_context.as_ref();
        let name = "event-record-header-field-class";
        stream.event_header = self.classes.scope(fragment, name, Scope::EventHeader, before)?;
        before[2] = stream.event_header.as_ref();
        let name = "event-record-common-context-field-class";
        stream.common_context = self.classes.scope(fragment, name, Scope::CommonContext, before)?;
        self.note_byte_order(stream.event_header.as_ref().and_then(byte_order));
        self.places.streams.push(fragment.at);
        self.places.events.push(Vec::new());
        self.trace.streams.push(stream);
        Ok(())
    }

    fn event_class(&mut self, fragment: &Object<'t>) -> Parsed<()> {
        const KNOWN: [&str; 10] = [
            "type",
            "id",
            "data-stream-class-id",
            "namespace",
            "name",
            "uid",
            "specific-context-field-class",
            "payload-field-class",
            "attributes",
            "extensions",
        ];
        fragment.only("an event record class", &KNOWN)?;
        common(fragment)?;
        let id = fragment.number("data-stream-class-id")?.unwrap_or(0);
        let place = self.stream_places.get(&id).copied();
        let found = place
            .and_then(|place| Some((self.trace.streams.get_mut(place)?, self.places.events.get_mut(place)?)));
        let Some((stream, places)) = found else {
            let at = fragment.get("data-stream-class-id").map_or(fragment.at, |node| node.at);
            return fault(at, MetadataFault::Unknown("data stream class before its event"));
        };
        let mut event = EventClass {
            id: fragment.number("id")?.unwrap_or(0),
            name: fragment.owned("name")?.unwrap_or_default(),
            namespace: fragment.owned("namespace")?,
            uid: fragment.owned("uid")?,
            log_level: attribute(fragment, "log-level").and_then(log_level),
            emf_uri: attribute(fragment, "emf-uri").and_then(Node::text).map(str::to_owned),
            attributes: attributes(fragment, &["log-level", "emf-uri"]),
            ..EventClass::default()
        };
        self.classes.begin(None, self.trace.uuid.is_some());
        let mut before = [
            self.trace.packet_header.as_ref(),
            stream.packet_context.as_ref(),
            stream.event_header.as_ref(),
            stream.common_context.as_ref(),
            None,
            None,
        ];
        let name = "specific-context-field-class";
        event.specific_context = self.classes.scope(fragment, name, Scope::SpecificContext, before)?;
        before[4] = event.specific_context.as_ref();
        event.payload = self.classes.scope(fragment, "payload-field-class", Scope::Payload, before)?;
        stream.events.push(event);
        places.push(fragment.at);
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

fn origin(node: Option<&Node<'_>>) -> Parsed<Origin> {
    let Some(node) = node else { return Ok(Origin::Unknown) };
    match &node.value {
        Json::Text(name) if name == "unix-epoch" => Ok(Origin::UnixEpoch),
        Json::Object(origin) => {
            origin.only("a clock's origin", &["namespace", "name", "uid"])?;
            origin.needed("name")?;
            origin.needed("uid")?;
            Ok(Origin::Custom {
                namespace: origin.owned("namespace")?,
                name: origin.owned("name")?.unwrap_or_default(),
                uid: origin.owned("uid")?.unwrap_or_default(),
            })
        }
        _ => node.fault(MetadataFault::BadValue("origin")),
    }
}

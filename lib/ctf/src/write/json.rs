//! Prints a trace class as CTF 2 metadata fragments (CTF2-SPEC-2.0 section 5).

use crate::model::{
    ArrayClass, Base, BlobClass, ByteOrder, ClockClass, Encoding, EnvValue, EventClass, FieldClass, FieldRef,
    IntClass, IntCoding, Length, Mapping, Origin, Range, Roles, StreamClass, StructClass, TraceClass,
};
use crate::read::json::RECORD_SEPARATOR;
use crate::read::json::classes::ORIGINS;
use crate::read::roles::ROLES;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// The metadata of a trace class.
pub(super) fn print(trace: &TraceClass) -> String {
    let mut out = String::new();
    let mut put = |fragment: Object| put_fragment(&mut out, fragment);
    let mut preamble = object("preamble");
    preamble.insert("version".into(), json!(2));
    if let Some(uuid) = trace.uuid {
        preamble.insert("uuid".into(), json!(uuid));
    }
    put(preamble);
    put(trace_class(trace));
    for (index, clock) in trace.clocks.iter().enumerate() {
        put(clock_class(clock, index));
    }
    for stream in &trace.streams {
        put(stream_class(stream));
        for event in &stream.events {
            put(event_class(event, stream.id));
        }
    }
    out
}

/// Its events only.
pub(super) fn print_events(trace: &TraceClass) -> String {
    let mut out = String::new();
    for stream in &trace.streams {
        stream.events.iter().for_each(|event| put_fragment(&mut out, event_class(event, stream.id)));
    }
    out
}

fn put_fragment(out: &mut String, fragment: Object) {
    out.push(char::from(RECORD_SEPARATOR));
    out.push_str(&Value::Object(fragment).to_string());
    out.push('\n');
}

fn object(kind: &str) -> Object {
    let mut object = Object::new();
    object.insert("type".into(), json!(kind));
    object
}

fn put_text(object: &mut Object, name: &str, value: Option<&String>) {
    if let Some(value) = value {
        object.insert(name.into(), json!(value));
    }
}

fn put_scope(object: &mut Object, name: &str, class: Option<&StructClass>) {
    if let Some(class) = class {
        object.insert(name.into(), structure(class));
    }
}

/// User attributes: the ones kept as text, with what the model knows put among them.
fn put_attributes(object: &mut Object, text: Option<&String>, known: Object) {
    let kept = text.and_then(|text| serde_json::from_str::<Object>(text).ok());
    let mut attributes = kept.unwrap_or_default();
    if !known.is_empty() {
        let own = attributes.entry("lttng.org,2009").or_insert_with(|| json!({}));
        if let Value::Object(own) = own {
            own.extend(known);
        }
    }
    if !attributes.is_empty() {
        object.insert("attributes".into(), Value::Object(attributes));
    }
}

fn trace_class(trace: &TraceClass) -> Object {
    let mut fragment = object("trace-class");
    put_text(&mut fragment, "namespace", trace.namespace.as_ref());
    put_text(&mut fragment, "name", trace.name.as_ref());
    put_text(&mut fragment, "uid", trace.uid.as_ref());
    if !trace.environment.is_empty() {
        let entry = |(name, value): &(String, EnvValue)| match value {
            EnvValue::Int(value) => (name.clone(), json!(value)),
            EnvValue::Str(text) => (name.clone(), json!(text)),
        };
        let entries: Object = trace.environment.iter().map(entry).collect();
        fragment.insert("environment".into(), Value::Object(entries));
    }
    put_scope(&mut fragment, "packet-header-field-class", trace.packet_header.as_ref());
    put_attributes(&mut fragment, trace.attributes.as_ref(), Object::new());
    fragment
}

/// The identifier of a clock within the metadata.
fn clock_id(index: usize) -> String {
    format!("clock-{index}")
}

fn clock_class(clock: &ClockClass, index: usize) -> Object {
    let mut fragment = object("clock-class");
    fragment.insert("id".into(), json!(clock_id(index)));
    put_text(&mut fragment, "namespace", clock.namespace.as_ref());
    put_text(&mut fragment, "name", Some(&clock.name));
    put_text(&mut fragment, "uid", clock.uid.as_ref());
    put_text(&mut fragment, "description", clock.description.as_ref());
    fragment.insert("frequency".into(), json!(clock.frequency));
    match &clock.origin {
        Origin::UnixEpoch => {
            fragment.insert("origin".into(), json!("unix-epoch"));
        }
        Origin::Unknown => {}
        Origin::Custom { namespace, name, uid } => {
            let mut origin = Object::new();
            put_text(&mut origin, "namespace", namespace.as_ref());
            put_text(&mut origin, "name", Some(name));
            put_text(&mut origin, "uid", Some(uid));
            fragment.insert("origin".into(), Value::Object(origin));
        }
    }
    // Cycles of the offset must be less than a second.
    let whole = clock.offset_cycles / clock.frequency.max(1);
    let seconds = clock.offset_seconds.saturating_add(i64::try_from(whole).unwrap_or(i64::MAX));
    let cycles = clock.offset_cycles % clock.frequency.max(1);
    fragment.insert("offset-from-origin".into(), json!({ "seconds": seconds, "cycles": cycles }));
    for (name, value) in [("precision", clock.precision), ("accuracy", clock.accuracy)] {
        if let Some(value) = value {
            fragment.insert(name.into(), json!(value));
        }
    }
    fragment
}

fn stream_class(stream: &StreamClass) -> Object {
    let mut fragment = object("data-stream-class");
    fragment.insert("id".into(), json!(stream.id));
    put_text(&mut fragment, "namespace", stream.namespace.as_ref());
    put_text(&mut fragment, "name", stream.name.as_ref());
    put_text(&mut fragment, "uid", stream.uid.as_ref());
    if let Some(clock) = stream.clock {
        fragment.insert("default-clock-class-id".into(), json!(clock_id(clock)));
    }
    put_scope(&mut fragment, "packet-context-field-class", stream.packet_context.as_ref());
    put_scope(&mut fragment, "event-record-header-field-class", stream.event_header.as_ref());
    put_scope(&mut fragment, "event-record-common-context-field-class", stream.common_context.as_ref());
    put_attributes(&mut fragment, stream.attributes.as_ref(), Object::new());
    fragment
}

fn event_class(event: &EventClass, stream: u64) -> Object {
    let mut fragment = object("event-record-class");
    fragment.insert("data-stream-class-id".into(), json!(stream));
    fragment.insert("id".into(), json!(event.id));
    put_text(&mut fragment, "namespace", event.namespace.as_ref());
    put_text(&mut fragment, "name", Some(&event.name));
    put_text(&mut fragment, "uid", event.uid.as_ref());
    let mut known = Object::new();
    if let Some(level) = event.log_level {
        known.insert("log-level".into(), level.name().map_or_else(|| json!(level.0), |name| json!(name)));
    }
    put_text(&mut known, "emf-uri", event.emf_uri.as_ref());
    put_attributes(&mut fragment, event.attributes.as_ref(), known);
    put_scope(&mut fragment, "specific-context-field-class", event.specific_context.as_ref());
    put_scope(&mut fragment, "payload-field-class", event.payload.as_ref());
    fragment
}

fn structure(class: &StructClass) -> Value {
    let mut value = object("structure");
    if class.min_align > 1 {
        value.insert("minimum-alignment".into(), json!(class.min_align));
    }
    let member = |m: &crate::model::Member| json!({ "name": m.name, "field-class": field(&m.class) });
    value.insert("member-classes".into(), class.members.iter().map(member).collect());
    Value::Object(value)
}

fn field(class: &FieldClass) -> Value {
    Value::Object(match class {
        FieldClass::Int(int) => integer(int, &[]),
        FieldClass::Enum(class) => integer(&class.int, &class.mappings),
        FieldClass::Float(c) => fixed("fixed-length-floating-point-number", c.size, c.align, c.byte_order),
        FieldClass::Bool(c) => fixed("fixed-length-boolean", c.size, c.align, c.byte_order),
        FieldClass::BitMap(c) if c.flags.is_empty() => {
            fixed("fixed-length-bit-array", c.size, c.align, c.byte_order)
        }
        FieldClass::BitMap(c) => {
            let mut value = fixed("fixed-length-bit-map", c.size, c.align, c.byte_order);
            value.insert("flags".into(), mappings(&c.flags));
            value
        }
        FieldClass::String(c) => {
            let mut value = object("null-terminated-string");
            put_encoding(&mut value, c.encoding);
            value
        }
        FieldClass::Text(c) => {
            let mut value = sized("static-length-string", "dynamic-length-string", &c.length);
            put_encoding(&mut value, c.encoding);
            value
        }
        FieldClass::Blob(c) => blob(c),
        // A UUID is an array in CTF 1.8; the role needs a blob.
        FieldClass::Array(c) if !c.roles.is_empty() => {
            blob(&BlobClass { length: c.length.clone(), media_type: None, roles: c.roles })
        }
        FieldClass::Array(c) => array(c),
        FieldClass::Struct(c) => return structure(c),
        FieldClass::Variant(c) => {
            let mut value = object("variant");
            value.insert("selector-field-location".into(), location(&c.selector));
            let option = |o: &crate::model::OptionClass| {
                let mut option = Object::new();
                if !o.name.is_empty() {
                    option.insert("name".into(), json!(o.name));
                }
                option.insert("selector-field-ranges".into(), ranges(&o.ranges));
                option.insert("field-class".into(), field(&o.class));
                Value::Object(option)
            };
            let reachable = c.options.iter().filter(|o| !o.ranges.is_empty());
            value.insert("options".into(), reachable.map(option).collect());
            value
        }
        FieldClass::Optional(c) => {
            let mut value = object("optional");
            value.insert("selector-field-location".into(), location(&c.selector));
            if !c.ranges.is_empty() {
                value.insert("selector-field-ranges".into(), ranges(&c.ranges));
            }
            value.insert("field-class".into(), field(&c.class));
            value
        }
    })
}

fn fixed(kind: &str, size: u32, align: u32, order: ByteOrder) -> Object {
    let mut value = object(kind);
    value.insert("length".into(), json!(size));
    value.insert("byte-order".into(), json!(if order.is_big() { "big-endian" } else { "little-endian" }));
    if order.is_reversed() {
        value.insert(
            "bit-order".into(),
            json!(if order.is_big() { "first-to-last" } else { "last-to-first" }),
        );
    }
    if align > 1 {
        value.insert("alignment".into(), json!(align));
    }
    value
}

fn integer(int: &IntClass, names: &[Mapping]) -> Object {
    let mut value = match (int.coding, int.signed) {
        (IntCoding::Fixed, false) => {
            fixed("fixed-length-unsigned-integer", int.size, int.align, int.byte_order)
        }
        (IntCoding::Fixed, true) => fixed("fixed-length-signed-integer", int.size, int.align, int.byte_order),
        (IntCoding::Leb128, false) => object("variable-length-unsigned-integer"),
        (IntCoding::Leb128, true) => object("variable-length-signed-integer"),
    };
    match int.base {
        Base::Decimal => {}
        Base::Binary => drop(value.insert("preferred-display-base".into(), json!(2))),
        Base::Octal => drop(value.insert("preferred-display-base".into(), json!(8))),
        Base::Hexadecimal => drop(value.insert("preferred-display-base".into(), json!(16))),
    }
    put_roles(&mut value, int.roles);
    if !names.is_empty() {
        value.insert("mappings".into(), mappings(names));
    }
    value
}

fn put_roles(value: &mut Object, roles: Roles) {
    let names: Vec<&str> =
        ROLES.iter().filter(|known| roles.contains(known.role)).map(|known| known.name).collect();
    if !names.is_empty() {
        value.insert("roles".into(), json!(names));
    }
}

fn put_encoding(value: &mut Object, encoding: Encoding) {
    let name = match encoding {
        Encoding::Utf8 => return,
        Encoding::Utf16Be => "utf-16be",
        Encoding::Utf16Le => "utf-16le",
        Encoding::Utf32Be => "utf-32be",
        Encoding::Utf32Le => "utf-32le",
    };
    value.insert("encoding".into(), json!(name));
}

/// An object of one of two types with its length.
fn sized(fixed: &str, dynamic: &str, length: &Length) -> Object {
    match length {
        Length::Static(n) => {
            let mut value = object(fixed);
            value.insert("length".into(), json!(n));
            value
        }
        Length::Dynamic(target) => {
            let mut value = object(dynamic);
            value.insert("length-field-location".into(), location(target));
            value
        }
    }
}

fn blob(class: &BlobClass) -> Object {
    let mut value = sized("static-length-blob", "dynamic-length-blob", &class.length);
    put_text(&mut value, "media-type", class.media_type.as_ref());
    put_roles(&mut value, class.roles);
    value
}

fn array(class: &ArrayClass) -> Object {
    let mut value = sized("static-length-array", "dynamic-length-array", &class.length);
    if class.min_align > 1 {
        value.insert("minimum-alignment".into(), json!(class.min_align));
    }
    value.insert("element-field-class".into(), field(&class.element));
    value
}

fn location(target: &FieldRef) -> Value {
    let origin = ORIGINS.iter().find(|(_, scope)| *scope == target.scope).map(|(name, _)| *name);
    json!({ "origin": origin, "path": target.path })
}

fn mappings(mappings: &[Mapping]) -> Value {
    // A mapping without values is nothing in CTF 2.
    let named = mappings.iter().filter(|m| !m.ranges.is_empty());
    Value::Object(named.map(|m| (m.label.clone(), ranges(&m.ranges))).collect())
}

fn ranges(ranges: &[Range]) -> Value {
    let bound = |value: i128| {
        i64::try_from(value).map_or_else(|_| json!(u64::try_from(value).unwrap_or(u64::MAX)), |v| json!(v))
    };
    ranges.iter().map(|range| json!([bound(range.lower), bound(range.upper)])).collect()
}

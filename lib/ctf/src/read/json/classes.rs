//! Field classes of CTF 2 (CTF2-SPEC-2.0 section 5.3).
//!
//! Aliases are kept as JSON and read again at each use, where the place of the field is known: so relative
//! locations become absolute at once.

use super::{Object, Parsed, integer, number, text};
use crate::error::{MAX_DEPTH, MetadataFault};
use crate::model::{
    ArrayClass, Base, BitMapClass, BlobClass, BoolClass, ByteOrder, Encoding, EnumClass, FieldClass,
    FieldRef, FloatClass, IntClass, IntCoding, Length, Mapping, Member, OptionClass, OptionalClass, Range,
    Roles, Scope, StringClass, StructClass, TextClass, VariantClass,
};
use crate::read::MAX_CLASSES;
use serde_json::Value;
use std::collections::HashMap;

/// Reads field classes.
#[derive(Default)]
pub(super) struct ClassReader {
    aliases: HashMap<String, Value>,
    /// Default clock of the stream class being read.
    pub(super) clock: Option<usize>,
    scope: Option<Scope>,
    /// Names of the members around the current field, from the scope's root.
    path: Vec<String>,
    depth: u32,
    classes: usize,
}

impl ClassReader {
    pub(super) fn add_alias(&mut self, fragment: &Object) -> Parsed<()> {
        let name = text(fragment, "name")?.ok_or(MetadataFault::Missing("name"))?;
        let class = fragment.get("field-class").ok_or(MetadataFault::Missing("field-class"))?;
        match self.aliases.insert(name, class.clone()) {
            None => Ok(()),
            Some(_) => Err(MetadataFault::Duplicate("field class alias")),
        }
    }

    /// The root structure in property `name`.
    pub(super) fn scope(
        &mut self,
        fragment: &Object,
        name: &'static str,
        scope: Scope,
    ) -> Parsed<Option<StructClass>> {
        let Some(value) = fragment.get(name) else { return Ok(None) };
        self.scope = Some(scope);
        self.path.clear();
        self.depth = 0;
        match self.class(value)? {
            FieldClass::Struct(class) => Ok(Some(class)),
            _ => Err(MetadataFault::BadValue(name)),
        }
    }

    fn property(&mut self, object: &Object, name: &'static str) -> Parsed<FieldClass> {
        self.class(object.get(name).ok_or(MetadataFault::Missing(name))?)
    }

    fn class(&mut self, value: &Value) -> Parsed<FieldClass> {
        self.depth += 1;
        self.classes += 1;
        if self.depth > MAX_DEPTH {
            return Err(MetadataFault::TooDeep);
        }
        if self.classes > MAX_CLASSES {
            return Err(MetadataFault::TooBig);
        }
        let class = match value {
            Value::String(name) => {
                let class =
                    self.aliases.get(name).cloned().ok_or(MetadataFault::Unknown("field class alias"))?;
                self.class(&class)?
            }
            Value::Object(object) => self.object(object)?,
            _ => return Err(MetadataFault::BadValue("field-class")),
        };
        self.depth -= 1;
        Ok(class)
    }

    fn object(&mut self, object: &Object) -> Parsed<FieldClass> {
        let kind = text(object, "type")?.ok_or(MetadataFault::Missing("type"))?;
        Ok(match kind.as_str() {
            "fixed-length-unsigned-integer" => self.int(object, fixed_int(object, false)?)?,
            "fixed-length-signed-integer" => self.int(object, fixed_int(object, true)?)?,
            "variable-length-unsigned-integer" => self.int(object, leb128(false))?,
            "variable-length-signed-integer" => self.int(object, leb128(true))?,
            "fixed-length-bit-array" | "fixed-length-bit-map" => {
                let Fixed { size, align, byte_order } = fixed(object)?;
                FieldClass::BitMap(BitMapClass { size, align, byte_order, flags: mappings(object, "flags")? })
            }
            "fixed-length-boolean" => {
                let Fixed { size, align, byte_order } = fixed(object)?;
                FieldClass::Bool(BoolClass { size, align, byte_order })
            }
            "fixed-length-floating-point-number" => {
                let Fixed { size, align, byte_order } = fixed(object)?;
                FieldClass::Float(FloatClass { size, align, byte_order })
            }
            "null-terminated-string" => FieldClass::String(StringClass { encoding: encoding(object)? }),
            "static-length-string" | "dynamic-length-string" => {
                FieldClass::Text(TextClass { length: self.length(object)?, encoding: encoding(object)? })
            }
            "static-length-blob" | "dynamic-length-blob" => FieldClass::Blob(BlobClass {
                length: self.length(object)?,
                media_type: text(object, "media-type")?,
                roles: roles(object)?,
            }),
            "static-length-array" | "dynamic-length-array" => FieldClass::Array(ArrayClass {
                length: self.length(object)?,
                min_align: number(object, "minimum-alignment")?.unwrap_or(1),
                element: Box::new(self.property(object, "element-field-class")?),
                roles: Roles::NONE,
            }),
            "structure" => FieldClass::Struct(self.structure(object)?),
            "optional" => FieldClass::Optional(OptionalClass {
                selector: self.location(object, "selector-field-location")?,
                ranges: object.get("selector-field-ranges").map(ranges).transpose()?.unwrap_or_default(),
                class: Box::new(self.property(object, "field-class")?),
            }),
            "variant" => self.variant(object)?,
            _ => return Err(MetadataFault::Unknown("field class type")),
        })
    }

    fn int(&self, object: &Object, mut int: IntClass) -> Parsed<FieldClass> {
        int.base = match number(object, "preferred-display-base")? {
            Some(2) => Base::Binary,
            Some(8) => Base::Octal,
            Some(16) => Base::Hexadecimal,
            None | Some(10) => Base::Decimal,
            Some(_) => return Err(MetadataFault::BadValue("preferred-display-base")),
        };
        int.roles = roles(object)?;
        let of_clock = Roles::TIMESTAMP.0 | Roles::PACKET_END_TIMESTAMP.0;
        int.clock = self.clock.filter(|_| int.roles.0 & of_clock != 0);
        let mappings = mappings(object, "mappings")?;
        Ok(if mappings.is_empty() {
            FieldClass::Int(int)
        } else {
            FieldClass::Enum(EnumClass { int, mappings })
        })
    }

    fn structure(&mut self, object: &Object) -> Parsed<StructClass> {
        let mut class =
            StructClass { members: Vec::new(), min_align: number(object, "minimum-alignment")?.unwrap_or(1) };
        let Some(members) = object.get("member-classes") else { return Ok(class) };
        let mut names = std::collections::HashSet::new();
        for member in members.as_array().ok_or(MetadataFault::BadValue("member-classes"))? {
            let member = member.as_object().ok_or(MetadataFault::BadValue("member-classes"))?;
            let name = text(member, "name")?.ok_or(MetadataFault::Missing("name"))?;
            if !names.insert(name.clone()) {
                return Err(MetadataFault::Duplicate("member of a structure"));
            }
            self.path.push(name.clone());
            let field = self.property(member, "field-class")?;
            self.path.pop();
            class.members.push(Member { name, class: field });
        }
        Ok(class)
    }

    fn variant(&mut self, object: &Object) -> Parsed<FieldClass> {
        let selector = self.location(object, "selector-field-location")?;
        let mut options = Vec::new();
        for option in
            object.get("options").and_then(Value::as_array).ok_or(MetadataFault::Missing("options"))?
        {
            let option = option.as_object().ok_or(MetadataFault::BadValue("options"))?;
            let chosen =
                option.get("selector-field-ranges").ok_or(MetadataFault::Missing("selector-field-ranges"))?;
            options.push(OptionClass {
                name: text(option, "name")?.unwrap_or_default(),
                ranges: ranges(chosen)?,
                class: self.property(option, "field-class")?,
            });
        }
        Ok(FieldClass::Variant(VariantClass { selector, options }))
    }

    fn length(&self, object: &Object) -> Parsed<Length> {
        match number(object, "length")? {
            Some(length) => Ok(Length::Static(length)),
            None => Ok(Length::Dynamic(self.location(object, "length-field-location")?)),
        }
    }

    /// A field location: relative ones begin in the structure that holds the current field; `null` is its
    /// parent.
    ///
    /// Between two structures one inside the other there is always one member name, whatever arrays,
    /// options and variants lie between, so the parent's path is one shorter.
    fn location(&self, object: &Object, name: &'static str) -> Parsed<FieldRef> {
        let location = object.get(name).and_then(Value::as_object).ok_or(MetadataFault::Missing(name))?;
        let steps = location.get("path").and_then(Value::as_array).ok_or(MetadataFault::Missing("path"))?;
        let (scope, mut path) = match text(location, "origin")? {
            Some(origin) => (origin_scope(&origin)?, Vec::new()),
            None => {
                let around = self.path.len().saturating_sub(1);
                (self.scope.unwrap_or(Scope::Payload), self.path[..around].to_vec())
            }
        };
        for step in steps {
            match step {
                Value::String(name) => path.push(name.clone()),
                Value::Null if path.pop().is_some() => {}
                _ => return Err(MetadataFault::BadValue("path of a field location")),
            }
        }
        match steps.last() {
            Some(Value::String(_)) => Ok(FieldRef { scope, path }),
            _ => Err(MetadataFault::BadValue("path of a field location")),
        }
    }
}

/// What all fixed-length classes say.
struct Fixed {
    size: u32,
    align: u32,
    byte_order: ByteOrder,
}

fn fixed(object: &Object) -> Parsed<Fixed> {
    let byte_order = match text(object, "byte-order")?.as_deref() {
        Some("little-endian") => ByteOrder::Little,
        Some("big-endian") => ByteOrder::Big,
        None => return Err(MetadataFault::Missing("byte-order")),
        Some(_) => return Err(MetadataFault::BadValue("byte-order")),
    };
    match (text(object, "bit-order")?.as_deref(), byte_order) {
        (None, _) | (Some("first-to-last"), ByteOrder::Little) | (Some("last-to-first"), ByteOrder::Big) => {}
        _ => return Err(MetadataFault::Unsupported("bit order against the byte order")),
    }
    let size = number(object, "length")?.ok_or(MetadataFault::Missing("length"))?;
    if size == 0 || size > 64 {
        return Err(MetadataFault::BadValue("length: it must be 1 to 64 bits"));
    }
    Ok(Fixed { size, align: number(object, "alignment")?.unwrap_or(1), byte_order })
}

fn fixed_int(object: &Object, signed: bool) -> Parsed<IntClass> {
    let Fixed { size, align, byte_order } = fixed(object)?;
    Ok(IntClass { align, byte_order, ..IntClass::new(size, signed) })
}

fn leb128(signed: bool) -> IntClass {
    IntClass { coding: IntCoding::Leb128, ..IntClass::new(64, signed) }
}

fn encoding(object: &Object) -> Parsed<Encoding> {
    match text(object, "encoding")?.as_deref() {
        None | Some("utf-8") => Ok(Encoding::Utf8),
        Some("utf-16be") => Ok(Encoding::Utf16Be),
        Some("utf-16le") => Ok(Encoding::Utf16Le),
        Some("utf-32be") => Ok(Encoding::Utf32Be),
        Some("utf-32le") => Ok(Encoding::Utf32Le),
        Some(_) => Err(MetadataFault::BadValue("encoding")),
    }
}

/// Names of roles in CTF 2.
pub(crate) const ROLES: [(&str, Roles); 11] = [
    ("packet-magic-number", Roles::PACKET_MAGIC),
    ("metadata-stream-uuid", Roles::METADATA_UUID),
    ("data-stream-class-id", Roles::STREAM_CLASS_ID),
    ("data-stream-id", Roles::STREAM_ID),
    ("packet-content-length", Roles::CONTENT_LENGTH),
    ("packet-total-length", Roles::TOTAL_LENGTH),
    ("packet-sequence-number", Roles::SEQUENCE_NUMBER),
    ("discarded-event-record-counter-snapshot", Roles::DISCARDED),
    ("default-clock-timestamp", Roles::TIMESTAMP),
    ("packet-end-default-clock-timestamp", Roles::PACKET_END_TIMESTAMP),
    ("event-record-class-id", Roles::EVENT_CLASS_ID),
];

/// The roles that are known; others have no meaning to this reader.
fn roles(object: &Object) -> Parsed<Roles> {
    let mut roles = Roles::NONE;
    let Some(names) = object.get("roles") else { return Ok(roles) };
    for name in names.as_array().ok_or(MetadataFault::BadValue("roles"))? {
        if let Some((_, role)) = ROLES.into_iter().find(|(known, _)| Some(*known) == name.as_str()) {
            roles |= role;
        }
    }
    Ok(roles)
}

/// `{ "name": [[1, 2], [4, 4]], ... }`
fn mappings(object: &Object, name: &'static str) -> Parsed<Vec<Mapping>> {
    let Some(mappings) = object.get(name) else { return Ok(Vec::new()) };
    let mappings = mappings.as_object().ok_or(MetadataFault::BadValue(name))?;
    mappings
        .iter()
        .map(|(label, value)| Ok(Mapping { label: label.clone(), ranges: ranges(value)? }))
        .collect()
}

/// `[[1, 2], [4, 4]]`
fn ranges(value: &Value) -> Parsed<Vec<Range>> {
    let bad = || MetadataFault::BadValue("integer range set");
    let range = |value: &Value| match value.as_array().map(Vec::as_slice) {
        Some([lower, upper]) => {
            let range =
                Range { lower: integer(lower).ok_or_else(bad)?, upper: integer(upper).ok_or_else(bad)? };
            if range.lower <= range.upper { Ok(range) } else { Err(bad()) }
        }
        _ => Err(bad()),
    };
    let ranges = value.as_array().ok_or_else(bad)?;
    if ranges.is_empty() {
        return Err(bad());
    }
    ranges.iter().map(range).collect()
}

/// Names of scopes as origins of field locations.
pub(crate) const ORIGINS: [(&str, Scope); 6] = [
    ("packet-header", Scope::PacketHeader),
    ("packet-context", Scope::PacketContext),
    ("event-record-header", Scope::EventHeader),
    ("event-record-common-context", Scope::CommonContext),
    ("event-record-specific-context", Scope::SpecificContext),
    ("event-record-payload", Scope::Payload),
];

fn origin_scope(origin: &str) -> Parsed<Scope> {
    let found = ORIGINS.into_iter().find(|(name, _)| *name == origin);
    found.map(|(_, scope)| scope).ok_or(MetadataFault::BadValue("origin of a field location"))
}

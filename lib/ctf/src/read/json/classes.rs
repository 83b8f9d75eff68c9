//! Field classes of CTF 2 (CTF2-SPEC-2.0 section 5.3).
//!
//! Aliases are kept as JSON and read again at each use, where the place of the field is known: so relative
//! locations become absolute at once. They are read once where they are defined, too, to find their faults.

use super::attributes::common;
use super::tree::{Node, Object, Parsed, fault};
use crate::check::{self, Scopes};
use crate::decode::compile::MAX_ALIGN;
use crate::error::{MAX_DEPTH, MetadataFault};
use crate::model::{
    ArrayClass, Base, BitMapClass, BlobClass, BoolClass, ByteOrder, Encoding, EnumClass, FieldClass,
    FieldRef, FloatClass, IntClass, IntCoding, Length, Mapping, Member, OptionClass, OptionalClass, Range,
    Roles, Scope, StringClass, StructClass, TextClass, VariantClass,
};
use crate::read::roles::{ROLES, RoleScope};
use std::collections::HashMap;
use std::rc::Rc;

/// Reads field classes.
#[derive(Default)]
pub(super) struct ClassReader<'t> {
    aliases: HashMap<String, Rc<Node<'t>>>,
    /// Default clock of the stream class being read.
    clock: Option<usize>,
    /// The preamble has a UUID.
    has_uuid: bool,
    /// `None` in the definition of an alias.
    scope: Option<Scope>,
    /// Names of the members around the current field, from the scope's root.
    path: Vec<String>,
    /// Index of the scope's member that the current field is in.
    member: usize,
    /// Where the references of the scope stand, in the order of its fields.
    references: Vec<usize>,
    depth: u32,
    classes: usize,
    pub(super) max_classes: usize,
}

/// Properties of all field classes.
const COMMON: [&str; 3] = ["type", "attributes", "extensions"];
/// Properties of classes of so many bits.
const FIXED: [&str; 4] = ["length", "byte-order", "bit-order", "alignment"];
/// Properties of integers.
const INTEGER: [&str; 2] = ["preferred-display-base", "mappings"];

impl<'t> ClassReader<'t> {
    pub(super) fn add_alias(&mut self, fragment: &Object<'t>) -> Parsed<()> {
        fragment.only("a field class alias", &[&COMMON[..], &["name", "field-class"]].concat())?;
        common(fragment)?;
        let name = fragment.needed("name")?;
        let Some(text) = fragment.text("name")? else { return Ok(()) };
        let class = fragment.needed("field-class")?;
        self.begin(None, false);
        self.start(None);
        self.class(class)?;
        match self.aliases.insert(text.to_owned(), Rc::new(class.clone())) {
            None => Ok(()),
            Some(_) => name.fault(MetadataFault::Duplicate("field class alias")),
        }
    }

    /// Scopes of a fragment follow, of a stream class with the default clock `clock`.
    pub(super) fn begin(&mut self, clock: Option<usize>, has_uuid: bool) {
        self.clock = clock;
        self.has_uuid = has_uuid;
    }

    fn start(&mut self, scope: Option<Scope>) {
        self.scope = scope;
        self.path.clear();
        self.references.clear();
        self.depth = 0;
    }

    /// The root structure in property `name`; `before` are the scopes that are decoded before it.
    pub(super) fn scope(
        &mut self,
        fragment: &Object<'t>,
        name: &'static str,
        scope: Scope,
        before: Scopes<'_>,
    ) -> Parsed<Option<StructClass>> {
        let Some(node) = fragment.get(name) else { return Ok(None) };
        self.start(Some(scope));
        let FieldClass::Struct(class) = self.class(node)? else {
            return node.fault(MetadataFault::BadValue(name));
        };
        let mut scopes = before;
        scopes[scope as usize] = Some(&class);
        if let Err(wrong) = check::scope(&scopes, scope, |_| {}) {
            let place = wrong.reference.and_then(|index| self.references.get(index));
            return fault(place.copied().unwrap_or(node.at), wrong.kind);
        }
        Ok(Some(class))
    }

    fn property(&mut self, object: &Object<'t>, name: &'static str) -> Parsed<FieldClass> {
        self.class(object.needed(name)?)
    }

    fn class(&mut self, node: &Node<'t>) -> Parsed<FieldClass> {
        self.depth += 1;
        self.classes += 1;
        if self.depth > MAX_DEPTH {
            return node.fault(MetadataFault::TooDeep);
        }
        if self.classes > self.max_classes {
            return node.fault(MetadataFault::TooBig);
        }
        let class = match (node.text(), node.object()) {
            (Some(name), _) => match self.aliases.get(name).cloned() {
                Some(class) => self.class(&class)?,
                None => return node.fault(MetadataFault::Unknown("field class alias before this use")),
            },
            (_, Some(object)) => {
                common(object)?;
                self.object(object)?
            }
            _ => return node.fault(MetadataFault::BadValue("field-class")),
        };
        self.depth -= 1;
        Ok(class)
    }

    fn object(&mut self, object: &Object<'t>) -> Parsed<FieldClass> {
        let kind = object.needed("type")?;
        let only =
            |known: &[&[&str]]| object.only("this field class", &[&COMMON, &known.concat()[..]].concat());
        Ok(match kind.text().unwrap_or("") {
            "fixed-length-unsigned-integer" => {
                only(&[&FIXED, &INTEGER, &["roles"]])?;
                self.int(object, fixed_int(object, false)?)?
            }
            "fixed-length-signed-integer" => {
                only(&[&FIXED, &INTEGER])?;
                self.int(object, fixed_int(object, true)?)?
            }
            "variable-length-unsigned-integer" => {
                only(&[&INTEGER, &["roles"]])?;
                self.int(object, leb128(false))?
            }
            "variable-length-signed-integer" => {
                only(&[&INTEGER])?;
                self.int(object, leb128(true))?
            }
            "fixed-length-bit-array" => {
                only(&[&FIXED])?;
                bit_map(object, Vec::new())?
            }
            "fixed-length-bit-map" => {
                only(&[&FIXED, &["flags"]])?;
                let flags = mappings(object, "flags")?;
                if flags.is_empty() {
                    return fault(object.at, MetadataFault::Missing("flags"));
                }
                bit_map(object, flags)?
            }
            "fixed-length-boolean" => {
                only(&[&FIXED])?;
                let Fixed { size, align, byte_order } = fixed(object)?;
                FieldClass::Bool(BoolClass { size, align, byte_order })
            }
            "fixed-length-floating-point-number" => {
                only(&[&FIXED])?;
                float(object)?
            }
            "null-terminated-string" => {
                only(&[&["encoding"]])?;
                FieldClass::String(StringClass { encoding: encoding(object)? })
            }
            name => return self.with_length(object, kind, name),
        })
    }

    /// Texts, blobs and arrays.
    fn with_length(&mut self, object: &Object<'t>, kind: &Node<'t>, name: &str) -> Parsed<FieldClass> {
        let (length, name) = match name.split_once("-length-") {
            Some(("static", name)) => ("length", name),
            Some(("dynamic", name)) => ("length-field-location", name),
            _ => return self.compound(object, kind, name),
        };
        let only =
            |known: &[&str]| object.only("this field class", &[&COMMON[..], &[length], known].concat());
        Ok(match name {
            "string" => {
                only(&["encoding"])?;
                FieldClass::Text(TextClass {
                    length: self.length(object, length)?,
                    encoding: encoding(object)?,
                })
            }
            "blob" => {
                only(if length == "length" { &["media-type", "roles"] } else { &["media-type"] })?;
                let media_type = object.owned("media-type")?;
                let length = self.length(object, length)?;
                let roles = self.blob_roles(object, &length)?;
                FieldClass::Blob(BlobClass { length, media_type, roles })
            }
            "array" => {
                only(&["minimum-alignment", "element-field-class"])?;
                FieldClass::Array(ArrayClass {
                    length: self.length(object, length)?,
                    min_align: alignment(object, "minimum-alignment")?,
                    element: Box::new(self.property(object, "element-field-class")?),
                    roles: Roles::NONE,
                })
            }
            _ => return kind.fault(MetadataFault::Unknown("field class type")),
        })
    }

    fn compound(&mut self, object: &Object<'t>, kind: &Node<'t>, name: &str) -> Parsed<FieldClass> {
        let only = |known: &[&str]| object.only("this field class", &[&COMMON[..], known].concat());
        Ok(match name {
            "structure" => {
                only(&["minimum-alignment", "member-classes"])?;
                FieldClass::Struct(self.structure(object)?)
            }
            "optional" => {
                only(&["selector-field-location", "selector-field-ranges", "field-class"])?;
                FieldClass::Optional(OptionalClass {
                    selector: self.location(object, "selector-field-location")?,
                    ranges: object.get("selector-field-ranges").map(ranges).transpose()?.unwrap_or_default(),
                    class: Box::new(self.property(object, "field-class")?),
                })
            }
            "variant" => {
                only(&["selector-field-location", "options"])?;
                self.variant(object)?
            }
            _ => return kind.fault(MetadataFault::Unknown("field class type")),
        })
    }

    fn int(&self, object: &Object<'t>, mut int: IntClass) -> Parsed<FieldClass> {
        int.base = match object.number("preferred-display-base")? {
            Some(2) => Base::Binary,
            Some(8) => Base::Octal,
            Some(16) => Base::Hexadecimal,
            None | Some(10) => Base::Decimal,
            Some(_) => {
                let node = object.needed("preferred-display-base")?;
                return node.fault(MetadataFault::BadValue("preferred-display-base"));
            }
        };
        int.roles = self.int_roles(object, &int)?;
        let of_clock = Roles::TIMESTAMP.0 | Roles::PACKET_END_TIMESTAMP.0;
        int.clock = self.clock.filter(|_| int.roles.0 & of_clock != 0);
        let mappings = mappings(object, "mappings")?;
        Ok(if mappings.is_empty() {
            FieldClass::Int(int)
        } else {
            FieldClass::Enum(EnumClass { int, mappings })
        })
    }

    fn int_roles(&self, object: &Object<'t>, int: &IntClass) -> Parsed<Roles> {
        let mut all = Roles::NONE;
        for (node, role) in roles(object)? {
            self.check_scope(node, role)?;
            if role == Roles::METADATA_UUID {
                return node.fault(MetadataFault::BadRole("only a blob can have the role of the UUID"));
            }
            let first = self.scope.is_none() || (self.path.len() == 1 && self.member == 0);
            let of_magic = int.coding == IntCoding::Fixed && int.size == 32 && first;
            if role == Roles::PACKET_MAGIC && !of_magic {
                return node.fault(MetadataFault::BadRole(
                    "the packet's magic number must be the first member of its header, with 32 bits",
                ));
            }
            all |= role;
        }
        Ok(all)
    }

    fn blob_roles(&self, object: &Object<'t>, length: &Length) -> Parsed<Roles> {
        let mut all = Roles::NONE;
        for (node, role) in roles(object)? {
            self.check_scope(node, role)?;
            if role != Roles::METADATA_UUID || *length != Length::Static(16) {
                return node.fault(MetadataFault::BadRole(
                    "a blob can only have the role of the UUID, with 16 bytes",
                ));
            }
            if self.scope.is_some() && !self.has_uuid {
                return node.fault(MetadataFault::BadRole("packets have a UUID, and the preamble has none"));
            }
            all |= role;
        }
        Ok(all)
    }

    /// Whether a field of this scope can have the role.
    fn check_scope(&self, node: &Node<'t>, role: Roles) -> Parsed<()> {
        let Some(scope) = self.scope else { return Ok(()) };
        if !ROLES
            .iter()
            .any(|RoleScope { role: known, scopes, .. }| *known == role && scopes.contains(&scope))
        {
            return node.fault(MetadataFault::BadRole("no field of this part can have this role"));
        }
        let of_clock = role == Roles::TIMESTAMP || role == Roles::PACKET_END_TIMESTAMP;
        if of_clock && self.clock.is_none() {
            return node
                .fault(MetadataFault::BadRole("this role needs a default clock of the data stream class"));
        }
        Ok(())
    }

    fn structure(&mut self, object: &Object<'t>) -> Parsed<StructClass> {
        let min_align = alignment(object, "minimum-alignment")?;
        let mut class = StructClass { members: Vec::new(), min_align };
        let Some(node) = object.get("member-classes") else { return Ok(class) };
        let Some(members) = node.array() else {
            return node.fault(MetadataFault::BadValue("member-classes"));
        };
        let mut names = std::collections::HashSet::new();
        for (index, node) in members.iter().enumerate() {
            let Some(member) = node.object() else {
                return node.fault(MetadataFault::BadValue("member-classes"));
            };
            member.only("a member", &["name", "field-class", "attributes", "extensions"])?;
            common(member)?;
            let place = member.needed("name")?;
            let name = member.owned("name")?.unwrap_or_default();
            if !names.insert(name.clone()) {
                return place.fault(MetadataFault::Duplicate("member of a structure"));
            }
            self.path.push(name.clone());
            if self.path.len() == 1 {
                self.member = index;
            }
            let field = self.property(member, "field-class")?;
            self.path.pop();
            class.members.push(Member { name, class: field });
        }
        Ok(class)
    }

    fn variant(&mut self, object: &Object<'t>) -> Parsed<FieldClass> {
        let selector = self.location(object, "selector-field-location")?;
        let node = object.needed("options")?;
        let options = match node.array() {
            Some(options) if !options.is_empty() => options,
            _ => return node.fault(MetadataFault::BadValue("options: a variant needs at least one")),
        };
        let mut names = std::collections::HashSet::new();
        let mut all: Vec<OptionClass> = Vec::new();
        for node in options {
            let Some(option) = node.object() else {
                return node.fault(MetadataFault::BadValue("options"));
            };
            option.only(
                "an option",
                &["name", "field-class", "selector-field-ranges", "attributes", "extensions"],
            )?;
            common(option)?;
            let name = option.owned("name")?;
            if let Some(name) = &name
                && !names.insert(name.clone())
            {
                return option.needed("name")?.fault(MetadataFault::Duplicate("option of a variant"));
            }
            let chosen = option.needed("selector-field-ranges")?;
            let ranges = ranges(chosen)?;
            all.push(OptionClass {
                name: name.unwrap_or_default(),
                ranges,
                class: self.property(option, "field-class")?,
            });
        }
        Ok(FieldClass::Variant(VariantClass { selector, options: all }))
    }

    /// The length in property `name`, which says how it is told.
    fn length(&mut self, object: &Object<'t>, name: &'static str) -> Parsed<Length> {
        if name == "length" {
            object.needed(name)?;
            return Ok(Length::Static(object.number(name)?.unwrap_or(0)));
        }
        Ok(Length::Dynamic(self.location(object, name)?))
    }

    /// A field location: relative ones begin in the structure that holds the current field; `null` is its
    /// parent.
    ///
    /// Between two structures one inside the other there is always one member name, whatever arrays,
    /// options and variants lie between, so the parent's path is one shorter.
    fn location(&mut self, object: &Object<'t>, name: &'static str) -> Parsed<FieldRef> {
        let node = object.needed(name)?;
        self.references.push(node.at);
        let bad = MetadataFault::BadValue("path of a field location");
        let Some(location) = node.object() else { return node.fault(MetadataFault::BadValue(name)) };
        location.only("a field location", &["origin", "path"])?;
        let path_node = location.needed("path")?;
        let Some(steps) = path_node.array() else { return path_node.fault(bad) };
        let (scope, mut path) = match location.get("origin") {
            Some(origin) => (origin_scope(origin)?, Vec::new()),
            None => {
                let around = self.path.len().saturating_sub(1);
                (self.scope.unwrap_or(Scope::Payload), self.path[..around].to_vec())
            }
        };
        for step in steps {
            match (&step.value, self.scope) {
                (super::tree::Json::Text(name), _) => path.push(name.to_string()),
                // An alias may be used deeper than it is defined.
                (super::tree::Json::Null, None) => drop(path.pop()),
                (super::tree::Json::Null, Some(_)) if path.pop().is_some() => {}
                _ => return step.fault(bad),
            }
        }
        match steps.last().and_then(Node::text) {
            Some(_) => Ok(FieldRef { scope, path }),
            None => path_node.fault(bad),
        }
    }
}

/// What all fixed-length classes say.
struct Fixed {
    size: u32,
    align: u32,
    byte_order: ByteOrder,
}

fn fixed(object: &Object<'_>) -> Parsed<Fixed> {
    let order = object.needed("byte-order")?;
    let bits = object.text("bit-order")?;
    let byte_order = match (order.text(), bits) {
        (Some("little-endian"), None | Some("first-to-last")) => ByteOrder::Little,
        (Some("little-endian"), Some("last-to-first")) => ByteOrder::LittleReversed,
        (Some("big-endian"), None | Some("last-to-first")) => ByteOrder::Big,
        (Some("big-endian"), Some("first-to-last")) => ByteOrder::BigReversed,
        (Some("little-endian" | "big-endian"), Some(_)) => {
            return object.needed("bit-order")?.fault(MetadataFault::BadValue("bit-order"));
        }
        _ => return order.fault(MetadataFault::BadValue("byte-order")),
    };
    let length = object.needed("length")?;
    let size = object.number("length")?.unwrap_or(0);
    if size == 0 || size > 64 {
        return length.fault(MetadataFault::BadValue("length: it must be 1 to 64 bits"));
    }
    Ok(Fixed { size, align: alignment(object, "alignment")?, byte_order })
}

/// The alignment in property `name`, in bits; 1 without it.
fn alignment(object: &Object<'_>, name: &'static str) -> Parsed<u32> {
    let align: u32 = object.number(name)?.unwrap_or(1);
    if align.is_power_of_two() && align <= MAX_ALIGN {
        return Ok(align);
    }
    object.needed(name)?.fault(MetadataFault::BadValue("alignment: it must be a power of two up to 65536"))
}

fn fixed_int(object: &Object<'_>, signed: bool) -> Parsed<IntClass> {
    let Fixed { size, align, byte_order } = fixed(object)?;
    Ok(IntClass { align, byte_order, ..IntClass::new(size, signed) })
}

fn leb128(signed: bool) -> IntClass {
    IntClass { coding: IntCoding::Leb128, ..IntClass::new(64, signed) }
}

fn bit_map(object: &Object<'_>, flags: Vec<Mapping>) -> Parsed<FieldClass> {
    let Fixed { size, align, byte_order } = fixed(object)?;
    Ok(FieldClass::BitMap(BitMapClass { size, align, byte_order, flags }))
}

fn float(object: &Object<'_>) -> Parsed<FieldClass> {
    let length: Option<u32> = object.number("length")?;
    if !matches!(length, None | Some(16 | 32 | 64)) {
        return object
            .needed("length")?
            .fault(MetadataFault::Unsupported("floating point number of other than 16, 32 or 64 bits"));
    }
    let Fixed { size, align, byte_order } = fixed(object)?;
    Ok(FieldClass::Float(FloatClass { size, align, byte_order }))
}

fn encoding(object: &Object<'_>) -> Parsed<Encoding> {
    match object.text("encoding")? {
        None | Some("utf-8") => Ok(Encoding::Utf8),
        Some("utf-16be") => Ok(Encoding::Utf16Be),
        Some("utf-16le") => Ok(Encoding::Utf16Le),
        Some("utf-32be") => Ok(Encoding::Utf32Be),
        Some("utf-32le") => Ok(Encoding::Utf32Le),
        Some(_) => object.needed("encoding")?.fault(MetadataFault::BadValue("encoding")),
    }
}

/// The roles of a class, with their places.
fn roles<'n, 't>(object: &'n Object<'t>) -> Parsed<Vec<(&'n Node<'t>, Roles)>> {
    let Some(node) = object.get("roles") else { return Ok(Vec::new()) };
    let Some(names) = node.array() else { return node.fault(MetadataFault::BadValue("roles")) };
    let known = |node: &'n Node<'t>| {
        let role = ROLES.iter().find(|role| Some(role.name) == node.text());
        role.map_or_else(|| node.fault(MetadataFault::Unknown("role")), |role| Ok((node, role.role)))
    };
    names.iter().map(known).collect()
}

/// `{ "name": [[1, 2], [4, 4]], ... }`
fn mappings(object: &Object<'_>, name: &'static str) -> Parsed<Vec<Mapping>> {
    let Some(node) = object.get(name) else { return Ok(Vec::new()) };
    let Some(mappings) = node.object() else { return node.fault(MetadataFault::BadValue(name)) };
    let mapping = |(label, node): &(std::borrow::Cow<'_, str>, Node<'_>)| {
        Ok(Mapping { label: label.to_string(), ranges: ranges(node)? })
    };
    mappings.properties.iter().map(mapping).collect()
}

/// `[[1, 2], [4, 4]]`
fn ranges(node: &Node<'_>) -> Parsed<Vec<Range>> {
    let range = |node: &Node<'_>| {
        if let Some([lower, upper]) = node.array()
            && let (Some(lower), Some(upper)) = (lower.integer(), upper.integer())
            && lower <= upper
        {
            return Ok(Range { lower, upper });
        }
        node.fault(MetadataFault::BadValue(
            "range: it must be two integers, the first no greater than the second",
        ))
    };
    match node.array() {
        Some(ranges) if !ranges.is_empty() => ranges.iter().map(range).collect(),
        _ => node.fault(MetadataFault::BadValue("integer range set")),
    }
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

fn origin_scope(origin: &Node<'_>) -> Parsed<Scope> {
    let found = ORIGINS.into_iter().find(|(name, _)| Some(*name) == origin.text());
    let bad = MetadataFault::BadValue("origin of a field location");
    found.map_or_else(|| origin.fault(bad), |(_, scope)| Ok(scope))
}

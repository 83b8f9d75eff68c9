//! Makes a trace class one that CTF 1.8 can express, for the same data.

use super::WriteError;
use crate::model::int_limits;
use crate::model::{
    ArrayClass, Base, ByteOrder, Encoding, EnumClass, FieldClass, FieldRef, IntClass, IntCoding, Length,
    Mapping, OptionClass, Range, Roles, Scope, StreamClass, StructClass, TraceClass, VariantClass,
};

type Lowered<T> = Result<T, WriteError>;

/// Members renamed: where they were, and their name now.
type Renames = Vec<(FieldRef, &'static str)>;

/// A copy of `trace` within CTF 1.8.
pub(super) fn lower(trace: &TraceClass) -> Lowered<TraceClass> {
    let mut trace = trace.clone();
    let mut header_renames = Renames::new();
    if let Some(header) = &mut trace.packet_header {
        rename(header, Scope::PacketHeader, &mut Vec::new(), &mut header_renames);
        fix_struct(header, &header_renames);
        simplify_struct(header)?;
    }
    for stream in &mut trace.streams {
        let mut renames = header_renames.clone();
        for (scope, class) in [
            (Scope::PacketContext, &mut stream.packet_context),
            (Scope::EventHeader, &mut stream.event_header),
        ] {
            if let Some(class) = class {
                rename(class, scope, &mut Vec::new(), &mut renames);
            }
        }
        for class in structs_mut(stream) {
            fix_struct(class, &renames);
            simplify_struct(class)?;
        }
    }
    label_selectors(&mut trace);
    Ok(trace)
}

/// The structures of a stream class and its events.
fn structs_mut(stream: &mut StreamClass) -> impl Iterator<Item = &mut StructClass> {
    let own = [&mut stream.packet_context, &mut stream.event_header, &mut stream.common_context];
    let events = stream.events.iter_mut().flat_map(|e| [&mut e.specific_context, &mut e.payload]);
    own.into_iter().chain(events).flatten()
}

/// The name by which CTF 1.8 knows a role.
fn reserved_name(roles: Roles, scope: Scope) -> Option<&'static str> {
    let names: &[(Roles, &'static str)] = match scope {
        Scope::PacketHeader => &[
            (Roles::PACKET_MAGIC, "magic"),
            (Roles::METADATA_UUID, "uuid"),
            (Roles::STREAM_CLASS_ID, "stream_id"),
            (Roles::STREAM_ID, "stream_instance_id"),
        ],
        Scope::PacketContext => &[
            (Roles::CONTENT_LENGTH, "content_size"),
            (Roles::TOTAL_LENGTH, "packet_size"),
            (Roles::SEQUENCE_NUMBER, "packet_seq_num"),
            (Roles::DISCARDED, "events_discarded"),
            (Roles::TIMESTAMP, "timestamp_begin"),
            (Roles::PACKET_END_TIMESTAMP, "timestamp_end"),
        ],
        Scope::EventHeader => &[(Roles::EVENT_CLASS_ID, "id"), (Roles::TIMESTAMP, "timestamp")],
        _ => &[],
    };
    names.iter().find(|(role, _)| roles.contains(*role)).map(|(_, name)| *name)
}

fn roles_of(class: &FieldClass) -> Roles {
    match class {
        FieldClass::Int(int) => int.roles,
        FieldClass::Enum(class) => class.int.roles,
        FieldClass::Blob(class) => class.roles,
        FieldClass::Array(class) => class.roles,
        _ => Roles::NONE,
    }
}

/// Gives members with a role their reserved name.
fn rename(class: &mut StructClass, scope: Scope, path: &mut Vec<String>, renames: &mut Renames) {
    for member in &mut class.members {
        path.push(member.name.clone());
        if let Some(name) = reserved_name(roles_of(&member.class), scope).filter(|name| *name != member.name)
        {
            renames.push((FieldRef { scope, path: path.clone() }, name));
            member.name = name.to_owned();
        }
        rename_field(&mut member.class, scope, path, renames);
        path.pop();
    }
}

fn rename_field(class: &mut FieldClass, scope: Scope, path: &mut Vec<String>, renames: &mut Renames) {
    match class {
        FieldClass::Struct(class) => rename(class, scope, path, renames),
        FieldClass::Variant(class) => {
            class.options.iter_mut().for_each(|option| rename_field(&mut option.class, scope, path, renames));
        }
        FieldClass::Optional(class) => rename_field(&mut class.class, scope, path, renames),
        _ => {}
    }
}

/// Makes references follow the renames.
fn fix_struct(class: &mut StructClass, renames: &Renames) {
    if !renames.is_empty() {
        class.members.iter_mut().for_each(|member| fix(&mut member.class, renames));
    }
}

fn fix(class: &mut FieldClass, renames: &Renames) {
    let follow = |target: &mut FieldRef| {
        let old = target.path.clone();
        for (renamed, name) in renames.iter().filter(|(renamed, _)| renamed.scope == target.scope) {
            if old.starts_with(&renamed.path) {
                target.path[renamed.path.len() - 1] = (*name).to_owned();
            }
        }
    };
    let follow_length = |length: &mut Length| {
        if let Length::Dynamic(target) = length {
            follow(target);
        }
    };
    match class {
        FieldClass::Text(c) => follow_length(&mut c.length),
        FieldClass::Blob(c) => follow_length(&mut c.length),
        FieldClass::Array(c) => {
            follow_length(&mut c.length);
            fix(&mut c.element, renames);
        }
        FieldClass::Struct(c) => fix_struct(c, renames),
        FieldClass::Variant(c) => {
            follow(&mut c.selector);
            c.options.iter_mut().for_each(|option| fix(&mut option.class, renames));
        }
        FieldClass::Optional(c) => {
            follow(&mut c.selector);
            fix(&mut c.class, renames);
        }
        _ => {}
    }
}

fn simplify_struct(class: &mut StructClass) -> Lowered<()> {
    class.members.iter_mut().try_for_each(|member| simplify(&mut member.class))
}

/// Replaces classes that CTF 1.8 lacks.
fn simplify(class: &mut FieldClass) -> Lowered<()> {
    match class {
        FieldClass::Int(int) => check_int(int)?,
        FieldClass::Enum(class) => check_int(&class.int)?,
        FieldClass::Bool(c) => {
            // Whether all bits are 0 does not depend on their order.
            let byte_order = if c.byte_order.is_big() { ByteOrder::Big } else { ByteOrder::Little };
            let int = IntClass { align: c.align, byte_order, ..IntClass::new(c.size, false) };
            let most = int_limits(&int).upper;
            let mapping = |label: &str, lower, upper| Mapping {
                label: label.into(),
                ranges: vec![Range { lower, upper }],
            };
            let mappings = vec![mapping("false", 0, 0), mapping("true", 1, most)];
            *class = FieldClass::Enum(EnumClass { int, mappings });
        }
        FieldClass::BitMap(c) => {
            check_order(c.byte_order)?;
            let int = IntClass::new(c.size, false).with_base(Base::Hexadecimal);
            *class = FieldClass::Int(IntClass { align: c.align, byte_order: c.byte_order, ..int });
        }
        FieldClass::String(c) => check_encoding(c.encoding)?,
        FieldClass::Text(c) => check_encoding(c.encoding)?,
        FieldClass::Blob(c) => {
            let byte = IntClass::new(8, false).with_base(Base::Hexadecimal);
            let element = Box::new(FieldClass::Int(byte));
            let length = c.length.clone();
            *class = FieldClass::Array(ArrayClass { length, min_align: 1, element, roles: c.roles });
        }
        FieldClass::Array(c) => {
            simplify(&mut c.element)?;
            if c.min_align > c.element.align() {
                return Err(WriteError::NotInCtf1("minimum alignment of arrays"));
            }
        }
        FieldClass::Struct(c) => simplify_struct(c)?,
        FieldClass::Variant(c) => c.options.iter_mut().try_for_each(|option| simplify(&mut option.class))?,
        FieldClass::Optional(c) => {
            simplify(&mut c.class)?;
            let present = if c.ranges.is_empty() {
                vec![Range { lower: 1, upper: i128::MAX }]
            } else {
                c.ranges.clone()
            };
            let nothing = FieldClass::Struct(StructClass::default());
            let options = vec![
                OptionClass { name: "none".into(), ranges: complement(&present), class: nothing },
                OptionClass { name: "some".into(), ranges: present, class: (*c.class).clone() },
            ];
            *class = FieldClass::Variant(VariantClass { selector: c.selector.clone(), options });
        }
        FieldClass::Float(c) => check_order(c.byte_order)?,
    }
    Ok(())
}

fn check_order(order: ByteOrder) -> Lowered<()> {
    if order.is_reversed() { Err(WriteError::NotInCtf1("fields with reversed bits")) } else { Ok(()) }
}

fn check_int(int: &IntClass) -> Lowered<()> {
    match int.coding {
        IntCoding::Fixed => check_order(int.byte_order),
        IntCoding::Leb128 => Err(WriteError::NotInCtf1("variable-length integers")),
    }
}

fn check_encoding(encoding: Encoding) -> Lowered<()> {
    match encoding {
        Encoding::Utf8 => Ok(()),
        _ => Err(WriteError::NotInCtf1("texts in UTF-16 or UTF-32")),
    }
}

/// All integers outside `ranges`.
fn complement(ranges: &[Range]) -> Vec<Range> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| range.lower);
    let mut outside = Vec::new();
    let mut next = i128::MIN;
    for range in sorted {
        if range.lower > next {
            outside.push(Range { lower: next, upper: range.lower - 1 });
        }
        if range.upper == i128::MAX {
            return outside;
        }
        next = next.max(range.upper + 1);
    }
    outside.push(Range { lower: next, upper: i128::MAX });
    outside
}

/// Makes every selector an enumeration with a label for each option, and every option's name that label.
fn label_selectors(trace: &mut TraceClass) {
    for stream in 0..trace.streams.len() {
        let events = trace.streams[stream].events.len();
        label_scope(trace, stream, None, Scope::PacketHeader);
        for scope in [Scope::PacketContext, Scope::EventHeader, Scope::CommonContext] {
            label_scope(trace, stream, None, scope);
        }
        for event in 0..events {
            label_scope(trace, stream, Some(event), Scope::SpecificContext);
            label_scope(trace, stream, Some(event), Scope::Payload);
        }
    }
}

/// The structure of `scope` as seen from an event of a stream.
fn root(
    trace: &mut TraceClass,
    stream: usize,
    event: Option<usize>,
    scope: Scope,
) -> Option<&mut StructClass> {
    if scope == Scope::PacketHeader {
        return trace.packet_header.as_mut();
    }
    let stream = trace.streams.get_mut(stream)?;
    match scope {
        Scope::PacketContext => stream.packet_context.as_mut(),
        Scope::EventHeader => stream.event_header.as_mut(),
        Scope::CommonContext => stream.common_context.as_mut(),
        Scope::SpecificContext => stream.events.get_mut(event?)?.specific_context.as_mut(),
        _ => stream.events.get_mut(event?)?.payload.as_mut(),
    }
}

/// Names and values of a variant's options.
type Options = Vec<(String, Vec<Range>)>;

fn label_scope(trace: &mut TraceClass, stream: usize, event: Option<usize>, scope: Scope) {
    let mut variants = Vec::new();
    if let Some(class) = root(trace, stream, event, scope) {
        class.members.iter().for_each(|member| collect(&member.class, &mut variants));
    }
    for (target, options) in &mut variants {
        if let Some(root) = root(trace, stream, event, target.scope) {
            label_members(root, &target.path, options);
        }
    }
    if let Some(class) = root(trace, stream, event, scope) {
        let mut options = variants.into_iter().map(|(_, options)| options);
        class.members.iter_mut().for_each(|member| apply(&mut member.class, &mut options));
    }
}

/// All variants in a field class, outer ones first.
fn collect(class: &FieldClass, found: &mut Vec<(FieldRef, Options)>) {
    match class {
        FieldClass::Struct(c) => c.members.iter().for_each(|member| collect(&member.class, found)),
        FieldClass::Array(c) => collect(&c.element, found),
        FieldClass::Variant(c) => {
            let options =
                c.options.iter().map(|option| (option.name.clone(), option.ranges.clone())).collect();
            found.push((c.selector.clone(), options));
            c.options.iter().for_each(|option| collect(&option.class, found));
        }
        _ => {}
    }
}

/// Writes names and values of options back, in the order of [`collect`].
fn apply(class: &mut FieldClass, found: &mut impl Iterator<Item = Options>) {
    match class {
        FieldClass::Struct(c) => c.members.iter_mut().for_each(|member| apply(&mut member.class, found)),
        FieldClass::Array(c) => apply(&mut c.element, found),
        FieldClass::Variant(c) => {
            for (option, (name, ranges)) in c.options.iter_mut().zip(found.next().unwrap_or_default()) {
                option.name = name;
                option.ranges = ranges;
            }
            c.options.iter_mut().for_each(|option| apply(&mut option.class, found));
        }
        _ => {}
    }
}

/// Labels the selectors at `path`.
fn label_members(class: &mut StructClass, path: &[String], options: &mut Options) {
    let Some((name, rest)) = path.split_first() else { return };
    for member in class.members.iter_mut().filter(|member| member.name == *name) {
        label_field(&mut member.class, rest, options);
    }
}

fn label_field(class: &mut FieldClass, path: &[String], options: &mut Options) {
    match class {
        FieldClass::Struct(c) => label_members(c, path, options),
        FieldClass::Array(c) => label_field(&mut c.element, path, options),
        FieldClass::Variant(c) => c.options.iter_mut().for_each(|o| label_field(&mut o.class, path, options)),
        FieldClass::Enum(c) if path.is_empty() => label_options(c, options),
        FieldClass::Int(int) if path.is_empty() => {
            let mut selector = EnumClass { int: int.clone(), mappings: Vec::new() };
            label_options(&mut selector, options);
            *class = FieldClass::Enum(selector);
        }
        _ => {}
    }
}

/// Finds or adds a label for each option, and gives the option that name.
fn label_options(selector: &mut EnumClass, options: &mut Options) {
    let limits = int_limits(&selector.int);
    for (index, (name, ranges)) in options.iter_mut().enumerate() {
        ranges.retain(|range| range.lower <= limits.upper && range.upper >= limits.lower);
        for range in ranges.iter_mut() {
            *range = Range { lower: range.lower.max(limits.lower), upper: range.upper.min(limits.upper) };
        }
        // A label with an underscore is the same name to a person, if CTF 1.8 metadata is where it came from.
        let same = |label: &str| {
            label.strip_prefix('_').unwrap_or(label) == name && super::tsdl::is_identifier(label)
        };
        let known = selector.mappings.iter().find(|m| m.ranges == *ranges && same(&m.label));
        let mut label = match known {
            Some(mapping) => mapping.label.clone(),
            None if name.is_empty() => format!("option_{index}"),
            None => super::tsdl::identifier(name),
        };
        loop {
            match selector.mappings.iter().find(|mapping| mapping.label == label) {
                Some(mapping) if mapping.ranges == *ranges => break,
                Some(_) => label.push('_'),
                None => {
                    selector.mappings.push(Mapping { label: label.clone(), ranges: ranges.clone() });
                    break;
                }
            }
        }
        *name = label;
    }
}

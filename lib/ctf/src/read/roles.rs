//! Roles: their names in CTF 2, and what CTF 1.8 gives by reserved names (sections 5 and 6), with the default
//! clocks.

use super::{ClassPlaces, Oddities, Part};
use crate::error::{MetadataFault, Oddity};
use crate::model::{
    ClockClass, FieldClass, IntClass, Length, Origin, Roles, Scope, StreamClass, StructClass, TraceClass,
};

/// A role of CTF 2, and where a field can have it (CTF2-SPEC-2.0 sections 5.6.1 and 5.8.1).
pub(crate) struct RoleScope {
    pub(crate) name: &'static str,
    pub(crate) role: Roles,
    pub(crate) scopes: &'static [Scope],
}

const HEADER: &[Scope] = &[Scope::PacketHeader];
const CONTEXT: &[Scope] = &[Scope::PacketContext];

const fn role(name: &'static str, role: Roles, scopes: &'static [Scope]) -> RoleScope {
    RoleScope { name, role, scopes }
}

/// The roles of CTF 2.
pub(crate) const ROLES: [RoleScope; 11] = [
    role("packet-magic-number", Roles::PACKET_MAGIC, HEADER),
    role("metadata-stream-uuid", Roles::METADATA_UUID, HEADER),
    role("data-stream-class-id", Roles::STREAM_CLASS_ID, HEADER),
    role("data-stream-id", Roles::STREAM_ID, HEADER),
    role("packet-content-length", Roles::CONTENT_LENGTH, CONTEXT),
    role("packet-total-length", Roles::TOTAL_LENGTH, CONTEXT),
    role("packet-sequence-number", Roles::SEQUENCE_NUMBER, CONTEXT),
    role("discarded-event-record-counter-snapshot", Roles::DISCARDED, CONTEXT),
    role("default-clock-timestamp", Roles::TIMESTAMP, &[Scope::PacketContext, Scope::EventHeader]),
    role("packet-end-default-clock-timestamp", Roles::PACKET_END_TIMESTAMP, CONTEXT),
    role("event-record-class-id", Roles::EVENT_CLASS_ID, &[Scope::EventHeader]),
];

type Inferred = Result<(), MetadataFault>;

/// Sets the roles of all fields with reserved names, and each stream's default clock.
///
/// # Errors
/// A reserved name of a field of another type: the packet or event could be read in two ways.
pub(super) fn infer(
    trace: &mut TraceClass,
    places: &ClassPlaces,
    oddities: &mut Oddities,
) -> Result<(), (MetadataFault, Part)> {
    if let Some(header) = &mut trace.packet_header {
        infer_packet_header(header).map_err(|kind| (kind, Part::Trace))?;
    }
    let mut unmapped = None;
    for (index, stream) in trace.streams.iter_mut().enumerate() {
        if has_unmapped_time(stream) {
            let (clock, oddity) = match trace.clocks.len() {
                0 => (Some(0), Oddity::TimeWithoutClock),
                1 => (Some(0), Oddity::UnmappedTime),
                _ => (None, Oddity::AmbiguousTime),
            };
            oddities.note(places.of(Part::Stream(index)), oddity);
            map_times(stream, clock);
            unmapped = unmapped.or(clock);
        }
        infer_stream(stream).map_err(|kind| (kind, Part::Stream(index)))?;
    }
    if unmapped.is_some() && trace.clocks.is_empty() {
        trace.clocks.push(ClockClass { origin: Origin::Unknown, ..ClockClass::default() });
    }
    Ok(())
}

fn infer_stream(stream: &mut StreamClass) -> Inferred {
    if let Some(header) = &mut stream.event_header {
        infer_event_header(header)?;
        stream.clock = find_clock(header);
    }
    if let Some(context) = &mut stream.packet_context {
        infer_packet_context(context)?;
        stream.clock = stream.clock.or_else(|| find_clock(context));
    }
    Ok(())
}

/// The integer of an integer or enumeration.
fn int_mut(class: &mut FieldClass) -> Option<&mut IntClass> {
    match class {
        FieldClass::Int(int) => Some(int),
        FieldClass::Enum(class) => Some(&mut class.int),
        _ => None,
    }
}

/// Gives a field a role that only unsigned integers can have.
fn give(class: &mut FieldClass, role: Roles) -> Inferred {
    match int_mut(class) {
        Some(int) if !int.signed => {
            int.roles |= role;
            Ok(())
        }
        _ => Err(MetadataFault::BadRole("a field with a reserved name must be an unsigned integer")),
    }
}

fn infer_packet_header(class: &mut StructClass) -> Inferred {
    for member in &mut class.members {
        let role = match member.name.as_str() {
            "magic" => Roles::PACKET_MAGIC,
            "stream_id" => Roles::STREAM_CLASS_ID,
            "stream_instance_id" => Roles::STREAM_ID,
            "uuid" => {
                infer_uuid(&mut member.class)?;
                continue;
            }
            _ => continue,
        };
        give(&mut member.class, role)?;
        if role == Roles::PACKET_MAGIC && int_mut(&mut member.class).is_none_or(|int| int.size != 32) {
            return Err(MetadataFault::BadRole("the packet's magic number must have 32 bits"));
        }
    }
    Ok(())
}

fn infer_uuid(class: &mut FieldClass) -> Inferred {
    match class {
        FieldClass::Array(array)
            if array.length == Length::Static(16)
                && matches!(&*array.element, FieldClass::Int(int) if int.size == 8) =>
        {
            array.roles |= Roles::METADATA_UUID;
            return Ok(());
        }
        // Sixteen characters are no UUID to compare, and take as many bytes.
        FieldClass::Text(text) if text.length == Length::Static(16) => return Ok(()),
        _ => {}
    }
    Err(MetadataFault::BadRole("the packet's UUID must be an array of 16 bytes"))
}

fn infer_packet_context(class: &mut StructClass) -> Inferred {
    for member in &mut class.members {
        let role = match member.name.as_str() {
            "content_size" => Roles::CONTENT_LENGTH,
            "packet_size" => Roles::TOTAL_LENGTH,
            "packet_seq_num" => Roles::SEQUENCE_NUMBER,
            "events_discarded" => Roles::DISCARDED,
            "timestamp_end" => Roles::PACKET_END_TIMESTAMP,
            "timestamp_begin" => Roles::TIMESTAMP,
            _ => {
                if let Some(int) = int_mut(&mut member.class).filter(|int| int.clock.is_some()) {
                    int.roles |= Roles::TIMESTAMP;
                }
                continue;
            }
        };
        give(&mut member.class, role)?;
    }
    Ok(())
}

fn infer_event_header(class: &mut StructClass) -> Inferred {
    class.members.iter_mut().try_for_each(|member| infer_event_field(&member.name, &mut member.class))
}

fn infer_event_field(name: &str, class: &mut FieldClass) -> Inferred {
    match class {
        FieldClass::Struct(_) | FieldClass::Variant(_) if name == "id" || name == "timestamp" => {
            Err(MetadataFault::BadRole("a field with a reserved name must be an unsigned integer"))
        }
        FieldClass::Struct(class) => infer_event_header(class),
        FieldClass::Variant(class) => {
            class.options.iter_mut().try_for_each(|o| infer_event_field(&o.name, &mut o.class))
        }
        class if name == "id" => give(class, Roles::EVENT_CLASS_ID),
        class => {
            let mapped = int_mut(class).is_some_and(|int| int.clock.is_some());
            if mapped { give(class, Roles::TIMESTAMP) } else { Ok(()) }
        }
    }
}

/// Calls `each` with every integer that is called like a timestamp and mapped to no clock.
fn unmapped_times(stream: &mut StreamClass, each: &mut impl FnMut(&mut IntClass)) {
    let context = stream.packet_context.iter_mut().flat_map(|context| &mut context.members);
    for member in context.filter(|member| matches!(&member.name[..], "timestamp_begin" | "timestamp_end")) {
        int_mut(&mut member.class).filter(|int| int.clock.is_none()).map(&mut *each);
    }
    for member in stream.event_header.iter_mut().flat_map(|header| &mut header.members) {
        unmapped_time(&member.name, &mut member.class, each);
    }
}

fn unmapped_time(name: &str, class: &mut FieldClass, each: &mut impl FnMut(&mut IntClass)) {
    match class {
        FieldClass::Struct(class) => {
            class.members.iter_mut().for_each(|member| unmapped_time(&member.name, &mut member.class, each));
        }
        FieldClass::Variant(class) => {
            class.options.iter_mut().for_each(|option| unmapped_time(&option.name, &mut option.class, each));
        }
        class => {
            let int = int_mut(class).filter(|int| int.clock.is_none() && name == "timestamp");
            int.map(each);
        }
    }
}

fn has_unmapped_time(stream: &mut StreamClass) -> bool {
    let mut found = false;
    unmapped_times(stream, &mut |_| found = true);
    found
}

fn map_times(stream: &mut StreamClass, clock: Option<usize>) {
    unmapped_times(stream, &mut |int| int.clock = clock);
}

/// Whether a field in `class` has the role.
pub(super) fn has_role(class: &FieldClass, role: Roles) -> bool {
    match class {
        FieldClass::Int(int) => int.roles.contains(role),
        FieldClass::Enum(class) => class.int.roles.contains(role),
        FieldClass::Struct(class) => class.members.iter().any(|member| has_role(&member.class, role)),
        FieldClass::Variant(class) => class.options.iter().any(|option| has_role(&option.class, role)),
        _ => false,
    }
}

/// The first clock that an integer of the structure is mapped to.
fn find_clock(class: &StructClass) -> Option<usize> {
    class.members.iter().find_map(|m| field_clock(&m.class))
}

fn field_clock(class: &FieldClass) -> Option<usize> {
    match class {
        FieldClass::Int(int) => int.clock,
        FieldClass::Enum(class) => class.int.clock,
        FieldClass::Struct(class) => find_clock(class),
        FieldClass::Variant(class) => class.options.iter().find_map(|o| field_clock(&o.class)),
        _ => None,
    }
}

/// A UUID in its usual text form, with or without hyphens.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u32> =
        text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let mut uuid = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(pair[0] * 16 + pair[1]).ok()?;
    }
    Some(uuid)
}

/// The text form of a UUID.
pub(crate) fn format_uuid(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

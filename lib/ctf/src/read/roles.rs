//! Roles that CTF 1.8 gives by name (sections 5 and 6), and default clocks.

use crate::model::{FieldClass, IntClass, Length, Roles, StructClass, TraceClass};

/// Sets the roles of all fields with reserved names, and each stream's default clock.
pub(super) fn infer(trace: &mut TraceClass) {
    if let Some(header) = &mut trace.packet_header {
        infer_packet_header(header);
    }
    for stream in &mut trace.streams {
        if let Some(header) = &mut stream.event_header {
            infer_event_header(header);
            stream.clock = find_clock(header);
        }
        if let Some(context) = &mut stream.packet_context {
            infer_packet_context(context);
            stream.clock = stream.clock.or_else(|| find_clock(context));
        }
    }
}

/// The integer of an integer or enumeration.
fn int_mut(class: &mut FieldClass) -> Option<&mut IntClass> {
    match class {
        FieldClass::Int(int) => Some(int),
        FieldClass::Enum(class) => Some(&mut class.int),
        _ => None,
    }
}

fn infer_packet_header(class: &mut StructClass) {
    for member in &mut class.members {
        let role = match member.name.as_str() {
            "magic" => Roles::PACKET_MAGIC,
            "stream_id" => Roles::STREAM_CLASS_ID,
            "stream_instance_id" => Roles::STREAM_ID,
            "uuid" => {
                if let FieldClass::Array(array) = &mut member.class
                    && array.length == Length::Static(16)
                {
                    array.roles |= Roles::METADATA_UUID;
                }
                continue;
            }
            _ => continue,
        };
        if let Some(int) = int_mut(&mut member.class) {
            int.roles |= role;
        }
    }
}

fn infer_packet_context(class: &mut StructClass) {
    for member in &mut class.members {
        let Some(int) = int_mut(&mut member.class) else { continue };
        int.roles |= match member.name.as_str() {
            "content_size" => Roles::CONTENT_LENGTH,
            "packet_size" => Roles::TOTAL_LENGTH,
            "packet_seq_num" => Roles::SEQUENCE_NUMBER,
            "events_discarded" => Roles::DISCARDED,
            "timestamp_end" => Roles::PACKET_END_TIMESTAMP,
            _ if int.clock.is_some() => Roles::TIMESTAMP,
            _ => Roles::NONE,
        };
    }
}

fn infer_event_header(class: &mut StructClass) {
    for member in &mut class.members {
        infer_event_field(&member.name, &mut member.class);
    }
}

fn infer_event_field(name: &str, class: &mut FieldClass) {
    match class {
        FieldClass::Struct(class) => infer_event_header(class),
        FieldClass::Variant(class) => {
            class.options.iter_mut().for_each(|o| infer_event_field(&o.name, &mut o.class))
        }
        class => {
            if let Some(int) = int_mut(class) {
                if int.clock.is_some() {
                    int.roles |= Roles::TIMESTAMP;
                } else if name == "id" {
                    int.roles |= Roles::EVENT_CLASS_ID;
                }
            }
        }
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

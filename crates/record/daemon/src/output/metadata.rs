//! From event descriptions to a CTF trace class: what the metadata says.

use mote_clock::Conversion;
use mote_ctf::model::{
    Base, ByteOrder, ClockClass, Encoding, EnumClass, EnvValue, EventClass, FieldClass, FieldRef, IntClass,
    Length, LogLevel, Mapping, Member, Origin, Range, Roles, Scope, StreamClass, StructClass, TextClass,
    TraceClass,
};
use mote_layout::packet::{
    CONTEXT_AT, CONTEXT_FIELDS, LOSS_AT, LOSS_AT_ENTRY, LOSS_FIELDS, LOSS_NAMES_ENTRY, STREAM_PER_CPU,
    STREAM_SHARED,
};
use mote_layout::parse::{Description, FieldType, Labels};
use mote_layout::record::{ID_BITS, TIME_BITS};
use mote_layout::stack::USER;
use mote_layout::types::{Integer, Scalar};
use mote_loss::Cause;
use std::collections::{BTreeMap, HashSet};

/// What the metadata says besides the events.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The trace's id.
    pub uuid: [u8; 16],
    /// Name of the machine.
    pub host: String,
    /// Name of the recording.
    pub name: String,
    /// When it began, in seconds since 1970.
    pub created: u64,
    /// `tsc` or `monotonic`.
    pub clock: &'static str,
    /// Whose events these are.
    pub domain: Domain,
    /// All events have the process's stack in front of their fields.
    pub has_stacks: bool,
}

/// Whose events a trace has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Processes', which announce them.
    Processes,
    /// The kernel's. They are named as LTTng names them, without a provider.
    Kernel {
        /// The kernel's release, as uname(2) tells it.
        release: String,
        /// And its version.
        version: String,
    },
}

/// The trace class of a recording with these events (id and description), and this clock.
pub fn trace_class<'d>(
    frame: &Frame,
    conversion: &Conversion,
    events: impl Iterator<Item = (u32, Description<'d>)> + Clone,
) -> TraceClass {
    TraceClass {
        uuid: Some(frame.uuid),
        byte_order: ByteOrder::Little,
        environment: environment(frame),
        packet_header: Some(packet_header()),
        clocks: vec![clock_class(frame, conversion)],
        streams: stream_ids(&frame.domain)
            .iter()
            .map(|id| {
                let classes = events.clone().map(|(id, event)| event_class(id, &event, &frame.domain));
                stream_class(*id, frame, classes.collect())
            })
            .collect(),
        ..TraceClass::default()
    }
}

/// The kernel's rings all belong to a CPU.
fn stream_ids(domain: &Domain) -> &'static [u32] {
    match domain {
        Domain::Processes => &[STREAM_PER_CPU, STREAM_SHARED],
        Domain::Kernel { .. } => &[STREAM_PER_CPU],
    }
}

/// The keys are LTTng's, by which Trace Compass and others tell traces of the kernel from those of processes.
fn environment(frame: &Frame) -> Vec<(String, EnvValue)> {
    let text = |name: &str, value: &str| (name.to_owned(), EnvValue::Str(value.to_owned()));
    let number = |name: &str, value: &str| (name.to_owned(), EnvValue::Int(value.parse().unwrap_or(0)));
    let domain = match &frame.domain {
        Domain::Processes => {
            vec![
                text("domain", "ust"),
                text("tracer_name", "mote"),
                number("tracer_major", env!("CARGO_PKG_VERSION_MAJOR")),
                number("tracer_minor", env!("CARGO_PKG_VERSION_MINOR")),
                text("tracer_buffering_scheme", "uid"),
                number("architecture_bit_width", "64"),
            ]
        }
        Domain::Kernel { release, version } => vec![
            text("domain", "kernel"),
            // Names and fields are those of LTTng's modules: Trace Compass looks here for how events are called, and
            // takes names of other tracers for older ones.
            text("tracer_name", "lttng-modules"),
            number("tracer_major", "2"),
            number("tracer_minor", "13"),
            text("producer", concat!("mote ", env!("CARGO_PKG_VERSION"))),
            text("sysname", "Linux"),
            text("kernel_release", release),
            text("kernel_version", version),
        ],
    };
    let mut all = vec![
        text("hostname", &frame.host),
        text("trace_name", &frame.name),
        ("trace_creation_time_s".to_owned(), EnvValue::Int(frame.created as i64)),
    ];
    all.extend(domain);
    all.extend(loss_entries());
    all
}

/// Where the counters of loss by cause lie in each packet, and what they are.
fn loss_entries() -> [(String, EnvValue); 2] {
    let names: Vec<&str> = Cause::ALL.iter().map(|cause| cause.name()).chain(LOSS_FIELDS).collect();
    [
        (LOSS_AT_ENTRY.to_owned(), EnvValue::Int(LOSS_AT as i64)),
        (LOSS_NAMES_ENTRY.to_owned(), EnvValue::Str(names.join(" "))),
    ]
}

fn clock_class(frame: &Frame, conversion: &Conversion) -> ClockClass {
    ClockClass {
        name: frame.clock.to_owned(),
        description: Some("trace clock of mote".to_owned()),
        frequency: conversion.freq_hz(),
        offset_seconds: conversion.offset_s(),
        offset_cycles: conversion.offset_ticks(),
        origin: Origin::UnixEpoch,
        ..ClockClass::default()
    }
}

fn uint(bits: u32, roles: Roles) -> FieldClass {
    FieldClass::Int(IntClass::new(bits, false).with_roles(roles))
}

fn time(bits: u32, roles: Roles) -> FieldClass {
    FieldClass::Int(IntClass::new(bits, false).with_roles(roles).with_clock(0))
}

/// As `mote_layout::packet::PacketHeader::encode` writes it.
fn packet_header() -> StructClass {
    let mut uuid = FieldClass::array(Length::Static(16), uint(8, Roles::NONE));
    if let FieldClass::Array(array) = &mut uuid {
        array.roles = Roles::METADATA_UUID;
    }
    let magic = IntClass::new(32, false).with_roles(Roles::PACKET_MAGIC).with_base(Base::Hexadecimal);
    StructClass::new([
        ("magic", FieldClass::Int(magic)),
        ("uuid", uuid),
        ("stream_id", uint(32, Roles::STREAM_CLASS_ID)),
        ("stream_instance_id", uint(32, Roles::STREAM_ID)),
    ])
}

fn stream_class(id: u32, frame: &Frame, events: Vec<EventClass>) -> StreamClass {
    let context = CONTEXT_FIELDS.map(|(name, bits)| match name {
        "timestamp_begin" => (name, time(bits, Roles::TIMESTAMP)),
        "timestamp_end" => (name, time(bits, Roles::PACKET_END_TIMESTAMP)),
        "content_size" => (name, uint(bits, Roles::CONTENT_LENGTH)),
        "packet_size" => (name, uint(bits, Roles::TOTAL_LENGTH)),
        "packet_seq_num" => (name, uint(bits, Roles::SEQUENCE_NUMBER)),
        "events_discarded" => (name, uint(bits, Roles::DISCARDED)),
        // A shared ring belongs to no CPU.
        "cpu_id" if id == STREAM_SHARED => ("ring_id", uint(bits, Roles::NONE)),
        _ => (name, uint(bits, Roles::NONE)),
    });
    // As the process sees it, or as the kernel does.
    let thread = if frame.domain == Domain::Processes { "vtid" } else { "tid" };
    let mut common = vec![(thread.to_owned(), FieldClass::int(32))];
    if frame.has_stacks {
        // As LTTng's context; elements as of other sequences (`event_class`).
        let length = format!("{USER}_length");
        let counted = Length::Dynamic(FieldRef::member(Scope::CommonContext, &length));
        common.push((length, FieldClass::uint(16)));
        common.push((USER.to_owned(), FieldClass::array(counted, scalar(Scalar::hex(64)))));
    }
    StreamClass {
        id: u64::from(id),
        clock: Some(0),
        packet_context: Some(StructClass { min_align: CONTEXT_AT as u32 * 8, ..StructClass::new(context) }),
        event_header: Some(StructClass::new([
            ("id", uint(ID_BITS, Roles::EVENT_CLASS_ID)),
            ("timestamp", time(TIME_BITS, Roles::TIMESTAMP)),
        ])),
        common_context: Some(StructClass::new(common)),
        events,
        ..StreamClass::default()
    }
}

fn event_class(id: u32, event: &Description<'_>, domain: &Domain) -> EventClass {
    let mut members = Vec::new();
    let mut taken = HashSet::new();
    for field in event.fields() {
        let counted = |element: FieldClass, members: &mut Vec<Member>, taken: &mut HashSet<String>| {
            let length = apart(taken, &format!("{}_length", field.name));
            let class =
                FieldClass::array(Length::Dynamic(FieldRef::member(Scope::Payload, &length)), element);
            members.push(Member { name: length, class: FieldClass::uint(16) });
            class
        };
        let class = match field.ty {
            FieldType::Scalar(of) => scalar(of),
            FieldType::Str => FieldClass::string(),
            FieldType::Bytes => counted(scalar(Scalar::hex(8)), &mut members, &mut taken),
            FieldType::Sequence(element) => counted(scalar(element), &mut members, &mut taken),
            FieldType::Array(element, len) => FieldClass::array(Length::Static(len as u64), scalar(element)),
            FieldType::Enumeration(Scalar::Integer(of), labels)
            | FieldType::Flags(Scalar::Integer(of), labels) => enumeration(of, labels),
            FieldType::Enumeration(of, _) | FieldType::Flags(of, _) | FieldType::Labelled(of, _) => {
                scalar(of)
            }
            FieldType::FixedText(len) => {
                FieldClass::Text(TextClass { length: Length::Static(len as u64), encoding: Encoding::Utf8 })
            }
        };
        members.push(Member { name: apart(&mut taken, field.name), class });
    }
    EventClass {
        id: u64::from(id),
        name: match domain {
            Domain::Processes => format!("{}:{}", event.provider, event.name),
            Domain::Kernel { .. } => event.name.to_owned(),
        },
        log_level: Some(LogLevel(event.level as i64)),
        payload: Some(StructClass { members, min_align: 1 }),
        ..EventClass::default()
    }
}

/// An enumeration with those labels that name values of the type; without any, it is an integer. A label whose range
/// overlaps an earlier one is left out, for readers refuse it (CTF 1.8, section 4.1.8); two labels may name one value.
fn enumeration(of: Integer, labels: Labels<'_>) -> FieldClass {
    let bits = u32::from(of.bits) - u32::from(of.signed);
    let (least, most) = (if of.signed { -(1i128 << bits) } else { 0 }, (1i128 << bits) - 1);
    let mut named: BTreeMap<i64, i64> = BTreeMap::new();
    let mut is_apart = |first: i64, last: i64| match named.range(..=last).next_back() {
        Some((lower, upper)) if *upper >= first => first == last && (*lower, *upper) == (first, last),
        _ => {
            named.insert(first, last);
            true
        }
    };
    let mappings: Vec<Mapping> = labels
        .iter()
        .filter(|(_, first, last)| i128::from(*first) >= least && i128::from(*last) <= most)
        .filter(|(_, first, last)| is_apart(*first, *last))
        .map(|(label, first, last)| Mapping {
            label: label.to_owned(),
            ranges: vec![Range { lower: first.into(), upper: last.into() }],
        })
        .collect();
    if mappings.is_empty() {
        FieldClass::Int(integer(of))
    } else {
        FieldClass::Enum(EnumClass { int: integer(of), mappings })
    }
}

fn scalar(of: Scalar) -> FieldClass {
    match of {
        Scalar::Integer(of) => FieldClass::Int(integer(of)),
        Scalar::F32 => FieldClass::float(32),
        Scalar::F64 => FieldClass::float(64),
        Scalar::Bool => FieldClass::bool(),
    }
}

fn integer(of: Integer) -> IntClass {
    let base = if of.hex { Base::Hexadecimal } else { Base::Decimal };
    IntClass::new(u32::from(of.bits), of.signed).with_base(base)
}

/// `name`, or with a number behind it when it is taken. Names are apart when they still are with everything but letters
/// and digits made an underscore, and without underscores at their start: that is what CTF 1.8 leaves of them.
fn apart(taken: &mut HashSet<String>, name: &str) -> String {
    let plain = |name: &str| {
        let word: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        word.trim_start_matches('_').to_owned()
    };
    let numbered = (2..).map(|number: u32| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| taken.insert(plain(name))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_overlap_earlier_ones_are_left_out() {
        let of = Integer { bits: 8, signed: false, hex: false };
        let FieldClass::Enum(class) =
            enumeration(of, Labels::new("A=1..3 B=2 C=5 D=5 E=4..6 F=7 G=300 H=0..9"))
        else {
            panic!("no enumeration")
        };
        let labels: Vec<&str> = class.mappings.iter().map(|mapping| mapping.label.as_str()).collect();
        assert_eq!(labels, ["A", "C", "D", "F"]);
    }
}

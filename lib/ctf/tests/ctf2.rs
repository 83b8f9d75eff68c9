//! CTF 2: every kind of field class, from its metadata to its text; and what the metadata says besides.

mod common;

use common::Trace;
use mote_ctf::Value::{self, Bool, Bytes, Count, F64, I64, Selected, Str, U64};
use mote_ctf::model::{EnvValue, LogLevel, Origin, TraceClass};
use mote_ctf::write::encode::{BitWriter, encode_struct};
use mote_ctf::{Packet, Schema, write};

fn schema() -> Schema {
    Schema::parse(include_bytes!("data/everything.json")).unwrap()
}

/// A packet of one event of everything, one with little, one with nothing.
fn packet(trace: &TraceClass) -> Vec<u8> {
    let stream = &trace.streams[0];
    let utf16: Vec<u8> = "é😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf32: Vec<u8> = "añb".chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
    #[rustfmt::skip]
    let everything: Vec<Value<'_>> = [
        &[U64(0x5a5), U64(0x15), U64(0b1000_0000_0000_0101), Bool(true)][..],
        &[F64(-1.5), F64(0.1_f32.into()), F64(1e300), U64(300), U64(5)],
        &[Str(b"text"), Str(&utf16), Str(&utf32), Str(b"12345"), Bytes(&[0xde, 0xad, 0, 1, 2])],
        &[U64(2), Count(2), U64(7), U64(8), Count(5)],
        &[U64(0), Count(0), U64(1), Count(1), Str(b"a"), U64(101), Count(0), U64(0), Count(0)],
        &[U64(9), Count(1), Str(b"")],
        &(0..32).map(|i| Bool(i % 5 == 0)).collect::<Vec<_>>(),
        &[Count(1), U64(u64::MAX), Selected(1), Str(b"chosen"), Count(3), I64(-1), I64(3), I64(-4)],
    ].concat();
    let header = |id, time| [U64(id), U64(time)];
    let context = [I64(-70000), U64(3)];
    let events: [(usize, [&[Value<'_>]; 3]); 3] = [
        (0, [&context, &[], &everything]),
        (1, [&context, &[U64(513)], &[U64(1)]]),
        (2, [&context, &[], &[]]),
    ];
    let mut out = BitWriter::new();
    let uuid = trace.uuid.unwrap();
    encode_struct(
        trace.packet_header.as_ref().unwrap(),
        &[U64(0xc1fc_1fc1), Bytes(&uuid), U64(0), U64(9)],
        &mut out,
    )
    .unwrap();
    let at = out.bit();
    let mut body = out.clone();
    for content in [0, 1] {
        let content = if content == 0 { 0 } else { body.bit() };
        body = out.clone();
        let context =
            [U64(1 << 32), U64((1 << 32) + 99), U64(content), U64(1024 * 8), U64(4), U64(17), U64(6)];
        encode_struct(stream.packet_context.as_ref().unwrap(), &context, &mut body).unwrap();
        for (index, (event, [common, specific, payload])) in events.iter().enumerate() {
            let class = &stream.events[*event];
            // The 24 bits of the clock wrap between the first and the second event.
            let time = [0xff_fff0, 0x10, 0x11][index];
            encode_struct(stream.event_header.as_ref().unwrap(), &header(*event as u64, time), &mut body)
                .unwrap();
            encode_struct(stream.common_context.as_ref().unwrap(), common, &mut body).unwrap();
            for (class, values) in [(&class.specific_context, specific), (&class.payload, payload)] {
                if let Some(class) = class {
                    encode_struct(class, values, &mut body).unwrap();
                }
            }
        }
    }
    assert!(body.bit() > at);
    body.pad_to(1024);
    body.into_bytes()
}

#[test]
fn every_field_class_is_decoded_and_printed() {
    let schema = schema();
    let trace = Trace { metadata: Vec::new(), streams: vec![packet(schema.trace())] };
    let lines = trace.lines_with(&schema);
    let flags: Vec<String> = (0..32).map(|i| format!("[{i}] = {}", i % 5 == 0)).collect();
    let everything = [
        "bits = 0x5A5, rest = 0x15, map = ( \"low\", \"high\" : container = 0x8005 ), yes = true, f16 = -1.5, f32 = 0.1, f64 = 1e+300",
        "vu = ( \"many\" : container = 0x12C ), len = 5, s8 = \"text\", s16 = \"é😀\", s32 = \"añb\", dyn = \"12345\"",
        "blob = { de ad 00 01 02 }",
        "inner = { n = 2, a = [ [0] = 7, [1] = 8 ], b = [ [0] = { k = 0, o = <none> }, [1] = { k = 1, o = { \"a\" } }, \
         [2] = { k = 101, o = <none> }, [3] = { k = 0, o = <none> }, [4] = { k = 9, o = { \"\" } } ] }",
        &format!("flags = [ {} ]", flags.join(", ")),
        "maybe = { 18446744073709551615 }, choice = { \"chosen\" }",
        "from context = [ [0] = 07, [1] = 03, [2] = 04 ]",
    ]
    .join(", ");
    let context = "{ cpu_id = 6 }, { tid = -70000, n = 3 }";
    assert_eq!(
        lines[0],
        format!("[{:020}] test:everything: {context}, {{ {everything} }}", (1_u64 << 32) + 0xff_fff0)
    );
    assert_eq!(
        lines[1],
        format!("[{:020}] test:small: {context}, {{ c = 513 }}, {{ x = 1 }}", (1_u64 << 32) + 0x100_0010)
    );
    assert_eq!(lines[2], format!("[{:020}] test:nothing: {context}", (1_u64 << 32) + 0x100_0011));
}

#[test]
fn packets_tell_what_they_are() {
    let schema = schema();
    let bytes = packet(schema.trace());
    let packet = Packet::new(&schema, &bytes).unwrap();
    let header = packet.header;
    assert_eq!((header.stream, header.stream_id, header.cpu_id), (0, Some(9), Some(6)));
    assert_eq!((header.timestamp_begin, header.timestamp_end), (Some(1 << 32), Some((1 << 32) + 99)));
    assert_eq!((header.sequence_number, header.events_discarded), (Some(4), Some(17)));
    assert_eq!((header.packet_bytes(), header.header_bits), (Some(1024), (32 + 52) * 8));
    assert_eq!(packet.context().integer("d"), Some(17));
}

#[test]
fn fields_can_be_walked() {
    let schema = schema();
    let bytes = packet(schema.trace());
    let mut packet = Packet::new(&schema, &bytes).unwrap();
    let event = packet.next_event().unwrap().unwrap();
    assert_eq!(event.class.log_level, Some(LogLevel::WARNING));
    let payload = event.payload();
    let inner = payload.get("inner").unwrap();
    let of_b: Vec<_> = inner.children().nth(2).unwrap().children().collect();
    assert_eq!(of_b.len(), 5);
    let option = of_b[1].children().nth(1).unwrap();
    assert_eq!(option.children().next().unwrap().value(), Some(Value::Str(b"a")));
    assert_eq!(payload.get("vu").unwrap().label(), Some("many"));
    assert_eq!(payload.value("choice"), Some(Value::Selected(1)));
    assert_eq!(payload.get("choice").unwrap().children().next().unwrap().name, "two");
    assert_eq!(payload.iter().count(), payload.class().members.len());
    assert_eq!(payload.get("from context").unwrap().children().last().unwrap().integer(), Some(-4));
}

#[test]
fn metadata_says_more_than_fields() {
    let schema = schema();
    let trace = schema.trace();
    assert_eq!(trace.env("n"), Some(&EnvValue::Int(-5)));
    assert_eq!(trace.env_str("host"), Some("box"));
    assert_eq!(trace.attributes.as_deref(), Some(r#"{"test":{"colour":"red"}}"#));
    let clock = &trace.clocks[0];
    assert_eq!((clock.frequency, clock.offset_seconds, clock.offset_cycles), (2_400_000_123, -5, 17));
    assert_eq!(clock.origin, Origin::Custom { namespace: None, name: "boot".into(), uid: "77".into() });
    assert_eq!(clock.to_nanos(2_400_000_123 - 17), -4_000_000_000);
    let event = &trace.streams[0].events[0];
    assert_eq!(event.emf_uri.as_deref(), Some("http://x"));
    assert_eq!(event.attributes.as_deref(), Some(r#"{"test":{"n":[1,2]}}"#));
    assert_eq!(event.provider(), "test");
    assert_eq!(*Schema::parse(write::json(trace).as_bytes()).unwrap().trace(), *trace);
}

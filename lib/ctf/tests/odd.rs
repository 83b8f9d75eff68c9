//! Odd traces that are read: what tracers really wrote, and what the specifications allow and few use.

use mote_ctf::{Cursor, DecodeFault, Oddity, Packet, Schema};

fn schema(text: &str) -> Schema {
    Schema::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Times in nanoseconds and the integer `a` of the events of one packet.
fn events(schema: &Schema, bytes: &[u8]) -> Vec<(i64, i128)> {
    let mut packet = Packet::new(schema, bytes).expect("a packet");
    let mut all = Vec::new();
    while let Some(event) = packet.next_event().expect("an event") {
        let clock = schema.trace().clock_of(event.stream).map(|clock| clock.scale());
        let time = clock.map_or(0, |clock| clock.to_nanos(event.timestamp));
        all.push((time, event.payload().integer("a").unwrap_or(-1)));
    }
    all
}

/// CTF 1.8 with these clocks, an event header with a time of no clock, and `uint8_t a`.
fn without_map(clocks: &str) -> Schema {
    schema(&format!(
        "trace {{ major = 1; minor = 8; byte_order = le; }}; {clocks}
        typealias integer {{ size = 8; }} := uint8_t;
        stream {{
            event.header := struct {{ integer {{ size = 64; }} timestamp; }};
        }};
        event {{ name = e; fields := struct {{ uint8_t a; }}; }};"
    ))
}

#[test]
fn a_time_that_is_mapped_to_no_clock_is_of_the_only_one() {
    let bytes = [5, 0, 0, 0, 0, 0, 0, 0, 7];
    let schema = without_map("clock { name = c; freq = 1000; offset_s = 2; };");
    assert_eq!(events(&schema, &bytes), [(2_005_000_000, 7)]);
    let kinds = |schema: &Schema| schema.warnings().iter().map(|w| w.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&schema), [Oddity::UnmappedTime]);
    let schema = without_map("");
    assert_eq!((events(&schema, &bytes), kinds(&schema)), (vec![(5, 7)], vec![Oddity::TimeWithoutClock]));
    let schema = without_map("clock { name = c; }; clock { name = d; };");
    assert_eq!((events(&schema, &bytes), kinds(&schema)), (vec![(0, 7)], vec![Oddity::AmbiguousTime]));
}

#[test]
fn a_packet_of_another_trace_is_marked() {
    let schema = schema(
        "trace { major = 1; minor = 8; byte_order = le; uuid = \"00010203-0405-0607-0809-0a0b0c0d0e0f\";
            packet.header := struct { integer { size = 8; align = 8; } uuid[16]; }; };
        event { name = e; fields := struct { integer { size = 8; } a; }; };",
    );
    let own: Vec<u8> = (0..17).collect();
    assert!(!Packet::new(&schema, &own).expect("a packet").header.foreign_uuid);
    let other = [&own[1..], &[9]].concat();
    assert!(Packet::new(&schema, &other).expect("a packet").header.foreign_uuid);
    assert_eq!(events(&schema, &other), [(0, 9)]);
}

#[test]
fn a_length_can_be_in_the_environment() {
    let schema = schema(
        "trace { major = 1; minor = 8; byte_order = le; };
        event { name = e; fields := struct {
            integer { size = 8; } b[env.n]; string { encoding = UTF8; } c[env.n]; integer { size = 8; } a; }; };
        env { n = 2; };",
    );
    assert_eq!(events(&schema, b"\x01\x02x\0yz\0\x09"), [(0, 9)]);
}

#[test]
fn bits_are_reversed_where_the_metadata_say_so() {
    let class = |bits: &str, order: &str| {
        format!(
            r#"{{"type":"fixed-length-unsigned-integer","length":{bits},
            "byte-order":"{order}-endian","bit-order":"{}"}}"#,
            if order == "little" { "last-to-first" } else { "first-to-last" }
        )
    };
    for (bits, order, bytes, value) in [
        ("8", "little", &[0b0000_0110_u8][..], 0b0110_0000),
        ("16", "little", &[0x01, 0x00], 0x8000),
        ("8", "big", &[0b0000_0110], 0b0110_0000),
        ("16", "big", &[0x80, 0x01], 0x8001),
        ("12", "big", &[0x80, 0x10], 0x801),
        ("12", "little", &[0x03, 0x0f], 0b1100_0000_1111),
    ] {
        let schema = schema(&format!(
            r#"{{"type":"preamble","version":2}}{{"type":"data-stream-class"}}{{"type":"event-record-class",
            "payload-field-class":{{"type":"structure","member-classes":[{{"name":"a","field-class":{}}},
            {{"name":"rest","field-class":{{"type":"static-length-blob","length":0}}}}]}}}}"#,
            class(bits, order)
        ));
        assert_eq!(events(&schema, bytes)[0].1, value, "{bits} bits, {order}");
    }
}

#[test]
fn a_stream_without_packet_sizes_that_is_cut_ends_with_an_error() {
    let schema = without_map("clock { name = c; };");
    let whole = [[1, 0, 0, 0, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 0, 0, 0, 8]].concat();
    for len in 1..=whole.len() {
        let bytes = &whole[..len];
        let mut cursor = Cursor::new();
        cursor.begin(&schema, bytes).expect("a packet without a header");
        let mut seen = 0;
        let end = loop {
            match cursor.advance(&schema, bytes) {
                Ok(true) => seen += 1,
                Ok(false) => break None,
                Err(error) => break Some(error),
            }
        };
        assert_eq!(seen, len / 9, "what was whole is read");
        assert_eq!(
            end.map(|error| error.kind),
            (len % 9 != 0).then_some(DecodeFault::Truncated),
            "cut at {len}"
        );
        assert!(end.is_none_or(|error| error.bit / 8 >= 9 * seen as u64), "the place is in the cut event");
    }
}

/// As many stream classes as some tracers write. Where all of them are searched for each, the time grows with the
/// square of their number.
const MANY: u32 = 20_000;

#[test]
fn twenty_thousand_stream_classes_are_read() {
    let class = |id: u32| {
        format!(
            "stream {{ id = {id}; packet.context := struct {{ uint32_t packet_size; }};
                event.header := struct {{ uint8_t id; }}; }};
            event {{ name = \"e{id}\"; id = 3; stream_id = {id}; fields := struct {{ uint32_t a; }}; }};"
        )
    };
    let text = format!(
        "trace {{ major = 1; minor = 8; byte_order = le;
            packet.header := struct {{ integer {{ size = 32; align = 8; }} magic;
                integer {{ size = 32; align = 8; }} stream_id; }}; }};
        typealias integer {{ size = 32; align = 8; }} := uint32_t;
        typealias integer {{ size = 8; align = 8; }} := uint8_t;
        {}",
        (0..MANY).map(class).collect::<String>()
    );
    let schema = schema(&text);
    assert_eq!(schema.trace().streams.len(), MANY as usize);
    for id in 0..MANY {
        let words = [0xc1fc_1fc1, id, 8 * 17];
        let packet: Vec<u8> =
            words.into_iter().flat_map(u32::to_le_bytes).chain([3]).chain(id.to_le_bytes()).collect();
        assert_eq!(events(&schema, &packet), [(0, i128::from(id))]);
    }
}

#[test]
fn twenty_thousand_stream_classes_of_ctf_2_are_read() {
    let integer = |bits: u32, roles: &str| {
        format!(
            r#"{{"type":"fixed-length-unsigned-integer","length":{bits},"byte-order":"little-endian","alignment":8
            {roles}}}"#
        )
    };
    let structure = |name: &str, class: String| {
        format!(r#"{{"type":"structure","member-classes":[{{"name":"{name}","field-class":{class}}}]}}"#)
    };
    let header = structure("stream", integer(32, r#","roles":["data-stream-class-id"]"#));
    let event_header = structure("id", integer(8, r#","roles":["event-record-class-id"]"#));
    let payload = structure("a", integer(32, ""));
    let class = |id: u32| {
        format!(
            r#"{{"type":"data-stream-class","id":{id},"event-record-header-field-class":{event_header}}}
            {{"type":"event-record-class","id":3,"data-stream-class-id":{id},"name":"e{id}",
            "payload-field-class":{payload}}}"#
        )
    };
    let text = format!(
        r#"{{"type":"preamble","version":2}}{{"type":"trace-class","packet-header-field-class":{header}}}{}"#,
        (0..MANY).map(class).collect::<String>()
    );
    let schema = schema(&text);
    for id in 0..MANY {
        let packet: Vec<u8> = id.to_le_bytes().into_iter().chain([3]).chain(id.to_le_bytes()).collect();
        assert_eq!(events(&schema, &packet), [(0, i128::from(id))]);
    }
}

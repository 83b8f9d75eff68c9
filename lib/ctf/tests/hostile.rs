//! Input made to do harm: each is an error, at once and in little memory.

use mote_ctf::model::{
    ClockClass, EventClass, FieldClass, FieldRef, IntClass, Length, Roles, Scope, StreamClass, StructClass,
    TraceClass,
};
use mote_ctf::{Cursor, DecodeFault, MetadataFault, Schema};

fn fault(metadata: &str) -> MetadataFault {
    Schema::parse(metadata.as_bytes()).expect_err(metadata).kind
}

/// CTF 1.8 metadata with one event of `fields`, after `types`.
fn tsdl(types: &str, fields: &str) -> String {
    format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }}; {types}
        event {{ name = e; fields := struct {{ {fields} }}; }};"
    )
}

fn json(field: &str) -> String {
    format!(
        r#"{{"type":"preamble","version":2}}{{"type":"data-stream-class"}}
        {{"type":"event-record-class","name":"e","payload-field-class":{{"type":"structure","member-classes":[
        {{"name":"f","field-class":{field}}}]}}}}"#
    )
}

#[test]
fn not_metadata() {
    assert_eq!(fault(""), MetadataFault::Empty);
    assert_eq!(fault("  \n"), MetadataFault::Empty);
    assert_eq!(fault("hello world"), MetadataFault::NotMetadata);
    assert_eq!(Schema::parse(b"\x7fELF\xff\xfe").unwrap_err().kind, MetadataFault::NotMetadata);
}

#[test]
fn errors_tell_the_line() {
    let text = "/* CTF 1.8 */\ntrace {\n\tmajor = 1;\n\tbyte_order = middle;\n};\n";
    let error = Schema::parse(text.as_bytes()).unwrap_err();
    assert_eq!((error.line, error.kind), (4, MetadataFault::BadValue("byte_order")));
    assert_eq!(error.to_string(), "metadata line 4, column 15: bad value of byte_order");
    let text = "{\"type\":\"preamble\",\"version\":2}\n\n{\"type\":\"clock-class\",\"id\":\"c\"}";
    let error = Schema::parse(text.as_bytes()).unwrap_err();
    assert_eq!((error.line, error.kind), (3, MetadataFault::Missing("frequency")));
}

#[test]
fn bad_sizes_and_alignments() {
    for field in [
        "integer { size = 0; } a;",
        "integer { size = 65; } a;",
        "integer { size = -8; } a;",
        "integer { align = 8; } a;",
    ] {
        assert!(matches!(fault(&tsdl("", field)), MetadataFault::BadValue(_)), "{field}");
    }
    for align in ["3", "0x100000"] {
        let kind = fault(&tsdl("", &format!("integer {{ size = 8; align = {align}; }} a;")));
        assert!(matches!(kind, MetadataFault::BadValue(_)), "{align}: {kind:?}");
    }
    assert!(matches!(
        fault(&tsdl("", "floating_point { exp_dig = 9; mant_dig = 24; } a;")),
        MetadataFault::Unsupported(_)
    ));
    for length in ["0", "65", "-1", "1e3"] {
        let int = format!(
            r#"{{"type":"fixed-length-unsigned-integer","length":{length},"byte-order":"little-endian"}}"#
        );
        assert!(matches!(fault(&json(&int)), MetadataFault::BadValue(_)), "{length}");
    }
}

#[test]
fn unknown_and_cyclic_names() {
    for field in [
        "foo a;",
        "struct foo a;",
        "enum foo a;",
        "variant foo <a> a;",
        "string a[missing];",
        "string a[event.fields.b];",
    ] {
        assert!(matches!(fault(&tsdl("", field)), MetadataFault::Unknown(_)), "{field}");
    }
    // A length after its sequence, a sequence that is its own length, a text as a length.
    for field in
        ["string a[n]; integer { size = 8; } n;", "integer { size = 8; } a[a];", "string n; string a[n];"]
    {
        assert!(matches!(fault(&tsdl("", field)), MetadataFault::Unknown(_)), "{field}");
    }
    assert!(matches!(fault(&json("\"nothing\"")), MetadataFault::Unknown(_)));
    let cyclic = json("\"a\"").replacen(
        "{\"type\":\"data-stream-class\"}",
        r#"{"type":"field-class-alias","name":"a","field-class":"b"}
        {"type":"field-class-alias","name":"b","field-class":"a"}{"type":"data-stream-class"}"#,
        1,
    );
    assert_eq!(fault(&cyclic), MetadataFault::Unknown("field class alias before this use"));
    assert!(matches!(
        fault(&tsdl("", "integer { size = 8; map = clock.nope.value; } a;")),
        MetadataFault::Unknown(_)
    ));
}

#[test]
fn deep_and_large_types() {
    let deep = format!("{} integer {{ size = 8; }} a; {}", "struct { ".repeat(5000), "} b; ".repeat(5000));
    assert_eq!(fault(&tsdl("", &deep)), MetadataFault::TooDeep);
    assert_eq!(
        fault(&tsdl("", &format!("integer {{ size = 8; }} a{};", "[1]".repeat(5000)))),
        MetadataFault::TooDeep
    );
    let deep = format!(
        "{}\"u\"{}",
        r#"{"type":"static-length-array","length":1,"element-field-class":"#.repeat(100),
        "}".repeat(100)
    );
    assert_eq!(fault(&json(&deep)), MetadataFault::TooDeep);
    // Each type is ten of the one before: 10^30 fields, if they were all made.
    let mut types = String::from("typealias integer { size = 8; } := t0;");
    for i in 0..30 {
        let members: String = (0..10).map(|m| format!("t{i} m{m};")).collect();
        types += &format!("typealias struct {{ {members} }} := t{};", i + 1);
    }
    assert_eq!(fault(&tsdl(&types, "t30 a;")), MetadataFault::TooBig);
    // The same with a static array.
    let schema = Schema::parse(
        tsdl("", "struct {} a[4294967295][4294967295][4294967295]; integer { size = 8; } b;").as_bytes(),
    );
    let mut cursor = Cursor::new();
    let schema = schema.unwrap();
    cursor.begin(&schema, &[1, 2]).unwrap();
    assert!(cursor.advance(&schema, &[1, 2]).unwrap());
}

#[test]
fn extensions_are_declined() {
    let text = r#"{"type":"preamble","version":2,"extensions":{"a":{"b":1}}}"#;
    assert!(matches!(fault(text), MetadataFault::Unsupported(_)));
    assert!(matches!(fault(r#"{"type":"preamble","version":3}"#), MetadataFault::Unsupported(_)));
    assert!(matches!(fault(r#"{"type":"trace-class"}"#), MetadataFault::Expected(_)));
}

/// A schema whose packets say their sizes, with one event class of `payload`.
fn sized(payload: StructClass) -> Schema {
    let u = |roles| FieldClass::Int(IntClass::new(64, false).with_roles(roles));
    let stream = StreamClass {
        packet_context: Some(StructClass::new([
            ("content_size", u(Roles::CONTENT_LENGTH)),
            ("packet_size", u(Roles::TOTAL_LENGTH)),
        ])),
        events: vec![EventClass { payload: Some(payload), ..EventClass::default() }],
        ..StreamClass::default()
    };
    Schema::new(TraceClass {
        streams: vec![stream],
        clocks: vec![ClockClass::default()],
        ..TraceClass::default()
    })
    .unwrap()
}

/// What decoding `body` in a packet of these sizes ends with.
fn outcome(schema: &Schema, sizes: [u64; 2], body: &[u8]) -> Result<usize, DecodeFault> {
    let bytes = [&sizes[0].to_le_bytes()[..], &sizes[1].to_le_bytes(), body].concat();
    let mut cursor = Cursor::new();
    cursor.begin(schema, &bytes).map_err(|e| e.kind)?;
    let mut events = 0;
    while cursor.advance(schema, &bytes).map_err(|e| e.kind)? {
        events += 1;
    }
    Ok(events)
}

#[test]
fn packet_sizes_that_lie() {
    let schema = sized(StructClass::new([("a", FieldClass::uint(8))]));
    assert_eq!(outcome(&schema, [144, 192], &[1, 2]), Ok(2));
    for sizes in [[0, 0], [0, 192], [200, 192], [127, 192], [128, 129], [u64::MAX, u64::MAX], [144, 0]] {
        assert_eq!(outcome(&schema, sizes, &[1, 2]), Err(DecodeFault::BadPacketSize), "{sizes:?}");
    }
    assert_eq!(outcome(&schema, [160, 192], &[1, 2]), Err(DecodeFault::Truncated));
    assert_eq!(outcome(&schema, [1 << 60, 1 << 60], &[1, 2]), Err(DecodeFault::Truncated));
}

#[test]
fn fields_beyond_the_content() {
    let schema = sized(StructClass::new([("a", FieldClass::uint(32))]));
    assert_eq!(outcome(&schema, [128 + 40, 256], &[1; 16]), Err(DecodeFault::BeyondContent));
    let schema = sized(StructClass::new([("s", FieldClass::string())]));
    assert_eq!(outcome(&schema, [128 + 16, 256], b"abcdefgh\0"), Err(DecodeFault::BeyondContent));
}

#[test]
fn lengths_beyond_everything() {
    let length = || Length::Dynamic(FieldRef::member(Scope::Payload, "n"));
    let elements = [
        FieldClass::uint(8),
        FieldClass::string(),
        FieldClass::Struct(StructClass::default()),
        FieldClass::uint(3),
    ];
    let arrays = elements.into_iter().map(|element| FieldClass::array(length(), element));
    for class in arrays.chain([FieldClass::text(length()), FieldClass::blob(length())]) {
        let empty = matches!(&class, FieldClass::Array(a) if matches!(*a.element, FieldClass::Struct(_)));
        let schema = sized(StructClass::new([("n", FieldClass::uint(64)), ("a", class)]));
        for n in [1 << 20, 1 << 40, u64::MAX] {
            let result = outcome(&schema, [128 + 128, 256], &[&n.to_le_bytes()[..], &[0; 8]].concat());
            let good = match result {
                Err(DecodeFault::BadLength(bad)) => bad == n,
                Err(DecodeFault::TooManyValues) => empty,
                Ok(_) => empty && n == 1 << 20,
                _ => false,
            };
            assert!(good || matches!(result, Err(DecodeFault::BeyondContent)) && empty, "{n}: {result:?}");
        }
    }
}

#[test]
fn signed_length_below_zero() {
    let class =
        FieldClass::array(Length::Dynamic(FieldRef::member(Scope::Payload, "n")), FieldClass::uint(8));
    let payload = StructClass::new([("n", FieldClass::int(8)), ("a", class)]);
    let events = vec![EventClass { payload: Some(payload), ..EventClass::default() }];
    let streams = vec![StreamClass { events, ..StreamClass::default() }];
    let error = Schema::new(TraceClass { streams, ..TraceClass::default() }).expect_err("a signed length");
    assert_eq!(
        error.to_string(),
        "metadata: bad value of length field: it must be an unsigned integer",
        "a model that was built by hand has no lines"
    );
}

#[test]
fn events_that_take_no_space() {
    let schema = sized(StructClass::default());
    assert_eq!(outcome(&schema, [136, 192], &[0; 8]), Err(DecodeFault::EmptyEvent));
}

#[test]
fn decoding_without_a_packet() {
    let schema = sized(StructClass::default());
    let mut cursor = Cursor::new();
    assert_eq!(cursor.advance(&schema, &[]).unwrap_err().kind, DecodeFault::NoPacket);
    assert!(cursor.event(&schema, &[]).is_none());
    assert_eq!(cursor.packet_context(&schema, &[]).iter().count(), 0);
}

#[test]
fn errors_are_small() {
    assert!(size_of::<mote_ctf::DecodeError>() <= 24);
    assert!(size_of::<mote_ctf::MetadataError>() <= 40);
}

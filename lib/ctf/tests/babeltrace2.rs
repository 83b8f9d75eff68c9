//! CTF 1.8 metadata as others write it: read right, and as babeltrace2 reads it.

mod common;

use common::{Folder, Trace, assert_lines, babeltrace2};
use mote_ctf::Value::{self, Count, F64, I64, Selected, Str, U64};
use mote_ctf::model::StreamClass;
use mote_ctf::write::encode::{BitWriter, encode_struct};
use mote_ctf::{Schema, write};

/// Values of the scopes of an event: header, contexts, payload.
type Event<'a> = [&'a [Value<'a>]; 4];

/// A packet of the kernel trace.
fn packet(
    schema: &Schema,
    stream: usize,
    sequence: u64,
    times: [u64; 2],
    events: &[(usize, Event<'_>)],
) -> Vec<u8> {
    let trace = schema.trace();
    let class = &trace.streams[stream];
    let mut content = 0;
    loop {
        let mut out = BitWriter::new();
        let mut header = vec![U64(0xc1fc_1fc1)];
        header.extend(trace.uuid.unwrap().iter().map(|b| U64((*b).into())));
        header.extend([U64(class.id), U64(0)]);
        encode_struct(trace.packet_header.as_ref().unwrap(), &header, &mut out).unwrap();
        let size = 4096 * 8;
        let context = [U64(times[0]), U64(times[1]), U64(content), U64(size), U64(sequence), U64(0), U64(1)];
        encode_struct(class.packet_context.as_ref().unwrap(), &context, &mut out).unwrap();
        events.iter().for_each(|(event, values)| put_event(class, *event, values, &mut out));
        if out.bit() == content {
            out.pad_to(4096);
            return out.into_bytes();
        }
        content = out.bit();
    }
}

fn put_event(class: &StreamClass, event: usize, values: &Event<'_>, out: &mut BitWriter) {
    let event = &class.events[event];
    let scopes = [&class.event_header, &class.common_context, &event.specific_context, &event.payload];
    for (scope, values) in scopes.into_iter().zip(values) {
        if let Some(scope) = scope {
            encode_struct(scope, values, out).unwrap();
        }
    }
}

const BEGIN: u64 = 0x5_1234_5678;

/// Fields of an event with sequences.
const POLLED: &[Value<'static>] = &[
    U64(3),
    Count(3),
    I64(0),
    I64(-1),
    I64(7),
    U64(0xffff_8800_dead_beef),
    Str(b"two fds"),
    U64(2),
    Count(2),
    U64(1),
    U64(0),
    U64(0x15),
    U64(0),
    U64(1),
    U64(0),
];

fn kernel() -> Trace {
    let metadata = include_bytes!("data/kernel.tsdl").to_vec();
    let schema = Schema::parse(&metadata).unwrap();
    let compact = |id: u64, time: u64| [U64(id), Selected(0), U64(time & 0x7ff_ffff)];
    let extended = |id: u64, time: u64| [U64(31), Selected(1), U64(id), U64(time)];
    let context = [I64(-1), Str(b"swapper/1")];
    let switch: &[Value<'_>] = &[Str(b"bash"), I64(77), I64(20), I64(1), Str(b"kworker/u8:1-ev"), I64(3)];
    let dead: &[Value<'_>] = &[Str(b"sh"), I64(78), I64(-5), I64(70), Str(b"bash"), I64(77)];
    let ipv4: &[Value<'_>] =
        &[U64(4), Selected(1), U64(4), U64(5), U64(1500), U64(192), U64(168), U64(0), U64(1)];
    let unknown: &[Value<'_>] = &[U64(0), Selected(0)];
    let streams = vec![
        [
            packet(
                &schema,
                0,
                0,
                [BEGIN, BEGIN + 900_000_000],
                &[
                    (0, [&compact(0, BEGIN + 5), &context, &[], switch]),
                    (1, [&compact(1, BEGIN + 100_000_000), &context, &[U64(12345)], POLLED]),
                    // The 27 bits wrap between these two, and are extended.
                    (0, [&compact(0, BEGIN + 200_000_000), &context, &[], dead]),
                    (2, [&extended(40, BEGIN + 700_000_000), &context, &[], ipv4]),
                    (2, [&extended(40, BEGIN + 800_000_000), &context, &[], unknown]),
                ],
            ),
            packet(
                &schema,
                0,
                1,
                [BEGIN + 1_000_000_000, BEGIN + 1_000_000_009],
                &[(0, [&compact(0, BEGIN + 1_000_000_001), &context, &[], switch])],
            ),
        ]
        .concat(),
        packet(
            &schema,
            1,
            0,
            [BEGIN, BEGIN + 3_000_000_000],
            &[
                (0, [&[U64(0), Selected(0), U64((BEGIN + 3) & 0xffff_ffff)], &[], &[], &[]]),
                (
                    1,
                    [
                        &extended(70000, BEGIN + 2_000_000_000)
                            .map(|v| if v == U64(31) { U64(65535) } else { v }),
                        &[],
                        &[],
                        &[U64(1), U64(2), F64(0.25)],
                    ],
                ),
            ],
        ),
    ];
    Trace { metadata, streams }
}

#[test]
fn kernel_style_trace() {
    let trace = kernel();
    let ours = trace.lines();
    let expected = [
        "box sched_switch: { cpu_id = 1 }, { tid = -1, procname = \"swapper/1\" }, { prev_comm = \"bash\", \
         prev_tid = 77, prev_prio = 20, prev_state = ( \"TASK_INTERRUPTIBLE\" : container = 1 ), \
         next_comm = \"kworker/u8:1-ev\", next_tid = 3 }",
        "box lttng_statedump_start: { cpu_id = 1 }, { }",
    ];
    assert_eq!(ours.len(), 8);
    assert_eq!(ours[1], format!("[{:020}] {}", BEGIN + 5, expected[0]));
    assert_eq!(ours[0], format!("[{:020}] {}", BEGIN + 3, expected[1]));
    let folder = Folder::new("kernel");
    trace.write(&folder.0);
    if let Some(theirs) = babeltrace2(&folder.0) {
        assert_lines(&ours, &theirs);
    }
}

#[test]
fn kernel_style_metadata_survives_ctf_2() {
    let trace = kernel();
    let schema = Schema::parse(&trace.metadata).unwrap();
    let json = write::json(schema.trace());
    let again = Schema::parse(json.as_bytes()).unwrap();
    assert_lines(&trace.lines_with(&again), &trace.lines());
    let back = write::tsdl(again.trace()).unwrap();
    let folder = Folder::new("kernel-back");
    let rewritten = Trace { metadata: back.into_bytes(), streams: trace.streams.clone() };
    assert_lines(&rewritten.lines(), &trace.lines());
    rewritten.write(&folder.0);
    if let Some(theirs) = babeltrace2(&folder.0) {
        assert_lines(&trace.lines(), &theirs);
    }
}

/// Compares our text of a trace without headers, the whole file one packet, with babeltrace2's.
fn check(name: &str, fields: &str, data: &[u8]) {
    let metadata = format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }}; \
         event {{ name = \"e\"; id = 0; fields := struct {{ {fields} }}; }};"
    );
    let trace = Trace { metadata: metadata.into_bytes(), streams: vec![data.to_vec()] };
    let folder = Folder::new(name);
    trace.write(&folder.0);
    let ours = trace.lines();
    assert!(!ours.is_empty());
    if let Some(theirs) = babeltrace2(&folder.0) {
        assert_lines(&ours, &theirs);
    }
}

#[test]
fn integers_in_all_bases() {
    let mut fields = String::new();
    for size in [1, 3, 5, 8, 13, 16, 31, 32, 33, 60, 64] {
        for base in [2, 8, 10, 16] {
            for signed in [true, false] {
                fields += &format!(
                    "integer {{ size = {size}; signed = {signed}; base = {base}; }} f{size}_{base}_{signed};"
                );
            }
        }
    }
    let data: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    check("bases", &fields, &data[..exact(&fields)]);
}

/// Bytes of one event of `fields`.
fn exact(fields: &str) -> usize {
    let metadata = format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }};
        event {{ name = e; fields := struct {{ {fields} }}; }};"
    );
    let schema = Schema::parse(metadata.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 16];
    let mut cursor = mote_ctf::Cursor::new();
    cursor.begin(&schema, &zeros).unwrap();
    assert!(cursor.advance(&schema, &zeros).unwrap());
    (cursor.bit() / 8) as usize
}

#[test]
fn texts_and_escapes() {
    let low: Vec<u8> = (1..=127).chain([0]).collect();
    let high: Vec<u8> = (128..=255).chain([0]).collect();
    let data = [&low[..], &high, b"ab\0\x01cd", "é\u{a0}😀\0".as_bytes()].concat();
    let fields =
        "string a; string { encoding = ASCII; } b; integer { size = 8; encoding = UTF8; } t[6]; string _c;";
    check("texts", fields, &data);
}

#[test]
fn enumerations_structures_and_arrays() {
    let fields = r#"
        enum color : integer { size = 8; signed = true; base = 16; } { "A" = 1, "Z" = 1, "B" = 2 ... 3, C, "q\"x" = -7 } _e1;
        enum color _e2;
        enum : integer { size = 8; } { a, b = 5, c } tag;
        variant <tag> { struct { integer { size = 8; } x; } a; string b; integer { size = 3; } c; } v;
        struct point { integer { size = 8; } _x; integer { size = 16; byte_order = be; } _y; } _p;
        struct point _ps[2];
        struct { } _empty;
        typealias integer { size = 4; align = 4; } := nibble;
        typedef integer { size = 8; base = 8; } octal;
        nibble _n1, _n2;
        octal _o[2][3];
        integer { size = 8; } _len;
        string _seq[_len];
        struct { integer { size = 8; } _len; nibble _inner[_len]; } _nested[2];
        nibble _outer[_len];
        floating_point { exp_dig = 11; mant_dig = 53; align = 8; } _f[3];
    "#;
    let mut data = vec![2, 0xf9, 5, b'h', b'i', 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x21, 1, 2, 3, 4, 5, 6];
    data.extend(b"\x02x\0yz\0");
    data.extend([3, 0x21, 0x03, 1, 0x0f, 0x65]);
    for value in [1e-7, f64::NEG_INFINITY, 123_456_789.123] {
        data.extend(value.to_le_bytes());
    }
    check("shapes", fields, &data);
}

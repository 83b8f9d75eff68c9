//! Measures decoding: a synthetic trace in memory of 24-byte events, as the recorder writes them.
//!
//! `cargo run --release -p mote-trace-ctf --example decode_speed [PACKETS]`:
//! median of 7 passes over 256 packets of 256 KiB, or
//! over PACKETS; millions of events a second.

use mote_ctf::model::{
    ClockClass, EventClass, FieldClass, IntClass, Roles, StreamClass, StructClass, TraceClass,
};
use mote_ctf::{Cursor, Schema, Value, text};
use std::time::Instant;

const PACKET: usize = 256 << 10;

/// Goes through all packets; returns the number of events, and a number that depends on all of them.
type Pass = fn(&Schema, &[Vec<u8>]) -> (u64, u64);

fn schema() -> Schema {
    let u = |bits| IntClass::new(bits, false);
    let context = StructClass::new([
        ("timestamp_begin", FieldClass::Int(u(64).with_roles(Roles::TIMESTAMP))),
        ("content_size", FieldClass::Int(u(64).with_roles(Roles::CONTENT_LENGTH))),
        ("packet_size", FieldClass::Int(u(64).with_roles(Roles::TOTAL_LENGTH))),
    ]);
    let header = StructClass::new([
        ("id", FieldClass::Int(u(16).with_roles(Roles::EVENT_CLASS_ID))),
        ("timestamp", FieldClass::Int(u(48).with_roles(Roles::TIMESTAMP))),
    ]);
    let event = |id: u64| EventClass {
        id,
        name: format!("bench:event{id}"),
        payload: Some(StructClass::new([("a", FieldClass::uint(32)), ("b", FieldClass::uint(64))])),
        ..EventClass::default()
    };
    let stream = StreamClass {
        clock: Some(0),
        packet_context: Some(context),
        event_header: Some(header),
        common_context: Some(StructClass::new([("vtid", FieldClass::int(32))])),
        events: (0..4).map(event).collect(),
        ..StreamClass::default()
    };
    let trace =
        TraceClass { clocks: vec![ClockClass::default()], streams: vec![stream], ..TraceClass::default() };
    Schema::new(trace).expect("the schema is sound")
}

fn packet(number: usize) -> Vec<u8> {
    let events = (PACKET - 24) / 24;
    let mut bytes = Vec::with_capacity(PACKET);
    let begin = (number * events * 100) as u64;
    for word in [begin, (24 + events as u64 * 24) * 8, PACKET as u64 * 8] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for i in 0..events as u64 {
        let time = begin + i * 100;
        bytes.extend_from_slice(&((time << 16) | (i * 7 % 4)).to_le_bytes());
        bytes.extend_from_slice(&4711_i32.to_le_bytes());
        bytes.extend_from_slice(&(i as u32).to_le_bytes());
        bytes.extend_from_slice(&(i * 3).to_le_bytes());
    }
    bytes.resize(PACKET, 0);
    bytes
}

/// Decodes and prints everything.
fn print(schema: &Schema, packets: &[Vec<u8>]) -> (u64, u64) {
    let mut cursor = Cursor::new();
    let mut out = Vec::new();
    let (mut events, mut bytes) = (0, 0);
    for packet in packets {
        cursor.begin(schema, packet).expect("sound packet");
        while cursor.advance(schema, packet).expect("sound event") {
            events += 1;
            out.clear();
            if let Some(event) = cursor.event(schema, packet) {
                text::body(&mut out, cursor.packet_context(schema, packet), &event);
            }
            bytes += out.len() as u64;
        }
    }
    (events, bytes)
}

/// Decodes everything and adds up the last payload field and the times, so that nothing can be left out.
fn pass(schema: &Schema, packets: &[Vec<u8>], look: bool) -> (u64, u64) {
    let mut cursor = Cursor::new();
    let (mut events, mut sum) = (0, 0_u64);
    for bytes in packets {
        cursor.begin(schema, bytes).expect("sound packet");
        while cursor.advance(schema, bytes).expect("sound event") {
            events += 1;
            sum = sum.wrapping_add(cursor.timestamp());
            if look && let Some(event) = cursor.event(schema, bytes) {
                for value in event.payload().values() {
                    if let Value::U64(value) = value {
                        sum = sum.wrapping_add(value);
                    }
                }
            }
        }
    }
    (events, sum)
}

fn main() {
    let schema = schema();
    let count = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(256);
    let packets: Vec<Vec<u8>> = (0..count).map(packet).collect();
    let cases: [(&str, Pass); 3] = [
        ("decode", |schema, packets| pass(schema, packets, false)),
        ("decode and read payload", |schema, packets| pass(schema, packets, true)),
        ("decode and print", print),
    ];
    for (case, run) in cases {
        let mut rates: Vec<f64> = (0..7)
            .map(|_| {
                let start = Instant::now();
                let (events, sum) = std::hint::black_box(run(&schema, &packets));
                assert!(sum > 0);
                events as f64 / start.elapsed().as_secs_f64() / 1e6
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "{case}: {:.1} M events/s ({:.1} ns an event), best {:.1} M",
            rates[3],
            1000.0 / rates[3],
            rates[6]
        );
    }
}

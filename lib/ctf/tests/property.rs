//! Random trace classes: encode, decode, encode again; every version of the metadata decodes the same;
//! babeltrace2 prints the same.

mod common;
#[path = "common/generate.rs"]
mod generate;

use common::{Folder, assert_lines, babeltrace2};
use mote_ctf::write::encode::{BitWriter, encode_struct};
use mote_ctf::{Cursor, Fields, Schema, Value, read, write};

const SEEDS: u64 = 300;

#[test]
fn what_is_encoded_is_decoded() {
    for seed in 1..=SEEDS {
        for ctf1 in [false, true] {
            let (class, trace) = generate::trace(seed, ctf1, 20);
            let schema = Schema::new(class.clone()).unwrap();
            let packet = &trace.streams[0];
            let mut cursor = Cursor::new();
            let header = cursor.begin(&schema, packet).unwrap();
            assert_eq!(header.packet_bytes(), Some(packet.len() as u64));
            let mut out = BitWriter::new();
            let mut put = |fields: Fields<'_>| {
                let values: Vec<Value<'_>> = fields.values().collect();
                encode_struct(fields.class(), &values, &mut out).unwrap();
            };
            put(cursor.packet_header(&schema, packet));
            put(cursor.packet_context(&schema, packet));
            let mut events = 0;
            while cursor.advance(&schema, packet).unwrap_or_else(|e| panic!("seed {seed}: {e}")) {
                let event = cursor.event(&schema, packet).unwrap();
                assert_eq!(event.timestamp, (1 << 40) + events * 1000, "seed {seed}");
                put(event.header());
                for scope in [event.common(), event.specific(), event.payload()] {
                    put(scope);
                }
                events += 1;
            }
            assert_eq!(events, 20, "seed {seed}");
            out.pad_to(packet.len());
            assert!(
                out.as_bytes() == packet.as_slice(),
                "seed {seed}: encoding what was decoded gives other bytes"
            );
        }
    }
}

#[test]
fn all_metadata_decodes_the_same() {
    for seed in 1..=SEEDS {
        let (class, trace) = generate::trace(seed, true, 10);
        let expected = trace.lines_with(&Schema::new(class.clone()).unwrap());
        let from_text = read::metadata(&trace.metadata).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_lines(&trace.lines_with(&Schema::new(from_text.clone()).unwrap()), &expected);
        let from_json = read::metadata(write::json(&from_text).as_bytes()).unwrap();
        assert_lines(&trace.lines_with(&Schema::new(from_json.clone()).unwrap()), &expected);
        let back = write::tsdl(&from_json).unwrap();
        assert_eq!(back, write::tsdl(&from_text).unwrap(), "seed {seed}: 1.8 to 2 to 1.8");
    }
}

#[test]
fn ctf_2_metadata_is_read_as_it_was_written() {
    for seed in 1..=SEEDS {
        let (class, _) = generate::trace(seed, false, 0);
        let read = read::metadata(write::json(&class).as_bytes()).unwrap();
        assert_eq!(read, class, "seed {seed}");
    }
}

#[test]
fn lowered_ctf_2_keeps_the_layout() {
    let mut lowered = 0;
    for seed in 1..=SEEDS {
        let (class, trace) = generate::trace(seed, false, 10);
        // Variable-length integers have no form in CTF 1.8.
        let Ok(text) = write::tsdl(&class) else { continue };
        lowered += 1;
        let schema = Schema::new(read::metadata(text.as_bytes()).unwrap()).unwrap();
        let times =
            |lines: Vec<String>| lines.iter().map(|l| l.split("}, ").count()).collect::<Vec<_>>().len();
        assert_eq!(times(trace.lines_with(&schema)), 10, "seed {seed}");
    }
    assert!(lowered > 20);
}

#[test]
fn babeltrace2_prints_the_same() {
    for seed in 1..=40 {
        let (_, trace) = generate::trace(seed, true, 20);
        let folder = Folder::new(&format!("property-{seed}"));
        trace.write(&folder.0);
        let Some(theirs) = babeltrace2(&folder.0) else { return };
        assert_lines(&trace.lines(), &theirs);
    }
}

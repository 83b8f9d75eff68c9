//! Damaged traces: no panic, an error with its place, and everything before the damage.

mod common;

use common::{Random, Trace, data, stream_lines};
use mote_ctf::{Cursor, DecodeError, DecodeFault, Schema};

const VERSIONS: [&str; 2] = ["ctf-1.8-full", "ctf-2-full"];

fn sample(version: &str) -> Trace {
    Trace::read(&data(&format!("lttng-2.16/{version}/ust/uid/0/64-bit")))
}

/// Ends of events, in bits from the start of the stream, and what stopped the reader.
fn ends(schema: &Schema, stream: &[u8]) -> (Vec<u64>, Option<DecodeError>) {
    let mut cursor = Cursor::new();
    let mut ends = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        let header = match cursor.begin(schema, &stream[at..]) {
            Ok(header) => header,
            Err(error) => return (ends, Some(error)),
        };
        let size = header.packet_bytes().map_or(usize::MAX, |n| n as usize);
        let end = at.saturating_add(size).min(stream.len());
        loop {
            match cursor.advance(schema, &stream[at..end]) {
                Ok(true) => ends.push(at as u64 * 8 + cursor.bit()),
                Ok(false) => break,
                Err(error) => return (ends, Some(error)),
            }
        }
        at = at.saturating_add(size);
    }
    (ends, None)
}

#[test]
fn streams_cut_anywhere() {
    for version in VERSIONS {
        let trace = sample(version);
        let schema = Schema::parse(&trace.metadata).unwrap();
        for stream in &trace.streams {
            let (whole, error) = ends(&schema, stream);
            assert_eq!(error, None);
            assert!(whole.len() > 100);
            let content = (whole[whole.len() - 1] / 8) as usize;
            // Every byte of the headers, the first events and the last ones.
            let cuts = (0..300).chain((300..content - 300).step_by(37)).chain(content - 300..content + 8);
            for cut in cuts {
                let (found, error) = ends(&schema, &stream[..cut]);
                let before = whole.iter().filter(|end| **end <= cut as u64 * 8).count();
                assert_eq!(found.len(), before, "cut at byte {cut}");
                let truncated = error.is_some_and(|e| e.kind == DecodeFault::Truncated);
                assert_eq!(truncated, cut > 0 && cut < content, "cut at byte {cut}: {error:?}");
            }
        }
    }
}

#[test]
fn streams_with_flipped_bits() {
    for version in VERSIONS {
        let trace = sample(version);
        let schema = Schema::parse(&trace.metadata).unwrap();
        let mut random = Random(7);
        for stream in &trace.streams {
            let (whole, _) = ends(&schema, stream);
            let content = (whole[whole.len() - 1] / 8) as usize;
            for _ in 0..400 {
                let mut damaged = stream.clone();
                let byte = random.below(content);
                damaged[byte] ^= 1 << random.below(8);
                let (found, _) = ends(&schema, &damaged);
                // Behind the packet's header and context, what is before the damage is as it was.
                if byte >= 100 {
                    let before = whole.iter().filter(|end| **end <= byte as u64 * 8).count();
                    assert!(found.len() >= before, "bit flipped in byte {byte}");
                    assert_eq!(found[..before], whole[..before]);
                }
            }
        }
    }
}

/// What is said of them does not matter here: that there is no panic, and an end.
#[test]
fn damaged_streams_are_shown_without_a_panic() {
    for version in VERSIONS {
        let trace = sample(version);
        let schema = Schema::parse(&trace.metadata).unwrap();
        let mut random = Random(8);
        for _ in 0..100 {
            let mut damaged = trace.streams[0].clone();
            for _ in 0..20 {
                let byte = random.below(damaged.len());
                damaged[byte] ^= 1 << random.below(8);
            }
            stream_lines(&schema, &damaged);
        }
    }
}

#[test]
fn metadata_cut_anywhere() {
    for version in VERSIONS {
        let trace = sample(version);
        let mut sound = 0;
        // All of CTF 1.8; of the larger JSON every third byte, for the time.
        let step = if trace.metadata.len() > 4000 { 3 } else { 1 };
        for cut in (0..trace.metadata.len()).step_by(step) {
            match Schema::parse(&trace.metadata[..cut]) {
                Ok(schema) => {
                    // Cut between blocks or fragments: event classes are missing, and their events are
                    // errors.
                    sound += 1;
                    let (_, error) = ends(&schema, &trace.streams[0]);
                    let missing = |e: DecodeError| {
                        matches!(e.kind, DecodeFault::UnknownEvent(_) | DecodeFault::UnknownStream(_))
                    };
                    assert!(
                        cut + 4 > trace.metadata.len() || error.is_some_and(missing),
                        "cut at {cut}: {error:?}"
                    );
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        assert!(sound > 0);
    }
}

#[test]
fn metadata_with_flipped_bits_does_not_panic() {
    for version in VERSIONS {
        let trace = sample(version);
        let mut random = Random(9);
        for _ in 0..300 {
            let mut damaged = trace.metadata.clone();
            let byte = random.below(damaged.len());
            damaged[byte] ^= 1 << random.below(8);
            if let Ok(schema) = Schema::parse(&damaged) {
                stream_lines(&schema, &trace.streams[0]);
            }
        }
    }
}

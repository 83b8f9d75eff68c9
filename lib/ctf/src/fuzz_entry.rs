//! Entry points for fuzzing: bytes in, no panic, bounded memory. Each is also a one-second test here.

use crate::decode::Cursor;
use crate::schema::Schema;
use crate::{read, text, write};

/// Reads metadata; what is accepted is compiled, written in both versions, and read again.
pub fn metadata(bytes: &[u8]) {
    let Ok(trace) = read::metadata(bytes) else { return };
    let json = write::json(&trace);
    let _ = read::metadata(json.as_bytes());
    if let Ok(tsdl) = write::tsdl(&trace) {
        let _ = read::metadata(tsdl.as_bytes());
    }
    let _ = Schema::new(trace);
}

/// Decodes and prints a data stream of one of the built-in schemas; the first byte chooses.
pub fn stream(bytes: &[u8]) {
    let Some((first, data)) = bytes.split_first() else { return };
    SCHEMAS.with(|schemas| {
        if let Some(schema) = schemas.get(usize::from(*first) % schemas.len().max(1)) {
            decode(schema, data);
        }
    });
}

/// Reads metadata up to the first NUL, and decodes the rest as a data stream of it.
pub fn trace(bytes: &[u8]) {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    if let Ok(schema) = Schema::parse(&bytes[..end]) {
        decode(&schema, bytes.get(end + 1..).unwrap_or(&[]));
    }
}

/// CTF 1.8 as LTTng's kernel tracer writes it.
const KERNEL: &str = include_str!("../tests/data/kernel.tsdl");
/// CTF 2 with every kind of field class.
const EVERYTHING: &str = include_str!("../tests/data/everything.json");

thread_local! {
    static SCHEMAS: Vec<Schema> =
        [KERNEL, EVERYTHING].into_iter().filter_map(|text| Schema::parse(text.as_bytes()).ok()).collect();
}

/// Decodes and prints whole packets, and goes on behind broken ones where their size is known.
fn decode(schema: &Schema, data: &[u8]) {
    let mut cursor = Cursor::new();
    let mut out = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let Ok(header) = cursor.begin(schema, rest) else { return };
        let size = header.packet_bytes().and_then(|n| usize::try_from(n).ok()).unwrap_or(rest.len());
        let packet = rest.get(..size).unwrap_or(rest);
        while cursor.advance(schema, packet) == Ok(true) {
            out.clear();
            if let Some(event) = cursor.event(schema, packet) {
                text::body(&mut out, cursor.packet_context(schema, packet), &event);
                let fields = event.payload().iter().chain(event.common()).chain(event.header());
                let children: usize = fields.map(|field| field.children().count()).sum();
                std::hint::black_box(children);
            }
        }
        rest = rest.get(size..).unwrap_or(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A small generator of random numbers.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn below(&mut self, bound: usize) -> usize {
            (self.next() >> 16) as usize % bound.max(1)
        }
    }

    /// How long each test runs: a second, or `MOTE_FUZZ_SECONDS`.
    fn duration() -> Duration {
        let seconds = std::env::var("MOTE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or(1))
    }

    /// Runs `target` on mutations of `seeds`.
    fn fuzz(seeds: &[Vec<u8>], target: fn(&[u8])) {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let begin = Instant::now();
        let mut runs = 0;
        while begin.elapsed() < duration() {
            let mut bytes = seeds[random.below(seeds.len())].clone();
            for _ in 0..=random.below(4) {
                mutate(&mut bytes, &mut random);
            }
            target(&bytes);
            runs += 1;
        }
        assert!(runs > 50, "only {runs} runs");
    }

    fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(bytes.len());
        if bytes.is_empty() {
            return bytes.push(random.next() as u8);
        }
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = at + random.below(bytes.len() - at);
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            4 => {
                let end = (at + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                // Digits are where sizes, lengths and identifiers are.
                let digits: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i].is_ascii_digit()).collect();
                if let Some(place) = digits.get(random.below(digits.len())) {
                    bytes[*place] = b'0' + random.below(10) as u8;
                }
            }
        }
    }

    fn random_data(len: usize) -> Vec<u8> {
        let mut random = Random(99);
        (0..len).map(|_| if random.below(3) == 0 { random.next() as u8 } else { 0 }).collect()
    }

    /// A packet with sane sizes, so that mutations reach the events.
    fn sane_packet(schema: u8) -> Vec<u8> {
        let mut bytes = vec![schema];
        bytes.extend(0xc1fc_1fc1_u32.to_le_bytes());
        bytes.extend([
            0x7a, 0x0d, 0x7b, 0xd4, 0x8b, 0x3c, 0x4a, 0x4c, 0x9a, 0x7e, 0x3d, 0x5b, 0x6c, 0x1f, 0x0e, 0x21,
        ]);
        bytes.extend([0; 12]);
        for word in [5_u64, 9, 4096 * 8, 4096 * 8, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 4]);
        bytes.extend(random_data(4096));
        bytes
    }

    #[test]
    fn the_seeds_are_sound() {
        SCHEMAS
            .with(|schemas| assert_eq!(schemas.len(), 2, "{:?}", Schema::parse(EVERYTHING.as_bytes()).err()));
    }

    #[test]
    fn hostile_metadata_does_not_panic() {
        fuzz(&[KERNEL.into(), EVERYTHING.into()], metadata);
    }

    #[test]
    fn hostile_streams_do_not_panic() {
        fuzz(&[sane_packet(0), sane_packet(1), random_data(2000)], stream);
    }

    #[test]
    fn hostile_traces_do_not_panic() {
        let join = |text: &str| [text.as_bytes(), &[0], &random_data(1000)].concat();
        fuzz(&[join(KERNEL), join(EVERYTHING)], trace);
    }
}

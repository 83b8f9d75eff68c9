//! What a run finds: numbers, texts, values of maps; all made up.

use super::Region;
use mote_bpf::environment::{Entry, Environment, Word};

/// A small generator (xorshift), so that failures come back.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Numbers as programs meet them: small, at the ends of widths, or any.
    pub(crate) fn number(&mut self) -> u64 {
        let bits = self.pick(&[1, 3, 4, 8, 16, 31, 32, 33, 63, 64]);
        let number = self.next() >> (64 - bits);
        match self.below(8) {
            0 => number.wrapping_neg(),
            1 => u64::from((number as u32).wrapping_neg()),
            2 => (number as i32) as u64,
            3 => (1u64 << (bits - 1)).wrapping_add(self.below(5)).wrapping_sub(2),
            _ => number,
        }
    }
}

pub(crate) struct Record {
    pub(crate) bytes: Vec<u8>,
    pub(crate) held: bool,
}

pub(crate) struct World {
    /// What each word holds, if it is a number.
    pub(crate) numbers: Vec<u64>,
    /// The bytes of each word that is `Start` or `Bytes`.
    pub(crate) bytes: Vec<Vec<u8>>,
    /// Entries of each map.
    pub(crate) values: Vec<Vec<Vec<u8>>>,
    pub(crate) memory: Vec<u8>,
    pub(crate) records: Vec<Record>,
}

impl World {
    pub(crate) fn new(env: &Environment<'_>, random: &mut Random) -> World {
        let fill = |bytes: usize, random: &mut Random| (0..bytes).map(|_| random.number() as u8).collect();
        let (mut numbers, mut bytes) = (Vec::new(), Vec::new());
        for word in env.entry.words() {
            let number = random.number();
            numbers.push(match *word {
                Word::Number { bits, signed } => {
                    let shift = 64 - u32::from(bits);
                    let top = number << shift;
                    if signed { (top as i64 >> shift) as u64 } else { top >> shift }
                }
                _ => 0,
            });
            bytes.push(match *word {
                Word::Bytes(bytes) => fill(bytes as usize, random),
                Word::Start => {
                    let longest = random.pick(&[1, 4, 12, 40, 300]);
                    fill(random.below(longest) as usize, random)
                }
                _ => Vec::new(),
            });
        }
        let values = env.maps.iter().map(|map| {
            let entries = map.entries.min(8);
            (0..entries).map(|_| fill(map.value_bytes as usize, random)).collect()
        });
        let values = values.collect();
        let memory = match env.entry {
            Entry::Memory { len } => fill(len as usize, random),
            Entry::Traced { state, .. } => fill(state as usize, random),
            Entry::Context(_) => Vec::new(),
        };
        World { numbers, bytes, values, memory, records: Vec::new() }
    }

    /// Where a place lies. Regions lie far apart; a text of no bytes may be null.
    pub(crate) fn address(&self, region: Region, at: i64) -> u64 {
        let base = match region {
            Region::Text(word) if self.bytes[word as usize].is_empty() => 0,
            Region::Text(word) => 0x7000_0000_0000 + (u64::from(word) << 32),
            _ => 0x6000_0000_0000,
        };
        base.wrapping_add(at as u64)
    }
}

//! Numbers that look random and are the same each time.

use mote_filter::interpret::Facts;

/// A generator (xorshift*, Vigna 2016).
#[derive(Clone)]
pub(crate) struct Random(u64);

/// Numbers at which things tend to go wrong.
const EDGES: [u64; 22] = [
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Less than `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    /// Any 64 bits; often small, often at an edge.
    pub(crate) fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => *self.pick(&EDGES),
            1 => self.next() >> self.below(64),
            2 => self.below(8),
            _ => self.below(8).wrapping_neg(),
        }
    }

    pub(crate) fn float(&mut self) -> f64 {
        match self.below(6) {
            0 => *self.pick(&[
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                -f64::NAN,
            ]),
            1 => f64::from_bits(self.next()),
            2 => f64::from(f32::from_bits(self.next() as u32)),
            3 => self.below(6) as f64 - 3.0,
            _ => (self.below(60) as f64 - 30.0) / 4.0,
        }
    }

    /// A short text of few letters, so that texts are often equal.
    pub(crate) fn text(&mut self, max: u64) -> Vec<u8> {
        let len = if self.one_in(6) { self.below(max + 1) } else { self.below(max.min(5) + 1) };
        (0..len).map(|_| *self.pick(b"aab?*\\")).collect()
    }

    pub(crate) fn facts(&mut self) -> Facts {
        Facts {
            pid: 40 + self.below(2) as u32,
            tid: 42 + self.below(3) as u32,
            cpu: self.below(4) as u16,
            now: 1_000_000_000 + self.below(4_000_000_000),
            elapsed: if self.one_in(3) { u64::MAX } else { self.below(1000) },
            comm: self.text(15),
            executable: self.text(60),
            window: if self.one_in(2) { 0 } else { self.below(5_000_000_000) },
            target: 42 + self.below(3),
            state: (0..16).map(|_| self.below(20)).collect(),
            ..Facts::default()
        }
    }
}

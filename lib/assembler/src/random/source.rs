//! Where randomness comes from: splitmix64 (Steele, Lea, Flood 2014).

/// A stream of random choices.
#[derive(Clone, Debug)]
pub struct Source(u64);

/// Values at which operations change their behaviour.
const EDGES: [u64; 22] = [
    0,
    1,
    2,
    7,
    31,
    32,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX - 1,
    u64::MAX,
];

impl Source {
    /// Begins at a seed: the same seed makes the same program.
    pub fn new(seed: u64) -> Source {
        Source(seed)
    }

    /// The next 64 bits of the generator.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`, which is taken as 1 when it is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// True once in `n` times.
    pub fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these; the slice has at least one.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A value: often one at an edge, sometimes any.
    pub fn value(&mut self) -> u64 {
        match self.below(4) {
            0 => self.bits(),
            1 => self.bits() >> self.below(64),
            _ => self.pick(&EDGES),
        }
    }

    /// A 32-bit constant, likewise.
    pub fn imm(&mut self) -> i32 {
        self.value() as i32
    }
}

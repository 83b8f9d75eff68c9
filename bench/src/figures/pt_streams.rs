//! Traces of Intel PT that are made up, always the same, to be read by `pt`.
//!
//! A program is imitated: routines of 4 to 23 steps, some called more often than others, each repeated up to 16 times
//! in succession, as loops are. A step is six conditional branches (70 %), a jump with the branches that were left
//! over before it (29 %), or an interrupt that ends and begins tracing (1 %). What branches do is random; one jump of
//! 16 goes elsewhere than usual. A PSB with what belongs to it comes every 4 KiB.

use mote_pt::packet::ip::{Compression, Ip, LastIp};
use mote_pt::packet::{Encoder, Packet, Tnt, Unfit};

/// What a stream is full of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// A CYC before each packet of a branch, MTC every 200 bytes, TSC and TMA with each PSB.
    Cyc,
    /// No timing.
    Plain,
    /// As [`Stream::Plain`], with PAD packets behind one step of four: 1 to 15 of them, and at times hundreds.
    Padded,
}

impl Stream {
    /// All of them, with their names.
    pub(super) const ALL: [(&str, Stream); 3] =
        [("cyc", Stream::Cyc), ("plain", Stream::Plain), ("padded", Stream::Padded)];
}

const ROUTINES: u64 = 256;
/// Where the program's code lies: itself, two libraries, and what a compiler makes while it runs.
const MODULES: [u64; 4] = [0x40_0000, 0x7f12_3456_0000, 0x7f12_3500_0000, 0x5612_0000_0000];
const PSB_EVERY: usize = 4096;
const MTC_EVERY: usize = 200;

/// About `size` bytes of packets.
///
/// # Errors
/// None: all packets fit.
pub(super) fn make(stream: Stream, size: usize) -> Result<Vec<u8>, Unfit> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let routines: Vec<Vec<Step>> = (0..ROUTINES).map(|_| routine(&mut random)).collect();
    let mut maker = Maker {
        stream,
        random,
        encoder: Encoder::new(),
        last: LastIp::default(),
        tsc: 1 << 40,
        mtc: 0,
        next_psb: 0,
        next_mtc: MTC_EVERY,
    };
    while maker.encoder.bytes().len() < size {
        let place = maker.random.below(ROUTINES);
        // Few are called often: the cube of what is evenly spread.
        let routine = (place * place * place / (ROUTINES * ROUTINES)) as usize;
        for _ in 0..=maker.random.below(16) {
            routines[routine].iter().try_for_each(|step| maker.step(*step))?;
        }
    }
    Ok(maker.encoder.into_bytes())
}

/// What a program does next.
#[derive(Clone, Copy)]
enum Step {
    Branches,
    /// So many branches, and a jump to there.
    Jump(u64, u64),
    /// From there, and back to there.
    Interrupt(u64),
}

fn routine(random: &mut Random) -> Vec<Step> {
    let module = MODULES[random.below(MODULES.len() as u64) as usize];
    let step = |random: &mut Random| match random.below(100) {
        0..70 => Step::Branches,
        70..99 => Step::Jump(random.below(6), module + random.below(0x8_0000)),
        _ => Step::Interrupt(module + random.below(0x8_0000)),
    };
    (0..4 + random.below(20)).map(|_| step(random)).collect()
}

/// xorshift64 (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

struct Maker {
    stream: Stream,
    random: Random,
    encoder: Encoder,
    last: LastIp,
    tsc: u64,
    mtc: u8,
    next_psb: usize,
    next_mtc: usize,
}

impl Maker {
    fn step(&mut self, step: Step) -> Result<(), Unfit> {
        self.between()?;
        match step {
            Step::Branches => self.branches(6),
            Step::Jump(branches, to) => self.jump(branches, to),
            Step::Interrupt(at) => {
                let fup = self.last.compress(at);
                self.timed(Packet::Fup(fup))?;
                self.push(Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 }))?;
                let pge = self.last.compress(at);
                self.timed(Packet::TipPge(pge))
            }
        }?;
        self.pad()
    }

    fn branches(&mut self, count: u64) -> Result<(), Unfit> {
        let bits = self.random.below(1 << count);
        self.timed(Packet::Tnt(Tnt { bits, count: count as u8, is_long: false }))
    }

    fn jump(&mut self, usual: u64, to: u64) -> Result<(), Unfit> {
        let (branches, to) = match self.random.below(16) {
            0 => (self.random.below(6), to ^ self.random.below(1 << 20)),
            _ => (usual, to),
        };
        if branches > 0 {
            self.branches(branches)?;
        }
        let tip = self.last.compress(to);
        self.timed(Packet::Tip(tip))
    }

    /// What comes by itself: PSB and MTC.
    fn between(&mut self) -> Result<(), Unfit> {
        let length = self.encoder.bytes().len();
        if length >= self.next_psb {
            self.next_psb = length + PSB_EVERY;
            self.psb()?;
        }
        if self.stream == Stream::Cyc && length >= self.next_mtc {
            self.next_mtc = length + MTC_EVERY;
            self.mtc = self.mtc.wrapping_add(1);
            self.timed(Packet::Mtc(self.mtc))?;
        }
        Ok(())
    }

    fn psb(&mut self) -> Result<(), Unfit> {
        self.push(Packet::Psb)?;
        self.last.reset();
        if self.stream == Stream::Cyc {
            self.tsc += 4000;
            self.push(Packet::Tsc(self.tsc))?;
            self.push(Packet::Tma { ctc: (self.tsc >> 7) as u16, fast: (self.tsc & 0x1ff) as u16 })?;
        }
        self.push(Packet::Cbr(36))?;
        self.push(Packet::Pip { cr3: 0x1_2345_6000, is_guest: false })?;
        self.push(Packet::ModeExec { is_64_bit: true, is_32_bit: false, interrupts: false })?;
        let fup = self.last.compress(MODULES[0]);
        self.push(Packet::Fup(fup))?;
        self.push(Packet::PsbEnd)
    }

    /// A packet that a CYC stands before: of three of four the cycles fit into one byte.
    fn timed(&mut self, packet: Packet) -> Result<(), Unfit> {
        if self.stream == Stream::Cyc {
            let below = if self.random.below(4) > 0 { 31 } else { 32 << self.random.below(8) };
            let cycles = self.random.below(below) + below.saturating_sub(30);
            self.push(Packet::Cyc(cycles))?;
        }
        self.push(packet)
    }

    fn pad(&mut self) -> Result<(), Unfit> {
        if self.stream != Stream::Padded || self.random.below(4) > 0 {
            return Ok(());
        }
        let count =
            if self.random.below(16) == 0 { 64 + self.random.below(256) } else { 1 + self.random.below(15) };
        self.encoder.extend((0..count).map(|_| Packet::Pad))
    }

    fn push(&mut self, packet: Packet) -> Result<(), Unfit> {
        self.encoder.push(packet).map(drop)
    }
}

//! A plan as bytes (`mote_layout::functions`).

use mote_layout::functions::{Guard, HEADER_BYTES, MAGIC, Memory, Probe};

/// What a plan is made of, besides its code.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) probes: Vec<Probe>,
    pub(crate) guards: Vec<Guard>,
    /// Each with its NUL.
    pub(crate) texts: Vec<u8>,
}

/// Memory that is to be mapped: where, how many bytes, and what it begins with.
pub(crate) type Piece = (u64, u64, Vec<u8>);

impl Parts {
    /// The plan with this memory.
    pub(crate) fn to_bytes(&self, pieces: &[Piece], (multiplier, shift): (u32, u32)) -> Vec<u8> {
        let mut guards = self.guards.clone();
        guards.sort_by_key(|guard| guard.address);
        let mut words: Vec<u64> = Vec::new();
        let before_code = HEADER_BYTES
            + pieces.len() * size_of_val(&Memory::to_words(NOTHING))
            + self.probes.len()
                * size_of_val(&self.probes.first().map(|probe| probe.to_words()).unwrap_or_default())
            + guards.len() * size_of_val(&Guard { address: 0, copy: 0 }.to_words())
            + self.texts.len();
        let mut code = before_code as u64;
        for (address, len, bytes) in pieces {
            let code_len = bytes.len() as u64;
            words.extend(Memory { address: *address, len: *len, code, code_len }.to_words());
            code += code_len;
        }
        self.probes.iter().for_each(|probe| words.extend(probe.to_words()));
        guards.iter().for_each(|guard| words.extend(guard.to_words()));
        let clock = u64::from(multiplier) | u64::from(shift) << 32;
        let counts =
            [pieces.len(), self.probes.len(), guards.len(), self.texts.len()].map(|count| count as u64);
        let [memories, probes, guards, texts] = counts;
        let header = [MAGIC, code, memories, probes, guards, texts, clock, 0];
        let mut bytes: Vec<u8> = header.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&self.texts);
        pieces.iter().for_each(|(_, _, code)| bytes.extend_from_slice(code));
        bytes
    }
}

const NOTHING: Memory = Memory { address: 0, len: 0, code: 0, code_len: 0 };

//! A plan as bytes (`mote_layout::functions`).

use crate::Known;
use mote_layout::functions::{
    Counter, Counts, Guard, HEADER_BYTES, MAGIC, Memory, Probe, VALUE_BYTES, Value,
};

/// What a plan is made of, besides its code.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) probes: Vec<Probe>,
    pub(crate) guards: Vec<Guard>,
    pub(crate) values: Vec<Value>,
    pub(crate) counters: Vec<Counter>,
    /// In millionths; 0 for none.
    pub(crate) budget: u64,
    /// Where calls are counted.
    pub(crate) counts: Option<Counts>,
    /// The number of its callers; 0 for none.
    pub(crate) callers: u64,
    /// Where some calls have to return to.
    pub(crate) known: Known,
    /// Each with its NUL.
    pub(crate) texts: Vec<u8>,
}

/// Memory that is to be mapped: where, how many bytes, and what it begins with.
pub(crate) type Piece = (u64, u64, Vec<u8>);

impl Parts {
    /// The plan with this memory.
    pub(crate) fn to_bytes(&self, pieces: &[Piece], tick: u64) -> Vec<u8> {
        let mut guards = self.guards.clone();
        guards.sort_by_key(|guard| guard.address);
        let mut others: Vec<u64> = self.probes.iter().flat_map(|probe| probe.to_words()).collect();
        others.extend(guards.iter().flat_map(|guard| guard.to_words()));
        let records = pieces.len() * size_of::<Memory>() + others.len() * size_of::<u64>();
        let values = self.values.len() * VALUE_BYTES;
        let counters: Vec<u64> = self.counters.iter().flat_map(|counter| counter.to_words()).collect();
        let counted = size_of_val(counters.as_slice());
        let known: Vec<u64> = self.known.code.iter().flat_map(|code| [code.start, code.end]).collect();
        let more = counted + size_of_val(known.as_slice());
        let mut code = (HEADER_BYTES + records + values + more + self.texts.len()) as u64;
        let mut memories = Vec::new();
        for (address, len, bytes) in pieces {
            let code_len = bytes.len() as u64;
            memories.extend(Memory { address: *address, len: *len, code, code_len }.to_words());
            code += code_len;
        }
        let counts = [pieces.len(), self.probes.len(), guards.len(), self.values.len(), self.texts.len()];
        let [pieces_count, probes, guards, values, texts] = counts.map(|count| count as u64);
        let counted = self.counters.len() as u64;
        let [number, rows, row_bytes] = self.counts.map_or([0; 3], Counts::to_words);
        let header =
            [MAGIC, code, pieces_count, probes, guards, values, texts, tick, 0, self.budget, counted];
        let functions = &self.known.functions;
        let rest = [functions.start, functions.end, self.known.code.len() as u64];
        let header = header.into_iter().chain([number, rows, row_bytes, self.callers]).chain(rest);
        let header = header.collect::<Vec<u64>>();
        let words = header.iter().chain(&memories).chain(&others);
        let mut bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(self.values.iter().flat_map(|value| value.to_bytes()));
        bytes.extend(counters.iter().chain(&known).flat_map(|word| word.to_le_bytes()));
        bytes.extend_from_slice(&self.texts);
        pieces.iter().for_each(|(_, _, code)| bytes.extend_from_slice(code));
        bytes
    }
}

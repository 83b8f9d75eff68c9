//! Any bytes as a program: the verifier refuses it, or it runs without harm on a machine that checks each step.
#![no_main]

#[path = "../../lib/bpf/tests/support/mod.rs"]
mod support;

use mote_bpf::{Environment, Insn};
use support::machine::Random;
use support::{CONTEXT, MEMORY, verify_and_run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, program)) = bytes.split_first() else { return };
    let insns: Vec<Insn> =
        program.as_chunks().0.iter().take(256).map(|bytes| Insn::from_bytes(*bytes)).collect();
    let env = if kind & 1 == 0 { CONTEXT } else { MEMORY };
    verify_and_run(&insns, &Environment { steps_max: 2000, ..env }, &mut Random::new(kind.into()));
});

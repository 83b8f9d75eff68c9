//! Whatever the verifier accepts is run by a machine that stops at any misdeed, and looks whether what the verifier
//! claimed holds. The programs are random ones, and those of `programs.txt`, changed at random: many are refused, of
//! the others many are close to it.

mod support;

use mote_bpf::Insn;
use mote_bpf::environment::Environment;
use std::time::{Duration, Instant};
use support::machine::Random;
use support::{CONTEXT, generate, programs, verify_and_run};

/// Changes one thing of one instruction.
fn change(insns: &mut Vec<Insn>, other: &[Insn], random: &mut Random) {
    let at = random.below(insns.len() as u64) as usize;
    let insn = &mut insns[at];
    match random.below(9) {
        0 => insn.imm = random.number() as i32,
        1 => insn.imm = insn.imm.wrapping_add(random.below(5) as i32 - 2),
        2 => insn.off = insn.off.wrapping_add(random.below(17) as i16 - 8),
        3 => insn.regs = insn.regs & 0xf0 | random.below(11) as u8,
        4 => insn.regs = insn.regs & 0x0f | (random.below(11) as u8) << 4,
        5 => insn.code ^= 1 << random.below(8),
        6 => insn.code = insn.code & 0x0f | (random.below(16) as u8) << 4,
        7 => {
            let from = random.below(other.len() as u64) as usize;
            let count = random.below(4) as usize + 1;
            let taken: Vec<Insn> = other[from..].iter().take(count).copied().collect();
            insns.splice(at..at, taken);
        }
        _ if insns.len() > 2 => {
            insns.remove(at);
        }
        _ => {}
    }
}

/// For so long; how many were tried and accepted.
fn fuzz(seed: u64, time: Duration) -> (u64, u64) {
    let mut random = Random::new(seed);
    let texts: Vec<_> = programs().into_iter().map(|(_, insns, env)| (insns, env)).collect();
    let few = |env: &Environment<'static>| Environment { steps_max: 300, ..*env };
    let (mut tried, mut accepted) = (0, 0);
    let mut found: Vec<(Vec<Insn>, &Environment<'_>)> = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time {
        let (mut insns, env) = match random.below(4) {
            0 => texts[random.below(texts.len() as u64) as usize].clone(),
            1 if !found.is_empty() => found[random.below(found.len() as u64) as usize].clone(),
            _ => (generate::program(&mut random), &CONTEXT),
        };
        let other = &texts[random.below(texts.len() as u64) as usize].0;
        for _ in 0..random.below(4) {
            change(&mut insns, other, &mut random);
        }
        tried += 1;
        let bounded = few(env);
        if verify_and_run(&insns, &bounded, &mut random) {
            accepted += 1;
            // Changes of changed programs lead further.
            if insns.len() < 60 {
                match found.len() {
                    ..500 => found.push((insns, env)),
                    len => found[random.below(len as u64) as usize] = (insns, env),
                }
            }
        }
    }
    (tried, accepted)
}

#[test]
fn what_is_accepted_is_harmless() {
    let seconds = std::env::var("MOTE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let seed = std::env::var("MOTE_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (tried, accepted) = fuzz(seed, Duration::from_secs_f64(seconds));
    println!("{tried} programs, {accepted} accepted");
    assert!(accepted > 0);
}

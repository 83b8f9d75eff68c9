//! Our verdicts beside those of the running kernel's verifier, on random programs with a few instructions changed. What
//! the kernel accepts we accept too, but for rules of our own; what we accept and the kernel refuses is counted by its
//! reasons.
//!
//! The kernel takes programs of root, which may let pointers become numbers; filters may not.

mod support;

use mote_assembler::random::{Shape, program};
use mote_bpf::environment::{Entry, Environment};
use mote_bpf::op::{DecodeError, Op, Operand, encode};
use mote_bpf::verify::Reason;
use mote_bpf::{Insn, MapKind, MapShape, Reg};
use mote_sys::Errno;
use mote_sys::bpf::{self, Map, MapType, ProgramType};
use std::collections::BTreeMap;
use support::check;
use support::machine::Random;

const MEMORY: u32 = 64;
const MAPS: [MapShape; 1] =
    [MapShape { kind: MapKind::Array, key_bytes: 4, value_bytes: 8, entries: 4, read_only: false }];

/// Changes one field of one instruction.
fn change(insns: &mut [Insn], random: &mut Random) {
    let at = random.below(insns.len() as u64) as usize;
    let other = insns[random.below(insns.len() as u64) as usize];
    let insn = &mut insns[at];
    match random.below(6) {
        0 => insn.regs = insn.regs & 0xf0 | random.below(11) as u8,
        1 => insn.regs = insn.regs & 0x0f | (random.below(11) as u8) << 4,
        2 => insn.off = insn.off.wrapping_add(random.below(9) as i16 - 4),
        3 => insn.imm = insn.imm.wrapping_add(random.below(9) as i32 - 4),
        4 => insn.imm = random.number() as i32,
        _ => *insn = other,
    }
}

/// A program of the kernel that calls this one with a value of map 1 as its memory.
fn with_caller(insns: &[Insn]) -> Vec<u64> {
    let mov = |dst, imm| Op::Alu {
        width: mote_bpf::op::Width::W64,
        op: mote_bpf::op::AluOp::Mov,
        dst,
        src: Operand::Imm(imm),
    };
    let value = mote_bpf::op::Wide::MapValue { map: 1, offset: 0 };
    let caller = [
        Op::Wide { dst: Reg::R1, value },
        mov(Reg::R2, MEMORY as i32),
        Op::CallLocal { offset: 2 },
        mov(Reg::R0, 0),
        Op::Exit,
    ];
    let mut all = Vec::new();
    for op in caller {
        let (first, second) = encode(&op);
        all.push(first);
        all.extend(second);
    }
    all.extend_from_slice(insns);
    all.iter().map(|insn| u64::from_le_bytes(insn.to_bytes())).collect()
}

/// What the kernel says: nothing when it accepts.
fn kernel(insns: &[Insn], maps: &[i32], log: &mut [u8]) -> Result<(), Errno> {
    bpf::load_with_maps(ProgramType::Classifier, &with_caller(insns), maps, log).map(drop)
}

/// The last words of the kernel's log, without numbers.
fn reason(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    let last = text.lines().rev().find(|line| !line.starts_with("processed ") && !line.is_empty());
    last.unwrap_or("").chars().filter(|c| !c.is_ascii_digit() && *c != '-').collect()
}

/// Rules of ours that the kernel does not have for root: no pointer becomes a number, nothing is read that was not
/// written, fields that are not used are 0, and a lookup may fail (the kernel knows that an array's entry at a constant
/// index is there: so the way past a lookup that has failed is none to it, and a register that has no value there is
/// uninitialised to us alone).
fn is_ours(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::PointerLeak
            | Reason::PointerArithmetic
            | Reason::PointerComparison
            | Reason::NeedsNumber
            | Reason::StackUninitialised(_)
            | Reason::Decode(DecodeError::Field)
            | Reason::MayBeNull
            | Reason::Uninitialised
    )
}

#[test]
fn what_the_kernel_accepts_we_accept() {
    let Ok(map) = Map::create(MapType::Array, 4, 8, 4) else {
        mote_skip::skip("bpf(2) is not permitted");
        return;
    };
    let memory = Map::create(MapType::Array, 4, MEMORY, 1).expect("a second map");
    let maps = [map.raw(), memory.raw()];
    let env =
        Environment { entry: Entry::Memory { len: MEMORY }, maps: &MAPS, helpers: &[], steps_max: 1 << 16 };
    let times: u64 = std::env::var("MOTE_RANDOM").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let mut random = Random::new(5);
    let (mut both, mut neither, mut wrong) = (0, 0, None);
    let (mut only_kernel, mut only_ours) = (BTreeMap::new(), BTreeMap::new());
    let mut log = vec![0; 1 << 20];
    for seed in 0..150 * times {
        let shape = Shape { memory: MEMORY, statements: 8, functions: 1, map: true, ..Shape::default() };
        let mut insns = program(seed, &shape);
        for _ in 0..random.below(3) {
            change(&mut insns, &mut random);
        }
        match (check(&insns, &env), kernel(&insns, &maps, &mut [])) {
            (Ok(_), Ok(())) => both += 1,
            (Err(_), Err(_)) => neither += 1,
            (Ok(_), Err(errno)) => {
                let _ = kernel(&insns, &maps, &mut log);
                *only_ours.entry(format!("{errno}: {}", reason(&log))).or_insert(0) += 1;
            }
            (Err(why), Ok(())) => {
                if !is_ours(why.reason) {
                    println!(
                        "{seed}: the kernel accepts what we refuse: {why}: {:?}",
                        insns[why.insn as usize]
                    );
                    wrong = Some(insns);
                }
                *only_kernel.entry(format!("{:?}", why.reason)).or_insert(0) += 1;
            }
        }
    }
    println!("both {both}, neither {neither}, only the kernel {only_kernel:#?}, only ours {only_ours:#?}");
    if let Some(insns) = &wrong {
        panic!("for one:\n{}", mote_bpf::disassemble::Listing { insns, environment: None });
    }
    assert!(both > 30, "{both}");
    // A change has to take away the value on that way.
    let uninitialised = only_kernel.get("Uninitialised").copied().unwrap_or(0);
    assert!(uninitialised <= 1 + (both + neither) / 1000, "{uninitialised} of {both} and {neither}");
}

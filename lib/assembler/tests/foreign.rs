//! Our assembler reads what LLVM's disassembler writes of the same bytes.

use mote_assembler::random::{Shape, program};
use mote_assembler::text::assemble;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Op, Order, decode, encode};
use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// Instructions of before 2023, which every LLVM with eBPF knows, and whose text is unambiguous.
fn known(op: &Op) -> bool {
    match op {
        // LLVM 14 has no text for remainders and for `&` of branches.
        Op::Alu { op, .. } => {
            use AluOp::{Mod, MovSx8, MovSx16, MovSx32, SDiv, SMod};
            !matches!(op, Mod | SDiv | SMod | MovSx8 | MovSx16 | MovSx32)
        }
        Op::Branch { cond, .. } => *cond != Cond::Set,
        Op::End { order, .. } => *order != Order::Swap,
        Op::Load { signed, .. } => !signed,
        Op::Atomic { op, .. } => !matches!(op, AtomicOp::LoadAcquire | AtomicOp::StoreRelease),
        // Constants became storable with the fourth version; LLVM's `call 7` may be of a helper or local; its maps have
        // no name.
        Op::Store { src, .. } => matches!(src, mote_bpf::op::Operand::Reg(_)),
        Op::CallLocal { .. } | Op::Wide { value: mote_bpf::op::Wide::Map(_), .. } => false,
        _ => true,
    }
}

/// Instructions of random programs, each once, as bytes.
fn instructions() -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for seed in 0..60 {
        let insns = program(seed, &Shape { map: true, ..Shape::default() });
        let mut at = 0;
        while let Some(rest) = insns.get(at..).filter(|rest| !rest.is_empty()) {
            let op = decode(rest).expect("built well");
            at += op.slots();
            let (first, second) = encode(&op);
            let bytes: Vec<u8> =
                [Some(first), second].into_iter().flatten().flat_map(|i| i.to_bytes()).collect();
            if known(&op) && seen.insert(bytes.clone()) {
                all.push(bytes);
            }
        }
    }
    all
}

#[test]
fn llvms_text_assembles_to_the_same_bytes() {
    let all = instructions();
    let started = Command::new("llvm-mc")
        .args(["-disassemble", "-triple=bpfel", "-mattr=+alu32"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        mote_skip::skip("llvm-mc is not installed");
        return;
    };
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("0x{byte:02x} ")).collect::<String>() + "\n";
    let input: String = all.iter().map(hex).collect();
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unable to get target") {
        mote_skip::skip("llvm-mc does not know eBPF");
        return;
    }
    assert_eq!(said, "", "LLVM knows all of them");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().starts_with('.')).collect();
    assert_eq!(lines.len(), all.len());
    for (line, bytes) in lines.iter().zip(&all) {
        let ours = assemble(line, None).unwrap_or_else(|error| panic!("{line}: {error}"));
        let ours: Vec<u8> = ours.iter().flat_map(|insn| insn.to_bytes()).collect();
        assert_eq!(ours, *bytes, "{line}");
    }
    assert!(all.len() > 1000, "{}", all.len());
}

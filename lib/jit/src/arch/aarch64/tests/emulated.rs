//! Machine code is run by qemu-aarch64: all cases of the table that need no maps, calls, tail calls, faults of helpers.
//!
//! One static ELF holds all programs, and a driver that calls one after the other with marks in the registers that they
//! must bring back, and writes what they answer to standard output.

use super::super::asm::{Asm, Gpr, Three, Twelve};
use super::super::{bytes_max, compile};
use crate::sink::Sink;
use crate::{Error, FUNCTIONS_MAX, Frame, Function, HelperPlace, Input, functions, workspace_words};
use mote_assembler::text::assemble;
use mote_bpf::Insn;
use mote_bpf::op::Width;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

const BASE: u64 = 0x40_0000;
/// Words that the driver writes for each program: `x0`, `x1`, and bits of registers that were not brought back.
const ANSWER_WORDS: usize = 3;
const MARKED: [Gpr; 5] = [Gpr(19), Gpr(20), Gpr(21), Gpr(22), Gpr(25)];

/// A program, and what it is expected to answer.
struct Case {
    name: String,
    insns: Vec<Insn>,
    memory: Vec<u8>,
    result: Option<u64>,
    fault: u64,
    after: Option<Vec<u8>>,
}

/// Machine code of a few instructions.
fn assembled(write: impl FnOnce(&mut Asm<'_>)) -> Vec<u8> {
    let mut out = vec![0; 1 << 20];
    let mut asm = Asm { sink: Sink::new(&mut out) };
    write(&mut asm);
    let bytes = asm.sink.len();
    out.truncate(bytes);
    out
}

const RET: u32 = 0xd65f_03c0;

/// The file that is made: its bytes lie at [`BASE`].
struct Image(Vec<u8>);

impl Image {
    fn place(&mut self, bytes: &[u8]) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(16), 0);
        let at = BASE + self.0.len() as u64;
        self.0.extend_from_slice(bytes);
        at
    }

    /// Helper 7 returns `r1 + r5`, and leaves nonsense in all registers that it may. Helper 8 returns `r1 + r2`, with a
    /// fault when they are equal. The tail call goes to the address in `next`, as long as there were less than 33.
    fn place_helpers(&mut self, next: u64) -> [(u32, HelperPlace); 3] {
        let weigh = assembled(|asm| {
            asm.three(Three::Add, Width::W64, Gpr::X0, Gpr::X0, Gpr(4));
            for reg in (1..18).map(Gpr) {
                asm.mov_imm(reg, 0xdead_beef);
            }
            asm.word(RET);
        });
        let fail = assembled(|asm| {
            asm.three(Three::Sub, Width::W64, Gpr::X9, Gpr::X0, Gpr::X1);
            asm.three(Three::Add, Width::W64, Gpr::X0, Gpr::X0, Gpr::X1);
            // clz x1, x9; then its bit of 64
            asm.word_dn(0xdac0_1000, Gpr::X1, Gpr::X9);
            asm.bitfield(false, Width::W64, Gpr::X1, Gpr::X1, 6, 63);
            asm.word(RET);
        });
        let tail = assembled(|asm| {
            asm.mov_imm(Gpr::X9, next);
            asm.twelve(Twelve::Subs, Width::W64, Gpr::ZERO, Gpr::X3, 33);
            // ldr x0, [x9]; b.lo over the next
            asm.word_dn(0xf940_0000, Gpr::X0, Gpr::X9);
            asm.word(0x5400_0003 | 2 << 5);
            asm.mov_imm(Gpr::X0, 0);
            asm.word(RET);
        });
        let mut helper = |code: &[u8], faults| HelperPlace { address: self.place(code), faults };
        [(7, helper(&weigh, false)), (8, helper(&fail, true)), (12, helper(&tail, false))]
    }
}

fn made(insns: &[Insn], base: u64, helpers: &[(u32, HelperPlace)]) -> Result<Vec<u8>, Error> {
    let mut found = [Function::default(); FUNCTIONS_MAX];
    let count = functions(insns, &mut found)?;
    let helper = |id| helpers.iter().find(|one| one.0 == id).map(|one| one.1);
    let input = Input { insns, functions: &found[..count], maps: &[], helper: &helper, base };
    let mut out = vec![0; bytes_max(insns.len(), count)];
    let mut workspace = vec![0; workspace_words(insns.len())];
    let mut frames = vec![Frame::default(); count];
    let compiled = compile(&input, &mut out, &mut workspace, &mut frames)?;
    out.truncate(compiled.bytes);
    Ok(out)
}

/// Calls `entry` with two arguments, and keeps its answer at `answer`.
fn call(asm: &mut Asm<'_>, entry: u64, arguments: [u64; 2], answer: u64) {
    for (at, reg) in MARKED.into_iter().enumerate() {
        asm.mov_imm(reg, 0x1111 * (at as u64 + 1));
    }
    asm.mov_imm(Gpr::X0, arguments[0]);
    asm.mov_imm(Gpr::X1, arguments[1]);
    asm.mov_imm(Gpr::X2, 0);
    asm.mov_imm(Gpr::X3, 0);
    asm.mov_imm(Gpr::X16, entry);
    asm.word_dn(0xd63f_0000, Gpr(0), Gpr::X16);
    asm.mov_imm(Gpr::X11, 0);
    for (at, reg) in MARKED.into_iter().enumerate() {
        asm.mov_imm(Gpr::X9, 0x1111 * (at as u64 + 1));
        asm.three(Three::Eor, Width::W64, Gpr::X9, Gpr::X9, reg);
        asm.three(Three::Orr, Width::W64, Gpr::X11, Gpr::X11, Gpr::X9);
    }
    asm.mov_imm(Gpr::X9, answer);
    for (at, reg) in [Gpr::X0, Gpr::X1, Gpr::X11].into_iter().enumerate() {
        asm.word_dn(0xf900_0000 | (at as u32) << 10, reg, Gpr::X9);
    }
}

fn system_call(asm: &mut Asm<'_>, number: u64, arguments: [u64; 3]) {
    for (at, value) in arguments.into_iter().enumerate() {
        asm.mov_imm(Gpr(at as u8), value);
    }
    asm.mov_imm(Gpr(8), number);
    // svc 0
    asm.word(0xd400_0001);
}

/// Header and the one segment of a static executable (System V ABI, ELF-64; machine 183 is aarch64).
fn header(entry: u64, bytes: u64) -> Vec<u8> {
    let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for half in [2u16, 183] {
        out.extend(half.to_le_bytes());
    }
    out.extend(1u32.to_le_bytes());
    for word in [entry, 64, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 1, 64, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    // PT_LOAD, readable, writable, executable.
    for word in [1u32, 7] {
        out.extend(word.to_le_bytes());
    }
    for word in [0, BASE, BASE, bytes, bytes, 0x1000] {
        out.extend(word.to_le_bytes());
    }
    out
}

/// The executable, and how many bytes it writes.
fn executable(cases: &[Case]) -> (Vec<u8>, usize) {
    let mut image = Image(vec![0; 256]);
    let next = image.place(&[0; 8]);
    let helpers = image.place_helpers(next);
    let mut entries = vec![];
    for case in cases {
        let base = BASE + image.0.len().next_multiple_of(16) as u64;
        let code = made(&case.insns, base, &helpers).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let entry = image.place(&code);
        if case.name == TAIL_CALLS {
            let at = (next - BASE) as usize;
            image.0[at..at + 8].copy_from_slice(&entry.to_le_bytes());
        }
        entries.push((entry, image.place(&case.memory), case.memory.len()));
    }
    let answers = image.place(&vec![0; cases.len() * ANSWER_WORDS * 8]);
    let driver = assembled(|asm| {
        for (index, (entry, memory, len)) in entries.iter().enumerate() {
            call(asm, *entry, [*memory, *len as u64], answers + (index * ANSWER_WORDS * 8) as u64);
        }
        system_call(asm, 64, [1, answers, (cases.len() * ANSWER_WORDS * 8) as u64]);
        for (_, memory, len) in entries.iter().filter(|entry| entry.2 != 0) {
            system_call(asm, 64, [1, *memory, *len as u64]);
        }
        system_call(asm, 94, [0, 0, 0]);
    });
    let entry = image.place(&driver);
    let header = header(entry, image.0.len() as u64);
    image.0[..header.len()].copy_from_slice(&header);
    (image.0, cases.iter().map(|case| ANSWER_WORDS * 8 + case.memory.len()).sum())
}

/// What the emulator writes, if there is one.
fn emulate(executable: &[u8]) -> Option<Vec<u8>> {
    let qemu = ["qemu-aarch64", "qemu-aarch64-static"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success()));
    let Some(qemu) = qemu else {
        mote_skip::skip("qemu-aarch64 is not installed (Debian: qemu-user)");
        return None;
    };
    let path = std::env::temp_dir().join(format!("mote-jit-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(executable).unwrap();
    file.set_permissions(PermissionsExt::from_mode(0o755)).unwrap();
    drop(file);
    let out = Command::new(qemu).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(out.status.success(), "{:?} {}", out.status, String::from_utf8_lossy(&out.stderr));
    Some(out.stdout)
}

/// Name of the case that calls itself.
const TAIL_CALLS: &str = "tail calls";

fn own(name: &str, text: &str, memory: &[u64], result: Option<u64>, fault: u64) -> Case {
    let memory = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
    let insns = assemble(text, None).unwrap_or_else(|error| panic!("{name}: {error}"));
    Case { name: name.into(), insns, memory, result, fault, after: None }
}

/// Cases that the table cannot have.
fn own_cases() -> Vec<Case> {
    let inner = "r6 = *(u64 *)(r1 + 0)\nr7 = 2\nr1 = r6\ncall inner\nr0 += r6\nr0 += r7\nexit\n\
                 inner:\nr6 = 77\n*(u64 *)(r10 - 8) = r6\nr2 = 5\ncall 8\nr0 += 1\nexit";
    let tail = "r6 = r1\nr2 = *(u64 *)(r1 + 0)\nr2 += 1\n*(u64 *)(r1 + 0) = r2\n*(u64 *)(r10 - 16) = r2\n\
                r2 = 0\nr3 = 0\ncall 12\nr1 = r0\nr2 = *(u64 *)(r10 - 16)\nr0 = *(u64 *)(r6 + 0)\nr0 *= 1000\n\
                r0 += r2\nr0 += r1\nexit";
    vec![
        own(
            "arguments",
            "r1 = 1\nr2 = 2\nr3 = 3\nr4 = 4\nr5 = 50\nr9 = 600\ncall 7\nr0 += r9\nexit",
            &[],
            Some(651),
            0,
        ),
        own("no fault", inner, &[3], Some(3 + 5 + 1 + 3 + 2), 0),
        own("fault", inner, &[5], None, 1),
        own(TAIL_CALLS, tail, &[0], Some(34 * 1000 + 34 - 2), 0),
    ]
}

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim().strip_prefix("0x").unwrap(), 16).unwrap()
}

/// One case of the table: its name, and the lines below it. `None` when it needs maps or helpers.
fn parse(name: &str, lines: &[&str]) -> Option<Case> {
    let (mut text, mut memory, mut result, mut after) = (String::new(), vec![], None, None);
    for line in lines {
        if line.starts_with("map ") || line.starts_with("=> refused") {
            return None;
        } else if let Some(hex) = line.strip_prefix("mem ") {
            memory = bytes(hex);
        } else if let Some(hex) = line.strip_prefix("=> mem ") {
            after = Some(bytes(hex));
        } else if let Some(value) = line.strip_prefix("=> ") {
            result = Some(number(value));
        } else {
            text += &format!("{line}\n");
        }
    }
    let insns = assemble(&text, None).unwrap_or_else(|error| panic!("{name}: {error}"));
    match made(&insns, 0, &[]) {
        Err(Error::Helper(_)) => None,
        _ => Some(Case { name: name.into(), insns, memory, result, fault: 0, after }),
    }
}

fn table() -> Vec<Case> {
    let table = include_str!("../../../../../conform/tests/cases.txt");
    let parts: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    let starts: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].starts_with("case ")).collect();
    let ends = starts.iter().skip(1).copied().chain([parts.len()]);
    starts
        .iter()
        .zip(ends)
        .filter_map(|(start, end)| parse(&parts[*start][5..], &parts[start + 1..end]))
        .collect()
}

#[test]
fn all_cases() {
    let mut cases = own_cases();
    cases.extend(table());
    assert!(cases.len() > 300, "{}", cases.len());
    let (executable, len) = executable(&cases);
    let Some(out) = emulate(&executable) else { return };
    assert_eq!(out.len(), len);
    let word = |at: usize| u64::from_le_bytes(out[8 * at..8 * at + 8].try_into().unwrap());
    let mut memory = &out[cases.len() * ANSWER_WORDS * 8..];
    for (index, case) in cases.iter().enumerate() {
        let answer: [u64; ANSWER_WORDS] = core::array::from_fn(|at| word(index * ANSWER_WORDS + at));
        let expected = [case.result.unwrap_or(answer[0]), case.fault, 0];
        assert_eq!(answer, expected, "{}\n{:x?}", case.name, super::listing(&made_again(case)));
        let (own, rest) = memory.split_at(case.memory.len());
        if let Some(after) = &case.after {
            assert_eq!(own, after, "{}", case.name);
        }
        memory = rest;
    }
}

/// For the message.
fn made_again(case: &Case) -> Vec<u8> {
    let place = HelperPlace { address: 0, faults: true };
    made(&case.insns, 0, &[(7, place), (8, place), (12, place)]).unwrap_or_default()
}

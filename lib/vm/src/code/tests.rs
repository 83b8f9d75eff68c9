//! Machine code is run: the public vectors, called helpers, tail calls. `conform` runs the whole table of cases.

mod fused;

use super::{Code, Refused, Source};
use crate::arch::{self, scramble};
use crate::entry::Returned;
use mote_assembler::text::assemble;
use mote_bpf::Insn;
use mote_jit::{FUNCTIONS_MAX, Function, HelperPlace, MapPlace};
use std::format;
use std::string::String;
use std::vec::Vec;

/// A helper as the emitter wants it.
pub(crate) type Found = (u32, HelperPlace);

/// Compiles instructions that were not verified.
pub(crate) fn compile(insns: &[Insn], helpers: &[Found], maps: &[MapPlace]) -> Result<Code, Refused> {
    let mut functions = [Function::default(); FUNCTIONS_MAX];
    let count = mote_jit::functions(insns, &mut functions).map_err(Refused::Jit)?;
    let helper = |id| helpers.iter().find(|one| one.0 == id).map(|one| one.1);
    Code::compile(&Source { insns, functions: &functions[..count], maps, helper: &helper })
}

/// Compiles a text.
pub(crate) fn code(text: &str, helpers: &[Found]) -> Code {
    let insns = assemble(text, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    compile(&insns, helpers, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Interprets a program with two arguments.
pub(crate) fn run(code: &Code, r1: u64, r2: u64) -> Returned {
    // SAFETY: the tests' programs end, and read and write what the tests give them.
    unsafe { code.entry()(r1, r2, core::ptr::null(), 0) }
}

fn value(text: &str, helpers: &[Found]) -> u64 {
    let returned = run(&code(text, helpers), 0, 0);
    assert_eq!(returned.fault, 0, "{text}");
    returned.r0
}

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim().strip_prefix("0x").unwrap(), 16).unwrap()
}

#[test]
fn vectors() {
    let table = include_str!("../../../conform/tests/vectors.tsv");
    let mut ran = 0;
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, _, memory, program, expected] = fields[..] else { panic!("{line}") };
        let mut memory = bytes(memory.trim());
        let insns: Vec<Insn> =
            bytes(program).chunks(8).map(|one| Insn::from_bytes(one.try_into().unwrap())).collect();
        let code = compile(&insns, &[], &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let returned = run(&code, memory.as_mut_ptr() as u64, memory.len() as u64);
        assert_eq!(returned, Returned { r0: number(expected), fault: 0 }, "{name}");
        ran += 1;
    }
    assert!(ran >= 60);
}

extern "C" fn weigh(a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
    a + 10 * b + 100 * c + 1000 * d + 10000 * e
}

extern "C" fn fail_at(a: u64, b: u64, _: u64, _: u64, _: u64) -> Returned {
    Returned { r0: a + b, fault: u64::from(a == b) }
}

fn helpers() -> [Found; 3] {
    [
        (7, HelperPlace { address: weigh as *const () as u64, faults: false }),
        (8, HelperPlace { address: fail_at as *const () as u64, faults: true }),
        (9, HelperPlace { address: scramble as *const () as u64, faults: false }),
    ]
}

#[test]
fn helpers_get_their_arguments() {
    let text = "r1 = 1\nr2 = 2\nr3 = 3\nr4 = 4\nr5 = 5\ncall 7\nexit";
    assert_eq!(value(text, &helpers()), 54321);
}

#[test]
fn registers_survive_calls_and_the_stack_is_aligned() {
    for saved in 0..16u32 {
        for stack in [0, 8, 16, 136] {
            let mut text = String::new();
            let used: Vec<u32> = (0..4).filter(|bit| saved >> bit & 1 != 0).map(|bit| bit + 6).collect();
            for reg in &used {
                text += &format!("r{reg} = {reg}\n");
            }
            if stack != 0 {
                text += &format!("*(u64 *)(r10 - {stack}) = {stack}\n");
            }
            text += "call 9\nr1 = r0\nr1 <<= 32\nr0 = r1\n";
            for reg in &used {
                text += &format!("r0 += r{reg}\n");
            }
            if stack != 0 {
                text += &format!("r1 = *(u64 *)(r10 - {stack})\nr0 += r1\n");
            }
            text += "exit";
            let expected = used.iter().sum::<u32>() + stack;
            // A function is entered 8 bytes off a multiple of 16.
            assert_eq!(value(&text, &helpers()), 8 << 32 | u64::from(expected), "{text}");
        }
    }
}

#[test]
fn a_helper_can_end_the_program_from_within_functions() {
    let text = "
        r6 = r1
        r7 = 2
        call inner
        r0 += r6
        r0 += r7
        exit
    inner:
        r6 = 77
        *(u64 *)(r10 - 8) = r6
        r2 = 5
        call 8
        r0 += 1
        exit";
    let code = code(text, &helpers());
    assert_eq!(run(&code, 3, 0), Returned { r0: 3 + 5 + 1 + 3 + 2, fault: 0 });
    assert_eq!(run(&code, 5, 0).fault, 1);
}

#[test]
fn small_programs_have_no_frame() {
    // No more than these, and the frame table.
    assert_eq!(value("r0 = 1\nexit", &[]), 1);
    let code = code("r0 = 1\nexit", &[]);
    // SAFETY: the code is 8 bytes long at least.
    let start = unsafe { core::slice::from_raw_parts(code.start, 8) };
    assert_eq!(start, arch::RETURNS_ONE);
}

/// What the tail call finds.
static NEXT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

#[repr(C)]
struct Found2 {
    entry: u64,
    program: u64,
}

extern "C" fn find_next(_context: u64, map: u64, index: u64, count: u64, _: u64) -> Found2 {
    let next = NEXT.load(core::sync::atomic::Ordering::SeqCst);
    let entry = if count < 33 && index == 1 && map == 4711 { next } else { 0 };
    Found2 { entry, program: 0 }
}

#[test]
fn tail_calls_leave_their_frame() {
    let find = HelperPlace { address: find_next as *const () as u64, faults: false };
    // Counts its runs in memory, then calls itself; r6 and the stack are as if it were alone.
    let text = "
        r6 = r1
        r2 = *(u64 *)(r1 + 0)
        r2 += 1
        *(u64 *)(r1 + 0) = r2
        *(u64 *)(r10 - 16) = r2
        r2 = 4711
        r3 = *(u64 *)(r1 + 8)
        call 12
        r1 = r0
        r2 = *(u64 *)(r10 - 16)
        r0 = *(u64 *)(r6 + 0)
        r0 *= 1000
        r0 += r2
        r0 += r1
        exit";
    let code = code(text, &[(12, find)]);
    NEXT.store(code.entry() as usize as u64, core::sync::atomic::Ordering::SeqCst);
    let mut context = [0u64, 1];
    let returned = run(&code, context.as_mut_ptr() as u64, 0);
    assert_eq!(returned, Returned { r0: 34 * 1000 + 34 - 2, fault: 0 });
    let mut context = [0u64, 0];
    assert_eq!(run(&code, context.as_mut_ptr() as u64, 0).r0, 1001 - 2);
}

#[test]
fn code_is_executable_and_not_writable() {
    let code = code("r0 = 1\nexit", &[]);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let start = format!("{:x}-", code.start as usize);
    let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
    assert!(line.contains(" r-xp "), "{line}");
    assert_eq!(code.memory_bytes(), 4096);
}

#[test]
fn long_jumps_and_large_programs() {
    let mut text = String::from("r0 = 0\ngotol far\nback: r0 += 1\nexit\n");
    for at in 0..20000 {
        text += &format!("r0 += {at}\n");
    }
    text += "far: r0 = 41\nif r0 != 40 goto +1\nexit\ngotol back\n";
    assert_eq!(value(&text, &[]), 42);
}

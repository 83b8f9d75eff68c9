//! What the emitter writes, as a disassembler (yaxpeax-arm) reads it; and what it does, under qemu.

mod emulated;

use super::{bytes_max, compile};
use crate::testing::{BASE, every_operation, helpers};
use crate::{Error, FUNCTIONS_MAX, Frame, Function, Input, MapPlace, functions, workspace_words};
use mote_assembler::text::assemble;
use mote_bpf::Insn;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;
use yaxpeax_arch::{Arch, Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::ARMv8;

fn made(insns: &[Insn]) -> Result<Vec<u8>, Error> {
    let mut found = [Function::default(); FUNCTIONS_MAX];
    let count = functions(insns, &mut found)?;
    let maps = [MapPlace { descriptor: 0x1122_3344_5566, values: 0x1000 }];
    let input = Input { insns, functions: &found[..count], maps: &maps, helper: &helpers, base: BASE };
    let mut out = vec![0; bytes_max(insns.len(), count)];
    let mut workspace = vec![u32::MAX; workspace_words(insns.len())];
    let mut frames = vec![Frame::default(); count];
    let compiled = compile(&input, &mut out, &mut workspace, &mut frames)?;
    out.truncate(compiled.bytes);
    Ok(out)
}

fn listing(code: &[u8]) -> Vec<String> {
    let decoder = <ARMv8 as Arch>::Decoder::default();
    let line = |word: &[u8]| match decoder.decode(&mut U8Reader::new(word)) {
        Ok(insn) => insn.to_string(),
        Err(error) => panic!("{word:02x?}: {error}"),
    };
    code.chunks(4).map(line).collect()
}

fn check(program: &str, expected: &str) {
    let insns = assemble(program, None).unwrap_or_else(|error| panic!("{error}"));
    let code = made(&insns).unwrap_or_else(|error| panic!("{error}\n{program}"));
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let found = listing(&code);
    assert_eq!(found, expected, "\n{program}\n{}", found.join("\n"));
}

#[test]
fn everything_decodes() {
    for (op, insns) in every_operation() {
        let code = made(&insns).unwrap_or_else(|error| panic!("{op:?}: {error}"));
        let text = listing(&code);
        assert_eq!(text.last().map(String::as_str), Some("ret"), "{op:?}\n{text:?}");
    }
}

#[test]
fn an_integer_predicate() {
    check(
        "r2 = *(u32 *)(r1 + 8)
         if r2 <= 1500 goto out
         r0 = 1
         exit
         out: r0 = 0
         exit",
        "ldr w1, [x0, #0x8]
         cmp x1, #0x5dc
         b.ls $+0x14
         mov x7, #0x1
         mov x0, x7
         mov x1, #0x0
         ret
         mov x7, #0x0
         mov x0, x7
         mov x1, #0x0
         ret",
    );
}

#[test]
fn a_frame() {
    check(
        "r6 = r1
         *(u32 *)(r10 - 12) = 7
         call 8
         r0 += r6
         exit",
        "sub sp, sp, #0x220
         str x30, [sp]
         str x25, [sp, #0x8]
         str x19, [sp, #0x10]
         add x25, sp, #0x220
         mov x19, x0
         mov x10, #0x7
         stur w10, [x25, #-0xc]
         mov x16, #0x1000
         movk x16, #0x7f00, lsl #32
         blr x16
         cbz x1, $+0x8
         b $+0x28
         mov x7, x0
         add x7, x7, x19
         mov x0, x7
         mov x1, #0x0
         ldr x30, [sp]
         ldr x25, [sp, #0x8]
         ldr x19, [sp, #0x10]
         add sp, sp, #0x220
         ret
         ldr x30, [sp]
         ldr x25, [sp, #0x8]
         ldr x19, [sp, #0x10]
         add sp, sp, #0x220
         ret",
    );
}

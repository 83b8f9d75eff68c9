//! What the emitter writes, as a disassembler (iced-x86) reads it. That it is right is shown by running it, in `vm`.

use super::{Registers, bytes_max, compile};
use crate::testing::{every_operation, helpers};
use crate::{Error, FUNCTIONS_MAX, Frame, Function, Input, MapPlace, functions, workspace_words};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter, Mnemonic};
use mote_assembler::text::assemble;
use mote_bpf::Insn;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

fn made(insns: &[Insn]) -> Result<(Vec<u8>, Vec<Frame>), Error> {
    let mut found = [Function::default(); FUNCTIONS_MAX];
    let count = functions(insns, &mut found)?;
    let maps = [MapPlace { descriptor: 0x1122_3344_5566, values: 0x1000 }];
    let input = Input {
        insns,
        functions: &found[..count],
        maps: &maps,
        helper: &helpers,
        base: crate::testing::BASE,
    };
    let mut out = vec![0; bytes_max(insns.len(), count)];
    let mut workspace = vec![u32::MAX; workspace_words(insns.len())];
    let mut frames = vec![Frame::default(); count];
    let compiled = compile(&input, &mut out, &mut workspace, &mut frames)?;
    out.truncate(compiled.bytes);
    Ok((out, frames))
}

fn listing(code: &[u8]) -> String {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_branch_leading_zeros(false);
    let mut text = String::new();
    while decoder.can_decode() {
        let insn = decoder.decode();
        assert_ne!(insn.mnemonic(), Mnemonic::INVALID, "{code:02x?}");
        let mut line = String::new();
        formatter.format(&insn, &mut line);
        text += &format!("{:x} {}\n", insn.ip(), line.replace("short ", ""));
    }
    text
}

/// The machine code of a program.
fn check(program: &str, expected: &str) {
    let insns = assemble(program, None).unwrap_or_else(|error| panic!("{error}"));
    let (code, _) = made(&insns).unwrap_or_else(|error| panic!("{error}\n{program}"));
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let found = listing(&code);
    // Offsets are only looked at where a jump leads.
    let without: Vec<&str> =
        found.lines().map(|line| line.split_once(' ').map_or("", |pair| pair.1)).collect();
    assert_eq!(without, expected, "\n{program}\n{found}");
}

#[test]
fn an_integer_predicate_is_six_instructions() {
    check(
        "r2 = *(u32 *)(r1 + 8)
         if r2 <= 1500 goto out
         r0 = 1
         exit
         out: r0 = 0
         exit",
        "cmp dword ptr [rdi+8],5DCh
         jbe 11h
         mov eax,1
         xor edx,edx
         ret
         xor eax,eax
         xor edx,edx
         ret",
    );
}

#[test]
fn a_string_predicate_compares_memory() {
    check(
        "r2 = *(u64 *)(r1 + 0)
         r2 += 13
         r3 = *(u64 *)(r1 + 8)
         if r2 != r3 goto out
         r4 = 0x6f66206e6f697369 ll
         r5 = *(u64 *)(r2 - 13)
         r4 ^= r5
         r5 = *(u32 *)(r2 - 5)
         w5 ^= 0x12345678
         r4 |= r5
         if r4 != 0 goto out
         r5 = *(u8 *)(r2 - 1)
         if r5 != 0x72 goto out
         r0 = 1
         exit
         out: r0 = 0
         exit",
        "mov rsi,[rdi]
         add rsi,0Dh
         cmp rsi,[rdi+8]
         jne 39h
         mov rcx,6F66206E6F697369h
         xor rcx,[rsi-0Dh]
         mov r8d,[rsi-5]
         xor r8d,12345678h
         or rcx,r8
         jne 39h
         cmp byte ptr [rsi-1],72h
         jne 39h
         mov eax,1
         xor edx,edx
         ret
         xor eax,eax
         xor edx,edx
         ret",
    );
}

#[test]
fn sums_go_before_the_load_that_they_are_compared_with() {
    check(
        "r2 = *(u64 *)(r1 + 0)
         r3 = *(u64 *)(r1 + 8)
         r4 = r2
         r4 += 5
         if r4 > r3 goto out
         r0 = r2
         exit
         out: r0 = 0
         exit",
        "mov rsi,[rdi]
         lea rcx,[rsi+5]
         cmp rcx,[rdi+8]
         ja 13h
         mov rax,rsi
         xor edx,edx
         ret
         xor eax,eax
         xor edx,edx
         ret",
    );
}

#[test]
fn frames_hold_what_is_used() {
    check(
        "r6 = r1
         *(u32 *)(r10 - 12) = 7
         call 7
         r0 += r6
         exit",
        "push rbp
         mov rbp,rsp
         sub rsp,208h
         push rbx
         mov rbx,rdi
         mov dword ptr [rbp-0Ch],7
         call 1000h
         add rax,rbx
         xor edx,edx
         pop rbx
         leave
         ret",
    );
    check("call 7\nexit", "push rax\ncall 1000h\nxor edx,edx\npop r11\nret");
    check(
        "call 9\nr0 = 0\nexit",
        "push rax\nmov rax,123456789ABCh\ncall rax\nxor eax,eax\nxor edx,edx\npop r11\nret",
    );
}

#[test]
fn a_helper_that_faults_is_looked_at() {
    check(
        "r6 = r1\ncall 8\nr0 += r6\nexit",
        "push rbx
         mov rbx,rdi
         call 1000h
         test edx,edx
         jne 18h
         add rax,rbx
         xor edx,edx
         pop rbx
         ret
         pop rbx
         ret",
    );
}

#[test]
fn small_things() {
    // Constants, moves of nothing, dead values.
    check("r0 = 0\nr2 = 5\nr3 = 1 ll\nexit", "xor eax,eax\nxor edx,edx\nret");
    check("r0 = -1\nexit", "mov rax,0FFFFFFFFFFFFFFFFh\nxor edx,edx\nret");
    check("r0 = 0xfffffffe ll\nexit", "mov eax,0FFFFFFFEh\nxor edx,edx\nret");
    // Narrow forms.
    check("r0 = r1\nr0 &= 255\nexit", "mov rax,rdi\nmovzx eax,al\nxor edx,edx\nret");
    check("r0 = r1\nr0 &= 1023\nexit", "mov rax,rdi\nand eax,3FFh\nxor edx,edx\nret");
    check("r0 = r1\nr0 <<= 32\nr0 >>= 32\nexit", "mov eax,edi\nxor edx,edx\nret");
    check("r0 = r1\nr0 /= 8\nr0 %= 4\nexit", "mov rax,rdi\nshr rax,3\nand eax,3\nxor edx,edx\nret");
    check("r0 = r1\nr0 += 128\nexit", "lea rax,[rdi+80h]\nxor edx,edx\nret");
    // A register that no thread reads again need not be kept.
    check("r0 = r1\nr0 <<= r2\nexit", "mov rax,rdi\nmov ecx,esi\nshl rax,cl\nxor edx,edx\nret");
    // Jumps to jumps, branches over jumps, jumps to an end.
    check(
        "if r1 == 0 goto +1\ngoto +1\ngoto +1\nexit\nr0 = 3\nexit",
        "test rdi,rdi\njne 0Dh\nmov eax,3\nxor edx,edx\nret\nxor edx,edx\nret\nmov eax,3\nxor edx,edx\nret",
    );
}

/// Fifty texts fit into a page of code.
#[test]
fn fifty_strings_are_small() {
    let mut text = String::new();
    for at in 0..50 {
        text += &format!(
            "r2 = *(u64 *)(r1 + {})\nr2 += 8\nr3 = *(u64 *)(r1 + {})\nif r2 != r3 goto out\n\
             r4 = {} ll\nr5 = *(u64 *)(r2 - 8)\nif r5 != r4 goto out\n",
            16 * at,
            16 * at + 8,
            0x6162_6364_6566_0000u64 + at
        );
    }
    text += "r0 = 1\nexit\nout: r0 = 0\nexit";
    let (code, frames) = made(&assemble(&text, None).unwrap()).unwrap();
    assert!(code.len() < 4096 - 64, "{}", code.len());
    assert_eq!(frames, [Frame { entry: 0, start: 0, end: code.len() as u32, gap: 0, saved: 0 }]);
}

/// Every operation on registers of each kind decodes to whole instructions and ends with the return.
#[test]
fn everything_decodes() {
    for (op, insns) in every_operation() {
        let (code, _) = made(&insns).unwrap_or_else(|error| panic!("{op:?}: {error}"));
        let text = listing(&code);
        assert!(text.ends_with("ret\n"), "{op:?}\n{text}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let error = |text: &str| made(&assemble(text, None).unwrap()).unwrap_err();
    assert_eq!(error("r0 = 1"), Error::RunsOut(0));
    assert_eq!(error("r0 = 1\ncall 4\nexit"), Error::Helper(1));
    assert_eq!(error("r1 = map[1] ll\nr0 = r1\nexit"), Error::Map(0));
    assert_eq!(error("goto +5\nexit"), Error::Target(0));
    assert_eq!(error("if r1 == 0 goto +1\nr0 = 1 ll\nexit"), Error::Target(0));
    assert_eq!(error("call f\nexit\nf: call 12\nexit"), Error::TailCall(2));
    assert_eq!(made(&[]).unwrap_err(), Error::Functions);
    let insns = assemble("r0 = 1\nexit", None).unwrap();
    let one = [Function::default()];
    let input = Input { insns: &insns, functions: &one, maps: &[], helper: &helpers, base: 0 };
    let mut frames = [Frame::default()];
    assert_eq!(compile(&input, &mut [0; 64], &mut [0; 4], &mut frames), Err(Error::Room));
    assert_eq!(compile(&input, &mut [0; 7], &mut [0; 6], &mut frames), Err(Error::Room));
    assert!(compile(&input, &mut [0; 8], &mut [0; 6], &mut frames).is_ok());
}

#[test]
fn a_frame_is_undone_from_outside() {
    let insns = assemble("r6 = 1\nr8 = 2\n*(u64 *)(r10 - 16) = r6\ncall 7\nexit", None).unwrap();
    let (_, frames) = made(&insns).unwrap();
    // rsp: r14, rbx, the gap; then rbp, the return address.
    let gap = u64::from(frames[0].gap);
    let stack = |at: u64| match at - 0x1000 {
        0 => 14,
        8 => 11,
        at if at == 16 + gap => 12,
        at if at == 24 + gap => 99,
        at => panic!("{at}"),
    };
    let now = Registers { rip: 5, rsp: 0x1000, rbp: 1, saved: [2, 3, 4, 5] };
    let then = Registers { rip: 99, rsp: 0x1000 + 32 + gap, rbp: 12, saved: [11, 3, 14, 5] };
    assert_eq!(now.caller(&frames[0], stack), then);
}

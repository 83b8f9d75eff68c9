//! Text to bytes and back, both syntaxes, errors.

use super::*;
use mote_bpf::disassemble::{Listing, line};
use mote_bpf::op::decode;

#[track_caller]
fn check(text: &str, expect: &str) {
    let insns = assemble(text, None).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(line(&insns, None).expect("one").to_string(), expect);
}

#[track_caller]
fn refused(text: &str, column: usize, message: &str) {
    let error = assemble(text, None).expect_err(text);
    assert_eq!((error.column, error.message.as_str()), (column, message), "{text}");
}

/// Every first slot that can be decoded, in many variants, and those that cannot: text and back gives the same bytes.
#[test]
fn what_is_written_is_read_the_same() {
    let mut seen = [0; 2];
    for code in 0..=255u8 {
        for regs in [0u8, 0x01, 0x10, 0x12, 0x50, 0x61, 0xa9, 0xb0] {
            for off in [0i16, 1, 8, 16, 32, -7, i16::MIN, i16::MAX] {
                for imm in [0i32, 1, 16, 64, 0x41, 0xa0, 0xe1, 0xf1, 0x100, 0x110, -1, i32::MIN, i32::MAX] {
                    let pair = [Insn { code, regs, off, imm }, Insn::new(0, 0, 0, 0, 0x1234_5678)];
                    let good = decode(&pair).is_ok();
                    seen[usize::from(good)] += 1;
                    let slots = line(&pair, None).expect("one").slots();
                    let text = line(&pair, None).expect("one").to_string();
                    let back = assemble(&text, None).unwrap_or_else(|error| panic!("{text}: {error}"));
                    assert_eq!(back, pair[..slots], "{text}");
                }
            }
        }
    }
    assert!(seen[0] > 50_000 && seen[1] > 5000, "{seen:?}");
}

#[test]
fn listings_are_read_back() {
    let text = "r1 = map[idx:3] ll\nif w1 s> -4 goto +1\ncall pc+1\nr2 = map[idx:1]+12 ll\nexit\n";
    let insns = assemble(text, None).unwrap();
    let listing = Listing { insns: &insns, environment: None }.to_string();
    assert!(listing.contains("   2: if w1 s> -4 goto +1\n"), "{listing}");
    assert_eq!(assemble(&listing, None).unwrap(), insns);
}

#[test]
fn both_syntaxes_say_the_same() {
    for (one, other) in [
        ("mov32 r0, 5", "w0 = 5"),
        ("mov %r0, %r1", "r0 = r1"),
        ("add64 r0, -1", "r0 += -1"),
        ("add r0, 0xffffffff", "r0 += -1"),
        ("sdiv32 r3, r4", "w3 s/= w4"),
        ("smod r3, 7", "r3 s%= 7"),
        ("arsh r3, 7", "r3 s>>= 7"),
        ("neg32 r3", "w3 = -w3"),
        ("be16 r3", "r3 = be16 r3"),
        ("swap64 r3", "r3 = bswap64 r3"),
        ("movsx1632 r1, r2", "w1 = (s16)w2"),
        ("movsx3264 r1, r2", "r1 = (s32)r2"),
        ("lddw r0, 0x1122334455667788", "r0 = 0x1122334455667788 ll"),
        ("lddw r0, -1", "r0 = 0xffffffffffffffff ll"),
        ("ldxw r0, [r1+4]", "r0 = *(u32 *)(r1 + 4)"),
        ("ldxsb r0, [r1]", "r0 = *(s8 *)(r1 + 0)"),
        ("stb [r1-2], 0x11", "*(u8 *)(r1 - 2) = 17"),
        ("stxdw [r10-8], r2", "*(u64 *)(r10 - 8) = r2"),
        ("lock add [r1], r2", "lock *(u64 *)(r1 + 0) += r2"),
        ("lock fetch xor32 [r1+4], r2", "w2 = atomic_fetch_xor((u32 *)(r1 + 4), w2)"),
        ("lock cmpxchg [r10-8], r1", "r0 = cmpxchg_64(r10 - 8, r0, r1)"),
        ("lock xchg32 [r10-8], r1", "w1 = xchg32_32(r10 - 8, w1)"),
        ("jeq r1, r2, +3", "if r1 == r2 goto +3"),
        ("jsle32 r1, -3, -2", "if w1 s<= -3 goto -2"),
        ("if w2 s< 5 goto +6 <LBB0_2>", "if w2 s< 5 goto +6"),
        ("goto -2 <main+0x10>", "goto -2"),
        ("ja +5", "goto +5"),
        ("ja32 +5", "gotol +5"),
        ("call 5", "call ktime_get_ns"),
        ("call helper 5", "call ktime_get_ns"),
        ("call bpf_map_lookup_elem#1", "call map_lookup_elem"),
        ("call bpf_map_update_elem", "call map_update_elem"),
        ("call local +2", "call pc+2"),
        ("w1 = *(u8 *)(r2 + 1)", "r1 = *(u8 *)(r2 + 1)"),
        ("*(u32 *)(r10 -8) = w1 # as the kernel", "*(u32 *)(r10 - 8) = r1"),
        ("r0 = atomic64_cmpxchg((u64 *)(r10 -8), r0, r1)", "r0 = cmpxchg_64(r10 - 8, r0, r1)"),
        ("r1 = atomic64_fetch_add((u64 *)(fp -8), r1)", "r1 = atomic_fetch_add((u64 *)(r10 - 8), r1)"),
    ] {
        check(one, other);
        check(other, other);
    }
}

#[test]
fn labels_go_both_ways() {
    let text =
        "top: r0 += 1\nlddw r1, 7\nif r0 < 5 goto top\ncall helper_of_ours\nexit\nhelper_of_ours:\n  exit";
    let insns = assemble(text, None).unwrap();
    assert_eq!(insns[3].off, -4);
    assert_eq!((insns[4].imm, insns[4].src()), (1, 1));
    // `exit` is the first one when it is no label.
    let insns = assemble("jeq r1, 0, exit\nmov r0, 1\nexit\nexit", None).unwrap();
    assert_eq!(insns[0].off, 1);
}

#[test]
fn errors_say_where_and_what() {
    refused("r0 = r11", 6, "expected a register (r0 to r10), found `r11`");
    refused("  w0 += r1", 9, "expected a lower half (w0 to w10), found `r1`");
    refused(
        "r0 += 4294967296",
        7,
        "expected a number of 32 bits (-2147483648 to 2147483647), found 4294967296",
    );
    refused("r0 = *(u31 *)(r1 + 0)", 8, "expected a type (u8 to u64, s8 to s32), found `u31`");
    refused("r0 = *(u32 *)(r1 + 32768)", 20, "expected an offset of 16 bits (-32768 to 32767), found 32768");
    refused("goto nowhere", 6, "expected a label or an offset (`+3`), found `nowhere`, which is nowhere");
    refused("call nobody", 6, "expected a helper or a label, found `nobody`, which is neither");
    refused("frobnicate r0, r1", 1, "expected an instruction, found `frobnicate`");
    refused("r0 = r1 r2", 9, "expected the end of the line, found `r2`");
    refused("if r0 == 5 goto", 16, "expected a label or an offset (`+3`), found the end of the line");
    refused("r0 = -r1", 7, "expected `r0`, the same register, found `r1`");
    refused("w0 = 5 ll", 6, "expected a 32-bit value, found one for a whole register (r0 to r10)");
    refused("r0 = é", 6, "expected an instruction, found `\\u{e9}`");
    refused(
        "r0 = 99999999999999999999",
        6,
        "expected a number of at most 64 bits, found `99999999999999999999`",
    );
    refused("lock *(u8 *)(r1 + 0) += r2", 7, "expected u32 or u64, found a smaller type");
    let error = assemble("exit\n\na: exit\na: exit", None).unwrap_err();
    assert_eq!(error.to_string(), "line 4, column 1: label `a` is there already");
    let far = format!("if r0 == 0 goto out\n{}out: exit", "exit\n".repeat(40_000));
    assert_eq!(assemble(&far, None).unwrap_err().message, "+40000 is too far for this jump; use gotol");
    assert!(assemble(&"exit\n".repeat(70_000), None).is_err());
}

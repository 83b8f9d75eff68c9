//! Steps that are made of several instructions, and instructions that need registers of the machine for themselves,
//! against plain arithmetic.

use super::{code, run, value};
use std::format;
use std::string::String;

const CONDS: [&str; 11] = ["==", "!=", ">", ">=", "<", "<=", "&", "s>", "s>=", "s<", "s<="];
const EDGES: [i64; 18] = [
    0,
    1,
    2,
    5,
    0x7e,
    0x7f,
    0x80,
    0x81,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    -1,
    -128,
    -129,
    -0x8000_0000,
];

fn holds(cond: &str, wide: bool, a: u64, b: u64) -> bool {
    let (a, b) = if wide { (a, b) } else { (a & 0xffff_ffff, b & 0xffff_ffff) };
    let signed = |x: u64| if wide { x as i64 } else { i64::from(x as i32) };
    match cond {
        "==" => a == b,
        "!=" => a != b,
        ">" => a > b,
        ">=" => a >= b,
        "<" => a < b,
        "<=" => a <= b,
        "&" => a & b != 0,
        "s>" => signed(a) > signed(b),
        "s>=" => signed(a) >= signed(b),
        "s<" => signed(a) < signed(b),
        _ => signed(a) <= signed(b),
    }
}

/// What a load of this type gives.
fn loaded(kind: &str, memory: u64) -> u64 {
    match kind {
        "u8" => u64::from(memory as u8),
        "u16" => u64::from(memory as u16),
        "u32" => u64::from(memory as u32),
        "s8" => memory as i8 as u64,
        "s16" => memory as i16 as u64,
        "s32" => memory as i32 as u64,
        _ => memory,
    }
}

const KINDS: [&str; 7] = ["u8", "u16", "u32", "u64", "s8", "s16", "s32"];
/// Bits around the value, of which nothing may be seen.
const NOISE: u64 = 0xa5a5_5a5a_c3c3_3c3c;

fn memories(kind: &str, edge: i64) -> [u64; 4] {
    let bits = kind[1..].parse::<u32>().unwrap();
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    [edge, edge + 1, edge - 1, !edge].map(|value| value as u64 & mask | NOISE & !mask)
}

fn check(text: &str, wide: bool, cond: &str, left: impl Fn(u64) -> (u64, u64), memories: &[u64]) {
    let code = code(text, &[]);
    for memory in memories {
        let (a, b) = left(*memory);
        let returned = run(&code, memory as *const u64 as u64, NOISE);
        assert_eq!(returned.r0, u64::from(holds(cond, wide, a, b)), "{text}\nmemory {memory:#x}");
    }
}

#[test]
fn memory_compared_with_constants() {
    for kind in KINDS {
        for cond in CONDS {
            for (wide, reg) in [(true, "r3"), (false, "w3")] {
                for imm in EDGES {
                    let text = format!(
                        "r3 = *({kind} *)(r1 + 0)\nif {reg} {cond} {imm} goto +2\nr0 = 0\nexit\nr0 = 1\nexit"
                    );
                    let pair = |memory| (loaded(kind, memory), imm as u64);
                    check(&text, wide, cond, pair, &memories(kind, imm));
                }
            }
        }
    }
}

#[test]
fn memory_compared_with_registers() {
    for kind in KINDS {
        for cond in CONDS {
            for (wide, a, b) in [(true, "r3", "r2"), (false, "w3", "w2")] {
                for imm in [0u64, 1, 0x80, 0x7fff_ffff, 0xffff_ffff, u64::MAX, 0x1122_3344_5566_7788] {
                    for (left, right, between, turned) in [
                        (a, b, "", false),
                        (b, a, "", true),
                        (a, b, "r4 = 5", false),
                        (a, b, "CONSTANT", false),
                        (b, a, "CONSTANT", true),
                    ] {
                        let constant = format!("r2 = {imm} ll");
                        let (before, between) =
                            if between == "CONSTANT" { ("", &*constant) } else { (&*constant, between) };
                        let text = format!(
                            "{before}\nr3 = *({kind} *)(r1 + 0)\n{between}\nif {left} {cond} {right} goto +2\n\
                             r0 = 0\nexit\nr0 = 1\nexit"
                        );
                        let pair = |memory| {
                            let value = loaded(kind, memory);
                            if turned { (imm, value) } else { (value, imm) }
                        };
                        check(&text, wide, cond, pair, &memories(kind, imm as i64));
                    }
                }
            }
        }
    }
}

#[test]
fn branches_over_jumps() {
    for cond in CONDS {
        let text = format!("if r1 {cond} r2 goto +1\ngoto +2\nr0 = 1\nexit\nr0 = 0\nexit");
        let code = code(&text, &[]);
        for a in EDGES {
            for b in EDGES {
                let expected = u64::from(holds(cond, true, a as u64, b as u64));
                assert_eq!(run(&code, a as u64, b as u64).r0, expected, "{text}\n{a} {b}");
            }
        }
    }
}

/// Arithmetic that an operation is compared with.
type Wanted = fn(u64, u64) -> u64;

#[test]
fn memory_as_an_operand() {
    let a = 0x1234_5678_9abc_def0u64;
    let b = 0xfedc_ba98_8765_4321u64;
    let both: [(&str, Wanted); 6] = [
        ("+=", u64::wrapping_add),
        ("-=", u64::wrapping_sub),
        ("*=", u64::wrapping_mul),
        ("&=", |a, b| a & b),
        ("|=", |a, b| a | b),
        ("^=", |a, b| a ^ b),
    ];
    for (op, wanted) in both {
        for (kind, from) in [("u64", b), ("u32", b & 0xffff_ffff), ("u16", b & 0xffff)] {
            let text = format!("r3 = *({kind} *)(r1 + 0)\nr2 {op} r3\nr0 = r2\nexit");
            assert_eq!(run(&code(&text, &[]), &raw const b as u64, a).r0, wanted(a, from), "{text}");
            let text = format!("r3 = *({kind} *)(r1 + 0)\nw2 {op} w3\nr0 = r2\nexit");
            let low = u64::from(wanted(a, from) as u32);
            assert_eq!(run(&code(&text, &[]), &raw const b as u64, a).r0, low, "{text}");
        }
    }
}

#[test]
fn sums_and_extensions() {
    let text = "r2 = r1\nr2 += 100\nr3 = r1\nr3 += r2\nr4 = r3\nr4 -= -5\nr5 = r4\nr5 += r5\nr0 = r5\nexit";
    assert_eq!(run(&code(text, &[]), 7, 0).r0, ((7 + 107) + 5) * 2);
    let with = |text: &str| run(&code(text, &[]), 0xffff_ffff_8000_0001, 0).r0;
    assert_eq!(with("r1 <<= 32\nr1 >>= 32\nr0 = r1\nexit"), 0x8000_0001);
    assert_eq!(with("r1 <<= 32\nr1 s>>= 32\nr0 = r1\nexit"), 0xffff_ffff_8000_0001);
    assert_eq!(with("r2 = r1\nr2 <<= 32\nr2 >>= 32\nr0 = r2\nr0 += r1\nexit"), 2);
    assert_eq!(with("r2 = r1\nr2 <<= 32\nr2 s>>= 32\nr0 = r2\nr0 -= r1\nexit"), 0);
    assert_eq!(with("r2 = r1\nr2 <<= 32\nr2 >>= 31\nr0 = r2\nexit"), 0x1_0000_0002);
}

/// Every pair of registers, with all other registers looked at (or none of them) after.
#[test]
fn operations_leave_other_registers_alone() {
    let ops: [(&str, Wanted); 9] = [
        ("r{d} <<= r{s}", |a, b| a << (b & 63)),
        ("r{d} >>= r{s}", |a, b| a >> (b & 63)),
        ("w{d} s>>= w{s}", |a, b| u64::from((a as i32 >> (b & 31)) as u32)),
        ("r{d} /= r{s}", |a, b| a / b),
        ("r{d} %= r{s}", |a, b| a % b),
        ("w{d} s/= w{s}", |a, b| u64::from((a as i32).wrapping_div(b as i32) as u32)),
        ("r{d} s%= r{s}", |a, b| (a as i64).wrapping_rem(b as i64) as u64),
        ("w{d} /= 7", |a, _| u64::from(a as u32 / 7)),
        ("r{d} s/= -7", |a, _| ((a as i64) / -7) as u64),
    ];
    let start = |reg: u64| 0x8123_4567_89ab_cdef_u64.rotate_left(reg as u32 * 7) | 1;
    for (op, wanted) in ops {
        for dst in 0..10u64 {
            for src in 0..10u64 {
                let mut expected: [u64; 10] = core::array::from_fn(|reg| start(reg as u64));
                expected[dst as usize] = wanted(start(dst), start(src));
                let op = op.replace("{d}", &format!("{dst}")).replace("{s}", &format!("{src}"));
                let mut text = String::from("*(u64 *)(r10 - 88) = r1\n");
                for reg in 0..10 {
                    text += &format!("r{reg} = {:#x} ll\n", start(reg));
                }
                text += &op;
                let mut all = text.clone();
                for reg in 0..10 {
                    all += &format!("\n*(u64 *)(r10 - {}) = r{reg}", 8 * (reg + 1));
                }
                all += "\nr1 = *(u64 *)(r10 - 88)";
                for reg in 0..10 {
                    all +=
                        &format!("\nr2 = *(u64 *)(r10 - {})\n*(u64 *)(r1 + {}) = r2", 8 * (reg + 1), 8 * reg);
                }
                all += "\nr0 = 0\nexit";
                let mut found = [0u64; 10];
                run(&code(&all, &[]), found.as_mut_ptr() as u64, 0);
                assert_eq!(found, expected, "{op}");
                let alone = format!("{text}\nr0 = r{dst}\nexit");
                assert_eq!(value(&alone, &[]), expected[dst as usize], "{op}");
            }
        }
    }
}

#[test]
fn fetching_atomics_leave_other_registers_alone() {
    for (op, wanted) in [("or", 0x1f3u64), ("and", 0x30), ("xor", 0x1c3)] {
        for reg in [0u64, 2, 3, 6] {
            for base in [0u64, 1, 4, 7].into_iter().filter(|base| *base != reg) {
                let mut word = 0x1f0u64;
                let text = format!(
                    "r0 = 77\nr{base} = r1\nr{reg} = 0x33\n\
                     r{reg} = atomic_fetch_{op}((u64 *)(r{base} + 0), r{reg})\n\
                     r8 = r0\nr0 = r{reg}\nr0 <<= 32\nr0 += r8\nexit"
                );
                let returned = run(&code(&text, &[]), &raw mut word as u64, 0).r0;
                let r0 = match (reg, base) {
                    (0, _) => 0x1f0,
                    (_, 0) => &raw const word as u64,
                    _ => 77,
                };
                assert_eq!(returned, (0x1f0u64 << 32).wrapping_add(r0), "{text}");
                assert_eq!(word, wanted, "{text}");
            }
        }
    }
}

#[test]
fn flags_are_only_trusted_where_nothing_jumps_to() {
    let text = "r0 = 0\nr2 = r1\nr2 ^= 5\nagain: if r2 != 0 goto more\nexit\n\
                more: r0 += 1\nr2 = 3\nr2 -= r0\nif r2 s> -1 goto again\nexit";
    assert_eq!(run(&code(text, &[]), 5, 0).r0, 0);
    assert_eq!(run(&code(text, &[]), 6, 0).r0, 3);
    for (op, wanted) in [("&= 12", 4), ("|= 0", 4), ("&= 255", 4), ("-= 4", 9), ("+= -4", 9), ("^= 4", 9)] {
        let text = format!("r0 = 9\nr2 = r1\nr2 {op}\nif r2 == 0 goto +1\nr0 = 4\nexit");
        assert_eq!(run(&code(&text, &[]), 4, 0).r0, wanted, "{op}");
        let text = format!("r0 = 9\nr2 = r1\nw2 {op}\nif w2 == 0 goto +1\nr0 = 4\nexit");
        assert_eq!(run(&code(&text, &[]), 4 | 1 << 32, 0).r0, wanted, "{op}");
    }
}

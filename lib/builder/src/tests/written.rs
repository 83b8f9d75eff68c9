//! What is written for values, places and conditions: no more than one would write by hand.

use super::*;
use mote_bpf::disassemble::line;
use mote_bpf::helper::{KTIME_GET_NS, MAP_LOOKUP};

#[repr(C)]
struct Entry {
    tid: u32,
    signed: i16,
    flags: u8,
    words: [u64; 4],
    next: *const Entry,
}

const TID: Field<Entry, u32> = field!(Entry, tid);
const NEXT: Field<Entry, *const Entry> = field!(Entry, next);

#[track_caller]
fn check(make: impl FnOnce(&mut Builder), expected: &[&str]) {
    let mut b = Builder::new();
    make(&mut b);
    let insns = b.finish().expect("a program");
    let mut text = Vec::new();
    let mut at = 0;
    while let Some(line) = line(&insns[at..], None) {
        at += line.slots();
        text.push(line.to_string());
    }
    assert_eq!(text, expected);
}

#[test]
fn expressions_take_over_the_registers_that_they_are_given() {
    check(
        |b| {
            let entry = b.pin(Reg::R1).to::<Entry>();
            let tid = b.get(entry.at(TID));
            let sum = b.get(((&tid + 1) & 255) << 6);
            let all = b.get(sum + tid);
            b.exit_with(all);
        },
        &[
            "r2 = *(u32 *)(r1 + 0)",
            "r3 = r2",
            "r3 += 1",
            "r3 &= 255",
            "r3 <<= 6",
            "r3 += r2",
            "r0 = r3",
            "exit",
        ],
    );
}

#[test]
fn members_have_their_size_sign_and_place() {
    check(
        |b| {
            let entry = b.pin(Reg::R1).to::<Entry>();
            let signed = b.get(entry.at(field!(Entry, signed)));
            b.put(entry.at(field!(Entry, flags)), signed);
            for word in field!(Entry, words).elements().skip(2) {
                b.put(entry.at(word), 0);
            }
            let index = b.get(entry.at(TID));
            b.increase(entry.element(field!(Entry, words), index), 1);
            b.exit_with(entry.at(NEXT).then(NEXT).then(TID));
        },
        &[
            "r2 = *(u16 *)(r1 + 4)",
            "r2 <<= 48",
            "r2 s>>= 48",
            "*(u8 *)(r1 + 6) = r2",
            "*(u64 *)(r1 + 24) = 0",
            "*(u64 *)(r1 + 32) = 0",
            "r2 = *(u32 *)(r1 + 0)",
            "r2 <<= 3",
            "r2 += r1",
            "r3 = *(u64 *)(r2 + 8)",
            "r3 += 1",
            "*(u64 *)(r2 + 8) = r3",
            "r0 = *(u64 *)(r1 + 40)",
            "r0 = *(u64 *)(r0 + 40)",
            "r0 = *(u32 *)(r0 + 0)",
            "exit",
        ],
    );
}

#[test]
fn arguments_are_worked_out_where_they_are_passed() {
    check(
        |b| {
            let key = b.local::<u32>();
            b.put(key, 7);
            let found = b.invoke(MAP_LOOKUP, (map(3), key.address()));
            b.exit_with(found);
        },
        &[
            "*(u32 *)(r10 - 8) = 7",
            "r1 = map[idx:3] ll",
            "r2 = r10",
            "r2 += -8",
            "call map_lookup_elem",
            "exit",
        ],
    );
}

#[test]
fn arguments_change_places() {
    check(
        |b| {
            let (first, second) = (b.get(1), b.get(2));
            let _done = b.invoke(4711, (&second + 1, &first, &second));
            b.exit_with(0);
        },
        &[
            "r1 = 1",
            "r2 = 2",
            "r3 = r2",
            "r4 = r2",
            "r4 += 1",
            "r2 = r1",
            "r1 = r4",
            "call 4711",
            "r0 = 0",
            "exit",
        ],
    );
}

#[test]
fn conditions_are_as_many_branches_as_comparisons() {
    check(
        |b| {
            let value = b.pin(Reg::R1);
            b.either(
                value.gt(4).and(value.lt(10).or(value.eq(20).of_32_bits())),
                |b| b.exit_with(1),
                |b| b.set(&value, 0),
            );
            b.when(!value.slt(-1), |b| b.set(&value, &value * 3));
            b.exit_with(value);
        },
        &[
            "if r1 <= 4 goto +4",
            "if r1 < 10 goto +1",
            "if w1 != 20 goto +2",
            "r0 = 1",
            "exit",
            "r1 = 0",
            "if r1 s< -1 goto +1",
            "r1 *= 3",
            "r0 = r1",
            "exit",
        ],
    );
}

#[test]
fn atomic_operations_return_what_was_there() {
    check(
        |b| {
            let entry = b.pin(Reg::R1).to::<Entry>();
            let tid = b.get(5);
            let old = b.compare_exchange(entry.at(TID), 0, &tid);
            b.when(old.ne(0), |b| {
                let before = b.fetch_add(entry.at(TID), 1);
                b.add_atomically(entry.at(TID), before);
            });
            b.exit_with(0);
        },
        &[
            "r2 = 5",
            "r0 = 0",
            "w0 = cmpxchg32_32(r1 + 0, w0, w2)",
            "if r0 == 0 goto +3",
            "r3 = 1",
            "w3 = atomic_fetch_add((u32 *)(r1 + 0), w3)",
            "lock *(u32 *)(r1 + 0) += w3",
            "r0 = 0",
            "exit",
        ],
    );
}

#[test]
fn a_block_is_left_early() {
    check(
        |b| {
            let value = b.pin(Reg::R1);
            b.block(|b, end| {
                for bit in 0..2 {
                    b.jump_if(value.eq(bit), end);
                }
                b.set(&value, 9);
            });
            b.exit_with(value);
        },
        &["if r1 == 0 goto +2", "if r1 == 1 goto +1", "r1 = 9", "r0 = r1", "exit"],
    );
}

#[test]
fn functions_have_registers_and_a_frame_of_their_own() {
    check(
        |b| {
            let _kept: Vec<_> = (0..4).map(|number| b.keep(number)).collect();
            b.local::<[u64; 60]>();
            let function = b.label();
            let result = b.invoke_function(function, (5, 6));
            b.exit_with(result);
            b.function(function, |b, [first, second]| {
                let (kept, place) = (b.keep(&first), b.local::<u64>());
                b.put(place, &second);
                let _time = b.invoke(KTIME_GET_NS, ());
                b.exit_with(Expr::from(place) + kept);
            });
        },
        &[
            "r6 = 0",
            "r7 = 1",
            "r8 = 2",
            "r9 = 3",
            "r1 = 5",
            "r2 = 6",
            "call pc+1",
            "exit",
            "r6 = r1",
            "*(u64 *)(r10 - 8) = r2",
            "call ktime_get_ns",
            "r0 = *(u64 *)(r10 - 8)",
            "r0 += r6",
            "exit",
        ],
    );
}

#[test]
fn registers_that_are_avoided_are_taken_last_and_withheld_ones_never() {
    check(
        |b| {
            b.withhold(1 << 3);
            b.avoid(1 << 1 | 1 << 2 | 1 << 4);
            let values = [5, 6, 7, 8].map(|number| b.get(number));
            drop(values);
            b.exit_with(0);
        },
        &["r5 = 5", "r0 = 6", "r1 = 7", "r2 = 8", "r0 = 0", "exit"],
    );
}

#[test]
fn low_bits_of_what_depends_on_low_bits_are_worked_out_at_once() {
    check(
        |b| {
            let value = b.pin(Reg::R1);
            let differs = b.get((&value ^ -2).low());
            let both = b.get((differs | &value).low());
            let shifted = b.get((both >> 4).low());
            b.exit_with(shifted);
        },
        &["r2 = r1", "w2 ^= -2", "w2 |= w1", "r2 >>= 4", "w2 = w2", "r0 = r2", "exit"],
    );
}

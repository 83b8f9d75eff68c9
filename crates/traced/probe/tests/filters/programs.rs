//! The filters of the tests.

use mote_bpf::op::{Cond, Size};
use mote_bpf::{Insn, Reg, helper};
use mote_builder::Builder;
use mote_layout::tracer;

fn program(build: impl FnOnce(&mut Builder)) -> Vec<Insn> {
    let mut builder = Builder::new();
    build(&mut builder);
    builder.finish().expect("a program")
}

/// Numbers above this.
pub(crate) fn above(least: i32) -> Vec<Insn> {
    program(|b| {
        let out = b.label();
        b.load(Size::DW, Reg::R2, Reg::R1, 0);
        b.mov(Reg::R0, 0);
        b.branch(Cond::Le, Reg::R2, least, out);
        b.mov(Reg::R0, 1);
        b.bind(out);
        b.exit();
    })
}

/// Nothing.
pub(crate) fn never() -> Vec<Insn> {
    program(|b| {
        b.mov(Reg::R0, 0);
        b.exit();
    })
}

/// Texts that are `tcp`.
pub(crate) fn is_tcp() -> Vec<Insn> {
    program(|b| {
        let out = b.label();
        compare_text(b, 0, *b"tcp", out);
        b.mov(Reg::R0, 1);
        b.bind(out);
        b.exit();
    })
}

/// Goes to `out` with `r0` = 0 unless the text whose words begin at `word` is `text`. `r6` is lost.
fn compare_text(b: &mut Builder, word: i16, text: [u8; 3], out: mote_builder::Label) {
    let same = b.label();
    let [x, y, z] = text.map(i32::from);
    b.store(Size::W, Reg::R10, -8, x | y << 8 | z << 16);
    b.load(Size::DW, Reg::R2, Reg::R1, 8 * word + 8);
    b.load(Size::DW, Reg::R1, Reg::R1, 8 * word);
    b.mov(Reg::R3, Reg::R10);
    b.add(Reg::R3, -8);
    b.mov(Reg::R4, 3);
    b.call(helper::TEXT_COMPARE);
    b.branch(Cond::Eq, Reg::R0, 0, same);
    b.mov(Reg::R0, 0);
    b.jump(out);
    b.bind(same);
}

/// Looks at each field of `scenario:types`; emits an event of its own when all are right. Never lets one through.
pub(crate) fn types_are_right(emitted: u16) -> Vec<Insn> {
    let words: [u64; 12] = [
        -2i64 as u64,
        200,
        -300i64 as u64,
        60_000,
        -70_000i64 as u64,
        4_000_000_000,
        -5i64 as u64,
        u64::MAX,
        1.5f64.to_bits(),
        (-2.25f64).to_bits(),
        1,
        u64::from(b'x'),
    ];
    program(|b| {
        let out = b.label();
        b.mov(Reg::R0, 0);
        let word = |b: &mut Builder, at: i16, expected: u64| {
            b.load(Size::DW, Reg::R2, Reg::R1, 8 * at);
            b.constant(Reg::R3, expected);
            b.branch(Cond::Ne, Reg::R2, Reg::R3, out);
        };
        for (at, expected) in (0..).zip(words) {
            word(b, at, expected);
        }
        word(b, 17, 0x1234);
        // The array's last element.
        b.load(Size::DW, Reg::R2, Reg::R1, 8 * 12);
        b.load(Size::H, Reg::R2, Reg::R2, 4);
        b.branch(Cond::Ne, Reg::R2, 3, out);
        // The sequence's last element, and its end.
        b.load(Size::DW, Reg::R2, Reg::R1, 8 * 13);
        b.load(Size::DW, Reg::R3, Reg::R1, 8 * 14);
        b.mov(Reg::R4, Reg::R2);
        b.add(Reg::R4, 16);
        b.branch(Cond::Ne, Reg::R4, Reg::R3, out);
        b.load(Size::DW, Reg::R2, Reg::R2, 8);
        b.branch(Cond::Ne, Reg::R2, 5, out);
        // The text.
        b.load(Size::DW, Reg::R2, Reg::R1, 8 * 15);
        b.load(Size::DW, Reg::R3, Reg::R1, 8 * 16);
        b.mov(Reg::R4, Reg::R2);
        b.add(Reg::R4, 4);
        b.branch(Cond::Ne, Reg::R4, Reg::R3, out);
        b.load(Size::W, Reg::R2, Reg::R2, 0);
        b.branch32(Cond::Ne, Reg::R2, i32::from_le_bytes(*b"text"), out);
        b.store(Size::DW, Reg::R10, -8, 4711);
        emit(b, emitted);
        b.mov(Reg::R0, 0);
        b.bind(out);
        b.exit();
    })
}

/// Emits an event of the eight bytes at the top of the stack.
fn emit(b: &mut Builder, id: u16) {
    b.mov(Reg::R1, i32::from(id));
    b.mov(Reg::R2, Reg::R10);
    b.add(Reg::R2, -8);
    b.mov(Reg::R3, 8);
    b.call(tracer::EMIT);
}

/// Emits process and thread id instead of the event.
pub(crate) fn emit_pid(emitted: u16) -> Vec<Insn> {
    program(|b| {
        b.call(helper::GET_CURRENT_PID_TGID);
        b.store(Size::DW, Reg::R10, -8, Reg::R0);
        emit(b, emitted);
        b.mov(Reg::R0, 0);
        b.exit();
    })
}

/// Reads behind the context.
pub(crate) fn reads_outside() -> Vec<Insn> {
    program(|b| {
        b.load(Size::DW, Reg::R0, Reg::R1, 800);
        b.exit();
    })
}

/// Looks at the first byte of a sequence.
pub(crate) fn first_byte() -> Vec<Insn> {
    program(|b| {
        let out = b.label();
        b.mov(Reg::R0, 0);
        b.load(Size::DW, Reg::R2, Reg::R1, 0);
        b.load(Size::DW, Reg::R3, Reg::R1, 8);
        b.mov(Reg::R4, Reg::R2);
        b.add(Reg::R4, 1);
        b.branch(Cond::Gt, Reg::R4, Reg::R3, out);
        b.load(Size::B, Reg::R2, Reg::R2, 0);
        b.mov(Reg::R0, 1);
        b.add(Reg::R0, Reg::R2);
        b.bind(out);
        b.exit();
    })
}

/// Asks for a snapshot, and emits the time since this thread speculates.
pub(crate) fn snapshot(emitted: u16) -> Vec<Insn> {
    program(|b| {
        b.call(tracer::SNAPSHOT);
        b.call(tracer::SPECULATED);
        b.store(Size::DW, Reg::R10, -8, Reg::R0);
        emit(b, emitted);
        b.mov(Reg::R0, 0);
        b.exit();
    })
}

/// Asks for packets of a CPU.
pub(crate) fn packets(cpu: i32) -> Vec<Insn> {
    program(|b| {
        for (reg, value) in [(Reg::R1, 5_000_000), (Reg::R2, 3), (Reg::R3, 77), (Reg::R4, cpu), (Reg::R5, 9)]
        {
            b.mov(reg, value);
        }
        b.call(tracer::SNAPSHOT_PACKETS);
        b.mov(Reg::R0, 0);
        b.exit();
    })
}

/// Begins to speculate, with this event.
pub(crate) fn speculate() -> Vec<Insn> {
    program(|b| {
        b.call(tracer::SPECULATE);
        b.mov(Reg::R0, 2);
        b.exit();
    })
}

/// Calls a helper with the number as a key, and goes with the others of the key.
pub(crate) fn by_key(call: Option<u32>) -> Vec<Insn> {
    program(|b| {
        let kept = b.label();
        b.mov(Reg::R6, Reg::R1);
        if let Some(call) = call {
            b.mov(Reg::R1, 3);
            b.load(Size::DW, Reg::R2, Reg::R6, 0);
            b.call(call);
        }
        b.mov(Reg::R1, 3);
        b.load(Size::DW, Reg::R2, Reg::R6, 0);
        b.mov(Reg::R3, tracer::SPECULATION_LOOK as i32);
        b.mov(Reg::R4, 0);
        b.call(tracer::SPECULATION);
        b.branch(Cond::Ne, Reg::R0, 0, kept);
        b.mov(Reg::R0, 1);
        b.bind(kept);
        b.exit();
    })
}

/// Goes with the others.
pub(crate) fn keeps() -> Vec<Insn> {
    program(|b| {
        b.mov(Reg::R0, 2);
        b.exit();
    })
}

/// Commits where the number is a multiple of three; else forgets, this event too.
pub(crate) fn decide() -> Vec<Insn> {
    program(|b| {
        let (forget, record, out) = (b.label(), b.label(), b.label());
        b.load(Size::DW, Reg::R6, Reg::R1, 0);
        b.modulo(Reg::R6, 3);
        b.branch(Cond::Ne, Reg::R6, 0, forget);
        b.call(tracer::COMMIT);
        b.jump(record);
        b.bind(forget);
        b.call(tracer::DISCARD);
        b.branch(Cond::Eq, Reg::R0, 0, record);
        b.mov(Reg::R0, 0);
        b.jump(out);
        b.bind(record);
        b.mov(Reg::R0, 2);
        b.bind(out);
        b.exit();
    })
}

/// Counts by the number's remainder, in map 0; never lets an event through.
pub(crate) fn count(divisor: i32) -> Vec<Insn> {
    program(|b| {
        b.load(Size::DW, Reg::R2, Reg::R1, 0);
        b.modulo(Reg::R2, divisor);
        b.store(Size::DW, Reg::R10, -8, Reg::R2);
        b.map(Reg::R1, 0);
        b.mov(Reg::R2, Reg::R10);
        b.add(Reg::R2, -8);
        b.mov(Reg::R3, 1);
        b.call(helper::MAP_ADD);
        b.mov(Reg::R0, 0);
        b.exit();
    })
}

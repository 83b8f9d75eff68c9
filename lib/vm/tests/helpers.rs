//! The built-in helpers, called by programs on both engines, against plain Rust.

mod common;

use common::{insns, map, run, shape};
use mote_bpf::helper::*;
use mote_bpf::op::{Cond, Size};
use mote_bpf::{Insn, MapKind, Reg};
use mote_vm::{Fault, Map, Next, Setup, Update};

/// Calls a helper with the first words of the context.
fn call(helper: u32) -> Vec<Insn> {
    insns(|b| {
        b.mov(Reg::R6, Reg::R1);
        for (at, reg) in [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5].into_iter().enumerate() {
            b.load(Size::DW, reg, Reg::R6, at as i16 * 8);
        }
        b.call(helper);
        b.exit();
    })
}

fn result(helper: u32, args: &[u64]) -> Result<u64, Fault> {
    let mut context = [0; 5];
    context[..args.len()].copy_from_slice(args);
    run(&call(helper), &[], &context)
}

fn on_text(helper: u32, text: &[u8], other: &[u8]) -> u64 {
    let range = text.as_ptr_range();
    let args = [range.start as u64, range.end as u64, other.as_ptr() as u64, other.len() as u64];
    result(helper, &args).expect("no fault")
}

/// A text as helpers see it: up to its NUL.
fn cut(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// Texts of all lengths around words, over a small alphabet, with NULs.
fn texts() -> Vec<Vec<u8>> {
    let mut random = 9u64;
    (0..400usize)
        .map(|turn| {
            (0..turn % 27)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    b"aaaaaaaaaaaaabbbb\xff\0"[(random >> 33) as usize % 19]
                })
                .collect()
        })
        .collect()
}

#[test]
fn texts_are_compared_like_slices() {
    for pair in texts().windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        for b in [b, a, &[a, &b"\0z"[..]].concat()] {
            let order = cut(a).cmp(cut(b)) as i64 as u64;
            assert_eq!(on_text(TEXT_COMPARE, a, b), order, "{a:?} {b:?}");
            let (a_range, b_range) = (a.as_ptr_range(), b.as_ptr_range());
            let args = [a_range.start, a_range.end, b_range.start, b_range.end].map(|at| at as u64);
            assert_eq!(result(TEXT_TEXT_COMPARE, &args), Ok(order));
            let args = [a_range.start as u64, a.len() as u64, b_range.start as u64, b.len() as u64];
            assert_eq!(result(MEMORY_COMPARE, &args), Ok(a.as_slice().cmp(b.as_slice()) as i64 as u64));
            let ended = [b, &b"\0"[..]].concat();
            let most = a.len().min(7);
            let args = [a_range.start as u64, most as u64, ended.as_ptr() as u64];
            let (left, right) = (cut(&a[..most]), cut(&ended));
            let order = left.cmp(&right[..right.len().min(most)]) as i64 as u64;
            assert_eq!(result(STRNCMP, &args), Ok(order), "{a:?} {ended:?}");
        }
    }
}

#[test]
fn texts_are_found_copied_and_hashed() {
    for pair in texts().windows(2) {
        let (a, b) = (&pair[0], cut(&pair[1]));
        for b in [&b[..b.len().min(2)], b] {
            let place = if b.is_empty() { Some(0) } else { cut(a).windows(b.len()).position(|at| at == b) };
            assert_eq!(on_text(TEXT_FIND, a, b), place.map_or(u64::MAX, |place| place as u64), "{a:?} {b:?}");
        }
        for size in [1usize, 7, 8, 9, 20, 40] {
            let buffer = vec![0xee; size + 1];
            assert_eq!(on_text(TEXT_COPY, a, &buffer[..size]), cut(a).len() as u64);
            let mut expected = cut(a).to_vec();
            expected.resize(size, 0);
            expected.push(0xee);
            // SAFETY: as long as it was made; a program wrote to it behind the compiler's back.
            let written = unsafe { std::ptr::read_volatile(&raw const buffer) };
            assert_eq!(*std::mem::ManuallyDrop::new(written), expected);
        }
        assert_eq!(on_text(TEXT_HASH, a, &[]), on_text(TEXT_HASH, cut(a), &[]));
    }
    assert_ne!(on_text(TEXT_HASH, b"tcp", &[]), on_text(TEXT_HASH, b"udp", &[]));
    // A change of this number breaks maps that processes of different versions share.
    assert_eq!(on_text(TEXT_HASH, b"tcp", &[]), 0x0bfb_680b_005c_3120);
}

/// The plain definition, with all its ways back.
fn glob(text: &[u8], pattern: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| glob(&text[skip..], rest)),
        [b'\\', literal, rest @ ..] => text.first() == Some(literal) && glob(&text[1..], rest),
        [b'?', rest @ ..] => !text.is_empty() && glob(&text[1..], rest),
        [byte, rest @ ..] => text.first() == Some(byte) && glob(&text[1..], rest),
    }
}

#[test]
fn globs_match_what_their_definition_says() {
    let mut random = 3u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let (mut yes, mut no) = (0, 0);
    for _ in 0..4000 {
        let text: Vec<u8> = (0..next(12)).map(|_| b"aab"[next(3)]).collect();
        let pattern: Vec<u8> = (0..next(8)).map(|_| b"aaab?**\\"[next(8)]).collect();
        let expected = glob(&text, &pattern);
        assert_eq!(on_text(TEXT_GLOB, &text, &pattern), u64::from(expected), "{text:?} {pattern:?}");
        if expected { yes += 1 } else { no += 1 }
    }
    assert!(yes > 300 && no > 300, "{yes} match, {no} do not");
    assert_eq!(on_text(TEXT_GLOB, b"tcp*ack", br"tcp\*ack"), 1);
    assert_eq!(on_text(TEXT_GLOB, b"tcpxack", br"tcp\*ack"), 0);
    assert_eq!(on_text(TEXT_GLOB, b"tcp\0junk", b"t*p\0junk"), 1);
}

#[test]
fn long_pieces_and_texts_that_almost_match() {
    let text = "a".repeat(5000) + "b";
    let needle = "a".repeat(100) + "b";
    assert_eq!(on_text(TEXT_FIND, text.as_bytes(), needle.as_bytes()), 4900);
    assert_eq!(on_text(TEXT_GLOB, text.as_bytes(), format!("*{needle}*").as_bytes()), 1);
    assert_eq!(on_text(TEXT_GLOB, text.as_bytes(), format!("*?{}c*", &needle[40..]).as_bytes()), 0);
    assert_eq!(on_text(TEXT_GLOB, text.as_bytes(), "*a*a*a*a*a*a*a*a*a*a*c".as_bytes()), 0);
}

#[test]
fn texts_that_are_not_there_are_faults() {
    let constant = b"constant";
    let (at, len) = (constant.as_ptr() as u64, constant.len() as u64);
    for helper in [TEXT_COMPARE, TEXT_GLOB, TEXT_FIND, TEXT_COPY, TEXT_HASH] {
        assert_eq!(result(helper, &[16, 32, at, len]), Err(Fault::Memory), "helper {helper}");
    }
    assert_eq!(result(TEXT_TEXT_COMPARE, &[at, at + len, 16, 32]), Err(Fault::Memory));
    assert_eq!(result(MEMORY_COMPARE, &[at, len, 16, 8]), Err(Fault::Memory));
    assert_eq!(result(STRNCMP, &[16, 8, at]), Err(Fault::Memory));
    // A kernel address.
    assert_eq!(result(TEXT_HASH, &[u64::MAX << 47, u64::MAX]), Err(Fault::Memory));
    // SAFETY: the helper reads up to a NUL.
    assert_eq!(unsafe { mote_vm::text_len(c"four".as_ptr().cast()) }, Ok(4));
    // SAFETY: nothing is there, which is a fault.
    assert_eq!(unsafe { mote_vm::text_len(16 as *const u8) }, Err(Fault::Memory));
}

#[test]
fn who_and_where_we_are() {
    let ids = result(GET_CURRENT_PID_TGID, &[]).expect("no fault");
    assert_eq!(ids >> 32, u64::from(std::process::id()));
    // SAFETY: a system call without memory.
    assert_eq!(ids as u32, unsafe { libc::gettid() } as u32);
    let before = mote_sys::time::clock_gettime(mote_sys::time::ClockId::Monotonic);
    let program = common::load(&call(KTIME_GET_NS), mote_vm::Setup::default());
    // SAFETY: a context of five words.
    assert!(unsafe { program.run([0u64; 5].as_ptr() as u64, 0) }.expect("no fault") >= before);
    let program = common::load(&call(GET_PRANDOM_U32), mote_vm::Setup::default());
    // SAFETY: as above.
    let draw = || unsafe { program.run([0u64; 5].as_ptr() as u64, 0) }.expect("no fault");
    let low = (0..10_000).filter(|_| draw() < 1 << 31).count();
    assert!((4500..5500).contains(&low), "{low} of 10000 below the half");
    assert_eq!(result(LOG_LINEAR, &[1 << 40]), Ok(u64::from(bucket(1 << 40))));
    let mut name = [0xee_u8; 6];
    assert_eq!(result(GET_CURRENT_COMM, &[name.as_mut_ptr() as u64, 5]), Ok(0));
    let name = std::hint::black_box(name);
    assert_eq!((name[4], name[5]), (0, 0xee), "cut, ended, and nothing behind");
}

/// Calls a map helper: `r2` to `r5` from the context's words.
fn call_map(helper: u32) -> Vec<Insn> {
    insns(|b| {
        b.mov(Reg::R6, Reg::R1);
        b.map(Reg::R1, 0);
        for (at, reg) in [Reg::R2, Reg::R3, Reg::R4, Reg::R5].into_iter().enumerate() {
            b.load(Size::DW, reg, Reg::R6, at as i16 * 8);
        }
        b.call(helper);
        b.exit();
    })
}

fn on_map(helper: u32, map: Map, args: &[u64]) -> Result<u64, Fault> {
    let mut context = [0; 4];
    context[..args.len()].copy_from_slice(args);
    run(&call_map(helper), &[map], &context)
}

#[test]
fn programs_change_maps() {
    for (kind, key_bytes) in
        [(MapKind::Hash, 8), (MapKind::Hash, 5), (MapKind::Hash, 24), (MapKind::LruHash, 100)]
    {
        let map = map(&shape(kind, key_bytes, 16, 4));
        let key = vec![7u8; key_bytes as usize];
        let key_at = key.as_ptr() as u64;
        // Both engines do it.
        assert_eq!(on_map(MAP_ADD, map, &[key_at, 3]), Ok(0));
        let mut value = [0; 16];
        map.lookup(&key, &mut value).expect("there");
        assert_eq!(value, [6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let new = [9u8; 16];
        let at = new.as_ptr() as u64;
        assert_eq!(on_map(MAP_UPDATE, map, &[key_at, at, 1]), Ok(-17i64 as u64), "EEXIST");
        assert_eq!(on_map(MAP_UPDATE, map, &[key_at, at, 2]), Ok(0));
        assert_eq!(on_map(MAP_UPDATE, map, &[key_at, at, 3]), Ok(-22i64 as u64), "EINVAL");
        assert_eq!(on_map(MAP_UPDATE, map, &[key_at, 16, 0]), Err(Fault::Memory));
        map.lookup(&key, &mut value).expect("there");
        let address = on_map(MAP_LOOKUP, map, &[key_at]).expect("no fault");
        // SAFETY: a value of the map.
        assert_eq!((value, unsafe { *(address as *const [u8; 16]) }), (new, new));
        map.delete(&key).expect("there");
        assert_eq!(on_map(MAP_DELETE, map, &[key_at]), Ok(-2i64 as u64), "ENOENT");
        assert_eq!(on_map(MAP_LOOKUP, map, &[key_at]), Ok(0));
        assert_eq!(on_map(MAP_UPDATE, map, &[key_at, at, 2]), Ok(-2i64 as u64));
        assert_eq!(on_map(MAP_ADD, map, &[16, 3]), Err(Fault::Memory));
        assert_eq!(on_map(MAP_UPDATE, map, &[key_at, 16, 0]), Err(Fault::Memory));
        assert_eq!((map.lost(), map.dropped()), (0, 0));
    }
    let full = map(&shape(MapKind::Hash, 8, 8, 2));
    let keys = [1u64, 2, 3];
    let answers = keys.map(|key| on_map(MAP_ADD, full, &[&raw const key as u64, 1]));
    assert_eq!((answers, full.dropped()), ([Ok(0), Ok(0), Ok(-7i64 as u64)], 2));
}

#[test]
fn arrays_and_the_last_entries() {
    let array = map(&shape(MapKind::Array, 4, 24, 4));
    let index = 2u32;
    assert_eq!(on_map(MAP_ADD, array, &[&raw const index as u64, 5]), Ok(0));
    let mut value = [0; 24];
    array.lookup(&index.to_le_bytes(), &mut value).expect("there");
    assert_eq!(value[0], 10);
    let outside = 4u32;
    assert_eq!(on_map(MAP_LOOKUP, array, &[&raw const outside as u64]), Ok(0));
    assert_eq!(on_map(MAP_ADD, array, &[&raw const outside as u64, 5]), Ok(-2i64 as u64));
    let data = [0x11u8; 12];
    array.update(&index.to_le_bytes(), &[0; 24], Update::Any).expect("there");
    for _ in 0..2 {
        assert_eq!(on_map(KEEP_LAST, array, &[data.as_ptr() as u64, 12]), Ok(0));
    }
    // Four were kept, in entries 1, 2, 3 and 1 again.
    let numbers = [0u32, 1, 2, 3].map(|index| {
        array.lookup(&index.to_le_bytes(), &mut value).expect("there");
        (value[0], value[8..].iter().map(|byte| usize::from(*byte)).sum::<usize>())
    });
    assert_eq!(numbers, [(4, 0), (4, 12 * 17), (2, 12 * 17), (3, 12 * 17)]);
}

#[test]
fn constants_of_an_array_are_read_in_place() {
    let mut constants = shape(MapKind::Array, 4, 13, 1);
    constants.read_only = true;
    let constants = map(&constants);
    constants.update(&[0; 4], b"Hello, world!", Update::Any).expect("there");
    let program = insns(|b| {
        b.map_value(Reg::R3, 0, 7);
        b.load(Size::DW, Reg::R2, Reg::R1, 8);
        b.load(Size::DW, Reg::R1, Reg::R1, 0);
        b.mov(Reg::R4, 7);
        b.call(TEXT_COMPARE);
        b.exit();
    });
    let text = b"world!".as_ptr_range();
    assert_eq!(run(&program, &[constants], &[text.start as u64, text.end as u64]), Ok(0));
}

#[test]
fn records_are_submitted_and_read() {
    let ring = map(&shape(MapKind::RingBuffer, 0, 0, 4096));
    let data = *b"seven bytes";
    assert_eq!(on_map(RINGBUF_OUTPUT, ring, &[data.as_ptr() as u64, 7, 0]), Ok(0));
    assert_eq!(on_map(RINGBUF_OUTPUT, ring, &[16, 7, 0]), Err(Fault::Memory), "and discarded");
    let keeps = insns(|b| {
        let out = b.label();
        b.map(Reg::R1, 0);
        b.mov(Reg::R2, 8);
        b.mov(Reg::R3, 0);
        b.call(RINGBUF_RESERVE);
        b.branch(Cond::Eq, Reg::R0, 0, out);
        b.store(Size::DW, Reg::R0, 0, 42);
        b.mov(Reg::R1, Reg::R0);
        b.mov(Reg::R2, 0);
        b.call(RINGBUF_SUBMIT);
        b.mov(Reg::R0, 1);
        b.bind(out);
        b.exit();
    });
    assert_eq!(run(&keeps, &[ring], &[]), Ok(1));
    let mut consumer = ring.consumer().expect("a ring buffer");
    let mut buffer = [0; 16];
    for _ in 0..2 {
        assert_eq!((consumer.next(&mut buffer), &buffer[..7]), (Next::Record(7), &data[..7]));
    }
    assert_eq!(consumer.next(&mut buffer[..4]), Next::TooSmall(8));
    for _ in 0..2 {
        assert_eq!((consumer.next(&mut buffer), buffer[0]), (Next::Record(8), 42));
    }
    // Full after 4096 / 16 records; the others are counted; and empty again after all were read.
    let program = common::load(&keeps, Setup { maps: &[ring], ..Setup::default() });
    for _ in 0..3 {
        let dropped = ring.dropped();
        // SAFETY: it does not look at its context.
        let fit = (0..300).filter(|_| unsafe { program.run(0, 0) } == Ok(1)).count();
        assert_eq!((fit, ring.dropped() - dropped), (256, 44));
        let got =
            std::iter::repeat_with(|| consumer.next(&mut buffer)).take_while(|next| *next != Next::Empty);
        assert_eq!(got.count(), 256);
    }
}

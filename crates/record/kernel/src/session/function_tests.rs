//! Programs at functions of the kernel, run without one: a raw tracepoint's context is words, too, and the kernel runs
//! such a program with words that are given.

use super::tests::chunks;
use super::{Kernel, Request, Targets, place};
use crate::load::{Kind, Program};
use crate::map::Buffers;
use crate::rules::Rules;
use crate::rules::shared::Shared;
use mote_catalog::event::{Event, Field, Hook, Origin, Type};
use mote_filter::{Rule, SharedNames};
use mote_generate::Chosen;
use mote_generate::one_event;
use mote_generate::{Access, Outcome};
use mote_layout::record::PREFIX_BYTES;
use mote_layout::types::Scalar;
use mote_ring::Mode;
use mote_sys::bpf::program::run_here;
use std::ffi::CStr;

/// A function of a number, two texts, an address and a truth value, at its return.
fn event() -> Event {
    let text = |at| Origin::AnyText(Box::new(Origin::Address(at)));
    let fields = [
        ("number", Type::Scalar(Scalar::signed(32)), Origin::Argument(0)),
        ("path", Type::Text, text(1)),
        ("label", Type::Text, text(2)),
        ("file", Type::Scalar(Scalar::hex(64)), Origin::Address(3)),
        ("yes", Type::Scalar(Scalar::Bool), Origin::Argument(4)),
        ("ret", Type::Scalar(Scalar::signed(64)), Origin::Argument(5)),
    ];
    let field = |(name, ty, from): (&str, Type, Origin)| Field { name: name.to_owned(), ty, from };
    let hook = Hook::Fentry { function: "f".to_owned(), btf_id: 0, returns: true };
    let fields = fields.into_iter().map(field).collect();
    Event { provider: "fexit".to_owned(), name: "fexit_f".to_owned(), fields, hook }
}

/// Runs the event's program with each of these words, under a filter if one is given; returns the records' fields.
fn records(filter: Option<&str>, words: &[[u64; 6]]) -> Option<Vec<String>> {
    if let Some(missing) = crate::privilege::check() {
        mote_skip::skip(missing);
        return None;
    }
    let event = event();
    let mut rules = Rules::new(SharedNames::default());
    let rule =
        filter.map(|text| Rule::filter("fexit:*", text).unwrap_or_else(|why| panic!("{}", why.render())));
    let filter = rule.map(|rule| match rules.decide(&[rule], &event) {
        Ok((Outcome::Filtered(filter), _)) => filter,
        other => panic!("{other:?}"),
    });
    let shared = Shared::create().expect("with the right to load programs, maps can be made");
    let request = Request {
        events: Vec::new(),
        targets: Targets::All,
        buffers: Buffers { sub_bits: 14, count_bits: 2, mode: Mode::Discard },
        maps: rules.create(&shared).expect("small"),
        threads: 64,
    };
    let kernel = Kernel::start(request).unwrap_or_else(|why| panic!("{why}"));
    let place = place::Place::Hook(event.hook.clone(), Access::Function);
    let next = place::next(&kernel, place).expect("a small map");
    let generated = one_event::program(&kernel.plan(), &Chosen { id: 7, event, filter }, Access::Function);
    let insns = generated.unwrap_or_else(|why| panic!("{why}")).insns;
    let filters = kernel.maps();
    let mut maps = vec![kernel.state.map(), &kernel.rings, &*next.array];
    maps.extend(filters.iter().map(|map| &**map));
    let program = Program::load("fexit_f", Kind::Raw, &insns, &maps).unwrap_or_else(|why| panic!("{why}"));
    kernel.enable();
    for words in words {
        run_here(program.fd(), words).expect("it takes as many words");
    }
    kernel.disable();
    Some(read(&kernel))
}

/// The fields of all records, a line each.
fn read(kernel: &Kernel) -> Vec<String> {
    let mut found = Vec::new();
    for bytes in chunks(kernel) {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            found.push(line(&mut rest));
        }
    }
    found
}

fn line(rest: &mut &[u8]) -> String {
    take(rest, PREFIX_BYTES);
    let number = i32::from_le_bytes(take(rest, 4).try_into().expect("4 bytes"));
    let texts = [(); 2].map(|()| {
        let text = CStr::from_bytes_until_nul(rest).expect("a NUL is recorded");
        take(rest, text.count_bytes() + 1);
        text.to_string_lossy().into_owned()
    });
    let file = u64::from_le_bytes(take(rest, 8).try_into().expect("8 bytes"));
    let yes = take(rest, 1)[0];
    let ret = i64::from_le_bytes(take(rest, 8).try_into().expect("8 bytes"));
    format!("{number} {texts:?} {file:#x} {yes} {ret}")
}

fn take<'b>(rest: &mut &'b [u8], len: usize) -> &'b [u8] {
    let (part, behind) = rest.split_at(len);
    *rest = behind;
    part
}

const PATH: &CStr = c"/etc/passwd";
/// An address of the kernel at which there is nothing.
const NOWHERE: u64 = 0xffff_8000_0000_0000;
/// One that looks like an object of the kernel's.
const FILE: u64 = 0xffff_8881_0000_1000;
/// The upper part of a register that holds less than 64 bits: it may be anything.
const RUBBISH: u64 = 0xdead_beef_0000_0000;

/// Where the kernel has a text that begins with its name, if it says so.
fn banner() -> Option<u64> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").ok()?;
    let line = symbols.lines().find(|line| line.ends_with(" linux_banner"))?;
    u64::from_str_radix(line.split(' ').next()?, 16).ok().filter(|address| *address != 0)
}

fn words(number: i32, label: u64, yes: u64, ret: i64) -> [u64; 6] {
    let number = u64::from(number.cast_unsigned()) | RUBBISH;
    [number, PATH.as_ptr() as u64, label, FILE, yes, ret.cast_unsigned()]
}

#[test]
fn words_are_recorded_by_their_types() {
    let banner = banner();
    let calls = [words(-3, banner.unwrap_or(NOWHERE), RUBBISH | 1, -2), words(4, NOWHERE, RUBBISH, 5)];
    let Some(records) = records(None, &calls) else { return };
    assert_eq!(records[1], r#"4 ["/etc/passwd", ""] 0xffff888100001000 0 5"#);
    let first = &records[0];
    let (start, end) = (r#"-3 ["/etc/passwd", ""#, " 0xffff888100001000 1 -2");
    assert!(first.starts_with(start) && first.ends_with(end), "{first}");
    match banner {
        Some(_) => assert!(first.contains("Linux version"), "{first}"),
        None => mote_skip::skip("the kernel does not tell its addresses"),
    }
}

#[test]
fn filters_look_at_words_of_functions() {
    let calls = [words(1, NOWHERE, 1, -2), words(2, NOWHERE, 0, -2), words(3, NOWHERE, 1, 7)];
    let passing = |filter| {
        let records = records(Some(filter), &calls)?;
        Some(records.iter().filter_map(|line| line.split(' ').next()?.parse().ok()).collect::<Vec<i32>>())
    };
    for (filter, expected) in [
        ("ret < 0", vec![1, 2]),
        ("number >= 2 && yes", vec![3]),
        ("path == \"/etc/*\" && number != 2", vec![1, 3]),
        ("path == \"/tmp/*\"", vec![]),
        ("file == 0xffff888100001000 && file > 4096 && ret == 7", vec![3]),
        ("file == 0", vec![]),
    ] {
        let Some(numbers) = passing(filter) else { return };
        assert_eq!(numbers, expected, "{filter}");
    }
}

//! Random rules on random events, on the kernel's side: whatever compiles the kernel's verifier accepts, and when it
//! runs there (by `BPF_PROG_TEST_RUN`), it does what the rule means ([`mote_filter::interpret`]).

#[path = "../engines/event.rs"]
mod event;
#[path = "../engines/expression.rs"]
mod expression;
mod machine;
#[path = "../engines/random.rs"]
mod random;

mod actions;

use event::Event;
use machine::{Machine, Made};
use mote_filter::interpret::Interpreter;
use mote_filter::{Decision, KERNEL_STACK_BYTES, Kind, Maps, Missing, Rule, Session, Side, compile};
use random::Random;

/// Types of fields in the kernel.
const TYPES: [&str; 20] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "i8",
    "i16",
    "i32",
    "i64",
    "x64",
    "bool",
    "str",
    "str",
    "str",
    "char[16]",
    "char[200]",
    "u8[4]",
    "i32[3]",
    "u64[2]",
    "enum u8 A=0 B=1..3 AB=9",
    "flags x32 A=1 B=2 AB=4",
];

/// How many rules a test makes; `MOTE_FILTER_CASES` says otherwise.
fn cases(usual: u64) -> u64 {
    std::env::var("MOTE_FILTER_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// What came of the cases.
#[derive(Default)]
struct Tally {
    run: u64,
    held: u64,
    not: u64,
    refused: u64,
    accepted: u64,
}

/// Compares one rule on some events. False when programs may not be loaded.
fn compare(seed: u64, tally: &mut Tally) -> bool {
    let mut random = Random::new(seed);
    let event = Event::random(&mut random, &TYPES);
    let expression = expression::condition(&event, Side::Kernel, &mut random);
    let description = event.description();
    let rule =
        Rule::filter("*", &expression).unwrap_or_else(|problem| panic!("{seed}: {}", problem.render()));
    let rules = [rule];
    let mut maps = Maps::new();
    let mut session = Session { side: Side::Kernel, missing: Missing::Refuse, declare: &mut |_| Ok(1) };
    let compiled = match compile(&rules, &description, &mut session, &mut maps) {
        Ok(Decision::Run(compiled)) => compiled,
        Ok(_) => return true,
        Err(problem) if matches!(problem.kind(), Kind::Type | Kind::TooLarge) => {
            tally.refused += 1;
            return true;
        }
        Err(problem) => panic!("{seed}: {}", problem.render()),
    };
    let text = std::str::from_utf8(event.text()).unwrap_or_default();
    assert!(compiled.stack_bytes <= KERNEL_STACK_BYTES);
    let machine = match Machine::load(&compiled, &description, &maps) {
        Made::Ready(machine) => machine,
        Made::NotPermitted => return false,
        Made::OnlyAccepted => {
            tally.accepted += 1;
            return true;
        }
        Made::Refused(why) => {
            panic!("seed {seed}: {expression}\n{text}\n{}\n{why}", machine::listing(&compiled))
        }
    };
    let mut reference = Interpreter::new(&rules, &description, Missing::Refuse, Side::Kernel)
        .ok()
        .flatten()
        .expect("it compiles");
    for _ in 0..12 {
        let (words, facts) = (event.words(&mut random), random.facts());
        let expected = reference.records(&words, &facts);
        let found = machine.run(&words, &facts);
        assert_eq!(
            found,
            u64::from(expected),
            "seed {seed}: {expression}\n{text}\n{words:?}\n{facts:?}\n{}",
            machine::listing(&compiled)
        );
        tally.run += 1;
        if expected { tally.held += 1 } else { tally.not += 1 }
    }
    true
}

#[test]
fn the_kernel_agrees_with_what_rules_mean() {
    let first = std::env::var("MOTE_FILTER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut tally = Tally::default();
    for seed in first..first + cases(300) {
        if !compare(seed, &mut tally) {
            mote_skip::skip("bpf(2) is not permitted");
            return;
        }
    }
    let Tally { run, held, not, refused, accepted } = tally;
    println!("{run} runs: {held} held, {not} did not; {refused} rules refused, {accepted} not run");
    assert!(cases(300) < 100 || (held > run / 10 && not > run / 10 && refused < cases(300) / 3));
}

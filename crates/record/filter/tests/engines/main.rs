//! Random rules on random events: the program of each is verified, run by the interpreter and as machine code, and
//! compared with what the rule means ([`mote_filter::interpret`]).

mod actions;
mod cooperation;
mod event;
mod expression;
mod machine;
mod random;
mod speculation;

use event::Event;
use machine::Machine;
use mote_filter::interpret::Interpreter;
use mote_filter::{Decision, Kind, Maps, Missing, Rule, Session, Side, compile};
use mote_vm::{Choice, Engine};
use random::Random;

/// Types of fields in traced processes.
const TYPES: [&str; 31] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "i8",
    "i16",
    "i32",
    "i64",
    "x32",
    "x64",
    "bool",
    "f32",
    "f64",
    "str",
    "str",
    "str",
    "str",
    "bytes",
    "u8[]",
    "i16[]",
    "u32[]",
    "i64[]",
    "f32[]",
    "f64[]",
    "u8[4]",
    "i32[3]",
    "u64[2]",
    "f32[2]",
    "f64[1]",
    "enum u8 A=0 B=1..3 AB=9",
    "enum i64 NO=-1 A=-9223372036854775808 B=5..70",
];

/// How many rules a test makes; `MOTE_FILTER_CASES` says otherwise.
fn cases(usual: u64) -> u64 {
    std::env::var("MOTE_FILTER_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// What came of one case.
#[derive(Default)]
struct Tally {
    run: u64,
    held: u64,
    not: u64,
    refused: u64,
}

/// Compares one rule's engines on some events.
fn compare(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let event = Event::random(&mut random, &TYPES);
    let expression = expression::condition(&event, Side::User, &mut random);
    let description = event.description();
    let rule =
        Rule::filter("*", &expression).unwrap_or_else(|problem| panic!("{seed}: {}", problem.render()));
    let rules = [rule];
    let mut maps = Maps::new();
    let mut session = Session { side: Side::User, missing: Missing::Refuse, declare: &mut |_| Ok(1) };
    let decision = match compile(&rules, &description, &mut session, &mut maps) {
        Ok(decision) => decision,
        // Constants that divide by zero and the like.
        Err(problem) if matches!(problem.kind(), Kind::Type | Kind::TooLarge) => {
            tally.refused += 1;
            return;
        }
        Err(problem) => panic!("{seed}: {}", problem.render()),
    };
    let reference = || {
        Interpreter::new(&rules, &description, Missing::Refuse, Side::User)
            .ok()
            .flatten()
            .expect("it compiles")
    };
    let Decision::Run(compiled) = decision else {
        let mut reference = reference();
        let (words, facts) = (event.words(&mut random), random.facts());
        assert!(reference.records(&words, &facts), "{seed}: {expression}");
        return;
    };
    for engine in [Choice::Interpreter, Choice::Jit] {
        let mut random = Random::new(seed ^ 0x5eed);
        let mut reference = reference();
        let machine = Machine::new(&compiled.insns, &description, &maps, engine)
            .unwrap_or_else(|why| panic!("seed {seed}: {expression}\n{}\n{why}", text(&event)));
        let wanted = if engine == Choice::Jit { Engine::Jit } else { Engine::Interpreter };
        assert_eq!(machine.engine(), wanted);
        for _ in 0..12 {
            let (words, facts) = (event.words(&mut random), random.facts());
            let expected = reference.records(&words, &facts);
            let found = machine.run(&words, &facts);
            assert_eq!(
                found,
                Ok(u64::from(expected)),
                "seed {seed} {engine:?}: {expression}\n{}\n{words:?}\n{facts:?}\n{}",
                text(&event),
                machine.listing()
            );
            tally.run += 1;
            if expected { tally.held += 1 } else { tally.not += 1 }
        }
    }
}

fn text(event: &Event) -> &str {
    std::str::from_utf8(event.text()).unwrap_or_default()
}

#[test]
fn all_engines_agree_with_what_rules_mean() {
    let mut tally = Tally::default();
    (1..=cases(400)).for_each(|seed| compare(seed, &mut tally));
    let Tally { run, held, not, refused } = tally;
    println!("{run} runs: {held} held, {not} did not; {refused} rules refused");
    assert!(held > run / 10 && not > run / 10 && refused < cases(400) / 3);
}

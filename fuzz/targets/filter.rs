//! Rules and the events that they are for: any text is understood or refused, and what is compiled is accepted by the
//! verifier.
#![no_main]

use mote_bpf::environment::STEPS_MAX;
use mote_bpf::verify::verify_traced;
use mote_bpf::{Entry, Environment};
use mote_filter::{Decision, Maps, Missing, Rule, Session, Side, compile};
use mote_layout::{context, parse};
use mote_layout::tracer;

/// What is filtered when the input says nothing else.
const EVENT: &[u8] = b"mote1\nnet:in\n6 f:1\n\nlen u32\nproto str\nstate enum u8 IDLE=0 BUSY=1..3\nmac u8[6]\npath u16[]\nnow u64\nload f64\nup bool\nf f32[]\n";

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // A description, then a NUL, then the rules; or rules only.
    let (event, rules) = text.split_once('\0').unwrap_or(("", text));
    let Ok(event) = parse::parse(if event.is_empty() { EVENT } else { event.as_bytes() }) else { return };
    let mut all = Vec::new();
    for line in rules.lines().take(8) {
        for rule in [Rule::parse(line), Rule::filter("*", line), Rule::count("*", line), Rule::histogram("*", line)] {
            match rule {
                Ok(rule) => all.push(rule),
                Err(problem) => drop(problem.render()),
            }
        }
    }
    for missing in [Missing::Refuse, Missing::Never] {
        let mut maps = Maps::new();
        let mut session = Session { side: Side::User, missing, declare: &mut |_| Ok(7) };
        match compile(&all, &event, &mut session, &mut maps) {
            Err(problem) => drop(problem.render()),
            Ok(Decision::Run(compiled)) => {
                let (words, shapes): (Vec<_>, _) = (context::words(&event).collect(), maps.shapes());
                let env = Environment {
                    entry: Entry::Context(&words),
                    maps: &shapes,
                    helpers: tracer::HELPERS,
                    steps_max: STEPS_MAX,
                };
                let mut room = mote_vm::workspace().expect("memory");
                // A large program may be more than the verifier looks at; a small one never.
                let state = mote_layout::cooperation::READABLE_BYTES as u32;
                let verified = verify_traced(&compiled.insns, &env, state, &mut room);
                assert!(verified.is_ok() || compiled.insns.len() > 4000, "{:?}\n{rules}", verified.err());
            }
            Ok(_) => {}
        }
    }
});

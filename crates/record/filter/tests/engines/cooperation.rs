//! What others write: the state of the thread, words with names; and thresholds.

use crate::machine::{Machine, emitted};
use mote_filter::interpret::{Facts, Word};
use mote_filter::{Compiled, Decision, Kind, Maps, Missing, Rule, Session, Side, compile};
use mote_layout::context::{DROP, RECORD};
use mote_layout::cooperation::{STATE_AT, UNSET_NS, WORDS_AT};
use mote_layout::parse::parse;
use mote_vm::Choice;

const EVENT: &[u8] = b"mote1\nnet:in\n6 f:1\n\nlen u32\nproto str\n";

fn compiled(rule: Rule, maps: &mut Maps) -> Result<Compiled, mote_filter::Diagnostic> {
    let event = parse(EVENT).unwrap();
    let mut session = Session { side: Side::User, missing: Missing::Refuse, declare: &mut |_| Ok(1) };
    match compile(&[rule], &event, &mut session, maps)? {
        Decision::Run(compiled) => Ok(compiled),
        other => panic!("{other:?}"),
    }
}

fn machines(rule: &Rule) -> Vec<(Machine, Maps)> {
    let engines = [Choice::Interpreter, Choice::Jit];
    let made = engines.map(|engine| {
        let mut maps = Maps::new();
        let program =
            compiled(rule.clone(), &mut maps).unwrap_or_else(|problem| panic!("{}", problem.render()));
        let machine = Machine::new(&program.insns, &parse(EVENT).unwrap(), &maps, engine);
        (machine.unwrap_or_else(|why| panic!("{why}")), maps)
    });
    made.into()
}

fn filter(expression: &str) -> Rule {
    Rule::filter("*", expression).unwrap_or_else(|problem| panic!("{}", problem.render()))
}

/// What a filter says of events of one thread, one after the other, each with its length and the thread's state.
fn says(expression: &str, events: &[(u64, &[u64])]) -> Vec<bool> {
    let mut answers = Vec::new();
    for (machine, _) in machines(&filter(expression)) {
        let answer = events.iter().map(|(len, state)| {
            let words = [Word::Number(*len), Word::Bytes(b"tcp".to_vec()), Word::End];
            let facts = Facts { pid: 7, tid: 42, state: state.to_vec(), ..Facts::default() };
            match machine.run(&words, &facts).unwrap() {
                DROP => false,
                RECORD => true,
                other => panic!("{other}"),
            }
        });
        answers.push(answer.collect::<Vec<_>>());
    }
    assert_eq!(answers[0], answers[1], "{expression}");
    answers.swap_remove(0)
}

#[test]
fn the_state_of_the_thread_is_read() {
    assert_eq!(says("$kernel.switches > 3", &[(0, &[3]), (0, &[4]), (0, &[])]), [false, true, false]);
    assert_eq!(
        says("$kernel.offcpu > 1ms", &[(0, &[0, 0, 1_000_001]), (0, &[9, 9, 1_000_000])]),
        [true, false]
    );
    let syscall = [0, 0, 0, 0, 0, u64::MAX, 0, 0, 0, 0, 0, 1];
    assert_eq!(
        says("$kernel.last_wait_syscall == -1 && $kernel.last_syscall == 1", &[(0, &syscall)]),
        [true]
    );
    // With a helper's call in it, and beside the fields.
    assert_eq!(says("$cpu == 0 && $kernel.preemptions == len", &[(2, &[0, 2]), (2, &[0, 1])]), [true, false]);
    assert_eq!(says("$kernel.preemptions - $kernel.switches == len", &[(2, &[3, 5])]), [true]);
}

#[test]
fn growth_is_since_the_threads_last_event() {
    let events: [(u64, &[u64]); 4] = [(0, &[0, 5]), (0, &[0, 5]), (0, &[0, 7]), (0, &[0, 7])];
    assert_eq!(says("$kernel.preemptions_since_last_event > 0", &events), [true, false, true, false]);
    // What begins anew, as in another thread of the same number, has grown by all that it is.
    let events: [(u64, &[u64]); 3] = [(0, &[0, 5]), (0, &[0, 2]), (0, &[0, 2])];
    assert_eq!(says("$kernel.preemptions_since_last_event == 2", &events), [false, true, false]);
    // Also when the rule does not hold for other reasons, an event is the last one.
    let events: [(u64, &[u64]); 3] = [(1, &[0, 5]), (0, &[0, 9]), (1, &[0, 9])];
    assert_eq!(says("len == 1 && $kernel.preemptions_since_last_event > 0", &events), [true, false, false]);
}

#[test]
fn words_of_threads_are_behind_their_state() {
    let mut state = vec![0; (WORDS_AT - STATE_AT) / 8 + 3];
    *state.last_mut().unwrap() = 5;
    assert_eq!(says("$thread.depth[2] == 5 && $thread.depth == 0", &[(0, &state), (0, &[])]), [true, false]);
    assert_eq!(
        says("$thread.depth[len] == 5", &[(2, &state), (1, &state), (8, &state)]),
        [true, false, false]
    );
}

#[test]
fn words_of_all_are_one_map_of_the_session() {
    let rule = filter("$shared.requests[len] == 7 || $shared.answers == 9");
    for (machine, maps) in machines(&rule) {
        // Which of both was first is the compiler's affair.
        let requests = maps.names().place("requests", false, 1).unwrap().at as usize;
        let answers = maps.names().place("answers", false, 1).unwrap().at as usize;
        assert_eq!((requests + answers, maps.entries().len()), (512, 1));
        let run = |len| {
            let words = [Word::Number(len), Word::Bytes(Vec::new()), Word::End];
            machine.run(&words, &Facts::default()).unwrap()
        };
        assert_eq!(run(3), DROP);
        machine.set_word(0, requests + 3, 7);
        assert_eq!((run(3), run(2), run(511)), (RECORD, DROP, DROP));
        // An index that is not there makes the whole condition fail.
        machine.set_word(0, answers, 9);
        assert_eq!((run(2), run(512)), (RECORD, DROP));
    }
}

#[test]
fn thresholds_are_set_by_actions() {
    let rule =
        Rule::parse("* if len > 5 do threshold write 200us, threshold 0 never, threshold read default")
            .unwrap();
    assert!(rule.asks_kernel() && !rule.reads_shared());
    for (machine, _) in machines(&rule) {
        let run =
            |len| machine.run(&[Word::Number(len), Word::Bytes(Vec::new()), Word::End], &Facts::default());
        assert_eq!((run(5), emitted()), (Ok(DROP), Vec::new()));
        let set = |call: u64, ns: u64| (call, ns.to_le_bytes().to_vec());
        assert_eq!(
            (run(6), emitted()),
            (Ok(DROP), vec![set(1, 200_000), set(0, u64::MAX), set(0, UNSET_NS)])
        );
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let said = |rule: &str| Rule::parse(rule).expect_err(rule).render();
    assert!(said("* do threshold writ 200us").contains("write"));
    assert!(said("* do threshold write").contains("never"));
    assert!(said("* do threshold 4711 1ms").contains("no such system call"));
    for (expression, kind) in [
        ("$kernel.switch > 3", Kind::Type),
        ("$kernel.last_offcpu_since_last_event > 3", Kind::Type),
        ("$shared.x[131072] == 1", Kind::Type),
        ("$shared.x[131071] == 1", Kind::TooLarge),
        ("$thread.x[192] == 1", Kind::Type),
    ] {
        let refused = compiled(filter(expression), &mut Maps::new()).expect_err(expression);
        assert_eq!(refused.kind(), kind, "{}", refused.render());
    }
    assert!(filter("len > 1 && !($ctx.kernel.faults in (1, 2))").asks_kernel());
    assert!(filter("changed(len) || len in (1, $shared.x[1])").reads_shared());
    assert!(!filter("$tid == 1").asks_kernel());
}

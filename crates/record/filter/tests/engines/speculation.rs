//! Speculations that go by keys: programs of several events, whose helpers share what is open.

use crate::machine::{Machine, kept};
use mote_filter::interpret::{Facts, Word};
use mote_filter::{Decision, Diagnostic, Maps, Missing, Rule, Session, Side, compile};
use mote_layout::context::{DROP, RECORD, SPECULATE};
use mote_layout::parse::parse;
use mote_vm::Choice;

/// Two events with a field in common, one without it, one whose field is a string.
const EVENTS: [&str; 4] = [
    "mote1\nhttp:begin\n6 f:1\n\nid u32\n",
    "mote1\nhttp:step\n6 f:1\n\nid u32\nstatus u32\n",
    "mote1\nhttp:other\n6 f:1\n\nstatus u32\n",
    "mote1\nhttp:named\n6 f:1\n\nid str\n",
];

/// Makes the program of an event.
fn load(rules: &[Rule], event: &str, maps: &mut Maps, engine: Choice) -> Option<Machine> {
    let event = parse(event.as_bytes()).unwrap();
    let mut session = Session { side: Side::User, missing: Missing::Never, declare: &mut |_| Ok(1) };
    match compile(rules, &event, &mut session, maps) {
        Ok(Decision::Run(compiled)) => {
            // A field of that name may be of a type that cannot be worked out so.
            let is_told =
                |warning: &Diagnostic| warning.render_warning().contains("never kept aside by this key");
            assert!(compiled.warnings.iter().all(is_told), "{:?}", compiled.warnings);
            Some(Machine::new(&compiled.insns, &event, maps, engine).unwrap_or_else(|why| panic!("{why}")))
        }
        Ok(Decision::Record) => None,
        Ok(Decision::Off) => panic!("no rule is about {}:{}", event.provider, event.name),
        Err(problem) => panic!("{}", problem.render()),
    }
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts
        .iter()
        .map(|text| Rule::parse(text).unwrap_or_else(|problem| panic!("{}", problem.render())))
        .collect()
}

fn at(now: u64) -> Facts {
    Facts { now, elapsed: u64::MAX, ..Facts::default() }
}

fn run(machine: &Option<Machine>, numbers: &[u64], now: u64) -> u64 {
    let words: Vec<Word> = numbers.iter().map(|number| Word::Number(*number)).collect();
    machine.as_ref().expect("it has a program").run(&words, &at(now)).unwrap()
}

fn on_both(check: impl Fn(Choice)) {
    check(Choice::Interpreter);
    check(Choice::Jit);
}

#[test]
fn events_of_a_key_are_kept_together() {
    let rules = rules(&[
        "http:*",
        "http:begin do speculate by id",
        "http:step if status >= 500 || $elapsed by id > 5ms do commit by id",
        "http:step if status == 200 do discard by id",
    ]);
    on_both(|engine| {
        let mut maps = Maps::new();
        let [begin, step, other, named] = EVENTS.map(|event| load(&rules, event, &mut maps, engine));
        assert!(other.is_none(), "an event without the field is recorded as it was");
        assert_eq!(run(&step, &[7, 0], 0), RECORD);
        assert_eq!(run(&begin, &[7], 0), kept(0, 7));
        assert_eq!(run(&begin, &[8], 0), kept(0, 8));
        assert_eq!((run(&step, &[7, 0], 0), run(&step, &[8, 0], 0)), (kept(0, 7), kept(0, 8)));
        assert_eq!((run(&step, &[9, 0], 0), run(&step, &[9, 200], 0)), (RECORD, RECORD), "none is open");
        assert_eq!(run(&step, &[7, 200], 0), DROP, "it goes with what is discarded");
        assert_eq!((run(&step, &[7, 0], 0), run(&step, &[8, 0], 0)), (RECORD, kept(0, 8)));
        assert_eq!(run(&step, &[8, 0], 6_000_000), RECORD, "committed, as it took long");
        assert_eq!(run(&begin, &[7], 0), kept(0, 7));
        assert_eq!((run(&step, &[7, 503], 0), run(&step, &[7, 200], 0)), (RECORD, RECORD));
        // A string is no number, though the field has the same name.
        let words = [Word::Bytes(b"abc".to_vec()), Word::End];
        assert_eq!(named.as_ref().unwrap().run(&words, &at(0)), Ok(RECORD));
    });
}

#[test]
fn strings_and_brackets_are_keys() {
    let rules = rules(&[
        "http:*",
        "http:named do speculate by id, speculate",
        "http:step do speculate by (id << 32 | status)",
    ]);
    on_both(|engine| {
        let mut maps = Maps::new();
        let [begin, step, other, named] = EVENTS.map(|event| load(&rules, event, &mut maps, engine));
        let name = |text: &str| [Word::Bytes(text.as_bytes().to_vec()), Word::End];
        let run_named = |text: &str| named.as_ref().unwrap().run(&name(text), &at(0)).unwrap();
        assert!(run_named("abc") == run_named("abc") && run_named("abc") != run_named("abd"));
        assert_eq!(
            (run(&step, &[1, 2], 0), run(&step, &[1, 3], 0)),
            (kept(1, 1 << 32 | 2), kept(1, 1 << 32 | 3))
        );
        // A rule of the session keeps records by thread as well: what has no key open may belong there.
        assert_eq!((run(&begin, &[1], 0), run(&other, &[2], 0)), (SPECULATE, SPECULATE));
    });
}

#[test]
fn an_absent_key_keeps_nothing() {
    let rules = rules(&["net:*", "net:in do speculate by a[2]", "net:in if $elapsed by a[2] >= 0 do count"]);
    let event = "mote1\nnet:in\n6 f:1\n\na u8[]\n";
    on_both(|engine| {
        let machine = load(&rules, event, &mut Maps::new(), engine).expect("a program");
        let run = |bytes: &[u8]| machine.run(&[Word::Bytes(bytes.to_vec()), Word::End], &at(0));
        assert_eq!((run(&[1, 2]), run(&[1, 2, 3]), run(&[1, 2])), (Ok(RECORD), Ok(kept(0, 3)), Ok(RECORD)));
    });
}

#[test]
fn spans_join_the_speculation_of_their_parents() {
    const SPANS: [&str; 4] = [
        "mote1\napp:request_new\n6 f:1\na span of tracing\nspan u64\nparent u64\n",
        "mote1\napp:step_new\n6 f:1\na span of tracing\nspan u64\nparent u64\n",
        "mote1\napp:inside\n6 f:1\nan event of tracing\nspan u64\nparent u64\n",
        "mote1\napp:step_close\n6 f:1\na span of tracing\nspan u64\n",
    ];
    let rules = rules(&[
        "app:*",
        "app:request_new do speculate by $span",
        "app:inside if parent == 1 do commit by $span",
    ]);
    on_both(|engine| {
        let mut maps = Maps::new();
        let [request, step, inside, close] = SPANS.map(|event| load(&rules, event, &mut maps, engine));
        assert_eq!(run(&step, &[50, 0], 0), RECORD);
        assert_eq!(run(&request, &[10, 0], 0), kept(0, 10));
        assert_eq!((run(&step, &[11, 10], 0), run(&step, &[12, 11], 0)), (kept(0, 10), kept(0, 10)));
        assert_eq!((run(&inside, &[12, 0], 0), run(&inside, &[13, 12], 0)), (kept(0, 10), RECORD));
        assert_eq!((run(&close, &[12], 0), run(&inside, &[12, 0], 0)), (kept(0, 10), RECORD));
        assert_eq!(run(&inside, &[11, 1], 0), RECORD, "an event of a span inside commits all");
        assert_eq!(run(&inside, &[10, 0], 0), RECORD);
        // Outside of all spans there is no key.
        assert_eq!((run(&inside, &[0, 1], 0), run(&request, &[0, 0], 0)), (RECORD, RECORD));
    });
}

//! All cases, on all engines.

use mote_conform::case::{self, Case};
use mote_conform::compare::{self, Tally};

fn check_all(what: &str, cases: &[Case]) {
    let (mut tally, mut wrong) = (Tally::default(), Vec::new());
    for case in cases {
        let answers = compare::all(&case.input, true);
        tally.count(&case.name, &answers);
        if let Err(problem) = compare::check(case, &answers) {
            wrong.push(format!("{}: {problem}", case.name));
        }
    }
    println!("{what}: {tally}");
    tally.missing.iter().for_each(|why| mote_skip::skip(format_args!("{what} without an engine: {why}")));
    assert!(tally.jit == 0 || tally.jit == tally.interpreter, "the JIT is there for some programs only");
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn vectors_of_the_public_suite() {
    let cases = case::table(include_str!("vectors.tsv")).expect("well formed");
    assert_eq!(cases.len(), 60);
    check_all("public suite", &cases);
}

#[test]
fn cases_of_our_own() {
    let cases = case::cases(include_str!("cases.txt")).expect("well formed");
    assert!(cases.len() > 400, "{}", cases.len());
    check_all("our cases", &cases);
}

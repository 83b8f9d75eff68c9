//! Calls of functions: what the table says is what the program measured, and the trees are its own.

use crate::support::command::{json, mote, number, printed, text};
use crate::support::{Event, Record, Trace, event};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;

const THREADS: u64 = 2;
const TIMES: u64 = 3;

/// A recording in which no event came so late that a call seems to begin behind one that it has made: the program says
/// whether its threads were held up between the two.
fn recorded() -> Trace {
    let tries = (0..20).map(|_| {
        let scene = ["functions", &THREADS.to_string(), &TIMES.to_string()];
        Record::scene(&scene).with(&["-e", "*"]).run().ends_with(0)
    });
    let mut good = tries.filter(|trace| trace.printed("late_us") < 1000);
    good.next().expect("a machine that runs a thread for a while")
}

fn functions(trace: &Trace, words: &[&str]) -> Output {
    mote(&[&["functions", "-i", text(&trace.path)], words].concat())
}

/// Calls, total and own time of each function.
fn sums(trace: &Trace, words: &[&str]) -> BTreeMap<String, [u64; 3]> {
    let json = json(&printed(functions(trace, &[&["--format", "json"], words].concat())));
    assert_eq!((&json["estimates"], &json["lost"]), (&0.into(), &0.into()));
    let rows = json["functions"].as_array().expect("a list").iter().map(|row| {
        let number = |name: &str| number(&row[name]);
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, [number("calls"), number("total_ns"), number("total_self_ns")])
    });
    rows.collect()
}

/// Durations of the calls of a function, and of what was directly in them.
fn durations(events: &[Event], name: &str) -> Vec<(u64, u64)> {
    let named = event::named(events, name);
    named.iter().map(|event| (event.number("duration"), event.number("inside"))).collect()
}

fn total(calls: impl Iterator<Item = (u64, u64)>) -> u64 {
    calls.map(|(duration, _)| duration).sum()
}

#[test]
fn the_table_says_what_the_program_measured() {
    let trace = recorded();
    let events = trace.events();
    let [serve, parse, token] = ["f:serve", "f:parse", "f:token"].map(|name| durations(&events, name));
    let runs = THREADS * TIMES;
    let own = |calls: &[(u64, u64)]| calls.iter().map(|(duration, inside)| duration - inside).sum::<u64>();
    // Each parse has another one in it, or a token.
    let tokens: BTreeSet<u64> = token.iter().map(|(duration, _)| *duration).collect();
    let outer = total(parse.iter().copied().filter(|(_, inside)| !tokens.contains(inside)));
    let expected = BTreeMap::from([
        ("serve".to_owned(), [runs, total(serve.iter().copied()), own(&serve)]),
        ("parse".to_owned(), [2 * runs, outer, own(&parse)]),
        ("token".to_owned(), [3 * runs, total(token.iter().copied()), own(&token)]),
    ]);
    assert_eq!(sums(&trace, &[]), expected);

    let report = trace.report();
    let first = &report["functions"][0];
    let longest = serve.iter().map(|(duration, _)| *duration).max().expect("there are some");
    assert_eq!(
        (&first["name"], &first["duration_ns"]["max"]),
        (&"serve".into(), &longest.into()),
        "{report}"
    );

    let table = printed(functions(&trace, &[]));
    let names: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names[..3], ["all", "function", "serve"], "{table}");
    let by_name = printed(functions(&trace, &["--sort", "name"]));
    let names = by_name.lines().skip(2).filter_map(|line| line.split_whitespace().next());
    assert_eq!(names.collect::<Vec<_>>(), ["parse", "serve", "token"], "{by_name}");
    let counts = printed(functions(&trace, &["--count"]));
    let words: Vec<&str> = counts.split_whitespace().collect();
    assert_eq!(words, ["function", "calls", "token", "18", "parse", "12", "serve", "6"]);
    let histogram = printed(functions(&trace, &["--hist", "duration", "tok*"]));
    assert!(histogram.contains("function token: duration: 18 values, median "), "{histogram}");

    // As if nothing else had been recorded; and what was in one function.
    let some = sums(&trace, &["serve", "tok*"]);
    let own_of_two = total(serve.iter().copied()) - total(token.iter().copied());
    assert_eq!((some.len(), some["serve"][2]), (2, own_of_two));
    let under = sums(&trace, &["--under", "parse"]);
    assert_eq!((under.len(), under["parse"], under["token"][0]), (2, expected["parse"], runs));
    let long = sums(&trace, &["--min", &format!("{}ns", longest)]);
    assert_eq!((long.len(), long["serve"][..2].to_vec()), (1, vec![1, longest]));
}

/// Depth and function of each line of a tree.
fn shape(tree: &str) -> Vec<(usize, String)> {
    let line = |line: &str| {
        let Some(below) = line.strip_prefix("  +") else {
            return (0, line.split_whitespace().nth(2).expect("a function").to_owned());
        };
        let what = below.trim_start_matches(|c: char| c != ' ').to_owned();
        let name = what.split_whitespace().next().expect("a function").to_owned();
        // Two columns for each level, behind the time.
        let column = line.find(&format!(" {name} ")).expect("it is there") + 1;
        ((column - 10) / 2, name)
    };
    tree.lines().map(line).collect()
}

const SHAPE: [(usize, &str); 6] =
    [(0, "serve"), (1, "parse"), (2, "parse"), (3, "token"), (1, "token"), (1, "token")];

#[track_caller]
fn assert_shape(tree: &str, of_one: &[(usize, &str)], times: u64) {
    let expected: Vec<(usize, String)> =
        of_one.iter().map(|(depth, name)| (*depth, (*name).to_owned())).collect();
    let shape = shape(tree);
    assert_eq!(shape.len() as u64, times * expected.len() as u64, "{tree}");
    for one in shape.chunks(expected.len()) {
        assert_eq!(one, expected, "{tree}");
    }
}

#[test]
fn trees_are_as_the_program_called() {
    let trace = recorded();
    let runs = THREADS * TIMES;
    let graph = printed(functions(&trace, &["--graph"]));
    assert_shape(&graph, &SHAPE, runs);
    let tree = trace.mote(&["view", "--tree"]);
    let tree = String::from_utf8(tree.stdout).expect("text");
    assert_eq!(tree.lines().filter(|line| line.contains("app:begin")).count() as u64, runs, "{tree}");
    let calls: Vec<&str> = tree.lines().filter(|line| !line.contains("app:begin")).collect();
    assert_eq!(calls, graph.lines().collect::<Vec<_>>());

    let flat = printed(functions(&trace, &["--graph", "--depth", "2"]));
    assert_shape(&flat, &[SHAPE[0], SHAPE[1], SHAPE[4], SHAPE[5]], runs);
    let under = printed(functions(&trace, &["--graph", "--under", "parse"]));
    assert_shape(&under, &[(0, "parse"), (1, "parse"), (2, "token")], runs);
    let some = printed(functions(&trace, &["--graph", "serve", "token"]));
    assert_shape(&some, &[(0, "serve"), (1, "token"), (1, "token"), (1, "token")], runs);
}

#[test]
fn what_is_not_there_is_said() {
    let trace = Record::scene(&["functions", "1", "1"]).with(&["-e", "*"]).run().ends_with(0);
    let other = Record::scene(&["count", "3"]).with(&["-e", "*"]).run().ends_with(0);
    for (trace, words, status, said) in [
        (&trace, &["tokn"][..], 1, "no call of tokn; did you mean token?"),
        (&trace, &["--under", "nothing"], 1, "no call of nothing"),
        (&trace, &["--min", "1h"], 1, "no call in"),
        (&trace, &["--graph", "--min", "1h"], 1, "no call in"),
        (&trace, &["@main.rs"], 2, "does not have the source files"),
        (&trace, &["--depth", "1"], 2, "--graph"),
        (&other, &[], 1, "has no calls of functions"),
    ] {
        let output = functions(trace, words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(status) && error.contains(said), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Functions with `#[mote::probe]`: each call is an event, however it ends, and the table is that of function probes.
#[test]
fn functions_record_their_calls_themselves() {
    let trace = Record::scene(&["attributed"]).with(&["-e", "f:*"]).run().ends_with(0);
    let events = trace.events();
    let calls: Vec<(&str, u64)> =
        events.iter().map(|event| (event.name.as_str(), event.number("duration"))).collect();
    let called = |name: &str| calls.iter().filter(|(of, _)| *of == name).count();
    assert_eq!((called("f:scenes::functions::leaf"), called("f:Tree::grow")), (3, 3), "{calls:?}");
    assert_eq!((called("f:scenes::functions::number"), called("f:scenes::functions::later")), (2, 1));
    assert!(
        calls.iter().all(|(name, duration)| !name.ends_with("leaf") || *duration > 2_000_000),
        "{calls:?}"
    );
    let grown = event::named(&events, "f:Tree::grow");
    let depths: Vec<u64> = grown.iter().map(|event| event.number("depth")).collect();
    assert_eq!(depths, [0, 1, 2]);
    assert!(grown.iter().all(|event| event.fields["name"] == "oak"));
    let sums = sums(&trace, &[]);
    assert_eq!((sums["Tree::grow"][0], sums["scenes::functions::number"][0]), (3, 2));
    // Of the outermost call, and with nothing of what was called.
    assert!(sums["Tree::grow"][1] > 6_000_000 && sums["Tree::grow"][2] < sums["scenes::functions::leaf"][1]);
}

//! Every format says the same, and says it in its own grammar.

#[path = "../../timeline/examples/make_trace/build.rs"]
mod build;

use build::{Plan, TEXTS};
use mote_pattern::Glob;
use mote_timeline::{Range, Trace};
use mote_view::{Csv, Format, Json, Outcome, Selection, Text, TimeStyle, pump};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

fn recording(plan: &Plan) -> (TempDir, Trace) {
    let dir = TempDir::new().expect("a directory");
    build::build(dir.path(), plan).expect("built");
    let trace = Trace::open(dir.path()).expect("it opens");
    (dir, trace)
}

fn print(
    trace: &Trace,
    selection: &Selection,
    limit: Option<u64>,
    format: &mut impl Format,
) -> (String, Outcome) {
    let mut out = Vec::new();
    let outcome =
        pump(&mut trace.events(Range::ALL), selection, limit, format, &mut out).expect("a vector takes it");
    (String::from_utf8(out).expect("all formats are UTF-8"), outcome)
}

fn everything(trace: &Trace) -> Selection {
    Selection::new(trace, &[], &[], &[])
}

/// A made recording, with its directory, and sample traces of LTTng.
fn traces() -> (TempDir, Vec<Trace>) {
    let (dir, made) = recording(&Plan { text_every: 3, lost: 5, packet_bytes: 700, ..Plan::default() });
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../lib/ctf/tests/data/lttng-2.16");
    (dir, vec![made, Trace::open(&samples).expect("it opens")])
}

#[test]
fn every_line_of_json_is_json_and_they_are_as_many_as_the_events() {
    let (_dir, traces) = traces();
    for trace in traces {
        let (text, outcome) =
            print(&trace, &everything(&trace), None, &mut Json::new(&trace, TimeStyle::Absolute));
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let (losses, events): (Vec<&Value>, Vec<&Value>) =
            lines.iter().partition(|line| line.get("lost").is_some());
        assert_eq!(events.len() as u64, outcome.shown);
        assert_eq!(losses.iter().filter_map(|l| l["lost"]["events"].as_u64()).sum::<u64>(), outcome.lost);
        assert!(
            events.iter().all(|e| e["time"].is_i64() && e["event"].is_string() && e["fields"].is_object())
        );
        assert!(events.iter().is_sorted_by_key(|e| e["time"].as_i64()));
    }
}

#[test]
fn text_has_a_line_for_each_event_and_loss() {
    let (_dir, traces) = traces();
    for trace in traces {
        let (text, outcome) =
            print(&trace, &everything(&trace), None, &mut Text::new(&trace, TimeStyle::Absolute, false));
        let (losses, events): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains("] *** "));
        assert_eq!(events.len() as u64, outcome.shown);
        assert_eq!(losses.len() as u64, outcome.lost / 5);
        assert!(!text.contains('\x1b'), "no escape sequence of a traced program reaches the terminal");
    }
}

#[test]
fn csv_parses_back() {
    let (_dir, traces) = traces();
    for trace in traces {
        let (text, outcome) =
            print(&trace, &everything(&trace), None, &mut Csv::new(&trace, TimeStyle::Absolute));
        let rows = parse_csv(&text);
        assert_eq!(rows[0], ["time", "cpu", "pid", "tid", "thread", "event", "context", "fields"]);
        assert_eq!(rows.len() as u64 - 1, outcome.shown);
        for row in &rows[1..] {
            assert_eq!(row.len(), 8, "{row:?}");
            assert!(row[0].parse::<i64>().is_ok() && row[3].parse::<u32>().is_ok());
            for json in [&row[6], &row[7]] {
                assert!(
                    json.is_empty() || serde_json::from_str::<Value>(json).is_ok_and(|v| v.is_object()),
                    "{json}"
                );
            }
        }
    }
}

/// Whether a cell says what a member says in JSON.
fn says(cell: &str, member: &Value) -> bool {
    match member {
        Value::Null => cell.is_empty(),
        Value::String(text) => cell == text,
        other => serde_json::from_str::<Value>(cell).is_ok_and(|value| value == *other),
    }
}

#[test]
fn csv_of_one_kind_of_event_has_a_column_for_each_member() {
    let (_dir, traces) = traces();
    let mut compared = 0;
    for trace in traces {
        let names: Vec<String> = (0..trace.classes() as u32)
            .filter_map(|id| trace.class(mote_timeline::ClassId(id)).map(|(_, class)| class.name.clone()))
            .collect();
        for name in names {
            let one = Selection::new(&trace, &[], &[Glob::new(&name)], &[]);
            if !one.is_one(&trace) {
                continue;
            }
            let (json, outcome) = print(&trace, &one, None, &mut Json::new(&trace, TimeStyle::Absolute));
            let (csv, _) = print(&trace, &one, None, &mut Csv::flat(&trace, TimeStyle::Absolute));
            let rows = parse_csv(&csv);
            assert_eq!(rows.len() as u64 - 1, outcome.shown, "{name}");
            let events = json.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            for (row, event) in rows[1..].iter().zip(events.filter(|event| event["lost"].is_null())) {
                assert_eq!(row.len(), rows[0].len(), "{name}: {row:?}");
                let members =
                    ["context", "fields"].map(|part| event[part].as_object().cloned().unwrap_or_default());
                let members = members.iter().flatten();
                assert_eq!(members.clone().count(), row.len() - 6, "{name}: {:?}", rows[0]);
                for (member, value) in members {
                    let is_it =
                        |column: &&String| *column == member || **column == format!("fields.{member}");
                    let at = rows[0].iter().rposition(|column| is_it(&column)).expect("its column");
                    assert!(says(&row[at], value), "{name}: {member} is {value}, not {}", row[at]);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

/// RFC 4180, section 2.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let row = rows.last_mut().expect("never empty");
        let field = row.last_mut().expect("never empty");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            c => field.push(c),
        }
    }
    assert!(!quoted);
    rows.pop();
    rows
}

#[test]
fn texts_of_a_program_come_through() {
    let (_dir, trace) = recording(&Plan { events: 8, streams: 1, text_every: 1, ..Plan::default() });
    let (json, _) = print(&trace, &everything(&trace), None, &mut Json::new(&trace, TimeStyle::Absolute));
    for (line, text) in json.lines().zip(TEXTS.iter().cycle()) {
        let value: Value = serde_json::from_str(line).expect(line);
        let strip = |s: &str| s.replace('\u{fffd}', "");
        assert_eq!(value["fields"]["s"].as_str().map(strip), Some(strip(&String::from_utf8_lossy(text))));
    }
    let (text, _) =
        print(&trace, &everything(&trace), Some(3), &mut Text::new(&trace, TimeStyle::Absolute, false));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("[15:34:12.001000"), "{}", lines[0]);
    assert!(
        lines[0].ends_with("] worker-0/1000      [000] test:text: { n = 0, s = \"plain\" }"),
        "{}",
        lines[0]
    );
    assert!(lines[1].ends_with(r#"s = "with \"quotes\", commas\nand lines" }"#), "{}", lines[1]);
    assert!(lines[2].ends_with(r#"s = "\xff\xfe not UTF-8 \x1b[31m" }"#), "{}", lines[2]);
}

#[test]
fn selections_choose() {
    let (_dir, trace) = recording(&Plan { text_every: 10, ..Plan::default() });
    let count = |providers: &[&str], events: &[&str], tids: &[u32]| {
        let globs = |patterns: &[&str]| patterns.iter().map(|p| Glob::new(p)).collect::<Vec<_>>();
        let selection = Selection::new(&trace, &globs(providers), &globs(events), tids);
        print(&trace, &selection, None, &mut Json::new(&trace, TimeStyle::Absolute)).1.shown
    };
    assert_eq!(count(&[], &[], &[]), 2000);
    assert_eq!(count(&["test"], &[], &[]), 200);
    assert_eq!(count(&["t*", "bench"], &[], &[]), 2000);
    assert_eq!(count(&[], &["text"], &[]), 200);
    assert_eq!(count(&[], &["test:*"], &[]), 200);
    assert_eq!(count(&[], &["tex", "bench"], &[]), 0);
    assert_eq!(count(&[], &[], &[1000]), 1000);
    assert_eq!(count(&[], &["two"], &[1001, 7]), 900);
    assert_eq!(count(&["bench"], &["text"], &[]), 0);
}

#[test]
fn a_limit_is_kept_and_times_count_from_where_they_should() {
    let (_dir, trace) = recording(&Plan::default());
    let start = trace.start().expect("there are events");
    let times = |style: TimeStyle| -> Vec<i64> {
        let (text, outcome) = print(&trace, &everything(&trace), Some(50), &mut Json::new(&trace, style));
        assert_eq!(outcome.shown, 50);
        text.lines()
            .map(|l| serde_json::from_str::<Value>(l).expect(l)["time"].as_i64().expect("a time"))
            .collect()
    };
    let absolute = times(TimeStyle::Absolute);
    assert_eq!(absolute[0], start);
    assert!(times(TimeStyle::Relative(start)).iter().zip(&absolute).all(|(r, a)| r + start == *a));
    let deltas = times(TimeStyle::Delta);
    assert_eq!(deltas[0], 0);
    assert_eq!(deltas.iter().sum::<i64>(), absolute[49] - absolute[0]);
    let epoch = build::EPOCH.cast_signed();
    assert!(times(TimeStyle::Monotonic).iter().zip(&absolute).all(|(m, a)| m + epoch == *a));
}

//! Metadata written in one version and read back decodes the same data to the same events.

mod common;

use common::{Trace, assert_lines, data};
use mote_ctf::model::TraceClass;
use mote_ctf::{Schema, read, write};

fn check(version: &str) {
    let folder = data(&format!("lttng-2.16/{version}/ust/uid/0/64-bit"));
    let trace = Trace::read(&folder);
    let first = read::metadata(&trace.metadata).unwrap();
    let expected = trace.lines();
    let as_json = write::json(&first);
    let second = read::metadata(as_json.as_bytes()).unwrap();
    assert_lines(&trace.lines_with(&Schema::new(second.clone()).unwrap()), &expected);
    let as_text = write::tsdl(&second).unwrap();
    let third = read::metadata(as_text.as_bytes()).unwrap();
    assert_lines(&trace.lines_with(&Schema::new(third.clone()).unwrap()), &expected);
    let again = read::metadata(write::json(&third).as_bytes()).unwrap();
    assert_eq!(read::metadata(write::tsdl(&again).unwrap().as_bytes()).unwrap(), third, "1.8 to 2 to 1.8");
}

#[test]
fn ctf_1_8_to_2_and_back() {
    check("ctf-1.8-full");
}

#[test]
fn ctf_2_to_1_8_and_back() {
    check("ctf-2-full");
}

/// A trace class whose events come in two parts, each printed by itself.
fn in_parts(whole: &TraceClass, print: impl Fn(&TraceClass) -> String) -> String {
    let part = |keep: &dyn Fn(usize) -> bool| {
        let mut part = whole.clone();
        for stream in &mut part.streams {
            let mut number = 0..;
            stream.events.retain(|_| keep(number.next().expect("numbers do not end")));
        }
        part
    };
    let [first, second] = [part(&|number| number % 3 == 0), part(&|number| number % 3 != 0)];
    print(&first) + &print(&second)
}

#[test]
fn events_can_be_printed_later() {
    for version in ["ctf-1.8-full", "ctf-2-full"] {
        let trace = Trace::read(&data(&format!("lttng-2.16/{version}/ust/uid/0/64-bit")));
        let whole = read::metadata(&trace.metadata).unwrap();
        assert!(whole.streams.iter().any(|stream| stream.events.len() > 1));
        let mut frame = whole.clone();
        frame.streams.iter_mut().for_each(|stream| stream.events.clear());
        let text = write::tsdl(&frame).unwrap() + &in_parts(&whole, |part| write::tsdl_events(part).unwrap());
        let json = write::json(&frame) + &in_parts(&whole, write::json_events);
        for metadata in [text, json] {
            let schema = Schema::new(read::metadata(metadata.as_bytes()).unwrap()).unwrap();
            assert_lines(&trace.lines_with(&schema), &trace.lines());
        }
    }
}

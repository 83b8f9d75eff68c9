//! Metadata written in one version and read back decodes the same data to the same events.

mod common;

use common::{Trace, assert_lines, data};
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

//! Traces of LTTng 2.16 in both versions print as babeltrace2 prints them.

mod common;

use common::{Trace, assert_lines, data};

fn check(version: &str) {
    let folder = data(&format!("lttng-2.16/{version}/ust/uid/0/64-bit"));
    let text = data(&format!("lttng-2.16/{version}.txt"));
    let expected: Vec<String> = std::fs::read_to_string(text).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(expected.len(), 538);
    assert_lines(&Trace::read(&folder).lines(), &expected);
}

#[test]
fn ctf_1_8_prints_as_babeltrace2() {
    check("ctf-1.8-full");
}

#[test]
fn ctf_2_prints_as_babeltrace2() {
    check("ctf-2-full");
}

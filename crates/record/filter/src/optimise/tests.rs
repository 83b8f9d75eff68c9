//! Trees before and after.

use crate::{Missing, Rule, Side, explain};

const EVENT: &[u8] = b"mote1\nnet:in\n6 f:1\n\nlen u32\nproto str\nstate enum u8 IDLE=0 BUSY=1..3 DOWN=9\nmac u8[6]\npath u16[]\nnow u64\nload f64\nup bool\ndelta i64\n";

/// The optimised tree of an expression, on one line.
fn check(expr: &str, expected: &str) {
    let event = mote_layout::parse::parse(EVENT).unwrap();
    let rule = Rule::filter("*", expr).unwrap_or_else(|problem| panic!("{}", problem.render()));
    let (_, tree) = explain(&[rule], &event, Missing::Refuse, Side::User)
        .unwrap_or_else(|problem| panic!("{}", problem.render()));
    let lines: Vec<_> =
        tree.lines().map(str::trim).filter(|line| !matches!(*line, "if" | "do" | "record")).collect();
    assert_eq!(lines.join("; "), expected, "{expr}");
}

#[test]
fn comparisons_become_sets() {
    check("len == 1 || len == 2 || len == 3", "len: i64 in {1..3}");
    check("len >= 5 && len < 10", "len: i64 in {5..9}");
    check("!(len == 5)", "len: i64 in {0..4, 6..4294967295}");
    check("len > 5 && proto == \"x\" && len < 10", "and; len: i64 in {6..9}; proto fits \"x\"");
    check("proto == \"a\" || proto == \"b\" || proto == \"a\"", "proto fits \"a\" | \"b\"");
    check("proto != \"a\" && proto != \"b\"", "not; proto fits \"a\" | \"b\"");
    check("state == BUSY", "state: i64 in {1..3}");
    check("state == \"*\"", "state: i64 in {0..3, 9}");
    check("state in (IDLE, \"D*\", 4..5)", "state: i64 in {0, 4..5, 9}");
    check("len > 1.5", "len: i64 in {2..4294967295}");
    check("(len > 3) == 1", "len: i64 in {4..4294967295}");
}

#[test]
fn ranges_decide() {
    check("len >= 0", "true");
    check("len > 4294967295", "false");
    check("len == -1 || up", "up: i64 in {1}");
    check("2 & 2 == 2", "true");
    check("1 + 2 * 3 == 7 && ~0 == -1 && -(5) == -5 && 1 << 63 == 0x8000000000000000", "true");
    check("now - now < 0 || now >= 0", "true");
    check("mac[0] >= 0", "true");
    check("path[0] >= 0", "path[0]: i64 in {0..65535}");
}

#[test]
fn what_is_seen_stays() {
    check("path[0] == 1 && false", "and; path[0]: i64 in {1}; false");
    check("false && path[0] == 1", "false");
    check("every(10) && len > 5", "and; every 10 by counter 0; len: i64 in {6..4294967295}");
    check("path[3] == 1 && len > 5", "and; path[3]: i64 in {1}; len: i64 in {6..4294967295}");
    check(
        "len > 5 && every(2) && len < 9",
        "and; len: i64 in {6..4294967295}; every 2 by counter 0; len: i64 in {0..8}",
    );
}

#[test]
fn cheap_ones_go_first() {
    check("proto == \"tcp*\" && len > 1500", "and; len: i64 in {1501..4294967295}; proto fits \"tcp*\"");
    check("$tid == 4242 && len > 5", "and; len: i64 in {6..4294967295}; $tid: i64 in {4242}");
    check("len > 5 && $tid == 4 && up", "and; len: i64 in {6..4294967295}; up: i64 in {1}; $tid: i64 in {4}");
}

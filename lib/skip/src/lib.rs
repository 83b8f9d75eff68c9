//! The one way in which a test says that it, or a part of it, is not tested on this machine.
//!
//! `cargo xtask test` counts the lines that [`skip`] writes and shows them again at its end: a skip is not a pass.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write;

/// A line that begins with this is counted.
pub const MARK: &str = "SKIP: ";

/// With this variable in its environment a test that skips fails: for machines that have all that is needed.
pub const FORBID: &str = "MOTE_TESTS_NO_SKIP";

/// Says on standard error which test is not made here, and why.
///
/// The line is seen also of a test that passes: the test harness keeps what `eprintln!` prints, and not what is written
/// to standard error.
///
/// # Panics
/// The environment has [`FORBID`].
#[track_caller]
pub fn skip(why: impl Display) {
    let thread = std::thread::current();
    let line = line(thread.name(), &why.to_string());
    assert!(std::env::var_os(FORBID).is_none(), "not to be skipped: {why}");
    // In one piece: other tests write beside this one.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The harness names a test's thread by the test.
fn line(test: Option<&str>, why: &str) -> String {
    // A reason may have been printed by another program, in lines.
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{MARK}{}: {why}\n", test.unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_with_the_tests_name() {
        assert_eq!(line(Some("a::b"), "no gcc:\n  install it\n"), "SKIP: a::b: no gcc: install it\n");
        assert_eq!(line(None, "no gcc"), "SKIP: ?: no gcc\n");
    }
}

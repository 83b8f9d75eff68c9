//! Any bytes as a file of perf: records lie side by side, and are written as what they were read as.
#![no_main]

#[path = "../../crates/read/perfdata/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::check(bytes));

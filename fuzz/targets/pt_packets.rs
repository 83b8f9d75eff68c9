//! Any bytes as packets of Intel PT: items lie side by side, damage ends at a PSB, packets are encoded to what they
//! were decoded from, and times have bounds.
#![no_main]

#[path = "../../lib/pt/tests/packets_support/mod.rs"]
mod packets_support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packets_support::check(bytes));

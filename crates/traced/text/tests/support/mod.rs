//! What the tests of `mote-text` share: sites to patch, scenarios in child processes, the torture.
#![allow(dead_code, unreachable_pub)]

pub mod child;
pub mod sites;
pub mod torture;

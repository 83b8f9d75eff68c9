//! What the tests of `mote-patch` share: sites to patch, scenarios in child processes, the torture.
#![allow(dead_code, unreachable_pub)]

pub mod child;
pub mod sites;
pub mod torture;

//! The torture of RCU: what its tests and `mote-bench torture rcu` share.
//!
//! ```text
//! round     all threads of one flavour for a while, and the verdict
//! subject   what a flavour can do, under one name for all
//! world     elements that are published in turn; their age when a reader looks at them
//! reader    sections: short, long, nested, slept in; threads that come, go, and die inside
//! updater   ways to wait for a grace period, one for each pointer
//! disturb   signals, migrations, forks
//! beside    threads in the child of a fork
//! ```
//!
//! After liburcu's and the kernel's rcutorture: an updater publishes an element, waits for a grace period, counts the
//! update, and starts over. The age of an element is the number of updates counted since it was published, and one
//! more. A reader may see 0 (its update is not counted yet) and 1, and never 2: then a grace period has not waited for
//! it.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod beside;
pub mod disturb;
pub mod random;
pub mod reader;
pub mod round;
pub mod subject;
pub mod updater;
pub mod world;

//! Probes in functions of a program that carries none: each call becomes an event when it returns, with how long it
//! took.
//!
//! A recorder has loaded this library into the process, and hands it a plan (`mote_layout::functions`), in which it has
//! decided where each function's jump leads to and what the code there is. The rest is the agent's: a function is an
//! event whose site is a place of the program's own code.
//!
//! ```text
//! function ─ jump ▶ body ─ jump ▶ entry ─ notes the call in a slot ─▶ stub of the slot ─ call ▶ copy ─▶ function
//! function ─ ret ─▶ stub of the slot ─▶ return ─ records the event ─ ret ─▶ caller
//! ```
//! As the stub calls, and all return in the order of the calls, the processor predicts each return. Where entries are
//! only counted, the body calls the entry, which returns to the copy.
//!
//! Sources: iProbe (Arora et al. 2013, section II: HotPatch, trampolines); the return address as in gprof's and
//! uftrace's successors, but each call's is one of its own (`stack`): exceptions, longjmp, contexts and threads that
//! end in the middle find the way.
//!
//! | module | job |
//! |---|---|
//! | `load` | from a plan to memory, guards and events |
//! | `retire` | the code of plans that no session wants is taken away |
//! | `stack` | the calls under way: a slot for each, whose stub it returns to |
//! | `calls` | what becomes of a call that begins or ends |
//! | `callers` | in which callers a thread is, where calls are wanted below some only |
//! | `counts` | calls that are counted, and not recorded |
//! | `nearby` | copies of the code that counts, close to the functions |
//! | `known` | calls whose return addresses a runtime looks for |
//! | `budget` | how often calls are samples, where only some of them are recorded |
//! | `counters` | what a thread counts during these |
//! | `facts` | what is told of that besides |
//! | `values` | what an event has besides its duration: arguments and the result |
//! | `ticks` | from the time-stamp counter to nanoseconds |
//! | `unwinding` | tells unwinders the way through a stub |
//!
//! # Obligations
//!
//! | name | what has to hold | established by |
//! |---|---|---|
//! | `plan-true` | addresses, copies and guards are those of this process, as `mote_layout::functions` says; what is to be released has no thread in it | callers of [`load`] |
//! | `records-stay` | a record of a function and a plan's bytes stay while a thread may have them | `load`, `retire` |
//! | `code-stays` | the code of a plan stays mapped while a thread may be in it, or come to it | `retire` |
//! | `slot-filled` | a slot that a stub leads to has the call's record, time and return address | the entry's code |
//! | `counter-stays` | a function whose first value is an entry count has a counter, and its words are in each row; both stay while a thread may have them | `counts`, `retire` |
//! | `caller-filled` | a function that is a caller has a value, so that its calls begin and end by `calls` | `load` |
//! | `area-stays` | the area of stacks is never unmapped, and a region of it is one thread's until that has ended | `stack` |
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]

mod arch;
mod budget;
mod callers;
mod calls;
mod counters;
mod counts;
mod facts;
mod known;
mod load;
mod nearby;
mod retire;
mod stack;
mod ticks;
mod unwinding;
mod values;

pub use load::load;

//! Where threads are, some times a second, with their stacks; and what processes map meanwhile.
//!
//! ```text
//! perf_event_open(2) ─ rings ─▶ records, samples ─ by time ─▶ mappings ─▶ modules ─ unwind ─▶ Sample
//! ```
//! The kernel interrupts a thread, follows its own stack, and copies some of the thread's with its registers. The copy
//! is unwound at once, by the `.eh_frame` of the files that are mapped (crate `framehop`): only addresses remain. Code
//! that has none is followed by its frame pointers. Nothing in the process knows of it.
//!
//! | module | job |
//! |---|---|
//! | `sampler` | the events, and one round of reading them |
//! | `chosen` | which threads are sampled, where there is one event for each CPU |
//! | `programs` | the programs in the kernel that know them |
//! | `waits` | threads that have left their CPU, until they have one again |
//! | `sample` | a record that is a sample |
//! | `records` | the other records: mappings, forks, names |
//! | `mappings` | what processes have mapped; of all of them, without samples, too |
//! | `copies` | copies of stacks that records of others have: events with `--stack` |
//! | `unwind` | a copy of a stack to addresses |
//! | `modules` | what of a file unwinding needs |
//! | `library` | the same of our library in a process, and where that says what it has replaced |
//! | `memory` | memory of a process, to be read while it runs |
//! | `finding` | the latter for `copies`, on a thread of its own |
//! | `replaced` | copies of what it has replaced, which a program in the kernel makes with each sample |
#![forbid(unsafe_code)]

mod arch;
mod chosen;
mod copies;
mod finding;
mod library;
pub mod mappings;
mod memory;
mod modules;
mod programs;
mod records;
mod replaced;
mod sample;
mod sampler;
mod unwind;
mod waits;

pub use copies::{Copies, Joined, Reports};
pub use finding::Found;
pub use sampler::{Error, Round, Sampler, Settings, Targets};
pub use unwind::{OffCpu, Sample};

//! Code that programs make at run time, copied when it becomes executable (FlowJIT: Sharma 2017, 7.4, algorithms 3
//! and 4).
//!
//! ```text
//! mprotect(PROT_EXEC) returns ─ program of eBPF ─▶ slots ─ Collector ─▶ pages with time, process, address
//! ```
//! The thesis changes the kernel: pages that become executable are kept from being so, and copied by the fault handler
//! when they are first executed. Here the kernel is as it is: a program at the return of the system calls copies the
//! pages before the process goes on. No code of them can have been executed before, and nothing can be written to them
//! behind, unless the process makes them writable again, or writes by another mapping: then they are copied another
//! time when they become executable again; or they are tracked, as memory that stays writable and executable is
//! (`mote_pmu`), of which a program here notes when it is written to.
//!
//! | means | kernel |
//! |---|---|
//! | the return of mprotect(2), pkey_mprotect(2), mremap(2): a program at `sys_exit` | 5.5, with BTF |
//! | the fault of a page that is tracked: a program at `page_fault_user` | x86, with BTF |
//! | pages that are looked at now and then | any |
//!
//! | module | |
//! |---|---|
//! | `places` | what lies where in the memory that programs and collector share |
//! | `programs` | the programs |
//! | `collector` | attaches them, and reads what they have copied |
//! | `error` | why they cannot |
#![forbid(unsafe_code)]

mod collector;
mod error;
mod places;
mod programs;

pub use collector::{Change, Collector, What};
pub use error::Error;

//! Checks of the machine: what works, what does not, what to do.
//!
//! Every check is a function that answers a [`Finding`]. [`machine`] makes those that only ask the kernel; [`proof`]
//! records a program for real, and is what decides: recording works or it does not.

mod clock;
mod facts;
mod finding;
mod kernel;
mod machine;
mod memory;
mod proof;
mod pt;
mod switches;

pub use finding::{Finding, Verdict};
pub use proof::{EMITTED, PROOF_EVENT, kernel_proof, proof};
pub use pt::{PT_WORK, pt, pt_pack, pt_proof};

use std::path::Path;

/// Checks what the machine offers. Recordings would go to `directory`.
///
/// # Cost
/// About 50 ms, in which the clock is compared with the kernel's.
pub fn machine(directory: &Path) -> Vec<Finding> {
    vec![
        switches::rseq(),
        switches::membarrier(),
        switches::text(),
        clock::source(),
        clock::agreement(),
        memory::memfd(),
        memory::open_files(),
        memory::locked(),
        memory::limit(),
        memory::disk(directory),
        machine::cpus(),
        machine::container(),
        kernel::ptrace(),
        kernel::perf(),
        kernel::bpf(),
        kernel::rights(),
        kernel::tracefs(),
        kernel::btf(),
        kernel::uprobes(),
        kernel::kprobes(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_something_and_what_is_not_well_has_advice() {
        let all = machine(Path::new("."));
        assert_eq!(all.len(), 20);
        for finding in all {
            assert!(!finding.found.is_empty(), "{finding:?}");
            assert_eq!(finding.advice.is_empty(), finding.verdict == Verdict::Ok, "{finding:?}");
            assert!(!finding.found.contains('\n') && !finding.advice.contains('\n'), "{finding:?}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_told() {
        let disk = memory::disk(Path::new("/no/such/place"));
        assert_eq!(disk.verdict, Verdict::Warn, "{disk:?}");
    }
}

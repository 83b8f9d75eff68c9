//! x86-64 (System V ABI, AMD64, 3.6.2). See [`crate::arch`] for what each item is.

use gimli::{Register, X86_64};

pub(crate) const RETURN_ADDRESS: Register = X86_64::RA;
pub(crate) const STACK_POINTER: Register = X86_64::RSP;
/// The return address.
pub(crate) const ENTRY_OFFSET: i64 = 8;

/// Shadow stacks of CET (Linux 6.6, Documentation/arch/x86/shstk.rst).
pub(crate) fn has_shadow_stack(status: &str) -> bool {
    let features = status.lines().find_map(|line| line.strip_prefix("x86_Thread_features:"));
    features.is_some_and(|features| features.split_whitespace().any(|feature| feature == "shstk"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadow_stacks_are_seen() {
        let status = |features| format!("Name:\tit\nx86_Thread_features:\t{features}\nSeccomp:\t0\n");
        assert!(has_shadow_stack(&status("shstk wrss ")) && has_shadow_stack(&status("shstk ")));
        assert!(!has_shadow_stack(&status("")) && !has_shadow_stack("x86_Thread_features_locked:\tshstk\n"));
    }
}

//! Which stacks are recorded with events, and how they are followed.

use crate::sampling::{STACK, stack};
use mote_daemon::options::{STACK_COPY_MAX, Stacks};

/// Stacks in a recording of events.
#[derive(Debug, clap::Args)]
pub(crate) struct StackArgs {
    /// Record stacks with events: of the kernel (kernel events only), of the process, or of both
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "both")]
    stack: Option<Stacks>,
    /// Bytes of each thread's stack that are copied to follow it, with --stack (up to 16k) and --profile (up to 63k)
    /// [default: 8k]
    #[arg(long, value_name = "SIZE", value_parser = stack)]
    stack_size: Option<u32>,
    /// Follow stacks of kernel events and samples by frame pointers instead: programs and their libraries have to be
    /// built with them
    #[arg(long, conflicts_with = "stack_size")]
    frame_pointers: bool,
}

impl StackArgs {
    /// Whether there are to be none but the kernel's, which only its events have.
    pub(crate) fn are_of_kernel(&self) -> bool {
        self.stack.is_some_and(|stacks| !stacks.user)
    }

    /// Which, with how many bytes of a copy.
    ///
    /// # Errors
    /// For a person: more bytes than an event may have.
    pub(crate) fn stacks(&self) -> anyhow::Result<Stacks> {
        let Some(stacks) = self.stack else { return Ok(Stacks::default()) };
        let copy = self.bytes();
        anyhow::ensure!(
            copy <= STACK_COPY_MAX,
            "an event can have up to 16k bytes of a stack; give --stack-size 16k or less with --stack"
        );
        Ok(Stacks { copy, ..stacks })
    }

    /// Bytes that are copied with each event of a process: whatever follows stacks of kernel events, these are copied.
    ///
    /// # Errors
    /// As [`StackArgs::stacks`].
    pub(crate) fn of_processes(&self) -> anyhow::Result<u32> {
        let is_wanted = self.stacks()?.user;
        Ok(if is_wanted { self.stack_size.unwrap_or(STACK) } else { 0 })
    }

    /// Bytes that are copied; 0 for frame pointers.
    pub(crate) fn bytes(&self) -> u32 {
        if self.frame_pointers { 0 } else { self.stack_size.unwrap_or(STACK) }
    }
}

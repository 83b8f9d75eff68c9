//! Samples of threads in a recording of events: what `mote record` takes for them.

use crate::units;
use mote_daemon::ProfileOptions;

/// Samples in a recording of events.
#[derive(Debug, clap::Args)]
pub(crate) struct SamplingArgs {
    /// Sample threads, too: so many times a second [default: 999]
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true, default_missing_value = "999")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    profile: Option<u64>,
    /// Record times without a CPU, too, with the stacks where threads left it
    #[arg(long)]
    off_cpu: bool,
}

/// Samples in a second where nothing else is said.
pub(crate) const FREQUENCY: u64 = 999;

/// Bytes of stacks that are copied where nothing else is said.
pub(crate) const STACK: u32 = 8 << 10;

impl SamplingArgs {
    /// How threads are to be sampled, if they are, with copies of so many bytes of their stacks; only `when_asked` by
    /// rules, where there are such.
    pub(crate) fn options(&self, all: bool, stack: u32, when_asked: bool) -> Option<ProfileOptions> {
        let options = |frequency| ProfileOptions { frequency, stack, off_cpu: self.off_cpu, all, when_asked };
        self.profile.or((self.off_cpu || when_asked).then_some(FREQUENCY)).map(options)
    }
}

/// The kernel copies less than 64 KiB (`perf_event_open(2)`, `sample_stack_user`), and a record has more than that.
const STACK_MAX: u64 = 63 << 10;

/// Bytes of a stack, as a person gives them.
pub(crate) fn stack(text: &str) -> Result<u32, String> {
    let bytes = units::size(text)?;
    let fits = |bytes: &u32| (512..=STACK_MAX).contains(&u64::from(*bytes));
    u32::try_from(bytes).ok().filter(fits).ok_or_else(|| "give 512 to 63k bytes".to_owned())
}

//! Samples of threads, and of functions, in a recording of events: what `mote record` takes for them.

use crate::units;
use mote_daemon::{ProfileOptions, Sampling, USUAL_BUDGET, counters, usual_counters};

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

/// How functions are sampled when rules ask for that.
#[derive(Debug, clap::Args)]
pub(crate) struct FunctionSamplingArgs {
    /// Where a rule says `fperf "PATTERN" for TIME`: count these events during each call, as `mote fperf -e`
    #[arg(long, value_name = "EVENTS")]
    fperf_events: Option<String>,
    /// Where a rule says `fperf "PATTERN" for TIME`: take no more than this part of the time that the program runs
    /// [default: 5%]
    #[arg(long, value_name = "PERCENT", value_parser = budget)]
    fperf_budget: Option<u64>,
}

impl FunctionSamplingArgs {
    /// How functions are to be sampled, if some are to be.
    ///
    /// # Errors
    /// For a person: an event is none; the flags mean nothing, as no rule asks for samples.
    pub(crate) fn options(&self, are_wanted: bool) -> anyhow::Result<Option<Sampling>> {
        let given = [
            (self.fperf_events.is_some(), "--fperf-events"),
            (self.fperf_budget.is_some(), "--fperf-budget"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            _ if are_wanted => {
                sampling(self.fperf_events.as_deref(), self.fperf_budget.unwrap_or(USUAL_BUDGET)).map(Some)
            }
            Some((_, flag)) => anyhow::bail!(
                "{flag} says how functions are sampled when a rule asks for that; give such a rule, for example --on \
                 'req:done if duration > 50ms do fperf \"db::*\" for 2s'"
            ),
            None => Ok(None),
        }
    }
}

/// How calls are sampled: within a budget, with what is counted of each. Says so where that is not what it usually is.
///
/// # Errors
/// For a person: an event is none.
pub(crate) fn sampling(events: Option<&str>, budget: u64) -> anyhow::Result<Sampling> {
    let counters = match events {
        Some(events) => counters(events).map_err(anyhow::Error::msg)?,
        None => {
            let (counters, has_unit) = usual_counters();
            if !has_unit {
                let names: Vec<&str> = counters.iter().map(|counted| counted.name.as_str()).collect();
                say!("the processor does not count its events here; counting {}", names.join(", "));
            }
            counters
        }
    };
    Ok(Sampling { budget, counters })
}

/// A part of the time, in millionths; 0 for all of it.
pub(crate) fn budget(text: &str) -> Result<u64, String> {
    const PERCENT: f64 = 10_000.0;
    if text == "none" {
        return Ok(0);
    }
    let number: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
    let percent = number.filter(|percent| (0.01..=100.0).contains(percent));
    percent.map(|percent| (percent * PERCENT) as u64).ok_or_else(|| "give 0.01% to 100%, or none".to_owned())
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

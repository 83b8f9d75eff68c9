//! Which calls of a recording are shown.

use crate::units;
use anyhow::ensure;
use mote_analysis::{CallClasses, Callers, Choice, run};
use mote_functions::Pattern;
use mote_pattern::{Glob, similar};
use mote_symbol::names;
use mote_timeline::{Range, Trace};
use mote_view::CallCount;
use std::path::Path;

/// The flags.
#[derive(Debug, clap::Args)]
pub(super) struct ChoiceArgs {
    /// Show only calls that took at least this TIME (ns us ms s m h)
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    min: Option<u64>,
    /// Record, or with -i show, only calls of this function and what is called below them; repeat for more
    #[arg(long, value_name = "PATTERN")]
    under: Vec<String>,
}

/// The part of patterns that is about names.
///
/// # Errors
/// For a person: a recording knows no source files.
fn globs(patterns: &[String]) -> anyhow::Result<Vec<Glob>> {
    let glob = |text: &String| {
        ensure!(
            !text.starts_with('@'),
            "a recording does not have the source files of functions; give a name for {text}"
        );
        Ok(Glob::new(Pattern::new(text).map_err(anyhow::Error::msg)?.name()))
    };
    patterns.iter().map(glob).collect()
}

fn fits(globs: &[Glob], name: &str) -> bool {
    globs.iter().any(|glob| names::fits(name, |name| glob.matches(name)))
}

/// Those of counted functions that fit one of the patterns, or all.
///
/// # Errors
/// As [`ChoiceArgs::of`].
pub(super) fn of_counted(counted: Vec<CallCount>, patterns: &[String]) -> anyhow::Result<Vec<CallCount>> {
    let globs = globs(patterns)?;
    let is_meant = |function: &CallCount| globs.is_empty() || fits(&globs, &function.name);
    Ok(counted.into_iter().filter(is_meant).collect())
}

impl ChoiceArgs {
    /// How long calls have to be at least, in nanoseconds.
    pub(super) fn min(&self) -> Option<u64> {
        self.min
    }

    /// Below which functions calls have to be; none where they may be anywhere.
    pub(super) fn under(&self) -> &[String] {
        &self.under
    }

    /// What is chosen of the calls of `trace`; by callers only where its recording has not chosen so.
    ///
    /// # Errors
    /// For a person: a pattern that cannot be compared with anything.
    pub(super) fn of(&self, trace: &Trace, patterns: &[String], is_chosen: bool) -> anyhow::Result<Choice> {
        let mut choice = Choice::default().of_at_least(self.min.unwrap_or(0));
        let (functions, under) = (globs(patterns)?, globs(&self.under)?);
        if !functions.is_empty() {
            choice = choice.of_functions(&CallClasses::new(trace), |name| fits(&functions, name));
        }
        if !under.is_empty() && !is_chosen {
            // When each thread was in one of them has to be known first: callers return last.
            let mut callers = Callers::new(trace, |name| fits(&under, name));
            run(&mut trace.events(Range::ALL), &mut callers);
            choice = choice.under(callers);
        }
        Ok(choice)
    }

    /// Says why there is no call.
    pub(super) fn nothing(&self, trace: &Trace, dir: &Path, patterns: &[String]) -> String {
        let (classes, dir) = (CallClasses::new(trace), dir.display());
        let all = || (0..classes.functions()).map(|function| classes.name(function));
        let is_all = patterns.is_empty() && self.under.is_empty() && self.min.is_none();
        if classes.functions() == 0 || is_all {
            return format!("{dir} has no calls of functions; `mote report {dir}` lists what it has");
        }
        for pattern in patterns.iter().chain(&self.under) {
            if globs(std::slice::from_ref(pattern)).is_ok_and(|globs| !all().any(|name| fits(&globs, name))) {
                let similar = similar(pattern, all());
                let similar = if similar.is_empty() {
                    String::new()
                } else {
                    format!("; did you mean {}?", similar.join(" or "))
                };
                return format!("{dir} has no call of {pattern}{similar}");
            }
        }
        format!("no call in {dir} was selected")
    }
}

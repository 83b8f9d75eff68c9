//! What it costs to count calls in the process, and nothing else.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::functions_recorded::{Recorder, run_bare};
use std::path::Path;

/// Calls of a run.
const CALLS: u64 = 20_000_000;
/// What is counted, by the words for it.
const COUNTED: [(&str, &[&str]); 2] = [("count", &["--count"]), ("count/both", &["--count", "--under-way"])];

/// Nanoseconds that a counted call takes more than one that is not, in turns; and whether all were counted.
pub(super) fn run(
    recorder: &mut Recorder<'_>,
    program: &Path,
    effort: Effort,
) -> anyhow::Result<Vec<Figure>> {
    let command = [program.into(), CALLS.to_string().into()];
    let mut samples = Samples::default();
    let mut read = |name: &str, said: &[u8]| {
        samples.read(&String::from_utf8_lossy(said), |case| Some(format!("{name}/{case}")))
    };
    let mut missed = 0;
    for _ in 0..effort.choose(5, 15) {
        read("bare", &run_bare(&command)?.stdout)?;
        for (name, words) in COUNTED {
            let (ran, calls) = recorder.count(words, "empty", &command)?;
            read(name, &ran.stdout)?;
            missed += CALLS.abs_diff(calls);
        }
    }
    let bare = samples.of("bare/call").to_vec();
    let added = |name: &str| -> Vec<f64> {
        samples.of(&format!("{name}/call")).iter().zip(&bare).map(|(ns, bare)| ns - bare).collect()
    };
    let mut figures: Vec<Figure> =
        COUNTED.iter().map(|(name, _)| Figure::new(name, "ns", &added(name))).collect();
    figures.push(Figure::new("count/bare", "ns", &bare));
    figures.push(Figure::new("count/missed", "calls", &[missed as f64]));
    Ok(figures)
}

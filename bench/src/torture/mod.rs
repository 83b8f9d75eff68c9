//! `torture`: everything that can befall a writer, a reader or a patched site, at once and for long, and a count of
//! what went wrong.
//!
//! The cores are those of tests, which run them for a moment: of `mote-rcu`, `mote-ring`, `mote-patch`, and of a claim.

mod finding;
mod functions;
mod patch;
mod rcu;
mod ring;

use crate::figures::Effort;
use crate::figures::figure::Figure;
use finding::Finding;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the torture `what` and prints a figure for each number. Fails when anything was violated.
///
/// # Errors
/// There is none of this name, or it cannot begin.
pub(crate) fn run(what: &str, effort: Effort, seconds: Option<u64>, json: bool) -> anyhow::Result<ExitCode> {
    let usual = match effort {
        Effort::Quick => 16,
        Effort::Full => 60,
    };
    let length = Duration::from_secs(seconds.unwrap_or(usual).max(1));
    let report = |finding: &Finding| print(&format!("torture {what}"), finding, json);
    let sum = match what {
        "rcu" => rcu::run(length, report),
        "ring" => ring::run(length, report),
        "patch" => patch::run(length, report),
        "functions" => functions::run(length, report)?,
        _ => anyhow::bail!("there is no torture '{what}'; try rcu, ring, patch, functions"),
    };
    print(&format!("torture {what}"), &sum, json);
    Ok(if sum.violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(bench: &str, finding: &Finding, json: bool) {
    for message in &finding.messages {
        eprintln!("{bench}: {message}");
    }
    if json {
        for figure in figures(finding) {
            println!("{}", figure.json(bench).unwrap_or_default());
        }
        return;
    }
    let case = if finding.case.is_empty() { "all" } else { &finding.case };
    let lost = finding.lost_counted.map_or(String::new(), |lost| format!(" {lost:>10} lost"));
    println!(
        "{bench:<12} {case:<32} {:>4} violations {:>10} events{lost}  {}",
        finding.violations, finding.events, finding.details
    );
}

/// The sum has the plain names, a part its own before them.
fn figures(finding: &Finding) -> Vec<Figure> {
    let name = |figure: &str| match finding.case.as_str() {
        "" => figure.to_owned(),
        case => format!("{case}/{figure}"),
    };
    let one = |figure: &str, value: u64| Figure::new(&name(figure), "count", &[value as f64]);
    let mut figures = vec![one("violations", finding.violations), one("events", finding.events)];
    figures.extend(finding.lost_counted.map(|lost| one("lost_counted", lost)));
    figures
}

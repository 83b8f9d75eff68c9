//! `event_cost`: what an event costs, recorded by a flight recorder, and what it costs while it is off.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::session::{Lab, workload};
use super::{disabled, lttng, native};
use std::ffi::OsString;

/// The peer's name.
const LTTNG: &str = "lttng-ust";

/// Measures all cases in turns: in each round every workload runs once under a recorder of its own.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let mut samples = Samples::default();
    let (events, rounds, repetitions) = effort.choose((250_000, 5, 2), (2_000_000, 7, 3));
    let c = native::build(&lab);
    let mut peer = lttng::Peer::start(&lab);
    for _ in 0..rounds {
        let cost = workload("cost", &[events, repetitions])?;
        lab.fly_into(&mut samples, cost.clone(), |case| Some(of_rseq(case)))?;
        lab.fly_into(&mut samples, without_rseq(cost), of_atomic)?;
        lab.fly_into(&mut samples, workload("recorded_pair", &[events, repetitions])?, |case| {
            Some(of_rseq(case))
        })?;
        lab.fly_into(&mut samples, workload("threads", &[events, repetitions])?, |case| {
            Some(case.to_owned())
        })?;
        if let Ok(program) = &c {
            let command = native::command(program, events, repetitions);
            lab.fly_into(&mut samples, command, |case| {
                (case == "two_ints").then(|| "two_ints/c".to_owned())
            })?;
        }
        if let Ok(peer) = &mut peer {
            peer.measure(&mut samples, events, repetitions)?;
        }
    }
    let mut figures = ours(&samples, c.err());
    figures.extend(disabled::figures(&mut lab, events * 10, effort.choose(5, 7))?);
    figures.extend(theirs(&samples, peer.as_ref().err()));
    Ok(figures)
}

fn ours(samples: &Samples, c: Option<anyhow::Error>) -> Vec<Figure> {
    let ns = |case: &str, from: &str| Figure::new(case, "ns", samples.of(from));
    let mut figures = vec![
        ns("empty", "empty"),
        ns("rdtsc", "rdtsc"),
        ns("rdtsc_stores", "rdtsc_stores"),
        ns("floor", "floor"),
        ns("floor/none", "floor/none"),
        ns("two_ints/rseq", "two_ints/rseq"),
        ns("none/rseq", "none/rseq"),
        ns("two_sessions/rseq", "two_sessions/rseq"),
        ns("two_ints/atomic", "two_ints/atomic"),
    ];
    figures.push(match c {
        None => ns("two_ints/c", "two_ints/c"),
        Some(why) => Figure::absent("two_ints/c", "ns", &format!("{why:#}")),
    });
    figures.extend([
        ns("rdtsc/2threads", "rdtsc/2threads"),
        ns("two_ints/rseq/1thread", "two_ints/1thread"),
        ns("two_ints/rseq/2threads", "two_ints/2threads"),
        ns("nine_strings/rseq", "nine_strings/rseq"),
        ns("nine_strings/atomic", "nine_strings/atomic"),
    ]);
    figures
}

fn theirs(samples: &Samples, missing: Option<&anyhow::Error>) -> Vec<Figure> {
    let figure = |case: &str| match missing {
        None => Figure::new(case, "ns", samples.of(&format!("lttng/{case}"))).of_peer(LTTNG),
        Some(why) => Figure::absent(case, "ns", &format!("{why:#}")).of_peer(LTTNG),
    };
    vec![figure("two_ints"), figure("nine_strings")]
}

/// Events by the writer; floors keep their names.
fn of_rseq(case: &str) -> String {
    if is_event(case) { format!("{case}/rseq") } else { case.to_owned() }
}

fn of_atomic(case: &str) -> Option<String> {
    is_event(case).then(|| format!("{case}/atomic"))
}

fn is_event(case: &str) -> bool {
    matches!(case, "two_ints" | "none" | "nine_strings" | "two_sessions")
}

/// The same command in a C library that registers no restartable sequences.
fn without_rseq(command: Vec<OsString>) -> Vec<OsString> {
    let mut whole: Vec<OsString> = vec!["env".into(), "GLIBC_TUNABLES=glibc.pthread.rseq=0".into()];
    whole.extend(command);
    whole
}

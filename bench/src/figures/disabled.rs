//! What an event costs that is off: counted instructions where valgrind is there, else time.
//!
//! Two loops do the same work, one with an event in it. Under callgrind the difference of the instructions that the two
//! functions execute, divided by the turns, is what the site costs: 1 for the NOP, and anything more is a bug.

use super::figure::Figure;
use super::session::Lab;
use super::stopwatch::thread_ns;
use anyhow::Context;
use std::hint::black_box;
use std::process::{Command, Stdio};

const CASE: &str = "disabled";
/// Turns of the loops under callgrind, which is some fifty times slower than the CPU.
const COUNTED: u64 = 100_000;

/// The figures `disabled` (instructions, or absent) and `disabled/time` with its floor.
pub(super) fn figures(lab: &mut Lab, turns: u64, repetitions: usize) -> anyhow::Result<Vec<Figure>> {
    let mut counts = Vec::new();
    let mut missing = None;
    for repetition in 0..repetitions as u64 {
        match count(lab, COUNTED + repetition) {
            Ok(instructions) => counts.push(instructions),
            Err(why) => {
                missing = Some(why);
                break;
            }
        }
    }
    let counted = match missing {
        None => Figure::new(CASE, "instructions", &counts),
        Some(why) => Figure::absent(CASE, "instructions", &format!("{why:#}")),
    };
    let mut times = [Vec::new(), Vec::new()];
    let last = last(turns);
    for _ in 0..=repetitions {
        for (times, body) in times.iter_mut().zip([plain_loop as fn(u64), traced_loop]) {
            let begin = thread_ns();
            body(black_box(last));
            times.push((thread_ns() - begin) as f64 / turns as f64);
        }
    }
    let [floor, with] = times.map(|times| times.into_iter().skip(1).collect::<Vec<_>>());
    Ok(vec![
        counted,
        Figure::new("disabled/time", "ns", &with),
        Figure::new("disabled/time/floor", "ns", &floor),
    ])
}

/// Instructions that the site adds to a turn.
fn count(lab: &mut Lab, turns: u64) -> anyhow::Result<f64> {
    let (counts, result) = (lab.fresh("callgrind"), lab.fresh("result"));
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--error-exitcode=0"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe()?)
        .args(["work", "disabled", &turns.to_string()])
        .arg(&result)
        .env_remove(mote_wire::ENVIRONMENT)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("valgrind is not installed")?;
    anyhow::ensure!(status.success(), "valgrind has failed: {status}");
    let text = std::fs::read_to_string(&counts).context("valgrind has left no counts")?;
    let of = |name: &str| {
        own_cost(&text, name).with_context(|| format!("valgrind has not seen the function {name}"))
    };
    Ok((of("traced_loop")? as f64 - of("plain_loop")? as f64) / turns as f64)
}

/// Instructions in the function whose name contains `name` itself, from callgrind's output (its manual, chapter
/// "callgrind format"): lines of `POSITION COST` behind `fn=`; the line behind `calls=` counts for the called one.
fn own_cost(text: &str, name: &str) -> Option<u64> {
    let mut inside = false;
    let mut of_call = false;
    let mut sum = None;
    for line in text.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            inside = function.contains(name);
        } else if line.starts_with("calls=") {
            of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let cost: Option<u64> = line.split_whitespace().nth(1).and_then(|cost| cost.parse().ok());
            if inside && !of_call {
                sum = Some(sum.unwrap_or(0) + cost.unwrap_or(0));
            }
            of_call = false;
        }
    }
    sum
}

/// The workload: both loops, `turns` times each.
pub(super) fn both(turns: u64) -> String {
    let last = last(turns);
    plain_loop(last);
    traced_loop(last);
    String::new()
}

const SEED: u64 = 1;

/// What the loops end with after so many turns. They end at a value and not by a count, so that the compiler cannot
/// unroll one of them and not the other.
#[inline(never)]
fn last(turns: u64) -> u64 {
    (0..turns.max(1)).fold(SEED, |state, _| work(state))
}

#[inline(never)]
fn plain_loop(last: u64) {
    let mut state = SEED;
    while state != last {
        state = work(state);
    }
    black_box(state);
}

#[inline(never)]
fn traced_loop(last: u64) {
    let mut state = SEED;
    while state != last {
        state = work(state);
        mote::event!(bench::work_done, state: u64 = state);
    }
    black_box(state);
}

/// Some real work (xorshift64*), each turn of which needs the one before.
#[inline(always)]
fn work(state: u64) -> u64 {
    let state = state ^ (state >> 12);
    let state = state ^ (state << 25);
    (state ^ (state >> 27)).wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_function_is_without_those_it_calls() {
        let text =
            "events: Ir\nfn=a::outer\n10 5\n11 7\ncfn=inner\ncalls=1 20\n12 1000\n13 1\nfn=inner\n20 1000\n";
        assert_eq!(own_cost(text, "outer"), Some(13));
        assert_eq!(own_cost(text, "inner"), Some(1000));
        assert_eq!(own_cost(text, "other"), None);
    }
}

//! What runs under the recorder for `filter`: events whose sites have filters, and floors.

use super::bodies::{nine_strings, two_ints};
use super::turns::{line, per_event, pin};
use anyhow::Context;
use nix::sched::sched_getcpu;
use std::hint::black_box;
use std::os::unix::process::CommandExt;

/// As [`run`], in a program that may not make machine code: this one again. It writes nothing where the kernel cannot
/// forbid it.
pub(super) fn interpreted(numbers: &[u64], result: &str) -> anyhow::Result<String> {
    if !super::filter_fifty::refuse_machine_code() {
        return Ok(String::new());
    }
    let mut command = super::session::workload("filtered", numbers)?.into_iter();
    let program = command.next().context("a program")?;
    let failed = std::process::Command::new(program).args(command).arg(result).exec();
    Err(failed).context("cannot run this program again")
}

type Case = (&'static str, fn(u64));

/// Time of one turn of each case, in `rounds` rounds; the first round only warms up.
pub(super) fn run(events: u64, rounds: u64) -> anyhow::Result<String> {
    pin(sched_getcpu()?)?;
    let cases: [Case; 5] = [
        ("empty", empty),
        ("calls", calls),
        ("two_ints", two_ints),
        ("nine_strings", nine_strings),
        ("packet", packets),
    ];
    let mut text = String::new();
    for round in 0..=rounds {
        for (case, body) in cases {
            let ns = per_event(body, events);
            if round > 0 {
                line(&mut text, case, ns);
            }
        }
    }
    Ok(text)
}

#[inline(never)]
fn empty(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
    }
}

/// A function that calls another through a pointer, with two words in memory: no filter outside of the program can be
/// asked with less.
#[inline(never)]
fn calls(turns: u64) {
    for turn in 0..turns {
        ask(turn, turn * 3);
    }
}

#[inline(never)]
fn ask(i: u64, v: u64) {
    let words = [i, v];
    let judge: fn(&[u64; 2]) -> bool = black_box(judge);
    if judge(black_box(&words)) {
        black_box(&words);
    }
}

fn judge(words: &[u64; 2]) -> bool {
    (words[0] as i64) < 0
}

/// Events with a few texts, to be counted by them.
#[inline(never)]
fn packets(events: u64) {
    let texts = ["tcp", "udp", "icmp", "sctp"];
    for i in 0..events {
        let proto = black_box(&texts)[(i & 3) as usize];
        mote::event!(bench::packet, len: u64 = i & 0xfff, proto: &str = proto);
    }
}

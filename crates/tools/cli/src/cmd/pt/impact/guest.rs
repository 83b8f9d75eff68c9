//! Tracers in a guest with a kernel of its own: what they have recorded comes out of it by its output.

use super::ready::Ready;
use super::recorded::{Events, Recorded};
use super::run::{Ended, Lab};
use anyhow::Context;
use mote_journal::Fact;
use mote_synth::find_program;
use mote_words::cut;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

/// The guest has no /dev/stdout; both outputs of programs are this.
const OUTPUT: &str = "/proc/self/fd/1";

/// Columns of what a tracer has written that has recorded nothing.
const SAID: usize = 200;

/// A tracer whose words stand before the program's, and how its output is understood.
struct Before {
    words: Vec<OsString>,
    events: fn(&str) -> Events,
}

/// `strace -f`.
pub(super) fn strace() -> anyhow::Result<Box<dyn Ready>> {
    before("strace", &["-f", "-o", OUTPUT], of_strace)
}

/// `perf trace`.
pub(super) fn perf() -> anyhow::Result<Box<dyn Ready>> {
    before("perf", &["trace", "-o", OUTPUT, "--"], of_perf)
}

/// `mote record` with these options: the journal of the recording has the numbers.
pub(super) fn mote(mote: &Path, options: &str) -> anyhow::Result<Box<dyn Ready>> {
    let script = format!(
        "mote=$1; shift; \"$mote\" record -q {options} -o /tmp/recording -- \"$@\"; status=$?
         while read -r line; do echo \"$line\"; done </tmp/recording/mote/journal.jsonl; exit $status"
    );
    let words: [OsString; 5] = ["/bin/sh".into(), "-c".into(), script.into(), "sh".into(), mote.into()];
    Ok(Box::new(Before { words: words.into(), events: of_journal }))
}

fn before(name: &str, words: &[&str], events: fn(&str) -> Events) -> anyhow::Result<Box<dyn Ready>> {
    let program = find_program(OsStr::new(name)).with_context(|| format!("there is no {name}"))?;
    let words = [program.into_os_string()].into_iter().chain(words.iter().map(OsString::from)).collect();
    Ok(Box::new(Before { words, events }))
}

impl Ready for Before {
    fn words(&self, lab: &Lab, name: &str) -> Vec<OsString> {
        lab.emulated(name, &[&self.words[..], lab.command()].concat())
    }

    fn recorded(&mut self, _: &Lab, ended: &Ended) -> anyhow::Result<Recorded> {
        let output = fs::read(&ended.output).context("cannot read what the guest has written")?;
        let output = String::from_utf8_lossy(&output);
        let said = output.lines().next().map_or("it has written nothing", str::trim);
        Recorded::new((self.events)(&output), 0).with_context(|| cut(said, SAID))
    }
}

/// A name of a system call, in front of `(`.
fn called(text: &str) -> Option<&str> {
    let (name, _) = text.split_once('(')?;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn count<'t>(names: impl Iterator<Item = &'t str>) -> Events {
    let mut events = Events::new();
    names.for_each(|name| *events.entry(name.to_owned()).or_default() += 1);
    events
}

/// Lines `PID NAME(ARGUMENTS) = ANSWER`; what a line says that is resumed was counted where it began.
fn of_strace(text: &str) -> Events {
    count(text.lines().filter_map(|line| {
        let (pid, rest) = line.trim_start().split_once(' ')?;
        pid.parse::<i32>().ok()?;
        called(rest.trim_start())
    }))
}

/// Lines `TIME ( DURATION ms): [COMM/TID] NAME(ARGUMENTS) = ANSWER`.
fn of_perf(text: &str) -> Events {
    count(text.lines().filter_map(|line| {
        let (time, rest) = line.trim_start().split_once(" (")?;
        time.trim().parse::<f64>().ok()?;
        let (_, rest) = rest.split_once("): ")?;
        let last = rest.split_once('(').map(|(before, _)| before.trim_end())?;
        let name = last.rsplit(' ').next()?;
        (!name.is_empty()).then_some(name)
    }))
}

/// Lines of a journal, the last one of which sums up.
fn of_journal(text: &str) -> Events {
    let facts = mote_journal::read(text.as_bytes()).map(|contents| contents.facts).unwrap_or_default();
    let end = facts.into_iter().rev().find_map(|fact| match fact {
        Fact::End(summary) => Some(summary.events),
        _ => None,
    });
    let is_state = |name: &str| name.split(':').next() == Some(mote_journal::STATE);
    end.unwrap_or_default().into_iter().filter(|(name, _)| !is_state(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(events: &Events) -> String {
        events.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn lines_of_tracers_are_told_from_those_of_programs() {
        let strace = "hello (world)\n57 getpid() = 57\n58  write(1, \"57 getpid()\", 11 <unfinished ...>\n\
                      57 getpid() = 57\n58 <... write resumed>) = 11\n57 +++ exited with 0 +++\n57 Hello(there)\n";
        assert_eq!(shown(&of_strace(strace)), "getpid 2, write 1");
        let perf = "     0.000 ( 0.004 ms): app/61 brk()                 = 0x5581\n hello (1 ms): x\n\
                         0.050 ( 0.002 ms): getpid()    = 61\n     0.070 (         ): app/61 exit_group() = ?\n";
        assert_eq!(shown(&of_perf(perf)), "brk 1, exit_group 1, getpid 1");
        let journal = "hello\n{\"type\":\"none\"}\n";
        assert!(of_journal(journal).is_empty());
    }
}

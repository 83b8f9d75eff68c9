//! The tracers that are known: what each needs, how it starts a program, how many events it has recorded.

use super::engine::Engine;
use super::guest;
use super::lttng;
use super::ready::Ready;
use super::recorded::{self, Events, Recorded};
use super::run::{Ended, Lab};
use anyhow::{Context, ensure};
use mote_inspect::linked;
use mote_synth::find_program;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

/// A tracer.
#[derive(Clone, Copy)]
pub(super) struct Tracer {
    pub(super) name: &'static str,
    /// The engine that it is started for so; there may be another row for another one.
    pub(super) engine: Engine,
    /// Programs that it needs, and the package of Debian that has them.
    needs: &'static [&'static str],
    package: &'static str,
    /// Makes it ready for one run.
    ready: fn(&Lab) -> anyhow::Result<Box<dyn Ready>>,
}

/// The tracers of all engines.
pub(super) const TRACERS: [Tracer; 7] = [
    Tracer { name: "mote", engine: Engine::Qemu, needs: &[], package: "", ready: Mote::ready },
    Tracer {
        name: "lttng-ust",
        engine: Engine::Qemu,
        needs: &["lttng", "lttng-sessiond"],
        package: "lttng-tools",
        ready: lttng::ready,
    },
    Tracer {
        name: "uftrace",
        engine: Engine::Qemu,
        needs: &["uftrace"],
        package: "uftrace",
        ready: Uftrace::ready,
    },
    Tracer {
        name: "mote",
        engine: Engine::System,
        needs: &[],
        package: "",
        // The kernel of a guest does not trust the time stamp counter; on a machine it does.
        ready: |lab| guest::mote(lab.mote(), "--clock tsc"),
    },
    Tracer {
        name: "strace",
        engine: Engine::System,
        needs: &["strace"],
        package: "strace",
        ready: |_| guest::strace(),
    },
    Tracer {
        name: "perf",
        engine: Engine::System,
        needs: &["perf"],
        package: "linux-perf",
        ready: |_| guest::perf(),
    },
    Tracer {
        name: "mote-k",
        engine: Engine::System,
        needs: &[],
        package: "",
        ready: |lab| guest::mote(lab.mote(), "-k syscalls"),
    },
];

impl Tracer {
    /// Makes it ready for one run of the program.
    ///
    /// # Errors
    /// It is not installed, or does not start: in a sentence.
    pub(super) fn ready(&self, lab: &Lab) -> anyhow::Result<Box<dyn Ready>> {
        for need in self.needs {
            ensure!(
                find_program(OsStr::new(need)).is_some(),
                "there is no {need}: apt-get install {}",
                self.package
            );
        }
        (self.ready)(lab)
    }
}

/// mote's own events: the recorder runs beside the emulator, the program in it.
struct Mote(PathBuf);

impl Mote {
    fn ready(lab: &Lab) -> anyhow::Result<Box<dyn Ready>> {
        Ok(Box::new(Mote(lab.place("mote.recording"))))
    }
}

impl Ready for Mote {
    fn words(&self, lab: &Lab, name: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![lab.mote().into(), "record".into(), "-q".into(), "-o".into()];
        words.extend([self.0.clone().into(), "--".into()]);
        words.extend(lab.emulated(name, lab.command()));
        words
    }

    fn is_inside(&self) -> bool {
        false
    }

    fn recorded(&mut self, _: &Lab, _: &Ended) -> anyhow::Result<Recorded> {
        recorded::of_trace(&self.0)
    }

    /// qemu-user has no restartable sequences: the program has gone the way without them.
    fn linked(&self, lab: &Lab) -> Events {
        linked::instructions(lab.program()).unwrap_or_default()
    }
}

/// uftrace starts the program, with its library in it.
struct Uftrace(PathBuf);

impl Uftrace {
    fn ready(lab: &Lab) -> anyhow::Result<Box<dyn Ready>> {
        Ok(Box::new(Uftrace(lab.place("uftrace.data"))))
    }
}

impl Ready for Uftrace {
    fn words(&self, lab: &Lab, name: &str) -> Vec<OsString> {
        let program = find_program(OsStr::new("uftrace")).unwrap_or_default();
        let mut words: Vec<OsString> =
            vec![program.into(), "record".into(), "--no-pager".into(), "-d".into()];
        words.push(self.0.clone().into());
        words.extend_from_slice(lab.command());
        lab.emulated(name, &words)
    }

    /// The calls of all functions, as its own report has them.
    fn recorded(&mut self, _: &Lab, _: &Ended) -> anyhow::Result<Recorded> {
        let mut command = Command::new("uftrace");
        let command = command.args(["report", "--no-pager", "-f", "call", "-d"]).arg(&self.0);
        let output = command.output().context("cannot run uftrace report")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut by_name = Events::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some(Ok(calls)), Some(name)) = (words.next().map(str::parse::<u64>), words.next()) {
                *by_name.entry(name.to_owned()).or_default() += calls;
            }
        }
        Recorded::new(by_name, 0)
    }
}

/// A tracer of the caller's own: words for a shell, and a command that prints how many events there were.
pub(super) struct Own<'a> {
    pub(super) wrap: &'a str,
    pub(super) count: &'a str,
}

impl Ready for Own<'_> {
    fn words(&self, lab: &Lab, name: &str) -> Vec<OsString> {
        let script = format!("exec {} \"$@\"", self.wrap);
        let mut words: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), script.into(), "sh".into()];
        words.extend_from_slice(lab.command());
        lab.emulated(name, &words)
    }

    fn recorded(&mut self, _: &Lab, ended: &Ended) -> anyhow::Result<Recorded> {
        let mut command = Command::new("/bin/sh");
        let command = command.args(["-c", self.count]).env("MOTE_IMPACT_OUTPUT", &ended.output);
        let output = command.output().context("cannot run the command of --count")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let count: Option<u64> = text.trim().parse().ok();
        let count = count.with_context(|| format!("--count printed no number: {}", text.trim()))?;
        Recorded::new([("events".to_owned(), count)].into(), 0)
    }
}

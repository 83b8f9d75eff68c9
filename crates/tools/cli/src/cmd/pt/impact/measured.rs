//! What runs have executed, and what one of them has more than another.

use super::ready::Ready;
use super::recorded::{Events, Recorded};
use super::run::{Ended, Lab, Stopped};
use crate::cmd::pt::gather;
use crate::cmd::pt::shown::Input;
use anyhow::Context;
use mote_hardware::Process;
use mote_hardware::paths::{Functions, Impact, Side, Tree};
use std::path::Path;

/// What a program has executed in one run.
pub(super) struct Executed {
    functions: Functions,
    tree: Tree,
    pub(super) threads: Vec<Thread>,
    /// Instructions of other processes in the emulator.
    pub(super) others: u64,
    /// The exit status.
    pub(super) status: i32,
}

/// A thread of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) name: String,
    /// Instructions in the program, and in the kernel.
    pub(super) user: u64,
    pub(super) kernel: u64,
}

/// A tracer, and what has become of it.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) outcome: Outcome,
}

pub(super) enum Outcome {
    Measured(Box<Measured>),
    /// Why it was not, in a sentence.
    Absent(String),
}

/// A traced run beside a bare one.
pub(super) struct Measured {
    pub(super) recorded: Recorded,
    pub(super) impact: Impact,
    /// The same without what the kernel executes.
    pub(super) of_user: Impact,
    pub(super) traced: Executed,
    /// Instructions of its events on another way than the emulator goes, counted in the code.
    pub(super) linked: Events,
}

/// All that was found.
pub(super) struct Found {
    /// The command.
    pub(super) command: String,
    pub(super) bare: Executed,
    /// How many instructions a second bare run had.
    pub(super) again: u64,
    pub(super) rows: Vec<Row>,
    /// Paths that people are shown.
    pub(super) limit: usize,
}

impl Executed {
    /// Reads the capture of a run: of the process that became this program; or of the first one, which an emulator may
    /// have begun with, where no tracer is `inside` of it.
    fn read(capture: &Path, program: &Path, inside: bool, status: i32) -> anyhow::Result<Executed> {
        let (capture, functions, by_thread) = gather::of_process(&Input::whole(capture), |notes| {
            let became = Process::that_became(notes, |path| is_same(path, program));
            let process = became.or_else(|| Process::first(notes).filter(|_| !inside));
            process
                .context("the tracer has not started the program: it must be an ELF file, and not a script")
        })?;
        let threads = by_thread.threads().iter().filter(|(_, tree)| tree.total() > 0);
        let threads = threads.map(|(tid, tree)| {
            let of = |is_kernel: bool| {
                let nodes = tree.nodes().iter();
                let meant = nodes.filter(|node| functions.get(node.function).is_kernel == is_kernel);
                meant.map(|node| node.instructions).sum()
            };
            Thread { name: capture.thread(*tid).1, user: of(false), kernel: of(true) }
        });
        let threads = threads.collect();
        Ok(Executed { threads, tree: by_thread.all(), functions, others: by_thread.others(), status })
    }

    /// Instructions of all threads.
    pub(super) fn total(&self) -> u64 {
        self.tree.total()
    }

    /// What the kernel has executed is left out.
    fn of_user(&self) -> Tree {
        self.tree.only(&self.functions, |named| !named.is_kernel)
    }

    /// Paths, with their names.
    pub(super) fn side(&self) -> Side<'_> {
        Side { tree: &self.tree, functions: &self.functions }
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    one == other || (real(one).is_some() && real(one) == real(other))
}

/// Runs a program bare.
///
/// # Errors
/// It cannot be run, or what it has executed is not known.
pub(super) fn bare(lab: &Lab, name: &str) -> anyhow::Result<Executed> {
    let Ended { status, .. } = lab.run(name, &lab.emulated(name, lab.command()), &[])?;
    Executed::read(&lab.place(name), lab.program(), false, status)
}

/// Runs it under a tracer. What cannot be measured is a sentence.
///
/// # Errors
/// A signal asks this command to end.
pub(super) fn traced(
    lab: &Lab,
    name: &str,
    ready: anyhow::Result<Box<dyn Ready + '_>>,
    bare: &Executed,
) -> anyhow::Result<Outcome> {
    match ready.and_then(|mut ready| measure(lab, name, &mut *ready, bare)) {
        Ok(measured) => Ok(Outcome::Measured(Box::new(measured))),
        Err(why) if why.is::<Stopped>() => Err(why),
        Err(why) => Ok(Outcome::Absent(format!("{why:#}"))),
    }
}

fn measure(lab: &Lab, name: &str, ready: &mut dyn Ready, bare: &Executed) -> anyhow::Result<Measured> {
    let ended = lab.run(name, &ready.words(lab, name), &ready.environment())?;
    let recorded = ready.recorded(lab, &ended)?;
    let traced = Executed::read(&lab.place(name), lab.program(), ready.is_inside(), ended.status)?;
    let (events, least) = Impact::usual(recorded.events.values().copied());
    let impact = Impact::of([bare.side(), traced.side()], events, least);
    let [one, other] = [bare.of_user(), traced.of_user()];
    let sides = [(&one, &bare.functions), (&other, &traced.functions)];
    let of_user = Impact::of(sides.map(|(tree, functions)| Side { tree, functions }), events, least);
    let mut linked = ready.linked(lab);
    linked.retain(|name, _| recorded.events.contains_key(name));
    Ok(Measured { recorded, impact, of_user, traced, linked })
}

//! Stacks of events: read from their fields, with names put to the addresses.
//!
//! The fields have the names of LTTng's contexts, [`KERNEL`] and [`USER`]; mote has them in the payload, LTTng in a
//! context. Names come from what the recorder kept (`mote_symbol`), for each recording of the timeline its own.

use mote_ctf::Value;
use mote_symbol::{Begun, Doubt, Location, Options, Symbols};
use mote_timeline::{Origin, Record, Trace};
use mote_words::counted;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Name of the field with the kernel's stack.
pub(crate) const KERNEL: &str = "callstack_kernel";
/// Name of the field with the process's stack.
pub(crate) const USER: &str = "callstack_user";

/// A stack with names, the innermost frame first: in the kernel, then in the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Frames in the kernel, the innermost first.
    pub kernel: Vec<Arc<Location>>,
    /// Frames in the process, the innermost first.
    pub user: Vec<Arc<Location>>,
}

/// Reads the stacks of events, and names their addresses.
pub struct Stacks {
    /// Of each trace, its recording in `symbols`.
    recordings: Vec<usize>,
    symbols: Vec<Symbols>,
    /// Of each class of events: whether it has stacks at all.
    classes: Vec<Option<bool>>,
    /// Of the event that was read last.
    kernel: Vec<u64>,
    user: Vec<u64>,
}

impl Stacks {
    /// Looks up what the recordings in `dir` kept; binaries are looked for as `options` say.
    ///
    /// # Errors
    /// A file of the recording cannot be read.
    pub fn new(trace: &Trace, dir: &Path, options: &Options) -> io::Result<Stacks> {
        let mut symbols: Vec<Symbols> = Vec::new();
        let mut known: HashMap<usize, usize> = HashMap::new();
        let mut recordings = Vec::new();
        for origin in trace.origins() {
            let next = symbols.len();
            let recording = *known.entry(origin.session()).or_insert(next);
            if recording == next {
                symbols.push(Symbols::new(Options { not_after: ended(origin), ..options.clone() }));
            }
            recordings.push(recording);
            if let Some(symbols) = symbols.get_mut(recording) {
                learn(symbols, origin, dir)?;
            }
        }
        let classes = vec![None; trace.classes()];
        Ok(Stacks { recordings, symbols, classes, kernel: Vec::new(), user: Vec::new() })
    }

    /// The name of the function that an address of an event's process lies in, where a call returns to; without
    /// parameters and generic arguments.
    pub fn function_at(&mut self, record: &Record<'_>, address: u64) -> Option<String> {
        let recording = *self.recordings.get(record.origin_index())?;
        let process = record.pid().or(record.tid())?;
        let symbols = self.symbols.get_mut(recording)?;
        let location = symbols.user_address(process, record.time(), address, true);
        // Inlined functions lie in the last one.
        let function = location.functions.last()?;
        Some(mote_symbol::names::without_generics(&mote_symbol::names::bare(&function.name)))
    }

    /// The addresses of an event's stacks, in the kernel and in the process; `None` when its class has none.
    pub(crate) fn addresses(&mut self, record: &Record<'_>) -> Option<(&[u64], &[u64])> {
        let class = self.classes.get_mut(record.class().0 as usize)?;
        if *class == Some(false) {
            return None;
        }
        let event = record.event()?;
        let mut found = false;
        for (name, to) in [(KERNEL, &mut self.kernel), (USER, &mut self.user)] {
            to.clear();
            let scopes = [event.payload(), event.specific(), event.common()];
            let Some(field) = scopes.iter().find_map(|scope| scope.get(name)) else { continue };
            found = true;
            to.extend(field.children().map_while(|child| match child.value() {
                Some(Value::U64(address)) => Some(address),
                _ => None,
            }));
        }
        *class = Some(found);
        found.then_some((&self.kernel[..], &self.user[..]))
    }

    /// The stacks of an event with names; `None` when its class has none.
    pub fn of(&mut self, record: &Record<'_>) -> Option<Stack> {
        self.addresses(record)?;
        Some(self.named(record))
    }

    /// Names for the addresses that were read last, which are those of `record`.
    pub(crate) fn named(&mut self, record: &Record<'_>) -> Stack {
        let recording = self.recordings.get(record.origin_index());
        let Some(symbols) = recording.and_then(|at| self.symbols.get_mut(*at)) else {
            return Stack::default();
        };
        let kernel = symbols.kernel_stack(self.kernel.iter().copied());
        let pid = record.pid().or(record.tid()).unwrap_or(0);
        Stack { kernel, user: symbols.user_stack(pid, record.time(), self.user.iter().copied()) }
    }

    /// Why stacks are incomplete, and addresses have no names, in words, the most frequent reason first.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let all = self.symbols.iter().flat_map(Symbols::doubts);
        let text = |(doubt, count): (&Doubt, u64)| match doubt {
            doubt if doubt.is_cut() => {
                format!("{} incomplete: {doubt}", counted(count, "stack is", "stacks are"))
            }
            _ => format!("{}: {doubt}", counted(count, "address has no name", "addresses have no names")),
        };
        all.map(text).collect()
    }
}

/// When the recording that a trace belongs to was over; unknown for one that was cut short.
fn ended(origin: &Origin) -> Option<SystemTime> {
    let facts = origin.facts.as_ref()?;
    let first = facts.processes.iter().map(|process| process.at).min()?;
    let start = u64::try_from(facts.timeline()?.realtime_ns(first)).ok()?;
    let end = start.checked_add(facts.summary.as_ref()?.duration_ns)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(end))
}

/// Tells `symbols` what the journal and the kept files of a trace say.
fn learn(symbols: &mut Symbols, origin: &Origin, root: &Path) -> io::Result<()> {
    for dir in origin.dir.ancestors().take_while(|dir| dir.starts_with(root)) {
        let kept = dir.join(mote_journal::DIRECTORY);
        if kept.is_dir() {
            symbols.read_kept(&kept)?;
        }
    }
    let Some(facts) = &origin.facts else { return Ok(()) };
    let line = facts.timeline();
    for process in &facts.processes {
        let at =
            line.map_or(i64::MIN, |line| i64::try_from(line.realtime_ns(process.at)).unwrap_or(i64::MAX));
        let Ok(pid) = u32::try_from(process.pid) else { continue };
        // A library that is loaded adds to what is there.
        let begun = match process.how.as_str() {
            "start" | "exec" => Begun::Anew,
            "fork" => Begun::Fork(u32::try_from(process.parent).unwrap_or(0)),
            _ => Begun::Before,
        };
        symbols.add_process(pid, at, begun, &process.maps);
    }
    Ok(())
}

//! What a recording of mote says of itself: its journal, indexed.

use crate::problem::{Fault, Problem, Problems};
use mote_clock::{Disorder, Sample, Timeline};
use mote_journal::{ClockOffset, ClockSample, Contents, EventSource, Fact, Process, Session, Summary};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A journal, indexed for lookups by thread and time.
#[derive(Debug, Default)]
pub struct Facts {
    /// How the recording was made.
    pub session: Option<Session>,
    /// What it came to; `None`: it was cut short.
    pub summary: Option<Summary>,
    /// Processes in the order in which they joined.
    pub processes: Vec<Process>,
    /// Events and where they come from.
    pub events: Vec<EventSource>,
    /// Problems that the recorder saw, in words.
    pub problems: Vec<String>,
    /// How far the times of kernel events are from those of processes' events, as measured.
    pub offset: Option<ClockOffset>,
    /// When functions were sampled, as rules had asked for that: by the pattern of these functions.
    sampled: HashMap<String, Vec<Range<i64>>>,
    samples: Vec<Sample>,
    frequency: u64,
    threads: HashMap<u32, Vec<Named>>,
    /// Ids of threads for themselves, from some moment on (ns since 1970), where they are others than in the events.
    own_ids: HashMap<u32, Vec<(i64, u32)>>,
}

/// A thread's name from some moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// From when, in nanoseconds since 1970.
    pub from: i64,
    /// The process that the thread was in.
    pub pid: u32,
    /// The thread's name from then on.
    pub name: String,
}

impl Facts {
    /// The journal of the trace in `dir`, looked for there and in the directories above it up to the one that `root` is
    /// in.
    ///
    /// A journal that cannot be read, or belongs to another trace than `uuid`, is a problem, and not used.
    pub(crate) fn find(
        dir: &Path,
        root: &Path,
        uuid: Option<[u8; 16]>,
        problems: &mut Problems,
    ) -> Option<Facts> {
        let top = root.parent().unwrap_or(root);
        let above = dir.ancestors().take_while(|d| d.starts_with(top));
        let path = above.map(journal_in).find(|path| path.is_file())?;
        let mut note = |fault| problems.note(Problem { path: path.clone(), offset: None, fault, skipped: 0 });
        let contents = match read(&path) {
            Ok(contents) => contents,
            Err(error) => {
                note(Fault::Io(error));
                return None;
            }
        };
        if contents.skipped > 0 {
            note(Fault::Journal { lines: contents.skipped });
        }
        let (facts, disorder) = Facts::new(contents.facts);
        if !facts.is_of(uuid) {
            // A journal above several traces is of one of them: no problem for the others.
            if journal_in(dir) == path {
                note(Fault::ForeignJournal);
            }
            return None;
        }
        if let Some(disorder) = disorder {
            note(Fault::Clock(disorder));
        }
        Some(facts)
    }

    /// Indexes the facts of a journal. Of clock samples that do not fit together those up to the first that does not
    /// are kept, and it is returned what is wrong with that one.
    #[must_use]
    pub fn new(facts: impl IntoIterator<Item = Fact>) -> (Facts, Option<Disorder>) {
        let mut all = Facts::default();
        let mut named = Vec::new();
        for fact in facts {
            all.take(fact, &mut named);
        }
        let disorder = all.sort_samples().err();
        all.index(named);
        (all, disorder)
    }

    /// Why the recording is not all of what was to be recorded; `None` when it is.
    pub fn incomplete(&self) -> Option<String> {
        match &self.summary {
            None => Some("the recorder was killed, or still records".to_owned()),
            Some(summary) => summary.stopped.clone(),
        }
    }

    fn take(&mut self, fact: Fact, named: &mut Vec<(u32, u64, u32, String)>) {
        match fact {
            Fact::Session(session) => {
                self.frequency = session.frequency;
                self.session = Some(session);
            }
            Fact::Clock(ClockSample { ticks, monotonic_ns, realtime_ns, error_ns }) => {
                self.samples.push(Sample { ticks, monotonic_ns, realtime_ns, error_ns });
            }
            Fact::Process(process) => self.processes.push(process),
            Fact::Thread { tid, pid, at, name } => named.push((tid, at, pid, name)),
            // In ticks, until these are times.
            Fact::Namespace { tid, vtid, at, .. } => {
                self.own_ids.entry(tid).or_default().push((at as i64, vtid));
            }
            // In ticks, until these are times.
            Fact::Sampling { pattern, at, is_on } => {
                let times = self.sampled.entry(pattern).or_default();
                match times.last_mut().filter(|time| time.end == i64::MAX) {
                    Some(time) if !is_on => time.end = at as i64,
                    None if is_on => times.push(at as i64..i64::MAX),
                    _ => {}
                }
            }
            Fact::Event(event) => self.events.push(event),
            Fact::Problem { text, .. } => self.problems.push(text),
            Fact::Offset(offset) => self.offset = Some(offset),
            Fact::End(summary) => self.summary = Some(summary),
            _ => {}
        }
    }

    /// Whether the session's id is that of the trace; a missing one fits all.
    fn is_of(&self, uuid: Option<[u8; 16]>) -> bool {
        let (Some(uuid), Some(session)) = (uuid, &self.session) else { return true };
        let own: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        session.uuid.replace('-', "").eq_ignore_ascii_case(&own)
    }

    /// Keeps the samples up to the first that does not fit.
    fn sort_samples(&mut self) -> Result<(), Disorder> {
        let checked = match Timeline::new(&self.samples, self.frequency) {
            Ok(_) | Err(Disorder::Empty) => return Ok(()),
            Err(disorder) => disorder,
        };
        let good = match checked {
            Disorder::Ticks(at) | Disorder::Monotonic(at) => at,
            _ => 0,
        };
        self.samples.truncate(good);
        Err(checked)
    }

    fn index(&mut self, named: Vec<(u32, u64, u32, String)>) {
        let mut threads: HashMap<u32, Vec<Named>> = HashMap::new();
        let line = self.timeline();
        let ns =
            |ticks| line.map_or(i64::MIN, |line| i64::try_from(line.realtime_ns(ticks)).unwrap_or(i64::MAX));
        let mut sampled = self.sampled.clone();
        for time in sampled.values_mut().flatten() {
            time.start = ns(time.start as u64);
            time.end = if time.end == i64::MAX { i64::MAX } else { ns(time.end as u64) };
        }
        let mut own_ids = self.own_ids.clone();
        for ids in own_ids.values_mut() {
            ids.iter_mut().for_each(|(at, _)| *at = ns(*at as u64));
            ids.sort_by_key(|(at, _)| *at);
        }
        for (tid, at, pid, name) in named {
            threads.entry(tid).or_default().push(Named { from: ns(at), pid, name });
        }
        for names in threads.values_mut() {
            names.sort_by_key(|named| named.from);
        }
        self.own_ids = own_ids;
        self.threads = threads;
        self.sampled = sampled;
    }

    /// When the functions of a pattern were sampled, as rules had asked for that.
    #[must_use]
    pub fn sampled(&self, pattern: &str) -> &[Range<i64>] {
        self.sampled.get(pattern).map_or(&[], Vec::as_slice)
    }

    /// What the event with this id means, in words.
    #[must_use]
    pub fn text(&self, id: u64) -> Option<&str> {
        self.source(id).map(|event| event.text.as_str())
    }

    /// The provider of the event with this id.
    #[must_use]
    pub fn provider(&self, id: u64) -> Option<&str> {
        self.source(id).map(|event| event.provider.as_str())
    }

    fn source(&self, id: u64) -> Option<&EventSource> {
        // Noted in the order of their ids.
        let likely = usize::try_from(id).ok().and_then(|at| self.events.get(at));
        let found = likely.filter(|event| u64::from(event.id) == id);
        found.or_else(|| self.events.iter().find(|event| u64::from(event.id) == id))
    }

    /// The line from ticks to time through the clock samples; `None` without any.
    #[must_use]
    pub fn timeline(&self) -> Option<Timeline<'_>> {
        Timeline::new(&self.samples, self.frequency).ok()
    }

    /// The samples that this line goes through, and how often the clock ticks in a second beyond their ends.
    #[must_use]
    pub fn samples(&self) -> (&[Sample], u64) {
        (&self.samples, self.frequency)
    }

    /// The id that thread `tid` has for itself at `time`, if that is another one.
    #[must_use]
    pub fn own_id(&self, tid: u32, time: i64) -> Option<u32> {
        let ids = self.own_ids.get(&tid)?;
        let next = ids.partition_point(|(from, _)| *from <= time).max(1);
        ids.get(next - 1).map(|(_, own)| *own)
    }

    /// Takes the names of threads that it does not have from another trace of the same recording; none when threads
    /// have other ids in the one than in the other.
    pub(crate) fn adopt(&mut self, other: &Facts) {
        if !self.own_ids.is_empty() || !other.own_ids.is_empty() {
            return;
        }
        for (tid, names) in &other.threads {
            self.threads.entry(*tid).or_insert_with(|| names.clone());
        }
    }

    /// The name that thread `tid` has at `time`, and until when; before its first name, that.
    #[must_use]
    pub fn thread(&self, tid: u32, time: i64) -> Option<(&Named, i64)> {
        let names = self.threads.get(&tid)?;
        let next = names.partition_point(|named| named.from <= time).max(1);
        let until = names.get(next).map_or(i64::MAX, |named| named.from);
        names.get(next - 1).map(|named| (named, until))
    }
}

fn journal_in(dir: &Path) -> PathBuf {
    dir.join(mote_journal::DIRECTORY).join(mote_journal::FILE)
}

fn read(path: &Path) -> io::Result<Contents> {
    mote_journal::read(BufReader::new(File::open(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lines: &[Fact]) -> Facts {
        let (facts, disorder) = Facts::new(lines.iter().cloned());
        assert_eq!(disorder, None, "samples in order");
        facts
    }

    fn sample(ticks: u64) -> Fact {
        Fact::Clock(ClockSample { ticks, monotonic_ns: ticks, realtime_ns: ticks + 1_000_000, error_ns: 0 })
    }

    #[test]
    fn a_thread_id_that_is_used_again_has_its_name_of_the_time() {
        let name = |at, name: &str| Fact::Thread { tid: 7, pid: 1, at, name: name.to_owned() };
        let facts = facts(&[sample(0), name(500, "late"), name(100, "early"), sample(1000)]);
        let at = |ticks: i64| {
            facts.thread(7, 1_000_000 + ticks).map(|(named, until)| (named.name.as_str(), until))
        };
        assert_eq!(at(50), Some(("early", 1_000_500)));
        assert_eq!(at(499), Some(("early", 1_000_500)));
        assert_eq!(at(500), Some(("late", i64::MAX)));
        assert_eq!(facts.thread(8, 0), None);
    }

    #[test]
    fn times_of_samples_have_an_end_or_last() {
        let sampling = |pattern: &str, at, is_on| Fact::Sampling { pattern: pattern.to_owned(), at, is_on };
        let facts = facts(&[
            sample(0),
            sampling("a", 10, true),
            sampling("b", 15, true),
            sampling("a", 20, false),
            sampling("a", 30, true),
            sample(1000),
        ]);
        assert_eq!(facts.sampled("a"), [1_000_010..1_000_020, 1_000_030..i64::MAX]);
        assert!(matches!(facts.sampled("b"), [only] if *only == (1_000_015..i64::MAX)));
        assert_eq!(facts.sampled("c"), []);
    }
}

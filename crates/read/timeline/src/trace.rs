//! An opened recording: everything about it but its events.

use crate::Range;
use crate::context::Context;
use crate::discover::{self, METADATA};
use crate::facts::Facts;
use crate::loss::CounterPlaces;
use crate::merge::Events;
use crate::origin::{ClassId, ClassIds, Origin, Stream, begins_whole};
use crate::problem::{Fault, OpenError, Problem, Problems};
use crate::record::Entry;
use crate::storage::Storage;
use mote_ctf::Schema;
use mote_ctf::model::{EventClass, StreamClass};
use std::fs;
use std::path::{Path, PathBuf};

/// A recording: one or more CTF traces.
#[derive(Debug, Default)]
pub struct Trace {
    pub(crate) origins: Vec<Origin>,
    streams: Vec<Stream>,
    pub(crate) classes: Vec<ClassPlace>,
    problems: Problems,
}

/// A CTF trace that a recording is made of, see [`Trace::of`].
#[derive(Debug)]
pub struct Part {
    /// Where it would be in a file system. Parts with facts whose directories are in the same one are of one recording:
    /// a thread has the same id in all of them.
    pub dir: PathBuf,
    /// Classes, clocks and environment, as its metadata declares them.
    pub schema: Schema,
    /// Its journal, if there is one.
    pub facts: Option<Facts>,
    /// Its data streams, each with the path that messages give it.
    pub streams: Vec<(PathBuf, Box<dyn Storage>)>,
}

/// Where a class stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassPlace {
    pub(crate) origin: usize,
    pub(crate) stream: usize,
    pub(crate) event: usize,
}

impl Trace {
    /// Opens the recording in `dir`: finds its traces, reads metadata and journal.
    ///
    /// # Errors
    /// There is no trace, or none whose metadata can be understood. If some can, the others are problems.
    pub fn open(dir: &Path) -> Result<Trace, OpenError> {
        Trace::open_with(dir, None)
    }

    /// The same, with the traces in the directory `beside`, which are told in the same order of time.
    ///
    /// # Errors
    /// As [`Trace::open`]; `beside` has no trace.
    pub fn open_with(dir: &Path, beside: Option<&Path>) -> Result<Trace, OpenError> {
        let mut trace = Trace::default();
        let mut failed = None;
        for root in [dir].into_iter().chain(beside) {
            for found in discover::traces(root)? {
                match read_schema(&found.dir) {
                    Ok(schema) => {
                        trace.warn(&found.dir.join(METADATA), &schema);
                        let facts = Facts::find(&found.dir, root, schema.trace().uuid, &mut trace.problems);
                        trace
                            .add(root, Part { schema, facts, streams: files(found.streams), dir: found.dir });
                    }
                    Err(error) => {
                        trace.problems.extend(&error);
                        failed = failed.or(Some(error));
                    }
                }
            }
        }
        trace.share_names();
        match failed {
            Some(error) if trace.origins.is_empty() => Err(error),
            _ => Ok(trace),
        }
    }

    /// A recording that is made of `parts`: what has no directory, or is still being written.
    #[must_use]
    pub fn of(parts: Vec<Part>) -> Trace {
        let mut trace = Trace::default();
        parts.into_iter().for_each(|part| trace.add(Path::new(""), part));
        trace.share_names();
        trace
    }

    /// Notes what is odd about the metadata in the file `path`.
    fn warn(&mut self, path: &Path, schema: &Schema) {
        for warning in schema.warnings() {
            let fault = Fault::OddMetadata(*warning);
            self.problems.note(Problem { path: path.to_owned(), offset: None, fault, skipped: 0 });
        }
    }

    /// Traces of one recording know different threads.
    pub(crate) fn share_names(&mut self) {
        for at in 0..self.origins.len() {
            let (before, rest) = self.origins.split_at_mut(at);
            let Some((origin, behind)) = rest.split_first_mut() else { return };
            let Some(facts) = &mut origin.facts else { continue };
            let same = |other: &&Origin| other.session == origin.session;
            let others = before.iter().chain(behind.iter()).filter(same);
            others.filter_map(|other| other.facts.as_ref()).for_each(|other| facts.adopt(other));
        }
    }

    fn add(&mut self, root: &Path, part: Part) {
        let origin = self.origins.len();
        let Part { dir, schema, facts, streams } = part;
        let mut ids = Vec::new();
        for (stream, class) in schema.trace().streams.iter().enumerate() {
            ids.push(ClassIds::new(number(self.classes.len()), number(class.events.len())));
            self.classes.extend((0..class.events.len()).map(|event| ClassPlace { origin, stream, event }));
        }
        self.add_streams(root, origin, streams);
        let contexts = schema.trace().streams.iter().map(Context::new).collect();
        let whole_begins = schema.trace().streams.iter().map(begins_whole).collect();
        let same =
            |other: &Origin| facts.is_some() && other.facts.is_some() && dir.parent() == other.dir.parent();
        let session = self.origins.iter().position(same).unwrap_or(origin);
        let counters = CounterPlaces::of(schema.trace());
        self.origins.push(Origin {
            dir,
            schema,
            facts,
            session,
            contexts,
            counters,
            ids,
            renewals: 0,
            whole_begins,
        });
    }

    pub(crate) fn add_streams(
        &mut self,
        root: &Path,
        origin: usize,
        streams: Vec<(PathBuf, Box<dyn Storage>)>,
    ) {
        for (path, storage) in streams {
            let label = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            self.streams.push(Stream { path, label, origin, storage });
        }
    }

    /// Its CTF traces, by path.
    #[must_use]
    pub fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// Its data stream files, by trace and path.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Number of event classes; their ids are below it.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// The event class `id` with its stream class; `None` if it is of another recording.
    #[must_use]
    pub fn class(&self, id: ClassId) -> Option<(&StreamClass, &EventClass)> {
        let place = self.classes.get(id.0 as usize)?;
        let stream = self.origins.get(place.origin)?.schema.trace().streams.get(place.stream)?;
        Some((stream, stream.events.get(place.event)?))
    }

    /// The provider of events of a class: what stands before the colon in its name, or for kernel events, which have
    /// none there, their family as the journal says.
    #[must_use]
    pub fn provider(&self, id: ClassId) -> &str {
        let Some((_, class)) = self.class(id) else { return "" };
        let provider = class.provider();
        let facts = self.classes.get(id.0 as usize).and_then(|place| self.origins.get(place.origin));
        match facts.and_then(|origin| origin.facts.as_ref()) {
            Some(facts) if provider.is_empty() => facts.provider(class.id).unwrap_or(provider),
            _ => provider,
        }
    }

    /// When calls of a function were sampled, as rules had asked for that, in order; `None` of events that do not wait
    /// for rules.
    #[must_use]
    pub fn sampled(&self, id: ClassId) -> Option<Vec<std::ops::Range<i64>>> {
        let (_, class) = self.class(id)?;
        let origin = self.classes.get(id.0 as usize).and_then(|place| self.origins.get(place.origin))?;
        let facts = origin.facts.as_ref()?;
        let patterns = mote_layout::functions::asked_for(facts.text(class.id)?)?;
        let mut times: Vec<_> = patterns.flat_map(|pattern| facts.sampled(pattern)).cloned().collect();
        mote_journal::merge_times(&mut times);
        Some(times)
    }

    /// What was wrong when it was opened.
    #[must_use]
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Goes through the events with times in `range`.
    ///
    /// # Cost
    /// Opens all stream files and reads the first packet in the range of each.
    #[must_use]
    pub fn events(&self, range: Range) -> Events<'_> {
        Events::new(self, range)
    }

    /// Events lost in the whole recording, as its journal sums them up at its end; 0 if there is none.
    ///
    /// Packets tell of most of them ([`crate::Loss`]), but not of those lost behind the last packet.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let summaries = self.origins.iter().filter_map(|origin| origin.facts.as_ref()?.summary.as_ref());
        summaries.map(mote_journal::Summary::total_lost).sum()
    }

    /// Whether it is not known how many events were lost, as the journal says at its end.
    #[must_use]
    pub fn lost_unknown(&self) -> bool {
        let mut summaries = self.origins.iter().filter_map(|origin| origin.facts.as_ref()?.summary.as_ref());
        summaries.any(|summary| summary.lost_unknown > 0)
    }

    /// Whether a flight recorder of mote made it, as its journal says: then packets are missing as intended.
    #[must_use]
    pub fn is_of_flight_recorder(&self) -> bool {
        let mut sessions = self.origins.iter().filter_map(|origin| origin.facts.as_ref()?.session.as_ref());
        sessions.any(|session| session.mode == "overwrite")
    }

    /// Time of the first event, in nanoseconds since 1970; `None` if there is none.
    ///
    /// # Cost
    /// As [`Trace::events`].
    #[must_use]
    pub fn start(&self) -> Option<i64> {
        let mut events = self.events(Range::ALL);
        loop {
            if let Entry::Event(record) = events.next()? {
                return Some(record.time());
            }
        }
    }
}

impl Problems {
    /// Notes the metadata of one of several traces.
    fn extend(&mut self, error: &OpenError) {
        let (path, fault) = match error {
            OpenError::Metadata { path, error } => (path, Fault::Metadata(*error)),
            OpenError::Unreadable { path, error } => (path, Fault::Io(error.kind().into())),
            _ => return,
        };
        self.note(Problem { path: path.clone(), offset: None, fault, skipped: 0 });
    }
}

pub(crate) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Files as storage, each under its own path.
fn files(paths: Vec<PathBuf>) -> Vec<(PathBuf, Box<dyn Storage>)> {
    paths.into_iter().map(|path| (path.clone(), Box::new(path) as Box<dyn Storage>)).collect()
}

fn read_schema(dir: &Path) -> Result<Schema, OpenError> {
    let path = dir.join(METADATA);
    let bytes = fs::read(&path).map_err(|error| OpenError::Unreadable { path: path.clone(), error })?;
    Schema::parse(&bytes).map_err(|error| OpenError::Metadata { path, error })
}

//! One recording, from start to end.

use crate::area::Area;
use crate::command::Signals;
use crate::consumer::{self, Shared};
use crate::directory::Directory;
use crate::error::Error;
use crate::filters::Filters;
use crate::options::{Mode, Options};
use crate::recorder::{Recorder, Session};
use crate::rules::NO_SNAPSHOTS;
use crate::samples::Samples;
use crate::setup;
use mote_clock::Source;
use mote_journal::{Fact, Summary};
use std::path::PathBuf;
use std::sync::mpsc::channel;

/// What a recording tells while it runs.
pub trait Watch {
    /// How far it is; called about ten times a second.
    fn progress(&mut self, progress: &Progress);
    /// Counts and histograms so far, as text; called as often as was asked for.
    fn aggregates(&mut self, text: &str);
    /// Something that was asked for is not done.
    fn problem(&mut self, text: &str) {
        self.say(text);
    }
    /// Something that a person should know now.
    fn say(&mut self, text: &str);
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events in the trace so far; packets written in a hurry are counted a little later.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Lost events.
    pub lost: u64,
    /// Processes in the session now.
    pub processes: usize,
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Where it is.
    pub directory: PathBuf,
    /// What it came to.
    pub summary: Summary,
    /// What went wrong, in words.
    pub problems: Vec<String>,
    /// Counts and histograms, as text; empty when no rule asked for any.
    pub aggregates: String,
}

/// Records a command until it and all its children have ended, the duration is over, or a signal asks to stop.
///
/// # Errors
/// [`Error`] when nothing could be recorded. What goes wrong later is in [`Recorded::problems`], and the trace is
/// whole up to there.
pub fn record(options: &Options, watch: &mut dyn Watch) -> Result<Recorded, Error> {
    let signals = Signals::catch()?;
    let mut directory = Directory::make(&options.output)?;
    let source = Source::choose(options.clock).source;
    let memory = setup::channel(options, source)?;
    let samples = Samples::begin(source);
    let frame = setup::frame(options, source, &samples.first());
    let shared = Shared::default();
    let (area, used) = Area::make()?;
    let filters = Filters::new(options, used)?;
    if filters.snapshots() && options.mode != Mode::Overwrite {
        return Err(Error::Rule(NO_SNAPSHOTS));
    }
    let (tell, hear) = channel();
    let path = directory.path().to_owned();
    directory.note(&Fact::Session(setup::session(options, &frame, memory.geometry(), samples.frequency())));
    std::thread::scope(|scope| {
        let consumer =
            std::thread::Builder::new().name("mote-consumer".to_owned()).spawn_scoped(scope, || {
                let tell = |notice| drop(tell.send(notice));
                consumer::consume(&memory, &shared, &path, frame.uuid, source, &area, &tell)
            });
        let consumer = consumer.map_err(|why| Error::Loop { what: "start the consumer", why })?;
        let session = Session {
            directory: &mut directory,
            memory: &memory,
            shared: &shared,
            area: &area,
            source,
            frame: &frame,
        };
        let mut recorder = Recorder::new(options, session, samples, watch, hear, filters);
        let served = recorder.serve(&signals);
        shared.stop();
        let consumed = consumer.join().map_err(|_| Error::Loop {
            what: "empty the rings",
            why: std::io::Error::other("the consumer has failed"),
        })?;
        Ok(recorder.finish(served?, &consumed, &signals))
    })
}

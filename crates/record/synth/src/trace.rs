//! A trace of what an engine reports: each thread's packets, the truth, and the sideband, as files of one directory.
//!
//! | file | |
//! |---|---|
//! | what [`Streams`] make, for instance `TID.pt` | the packets of a thread, or of a processor |
//! | `truth.jsonl`, `TID.runs` | [`crate::truth`] |
//! | `sideband.jsonl` | [`crate::sideband`] |
//!
//! Each thread has a stream and clocks of its own, as if it alone ran on a processor that traces it. Where the kernel
//! is traced ([`Options::kernel`]), each processor has: what is said of threads here is true of processors then.

use crate::error::{Error, cannot};
use crate::fact::{Exit, Fact};
use crate::logic::Generator;
use crate::observer::{Note, Observer};
use crate::options::Options;
use crate::ranges::{Filter, Ranges};
use crate::sideband::{self, BuildIds, Moment};
use crate::sink::Sink;
use crate::truth::{Runs, Truth};
use mote_capture::{KERNEL, Of, SIDEBAND, TRUTH, name_of};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A thread's process, before it is known.
const NO_PROCESS: i32 = -2;

/// What is executed between two checkpoints of the truth.
const CHECKPOINT_EVERY: u64 = 1 << 20;

/// Where packets go: an encoder and a file for each stream, for instance.
pub trait Streams {
    /// Takes the packets of one stream.
    type Sink: Sink;

    /// A stream begins.
    ///
    /// # Errors
    /// There is no place for its packets.
    fn open(&mut self, of: Of) -> Result<Self::Sink, Error>;

    /// A stream has ended.
    ///
    /// # Errors
    /// Its packets could not be written.
    fn close(&mut self, of: Of, sink: Self::Sink) -> Result<(), Error>;
}

/// How much of the truth is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Digests: some bytes for a million instructions.
    Digest,
    /// Each run of instructions, too: 12 bytes for each.
    Runs,
}

/// Makes a trace.
pub struct Trace<S: Streams> {
    options: Options,
    streams: S,
    folder: PathBuf,
    detail: Detail,
    truth: BufWriter<File>,
    sideband: BufWriter<File>,
    build_ids: BuildIds,
    filter: Filter,
    /// What is traced of each process, and of the kernel.
    ranges: HashMap<i32, Ranges>,
    /// The thread of the last fact, and the others that have not ended. In boxes, because they change places.
    current: Option<(i32, Box<Thread<S::Sink>>)>,
    others: HashMap<i32, Box<Thread<S::Sink>>>,
    /// Where threads have ended.
    ends: HashMap<i32, Moment>,
    written: Written,
}

/// What a trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Threads that have ended.
    pub threads: u64,
    /// Instructions that they have executed, of those that are traced.
    pub instructions: u64,
    /// Bytes of their packets.
    pub bytes: u64,
}

struct Thread<S> {
    generator: Generator<S>,
    truth: Truth,
    of: Of,
    /// Its number; of a processor the thread that it runs.
    tid: i32,
    /// Its process.
    pid: i32,
    /// Instructions before the last place to which something has led that is not the next instruction's.
    straight_from: u64,
}

impl<S: Sink> Thread<S> {
    fn moment(&self) -> Moment {
        let cpu = match self.of {
            Of::Thread(_) => None,
            Of::Cpu(cpu) => Some(cpu),
        };
        Moment { tid: self.tid, cpu, instructions: self.truth.instructions(), tsc: self.generator.tsc() }
    }

    /// When something counts that is to be known of code: it is decoded from where a branch has led to, up to the next
    /// one, and what changes in between is known from there on.
    fn moment_of_code(&self) -> Moment {
        Moment { instructions: self.straight_from, ..self.moment() }
    }

    fn fact(&mut self, fact: &Fact<'_>) -> Result<(), Error> {
        let is_traced = self.generator.is_tracing();
        self.generator.fact(fact);
        let is_lost = self.generator.is_losing();
        if is_lost {
            self.truth.rewind();
        }
        let Fact::Run(run) = fact else {
            self.straight_from = self.truth.instructions();
            return self.mark();
        };
        if is_traced && !is_lost {
            self.truth.run(run);
        }
        if run.exit != Exit::Plain || run.to != run.end() {
            self.straight_from = self.truth.instructions();
        }
        self.mark()
    }

    fn mark(&mut self) -> Result<(), Error> {
        if self.generator.reported() < self.truth.instructions() {
            return Ok(());
        }
        self.truth.mark().map_err(cannot("write the truth"))
    }
}

impl<S: Streams> Trace<S> {
    /// Makes files in a directory, which must be there and have none of these names.
    ///
    /// # Errors
    /// The options are of no processor; a file cannot be made.
    pub fn new(options: Options, folder: &Path, detail: Detail, streams: S) -> Result<Trace<S>, Error> {
        options.check().map_err(Error::Options)?;
        let mut sideband = create(folder, SIDEBAND)?;
        writeln!(sideband, "{}", sideband::processor(&options)?).map_err(cannot("write the sideband"))?;
        Ok(Trace {
            options,
            streams,
            folder: folder.to_owned(),
            detail,
            truth: create(folder, TRUTH)?,
            sideband,
            build_ids: BuildIds::default(),
            filter: Filter::default(),
            ranges: HashMap::new(),
            current: None,
            others: HashMap::new(),
            ends: HashMap::new(),
            written: Written::default(),
        })
    }

    /// Only what the filter lets pass is traced, and part of the truth.
    pub fn with_filter(self, filter: Filter) -> Trace<S> {
        Trace { filter, ..self }
    }

    /// Ends it: what is left is written. Returns what it has, and where the packets went.
    ///
    /// # Errors
    /// It is not.
    pub fn finish(mut self) -> Result<(Written, S), Error> {
        let left = std::mem::take(&mut self.others).into_iter().chain(self.current.take());
        left.into_iter().try_for_each(|(tid, thread)| self.end(tid, *thread))?;
        self.truth.flush().map_err(cannot("write the truth"))?;
        self.sideband.flush().map_err(cannot("write the sideband"))?;
        Ok((self.written, self.streams))
    }

    /// The thread of this number, which may begin.
    fn thread(&mut self, tid: i32) -> Result<&mut Thread<S::Sink>, Error> {
        let thread = match self.current.take() {
            Some((current, thread)) if current == tid => thread,
            other => {
                // Threads run on their own; processors take turns.
                let now = other.as_ref().map(|(_, thread)| thread.generator.now());
                let now = now.filter(|_| self.options.kernel);
                self.others.extend(other);
                let mut thread = match self.others.remove(&tid) {
                    Some(thread) => thread,
                    None => self.begin(tid)?,
                };
                thread.generator.wait_until(now.unwrap_or(0));
                thread
            }
        };
        Ok(&mut self.current.insert((tid, thread)).1)
    }

    fn begin(&mut self, tid: i32) -> Result<Box<Thread<S::Sink>>, Error> {
        let of = if self.options.kernel { Of::Cpu(tid.unsigned_abs()) } else { Of::Thread(tid) };
        let name = Path::new(&name_of(of)).with_extension("runs");
        let runs: Option<Box<dyn Runs>> = match self.detail {
            Detail::Digest => None,
            Detail::Runs => Some(Box::new(create(&self.folder, &name)?)),
        };
        let sink = self.streams.open(of)?;
        let mut generator = Generator::new(self.options.clone(), sink).map_err(Error::Options)?;
        generator.set_ranges(self.ranges_of(NO_PROCESS));
        Ok(Box::new(Thread {
            generator,
            truth: Truth::new(CHECKPOINT_EVERY, runs),
            of,
            tid,
            pid: NO_PROCESS,
            straight_from: 0,
        }))
    }

    /// What is traced while a process runs.
    fn ranges_of(&self, pid: i32) -> Ranges {
        let known = self.ranges.get(&pid).or_else(|| self.ranges.get(&KERNEL));
        known.cloned().unwrap_or_else(|| self.filter.begin())
    }

    /// What a note says of processes and their code decides where filters of files are.
    fn set_ranges(&mut self, tid: i32, note: &Note) -> Result<(), Error> {
        if self.filter.is_all() {
            return Ok(());
        }
        let changed = match note {
            Note::Thread { pid, .. } | Note::Switch { pid, .. } => {
                self.thread(tid)?.pid = *pid;
                *pid
            }
            // The kernel's code is mapped before anything else.
            Note::Exec { pid, .. } => {
                self.ranges.insert(*pid, self.ranges_of(KERNEL));
                *pid
            }
            Note::Image(image) => {
                let mut ranges = self.ranges_of(image.pid);
                self.filter.map(image, &mut ranges);
                self.ranges.insert(image.pid, ranges);
                image.pid
            }
            Note::Code { .. } | Note::AddressSpace { .. } | Note::Exit { .. } => return Ok(()),
        };
        let ranges = self.ranges_of(changed);
        let all = self.others.values_mut().chain(self.current.as_mut().map(|(_, thread)| thread));
        all.filter(|thread| thread.pid == changed || changed == KERNEL)
            .for_each(|thread| thread.generator.set_ranges(ranges.clone()));
        Ok(())
    }

    fn end(&mut self, tid: i32, thread: Thread<S::Sink>) -> Result<(), Error> {
        self.ends.insert(tid, thread.moment());
        let Thread { mut truth, generator, of, .. } = thread;
        let line = truth.line(of, generator.losses()).map_err(cannot("write the truth"))?;
        writeln!(self.truth, "{line}").map_err(cannot("write the truth"))?;
        self.written.threads += 1;
        self.written.instructions += truth.instructions();
        self.written.bytes += generator.bytes();
        self.streams.close(of, generator.into_sink())
    }
}

impl<S: Streams> Observer for Trace<S> {
    fn fact(&mut self, tid: i32, fact: &Fact<'_>) -> Result<(), Error> {
        self.thread(tid)?.fact(fact)?;
        match fact {
            Fact::End => match self.current.take() {
                Some((tid, thread)) => self.end(tid, *thread),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn note(&mut self, tid: i32, note: &Note) -> Result<(), Error> {
        self.set_ranges(tid, note)?;
        // A process's end comes behind that of its last thread.
        let ended = self.ends.get(&tid).filter(|_| matches!(note, Note::Exit { .. }));
        let moment = match ended {
            Some(moment) => *moment,
            None => {
                let thread = self.thread(tid)?;
                if let Note::Switch { tid, .. } = note {
                    thread.tid = *tid;
                }
                let is_code = matches!(note, Note::Code { .. } | Note::Image(_));
                if is_code { thread.moment_of_code() } else { thread.moment() }
            }
        };
        let line = sideband::line(moment, note, &mut self.build_ids)?;
        writeln!(self.sideband, "{line}").map_err(cannot("write the sideband"))
    }
}

fn create(folder: &Path, name: impl AsRef<Path>) -> Result<BufWriter<File>, Error> {
    let path = folder.join(name);
    File::create_new(&path).map(BufWriter::new).map_err(cannot(format!("make {}", path.display())))
}

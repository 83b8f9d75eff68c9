//! A capture: its streams, and what is known of them.

use crate::code::{Code, Tracing};
use crate::compiled;
use crate::error::Error;
use crate::files::Files;
use crate::filter;
use crate::guests::Guests;
use crate::moment::Moment;
use crate::note::{Head, KERNEL, Note, Processor, What};
use crate::processor::threads_of;
use crate::stream::{Bytes, Of};
use crate::truth::{self, Truth};
use mote_pt::errata::Cpu;
use mote_pt::time::Clocks;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a capture has beside packets.
pub const SIDEBAND: &str = "sideband.jsonl";
/// Where a recording with events has its capture.
pub const IN_RECORDING: &str = "pt";
/// How the names of files with packets end, behind the thread's number or `cpu` and the processor's.
const PACKETS: &str = ".pt";

/// A capture.
#[derive(Debug)]
pub struct Capture {
    /// Where it is, if that is a directory.
    folder: Option<PathBuf>,
    processor: Processor,
    streams: BTreeMap<Of, Stream>,
    notes: Vec<Note>,
    threads: Threads,
    guests: Guests,
    problems: Vec<String>,
    files: Files,
}

/// The process of each thread, and the thread's name; as notes say it last.
type Threads = BTreeMap<i32, (i32, String)>;

/// Packets, and whose they are.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The thread or processor whose packets these are.
    pub of: Of,
    /// The thread's process; of a processor's packets, -1.
    pub pid: i32,
    /// The thread's name, as it began; or that of the program that its process has become last.
    pub name: String,
    /// The packets.
    pub bytes: Bytes,
}

impl Stream {
    /// The thread's number; of a processor's packets, -1.
    #[must_use]
    pub fn tid(&self) -> i32 {
        match self.of {
            Of::Thread(tid) => tid,
            Of::Cpu(_) => -1,
        }
    }

    /// The processor's number, where the packets are one's.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        match self.of {
            Of::Thread(_) => None,
            Of::Cpu(cpu) => Some(cpu),
        }
    }
}

impl Capture {
    /// Reads what is known beside the packets: of a directory, of a recording that has a capture in it, or of a file or
    /// a directory of perf. What was cut in the middle of a line has a problem, and no less than what is before.
    ///
    /// # Errors
    /// It is no capture, or is damaged.
    pub fn open(path: &Path) -> Result<Capture, Error> {
        let is_perf = path.is_file() || crate::perf::is_one(path);
        if is_perf { crate::perf::open(path) } else { Capture::of_folder(path) }
    }

    fn of_folder(path: &Path) -> Result<Capture, Error> {
        let inside = path.join(IN_RECORDING);
        let mut folders = [path, inside.as_path()].into_iter();
        let folder = folders.find(|folder| folder.join(SIDEBAND).exists());
        let folder = folder.ok_or_else(|| Error::NoCapture { path: path.to_owned() })?;
        let path = folder.join(SIDEBAND);
        // Not as text: what is cut may be cut inside a character.
        let bytes = fs::read(&path).map_err(|why| Error::Read { path: path.clone(), why })?;
        let wrong =
            |line, why: serde_json::Error| Error::Line { path: path.clone(), line, why: why.to_string() };
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let mut lines = lines.collect::<Vec<_>>().into_iter().enumerate();
        let processor = match lines.next() {
            Some((_, line)) => {
                let Head::Processor(processor) = serde_json::from_slice(line).map_err(|why| wrong(1, why))?;
                processor
            }
            None => Processor::default(),
        };
        let (mut notes, mut problems) = (Vec::new(), Vec::new());
        while let Some((number, line)) = lines.next() {
            match serde_json::from_slice(line) {
                Ok(note) => notes.push(note),
                Err(_) if !bytes.ends_with(b"\n") && lines.len() == 0 => {
                    problems.push(format!("{} is cut: what was noted behind is not known", path.display()));
                }
                Err(why) => return Err(wrong(number + 1, why)),
            }
        }
        Ok(Capture::new(Some(folder.to_owned()), processor, streams(folder)?, notes, problems))
    }

    /// Puts a capture together: what the packets of each stream are, the notes in their order, and what is wrong with
    /// it.
    pub(crate) fn new(
        folder: Option<PathBuf>,
        processor: Processor,
        streams: BTreeMap<Of, Bytes>,
        notes: Vec<Note>,
        problems: Vec<String>,
    ) -> Capture {
        let threads = threads(&notes);
        let stream = |(of, bytes)| (of, named(of, bytes, &threads));
        let streams = streams.into_iter().map(stream).collect();
        let processor = processor.by_clocks(&notes);
        let clocks = compiled::Clocks::of(&notes);
        let dumped = |pid: i32| compiled::code_of(folder.as_deref()?, pid, &clocks);
        let notes = compiled::with_code(notes, dumped);
        let files = Files::of(folder.clone().unwrap_or_default()).with_clocks(clocks);
        let guests = Guests::default();
        let mut capture = Capture { folder, processor, streams, notes, threads, guests, problems, files };
        if let Err(why) = filter::addresses(&capture.processor.filter, capture.notes.iter()) {
            capture
                .problems
                .push(format!("its filter `{}` is not understood: {why}", capture.processor.filter));
        }
        if capture.processor.no_branches {
            let why = "no code can be followed: it was recorded without packets of branches (branch=0)";
            capture.problems.push(why.to_owned());
        }
        capture.with_errata()
    }

    /// With code of virtual machines, and files that are not on the disk.
    pub(crate) fn with_guests(self, guests: Guests, files: Vec<(PathBuf, Vec<u8>)>) -> Capture {
        files.into_iter().for_each(|(path, bytes)| self.files.add(&path, bytes));
        Capture { guests, ..self }
    }

    /// Says which processor it was, where the capture does not, or not rightly.
    #[must_use]
    pub fn with_cpu(mut self, cpu: Cpu) -> Capture {
        self.processor.model = Some([cpu.family, cpu.model, cpu.stepping]);
        self.with_errata()
    }

    /// Streams are read as this processor has written them, and as they were recorded.
    fn with_errata(mut self) -> Capture {
        let (errata, may_be_cut) = (self.processor.errata(), self.processor.last_packets);
        for stream in self.streams.values_mut() {
            let bytes = std::mem::take(&mut stream.bytes).with_errata(errata);
            stream.bytes = if may_be_cut { bytes.that_may_be_cut() } else { bytes };
        }
        self
    }

    /// What is wrong with it, as sentences.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// What the capture says of the processor: its model, its clocks, its settings.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Its streams, in the order of their threads and processors.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.values()
    }

    /// The streams of these threads and processors; all where there are none.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn chosen(&self, tids: &[i32], cpus: &[u32]) -> Result<Vec<&Stream>, Error> {
        if tids.is_empty() && cpus.is_empty() {
            return Ok(self.streams.values().collect());
        }
        let known = || self.streams.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let wanted = tids.iter().copied().map(Of::Thread).chain(cpus.iter().copied().map(Of::Cpu));
        let find = |of: Of| {
            let wanted = of.to_string();
            self.streams.get(&of).ok_or_else(|| Error::NoStream { wanted, known: known() })
        };
        wanted.map(find).collect()
    }

    /// The process of a thread, and its name; as it is said last.
    #[must_use]
    pub fn thread(&self, tid: i32) -> (i32, String) {
        thread(tid, &self.threads)
    }

    /// All notes, in their order.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// What was really executed, where that is known.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn truth(&self) -> Result<BTreeMap<Of, Truth>, Error> {
        self.folder.as_deref().map_or(Ok(BTreeMap::new()), truth::read)
    }

    /// The code that a stream may lead through.
    #[must_use]
    pub fn code(&self, stream: &Stream) -> Code {
        let is_its_own = |note: &&Note| match stream.of {
            Of::Cpu(_) => true,
            Of::Thread(_) => [stream.pid, KERNEL].contains(&note.pid),
        };
        let notes = self.notes.iter().filter(is_its_own);
        let (code, runs) = match stream.of {
            Of::Cpu(cpu) => (Code::of_cpu(&self.notes, cpu, &self.files), threads_of(&self.notes, cpu)),
            Of::Thread(tid) => {
                (Code::of(notes.clone(), tid, &self.files), vec![(Moment::BEGIN, (stream.pid, tid))])
            }
        };
        let tracing = Tracing {
            filter: filter::addresses(&self.processor.filter, notes).unwrap_or_default(),
            is_without_branches: self.processor.no_branches,
        };
        let (mtc, tsc_per_art) = (self.processor.mtc, Some(self.processor.tsc_per_art));
        let clocks = Clocks { mtc, tsc_per_art, ..Clocks::default() };
        self.guests.add_to(code, &runs, &self.files).with_clocks(clocks).with_tracing(tracing)
    }
}

/// The files with packets.
fn streams(folder: &Path) -> Result<BTreeMap<Of, Bytes>, Error> {
    let unreadable = |why| Error::Read { path: folder.to_owned(), why };
    let mut streams = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if let Some(of) = entry.file_name().to_str().and_then(of_name) {
            streams.insert(of, Bytes::of_file(&entry.path())?);
        }
    }
    Ok(streams)
}

/// Whose packets a file of this name has.
#[must_use]
pub fn of_name(name: &str) -> Option<Of> {
    let of = name.strip_suffix(PACKETS)?;
    match of.strip_prefix("cpu") {
        Some(cpu) => cpu.parse().ok().map(Of::Cpu),
        None => of.parse().ok().map(Of::Thread),
    }
}

/// The name of the file with a stream's packets.
#[must_use]
pub fn name_of(of: Of) -> String {
    match of {
        Of::Thread(tid) => format!("{tid}{PACKETS}"),
        Of::Cpu(cpu) => format!("cpu{cpu}{PACKETS}"),
    }
}

/// A stream, with what notes say of it.
fn named(of: Of, bytes: Bytes, threads: &Threads) -> Stream {
    let (pid, name) = match of {
        Of::Thread(tid) => thread(tid, threads),
        Of::Cpu(_) => (-1, String::new()),
    };
    Stream { of, pid, name, bytes }
}

/// The process of a thread, and its name; of one that no note is of, its own number, and no name.
fn thread(tid: i32, threads: &Threads) -> (i32, String) {
    threads.get(&tid).cloned().unwrap_or_else(|| (tid, String::new()))
}

fn threads(notes: &[Note]) -> Threads {
    let mut threads = Threads::new();
    for note in notes {
        let (pid, name) = threads.entry(note.tid).or_insert_with(|| (note.tid, String::new()));
        match &note.what {
            What::Thread { name: own } => (*pid, *name) = (note.pid, own.clone()),
            What::Exec { path } => {
                *name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            }
            What::Switch => *pid = note.pid,
            _ => {}
        }
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_whose_packets_they_have() {
        for of in [Of::Thread(7), Of::Cpu(0), Of::Cpu(130)] {
            assert_eq!(of_name(&name_of(of)), Some(of));
        }
        for name in ["truth.jsonl", "x.pt", "cpu.pt", "cpux.pt", "7.runs"] {
            assert_eq!(of_name(name), None, "{name}");
        }
    }

    #[test]
    fn threads_are_as_notes_say_last() {
        let note = |pid, tid, what| Note { pid, tid, cpu: None, instructions: None, time: None, what };
        let threads = threads(&[
            note(7, 8, What::Thread { name: "first".to_owned() }),
            note(7, 7, What::Exit { status: None }),
            note(7, 8, What::Exec { path: "/bin/other".into() }),
            note(9, 8, What::Switch),
        ]);
        let found = [7, 8, 9].map(|tid| thread(tid, &threads));
        assert_eq!(found, [(7, ""), (9, "other"), (9, "")].map(|(pid, name)| (pid, name.to_owned())));
    }

    #[test]
    fn what_is_cut_inside_a_character_is_read_up_to_its_line() {
        let folder = tempfile::tempdir().expect("a directory");
        let note = |name: &str| format!(r#"{{"pid":7,"tid":8,"kind":"thread","name":"{name}"}}"#);
        let all = ["{\"kind\":\"processor\"}".to_owned(), note("first"), note("\u{e9}")].join("\n");
        let at = all.find('\u{e9}').expect("it is there") + 1;
        let cut = all.as_bytes().get(..at).expect("it has two bytes");
        let open = |bytes: &[u8]| {
            fs::write(folder.path().join(SIDEBAND), bytes).expect("a file");
            Capture::open(folder.path())
        };
        let capture = open(cut).expect("a capture");
        assert!(matches!(capture.problems(), [why] if why.contains("is cut")), "{:?}", capture.problems());
        assert_eq!((capture.notes().len(), capture.thread(8)), (1, (7, "first".to_owned())));
        // It is damaged, where the line has an end.
        assert!(matches!(open(&[cut, b"\n"].concat()), Err(Error::Line { line: 3, .. })));
    }
}

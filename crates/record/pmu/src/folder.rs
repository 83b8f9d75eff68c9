//! A recording as a capture: `cpuN.pt` or `TID.pt`, and `sideband.jsonl` (`mote_capture`).

use crate::elsewhere::{Changed, Elsewhere};
use crate::generated::{Copied, Generated, How};
use crate::recorder::Output;
use crate::sideband::{self, Sideband};
use crate::tracked::Tracked;
use mote_capture::kernel::{Code, KCORE, Kcore};
use mote_capture::perf::Notes;
use mote_capture::{KERNEL, Note, Of, Processor, SIDEBAND, What, hex, name_of};
use mote_clock::Sample;
use mote_perfdata::intel_pt::Clock;
use mote_perfdata::record::{EXECUTABLE, File as Which, Mmap, Mode, Task, is_anonymous};
use mote_perfdata::{Record, SampleId};
use mote_symbol::collect::{self, BuildIds};
use mote_symbol::mapped;
use mote_words::counted_grouped;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where the files of a capture are made.
pub trait Files: Debug + Send {
    /// Makes one, which must not be there yet, to be written and read.
    ///
    /// # Errors
    /// As open(2).
    fn create(&self, name: &str) -> io::Result<File>;
}

/// A directory by its path, which nobody else changes.
impl Files for PathBuf {
    fn create(&self, name: &str) -> io::Result<File> {
        File::options().read(true).write(true).create_new(true).open(self.join(name))
    }
}

/// The files with packets.
#[derive(Debug)]
pub(crate) struct Packets {
    files: Box<dyn Files>,
    streams: BTreeMap<Of, File>,
}

/// Packets without records.
impl Output for Packets {
    fn packets(&mut self, of: Of, bytes: &[u8]) -> io::Result<()> {
        let file = match self.streams.get_mut(&of) {
            Some(file) => file,
            None => {
                let file = self.files.create(&name_of(of))?;
                self.streams.entry(of).or_insert(file)
            }
        };
        file.write_all(bytes)
    }

    fn record(&mut self, _: &Record, _: &SampleId) -> io::Result<()> {
        Ok(())
    }
}

/// A capture that is being written.
#[derive(Debug)]
pub struct Folder {
    packets: Packets,
    notes: Notes,
    sideband: Sideband,
    /// The kernel's code.
    kernel_file: Option<File>,
    build_ids: BuildIds,
    /// Processes that were seen.
    seen: BTreeSet<i32>,
    clock: Option<Clock>,
    /// Code of processes that is of no file.
    elsewhere: Elsewhere,
    /// The same, as it was when it became executable, where that is copied.
    generated: Option<Generated>,
    /// Which of it is written to while it may be executed: where it is copied when it becomes executable, too.
    tracked: Tracked,
    /// The kernel's memory, where its code is recorded.
    kcore: Option<Kcore>,
    /// What is not in the capture, and why.
    problems: Vec<String>,
    /// When it began.
    began: SystemTime,
    /// Processes whose compilers' tables were copied.
    named: BTreeSet<i32>,
    /// The files to which compilers write their functions with times, by process.
    dumps: BTreeMap<i32, File>,
}

/// Files with functions and times that are kept open, and bytes that are copied of one.
const DUMPS_MAX: usize = 64;
const DUMP_MAX: u64 = 64 << 20;
/// Bytes of all tables of a snapshot.
const TABLES_MAX: u64 = 16 << 20;
/// Bytes that are copied of a program of eBPF.
const PROGRAM_MAX: u64 = 1 << 20;
/// The file with the kernel's code.
const KERNEL_FILE: &str = "kernel";

impl Folder {
    /// In a directory that has no capture yet.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(files: Box<dyn Files>, processor: &Processor, clock: Option<Clock>) -> io::Result<Folder> {
        let sideband = Sideband::begin(files.create(SIDEBAND)?, processor)?;
        let notes = Notes::new(clock, collect::vdso().ok());
        Ok(Folder {
            packets: Packets { files, streams: BTreeMap::new() },
            notes,
            sideband,
            kernel_file: None,
            build_ids: BuildIds::default(),
            seen: BTreeSet::new(),
            clock,
            elsewhere: Elsewhere::default(),
            generated: None,
            tracked: Tracked::default(),
            kcore: None,
            problems: Vec::new(),
            began: SystemTime::now(),
            named: BTreeSet::new(),
            dumps: BTreeMap::new(),
        })
    }

    /// With code that is copied when it becomes executable.
    pub(crate) fn with_generated(self, generated: Option<Generated>) -> Folder {
        Folder { generated, ..self }
    }

    /// The same where no snapshots of single streams are wanted.
    pub(crate) fn without_index(self) -> Folder {
        Folder { sideband: self.sideband.without_index(), ..self }
    }

    /// Begins another capture in `files`, with all notes so far, for other packets.
    ///
    /// # Errors
    /// The notes cannot be read, or it cannot be written.
    pub(crate) fn copy(&mut self, files: Box<dyn Files>) -> io::Result<Packets> {
        let notes = self.sideband.all();
        self.copy_parts(files, &notes)
    }

    /// The notes that belong to packets of a stream from the time stamp counter `from` on, and how many bytes a capture
    /// of them has without the packets.
    ///
    /// # Errors
    /// The kernel's code cannot be looked at.
    pub(crate) fn notes_of(&self, of: Of, from: u64) -> io::Result<(Vec<Range<u64>>, u64)> {
        let parts = self.sideband.parts(of, from);
        let kernel = self.kernel_file.as_ref().map_or(Ok(0), |file| file.metadata().map(|of| of.len()))?;
        let notes: u64 = parts.iter().map(|part| part.end - part.start).sum();
        Ok((parts, notes + kernel))
    }

    /// As [`Folder::copy`], with some of the notes.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn copy_parts(&mut self, files: Box<dyn Files>, notes: &[Range<u64>]) -> io::Result<Packets> {
        self.sideband.copy(notes, &mut files.create(SIDEBAND)?)?;
        if let Some(file) = &self.kernel_file {
            sideband::copy(file, 0..file.metadata()?.len(), &mut files.create(KERNEL_FILE)?)?;
        }
        self.compiled_now(&*files)?;
        Ok(Packets { files, streams: BTreeMap::new() })
    }

    /// Notes a process as it is now: the names of its threads, and what it has mapped. One that has gone has nothing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn know(&mut self, pid: i32) -> io::Result<()> {
        for tid in threads(pid) {
            let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
            let task = Task { pid, tid };
            self.record(&Record::Comm { task, is_exec: false, name: name.trim_end().into() }, &before())?;
        }
        let Ok(id) = u32::try_from(pid) else { return Ok(()) };
        let mut maps = collect::maps(id);
        self.build_ids.fill(id, &mut maps);
        for map in maps {
            let build_id = hex::read(&map.build_id).filter(|id| !id.is_empty());
            let unknown = Which::Inode { major: 0, minor: 0, inode: 0, generation: 0 };
            let mmap = Mmap {
                task: Task { pid, tid: pid },
                mode: Mode::User,
                start: map.start,
                len: map.end.saturating_sub(map.start),
                offset: map.offset,
                file: build_id.map_or(unknown, Which::BuildId),
                protection: EXECUTABLE,
                flags: 0,
                path: map.path.into(),
            };
            self.record(&Record::Mmap(mmap), &before())?;
        }
        Ok(())
    }

    /// Copies the kernel's code as it is now. What cannot be read is in [`Folder::problems`].
    ///
    /// # Errors
    /// It cannot be written.
    ///
    /// # Cost
    /// Some 30 MB, in memory and in the capture.
    pub(crate) fn kernel(&mut self) -> io::Result<()> {
        let read = Kcore::open(Path::new(KCORE)).and_then(|kcore| Ok((Code::read(&kcore)?, kcore)));
        let (code, kcore) = match read {
            Ok(read) => read,
            Err(why) => {
                self.problems.push(format!("the kernel's code is not recorded: {KCORE}: {why}"));
                return Ok(());
            }
        };
        self.problems.extend(code.problem.clone());
        let mut file = self.packets.files.create(KERNEL_FILE)?;
        file.write_all(&code.file())?;
        self.kernel_file = Some(file);
        for what in code.images(Path::new(KERNEL_FILE)) {
            self.sideband.write(&of(KERNEL, None, what))?;
        }
        self.kcore = Some(kcore);
        Ok(())
    }

    /// Takes the code that was copied since the last round, and notes what is old enough: records of before are noted.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn copy_generated(&mut self, now: Option<Sample>) -> io::Result<()> {
        let Some(generated) = &mut self.generated else { return Ok(()) };
        generated.read(now.zip(self.clock));
        let old: Vec<Copied> = generated.old().collect();
        self.note_copied(old)
    }

    /// Takes all code that was copied, and notes it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn end_generated(&mut self, now: Option<Sample>) -> io::Result<()> {
        let Some(generated) = &mut self.generated else { return Ok(()) };
        generated.read(now.zip(self.clock));
        let all: Vec<Copied> = generated.before(u64::MAX).collect();
        self.note_copied(all)
    }

    fn note_copied(&mut self, all: Vec<Copied>) -> io::Result<()> {
        for Copied { time, pid, start, how, .. } in all {
            let may_stay_open = !matches!(how, How::Page { is_writable: false, .. });
            match how {
                How::Page { page, is_writable } => {
                    let page = Changed { pid, start, code: &page, time, since: None };
                    self.elsewhere.copied(page, is_writable, note_code(&mut self.sideband))?;
                    self.tracked.copied(pid, start);
                }
                How::Executable(bytes) => self.elsewhere.opened(pid, start, bytes),
                How::Moved { from, bytes } => self.elsewhere.moved(pid, from, start, bytes),
            }
            if may_stay_open {
                self.tracked.changed(pid);
            }
        }
        Ok(())
    }

    /// Notes what has changed of code that stays writable, where that is tracked and due.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn track(&mut self, clocks: impl Fn() -> Option<Sample>) -> io::Result<()> {
        let Folder { tracked, generated: Some(generated), elsewhere, sideband, clock, .. } = self else {
            return Ok(());
        };
        tracked.step(generated, elsewhere, &|| clocks().zip(*clock), note_code(sideband))
    }

    /// Notes all that has changed of it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn track_all(&mut self, clocks: impl Fn() -> Option<Sample>) -> io::Result<()> {
        let Folder { tracked, generated: Some(generated), elsewhere, sideband, clock, .. } = self else {
            return Ok(());
        };
        tracked.look_at_all(generated, elsewhere, &|| clocks().zip(*clock), note_code(sideband))
    }

    /// Whether code that is of no file is to be looked at.
    pub(crate) fn is_due(&self) -> bool {
        self.elsewhere.is_due()
    }

    /// Notes what has changed of code that is of no file, for about a millisecond; the next look goes on. The time
    /// stamp counter is at `now`.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn look(&mut self, now: Option<u64>) -> io::Result<()> {
        self.elsewhere.look(now, note_code(&mut self.sideband))
    }

    /// Notes all that has changed of code that is of no file, as far as there is time.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn look_at_all(&mut self, now: Option<u64>) -> io::Result<()> {
        self.elsewhere.look_at_all(now, note_code(&mut self.sideband))
    }

    /// Copies the tables by which run-time compilers name their functions (`/tmp/perf-PID.map`): of the processes that
    /// have code of no file and are there.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn compiled(&mut self) -> io::Result<()> {
        let dumped = self.dumps.keys().copied();
        let pids: BTreeSet<i32> = self.elsewhere.processes().chain(dumped).collect();
        pids.into_iter().try_for_each(|pid| self.compiled_by(pid))
    }

    /// The same of a process, once.
    fn compiled_by(&mut self, pid: i32) -> io::Result<()> {
        if let Some(dump) = self.dumps.remove(&pid) {
            let mut to = self.packets.files.create(&collect::jit_dump_name(pid.unsigned_abs()))?;
            if copy_whole(&dump, &mut to, DUMP_MAX)? == DUMP_MAX {
                let what = "functions that were compiled later have no names: 64 MiB of its jitdump are kept";
                self.problems.push(format!("process {pid}: {what}"));
            }
        }
        let id = u32::try_from(pid).ok().filter(|_| !self.named.contains(&pid));
        let Some(table) = id.and_then(|id| collect::perf_map(id, self.began, None)) else { return Ok(()) };
        self.named.insert(pid);
        let name = collect::perf_map_name(pid.unsigned_abs());
        self.packets.files.create(&name)?.write_all(&table)
    }

    /// The same into a snapshot, as they are now, as far as there is room; what does not fit is not there.
    fn compiled_now(&self, files: &dyn Files) -> io::Result<()> {
        let mut room = TABLES_MAX;
        for pid in self.elsewhere.processes() {
            let Ok(id) = u32::try_from(pid) else { continue };
            let table = collect::perf_map(id, self.began, None);
            if let Some(table) = table.filter(|table| table.len() as u64 <= room) {
                room -= table.len() as u64;
                files.create(&collect::perf_map_name(id))?.write_all(&table)?;
            }
        }
        for (pid, dump) in &self.dumps {
            let bytes = dump.metadata().map_or(u64::MAX, |data| data.len());
            if bytes <= room {
                let mut to = files.create(&collect::jit_dump_name(pid.unsigned_abs()))?;
                room -= copy_whole(dump, &mut to, room)?;
            }
        }
        Ok(())
    }

    /// A process has mapped a file as code by which perf finds the functions that its compiler writes: it is opened
    /// now, since it may be gone when the process is.
    fn dumps(&mut self, mmap: &Mmap) {
        let pid = mmap.task.pid;
        let has_room = self.dumps.len() < DUMPS_MAX && !self.dumps.contains_key(&pid);
        if !has_room || !collect::is_jit_dump(&mmap.path) {
            return;
        }
        let Ok(id) = u32::try_from(pid) else { return };
        let all = mapped::code(id);
        let found = all.iter().find(|mapped| mapped.map.start == mmap.start);
        let opened = found.and_then(|found| {
            let range = (found.map.start, found.map.end);
            found.file.as_ref()?.open(id, range, &found.map.path).ok()
        });
        self.dumps.extend(opened.map(|file| (pid, file)));
    }

    /// How many mappings of code there were whose bytes are not known: they were gone before they were read.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.elsewhere.missing().0
    }

    /// What is not in the capture, and why; it notes that, too.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn problems(&mut self) -> io::Result<Vec<String>> {
        let (unread, refused) = self.elsewhere.missing();
        let mut problems = std::mem::take(&mut self.problems);
        problems.extend(self.tracked.take_problems());
        let unread = (unread, "mapping", "mappings", "of code of no file could not be read");
        let refused = (refused, "page", "pages", "of code of no file were too many: 256 MiB are kept");
        let [lost, unwatched] = self.generated.as_ref().map(Generated::lost).unwrap_or_default();
        let lost = (
            lost,
            "change",
            "changes",
            "of code that is made at run time were not copied in time: versions of it may be missing",
        );
        let unwatched =
            (unwatched, "process", "processes", "were too many for their code to be copied when it is made");
        let all = [unread, refused, lost, unwatched];
        for (count, one, many, what) in all.into_iter().filter(|(count, ..)| *count > 0) {
            problems.push(format!("{} {what}", counted_grouped(count, one, many)));
        }
        for why in &problems {
            self.sideband.write(&of(KERNEL, None, What::Lost { why: why.clone() }))?;
        }
        Ok(problems)
    }

    /// Looks at what a record says of code that is of no file.
    fn see(&mut self, record: &Record, id: &SampleId) -> io::Result<()> {
        match record {
            Record::Mmap(mmap) if mmap.protection & EXECUTABLE != 0 && mmap.mode == Mode::User => {
                let path = &mmap.path;
                self.dumps(mmap);
                // In the upper half of all addresses is what the kernel has for programs since ever: [vsyscall].
                let is_ours = mmap.start >> 63 == 0 && path.as_os_str() != Notes::VDSO;
                let is_gone = || path.to_string_lossy().ends_with(" (deleted)");
                if is_ours && (is_anonymous(path) || is_gone()) {
                    self.elsewhere.mapped(mmap.task.pid, mmap.start, mmap.len);
                    self.may_be_open(mmap.task.pid);
                }
            }
            Record::Fork(lifetime) if lifetime.task.pid != lifetime.parent.pid => {
                self.elsewhere.forked(lifetime.task.pid, lifetime.parent.pid);
                if self.elsewhere.has(lifetime.task.pid) {
                    self.may_be_open(lifetime.task.pid);
                }
            }
            Record::Comm { task, is_exec: true, .. } => self.gone(task.pid),
            Record::Exit(lifetime) if lifetime.task.pid == lifetime.task.tid => {
                if self.elsewhere.has(lifetime.task.pid) || self.dumps.contains_key(&lifetime.task.pid) {
                    self.compiled_by(lifetime.task.pid)?;
                }
                self.gone(lifetime.task.pid);
                self.generated.iter().for_each(|generated| generated.gone(lifetime.task.pid));
            }
            Record::Ksymbol { start, len, is_removed: false, .. } => {
                let Some(kcore) = &self.kcore else { return Ok(()) };
                // It may be gone already.
                let Ok(code) = kcore.read(*start, u64::from(*len).min(PROGRAM_MAX)) else { return Ok(()) };
                let time = id.time.and_then(|time| Some(self.clock?.tsc(time)));
                return self.sideband.write(&of(
                    KERNEL,
                    time,
                    What::Code { start: *start, code, since: None },
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// A process may have memory that is writable and executable.
    fn may_be_open(&mut self, pid: i32) {
        if self.generated.is_some() {
            self.tracked.changed(pid);
        }
    }

    /// A process has ended, or has become another program.
    fn gone(&mut self, pid: i32) {
        self.elsewhere.gone(pid);
        if let Some(generated) = &self.generated {
            self.tracked.gone(pid, generated);
        }
    }

    /// Notes the time stamp counter beside the kernel's clocks.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn clocks(&mut self, sample: &Sample) -> io::Result<()> {
        let Sample { ticks, monotonic_ns, realtime_ns, error_ns } = *sample;
        let what = What::Clock { monotonic_ns, realtime_ns, error_ns };
        self.sideband.write(&of(KERNEL, Some(ticks), what))
    }

    /// The processes that were seen since the last time.
    pub fn take_seen(&mut self) -> BTreeSet<i32> {
        std::mem::take(&mut self.seen)
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sideband.flush()
    }
}

/// Copies another process's file from its begin, up to so many bytes, as far as it can be read; returns how many.
fn copy_whole(from: &File, to: &mut File, most: u64) -> io::Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    let mut at = 0;
    while at < most {
        let len = buffer.len().min(usize::try_from(most - at).unwrap_or(usize::MAX));
        let read = from.read_at(&mut buffer[..len], at).unwrap_or(0);
        if read == 0 {
            break;
        }
        to.write_all(&buffer[..read])?;
        at += read as u64;
    }
    Ok(at)
}

/// A note about a process.
fn of(pid: i32, time: Option<u64>, what: What) -> Note {
    let tid = if pid == KERNEL { -1 } else { pid };
    Note { pid, tid, cpu: None, instructions: None, time, what }
}

/// Notes code that has changed.
fn note_code(to: &mut Sideband) -> impl FnMut(Changed<'_>) -> io::Result<()> {
    |Changed { pid, start, code, time, since }| {
        to.write(&of(pid, time, What::Code { start, code: code.to_owned(), since }))
    }
}

/// Of what was there before.
fn before() -> SampleId {
    SampleId::default()
}

impl Output for Folder {
    fn packets(&mut self, of: Of, bytes: &[u8]) -> io::Result<()> {
        self.packets.packets(of, bytes)
    }

    fn record(&mut self, record: &Record, id: &SampleId) -> io::Result<()> {
        if let (Some(generated), Some(clock), Some(time)) = (&mut self.generated, self.clock, id.time) {
            let before: Vec<Copied> = generated.before(clock.tsc(time)).collect();
            self.note_copied(before)?;
        }
        let Folder { notes, sideband, seen, .. } = &mut *self;
        let mut done = Ok(());
        notes.take(record, id, |note| {
            seen.extend((note.pid > 0).then_some(note.pid));
            if done.is_ok() {
                done = sideband.write(&note);
            }
        });
        done.and_then(|()| self.see(record, id))
    }
}

/// The threads of a process.
#[must_use]
pub fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut threads: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable();
    threads
}

//! Records of perf_event_open(2) as notes.

use crate::hex;
use crate::note::{Image, KERNEL, Note, What};
use mote_perfdata::intel_pt::Clock;
use mote_perfdata::record::{EXECUTABLE, File, Mmap, Mode, Task, aux, is_anonymous};
use mote_perfdata::{Record, SampleId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Makes notes of records, which are given in the order of time.
///
/// A process that was forked has what its parent had mapped: the notes say it again.
#[derive(Debug, Default)]
pub struct Notes {
    /// How the records' times become those of the packets.
    clock: Option<Clock>,
    /// The code that is mapped as `[vdso]`.
    vdso: Option<Vec<u8>>,
    /// The records are of a virtual machine's processes.
    is_guest: bool,
    /// Build ids of files, where records of mappings do not say them.
    build_ids: BTreeMap<PathBuf, String>,
    /// Files of a virtual machine whose build ids nobody says: what is at their paths in the host is something else.
    without_build_id: BTreeSet<PathBuf>,
    processes: BTreeMap<i32, Process>,
    names: BTreeMap<i32, String>,
    /// Of each CPU that had a thread: when the last one has left it, if none has come since.
    left: BTreeMap<u32, Option<u64>>,
    /// Mappings of code that is of no file, by process and address.
    unknown: BTreeSet<(i32, u64)>,
    /// How many of them processes had that have ended.
    gone: u64,
    lost: u64,
}

#[derive(Clone, Debug, Default)]
struct Process {
    code: BTreeMap<u64, What>,
}

/// Where a record's notes belong.
#[derive(Clone, Copy)]
struct Moment {
    task: Task,
    cpu: Option<u32>,
    time: Option<u64>,
}

impl Moment {
    fn note(self, what: What) -> Note {
        let Moment { task: Task { pid, tid }, cpu, time } = self;
        Note { pid, tid, cpu, instructions: None, time, what }
    }

    fn of(self, task: Task) -> Moment {
        // What is mapped and named counts on all processors.
        Moment { task, cpu: None, ..self }
    }
}

impl Notes {
    /// Name of the mapping with the kernel's code for programs, which is the same in all.
    pub const VDSO: &'static str = "[vdso]";

    /// Of records whose times become the time stamp counter's so; `vdso` is the code of that name, where it is known.
    #[must_use]
    pub fn new(clock: Option<Clock>, vdso: Option<Vec<u8>>) -> Notes {
        Notes { clock, vdso, ..Notes::default() }
    }

    /// Of records of a virtual machine, whose times are the host's. Code of files is noted only where build ids tell
    /// these from the files that the host has at the same paths.
    #[must_use]
    pub fn of_guest(clock: Option<Clock>) -> Notes {
        Notes { is_guest: true, ..Notes::new(clock, None) }
    }

    /// The same, with build ids of files whose mappings do not say them, in hexadecimal digits.
    #[must_use]
    pub fn with_build_ids(self, build_ids: BTreeMap<PathBuf, String>) -> Notes {
        Notes { build_ids, ..self }
    }

    /// Files of a virtual machine whose build ids are not known, and whose code is not, either.
    pub fn without_build_id(&self) -> impl Iterator<Item = &Path> {
        self.without_build_id.iter().map(PathBuf::as_path)
    }

    /// How many mappings of code there were whose bytes are not known: it is of no file.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.gone + self.unknown.len() as u64
    }

    /// How many records were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes a record in; its notes are given to `to`.
    pub fn take(&mut self, record: &Record, id: &SampleId, mut to: impl FnMut(Note)) {
        let task = id.task.unwrap_or(Task { pid: KERNEL, tid: -1 });
        // Of what was there before there is no time.
        let time = id.time.filter(|time| *time > 0).and_then(|time| Some(self.clock?.tsc(time)));
        let here = Moment { task, cpu: id.cpu, time };
        match record {
            Record::Mmap(mmap) => self.mapped(mmap, here, to),
            Record::Comm { task, is_exec, name } => {
                let name = name.to_string_lossy().into_owned();
                self.names.insert(task.tid, name.clone());
                if *is_exec {
                    self.processes.insert(task.pid, Process::default());
                    to(here.of(*task).note(What::Exec { path: name.into() }));
                } else {
                    to(here.of(*task).note(What::Thread { name }));
                }
            }
            Record::Fork(lifetime) => {
                let (task, parent) = (lifetime.task, lifetime.parent);
                let name = self.names.get(&parent.tid).cloned().unwrap_or_default();
                self.names.insert(task.tid, name.clone());
                to(here.of(task).note(What::Thread { name }));
                if task.pid != parent.pid {
                    let process = self.processes.get(&parent.pid).cloned().unwrap_or_default();
                    process.code.values().for_each(|what| to(here.of(task).note(what.clone())));
                    self.processes.insert(task.pid, process);
                }
            }
            Record::Exit(lifetime) if lifetime.task.pid == lifetime.task.tid => {
                let pid = lifetime.task.pid;
                self.processes.remove(&pid);
                self.gone += self.unknown.extract_if((pid, 0)..=(pid, u64::MAX), |_| true).count() as u64;
                to(here.of(lifetime.task).note(What::Exit { status: None }));
            }
            Record::Switch { is_out: true, .. } => {
                self.left.extend(here.cpu.map(|cpu| (cpu, here.time)));
            }
            Record::Switch { .. } => to(self.comes(here).note(What::Switch)),
            Record::ItraceStart(task) => to(self.comes(Moment { task: *task, ..here }).note(What::Switch)),
            Record::Aux { flags, .. } => {
                if let Some(why) = lost(*flags) {
                    to(here.note(What::Lost { why: why.to_owned() }));
                }
            }
            Record::Lost { count, .. } | Record::LostSamples(count) => {
                self.lost += count;
                let why = format!("{count} records: mappings, or switches of threads, may be missing");
                to(here.note(What::Lost { why }));
            }
            Record::Ksymbol { start, len, is_removed: false, name, .. } => {
                let name = name.to_string_lossy().into_owned();
                let kernel = here.of(Task { pid: KERNEL, tid: -1 });
                to(kernel.note(What::Symbol { start: *start, bytes: u64::from(*len), name }));
            }
            Record::TextPoke { start, new, .. } if !new.is_empty() => {
                let kernel = here.of(Task { pid: KERNEL, tid: -1 });
                to(kernel.note(What::Code { start: *start, code: new.clone(), since: None }));
            }
            _ => {}
        }
    }

    /// When a thread has a CPU: the kernel says it when packets of the thread are written already; the one before has
    /// said when it left.
    fn comes(&mut self, here: Moment) -> Moment {
        let Some(cpu) = here.cpu else { return here };
        let time = match self.left.insert(cpu, None) {
            None => None,
            Some(left) => left.or(here.time),
        };
        Moment { time, ..here }
    }

    fn mapped(&mut self, mmap: &Mmap, here: Moment, mut to: impl FnMut(Note)) {
        if mmap.protection & EXECUTABLE == 0 {
            return;
        }
        // The kernel's is in no file as it is executed: modules are moved and patched. A guest's is none of the host's.
        let is_kernel = mmap.task.pid == KERNEL || matches!(mmap.mode, Mode::Kernel | Mode::GuestKernel);
        if is_kernel || (mmap.mode == Mode::GuestUser && !self.is_guest) {
            return;
        }
        let task = mmap.task;
        // Programs of 32 bits have another one.
        let what = if mmap.path.as_os_str() == Notes::VDSO
            && mmap.start >> 32 != 0
            && let Some(code) = &self.vdso
        {
            What::Code { start: mmap.start, code: code.clone(), since: None }
        } else if is_anonymous(&mmap.path) {
            self.unknown.insert((task.pid, mmap.start));
            return;
        } else {
            let build_id = match &mmap.file {
                File::BuildId(id) => Some(hex::digits(id)),
                _ => self.build_ids.get(&mmap.path).cloned(),
            };
            if self.is_guest && build_id.is_none() {
                self.without_build_id.insert(mmap.path.clone());
                return;
            }
            let Mmap { start, len, offset, path, .. } = mmap;
            What::Image(Image { start: *start, bytes: *len, path: path.clone(), offset: *offset, build_id })
        };
        self.processes.entry(task.pid).or_default().code.insert(mmap.start, what.clone());
        to(here.of(task).note(what));
    }
}

/// What flags of a piece of the trace say.
fn lost(flags: u64) -> Option<&'static str> {
    match flags {
        _ if flags & aux::TRUNCATED != 0 => Some("packets: there was no room, they were not read in time"),
        _ if flags & aux::PARTIAL != 0 => Some("packets: tracing was off meanwhile, for a hypervisor"),
        _ if flags & aux::COLLISION != 0 => Some("packets: two samples of them met"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_perfdata::record::Lifetime;

    fn image(mmap: &Mmap, build_id: Option<&str>) -> What {
        let Mmap { start, len, offset, path, .. } = mmap.clone();
        What::Image(Image { start, bytes: len, path, offset, build_id: build_id.map(str::to_owned) })
    }

    /// The notes of records, each a nanosecond later than the one before.
    fn notes(records: &[Record], task: Task) -> (Vec<Note>, Notes) {
        let clock = Clock { shift: 0, mult: 1, zero: 1000 };
        let mut notes = Notes::new(Some(clock), Some(vec![0x90, 0xc3]));
        let mut all = Vec::new();
        for (number, record) in records.iter().enumerate() {
            // The first was there before.
            let time = if number == 0 { 0 } else { 1000 + number as u64 };
            let id = SampleId { task: Some(task), time: Some(time), cpu: Some(3), ..SampleId::default() };
            notes.take(record, &id, |note| all.push(note));
        }
        (all, notes)
    }

    const TASK: Task = Task { pid: 7, tid: 8 };

    fn mmap() -> Mmap {
        Mmap {
            task: Task { pid: 7, tid: 7 },
            mode: Mode::User,
            start: 0x40_0000,
            len: 0x1000,
            offset: 0x2000,
            file: File::BuildId(vec![0xab, 0xcd]),
            protection: 5,
            flags: 2,
            path: "/bin/a".into(),
        }
    }

    #[test]
    fn records_are_notes() {
        let data = Mmap { protection: 3, ..mmap() };
        let vdso = Mmap { start: 0x7fff_0000_7000, path: "[vdso]".into(), ..mmap() };
        let of_32_bits = Mmap { start: 0xf7fc_9000, ..vdso.clone() };
        let anonymous = Mmap { start: 0x9000, path: "//anon".into(), ..mmap() };
        let kernel =
            Mmap { task: Task { pid: -1, tid: 0 }, mode: Mode::Kernel, path: "/lib/m.ko".into(), ..mmap() };
        let comm = |is_exec, name: &str| Record::Comm { task: TASK, is_exec, name: name.into() };
        let records = [
            comm(false, "old"),
            Record::Mmap(mmap()),
            Record::Mmap(data),
            Record::Mmap(vdso),
            Record::Mmap(of_32_bits),
            Record::Mmap(anonymous),
            Record::Mmap(kernel),
            Record::Switch { is_out: true, is_preempted: false, other: None },
            Record::Switch { is_out: false, is_preempted: false, other: None },
            Record::ItraceStart(Task { pid: 7, tid: 9 }),
            Record::Aux { offset: 0, size: 10, flags: aux::OVERWRITE },
            Record::Aux { offset: 0, size: 10, flags: aux::TRUNCATED },
            Record::Lost { id: 1, count: 5 },
            Record::TextPoke { start: 1 << 63, old: vec![1], new: vec![2] },
            comm(true, "new"),
            Record::Exit(Lifetime { task: TASK, ..Lifetime::default() }),
            Record::Exit(Lifetime { task: Task { pid: 7, tid: 7 }, ..Lifetime::default() }),
        ];
        let (all, found) = notes(&records, TASK);
        let note = |(pid, tid), cpu, time, what| Note { pid, tid, cpu, instructions: None, time, what };
        let why = |why: &str| What::Lost { why: why.to_owned() };
        let expect = [
            note((7, 8), None, None, What::Thread { name: "old".to_owned() }),
            note((7, 7), None, Some(1), image(&mmap(), Some("abcd"))),
            note(
                (7, 7),
                None,
                Some(3),
                What::Code { start: 0x7fff_0000_7000, code: vec![0x90, 0xc3], since: None },
            ),
            // From when the CPU was free on.
            note((7, 8), Some(3), Some(7), What::Switch),
            note((7, 9), Some(3), Some(9), What::Switch),
            note((7, 8), Some(3), Some(11), why("packets: there was no room, they were not read in time")),
            note(
                (7, 8),
                Some(3),
                Some(12),
                why("5 records: mappings, or switches of threads, may be missing"),
            ),
            note((-1, -1), None, Some(13), What::Code { start: 1 << 63, code: vec![2], since: None }),
            note((7, 8), None, Some(14), What::Exec { path: "new".into() }),
            note((7, 7), None, Some(16), What::Exit { status: None }),
        ];
        assert_eq!(all, expect);
        assert_eq!((found.unknown(), found.lost()), (2, 5));
    }

    #[test]
    fn code_of_guests_is_not_the_hosts() {
        let guest = |mode| Record::Mmap(Mmap { mode, ..mmap() });
        let records = [guest(Mode::GuestKernel), guest(Mode::GuestUser)];
        let (all, found) = notes(&records, TASK);
        assert_eq!((all, found.unknown()), (vec![], 0));
        // Within the guest, they are what they are: where build ids tell them from files of the host.
        let unknown = Mmap { file: File::Unknown, path: "/bin/b".into(), ..mmap() };
        let records = [
            guest(Mode::GuestUser),
            guest(Mode::User),
            Record::Mmap(unknown.clone()),
            guest(Mode::GuestKernel),
        ];
        let mut of_guest = Notes::of_guest(None);
        let mut all = Vec::new();
        let id = SampleId { task: Some(TASK), ..SampleId::default() };
        records.iter().for_each(|record| of_guest.take(record, &id, |note| all.push(note.what)));
        assert_eq!(all, [image(&mmap(), Some("abcd")), image(&mmap(), Some("abcd"))]);
        assert_eq!(of_guest.without_build_id().collect::<Vec<_>>(), [Path::new("/bin/b")]);
        let known = BTreeMap::from([("/bin/b".into(), "ef".to_owned())]);
        let mut all = Vec::new();
        Notes::of_guest(None).with_build_ids(known).take(&records[2], &id, |note| all.push(note.what));
        assert_eq!(all, [image(&unknown, Some("ef"))]);
    }

    #[test]
    fn what_is_forked_has_what_its_parent_had() {
        let child = Task { pid: 20, tid: 20 };
        let parent = Task { pid: 7, tid: 7 };
        let records = [
            Record::Comm { task: parent, is_exec: false, name: "a".into() },
            Record::Mmap(mmap()),
            Record::Fork(Lifetime { task: child, parent, time: 0 }),
            Record::Fork(Lifetime { task: Task { pid: 7, tid: 21 }, parent, time: 0 }),
        ];
        let (all, _) = notes(&records, parent);
        let said: Vec<_> = all.iter().skip(2).map(|note| (note.pid, note.tid, &note.what)).collect();
        let name = What::Thread { name: "a".to_owned() };
        let code = image(&mmap(), Some("abcd"));
        assert_eq!(said, [(20, 20, &name), (20, 20, &code), (7, 21, &name)]);
    }
}

//! Captures as files of perf.
//!
//! Streams of threads become a recording per thread, those of processors one per CPU; perf cannot have both in a file.
//! Code that is of no file is written to files of its own, since perf has all code from files.

use crate::capture::{Capture, Stream};
use crate::error::Error;
use crate::hex;
use crate::note::{Image, KERNEL, Note, Processor, What};
use crate::stream::Of;
use mote_perfdata::attribute::{flag, sample};
use mote_perfdata::header::feature;
use mote_perfdata::intel_pt::{Clock, Info};
use mote_perfdata::record::{EXECUTABLE, File as Which, Lifetime, Mmap, Mode, Task, aux};
use mote_perfdata::{Attribute, Error as Unwritten, Event, Features, NewPiece, Record, SampleId, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// The unit's number, as it is on most machines.
const UNIT: u32 = 8;
/// Bits of its `config`: the driver has them where IA32_RTIT_CTL has (SDM 33.2.8.2), and `pt` at 0.
const PT: u64 = 1;
const BRANCH: u64 = 1 << 13;
const CYC: u64 = 1 << 1;
const MTC: u64 = 1 << 9;
const TSC: u64 = 1 << 10;
const NO_RETURN_COMPRESSION: u64 = 1 << 11;
const MTC_PERIOD: u32 = 14;
const CYC_THRESHOLD: u32 = 19;
/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_DUMMY`.
const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// Ids of the two events.
const IDS: [u64; 2] = [1, 2];
/// Bytes of a piece: perf has each in memory as a whole.
const PIECE: usize = 4 << 20;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Streams.
    pub streams: usize,
    /// Bytes of their packets.
    pub bytes: u64,
    /// Files with code that is of no other.
    pub files: usize,
}

/// Where the code goes that is of no file, by the file that is written.
#[must_use]
pub fn code_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".code");
    name.into()
}

/// Writes a capture to a new file, and code that is of no file to files in the directory `code`, which is made if there
/// is any.
///
/// # Errors
/// A file is there already, or cannot be written; the capture cannot be read; it has streams of threads and of
/// processors.
pub fn export(capture: &Capture, path: &Path, code: &Path) -> Result<Exported, Error> {
    let streams: Vec<&Stream> = capture.streams().collect();
    let per_cpu = streams.iter().any(|stream| stream.cpu().is_some());
    if per_cpu && streams.iter().any(|stream| stream.cpu().is_none()) {
        let why = "it has streams of threads and of processors; a file of perf has one of both".to_owned();
        return Err(Error::NotExported { path: path.to_owned(), why });
    }
    let unwritten = |why| Error::Write { path: path.to_owned(), why };
    let file = File::create_new(path).map_err(unwritten)?;
    let clock = clock(capture.processor());
    let config = config(capture.processor());
    let mut records =
        Records { clock, notes: Vec::new(), code, files: 0, mapped: BTreeMap::new(), began: BTreeMap::new() };
    capture.notes().iter().try_for_each(|note| records.take(note))?;
    let broken = |why| match why {
        Unwritten::Io(why) => Error::Write { path: path.to_owned(), why },
        why => Error::NotExported { path: path.to_owned(), why: why.to_string() },
    };
    let mut writer = Writer::new(BufWriter::new(file), &events(config)).map_err(broken)?;
    writer.record(&info(capture.processor(), clock, per_cpu), &SampleId::default()).map_err(broken)?;
    let mut exported = Exported { streams: streams.len(), files: records.files, bytes: 0 };
    // perf believes a TSC packet only where it knows about which time it is: that at which the piece was read, and not
    // 0 (`intel_pt_calc_tsc_timestamp`). Times would begin at 0 without.
    let times = capture.notes().iter().filter_map(|note| note.time);
    let reference = times.max().unwrap_or(0).max(1);
    for (idx, stream) in streams.iter().enumerate() {
        write_stream(&mut writer, idx as u32, stream, reference).map_err(broken)?;
        exported.bytes += stream.bytes.len();
    }
    records.notes.sort_by_key(|(_, id)| id.time);
    for (record, id) in &records.notes {
        writer.record(record, id).map_err(broken)?;
    }
    writer.finish(&features(config, &streams)).map_err(broken)?;
    Ok(exported)
}

fn write_stream<W: io::Write + io::Seek>(
    writer: &mut Writer<W>,
    idx: u32,
    stream: &Stream,
    reference: u64,
) -> Result<(), Unwritten> {
    let (tid, cpu) = match stream.of {
        Of::Thread(tid) => (tid, -1),
        Of::Cpu(cpu) => (-1, cpu as i32),
    };
    let (mut at, mut bytes) = (0, Vec::new());
    while at < stream.bytes.len() {
        bytes.clear();
        stream.bytes.read(at, PIECE, &mut bytes).map_err(io::Error::other)?;
        let piece = NewPiece { offset: at, reference, idx, tid, cpu };
        writer.piece(&piece, bytes.len() as u64, &bytes[..])?;
        at += bytes.len() as u64;
    }
    Ok(())
}

fn clock(processor: &Processor) -> Clock {
    if let Some(crate::note::Clock { zero, mult, shift }) = processor.clock {
        return Clock { zero, mult, shift };
    }
    Clock::of_hz(processor.hz().unwrap_or(0))
}

fn config(processor: &Processor) -> u64 {
    let when = |is_so: bool, bits: u64| if is_so { bits } else { 0 };
    let mtc = processor.mtc.map_or(0, |period| MTC | u64::from(period & 15) << MTC_PERIOD);
    // The least threshold that is not lower: 0, or 2^(N-1) cycles.
    let threshold =
        |cycles: u64| if cycles == 0 { 0 } else { u64::from(cycles.next_power_of_two().ilog2() + 1).min(15) };
    let cyc = processor.cyc.map_or(0, |cycles| CYC | threshold(cycles) << CYC_THRESHOLD);
    PT | when(!processor.no_branches, BRANCH)
        | when(processor.tsc, TSC)
        | when(!processor.return_compression, NO_RETURN_COMPRESSION)
        | mtc
        | cyc
}

fn info(processor: &Processor, clock: Clock, per_cpu: bool) -> Record {
    Info {
        unit: UNIT,
        clock: Some(clock).filter(|clock| clock.mult != 0),
        tsc_bit: TSC,
        no_return_compression_bit: NO_RETURN_COMPRESSION,
        // By records of switches.
        switches: if per_cpu { 2 } else { 0 },
        is_snapshot: false,
        per_cpu,
        mtc_bit: MTC,
        mtc_period_bits: 15 << MTC_PERIOD,
        tsc_per_art: processor.tsc_per_art,
        cyc_bit: CYC,
        max_nonturbo_ratio: clock.hz().saturating_add(50_000_000) / 100_000_000,
        filter: processor.filter.clone(),
    }
    .write()
}

/// Intel PT, and what the records are of.
fn events(config: u64) -> [Event; 2] {
    let sample_type = sample::IP | sample::TID | sample::TIME | sample::CPU | sample::IDENTIFIER;
    let user = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV | flag::SAMPLE_ID_ALL;
    let pt =
        Attribute { kind: UNIT, config, sample_period: 1, sample_type, flags: user, ..Attribute::default() };
    let tells = flag::MMAP | flag::COMM | flag::TASK | flag::MMAP2 | flag::COMM_EXEC | flag::CONTEXT_SWITCH;
    let dummy = Attribute { kind: SOFTWARE, config: DUMMY, flags: user | tells, ..pt };
    [Event { attribute: pt, ids: vec![IDS[0]] }, Event { attribute: dummy, ids: vec![IDS[1]] }]
}

fn features(config: u64, streams: &[&Stream]) -> Features {
    let mut features = Features::default();
    // How many CPUs there can be, and are.
    let cpus =
        streams.iter().filter_map(|stream| stream.cpu()).max().map_or(1, |last| last.saturating_add(1));
    features.set(feature::NRCPUS, [cpus.to_le_bytes(), cpus.to_le_bytes()].concat());
    features.set_text(feature::ARCH, "x86_64");
    features.set_text(feature::VERSION, concat!("mote ", env!("CARGO_PKG_VERSION")));
    features.set_command(&["mote", "pt", "export", "--perf"]);
    features.set_events(&events(config), &["intel_pt//u", "dummy:u"]);
    features
}

/// Notes as records.
struct Records<'c> {
    clock: Clock,
    notes: Vec<(Record, SampleId)>,
    /// Where code goes that is of no file.
    code: &'c Path,
    files: usize,
    /// What each process has mapped: begin and end.
    mapped: BTreeMap<i32, BTreeSet<(u64, u64)>>,
    /// When each process became the program that it is.
    began: BTreeMap<i32, u64>,
}

impl Records<'_> {
    fn take(&mut self, note: &Note) -> Result<(), Error> {
        let task = Task { pid: note.pid, tid: note.tid };
        let time = note.time.map_or(0, |tsc| self.clock.nanoseconds(tsc));
        match &note.what {
            What::Thread { name } => {
                // Before, so that perf knows whose thread it is from the first packet on.
                self.push(task, note.cpu, 0, Record::Comm { task, is_exec: false, name: name.into() });
                self.push(task, note.cpu, time, Record::ItraceStart(task));
            }
            What::Exec { path } => {
                let name = path.file_name().unwrap_or_default().to_owned();
                self.mapped.remove(&note.pid);
                self.began.insert(note.pid, time);
                self.push(task, note.cpu, time, Record::Comm { task, is_exec: true, name });
            }
            What::Image(Image { start, bytes, path, offset, build_id }) => {
                let build_id = build_id.as_deref().and_then(hex::read);
                self.map(note, (*start, *bytes), path.clone(), *offset, build_id);
            }
            What::Code { start, code, .. } => {
                let path = self.file(note.pid, code)?;
                self.map(note, (*start, code.len() as u64), path, 0, None);
            }
            What::Switch => {
                self.push(
                    task,
                    note.cpu,
                    time,
                    Record::Switch { is_out: false, is_preempted: false, other: None },
                );
            }
            What::Lost { .. } => {
                self.push(task, note.cpu, time, Record::Aux { offset: 0, size: 0, flags: aux::TRUNCATED });
            }
            What::Exit { .. } => {
                let lifetime = Lifetime { task, parent: Task { pid: note.pid, tid: note.pid }, time };
                self.push(task, note.cpu, time, Record::Exit(lifetime));
            }
            What::Symbol { .. } | What::AddressSpace { .. } | What::Clock { .. } | What::Other => {}
        }
        Ok(())
    }

    fn push(&mut self, task: Task, cpu: Option<u32>, time: u64, record: Record) {
        let id = SampleId { task: Some(task), time: Some(time), id: Some(IDS[1]), stream: None, cpu };
        self.notes.push((record, id));
    }

    fn map(
        &mut self,
        note: &Note,
        (start, len): (u64, u64),
        path: PathBuf,
        offset: u64,
        build_id: Option<Vec<u8>>,
    ) {
        let end = start.saturating_add(len);
        let mapped = self.mapped.entry(note.pid).or_default();
        let is_free = !mapped.iter().any(|(from, to)| *from < end && start < *to);
        mapped.insert((start, end));
        // What comes to a free place was there all the time, as far as other threads can tell.
        let began = self.began.get(&note.pid).copied().unwrap_or(0);
        let time = note.time.filter(|_| !is_free).map_or(began, |tsc| self.clock.nanoseconds(tsc));
        let is_kernel = note.pid == KERNEL;
        let task = Task { pid: note.pid, tid: if is_kernel { 0 } else { note.pid } };
        let unknown = Which::Inode { major: 0, minor: 0, inode: 0, generation: 0 };
        let mmap = Mmap {
            task,
            mode: if is_kernel { Mode::Kernel } else { Mode::User },
            start,
            len,
            offset,
            file: build_id.map_or(unknown, Which::BuildId),
            // Readable, too.
            protection: EXECUTABLE | 1,
            flags: 2,
            path,
        };
        self.push(task, None, time, Record::Mmap(mmap));
    }

    /// Writes code to a file of its own.
    fn file(&mut self, pid: i32, code: &[u8]) -> Result<PathBuf, Error> {
        let path = self.code.join(format!("{pid}-{}.bin", self.files));
        let unwritten = |why| Error::Write { path: path.clone(), why };
        fs::create_dir_all(self.code).map_err(unwritten)?;
        fs::write(&path, code).map_err(unwritten)?;
        self.files += 1;
        std::path::absolute(&path).map_err(unwritten)
    }
}

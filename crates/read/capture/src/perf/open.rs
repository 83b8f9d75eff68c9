//! A file of perf, opened as a capture.

use super::Notes;
use super::found::Found;
use super::guests::Beside;
use super::streams::Streams;
use crate::capture::Capture;
use crate::error::Error;
use crate::note::{Clock, Processor};
use mote_perfdata::header::feature;
use mote_perfdata::intel_pt::Info;
use mote_perfdata::{Event, PerfData, Source};
use mote_words::counted;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// CycThresh in an event's `config` (IA32_RTIT_CTL, SDM 33.2.8.2): the driver leaves bits where the register has them.
const CYC_THRESHOLD: u32 = 19;

/// PTEn and BranchEn in the same: since Linux 4.18 users may leave branches out; before, the driver sets both.
const PT: u64 = 1;
const BRANCH: u64 = 1 << 13;
/// The records in perf's directory (`perf record --kcore`), and those of its threads (`--threads`).
const DATA: &str = "data";
const DATA_OF_THREAD: &str = "data.0";

/// Whether a file begins as those of perf do, or a directory has one; what cannot be read does not.
#[must_use]
pub fn is_one(path: &Path) -> bool {
    let mut start = [0; 8];
    let (path, _) = inside(path);
    let read = File::open(path).and_then(|file| Source::read_at(&file, 0, &mut start));
    read.is_ok() && [b"PERFILE2", b"PERFFILE", b"2ELIFREP"].contains(&&start)
}

/// The file with the records, and the directory that it is in, if that is one of perf.
fn inside(path: &Path) -> (PathBuf, Option<&Path>) {
    if path.is_dir() { (path.join(DATA), Some(path)) } else { (path.to_owned(), None) }
}

/// Opens it.
///
/// # Errors
/// It cannot be read, is no file of perf, or has no Intel PT.
pub(crate) fn open(path: &Path) -> Result<Capture, Error> {
    let (path, folder) = inside(path);
    let unreadable = |why| Error::Read { path: path.clone(), why };
    let damaged = |why| Error::Perf { path: path.clone(), why };
    let file = Arc::new(File::open(&path).map_err(unreadable)?);
    let data = PerfData::open(&*file).map_err(damaged)?;
    let found = Found::read(&data).map_err(damaged)?;
    let Some(info) = &found.info else { return Err(without_pt(&path, &data)) };
    let streams = Streams::of(&file, path.clone(), &found, info);
    let mut problems: Vec<String> = data.problems().to_vec();
    problems.extend(found.ends_with.as_ref().map(|why| format!("{}: {why}", path.display())));
    problems.extend(unread(&found, &streams, folder));
    let streams = streams.finish();
    if streams.is_empty() {
        return Err(without_pieces(&path, &problems));
    }
    let build_ids = found.builds.get(&None).cloned().unwrap_or_default();
    let mut notes = Notes::new(info.clock, vdso(&data)).with_build_ids(build_ids);
    let beside = Beside::read(folder, &found, info.clock);
    let mut all = beside.kernel;
    let of_host = found.by_time().filter(|(_, _, vcpu)| vcpu.is_none());
    of_host.for_each(|(record, id, _)| notes.take(record, &id, |note| all.push(note)));
    problems.extend(unknown(&notes));
    problems.extend(beside.problems);
    let is_pt = |event: &&Event| event.attribute.kind == info.unit;
    let config = data.events().iter().find(is_pt).map_or(0, |event| event.attribute.config);
    let processor = processor(info, config, data.features().text(feature::CPUID).as_deref());
    Ok(Capture::new(None, processor, streams, all, problems).with_guests(beside.guests, beside.files))
}

/// Sentences about what is in the file and is not read.
fn unread(found: &Found, streams: &Streams<'_>, folder: Option<&Path>) -> Vec<String> {
    let mut all = Vec::new();
    if found.packed > 0 {
        let count = counted(found.packed, "sample", "samples");
        all.push(format!("packets of {count} are not read: they are compressed; record without -z"));
    }
    if streams.without_psb > 0 {
        let pieces = counted(streams.without_psb, "piece", "pieces");
        all.push(format!(
            "{pieces} of packets cannot be read: no PSB says where one begins; sample more bytes"
        ));
    }
    if folder.is_some_and(|folder| folder.join(DATA_OF_THREAD).exists()) {
        all.push("what perf's threads have written is not read: record without --threads".to_owned());
    }
    all
}

/// The processor of a recording: as perf says it, with its event's `config` and its own name (`vendor,family,model,
/// stepping`).
#[must_use]
pub fn processor(info: &Info, config: u64, name: Option<&str>) -> Processor {
    let is_on = |bit: u64| bit != 0 && config & bit != 0;
    let tsc_hz = info.clock.map(|clock| clock.hz()).filter(|hz| *hz > 0);
    let (numerator, denominator) = info.tsc_per_art;
    let art_hz = match (tsc_hz, numerator) {
        (Some(hz), 1..) => (u128::from(hz) * u128::from(denominator) / u128::from(numerator)) as u64,
        _ => 0,
    };
    let threshold = config >> CYC_THRESHOLD & 15;
    let cycles = if threshold == 0 { 0 } else { 1 << (threshold - 1) };
    Processor {
        art_hz,
        tsc_per_art: info.tsc_per_art,
        core_ratio: 0,
        mtc: info.mtc_period(config),
        cyc: is_on(info.cyc_bit).then_some(cycles),
        tsc: is_on(info.tsc_bit),
        return_compression: !is_on(info.no_return_compression_bit),
        tsc_hz,
        clock: info.clock.map(|clock| Clock { zero: clock.zero, mult: clock.mult, shift: clock.shift }),
        filter: info.filter.clone(),
        no_branches: config & PT != 0 && config & BRANCH == 0,
        last_packets: info.is_snapshot,
        model: name.and_then(model),
    }
}

/// `GenuineIntel,6,142,10`
fn model(text: &str) -> Option<[u32; 3]> {
    let mut words = text.split(',').skip(1).map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// The code that the kernel maps for programs: of this machine, where its kernel is the one that was recorded.
fn vdso<S: Source>(data: &PerfData<S>) -> Option<Vec<u8>> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let is_this = data.features().text(feature::OSRELEASE)? == release.trim();
    if is_this { mote_symbol::collect::vdso().ok() } else { None }
}

fn unknown(notes: &Notes) -> Option<String> {
    match notes.unknown() {
        0 => None,
        1 => Some("code of 1 mapping is not known: it is of no file".to_owned()),
        more => Some(format!("code of {more} mappings is not known: it is of no file")),
    }
}

fn without_pt<S: Source>(path: &Path, data: &PerfData<S>) -> Error {
    let command =
        data.features().command().map_or_else(String::new, |words| format!(" (`{}`)", words.join(" ")));
    let why =
        format!("it has no Intel PT{command}: record with `perf record -e intel_pt//u`, or `mote pt record`");
    Error::NoPt { path: path.to_owned(), why }
}

fn without_pieces(path: &Path, problems: &[String]) -> Error {
    let why = match problems.last() {
        Some(problem) => problem.clone(),
        None => "nothing of Intel PT was written: the file has the event, and no packets".to_owned(),
    };
    Error::NoPt { path: path.to_owned(), why }
}

//! A file of perf, opened as a capture.

use super::Notes;
use crate::capture::Capture;
use crate::error::Error;
use crate::note::{Clock, Processor};
use crate::stream::{Bytes, Of};
use mote_perfdata::attribute::sample;
use mote_perfdata::header::feature;
use mote_perfdata::intel_pt::{self, Info};
use mote_perfdata::record::Auxtrace;
use mote_perfdata::{Error as Damage, Event, PerfData, Piece, Record, SampleId, Source};
use mote_pt::packet::Decoder;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Bytes in which a snapshot's first PSB is looked for; beyond, it is as good as none.
const PSB_MAX: u64 = 1 << 20;
/// CycThresh in an event's `config` (IA32_RTIT_CTL, SDM 33.2.8.2): the driver leaves bits where the register has them.
const CYC_THRESHOLD: u32 = 19;

/// Whether a file begins as those of perf do; what cannot be read does not.
#[must_use]
pub fn is_one(path: &Path) -> bool {
    let mut start = [0; 8];
    let read = File::open(path).and_then(|file| Source::read_at(&file, 0, &mut start));
    read.is_ok() && [b"PERFILE2", b"PERFFILE", b"2ELIFREP"].contains(&&start)
}

/// Opens it.
///
/// # Errors
/// It cannot be read, is no file of perf, or has no Intel PT.
pub(crate) fn open(path: &Path) -> Result<Capture, Error> {
    let unreadable = |why| Error::Read { path: path.to_owned(), why };
    let damaged = |why| Error::Perf { path: path.to_owned(), why };
    let file = Arc::new(File::open(path).map_err(unreadable)?);
    let data = PerfData::open(&*file).map_err(damaged)?;
    let found = Found::read(&data).map_err(damaged)?;
    let Some(info) = &found.info else { return Err(without_pt(path, &data)) };
    if found.pieces.is_empty() {
        return Err(without_pieces(path, &data));
    }
    let mut problems: Vec<String> = data.problems().to_vec();
    problems.extend(found.ends_with.as_ref().map(|why| format!("{}: {why}", path.display())));
    let mut notes = Notes::new(info.clock, vdso(&data));
    let mut all = Vec::new();
    found.by_time().for_each(|(record, id)| notes.take(record, id, |note| all.push(note)));
    problems.extend(unknown(&notes));
    let streams = streams(&file, path, &found, info);
    let is_pt = |event: &&Event| event.attribute.kind == info.unit;
    let config = data.events().iter().find(is_pt).map_or(0, |event| event.attribute.config);
    let processor = processor(info, config, data.features().text(feature::CPUID).as_deref());
    Ok(Capture::new(None, processor, streams, all, problems))
}

/// What a file has of a capture.
struct Found {
    info: Option<Info>,
    pieces: Vec<(Auxtrace, Piece)>,
    records: Vec<(Record, SampleId)>,
    /// Why there is no more.
    ends_with: Option<Damage>,
}

impl Found {
    fn read<S: Source>(data: &PerfData<S>) -> Result<Found, Damage> {
        let mut found = Found { info: None, pieces: Vec::new(), records: Vec::new(), ends_with: None };
        for entry in data.records() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(why @ (Damage::Cut { .. } | Damage::Record { .. })) => {
                    found.ends_with = Some(why);
                    break;
                }
                Err(why) => return Err(why),
            };
            match entry.record {
                Record::AuxtraceInfo { kind: intel_pt::KIND, words } => found.info = Info::read(&words),
                Record::Auxtrace(piece) => found.pieces.extend(entry.piece.map(|bytes| (piece, bytes))),
                Record::Sample { .. }
                | Record::FinishedRound
                | Record::Other { .. }
                | Record::Damaged { .. } => {}
                record => found.records.push((record, entry.id)),
            }
        }
        Ok(found)
    }

    /// The records, in the order of time; those of no time first.
    fn by_time(&self) -> impl Iterator<Item = &(Record, SampleId)> {
        let mut records: Vec<_> = self.records.iter().collect();
        records.sort_by_key(|(_, id)| id.time.unwrap_or(0));
        records.into_iter()
    }
}

/// The streams: pieces of one memory, one behind the other.
fn streams(file: &Arc<File>, path: &Path, found: &Found, info: &Info) -> BTreeMap<Of, Bytes> {
    let path = Arc::new(path.to_owned());
    let mut streams = BTreeMap::<Of, Bytes>::new();
    for (piece, Piece { offset, len }) in &found.pieces {
        let of = match (u32::try_from(piece.cpu), piece.tid) {
            (Ok(cpu), tid) if info.per_cpu || tid < 0 => Of::Cpu(cpu),
            (_, tid) => Of::Thread(tid),
        };
        // A snapshot does not go on where the one before has ended, and begins anywhere.
        let skip = if info.is_snapshot { first_psb(file, *offset, *len) } else { 0 };
        let bytes = streams.entry(of).or_default();
        bytes.push(file.clone(), path.clone(), offset + skip, len - skip);
    }
    streams
}

/// How many bytes lie before the first PSB; 0 where there is none.
fn first_psb(file: &File, offset: u64, len: u64) -> u64 {
    let mut bytes = vec![0; len.min(PSB_MAX) as usize];
    let read = Source::read_at(file, offset, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    Decoder::new(&bytes, 0).sync_forward().unwrap_or(0)
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

fn without_pieces<S: Source>(path: &Path, data: &PerfData<S>) -> Error {
    let is_sampled = data.events().iter().any(|event| event.attribute.sample_type & sample::AUX != 0);
    let why = if is_sampled {
        "its packets are in samples (`perf record --aux-sample`), which is not read: record without"
    } else {
        "nothing of Intel PT was written: the file has the event, and no packets"
    };
    Error::NoPt { path: path.to_owned(), why: why.to_owned() }
}

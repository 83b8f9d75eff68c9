//! From bytes to records.

use super::{
    Auxtrace, EXECUTABLE, File, HEADER, IdEntry, Lifetime, Mmap, Mode, Record, SampleFormat, SampleId, Task,
    TimeConversion, Vcpu, kind, misc,
};
use crate::Attribute;
use crate::attribute::sample;
use crate::bytes::Bytes;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Longest build id.
const BUILD_ID_MAX: usize = 20;

/// A record's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    pub(crate) size: u16,
}

impl Header {
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        let mut bytes = Bytes(bytes);
        Some(Header { kind: bytes.u32()?, misc: bytes.u16()?, size: bytes.u16()? })
    }
}

impl Record {
    /// Reads a record with its header: as the kernel leaves it in an event's memory, or as it is in a file. `format`
    /// is that of the record's event. A record that is too short for what it is is [`Record::Damaged`].
    #[must_use]
    pub fn read(bytes: &[u8], format: SampleFormat) -> (Record, SampleId) {
        let Some(header) = Header::read(bytes) else {
            return (Record::Damaged { kind: 0 }, SampleId::default());
        };
        let body = bytes.get(HEADER..).unwrap_or_default();
        Record::parse(header, body, format)
            .unwrap_or((Record::Damaged { kind: header.kind }, SampleId::default()))
    }

    fn parse(header: Header, body: &[u8], format: SampleFormat) -> Option<(Record, SampleId)> {
        let Header { kind, misc, .. } = header;
        if kind == kind::SAMPLE {
            return sample(body, misc, format);
        }
        let behind = format.len(kind);
        let (body, behind) = body.split_at_checked(body.len().checked_sub(behind)?)?;
        let id = if behind.is_empty() { SampleId::default() } else { format.read(behind)? };
        let record = if kind < kind::OF_PERF {
            of_the_kernel(kind, misc, Bytes(body))?
        } else {
            of_perf(kind, misc, Bytes(body))?
        };
        Some((record, id))
    }
}

fn of_the_kernel(kind: u32, misc: u16, mut body: Bytes<'_>) -> Option<Record> {
    Some(match kind {
        kind::MMAP => mmap(misc, body)?,
        kind::MMAP2 => mmap2(misc, body)?,
        kind::LOST => Record::Lost { id: body.u64()?, count: body.u64()? },
        kind::LOST_SAMPLES => Record::LostSamples(body.u64()?),
        kind::COMM => {
            Record::Comm { task: task(&mut body)?, is_exec: misc & misc::COMM_EXEC != 0, name: body.text() }
        }
        kind::FORK => Record::Fork(lifetime(body)?),
        kind::EXIT => Record::Exit(lifetime(body)?),
        kind::AUX => Record::Aux { offset: body.u64()?, size: body.u64()?, flags: body.u64()? },
        kind::ITRACE_START => Record::ItraceStart(task(&mut body)?),
        kind::SWITCH | kind::SWITCH_CPU_WIDE => Record::Switch {
            is_out: misc & misc::SWITCH_OUT != 0,
            is_preempted: misc & misc::SWITCH_OUT_PREEMPT != 0,
            other: if kind == kind::SWITCH { None } else { Some(task(&mut body)?) },
        },
        kind::KSYMBOL => Record::Ksymbol {
            start: body.u64()?,
            len: body.u32()?,
            of: body.u16()?,
            is_removed: body.u16()? & 1 != 0,
            name: body.text(),
        },
        kind::TEXT_POKE => {
            let start = body.u64()?;
            let (old, new) = (body.u16()?, body.u16()?);
            let (old, new) = (body.take(old.into())?.to_vec(), body.take(new.into())?.to_vec());
            Record::TextPoke { start, old, new }
        }
        _ => Record::Other { kind, bytes: body.0.to_vec() },
    })
}

fn of_perf(kind: u32, misc: u16, mut body: Bytes<'_>) -> Option<Record> {
    Some(match kind {
        kind::HEADER_ATTR => {
            // Its size says where its ids begin; 0 is the first version's.
            let size = match Bytes(body.0.get(4..)?).u32()? as usize {
                0 => crate::attribute::BYTES_MIN,
                size => size,
            };
            let attribute = Attribute::read(body.take(size)?)?;
            Record::Attribute { attribute, ids: words(body) }
        }
        kind::HEADER_BUILD_ID => build_id(misc, body)?,
        kind::FINISHED_ROUND => Record::FinishedRound,
        kind::ID_INDEX => {
            let count = body.u64()?;
            Record::IdIndex(ids(count, body)?)
        }
        kind::AUXTRACE_INFO => {
            let (kind, _) = (body.u32()?, body.u32()?);
            Record::AuxtraceInfo { kind, words: words(body) }
        }
        kind::AUXTRACE => Record::Auxtrace(Auxtrace {
            size: body.u64()?,
            offset: body.u64()?,
            reference: body.u64()?,
            idx: body.u32()?,
            tid: body.i32()?,
            cpu: body.i32()?,
        }),
        kind::TIME_CONV => {
            let (shift, mult, zero) = (body.u64()?, body.u64()?, body.u64()?);
            // The rest came with Linux 5.10.
            let (cycles, mask) = (body.u64().unwrap_or(0), body.u64().unwrap_or(0));
            let (has_zero, is_short) = (body.u8().unwrap_or(1) != 0, body.u8().unwrap_or(0) != 0);
            Record::TimeConversion(TimeConversion { shift, mult, zero, cycles, mask, has_zero, is_short })
        }
        kind::HEADER_FEATURE => Record::Feature { number: body.u64()?, bytes: body.0.to_vec() },
        _ => Record::Other { kind, bytes: body.0.to_vec() },
    })
}

/// Bytes of an id's entry, and of what is said of guests behind all of them (`struct id_index_entry`,
/// `id_index_entry_2`).
const ID_BYTES: usize = 32;
const GUEST_BYTES: usize = 16;

fn ids(count: u64, mut body: Bytes<'_>) -> Option<Vec<IdEntry>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= usize::from(u16::MAX) / ID_BYTES)?;
    let mut entries = Bytes(body.take(count * ID_BYTES)?);
    let mut guests = Bytes(body.take(count * GUEST_BYTES).unwrap_or_default());
    let mut entry = || {
        let (id, idx) = (entries.u64()?, entries.u64()?);
        let (cpu, tid) = (entries.u64()?.cast_signed(), entries.u64()?.cast_signed());
        let machine = guests.u64().map_or(0, |machine| machine as i32);
        let number = guests.u64().map_or(0, |number| number as u32);
        let guest = (machine != 0).then_some(Vcpu { machine, number });
        Some(IdEntry { id, idx, cpu, tid, guest })
    };
    (0..count).map(|_| entry()).collect()
}

/// The words that are left; bytes that make no whole one are left out.
fn words(mut body: Bytes<'_>) -> Vec<u64> {
    std::iter::from_fn(|| body.u64()).collect()
}

fn task(body: &mut Bytes<'_>) -> Option<Task> {
    Some(Task { pid: body.i32()?, tid: body.i32()? })
}

fn lifetime(mut body: Bytes<'_>) -> Option<Lifetime> {
    // Process, its parent; thread, its parent.
    let (pid, parent, tid, parent_tid) = (body.i32()?, body.i32()?, body.i32()?, body.i32()?);
    let parent = Task { pid: parent, tid: parent_tid };
    Some(Lifetime { task: Task { pid, tid }, parent, time: body.u64()? })
}

fn mmap(misc: u16, mut body: Bytes<'_>) -> Option<Record> {
    let task = task(&mut body)?;
    let (start, len, offset) = (body.u64()?, body.u64()?, body.u64()?);
    let protection = if misc & misc::MMAP_DATA == 0 { EXECUTABLE } else { 0 };
    let path = PathBuf::from(body.text());
    let mode = Mode::of(misc);
    Some(Record::Mmap(Mmap {
        task,
        mode,
        start,
        len,
        offset,
        file: File::Unknown,
        protection,
        flags: 0,
        path,
    }))
}

fn mmap2(misc: u16, mut body: Bytes<'_>) -> Option<Record> {
    let task = task(&mut body)?;
    let (start, len, offset) = (body.u64()?, body.u64()?, body.u64()?);
    let mut which = Bytes(body.take(24)?);
    let file = if misc & misc::MMAP_BUILD_ID != 0 {
        let len = usize::from(which.u8()?).min(BUILD_ID_MAX);
        which.take(3)?;
        File::BuildId(which.take(len)?.to_vec())
    } else {
        let (major, minor) = (which.u32()?, which.u32()?);
        File::Inode { major, minor, inode: which.u64()?, generation: which.u64()? }
    };
    let (protection, flags) = (body.u32()?, body.u32()?);
    let path = PathBuf::from(body.text());
    let mode = Mode::of(misc);
    Some(Record::Mmap(Mmap { task, mode, start, len, offset, file, protection, flags, path }))
}

fn build_id(misc: u16, mut body: Bytes<'_>) -> Option<Record> {
    let pid = body.i32()?;
    let field = body.take(24)?;
    // `PERF_RECORD_MISC_BUILD_ID_SIZE`: the size stands behind its 20 bytes (Linux 5.10); before, it has them all.
    let len =
        if misc & 1 << 15 != 0 { usize::from(field[BUILD_ID_MAX]).min(BUILD_ID_MAX) } else { BUILD_ID_MAX };
    let build_id = field[..len].to_vec();
    Some(Record::BuildId { pid, mode: Mode::of(misc), build_id, path: body.text().into() })
}

fn sample(body: &[u8], misc: u16, format: SampleFormat) -> Option<(Record, SampleId)> {
    let whole = body.len();
    let mut body = Bytes(body);
    let mut id = SampleId::default();
    let (mut ip, mut address, mut period) = (0, 0, 0);
    let order = [
        sample::IDENTIFIER,
        sample::IP,
        sample::TID,
        sample::TIME,
        sample::ADDR,
        sample::ID,
        sample::STREAM_ID,
        sample::CPU,
        sample::PERIOD,
    ];
    for bit in order.into_iter().filter(|bit| format.has(*bit)) {
        match bit {
            sample::IP => ip = body.u64()?,
            sample::ADDR => address = body.u64()?,
            sample::PERIOD => period = body.u64()?,
            _ => format.member(bit, &mut body, &mut id)?,
        }
    }
    let more = body.0.len();
    let sampled = format.sampled(body, whole);
    Some((Record::Sample { ip, address, period, mode: Mode::of(misc), more, sampled }, id))
}

/// The path of a mapping is not one of a file that can be read: memory of no file, or of one in memory.
#[must_use]
pub fn is_anonymous(path: &std::path::Path) -> bool {
    let path = path.as_os_str().as_bytes();
    path.is_empty() || !path.starts_with(b"/") || path.starts_with(b"//") || path.starts_with(b"/memfd:")
}

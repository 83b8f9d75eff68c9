//! What stands behind records: who, when, where (`struct sample_id` in linux/perf_event.h).

use super::{Task, kind};
use crate::Attribute;
use crate::attribute::{flag, sample};
use crate::bytes::{Bytes, Out};

/// Of whom a record is; `None` where the event's records do not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process and thread.
    pub task: Option<Task>,
    /// When, in nanoseconds of the event's clock.
    pub time: Option<u64>,
    /// The event's id.
    pub id: Option<u64>,
    /// The id of the very event that was opened.
    pub stream: Option<u64>,
    /// CPU.
    pub cpu: Option<u32>,
}

/// Which of these an event's records have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleFormat {
    sample_type: u64,
    in_all: bool,
    pub(super) read: u64,
    pub(super) branches: u64,
    pub(super) user_registers: u64,
    pub(super) registers: u64,
}

/// What may stand there, in this order.
const ORDER: [u64; 6] =
    [sample::TID, sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];

impl SampleFormat {
    /// That of an event.
    #[must_use]
    pub fn of(attribute: &Attribute) -> SampleFormat {
        SampleFormat {
            sample_type: attribute.sample_type,
            in_all: attribute.flags & flag::SAMPLE_ID_ALL != 0,
            read: attribute.read_format,
            branches: attribute.branches,
            user_registers: attribute.user_registers,
            registers: attribute.registers,
        }
    }

    pub(crate) fn has(self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// Bytes behind a record of this kind.
    pub(crate) fn len(self, of: u32) -> usize {
        let is_behind = self.in_all && of < kind::OF_PERF && of != kind::SAMPLE;
        if is_behind { 8 * ORDER.iter().filter(|bit| self.has(**bit)).count() } else { 0 }
    }

    /// The id in what stands behind a record: all events of a file have it at the same place.
    pub(crate) fn id_behind(self, of: u32, body: &[u8]) -> Option<u64> {
        if self.len(of) == 0 {
            return None;
        }
        let behind = match () {
            () if self.has(sample::IDENTIFIER) => 0,
            () if self.has(sample::ID) => ORDER[3..].iter().filter(|bit| self.has(**bit)).count(),
            () => return None,
        };
        let at = body.len().checked_sub(8 * (behind + 1))?;
        Bytes(body.get(at..)?).u64()
    }

    /// Reads the event's id from the body of a sample.
    pub(crate) fn id_in_sample(self, body: &[u8]) -> Option<u64> {
        let before = match () {
            () if self.has(sample::IDENTIFIER) => 0,
            () if self.has(sample::ID) => {
                let all = [sample::IP, sample::TID, sample::TIME, sample::ADDR];
                all.iter().filter(|bit| self.has(**bit)).count()
            }
            () => return None,
        };
        Bytes(body.get(8 * before..)?).u64()
    }

    /// Reads what stands behind a record.
    pub(crate) fn read(self, bytes: &[u8]) -> Option<SampleId> {
        let mut bytes = Bytes(bytes);
        let mut id = SampleId::default();
        for bit in ORDER.iter().filter(|bit| self.has(**bit)) {
            self.member(*bit, &mut bytes, &mut id)?;
        }
        Some(id)
    }

    pub(crate) fn member(self, bit: u64, bytes: &mut Bytes<'_>, id: &mut SampleId) -> Option<()> {
        match bit {
            sample::TID => id.task = Some(Task { pid: bytes.i32()?, tid: bytes.i32()? }),
            sample::TIME => id.time = Some(bytes.u64()?),
            sample::STREAM_ID => id.stream = Some(bytes.u64()?),
            sample::CPU => (id.cpu, _) = (Some(bytes.u32()?), bytes.u32()?),
            // ID and IDENTIFIER.
            _ => id.id = Some(bytes.u64()?),
        }
        Some(())
    }

    /// Writes what stands behind a record of this kind; what is not known is 0.
    pub(crate) fn write(self, of: u32, id: &SampleId, out: &mut Out) {
        if self.len(of) == 0 {
            return;
        }
        for bit in ORDER.iter().filter(|bit| self.has(**bit)) {
            match *bit {
                sample::TID => {
                    let Task { pid, tid } = id.task.unwrap_or_default();
                    out.i32(pid).i32(tid);
                }
                sample::TIME => _ = out.u64(id.time.unwrap_or(0)),
                sample::STREAM_ID => _ = out.u64(id.stream.unwrap_or(0)),
                sample::CPU => _ = out.u32(id.cpu.unwrap_or(0)).u32(0),
                _ => _ = out.u64(id.id.unwrap_or(0)),
            }
        }
    }
}

//! From records to bytes.

use super::{
    EXECUTABLE, File, HEADER, Lifetime, Mmap, Mode, Record, SampleFormat, SampleId, Task, Vcpu, misc,
};
use crate::Error;
use crate::bytes::Out;

impl Record {
    /// Its bytes, header first, as the kernel or perf would have written them. [`Record::Sample`] has what is read of
    /// one only.
    ///
    /// # Errors
    /// It has more bytes than a record can have.
    pub fn write(&self, id: &SampleId, format: SampleFormat) -> Result<Vec<u8>, Error> {
        let kind = self.kind();
        let mut out = Out::default();
        out.u32(kind).u16(self.misc()).u16(0);
        self.body(id, format, &mut out);
        format.write(kind, id, &mut out);
        let len = out.0.len();
        let size = u16::try_from(len).map_err(|_| Error::TooLong { kind, size: len })?;
        out.0[HEADER - 2..HEADER].copy_from_slice(&size.to_le_bytes());
        Ok(out.0)
    }

    fn misc(&self) -> u16 {
        let when = |is_so: bool, bit: u16| if is_so { bit } else { 0 };
        match self {
            Record::Mmap(Mmap { mode, file: File::BuildId(_), .. }) => mode.bits() | misc::MMAP_BUILD_ID,
            Record::Mmap(mmap) => mmap.mode.bits() | when(mmap.protection & EXECUTABLE == 0, misc::MMAP_DATA),
            Record::Comm { is_exec, .. } => Mode::User.bits() | when(*is_exec, misc::COMM_EXEC),
            Record::Switch { is_out, is_preempted, .. } => {
                when(*is_out, misc::SWITCH_OUT) | when(*is_preempted, misc::SWITCH_OUT_PREEMPT)
            }
            Record::Sample { mode, .. } => mode.bits(),
            Record::BuildId { mode, .. } => mode.bits() | 1 << 15,
            _ => 0,
        }
    }

    fn body(&self, id: &SampleId, format: SampleFormat, out: &mut Out) {
        match self {
            Record::Mmap(mmap) => self::mmap(mmap, out),
            Record::Lost { id, count } => _ = out.u64(*id).u64(*count),
            Record::LostSamples(count) => _ = out.u64(*count),
            Record::Comm { task, name, .. } => _ = self::task(task, out).text(name),
            Record::Fork(lifetime) | Record::Exit(lifetime) => self::lifetime(lifetime, out),
            Record::Aux { offset, size, flags } => _ = out.u64(*offset).u64(*size).u64(*flags),
            Record::ItraceStart(task) | Record::Switch { other: Some(task), .. } => _ = self::task(task, out),
            Record::Switch { other: None, .. } | Record::FinishedRound | Record::Damaged { .. } => {}
            Record::Ksymbol { start, len, of, is_removed, name } => {
                out.u64(*start).u32(*len).u16(*of).u16((*is_removed).into()).text(name);
            }
            Record::TextPoke { start, old, new } => {
                out.u64(*start).u16(old.len() as u16).u16(new.len() as u16);
                out.bytes(old).bytes(new).fill();
            }
            Record::Sample { ip, address, period, .. } => sample([*ip, *address, *period], id, format, out),
            Record::Attribute { attribute, ids } => {
                out.bytes(&attribute.write());
                ids.iter().for_each(|id| _ = out.u64(*id));
            }
            Record::BuildId { pid, build_id, path, .. } => {
                let mut field = [0; 24];
                let len = build_id.len().min(20);
                field[..len].copy_from_slice(&build_id[..len]);
                field[20] = len as u8;
                out.i32(*pid).bytes(&field).text(path.as_os_str());
            }
            Record::IdIndex(entries) => {
                out.u64(entries.len() as u64);
                for entry in entries {
                    out.u64(entry.id).u64(entry.idx).u64(entry.cpu as u64).u64(entry.tid as u64);
                }
                if entries.iter().any(|entry| entry.guest.is_some()) {
                    for Vcpu { machine, number } in
                        entries.iter().map(|entry| entry.guest.unwrap_or_default())
                    {
                        out.u64(machine as u64).u64(number.into());
                    }
                }
            }
            Record::AuxtraceInfo { kind, words } => {
                out.u32(*kind).u32(0);
                words.iter().for_each(|word| _ = out.u64(*word));
            }
            Record::Auxtrace(piece) => {
                out.u64(piece.size).u64(piece.offset).u64(piece.reference).u32(piece.idx);
                out.i32(piece.tid).i32(piece.cpu).u32(0);
            }
            Record::TimeConversion(time) => {
                out.u64(time.shift).u64(time.mult).u64(time.zero).u64(time.cycles).u64(time.mask);
                out.u8(time.has_zero.into()).u8(time.is_short.into()).bytes(&[0; 6]);
            }
            Record::Feature { number, bytes } => _ = out.u64(*number).bytes(bytes),
            Record::Other { bytes, .. } => _ = out.bytes(bytes),
        }
    }
}

fn task<'o>(task: &Task, out: &'o mut Out) -> &'o mut Out {
    out.i32(task.pid).i32(task.tid)
}

fn lifetime(lifetime: &Lifetime, out: &mut Out) {
    let Lifetime { task, parent, time } = lifetime;
    out.i32(task.pid).i32(parent.pid).i32(task.tid).i32(parent.tid).u64(*time);
}

fn mmap(mmap: &Mmap, out: &mut Out) {
    task(&mmap.task, out).u64(mmap.start).u64(mmap.len).u64(mmap.offset);
    match &mmap.file {
        File::Unknown => {
            out.text(mmap.path.as_os_str());
            return;
        }
        File::Inode { major, minor, inode, generation } => {
            out.u32(*major).u32(*minor).u64(*inode).u64(*generation);
        }
        File::BuildId(build_id) => {
            let mut field = [0; 20];
            let len = build_id.len().min(20);
            field[..len].copy_from_slice(&build_id[..len]);
            out.u8(len as u8).bytes(&[0; 3]).bytes(&field);
        }
    }
    out.u32(mmap.protection).u32(mmap.flags).text(mmap.path.as_os_str());
}

/// Address, address of data, period.
fn sample([ip, address, period]: [u64; 3], id: &SampleId, format: SampleFormat, out: &mut Out) {
    use crate::attribute::sample;
    let Task { pid, tid } = id.task.unwrap_or_default();
    let event = id.id.unwrap_or(0);
    let members = [
        (sample::IDENTIFIER, event),
        (sample::IP, ip),
        (sample::TID, u64::from(pid as u32) | u64::from(tid as u32) << 32),
        (sample::TIME, id.time.unwrap_or(0)),
        (sample::ADDR, address),
        (sample::ID, event),
        (sample::STREAM_ID, id.stream.unwrap_or(0)),
        (sample::CPU, id.cpu.unwrap_or(0).into()),
        (sample::PERIOD, period),
    ];
    members.iter().filter(|(bit, _)| format.has(*bit)).for_each(|(_, value)| _ = out.u64(*value));
}

impl Mode {
    fn bits(self) -> u16 {
        match self {
            Mode::Unknown => 0,
            Mode::Kernel => 1,
            Mode::User => 2,
            Mode::Hypervisor => 3,
            Mode::GuestKernel => 4,
            Mode::GuestUser => 5,
        }
    }
}

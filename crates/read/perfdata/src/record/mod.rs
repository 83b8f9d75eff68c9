//! Records: those of the kernel (kinds below 64), and those that perf adds.

mod encode;
mod parse;
mod sample_id;
mod sampled;

pub(crate) use parse::Header;
pub use parse::is_anonymous;
pub use sample_id::{SampleFormat, SampleId};

use std::ffi::OsString;
use std::path::PathBuf;

/// Bytes of a record's header: kind, `misc`, size.
pub const HEADER: usize = 8;

/// Kinds of records (`enum perf_event_type`, `enum perf_user_event_type`).
pub mod kind {
    /// See [`Record::Mmap`](super::Record::Mmap).
    pub const MMAP: u32 = 1;
    /// See [`Record::Lost`](super::Record::Lost).
    pub const LOST: u32 = 2;
    /// See [`Record::Comm`](super::Record::Comm).
    pub const COMM: u32 = 3;
    /// See [`Record::Exit`](super::Record::Exit).
    pub const EXIT: u32 = 4;
    /// See [`Record::Fork`](super::Record::Fork).
    pub const FORK: u32 = 7;
    /// See [`Record::Sample`](super::Record::Sample).
    pub const SAMPLE: u32 = 9;
    /// See [`Record::Mmap`](super::Record::Mmap).
    pub const MMAP2: u32 = 10;
    /// See [`Record::Aux`](super::Record::Aux).
    pub const AUX: u32 = 11;
    /// See [`Record::ItraceStart`](super::Record::ItraceStart).
    pub const ITRACE_START: u32 = 12;
    /// See [`Record::LostSamples`](super::Record::LostSamples).
    pub const LOST_SAMPLES: u32 = 13;
    /// See [`Record::Switch`](super::Record::Switch).
    pub const SWITCH: u32 = 14;
    /// See [`Record::Switch`](super::Record::Switch).
    pub const SWITCH_CPU_WIDE: u32 = 15;
    /// See [`Record::Ksymbol`](super::Record::Ksymbol).
    pub const KSYMBOL: u32 = 17;
    /// See [`Record::TextPoke`](super::Record::TextPoke).
    pub const TEXT_POKE: u32 = 20;
    /// The first kind that the kernel does not write.
    pub const OF_PERF: u32 = 64;
    /// See [`Record::Attribute`](super::Record::Attribute).
    pub const HEADER_ATTR: u32 = 64;
    /// Descriptions of tracepoints: so many bytes follow behind the record.
    pub const HEADER_TRACING_DATA: u32 = 66;
    /// See [`Record::BuildId`](super::Record::BuildId).
    pub const HEADER_BUILD_ID: u32 = 67;
    /// See [`Record::FinishedRound`](super::Record::FinishedRound).
    pub const FINISHED_ROUND: u32 = 68;
    /// See [`Record::IdIndex`](super::Record::IdIndex).
    pub const ID_INDEX: u32 = 69;
    /// See [`Record::AuxtraceInfo`](super::Record::AuxtraceInfo).
    pub const AUXTRACE_INFO: u32 = 70;
    /// See [`Record::Auxtrace`](super::Record::Auxtrace).
    pub const AUXTRACE: u32 = 71;
    /// More about an event of a file from a pipe: its unit, its name, its CPUs.
    pub const EVENT_UPDATE: u32 = 78;
    /// See [`Record::TimeConversion`](super::Record::TimeConversion).
    pub const TIME_CONV: u32 = 79;
    /// See [`Record::Feature`](super::Record::Feature).
    pub const HEADER_FEATURE: u32 = 80;
    /// Compressed records.
    pub const COMPRESSED: u32 = 81;
    /// The same, since Linux 6.15: filled up to 8 bytes.
    pub const COMPRESSED2: u32 = 83;
}

/// Bits of a record's `misc`.
pub(crate) mod misc {
    pub(crate) const CPUMODE: u16 = 7;
    pub(crate) const MMAP_DATA: u16 = 1 << 13;
    pub(crate) const COMM_EXEC: u16 = 1 << 13;
    pub(crate) const SWITCH_OUT: u16 = 1 << 13;
    pub(crate) const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    pub(crate) const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// A process and a thread of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// The process; -1 is the kernel, or not known.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
}

/// Whose code a mapping or an address is (`PERF_RECORD_MISC_CPUMODE_MASK`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Not known.
    #[default]
    Unknown,
    /// The kernel's.
    Kernel,
    /// A program's.
    User,
    /// A hypervisor's.
    Hypervisor,
    /// A guest's kernel's.
    GuestKernel,
    /// A guest's program's.
    GuestUser,
}

/// What identifies a file that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// Nothing is said (`PERF_RECORD_MMAP`).
    Unknown,
    /// Where it lies: device, inode, and the inode's generation.
    Inode {
        /// Major number of the device.
        major: u32,
        /// Minor number.
        minor: u32,
        /// Inode.
        inode: u64,
        /// Its generation.
        generation: u64,
    },
    /// Its build id, at most 20 bytes.
    BuildId(Vec<u8>),
}

/// Memory of a process, or of the kernel, is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mmap {
    /// The thread that has mapped it.
    pub task: Task,
    /// In which mode it is executed.
    pub mode: Mode,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Where in the file.
    pub offset: u64,
    /// Which file, as far as it is said.
    pub file: File,
    /// Protection and flags as in mmap(2); of a `PERF_RECORD_MMAP` only whether it is executable.
    pub protection: u32,
    /// See `protection`.
    pub flags: u32,
    /// The file's path, or a name in brackets, or `//anon`.
    pub path: PathBuf,
}

/// `PROT_EXEC` of [`Mmap::protection`].
pub const EXECUTABLE: u32 = 4;

/// A thread begins or ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// The thread that begins or ends.
    pub task: Task,
    /// Its parent.
    pub parent: Task,
    /// When, in nanoseconds of the event's clock.
    pub time: u64,
}

/// Flags of [`Record::Aux`] (`PERF_AUX_FLAG_*`).
pub mod aux {
    /// Some was lost at its end: there was no room.
    pub const TRUNCATED: u64 = 1;
    /// It is what was written last into memory that is written over.
    pub const OVERWRITE: u64 = 2;
    /// Some is missing in it: tracing was off meanwhile.
    pub const PARTIAL: u64 = 4;
    /// A sample of it met another one.
    pub const COLLISION: u64 = 8;
}

/// A piece of a hardware trace, whose bytes follow its record in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auxtrace {
    /// How many bytes.
    pub size: u64,
    /// Where they were in all that its memory has seen; in memory that is written over: where in it.
    pub offset: u64,
    /// What tells pieces of one snapshot from those of others.
    pub reference: u64,
    /// Number of the memory.
    pub idx: u32,
    /// The thread, or -1.
    pub tid: i32,
    /// The CPU, or -1.
    pub cpu: i32,
}

/// To whom events of an id belong (`PERF_RECORD_ID_INDEX`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdEntry {
    /// The id.
    pub id: u64,
    /// Number of the memory.
    pub idx: u64,
    /// CPU, or -1.
    pub cpu: i64,
    /// Thread, or -1.
    pub tid: i64,
    /// Its events are a virtual machine's, which [`IdEntry::tid`] runs.
    pub guest: Option<Vcpu>,
}

/// A processor of a virtual machine (Linux 6.0: `perf inject --guest-data`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vcpu {
    /// The process that is the machine's VMM in the host; not 0.
    pub machine: i32,
    /// Its number in the machine.
    pub number: u32,
}

/// Where the bytes of a hardware trace are in a record with a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The first one, behind the record's header.
    pub at: usize,
    /// How many.
    pub len: usize,
}

/// How the time stamp counter becomes nanoseconds of perf's clock (`PERF_RECORD_TIME_CONV`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeConversion {
    /// `ns = zero + (tsc * mult >> shift)`.
    pub shift: u64,
    /// See `shift`.
    pub mult: u64,
    /// See `shift`.
    pub zero: u64,
    /// The counter is narrow: what it was, and which bits it has.
    pub cycles: u64,
    /// See `cycles`.
    pub mask: u64,
    /// Whether `zero` is said.
    pub has_zero: bool,
    /// Whether `cycles` and `mask` are.
    pub is_short: bool,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// Memory is mapped.
    Mmap(Mmap),
    /// Records were lost: there was no room.
    Lost {
        /// Of which event.
        id: u64,
        /// How many.
        count: u64,
    },
    /// Samples were lost.
    LostSamples(u64),
    /// A thread has another name.
    Comm {
        /// The thread that has a new name.
        task: Task,
        /// The process runs another program from now on; what it had mapped is gone.
        is_exec: bool,
        /// The name, at most 15 bytes.
        name: OsString,
    },
    /// A thread begins.
    Fork(Lifetime),
    /// A thread ends.
    Exit(Lifetime),
    /// A hardware trace has written something.
    Aux {
        /// Where in all that its memory has seen.
        offset: u64,
        /// How many bytes.
        size: u64,
        /// [`aux`].
        flags: u64,
    },
    /// A hardware trace has begun, while this thread ran.
    ItraceStart(Task),
    /// A thread gets a CPU, or leaves it.
    Switch {
        /// It leaves it.
        is_out: bool,
        /// Although it could go on.
        is_preempted: bool,
        /// The other thread: the next one, or the one before; not said where one thread is followed.
        other: Option<Task>,
    },
    /// The kernel has made code, or removes it.
    Ksymbol {
        /// The address of the first byte.
        start: u64,
        /// Bytes.
        len: u32,
        /// 1: eBPF; 2: out of line, of probes.
        of: u16,
        /// It is removed.
        is_removed: bool,
        /// Its name.
        name: OsString,
    },
    /// The kernel has changed its code.
    TextPoke {
        /// The address of the first byte.
        start: u64,
        /// The bytes before the change.
        old: Vec<u8>,
        /// What is there now.
        new: Vec<u8>,
    },
    /// A sample, as far as it has what other records have, too.
    Sample {
        /// The address.
        ip: u64,
        /// An address of data.
        address: u64,
        /// Events since the last one.
        period: u64,
        /// In which mode.
        mode: Mode,
        /// Bytes of it that are not looked at: call chains, registers, raw data.
        more: usize,
        /// A part of a hardware trace.
        sampled: Option<Sampled>,
    },
    /// An event of a file from a pipe: `struct perf_event_attr` and ids.
    Attribute {
        /// The event.
        attribute: crate::Attribute,
        /// Its ids.
        ids: Vec<u64>,
    },
    /// The build id of a file.
    BuildId {
        /// -1; of a file in a virtual machine, the process that is the machine's VMM.
        pid: i32,
        /// In which mode it is executed.
        mode: Mode,
        /// At most 20 bytes.
        build_id: Vec<u8>,
        /// The file.
        path: PathBuf,
    },
    /// What comes later in the file is not earlier in time than what came before the last one of these.
    FinishedRound,
    /// To whom ids belong.
    IdIndex(Vec<IdEntry>),
    /// What a hardware trace is (1: Intel PT).
    AuxtraceInfo {
        /// Of which kind.
        kind: u32,
        /// What perf says of it: [`crate::intel_pt`].
        words: Vec<u64>,
    },
    /// A piece of a hardware trace.
    Auxtrace(Auxtrace),
    /// The clock.
    TimeConversion(TimeConversion),
    /// A feature of a file from a pipe.
    Feature {
        /// Its number.
        number: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Of a kind that is not read.
    Other {
        /// The number of its kind (`PERF_RECORD_*`).
        kind: u32,
        /// Bytes of it behind the header.
        bytes: Vec<u8>,
    },
    /// Too short for what it is.
    Damaged {
        /// Its kind.
        kind: u32,
    },
}

impl Record {
    /// The number of the record's kind (`PERF_RECORD_*`).
    #[must_use]
    pub fn kind(&self) -> u32 {
        match self {
            Record::Mmap(Mmap { file: File::Unknown, .. }) => kind::MMAP,
            Record::Mmap(_) => kind::MMAP2,
            Record::Lost { .. } => kind::LOST,
            Record::LostSamples(_) => kind::LOST_SAMPLES,
            Record::Comm { .. } => kind::COMM,
            Record::Fork(_) => kind::FORK,
            Record::Exit(_) => kind::EXIT,
            Record::Aux { .. } => kind::AUX,
            Record::ItraceStart(_) => kind::ITRACE_START,
            Record::Switch { other: None, .. } => kind::SWITCH,
            Record::Switch { .. } => kind::SWITCH_CPU_WIDE,
            Record::Ksymbol { .. } => kind::KSYMBOL,
            Record::TextPoke { .. } => kind::TEXT_POKE,
            Record::Sample { .. } => kind::SAMPLE,
            Record::Attribute { .. } => kind::HEADER_ATTR,
            Record::BuildId { .. } => kind::HEADER_BUILD_ID,
            Record::FinishedRound => kind::FINISHED_ROUND,
            Record::IdIndex(_) => kind::ID_INDEX,
            Record::AuxtraceInfo { .. } => kind::AUXTRACE_INFO,
            Record::Auxtrace(_) => kind::AUXTRACE,
            Record::TimeConversion(_) => kind::TIME_CONV,
            Record::Feature { .. } => kind::HEADER_FEATURE,
            Record::Other { kind, .. } | Record::Damaged { kind } => *kind,
        }
    }
}

impl Mode {
    pub(crate) fn of(misc: u16) -> Mode {
        match misc & misc::CPUMODE {
            1 => Mode::Kernel,
            2 => Mode::User,
            3 => Mode::Hypervisor,
            4 => Mode::GuestKernel,
            5 => Mode::GuestUser,
            _ => Mode::Unknown,
        }
    }
}

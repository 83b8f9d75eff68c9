//! `struct perf_event_attr`: what an event is, and what its records have.

use crate::bytes::{Bytes, Out};

/// Bytes of its first version, of the one that is written (version 5, with `aux_watermark`), and at most of one that is
/// read: a later kernel's is longer, and what is behind is not looked at.
pub const BYTES_MIN: usize = 64;
/// See [`BYTES_MIN`].
pub const BYTES: usize = 112;
/// See [`BYTES_MIN`].
pub const BYTES_MAX: usize = 4096;

/// Bits of [`Attribute::flags`], in their order in `struct perf_event_attr`.
pub mod flag {
    /// Off until it is switched on.
    pub const DISABLED: u64 = 1;
    /// Threads inherit it.
    pub const INHERIT: u64 = 1 << 1;
    /// Nothing of programs.
    pub const EXCLUDE_USER: u64 = 1 << 4;
    /// Nothing of the kernel.
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    /// Nothing of hypervisors.
    pub const EXCLUDE_HV: u64 = 1 << 6;
    /// Records of executable mappings.
    pub const MMAP: u64 = 1 << 8;
    /// Records of names.
    pub const COMM: u64 = 1 << 9;
    /// Switched on by the next execve(2).
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// Records of threads that begin and end.
    pub const TASK: u64 = 1 << 13;
    /// All records have what samples have of process, thread, time, ids and CPU.
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    /// Nothing of guests.
    pub const EXCLUDE_GUEST: u64 = 1 << 20;
    /// Mappings with the file's device and inode, or build id.
    pub const MMAP2: u64 = 1 << 23;
    /// Names say whether they come from execve(2).
    pub const COMM_EXEC: u64 = 1 << 24;
    /// Times are of the clock that is said.
    pub const USE_CLOCKID: u64 = 1 << 25;
    /// Records of threads that leave a CPU, and that get one.
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    /// Records of code that the kernel makes.
    pub const KSYMBOL: u64 = 1 << 29;
    /// Records of changes to the kernel's code.
    pub const TEXT_POKE: u64 = 1 << 33;
    /// Mappings with build ids (Linux 5.12).
    pub const BUILD_ID: u64 = 1 << 34;
}

/// Bits of [`Attribute::sample_type`] (`enum perf_event_sample_format`) that say what stands behind records.
pub mod sample {
    /// Address.
    pub const IP: u64 = 1;
    /// Process and thread.
    pub const TID: u64 = 1 << 1;
    /// Time.
    pub const TIME: u64 = 1 << 2;
    /// An address that data has.
    pub const ADDR: u64 = 1 << 3;
    /// What is read of the event, as [`Attribute::read_format`](super::Attribute::read_format) says.
    pub const READ: u64 = 1 << 4;
    /// Addresses of callers.
    pub const CALLCHAIN: u64 = 1 << 5;
    /// The event's id.
    pub const ID: u64 = 1 << 6;
    /// CPU.
    pub const CPU: u64 = 1 << 7;
    /// Period.
    pub const PERIOD: u64 = 1 << 8;
    /// The id of the very event that was opened.
    pub const STREAM_ID: u64 = 1 << 9;
    /// Bytes of the event's own, as of a tracepoint.
    pub const RAW: u64 = 1 << 10;
    /// Branches that were taken last.
    pub const BRANCH_STACK: u64 = 1 << 11;
    /// Registers of the program.
    pub const REGS_USER: u64 = 1 << 12;
    /// Bytes of the program's stack.
    pub const STACK_USER: u64 = 1 << 13;
    /// How long an access took, or the like.
    pub const WEIGHT: u64 = 1 << 14;
    /// Where data came from.
    pub const DATA_SRC: u64 = 1 << 15;
    /// The event's id, at a place that is always the same.
    pub const IDENTIFIER: u64 = 1 << 16;
    /// What has ended a transaction.
    pub const TRANSACTION: u64 = 1 << 17;
    /// Registers of whatever was interrupted.
    pub const REGS_INTR: u64 = 1 << 18;
    /// A physical address.
    pub const PHYS_ADDR: u64 = 1 << 19;
    /// A part of a hardware trace.
    pub const AUX: u64 = 1 << 20;
    /// A cgroup.
    pub const CGROUP: u64 = 1 << 21;
    /// The size of a page of data.
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    /// The size of a page of code.
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    /// As [`WEIGHT`], in three parts.
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// An event: the members that are of use here, of versions 0 to 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribute {
    /// `type`: which unit it is of.
    pub kind: u32,
    /// The event of that kind, as its device encodes it.
    pub config: u64,
    /// The first extension of the encoding.
    pub config1: u64,
    /// The second extension of the encoding.
    pub config2: u64,
    /// How often a sample is taken.
    pub sample_period: u64,
    /// What samples have ([`sample`]).
    pub sample_type: u64,
    /// What is read of it.
    pub read_format: u64,
    /// Switches ([`flag`]).
    pub flags: u64,
    /// Bytes, or events, after which whoever waits is woken.
    pub wakeup: u32,
    /// Which branches samples have, and what of them.
    pub branches: u64,
    /// Which registers of the program samples have, a bit for each.
    pub user_registers: u64,
    /// Bytes of the program's stack that samples have.
    pub user_stack: u32,
    /// Of which clock times are, with [`flag::USE_CLOCKID`].
    pub clock: i32,
    /// Which registers of what was interrupted samples have, a bit for each.
    pub registers: u64,
    /// Bytes of a hardware trace after which whoever waits is woken.
    pub aux_watermark: u32,
}

impl Attribute {
    /// Reads one; `None` when there are fewer than [`BYTES_MIN`] bytes. What is behind the bytes is 0.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Attribute> {
        if bytes.len() < BYTES_MIN {
            return None;
        }
        let mut words = [0; BYTES];
        let len = bytes.len().min(BYTES);
        words[..len].copy_from_slice(&bytes[..len]);
        let mut words = Bytes(&words);
        let kind = words.u32()?;
        words.u32()?;
        let (config, sample_period, sample_type) = (words.u64()?, words.u64()?, words.u64()?);
        let (read_format, flags, wakeup) = (words.u64()?, words.u64()?, words.u32()?);
        words.u32()?;
        let (config1, config2) = (words.u64()?, words.u64()?);
        let (branches, user_registers, user_stack) = (words.u64()?, words.u64()?, words.u32()?);
        let (clock, registers) = (words.i32()?, words.u64()?);
        let aux_watermark = words.u32()?;
        Some(Attribute {
            kind,
            config,
            config1,
            config2,
            sample_period,
            sample_type,
            read_format,
            flags,
            wakeup,
            branches,
            user_registers,
            user_stack,
            clock,
            registers,
            aux_watermark,
        })
    }

    /// Its [`BYTES`] bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.u32(self.kind).u32(BYTES as u32).u64(self.config).u64(self.sample_period);
        out.u64(self.sample_type).u64(self.read_format).u64(self.flags);
        out.u32(self.wakeup).u32(0).u64(self.config1).u64(self.config2);
        out.u64(self.branches).u64(self.user_registers).u32(self.user_stack);
        out.i32(self.clock).u64(self.registers);
        out.u32(self.aux_watermark).u32(0);
        out.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_where_the_kernel_has_them() {
        let attribute = Attribute {
            kind: 8,
            config: 0x300e601,
            config1: 1,
            config2: 2,
            sample_period: 3,
            sample_type: 0x1_00c7,
            read_format: 4,
            flags: flag::DISABLED | flag::BUILD_ID,
            wakeup: 5,
            branches: 8,
            user_registers: 9,
            user_stack: 10,
            clock: -6,
            registers: 11,
            aux_watermark: 7,
        };
        let bytes = attribute.write();
        assert_eq!(bytes.len(), BYTES);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!([0, 4, 8, 48, 92, 104].map(word), [8, 112, 0x300e601, 5, -6_i32 as u32, 7]);
        assert_eq!([72, 80, 88, 96].map(word), [8, 9, 10, 11]);
        assert_eq!(Attribute::read(&bytes), Some(attribute));
        assert_eq!(Attribute::read(&bytes[..63]), None);
        let first = Attribute::read(&bytes[..64]).expect("version 0");
        assert_eq!((first.config, first.config1, first.config2, first.clock), (0x300e601, 1, 0, 0));
    }
}

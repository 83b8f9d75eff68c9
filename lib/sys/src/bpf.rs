//! bpf(2): loading programs, running them once for a test, and the maps that such programs use.
//!
//! [`program`] loads programs of the kinds that are attached, [`link`](mod@link) attaches them, [`mapped`] is an array
//! map in our memory.

pub mod link;
pub mod mapped;
pub mod program;

use crate::Result;
use crate::fd::Fd;
use crate::raw::syscall;

const BPF_MAP_CREATE: usize = 0;
const BPF_MAP_LOOKUP_ELEM: usize = 1;
const BPF_MAP_UPDATE_ELEM: usize = 2;
const BPF_MAP_DELETE_ELEM: usize = 3;
const BPF_MAP_GET_NEXT_KEY: usize = 4;
const BPF_PROG_LOAD: usize = 5;
const BPF_PROG_TEST_RUN: usize = 10;

/// Types of programs, as far as they are used (`enum bpf_prog_type` of linux/bpf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramType {
    /// Looks at packets of a socket.
    SocketFilter = 1,
    /// Runs at a probe of the kernel's or of a program's code; the context is the registers.
    Kprobe = 2,
    /// Classifies packets.
    Classifier = 3,
    /// Runs at a trace event; the context is its record.
    Tracepoint = 5,
    /// Runs when an event of perf_event_open(2) overflows, and says whether that is a sample.
    PerfEvent = 7,
    /// Runs at a tracepoint; the context is its arguments.
    RawTracepoint = 17,
    /// Runs at something that the kernel's BTF describes; the context is its typed arguments.
    Tracing = 26,
}

/// The part of `union bpf_attr` for `BPF_PROG_LOAD` that every version of the kernel has.
#[repr(C)]
struct Load {
    program_type: u32,
    instructions: u32,
    first: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}
const _: () = assert!(size_of::<Load>() == 48);

/// Loads a program of `instructions`, which the kernel verifies, and returns its descriptor. It is not attached.
///
/// # Errors
/// `EPERM` without the right (`CAP_BPF`, or unprivileged programs allowed), `EINVAL` or `EACCES` when the verifier
/// refuses, `ENOSYS`.
pub fn load(program_type: ProgramType, instructions: &[u64]) -> Result<Fd> {
    let load = Load {
        program_type: program_type as u32,
        instructions: instructions.len() as u32,
        first: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    let attribute = &raw const load as usize;
    // SAFETY: the kernel reads `size_of::<Load>()` bytes of the attribute, the instructions and the licence, which all
    // outlive the call, and writes nothing: there is no log.
    let raw = unsafe { syscall(libc::SYS_bpf, [BPF_PROG_LOAD, attribute, size_of::<Load>(), 0, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// The part of `union bpf_attr` for `BPF_PROG_LOAD` up to the maps that instructions name by their index (Linux 5.14).
#[repr(C)]
struct LoadWithMaps {
    plain: Load,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: u32,
    /// Records about functions and lines, of which there are none.
    records: [u32; 11],
    maps: u64,
}
const _: () = assert!(size_of::<LoadWithMaps>() == 128 && core::mem::offset_of!(LoadWithMaps, maps) == 120);

/// Loads a program whose 16-byte loads of kind `BPF_PSEUDO_MAP_IDX` and `BPF_PSEUDO_MAP_IDX_VALUE` name `maps`. What
/// the verifier says is written to `log`, as a text with a NUL behind, unless that is empty.
///
/// # Errors
/// As [`load`]; `ENOSPC` when the log was too small.
pub fn load_with_maps(
    program_type: ProgramType,
    instructions: &[u64],
    maps: &[i32],
    log: &mut [u8],
) -> Result<Fd> {
    let plain = Load {
        program_type: program_type as u32,
        instructions: instructions.len() as u32,
        first: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: 0,
    };
    let maps = maps.as_ptr() as u64;
    let load =
        LoadWithMaps { plain, name: [0; 16], interface: 0, attach_type: 0, types: 0, records: [0; 11], maps };
    let attribute = &raw const load as usize;
    // SAFETY: the kernel reads the attribute, the instructions, the licence, and of the maps those that instructions
    // name; it writes to the log, which is exclusively borrowed, at most its length. A map's index beyond the slice
    // makes it read an `int` behind it, as it does for any wrong address: it gets a number that is a map's or is
    // refused.
    let raw =
        unsafe { syscall(libc::SYS_bpf, [BPF_PROG_LOAD, attribute, size_of::<LoadWithMaps>(), 0, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
struct TestRun {
    program: u32,
    answer: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context: [u64; 3],
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}
const _: () = assert!(size_of::<TestRun>() == 80);

/// Runs a program once on a packet of `data` (at least 14 bytes), and returns the low 32 bits of its result.
///
/// # Errors
/// `EINVAL` for a packet that is too short, `ENOTSUPP` (524) for programs of types that cannot be tried.
pub fn test_run(program: &Fd, data: &[u8]) -> Result<u32> {
    let mut run = TestRun {
        program: program.raw() as u32,
        answer: 0,
        data_size_in: data.len() as u32,
        data_size_out: 0,
        data_in: data.as_ptr() as u64,
        data_out: 0,
        repeat: 1,
        duration: 0,
        context: [0; 3],
        flags: 0,
        cpu: 0,
        batch: 0,
        padding: 0,
    };
    let attribute = &raw mut run as usize;
    // SAFETY: the kernel reads the attribute and the data, which outlive the call, and writes to the attribute only:
    // there is no place for data to come out.
    unsafe { syscall(libc::SYS_bpf, [BPF_PROG_TEST_RUN, attribute, size_of::<TestRun>(), 0, 0, 0]) }?;
    Ok(run.answer)
}

/// Kinds of maps, as far as they are used (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapType {
    /// Values by key.
    Hash = 1,
    /// Values by index; the key has 4 bytes.
    Array = 2,
    /// Programs by index, for tail calls; a value is a descriptor.
    ProgramArray = 3,
    /// Events of perf_event_open(2) by CPU, for what programs give out; a value is a descriptor.
    PerfEventArray = 4,
    /// A value for each CPU by index.
    PerCpuArray = 6,
    /// Stacks by number.
    StackTrace = 7,
    /// Control groups by index; a value is a descriptor.
    CgroupArray = 8,
    /// As `Hash`; the value that was not used for longest makes room.
    LruHash = 9,
    /// Maps by index; a value is a descriptor.
    ArrayOfMaps = 12,
    /// Records in the order in which they were written; `entries` is its bytes.
    RingBuffer = 27,
    /// A value for each task; the key is a descriptor of a process.
    TaskStorage = 29,
}

/// The array can be mapped to memory.
pub const MMAPABLE: u32 = 1 << 10;
/// Elements are allocated when they are set.
pub const NO_PREALLOC: u32 = 1;
/// The array may be put into an array of maps that was made with one of another size.
pub const INNER_MAP: u32 = 1 << 12;

/// How a map is made.
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// How it keeps its values.
    pub map_type: MapType,
    /// Bytes of a key; 0 for ring buffers.
    pub key_bytes: u32,
    /// Bytes of a value; 0 for ring buffers.
    pub value_bytes: u32,
    /// Most elements; of a ring buffer its bytes, a power of two and a multiple of a page.
    pub entries: u32,
    /// [`MMAPABLE`], [`NO_PREALLOC`] and [`INNER_MAP`], ORed.
    pub flags: u32,
    /// For maps of maps: one that looks as those in it will.
    pub inner: Option<&'a Map>,
    /// At most 15 letters, digits, `_` or `.`; shown by bpftool(8).
    pub name: &'a str,
}

/// The part of `union bpf_attr` for `BPF_MAP_CREATE` up to the name.
#[repr(C)]
struct CreateAttribute {
    sizes: [u32; 5],
    inner: u32,
    numa_node: u32,
    name: [u8; 16],
}
const _: () = assert!(size_of::<CreateAttribute>() == 44);

/// A name as the kernel takes it.
fn short_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(name.bytes().take(15)) {
        *to = if from.is_ascii_alphanumeric() || from == b'.' { from } else { b'_' };
    }
    bytes
}

/// A map of the kernel's.
#[derive(Debug)]
pub struct Map {
    fd: Fd,
    key_bytes: usize,
    value_bytes: usize,
}

/// The part of `union bpf_attr` for accesses to an element.
#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}
const _: () = assert!(size_of::<Element>() == 32);

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// `EPERM` without the right, `EINVAL` or `E2BIG` for sizes that cannot be.
    pub fn create(map_type: MapType, key_bytes: u32, value_bytes: u32, entries: u32) -> Result<Map> {
        let create = [map_type as u32, key_bytes, value_bytes, entries, 0];
        let attribute = create.as_ptr() as usize;
        // SAFETY: the kernel reads as many bytes of the attribute as it is told, and writes nothing.
        let raw =
            unsafe { syscall(libc::SYS_bpf, [BPF_MAP_CREATE, attribute, size_of_val(&create), 0, 0, 0]) }?;
        let fd = Fd::from_raw(raw as i32);
        Ok(Map { fd, key_bytes: key_bytes as usize, value_bytes: value_bytes as usize })
    }

    /// Makes a map of any kind.
    ///
    /// # Errors
    /// As [`Map::create`]; `ENOMEM` when the kernel has not as much memory, `EPERM` on kernels before 5.11 when
    /// RLIMIT_MEMLOCK is too low.
    pub fn make(create: &Create<'_>) -> Result<Map> {
        let attribute = CreateAttribute {
            sizes: [
                create.map_type as u32,
                create.key_bytes,
                create.value_bytes,
                create.entries,
                create.flags,
            ],
            inner: create.inner.map_or(0, |inner| inner.raw() as u32),
            numa_node: 0,
            name: short_name(create.name),
        };
        let attribute = &raw const attribute as usize;
        // SAFETY: the kernel reads as many bytes of the attribute as it is told, and writes nothing.
        let raw = unsafe {
            syscall(libc::SYS_bpf, [BPF_MAP_CREATE, attribute, size_of::<CreateAttribute>(), 0, 0, 0])
        }?;
        let fd = Fd::from_raw(raw as i32);
        let (key_bytes, value_bytes) = (create.key_bytes as usize, create.value_bytes as usize);
        Ok(Map { fd, key_bytes, value_bytes })
    }

    /// The same map, by another descriptor.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn duplicate(&self) -> Result<Map> {
        let fd = crate::fd::duplicate(&self.fd)?;
        Ok(Map { fd, key_bytes: self.key_bytes, value_bytes: self.value_bytes })
    }

    /// Its number, for [`load_with_maps`].
    pub fn raw(&self) -> i32 {
        self.fd.raw()
    }

    /// The descriptor by which the kernel knows it, to be passed on or waited for with poll(2).
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Removes a key.
    ///
    /// # Errors
    /// `ENOENT` when it is not there; `EINVAL` for arrays.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        if key.len() != self.key_bytes {
            return Err(crate::Errno(libc::EINVAL));
        }
        self.element(BPF_MAP_DELETE_ELEM, key.as_ptr() as u64, 0)
    }

    /// Writes the key behind `key` (the first one, for `None`) to `next`.
    ///
    /// # Errors
    /// `ENOENT` behind the last one.
    pub fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> Result<()> {
        let fits = |bytes: usize| bytes == self.key_bytes;
        if !fits(next.len()) || !key.is_none_or(|key| fits(key.len())) {
            return Err(crate::Errno(libc::EINVAL));
        }
        let key = key.map_or(0, |key| key.as_ptr() as u64);
        self.element(BPF_MAP_GET_NEXT_KEY, key, next.as_mut_ptr() as u64)
    }

    /// `key` and `value` point to as much as the command reads and writes: keys and values of this map.
    fn element(&self, command: usize, key: u64, value: u64) -> Result<()> {
        let element = Element { map: self.raw() as u32, padding: 0, key, value, flags: 0 };
        let attribute = &raw const element as usize;
        // SAFETY: the kernel reads the attribute and the key and writes the next key: as many bytes as the map's keys
        // have, which the callers have compared, and exclusively borrow for that.
        unsafe { syscall(libc::SYS_bpf, [command, attribute, size_of::<Element>(), 0, 0, 0]) }.map(drop)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `EINVAL` when key or value have other sizes than the map's, `E2BIG` when it is full.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.access(BPF_MAP_UPDATE_ELEM, key, value.as_ptr() as u64, value.len())
    }

    /// Copies the value of a key.
    ///
    /// # Errors
    /// `EINVAL` when key or value have other sizes than the map's, `ENOENT` when there is none.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<()> {
        self.access(BPF_MAP_LOOKUP_ELEM, key, value.as_mut_ptr() as u64, value.len())
    }

    /// `value` points to `bytes`, to be read or written.
    fn access(&self, command: usize, key: &[u8], value: u64, bytes: usize) -> Result<()> {
        if key.len() != self.key_bytes || bytes != self.value_bytes {
            return Err(crate::Errno(libc::EINVAL));
        }
        let element =
            Element { map: self.raw() as u32, padding: 0, key: key.as_ptr() as u64, value, flags: 0 };
        let attribute = &raw const element as usize;
        // SAFETY: the kernel reads the attribute and the key, and reads or writes the value: as many bytes as the map's
        // keys and values have, which was compared. Its caller borrows the value for that.
        unsafe { syscall(libc::SYS_bpf, [command, attribute, size_of::<Element>(), 0, 0, 0]) }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_loaded_or_refused_for_a_reason() {
        // `r0 = 0; exit`, and `exit` with nothing in r0, which the verifier refuses.
        let good = load(ProgramType::SocketFilter, &[0xb7, 0x95]);
        if good == Err(crate::Errno(libc::EPERM)) {
            return mote_skip::skip("bpf(2) is not permitted");
        }
        assert!(good.is_ok(), "{good:?}");
        assert_eq!(load(ProgramType::SocketFilter, &[0x95]), Err(crate::Errno(libc::EACCES)));
        assert_eq!(load(ProgramType::SocketFilter, &[]), Err(crate::Errno(libc::E2BIG)));
    }

    /// `*(u64 *)(map 0, value 0) = 7; r0 = 5; exit`
    #[test]
    fn programs_run_and_write_to_maps() {
        let map = match Map::create(MapType::Array, 4, 8, 1) {
            Err(crate::Errno(libc::EPERM)) => return,
            map => map.expect("root may"),
        };
        let insns = [0x6118, 0, 0x7_0000_017a, 0x5_0000_00b7, 0x95];
        let program =
            load_with_maps(ProgramType::Classifier, &insns, &[map.raw()], &mut []).expect("harmless");
        assert_eq!(test_run(&program, &[0; 14]), Ok(5));
        let mut value = [0; 8];
        assert_eq!(map.lookup(&[0; 4], &mut value), Ok(()));
        assert_eq!(value, 7u64.to_ne_bytes());
        assert_eq!(map.lookup(&[0; 3], &mut value), Err(crate::Errno(libc::EINVAL)));
        let mut log = [0; 4096];
        let refused = load_with_maps(ProgramType::Classifier, &[0x95], &[], &mut log);
        assert_eq!(refused.err(), Some(crate::Errno(libc::EACCES)));
        assert!(log.windows(8).any(|part| part == b"R0 !read"), "the verifier explains");
    }
}

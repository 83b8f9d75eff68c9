//! Loading programs that are to be attached, and what the kernel knows of them.

use super::{BPF_PROG_LOAD, BPF_PROG_TEST_RUN, Load, LoadWithMaps, ProgramType, TestRun, short_name};
use crate::Result;
use crate::fd::Fd;
use crate::raw::syscall;

const BPF_OBJ_GET_INFO_BY_FD: usize = 15;

/// What `BPF_PROG_LOAD` is told of a program (bpf(2)).
#[derive(Clone, Copy, Debug)]
pub struct Loading<'a> {
    /// To what it may be attached, which also decides what it finds in `r1`.
    pub program_type: ProgramType,
    /// For `Tracing`: how it will be attached (`BPF_TRACE_RAW_TP` and the like), else 0.
    pub attach_type: u32,
    /// For `Tracing`: the type in the kernel's BTF to which it is attached, else 0.
    pub attach_btf_id: u32,
    /// At most 15 letters, digits, `_` or `.`.
    pub name: &'a str,
    /// Its instructions, 8 bytes each in this machine's byte order.
    pub instructions: &'a [u64],
    /// Descriptors of the maps that 16-byte loads name by their index here.
    pub maps: &'a [i32],
}

/// Loads a program. What the verifier says is written to `log`, as a text with a NUL behind, unless that is empty.
///
/// # Errors
/// As [`super::load_with_maps`]; `ENOENT` or `EINVAL` for a wrong `attach_btf_id`.
pub fn load(loading: &Loading<'_>, log: &mut [u8]) -> Result<Fd> {
    let plain = Load {
        program_type: loading.program_type as u32,
        instructions: loading.instructions.len() as u32,
        first: loading.instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: 0,
    };
    // Of the words from `func_info_rec_size` on, the 8th is `attach_btf_id` (offset 108).
    let mut records = [0; 11];
    records[8] = loading.attach_btf_id;
    let attribute = LoadWithMaps {
        plain,
        name: short_name(loading.name),
        interface: 0,
        attach_type: loading.attach_type,
        types: 0,
        records,
        maps: loading.maps.as_ptr() as u64,
    };
    let (at, bytes) = (&raw const attribute as usize, size_of::<LoadWithMaps>());
    // SAFETY: as in `load_with_maps`: the kernel reads the attribute and what it points to, and writes to the log only,
    // which is exclusively borrowed.
    let raw = unsafe { syscall(libc::SYS_bpf, [BPF_PROG_LOAD, at, bytes, 0, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Runs a program of type `RawTracepoint` once, here and in the calling thread, with these arguments. Returns the low
/// 32 bits of its result.
///
/// # Errors
/// `EINVAL` for more arguments than the program may read, `ENOTSUPP` (524) on kernels before 5.10.
pub fn run_here(program: &Fd, arguments: &[u64]) -> Result<u32> {
    let from = if arguments.is_empty() { 0 } else { arguments.as_ptr() as u64 };
    let mut run = TestRun {
        program: program.raw() as u32,
        answer: 0,
        data_size_in: 0,
        data_size_out: 0,
        data_in: 0,
        data_out: 0,
        repeat: 0,
        duration: 0,
        context: [size_of_val(arguments) as u64, from, 0],
        flags: 0,
        cpu: 0,
        batch: 0,
        padding: 0,
    };
    let attribute = &raw mut run as usize;
    // SAFETY: the kernel reads the attribute and the arguments, which outlive the call, and writes to the attribute
    // only.
    unsafe { syscall(libc::SYS_bpf, [BPF_PROG_TEST_RUN, attribute, size_of::<TestRun>(), 0, 0, 0]) }?;
    Ok(run.answer)
}

/// `struct bpf_prog_info` up to `attach_btf_id`.
#[repr(C)]
struct Info {
    words: [u64; INFO_WORDS],
}
const INFO_WORDS: usize = 29;
/// `recursion_misses` is the word at offset 208.
const MISSES: usize = 26;

/// The part of `union bpf_attr` for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct InfoAttribute {
    object: u32,
    bytes: u32,
    info: u64,
}

/// How often the program was not run, because it, or another program where only one may run, was running on that CPU.
///
/// # Errors
/// `EINVAL` on very old kernels.
pub fn missed_runs(program: &Fd) -> Result<u64> {
    let mut info = Info { words: [0; INFO_WORDS] };
    let bytes = size_of::<Info>() as u32;
    let attribute = InfoAttribute { object: program.raw() as u32, bytes, info: &raw mut info as u64 };
    let (at, len) = (&raw const attribute as usize, size_of::<InfoAttribute>());
    // SAFETY: the kernel reads and writes at most `bytes` bytes of `info` and the attribute itself; the pointers and
    // counts in `info` are 0, so that it writes nowhere else.
    unsafe { syscall(libc::SYS_bpf, [BPF_OBJ_GET_INFO_BY_FD, at, len, 0, 0, 0]) }?;
    Ok(info.words[MISSES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;

    /// `r0 = (u32)bpf_get_current_pid_tgid(); exit`
    #[test]
    fn programs_run_in_the_calling_thread() {
        let loading = Loading {
            program_type: ProgramType::RawTracepoint,
            attach_type: 0,
            attach_btf_id: 0,
            name: "own thread",
            instructions: &[0xe_0000_0085, 0x95],
            maps: &[],
        };
        let program = match load(&loading, &mut []) {
            Err(Errno(libc::EPERM)) => return,
            program => program.expect("harmless"),
        };
        assert_eq!(run_here(&program, &[]).map(|tid| tid as i32), Ok(crate::process::tid()));
        assert_eq!(missed_runs(&program), Ok(0));
    }
}

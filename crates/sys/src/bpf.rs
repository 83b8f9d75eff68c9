//! bpf(2): loading a program.

use crate::Result;
use crate::fd::Fd;
use crate::raw::syscall;

const BPF_PROG_LOAD: usize = 5;

/// Types of programs, as far as they are used (`enum bpf_prog_type` of linux/bpf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramType {
    /// Looks at packets of a socket.
    SocketFilter = 1,
    /// Runs at a tracepoint of the kernel.
    Tracepoint = 5,
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

/// Loads a program of `instructions`, which the kernel verifies, and answers its descriptor. It is not attached.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_loaded_or_refused_for_a_reason() {
        // `r0 = 0; exit`, and `exit` with nothing in r0, which the verifier refuses.
        let good = load(ProgramType::SocketFilter, &[0xb7, 0x95]);
        if good == Err(crate::Errno(libc::EPERM)) {
            return;
        }
        assert!(good.is_ok(), "{good:?}");
        assert_eq!(load(ProgramType::SocketFilter, &[0x95]), Err(crate::Errno(libc::EACCES)));
        assert_eq!(load(ProgramType::SocketFilter, &[]), Err(crate::Errno(libc::E2BIG)));
    }
}

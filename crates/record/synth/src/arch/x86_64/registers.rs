//! Where a stopped thread is, and the frame that the kernel makes for a signal's handler.

use iced_x86::{Code, Decoder, DecoderOptions, OpKind, Register};
use mote_sys::{Result, ptrace};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where a handler's frame has the interrupted instruction's address, from the `ucontext` on: `uc_flags`, `uc_link`,
/// `uc_stack`, then 16 registers (arch/x86/include/uapi/asm/sigcontext.h).
const SAVED_RIP: u64 = 40 + 16 * 8;

/// The registers of a stopped thread.
#[derive(Clone, Copy)]
pub(crate) struct Registers(libc::user_regs_struct);

impl Registers {
    /// Reads them.
    ///
    /// # Errors
    /// As `ptrace::registers`.
    pub(crate) fn of(tid: i32) -> Result<Registers> {
        ptrace::registers(tid).map(Registers)
    }

    /// The address of the next instruction.
    pub(crate) fn instruction(&self) -> u64 {
        self.0.rip
    }

    /// The number of the system call that it is about to make.
    pub(crate) fn call_number(&self) -> i64 {
        self.0.rax as i64
    }

    /// Has the system call that it is about to make be one that no kernel has.
    ///
    /// # Errors
    /// As `ptrace::set_registers`.
    pub(crate) fn call_nothing(&self, tid: i32) -> Result<()> {
        ptrace::set_registers(tid, &libc::user_regs_struct { rax: u64::MAX, ..self.0 })
    }

    /// Where the interrupted instruction's address would be if a handler of this signal is about to begin: its frame
    /// is a return address and the `ucontext`, which is the third argument.
    pub(crate) fn handler_saved(&self, signal: i32) -> Option<u64> {
        let begins = self.0.rdi as i32 == signal && self.0.rdx == self.0.rsp.wrapping_add(8);
        begins.then(|| self.0.rdx.wrapping_add(SAVED_RIP))
    }

    /// Has the thread go on at another instruction.
    ///
    /// # Errors
    /// As `ptrace::set_registers`.
    pub(crate) fn go_to(&self, tid: i32, instruction: u64) -> Result<()> {
        ptrace::set_registers(tid, &libc::user_regs_struct { rip: instruction, ..self.0 })
    }

    /// What the PTWRITE that is next writes, and whether that has 8 bytes; `None` where its memory cannot be read.
    pub(crate) fn data(&self, bytes: &[u8], memory: &File) -> Option<(u64, bool)> {
        let ptwrite = Decoder::with_ip(64, bytes, self.0.rip, DecoderOptions::NONE).decode();
        let is_wide = ptwrite.code() == Code::Ptwrite_rm64;
        let value = match ptwrite.op0_kind() {
            OpKind::Register => self.value(ptwrite.op0_register())?,
            _ => {
                let address = ptwrite.virtual_address(0, 0, |register, _, _| self.value(register))?;
                let mut value = [0; 8];
                memory.read_exact_at(value.get_mut(..if is_wide { 8 } else { 4 })?, address).ok()?;
                u64::from_le_bytes(value)
            }
        };
        Some((if is_wide { value } else { value & 0xffff_ffff }, is_wide))
    }

    /// The value of a register, or the base of a segment.
    fn value(&self, register: Register) -> Option<u64> {
        let all = &self.0;
        Some(match register.full_register() {
            Register::RAX => all.rax,
            Register::RBX => all.rbx,
            Register::RCX => all.rcx,
            Register::RDX => all.rdx,
            Register::RSI => all.rsi,
            Register::RDI => all.rdi,
            Register::RBP => all.rbp,
            Register::RSP => all.rsp,
            Register::R8 => all.r8,
            Register::R9 => all.r9,
            Register::R10 => all.r10,
            Register::R11 => all.r11,
            Register::R12 => all.r12,
            Register::R13 => all.r13,
            Register::R14 => all.r14,
            Register::R15 => all.r15,
            Register::FS => all.fs_base,
            Register::GS => all.gs_base,
            Register::CS | Register::DS | Register::ES | Register::SS => 0,
            _ => return None,
        })
    }
}

//! One thread that is stepped: what its stops say about what it has executed.

use crate::arch::{INSTRUCTION_MAX, Instruction, Kind, Registers};
use crate::error::{Error, cannot};
use crate::fact::{Exit, Fact};
use crate::gather::Gather;
use crate::maps::Mapping;
use crate::observer::{Note, Observer};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// System calls after which a process may have other code mapped.
const MAPPING_CALLS: [i64; 5] =
    [libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_pkey_mprotect];

/// Signals of instructions that have failed.
const FAULTS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// A thread.
pub(super) struct Thread {
    tid: i32,
    pub(super) pid: i32,
    memory: File,
    /// Where it is, and the instruction there; `None` before its first stop, and where nothing can be executed.
    at: Option<(u64, Option<Instruction>)>,
    /// What the PTWRITE there is about to write.
    data: Option<(u64, bool)>,
    run: Gather,
    /// It is in the kernel: it goes on by a return from there.
    is_in_kernel: bool,
    /// The signal that it was given with its last step.
    given: i32,
    /// The system call that it is about to make.
    call: i64,
    /// Code of files.
    mappings: Vec<(u64, u64)>,
    /// Instructions that it has met, with the bytes from there on.
    known: HashMap<u64, ([u8; INSTRUCTION_MAX], Instruction)>,
}

impl Thread {
    pub(super) fn new(tid: i32, pid: i32) -> Result<Thread, Error> {
        let path = format!("/proc/{tid}/mem");
        let memory = File::open(&path).map_err(cannot(format!("read {path}")))?;
        Ok(Thread {
            tid,
            pid,
            memory,
            at: None,
            data: None,
            run: Gather::default(),
            is_in_kernel: true,
            given: 0,
            call: 0,
            mappings: Vec::new(),
            known: HashMap::new(),
        })
    }

    pub(super) fn set_mappings(&mut self, mappings: &[Mapping]) {
        let of_files = mappings.iter().filter(|mapping| mapping.path.is_some());
        self.mappings = of_files.map(|mapping| (mapping.start, mapping.end)).collect();
    }

    /// Whether it is about to change what is mapped.
    pub(super) fn has_mapped(&self) -> bool {
        let is_call = matches!(self.at, Some((_, Some(Instruction { kind: Kind::System, .. }))));
        is_call && MAPPING_CALLS.contains(&self.call)
    }

    /// Whether it is about to ask for restartable sequences, which no step lets get through.
    pub(super) fn asks_for_rseq(&self) -> bool {
        let is_call = matches!(self.at, Some((_, Some(Instruction { kind: Kind::System, .. }))));
        is_call && self.call == libc::SYS_rseq
    }

    /// Takes a stop by a signal, SIGTRAP behind a step. Returns the signal that the thread is to get.
    pub(super) fn stopped(
        &mut self,
        registers: &Registers,
        signal: i32,
        observer: &mut dyn Observer,
    ) -> Result<i32, Error> {
        let given = std::mem::replace(&mut self.given, 0);
        let now = registers.instruction();
        if let Some((ip, Some(ptwrite @ Instruction { kind: Kind::Data, .. }))) = self.at
            && signal == libc::SIGILL
            && now == ip
        {
            // This processor has no PTWRITE: the one that would write the packets has.
            let next = ip.wrapping_add(u64::from(ptwrite.length));
            registers.go_to(self.tid, next)?;
            self.executed(ip, ptwrite, next, observer)?;
            return Ok(0);
        }
        if let Some((ip, Some(instruction))) = self.at {
            if instruction.kind == Kind::Trap && signal == libc::SIGTRAP && now != ip {
                self.interrupt(ip, observer)?;
                self.given = signal;
                return Ok(signal);
            }
            if given != 0 && self.begins_handler(registers, given, ip) {
                self.interrupt(ip, observer)?;
            } else if now != ip || (signal == libc::SIGTRAP && instruction.leads_to_itself(ip)) {
                self.executed(ip, instruction, now, observer)?;
            }
        } else if let Some((ip, None)) = self.at
            && now != ip
            && given == 0
        {
            let why = "the thread has executed an instruction that is not known, or a far branch";
            return Err(Error::Code { tid: self.tid, ip, why });
        }
        if FAULTS.contains(&signal) && self.at.is_some_and(|(ip, _)| ip == now) {
            // The instruction was tried: the thread was back, if it was in the kernel.
            self.enter(now, observer)?;
            self.interrupt(now, observer)?;
        }
        let signal = if signal == libc::SIGTRAP { 0 } else { signal };
        self.given = signal;
        Ok(signal)
    }

    /// Looks at the instruction that is to be executed next.
    pub(super) fn look(&mut self, registers: &Registers, observer: &mut dyn Observer) -> Result<(), Error> {
        let ip = registers.instruction();
        self.call = registers.call_number();
        if self.at.is_some_and(|(at, instruction)| at == ip && instruction.is_some() && !self.is_in_kernel) {
            return Ok(());
        }
        let mut bytes = [0; INSTRUCTION_MAX];
        let count = self.memory.read_at(&mut bytes, ip).unwrap_or(0);
        if let Some((known, instruction)) = self.known.get(&ip)
            && *known == bytes
        {
            self.at = Some((ip, Some(*instruction)));
            self.data = self.data_at(registers, &bytes);
            return Ok(());
        }
        let read = bytes.get(..count).unwrap_or_default();
        let instruction = Instruction::decode(read, ip);
        if let Some(instruction) = instruction {
            self.known.insert(ip, (bytes, instruction));
        }
        self.at = Some((ip, instruction));
        self.data = self.data_at(registers, read);
        match instruction {
            Some(Instruction { length, .. }) if !self.is_of_file(ip) => {
                self.report_code(ip, read.get(..length.into()).unwrap_or_default(), observer)
            }
            _ => Ok(()),
        }
    }

    /// What is written by the PTWRITE that is next, if it is one.
    fn data_at(&self, registers: &Registers, bytes: &[u8]) -> Option<(u64, bool)> {
        match self.at {
            Some((_, Some(Instruction { kind: Kind::Data, .. }))) => registers.data(bytes, &self.memory),
            _ => None,
        }
    }

    /// The process has become another program.
    pub(super) fn becomes(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        if let Some((ip, Some(instruction @ Instruction { kind: Kind::System, .. }))) = self.at {
            self.executed(ip, instruction, ip, observer)?;
        }
        let path = format!("/proc/{}/mem", self.tid);
        self.memory = File::open(&path).map_err(cannot(format!("read {path}")))?;
        self.at = None;
        self.is_in_kernel = true;
        self.known.clear();
        Ok(())
    }

    /// The thread has ended: by a system call of its own, or wherever it was.
    pub(super) fn ends(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        match self.at {
            Some((ip, Some(instruction @ Instruction { kind: Kind::System, .. }))) => {
                self.executed(ip, instruction, ip, observer)
            }
            Some((ip, _)) => self.interrupt(ip, observer),
            None => Ok(()),
        }
    }

    /// Whether a handler of the signal is about to begin, and the thread was at `ip`: its frame says so. A system call
    /// that begins again afterwards has been stepped back over.
    fn begins_handler(&self, registers: &Registers, signal: i32, ip: u64) -> bool {
        let Some(place) = registers.handler_saved(signal) else { return false };
        let mut saved = [0; 8];
        let is_read = self.memory.read_exact_at(&mut saved, place).is_ok();
        let saved = u64::from_le_bytes(saved);
        is_read && (saved == ip || self.is_in_kernel)
    }

    fn executed(
        &mut self,
        ip: u64,
        instruction: Instruction,
        to: u64,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.enter(ip, observer)?;
        if !self.run.takes(ip) {
            self.flush(Exit::Plain, observer)?;
        }
        self.run.push(ip, instruction.length);
        let exit = instruction.exit(ip, to).map_err(|_| Error::Code {
            tid: self.tid,
            ip,
            why: "the thread went on where this instruction does not lead",
        })?;
        if exit != Exit::Plain || to != self.run.next() {
            self.flush_to(exit, to, observer)?;
        }
        self.is_in_kernel = exit == Exit::System;
        if let Some((value, is_wide)) = self.data.take().filter(|_| instruction.kind == Kind::Data) {
            self.flush(Exit::Plain, observer)?;
            observer.fact(self.tid, &Fact::Data { ip, value, is_wide })?;
        }
        Ok(())
    }

    /// An exception or a signal, in front of an instruction, unless the kernel is there already.
    fn interrupt(&mut self, ip: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        if !self.is_in_kernel {
            self.flush(Exit::Plain, observer)?;
            observer.fact(self.tid, &Fact::Interrupt(ip))?;
            self.is_in_kernel = true;
        }
        Ok(())
    }

    /// Comes back from the kernel, if it was there.
    fn enter(&mut self, ip: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_in_kernel, false) {
            observer.fact(self.tid, &Fact::Enter(ip))?;
        }
        Ok(())
    }

    fn flush(&mut self, exit: Exit, observer: &mut dyn Observer) -> Result<(), Error> {
        self.flush_to(exit, self.run.next(), observer)
    }

    fn flush_to(&mut self, exit: Exit, to: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        if let Some(run) = self.run.run(exit, to) {
            observer.fact(self.tid, &Fact::Run(run))?;
        }
        self.run.clear();
        Ok(())
    }

    fn is_of_file(&self, ip: u64) -> bool {
        self.mappings.iter().any(|(start, end)| (*start..*end).contains(&ip))
    }

    fn report_code(&mut self, ip: u64, bytes: &[u8], observer: &mut dyn Observer) -> Result<(), Error> {
        observer.note(self.tid, &Note::Code { pid: self.pid, start: ip, bytes: bytes.to_owned() })
    }
}

//! Loading programs: the kernel's verifier, and its words when it refuses.

use crate::privilege;
use crate::session::Error;
use mote_bpf::Insn;
use mote_sys::Errno;
use mote_sys::bpf::program::{Loading, load, missed_runs, run_here};
use mote_sys::bpf::{Map, ProgramType, link};
use mote_sys::fd::Fd;

/// What a program is, for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At the tracepoint that this BTF type describes.
    Typed(u32),
    /// At a tracepoint, with untyped arguments.
    Raw,
    /// At a trace event.
    Tracepoint,
    /// At a probe of code.
    Probe,
    /// At many probes of code (Linux 6.6).
    Probes,
}

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    fd: Fd,
}

/// Bytes for what the verifier says: of a refused program, the last part counts, and the kernel keeps that (Linux 6.4).
const LOG_BYTES: usize = 4 << 20;
/// Lines of it that are shown.
const LINES: usize = 12;

impl Program {
    /// Loads a program whose instructions name maps by their place in `maps`.
    ///
    /// # Errors
    /// [`Error::Privilege`], [`Error::Verifier`], [`Error::Memory`].
    pub fn load(event: &str, kind: Kind, insns: &[Insn], maps: &[&Map]) -> Result<Program, Error> {
        let words: Vec<u64> = insns.iter().map(|insn| u64::from_le_bytes(insn.to_bytes())).collect();
        let maps: Vec<i32> = maps.iter().map(|map| map.raw()).collect();
        let (program_type, attach_type, attach_btf_id) = match kind {
            Kind::Typed(id) => (ProgramType::Tracing, link::TRACE_RAW_TP, id),
            Kind::Raw => (ProgramType::RawTracepoint, 0, 0),
            Kind::Tracepoint => (ProgramType::Tracepoint, 0, 0),
            Kind::Probe => (ProgramType::Kprobe, 0, 0),
            Kind::Probes => (ProgramType::Kprobe, link::TRACE_UPROBE_MULTI, 0),
        };
        let name = event.rsplit(':').next().unwrap_or(event);
        let loading =
            Loading { program_type, attach_type, attach_btf_id, name, instructions: &words, maps: &maps };
        match load(&loading, &mut []) {
            Ok(fd) => Ok(Program { fd }),
            Err(errno) => Err(refused(event, errno, &loading)),
        }
    }

    /// Its descriptor.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// How often it was due and did not run, because it was running already on that CPU.
    pub fn missed(&self) -> u64 {
        missed_runs(&self.fd).unwrap_or(0)
    }

    /// Runs it once in the calling thread; for [`Kind::Raw`].
    pub(crate) fn run(&self) -> Result<u32, Errno> {
        run_here(&self.fd, &[])
    }
}

fn refused(event: &str, errno: Errno, loading: &Loading<'_>) -> Error {
    if let Some(missing) = privilege::of(errno, "load programs into the kernel (bpf(2))") {
        return Error::Privilege(missing);
    }
    let mut log = vec![0; LOG_BYTES];
    let _ = load(loading, &mut log);
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(log.get(..end).unwrap_or_default());
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let said = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
    let said = if said.is_empty() { "nothing".to_owned() } else { said };
    Error::Verifier { event: event.to_owned(), errno, said }
}

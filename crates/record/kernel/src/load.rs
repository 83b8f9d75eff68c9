//! Loading programs: the kernel's verifier, and its words when it refuses.

use crate::Error;
use crate::privilege;
use mote_bpf::Insn;
use mote_generate::Access;
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
    /// At the entry or the return of the kernel's function that this BTF type describes.
    Function {
        /// The type's number.
        btf_id: u32,
        /// At its return.
        returns: bool,
    },
    /// At a trace event.
    Tracepoint,
    /// Run for each object that the iterator with this BTF type is about.
    Iterator(u32),
    /// At a probe of code.
    Probe,
    /// At many probes of code (Linux 6.6).
    Probes,
}

impl Kind {
    /// How a program for this kind of context is loaded.
    pub(crate) fn of(access: Access, btf_id: Option<u32>) -> Kind {
        match access {
            Access::Typed | Access::TypedCall => btf_id.map_or(Kind::Raw, Kind::Typed),
            Access::Raw | Access::RawCall => Kind::Raw,
            Access::Record => Kind::Tracepoint,
            Access::Probe | Access::Function => Kind::Probe,
        }
    }
}

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    fd: Fd,
}

/// Bytes for what the verifier says: of a refused program, the last part counts, and the kernel keeps that (Linux 6.4).
const LOG_BYTES: usize = 4 << 20;
/// Lines of it that are shown, without the statistics at its end: the instruction, and what is wrong with it.
const LINES: usize = 3;
/// Letters of each.
const LETTERS: usize = 120;

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
            Kind::Function { btf_id, returns: false } => (ProgramType::Tracing, link::TRACE_FENTRY, btf_id),
            Kind::Function { btf_id, returns: true } => (ProgramType::Tracing, link::TRACE_FEXIT, btf_id),
            Kind::Iterator(id) => (ProgramType::Tracing, link::TRACE_ITER, id),
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

    /// The descriptor of the program in the kernel, for attaching it.
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
    if errno == Errno(libc::EMFILE) {
        let hint = "raise the limit of open files (ulimit -n)";
        return Error::Attach { event: event.to_owned(), errno, hint };
    }
    let mut log = vec![0; LOG_BYTES];
    let _ = load(loading, &mut log);
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let said = last_words(&String::from_utf8_lossy(log.get(..end).unwrap_or_default()));
    Error::Verifier { event: event.to_owned(), errno, said }
}

/// The end of what the verifier says, on one line.
fn last_words(text: &str) -> String {
    let says = |line: &&str| {
        // What it has counted, and which functions it has looked at.
        let counts = ["processed ", "verification time ", "stack depth ", "peak_states "];
        !line.is_empty() && !counts.iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<String> =
        text.lines().map(str::trim).filter(says).map(|line| line.chars().take(LETTERS).collect()).collect();
    match lines.get(lines.len().saturating_sub(LINES)..) {
        Some(last) if !last.is_empty() => last.join(" | "),
        _ => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn the_verifiers_last_words_are_one_short_line() {
        let log = format!(
            "func#0 @0\n0: R1=ctx() R10=fp0\n0: (bf) r6 = r1\n\n1: (79) r1 = *(u64 *)(r6 +9000)\n{}\nprocessed 2 insns (limit 1000000) max_states_per_insn 0\n",
            "x".repeat(300)
        );
        let expected = format!("0: (bf) r6 = r1 | 1: (79) r1 = *(u64 *)(r6 +9000) | {}", "x".repeat(120));
        assert_eq!(last_words(&log), expected);
        assert_eq!(last_words("verification time 5 usec\n"), "nothing");
        assert_eq!(last_words(""), "nothing");
    }
}

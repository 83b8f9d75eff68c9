//! The protocol of the public conformance suite (github.com/Alan-Jowett/bpf_conformance, `README.md`, `libbpf_plugin`).
//!
//! The suite starts a plugin for each case: byte code as hexadecimal digits on standard input, the memory likewise as
//! the first argument that is no option (it may be missing or empty), `r0` in hexadecimal without `0x` on standard
//! output. `--program HEX` gives the byte code as an argument instead, `--elf` says that it is an object of which the
//! first program is meant.

use crate::case::insns;
use crate::ours::{self, Trust};
use crate::{Answer, Input, hex};
use mote_assembler::elf::Object;
use mote_vm::Engine;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Byte code; from standard input when there is none.
    pub program: Option<String>,
    /// The bytes that `r1` will point to, in hexadecimal.
    pub memory: String,
    /// The byte code is an ELF object.
    pub elf: bool,
    /// Whether the interpreter or the JIT runs it.
    pub engine: Engine,
    /// Whether it is verified first.
    pub trust: Trust,
}

/// What `bpf-run --help` prints, and where wrong words lead.
pub const USAGE: &str = "usage: bpf-run [MEMORY] [--jit] [--verify] [--program HEX] [--elf] < HEX
Runs eBPF byte code, and prints r0 in hexadecimal.
  MEMORY          bytes that r1 points to, in hexadecimal; r2 is their number
  --jit           run it as machine code, not in the interpreter
  --verify        verify it first, and run it only when it is accepted; without, it can do anything
  --program HEX   the byte code, instead of standard input
  --elf           the byte code is an ELF object; its first program is run";

/// Reads the command line (without the program's name); nothing when help is asked for.
///
/// # Errors
/// What is wrong with it.
pub fn request(args: impl IntoIterator<Item = String>) -> Result<Option<Request>, String> {
    let mut args = args.into_iter();
    let (mut program, mut memory) = (None, None);
    let (mut elf, mut engine, mut trust) = (false, Engine::Interpreter, Trust::Unverified);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--help" => return Ok(None),
            "--jit" => engine = Engine::Jit,
            "--verify" => trust = Trust::Verified,
            "--elf" => elf = true,
            "--program" => program = Some(args.next().ok_or("--program needs byte code behind it")?),
            option if option.starts_with('-') => return Err(format!("unknown option {option}\n{USAGE}")),
            _ if memory.is_none() => memory = Some(arg),
            _ => return Err(format!("one argument too many: {arg}\n{USAGE}")),
        }
    }
    Ok(Some(Request { program, memory: memory.unwrap_or_default(), elf, engine, trust }))
}

/// The input that byte code and memory are, as hexadecimal digits.
///
/// # Errors
/// What is wrong with them.
pub fn input(program: &str, memory: &str, elf: bool) -> Result<Input, String> {
    let bytes = hex::decode(program).map_err(|error| format!("byte code: {error}"))?;
    let memory = hex::decode(memory).map_err(|error| format!("memory: {error}"))?;
    if !elf {
        let insns = insns(&bytes).map_err(|error| format!("byte code: {error}"))?;
        return Ok(Input::new(insns, memory));
    }
    let mut object = Object::read(&bytes, &[]).map_err(|error| error.to_string())?;
    let maps = object.shapes();
    let initial = object.maps.into_iter().map(|map| map.initial).collect();
    // An object without programs is an error already.
    let insns = object.programs.drain(..1).flat_map(|program| program.insns).collect();
    Ok(Input { maps, initial, ..Input::new(insns, memory) })
}

/// Runs the input, and returns what is printed.
///
/// # Errors
/// Why there is no result.
///
/// # Safety
/// A program that is not verified must be harmless: see [`ours::run`].
#[allow(unsafe_code)]
pub unsafe fn run(input: &Input, request: &Request) -> Result<String, String> {
    // SAFETY: as our caller's.
    match unsafe { ours::run(input, request.engine, request.trust) } {
        Answer::Ran(outcome) => Ok(format!("{:x}", outcome.r0)),
        Answer::Refused(why) => Err(format!("refused: {why}")),
        Answer::Faulted(why) => Err(format!("fault: {why}")),
        Answer::Missing(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Option<Request>, String> {
        request(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn the_command_line_is_the_suites() {
        let one = parse(&["aa bb", "--jit"]).unwrap().unwrap();
        assert_eq!((one.memory.as_str(), one.engine, one.trust), ("aa bb", Engine::Jit, Trust::Unverified));
        let one = parse(&["--program", "95", "", "--verify", "--elf"]).unwrap().unwrap();
        assert_eq!((one.program.as_deref(), one.memory.as_str(), one.elf), (Some("95"), "", true));
        assert_eq!(one.trust, Trust::Verified);
        assert_eq!(parse(&["--help"]), Ok(None));
        assert!(parse(&["--frob"]).is_err() && parse(&["a", "b"]).is_err() && parse(&["--program"]).is_err());
    }

    #[test]
    fn broken_input_is_told() {
        assert_eq!(input("95", "", false), Err("byte code: 1 bytes are not whole instructions of 8".into()));
        assert!(input("zz", "", false).is_err_and(|error| error.starts_with("byte code: character 1")));
        assert!(input("", "abc", false).is_err_and(|error| error.starts_with("memory:")));
        assert!(input("7f454c46", "", true).is_err_and(|error| error.starts_with("not a whole ELF file")));
    }
}

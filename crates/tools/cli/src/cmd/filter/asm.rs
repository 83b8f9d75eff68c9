//! The machine code of a program, annotated with its instructions.

use crate::arch;
use anyhow::anyhow;
use mote_bpf::disassemble::line;
use mote_bpf::environment::STEPS_MAX;
use mote_bpf::verify::verify_traced;
use mote_bpf::{Entry, Environment, Insn, helper};
use mote_filter::Maps;
use mote_jit::{Frame, Function, HelperPlace, Input, MapPlace, native, workspace_words};
use mote_layout::context;
use mote_layout::cooperation::READABLE_BYTES;
use mote_layout::parse::Description;
use mote_layout::tracer;
use std::fmt::Write;

/// Where helpers and maps are made out to be: their numbers can be told from the addresses.
const HELPERS: u64 = 0x1_0000_0000;
const MAPS: u64 = 0x2_0000_0000;
/// Bytes between two of them.
const STRIDE: u64 = 0x1_0000;

/// Verifies and compiles the program; each instruction above the machine code that was made of it.
pub(super) fn listing(insns: &[Insn], event: &Description<'_>, maps: &Maps) -> anyhow::Result<String> {
    let words: Vec<_> = context::words(event).collect();
    let shapes = maps.shapes();
    let env = Environment {
        entry: Entry::Context(&words),
        maps: &shapes,
        helpers: tracer::HELPERS,
        steps_max: STEPS_MAX,
    };
    let mut room = mote_vm::workspace().map_err(|error| anyhow!("no memory for the verifier: {error:?}"))?;
    let (verified, _) = verify_traced(insns, &env, READABLE_BYTES as u32, &mut room)
        .map_err(|why| anyhow!("the verifier refuses the filter: {why}"))?;
    let functions: Vec<Function> = verified
        .functions()
        .iter()
        .map(|function| Function {
            start: function.start() as u32,
            stack_bytes: function.stack_bytes() as u32,
        })
        .collect();
    let places: Vec<MapPlace> = (0..shapes.len() as u64)
        .map(|at| MapPlace { descriptor: MAPS + at * STRIDE, values: MAPS + at * STRIDE + STRIDE / 2 })
        .collect();
    let place = |id: u32| {
        env.helper(id).map(|_| HelperPlace { address: HELPERS + u64::from(id) * 16, faults: faults(id) })
    };
    let input = Input { insns, functions: &functions, maps: &places, helper: &place, base: HELPERS / 2 };
    let (code, offsets) = compiled(&input, native::bytes_max(insns.len(), functions.len()))?;
    Ok(annotated(insns, &env, &code, &offsets))
}

/// The machine code, which may have so many bytes, and where in it the code of each instruction begins.
fn compiled(input: &Input<'_>, bytes_max: usize) -> anyhow::Result<(Vec<u8>, Vec<u32>)> {
    let mut code = vec![0; bytes_max];
    let mut workspace = vec![0; workspace_words(input.insns.len())];
    let mut frames = vec![Frame::default(); input.functions.len()];
    let made = native::compile(input, &mut code, &mut workspace, &mut frames)
        .map_err(|why| anyhow!("cannot compile the filter to machine code: {why}"))?;
    code.truncate(made.bytes);
    Ok((code, workspace.split_off(input.insns.len() + 1)))
}

/// Helpers that read memory of the traced program.
fn faults(id: u32) -> bool {
    let reads = |arg: &helper::Arg| matches!(arg, helper::Arg::Start);
    helper::BUILTIN.iter().any(|known| known.id == id && known.args.iter().any(reads))
}

fn annotated(insns: &[Insn], env: &Environment<'_>, code: &[u8], offsets: &[u32]) -> String {
    let mut out = String::new();
    let mut slot = 0;
    let mut at = 0;
    while let Some((bytes, text)) = arch::disassemble(code, at) {
        // All instructions that begin here; several may have become one.
        while slot < insns.len() && offsets.get(slot).is_some_and(|offset| *offset as usize <= at) {
            let (text, slots) = match line(&insns[slot..], Some(env)) {
                Some(line) => (line.to_string(), line.slots()),
                None => ("?".to_owned(), 1),
            };
            let _ = writeln!(out, "{slot:>4}: {text}");
            slot += slots.max(1);
        }
        let hex: String = code.iter().skip(at).take(bytes).map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(out, "          {at:>5x}  {hex:<22} {text}");
        at += bytes.max(1);
    }
    let _ = writeln!(out, "{} bytes of machine code", code.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::filter::event;
    use mote_layout::parse::parse;

    const EXIT: Insn = Insn::new(0x95, 0, 0, 0, 0);
    const ONE: Insn = Insn::new(0xb7, 0, 0, 0, 1);

    #[test]
    fn what_is_refused_is_refused_for_its_own_reason() {
        let (text, _) = event::description(None, None, Some("len: u32")).expect("a description");
        let event = parse(&text).expect("a description");
        let said = listing(&[EXIT], &event, &Maps::new()).expect_err("r0 was never set").to_string();
        assert!(
            said.starts_with("the verifier refuses the filter: instruction 0") && said.contains("r0"),
            "{said}"
        );
        let function = [Function { start: 0, stack_bytes: 0 }];
        let said = |insns: &[Insn], bytes| {
            let input = Input { insns, functions: &function, maps: &[], helper: &|_| None, base: 0 };
            compiled(&input, bytes).map_err(|why| why.to_string())
        };
        assert_eq!(
            said(&[ONE, EXIT], 0),
            Err("cannot compile the filter to machine code: no room for the machine code".to_owned())
        );
        let call = Insn::new(0x85, 0, 0, 0, 5);
        assert_eq!(
            said(&[call, EXIT], 4096),
            Err("cannot compile the filter to machine code: instruction 0 calls an unknown helper".to_owned())
        );
        assert!(said(&[ONE, EXIT], 4096).is_ok_and(|(code, _)| !code.is_empty()));
    }
}

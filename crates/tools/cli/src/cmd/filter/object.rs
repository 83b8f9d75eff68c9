//! Filters of an object, and the sides on which each can run: by the helpers that it calls, and by what it does with an
//! event.

use super::SideArg;
use anyhow::{Context, anyhow};
use mote_assembler::elf::{Object, Program};
use mote_bpf::environment::STEPS_MAX;
use mote_bpf::op::{self, Op};
use mote_bpf::verify::verify;
use mote_bpf::{Entry, Environment, Insn, MapShape, Word, helper};
use mote_filter::STRING_ROOM;
use mote_layout::context;
use mote_layout::parse::Description;
use mote_layout::tracer;
use std::fmt::Write;
use std::path::Path;

/// Helpers from this number on are mote's; those below are the kernel's.
const OURS: u32 = 1000;

/// The object, if an expression is the name of one.
pub(super) fn path(expression: &str) -> Option<&Path> {
    let path = Path::new(expression);
    (path.extension()? == "o" && path.is_file()).then_some(path)
}

/// A line for each filter and side.
pub(super) fn sides(
    path: &Path,
    event: Option<&Description<'_>>,
    side: Option<SideArg>,
) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let object = Object::read(&bytes, tracer::HELPERS).map_err(|why| anyhow!("{}: {why}", path.display()))?;
    let shapes: Vec<MapShape> = object.maps.iter().map(|map| map.shape).collect();
    let mut out = String::new();
    for program in &object.programs {
        let _ = writeln!(out, "{}", program.section);
        for (name, of) in [("user", SideArg::User), ("kernel", SideArg::Kernel)] {
            if side.is_none_or(|wanted| wanted == of) {
                let answer = match refused(program, &shapes, event, of)? {
                    None => "yes".to_owned(),
                    Some(why) => format!("no: {why}"),
                };
                let _ = writeln!(out, "  {name:<7}{answer}");
            }
        }
    }
    Ok(out)
}

/// Why it cannot run there.
fn refused(
    program: &Program,
    maps: &[MapShape],
    event: Option<&Description<'_>>,
    side: SideArg,
) -> anyhow::Result<Option<String>> {
    let ours = calls(&program.insns).find(|id| side == SideArg::Kernel && *id >= OURS);
    if let Some(id) = ours {
        let known = tracer::HELPERS.iter().chain(helper::BUILTIN).find(|helper| helper.id == id);
        let name = known.map_or("?", |helper| helper.name);
        return Ok(Some(format!("it calls the helper {name} ({id}), which exists only in traced processes")));
    }
    let Some(event) = event else { return Ok(None) };
    let words: Vec<Word> = match side {
        SideArg::User => context::words(event).collect(),
        SideArg::Kernel => event.fields().flat_map(|field| in_kernel(context::words_of(&field.ty))).collect(),
    };
    let environment =
        Environment { entry: Entry::Context(&words), maps, helpers: tracer::HELPERS, steps_max: STEPS_MAX };
    let mut room = mote_vm::workspace().map_err(|error| anyhow!("no memory for the verifier: {error:?}"))?;
    Ok(verify(&program.insns, &environment, &mut room).err().map(|why| why.to_string()))
}

/// The words of a field as the kernel's side has them: a text is a pointer and a length.
fn in_kernel((first, second): (Word, Option<Word>)) -> Vec<Word> {
    match (first, second) {
        (_, Some(_)) => vec![Word::Bytes(STRING_ROOM), Word::Number { bits: 64, signed: false }],
        (one, None) => vec![one],
    }
}

/// Numbers of the helpers that it calls.
fn calls(insns: &[Insn]) -> impl Iterator<Item = u32> {
    (0..insns.len()).filter_map(|at| match op::decode(&insns[at..]) {
        Ok(Op::Call { helper }) => Some(helper),
        _ => None,
    })
}

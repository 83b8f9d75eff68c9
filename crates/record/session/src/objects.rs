//! Filters that clang has compiled: programs of an object, by the events that their sections name.

use mote_assembler::elf::Object;
use mote_bpf::Insn;
use mote_bpf::op::{self, Op, Wide};
use mote_filter::Maps;
use mote_layout::tracer;
use mote_pattern::Pattern;

/// What the section of a filter begins with; the pattern of its events follows.
const SECTION: &str = "filter/";

/// A program that decides about the events of a pattern.
#[derive(Clone, Debug)]
pub struct ObjectFilter {
    /// The events.
    pub pattern: Pattern,
    /// The same as it was written.
    pub pattern_text: String,
    /// The program.
    pub insns: Vec<Insn>,
    file: String,
}

impl ObjectFilter {
    /// `PATTERN: FILE`, to be shown.
    pub fn line(&self) -> String {
        format!("{}: {}", self.pattern_text, self.file)
    }
}

impl ObjectFilter {
    /// Whether it calls a helper.
    pub fn calls(&self, id: u32) -> bool {
        let ops = (0..self.insns.len()).filter_map(|at| op::decode(&self.insns[at..]).ok());
        ops.into_iter().any(|op| op == Op::Call { helper: id })
    }
}

/// Reads the filters of an object; its maps become maps of the session. `file` is its name for a person.
///
/// # Errors
/// What is wrong with the object, for a person.
pub fn read(file: &str, bytes: &[u8], maps: &mut Maps) -> Result<Vec<ObjectFilter>, String> {
    let object = Object::read(bytes, tracer::HELPERS).map_err(|why| why.to_string())?;
    let first = maps.entries().len() as u32;
    for map in &object.maps {
        maps.add_state(&map.name, map.shape, map.initial.clone());
    }
    let filters: Vec<ObjectFilter> = object
        .programs
        .iter()
        .filter_map(|program| {
            let pattern = program.section.strip_prefix(SECTION)?;
            Some(ObjectFilter {
                pattern: Pattern::new(pattern),
                pattern_text: pattern.to_owned(),
                insns: moved(&program.insns, first),
                file: file.to_owned(),
            })
        })
        .collect();
    if filters.is_empty() {
        return Err(format!("it has no section {SECTION}PATTERN, as SEC(\"{SECTION}net:*\") makes one"));
    }
    Ok(filters)
}

/// The instructions with maps counted from `first`.
fn moved(insns: &[Insn], first: u32) -> Vec<Insn> {
    let mut out = insns.to_vec();
    let mut at = 0;
    while at < insns.len() {
        let Ok(op) = op::decode(&insns[at..]) else { break };
        let value = match op {
            Op::Wide { dst, value: Wide::Map(map) } => Some((dst, Wide::Map(map + first))),
            Op::Wide { dst, value: Wide::MapValue { map, offset } } => {
                Some((dst, Wide::MapValue { map: map + first, offset }))
            }
            _ => None,
        };
        if let Some((dst, value)) = value {
            out[at] = op::encode(&Op::Wide { dst, value }).0;
        }
        at += op.slots();
    }
    out
}

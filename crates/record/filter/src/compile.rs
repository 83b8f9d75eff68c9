//! From the rules of a session and the description of an event to one program.

use crate::diagnostic::Diagnostic;
use crate::maps::Maps;
use crate::rule::Rule;
use crate::tree::RulePlan;
use crate::{emit, optimise, resolve};
use mote_bpf::Insn;
use mote_layout::parse::Description;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In the traced process, on the arguments of its event.
    User,
    /// In the kernel, called by the program that records the event: see [`ContextWord`] and [`Compiled::stack_bytes`].
    Kernel,
}

/// What a word of the context is. On the user's side, the words are those of [`mote_layout::context`], all of them in order. On the
/// kernel's, they are only those that the program reads, in 8-byte slots on the caller's stack.
///
/// # What fields are on the kernel's side
/// | field | words |
/// |---|---|
/// | numbers | the value, extended to 64 bits by its sign or by zeros |
/// | texts | where it begins: [`TEXT_ROOM`] readable bytes, whatever is behind the text; its length, at most [`TEXT_LEN_MAX`] |
/// | arrays | where the first element begins |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContextWord {
    /// This word of the event's.
    Field(u16),
    /// This number, which stands for the event in keys: so programs of events that differ in nothing else are the same.
    Event(u32),
}

/// Most bytes of the stack that a program of the kernel's side takes: what calls it has the rest of the 512.
pub const KERNEL_STACK_BYTES: u32 = 256;
/// Longest text that a program of the kernel's side sees; longer ones are cut.
pub const TEXT_LEN_MAX: u32 = 255;
/// Bytes that must be readable where a text of the kernel's side begins.
pub const TEXT_ROOM: u32 = TEXT_LEN_MAX + 9;

/// What a session decides for its rules.
pub struct Session<'a> {
    /// Where its programs run.
    pub side: Side,
    /// What is to be done about a field that an event does not have.
    pub missing: Missing,
    /// Gives an event that `emit` makes its id, declaring it when that is the first time; an error is shown to the user.
    pub declare: &'a mut dyn FnMut(&Emitted) -> Result<u16, String>,
}

/// What is to be done about a field that an event does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is an error.
    Refuse,
    /// The condition, or the action, that names it never holds for this event, as in LTTng; a warning says so.
    Never,
}

/// An event that a rule emits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Provider: that of the event for which the rule is, unless the rule says another.
    pub provider: String,
    /// Name.
    pub name: String,
    /// Its description as text ([`mote_layout::describe`]), without the NUL.
    pub description: String,
}

/// What becomes of an event.
#[derive(Clone, Debug)]
pub enum Decision {
    /// No rule is about it: it stays off.
    Off,
    /// It is always recorded, and nothing else is done: it needs no program.
    Record,
    /// The program decides.
    Run(Compiled),
}

/// A program for one event.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Its instructions. Maps are named by their places in [`Maps`], context words as [`ContextWord`] says.
    pub insns: Vec<Insn>,
    /// The words that it reads, by their slots. On the user's side they are in the slots of their numbers, and this is empty.
    pub words: Vec<ContextWord>,
    /// Bytes of the stack that its frame takes; on the kernel's side at most [`KERNEL_STACK_BYTES`].
    pub stack_bytes: u32,
    /// Whether it may record the event at all; else it only counts and the like.
    pub records: bool,
    /// What the author of the rules may want to know: fields that are missing, conditions that never hold.
    pub warnings: Vec<Diagnostic>,
}

/// Makes the program of an event out of all rules of a session: those that are about it, in their order.
///
/// Maps are added to `maps`, or shared with programs that were compiled before; nothing is added when it fails.
///
/// The program's result is one of [`mote_layout::context::DROP`], `RECORD`, `ASIDE`; the last one only in sessions with a rule that
/// speculates.
///
/// # Errors
/// The first problem, pointing into the rule's source.
pub fn compile(
    rules: &[Rule],
    event: &Description<'_>,
    session: &mut Session<'_>,
    maps: &mut Maps,
) -> Result<Decision, Diagnostic> {
    let Some(mut plan) = resolve::plan(rules, event, session.missing, session.side)? else {
        return Ok(Decision::Off);
    };
    optimise::plan(&mut plan);
    if plan.always_records() {
        return Ok(Decision::Record);
    }
    // In the kernel, an event that is off has no program at all.
    if session.side == Side::Kernel && !plan.rules.iter().any(RulePlan::does_something) {
        return Ok(Decision::Off);
    }
    let before = maps.entries().len();
    match emit::program(&plan, session.declare, maps) {
        Ok(emit::Program { insns, words, stack_bytes }) => {
            let (records, warnings) = (plan.records(), plan.warnings);
            Ok(Decision::Run(Compiled { insns, words, stack_bytes, records, warnings }))
        }
        Err(problem) => {
            maps.truncate(before);
            Err(problem)
        }
    }
}

/// Whether a rule fits one of the events that it is about; a rule about none of them does.
///
/// # Errors
/// The first problem, when it fits none.
pub fn fits<'e>(
    rule: &Rule,
    events: impl Iterator<Item = Description<'e>>,
    side: Side,
) -> Result<(), Diagnostic> {
    let mut problem = None;
    for event in events.filter(|event| rule.matches(event.provider, event.name)) {
        let mut session = Session { side, missing: Missing::Refuse, declare: &mut |_| Ok(0) };
        match compile(std::slice::from_ref(rule), &event, &mut session, &mut Maps::new()) {
            Ok(_) => return Ok(()),
            Err(why) => problem = problem.or(Some(why)),
        }
    }
    problem.map_or(Ok(()), Err)
}

/// The rules of an event as trees: typed, and then as the optimiser leaves them. For people.
///
/// # Errors
/// As [`compile`].
pub fn explain(
    rules: &[Rule],
    event: &Description<'_>,
    missing: Missing,
    side: Side,
) -> Result<(String, String), Diagnostic> {
    let Some(mut plan) = resolve::plan(rules, event, missing, side)? else { return Ok(Default::default()) };
    let typed = plan.to_string();
    optimise::plan(&mut plan);
    Ok((typed, plan.to_string()))
}

//! From the rules of a session and the description of an event to one program.

use crate::diagnostic::Diagnostic;
use crate::maps::Maps;
use crate::rule::Rule;
use crate::session::{Missing, Session};
use crate::target::{ContextWord, Side};
use crate::typed::RulePlan;
use crate::{emit, optimise, resolve};
use mote_bpf::Insn;
use mote_layout::parse::Description;

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
    /// The words that it reads, by their slots. On the user's side they are in the slots of their numbers, and this is
    /// empty.
    pub words: Vec<ContextWord>,
    /// Bytes of the stack that its frame takes; on the kernel's side at most
    /// [`crate::KERNEL_STACK_BYTES`].
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
/// The program's result is one of [`mote_layout::context::DROP`], `RECORD`, `SPECULATE`; the last one only in sessions
/// with a rule that speculates.
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
    // An event that is off has no program at all; of a traced process it must not take warnings with it.
    let can_be_off = session.side == Side::Kernel || plan.warnings.is_empty();
    if can_be_off && !plan.rules.iter().any(RulePlan::does_something) {
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

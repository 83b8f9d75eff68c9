//! From trees to instructions.
//!
//! Conditions become jumps: each is worked out with two labels, one for each outcome, of which one is the next
//! instruction. There is a third for what fails. Values of expressions stay in registers as long as nothing else needs
//! these: [`known`] knows at each place what is where, also behind jumps. What is done with them is written by values
//! of the builder, which share the registers with these ([`values`]). A program without calls keeps the context in `r1`
//! and touches no register that it would have to save; one with calls keeps it in `r6`.

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::maps::Maps;
use crate::session::Declare;
use crate::target::{ContextWord, KERNEL_STACK_BYTES, Side};
use crate::typed::{Action, Plan};
use code::{Code, Label, Next, Stop};
use mote_bpf::Insn;
use mote_bpf::environment::STACK_BYTES;
use mote_builder::Build;
use mote_layout::context;

mod action;
mod code;
mod condition;
mod float;
mod held;
mod kernel;
mod known;
mod last_event;
mod needs;
mod number;
mod published;
mod speculation;
mod string_plan;
mod values;

use needs::Needs;

/// A program, and what it needs where it runs.
pub(crate) struct Program {
    pub(crate) insns: Vec<Insn>,
    /// What its context has to hold, on the kernel's side.
    pub(crate) words: Vec<ContextWord>,
    pub(crate) stack_bytes: u32,
}

/// The program of a plan. Its maps are added to `maps`.
pub(crate) fn program(plan: &Plan, declare: Declare<'_>, maps: &mut Maps) -> Result<Program, Diagnostic> {
    let needs = Needs::of(plan, maps);
    let leaf = Code::new(plan, &needs, maps, declare, true);
    let done = match leaf.whole() {
        Err(Stop::NotALeaf) => Code::new(plan, &needs, maps, declare, false).whole(),
        done => done,
    };
    done.map_err(|stop| problem(stop, plan))
}

fn problem(stop: Stop, plan: &Plan) -> Diagnostic {
    let source = plan.rules.first().map_or("", |rule| rule.source.as_str());
    let all = Span::new(0, source.len());
    let problem = match stop {
        Stop::Wrong(problem) => *problem,
        Stop::NotALeaf | Stop::NoRegister => {
            Diagnostic::new(Kind::TooLarge, all, "the expression needs too many registers").help("split it")
        }
        Stop::NoStack => {
            let most = if plan.side == Side::Kernel { KERNEL_STACK_BYTES } else { STACK_BYTES as u32 };
            let message = format!("the rules need more than {most} bytes of stack");
            Diagnostic::new(Kind::TooLarge, all, message)
                .help("split them, or take fewer bytes of strings in keys: `prefix(path, 16)`")
        }
        Stop::Build(error) => {
            Diagnostic::new(Kind::TooLarge, all, format!("the program of the rules is too large: {error}"))
        }
    };
    problem.of(source).for_event(&plan.event)
}

/// What the result of the program depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It never records.
    Drop,
    /// A rule that holds ends the program.
    FirstThatHolds,
    /// It is kept until the end: [`Code::set_verdict`].
    Kept,
}

impl Code<'_> {
    fn whole(mut self) -> Result<Program, Stop> {
        let plan = self.plan;
        let only_records =
            plan.rules.iter().all(|rule| rule.actions.iter().all(|a| matches!(a, Action::Record)));
        let is_first = only_records && plan.thread.is_empty() && plan.speculated_by.is_empty();
        let verdict = match (plan.records(), is_first) {
            (false, _) => Verdict::Drop,
            (true, true) => Verdict::FirstThatHolds,
            (true, false) => Verdict::Kept,
        };
        self.begin(verdict)?;
        if verdict == Verdict::FirstThatHolds {
            self.first_that_holds()?;
        } else {
            self.all_rules()?;
        }
        self.finish()
    }

    fn begin(&mut self, verdict: Verdict) -> Result<(), Stop> {
        self.save_context();
        self.save_state()?;
        self.save_entry()?;
        if verdict == Verdict::Kept {
            self.needs_all_registers()?;
            self.verdict = Some(self.keep(context::DROP));
        }
        self.look_up_thread()
    }

    /// What `r0` is for an event that is recorded.
    fn recorded(&self) -> u64 {
        if self.plan.speculates { context::SPECULATE } else { context::RECORD }
    }

    fn first_that_holds(&mut self) -> Result<(), Stop> {
        let (accept, reject) = (self.label(), self.label());
        let plan = self.plan;
        let rules: Vec<_> = plan.rules.iter().filter(|rule| rule.does_something()).collect();
        for (at, rule) in rules.iter().enumerate() {
            if at + 1 == rules.len() {
                self.rule_condition(&rule.condition, accept, reject, Next::True)?;
            } else {
                let next = self.label();
                self.rule_condition(&rule.condition, accept, next, Next::False)?;
                self.bind(next);
            }
        }
        self.bind(accept);
        self.exit_with(self.recorded());
        self.bind(reject);
        self.exit_with(context::DROP);
        Ok(())
    }

    fn all_rules(&mut self) -> Result<(), Stop> {
        let plan = self.plan;
        for rule in plan.rules.iter().filter(|rule| rule.does_something()) {
            let (holds, next) = (self.label(), self.label());
            self.rule_condition(&rule.condition, holds, next, Next::True)?;
            self.bind(holds);
            for action in &rule.actions {
                self.action(action)?;
            }
            self.bind(next);
        }
        self.keep_thread()?;
        match self.verdict.take() {
            Some(verdict) => {
                self.look_up_speculation(&verdict)?;
                self.exit_with(verdict);
            }
            None => self.exit_with(context::DROP),
        }
        Ok(())
    }

    /// A rule's condition; what fails does not hold.
    fn rule_condition(
        &mut self,
        cond: &crate::typed::Cond,
        holds: Label,
        not: Label,
        next: Next,
    ) -> Result<(), Stop> {
        self.fail = not;
        self.condition(cond, holds, not, next)
    }
}

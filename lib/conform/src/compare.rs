//! Runs a program on all engines, and tells whether they agree.

use crate::case::{Case, Expect};
use crate::{Answer, Input, kernel, ours};
use mote_vm::Engine;

/// What became of one program on each engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// What our interpreter made of it.
    pub interpreter: Answer,
    /// What our JIT's machine code made of it.
    pub jit: Answer,
    /// The kernel's; nothing when it was not asked.
    pub kernel: Option<Answer>,
}

/// How many programs ran where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All programs, whatever became of them.
    pub programs: usize,
    /// That ran on our interpreter.
    pub interpreter: usize,
    /// That ran on our JIT.
    pub jit: usize,
    /// That our verifier refused: no engine ran these.
    pub refused: usize,
    /// That ran in the kernel.
    pub kernel: usize,
    /// That the kernel refused though ours did not, with its reason.
    pub kernel_refused: Vec<String>,
    /// That ours refused though the kernel did not, with our reason.
    pub only_we_refused: Vec<String>,
    /// Why an engine was not there, once for each reason.
    pub missing: Vec<String>,
}

/// Most reasons that are shown of a kind.
const SHOWN: usize = 12;

/// Verifies a program and runs it on all engines.
pub fn all(input: &Input, with_kernel: bool) -> Answers {
    Answers {
        interpreter: ours::run_verified(input, Engine::Interpreter),
        jit: ours::run_verified(input, Engine::Jit),
        kernel: with_kernel.then(|| kernel::run(input)),
    }
}

impl Answers {
    /// Each answer with its engine's name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Answer)> {
        let kernel = self.kernel.iter().map(|answer| ("kernel", answer));
        [("interpreter", &self.interpreter), ("jit", &self.jit)].into_iter().chain(kernel)
    }

    /// That all which ran left the same, and that nothing faulted.
    ///
    /// # Errors
    /// The first two that disagree, or what faulted.
    pub fn agree(&self) -> Result<(), String> {
        for (name, answer) in self.named() {
            if let Answer::Faulted(fault) = answer {
                return Err(format!("{name}: {fault}"));
            }
        }
        let mut ran = self.named().filter_map(|(name, answer)| Some((name, answer.outcome()?)));
        let Some((first, expect)) = ran.next() else { return Ok(()) };
        match ran.find(|(_, outcome)| *outcome != expect) {
            None => Ok(()),
            Some((name, outcome)) => Err(format!("{first} says {expect:x?}, {name} says {outcome:x?}")),
        }
    }
}

impl Tally {
    /// Counts the answers to a program.
    pub fn count(&mut self, name: &str, answers: &Answers) {
        self.programs += 1;
        self.interpreter += usize::from(answers.interpreter.outcome().is_some());
        self.jit += usize::from(answers.jit.outcome().is_some());
        for (_, answer) in answers.named() {
            if let Answer::Missing(why) = answer
                && !self.missing.contains(why)
            {
                self.missing.push(why.clone());
            }
        }
        let refused = matches!(&answers.interpreter, Answer::Refused(_));
        self.refused += usize::from(refused);
        match (&answers.interpreter, &answers.kernel) {
            (Answer::Refused(why), Some(Answer::Ran(_))) => {
                self.only_we_refused.push(format!("{name}: {why}"))
            }
            (_, Some(Answer::Refused(why))) if !refused => self.kernel_refused.push(format!("{name}: {why}")),
            _ => {}
        }
        self.kernel += usize::from(answers.kernel.as_ref().is_some_and(|answer| answer.outcome().is_some()));
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { programs, interpreter, jit, kernel, refused, .. } = self;
        write!(
            f,
            "{programs} programs: {interpreter} ran on the interpreter, {jit} on the JIT, {kernel} in the kernel; "
        )?;
        write!(
            f,
            "{refused} were refused by our verifier, {} by the kernel's only",
            self.kernel_refused.len()
        )?;
        for why in self.kernel_refused.iter().take(SHOWN) {
            write!(f, "\n  refused by the kernel only: {why}")?;
        }
        for why in self.only_we_refused.iter().take(SHOWN) {
            write!(f, "\n  refused by ours only: {why}")?;
        }
        Ok(())
    }
}

/// Whether the answers are what a case expects.
///
/// # Errors
/// What is otherwise.
pub fn check(case: &Case, answers: &Answers) -> Result<(), String> {
    answers.agree()?;
    for (name, answer) in answers.named() {
        match (answer, &case.expect) {
            (Answer::Missing(_), _) if name != "interpreter" => {}
            (Answer::Refused(_), Expect::Refused) => {}
            (Answer::Ran(outcome), Expect::Ran { r0, memory }) => {
                if outcome.r0 != *r0 {
                    return Err(format!("{name}: r0 is 0x{:x}, not 0x{r0:x}", outcome.r0));
                }
                if memory.as_ref().is_some_and(|memory| *memory != outcome.memory) {
                    return Err(format!("{name}: memory is {:02x?}, not {memory:02x?}", outcome.memory));
                }
            }
            // The kernel has rules of its own, which are counted; what breaks them ours may refuse too.
            (_, _) if name == "kernel" => {}
            (Answer::Refused(_), _) if matches!(&answers.kernel, Some(Answer::Refused(_))) => {}
            (other, expect) => return Err(format!("{name}: {other:?}, not {expect:?}")),
        }
    }
    Ok(())
}

//! What others write: the state of the thread as the kernel publishes it, and words with names.

use super::Resolver;
use super::value::{Shown, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::Expr;
use crate::target::Side;
use crate::typed::{Kept, Num, NumKind, SharedWord};
use mote_layout::cooperation::{SHARED_WORDS, State, WORDS};
use std::mem::offset_of;

/// A value that the kernel publishes of a thread.
struct Published {
    name: &'static str,
    offset: usize,
    how: How,
}

/// What kind of value it is.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// How often: it only grows.
    Count,
    /// For how long in all: it only grows.
    Total,
    /// A time span, or a moment.
    Nanos,
    Signed,
    Plain,
}

const fn published(name: &'static str, offset: usize, how: How) -> Published {
    Published { name, offset, how }
}

/// Behind `$kernel.`.
const PUBLISHED: [Published; 16] = [
    published("switches", offset_of!(State, switches), How::Count),
    published("preemptions", offset_of!(State, preemptions), How::Count),
    published("offcpu", offset_of!(State, offcpu_ns), How::Total),
    published("last_offcpu", offset_of!(State, last_offcpu_ns), How::Nanos),
    published("last_wait", offset_of!(State, last_wait), How::Plain),
    published("last_wait_syscall", offset_of!(State, last_wait_syscall), How::Signed),
    published("runqueue", offset_of!(State, runqueue_ns), How::Total),
    published("last_runqueue", offset_of!(State, last_runqueue_ns), How::Nanos),
    published("faults", offset_of!(State, faults), How::Count),
    published("throttled", offset_of!(State, throttled), How::Count),
    published("throttled_time", offset_of!(State, throttled_ns), How::Total),
    published("last_syscall", offset_of!(State, last_syscall), How::Signed),
    published("last_syscall_time", offset_of!(State, last_syscall_ns), How::Nanos),
    published("syscalls", offset_of!(State, syscalls), How::Count),
    published("cpu", offset_of!(State, cpu), How::Plain),
    published("running_since", offset_of!(State, running_since), How::Nanos),
];

/// What makes the growth of a value of it.
const SINCE: &str = "_since_last_event";

/// The name of words in a context, and whether each thread has its own.
pub(super) fn words_name(context: &str) -> Option<(&str, bool)> {
    match context.split_once('.')? {
        ("shared", name) => Some((name, false)),
        ("thread", name) => Some((name, true)),
        _ => None,
    }
}

impl<'a> Resolver<'a> {
    /// `$kernel.name`
    pub(super) fn published(&mut self, name: &str, span: Span) -> Result<Value<'a>, Diagnostic> {
        if self.side == Side::Kernel {
            let problem = Diagnostic::wrong_side(self.side, span, "there is no `$kernel`");
            return Err(problem.help("use the fields of the kernel event instead"));
        }
        let (plain, since) = name.strip_suffix(SINCE).map_or((name, false), |plain| (plain, true));
        let Some(known) = PUBLISHED.iter().find(|known| known.name == plain) else {
            let names: Vec<&str> = PUBLISHED.iter().map(|known| known.name).collect();
            let message = format!("the kernel does not publish `{plain}`");
            return Err(Diagnostic::mismatch(span, message).similar(plain, &names));
        };
        let offset = known.offset as u16;
        if since && !matches!(known.how, How::Count | How::Total) {
            let message = format!("`{plain}` does not grow, so there is no `{name}`");
            return Err(Diagnostic::mismatch(span, message).help(format!("compare `$kernel.{plain}`")));
        }
        let kind = if since {
            NumKind::Since(self.keep(Kept::Published(offset), span)?)
        } else {
            NumKind::Published(offset)
        };
        let shown = match known.how {
            How::Total | How::Nanos => Shown::Nanos,
            _ => Shown::Plain,
        };
        Ok(Value::Num(Num::integer(kind, 64, known.how == How::Signed), shown))
    }

    /// `$shared.name`, `$thread.name`, or an element of these.
    pub(super) fn shared_word(
        &mut self,
        (name, each_thread): (&str, bool),
        index: Option<&Expr>,
        span: Span,
    ) -> Result<Value<'a>, Diagnostic> {
        if self.side == Side::Kernel && each_thread {
            let problem = Diagnostic::wrong_side(self.side, span, "there is no `$thread`");
            return Err(problem.help("use `$shared.NAME`, the words of all threads"));
        }
        let index = match index {
            Some(index) => self.number(index)?,
            None => Num::constant(0),
        };
        let most = if each_thread { WORDS as i128 } else { i128::from(SHARED_WORDS) };
        if index.as_constant().is_some_and(|at| !(0..most).contains(&at)) {
            return Err(Diagnostic::mismatch(span, format!("a name has at most {most} words")));
        }
        let word = SharedWord { name: name.to_owned(), each_thread, index };
        Ok(Value::Num(Num::integer(NumKind::SharedWord(Box::new(word)), 64, false), Shown::Plain))
    }
}

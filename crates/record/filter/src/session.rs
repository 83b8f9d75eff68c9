//! What a session decides for its rules.

use crate::target::Side;

/// What a session decides for its rules.
pub struct Session<'a> {
    /// Where the session's programs run: in processes, or in the kernel.
    pub side: Side,
    /// What is to be done about a field that an event does not have.
    pub missing: Missing,
    /// Gives an event that `emit` makes its id, declaring it when that is the first time; an error is shown to the
    /// user.
    pub declare: Declare<'a>,
}

/// Gives an event that a rule emits its id, or says why it cannot be had.
pub(crate) type Declare<'a> = &'a mut dyn FnMut(&Emitted) -> Result<u16, String>;

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
    /// Second half of the event's name.
    pub name: String,
    /// Its description as text ([`mote_layout::describe`]), without the NUL.
    pub description: String,
}

//! What a check has found, and what to do about it.

/// How well something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should.
    Ok,
    /// Something is slower or is not to be had; the rest works.
    Warn,
    /// Recording does not work.
    Fail,
}

impl Verdict {
    /// The verdict as the table shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        }
    }
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub what: &'static str,
    /// How well it works.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; empty when there is nothing to do.
    pub advice: String,
}

impl Finding {
    pub(super) fn ok(what: &'static str, found: impl Into<String>) -> Finding {
        Finding { what, verdict: Verdict::Ok, found: found.into(), advice: String::new() }
    }

    pub(super) fn warn(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { what, verdict: Verdict::Warn, found: found.into(), advice: advice.into() }
    }

    pub(super) fn fail(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { what, verdict: Verdict::Fail, found: found.into(), advice: advice.into() }
    }
}

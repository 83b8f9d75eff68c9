//! Rules against the events of the command's file, before it is started: a name that is misspelt is told at once, and not by an empty
//! trace.

use mote_filter::{Decision, Diagnostic, Maps, Missing, Rule, Session, compile};
use mote_inspect::target::Target;
use mote_inspect::{Event, file};
use mote_layout::parse::parse;
use std::ffi::OsStr;

/// The first problem of a rule that fits none of the events that it is about, among those that the command's file carries. What libraries
/// and children bring is seen when they come.
///
/// # Errors
/// The problem, for a person.
pub(crate) fn rules(rules: &[Rule], command: &OsStr) -> Result<(), String> {
    let conditional = || rules.iter().filter(|rule| rule.source() != rule.pattern());
    if conditional().next().is_none() {
        return Ok(());
    }
    let Ok(Target::File(path)) = Target::find(command) else { return Ok(()) };
    let events = file::read(&path).map(|carrier| carrier.events).unwrap_or_default();
    for rule in conditional() {
        let mut problem = None;
        let about = events.iter().filter(|event| rule.matches(&event.provider, &event.name));
        let mut fits = about.clone().count() == 0;
        for event in about {
            match fit(rule, event) {
                Ok(()) => fits = true,
                Err(why) => problem = problem.or(Some(why)),
            }
        }
        if let Some(problem) = problem.filter(|_| !fits) {
            return Err(problem.render());
        }
    }
    Ok(())
}

fn fit(rule: &Rule, event: &Event) -> Result<(), Diagnostic> {
    let Ok(description) = parse(&event.description) else { return Ok(()) };
    let mut session = Session { missing: Missing::Refuse, declare: &mut |_| Ok(0) };
    let decision = compile(std::slice::from_ref(rule), &description, &mut session, &mut Maps::new())?;
    debug_assert!(!matches!(decision, Decision::Off));
    Ok(())
}

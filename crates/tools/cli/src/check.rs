//! Rules against the events of the command's file, before it is started: a name that is misspelt is told at once, and
//! not by an empty trace.

use mote_filter::{Rule, fits};
use mote_inspect::file;
use mote_inspect::target::Target;
use mote_layout::parse::parse;
use std::ffi::OsStr;

/// The first problem of a rule that fits none of the events that it is about, among those that the command's file
/// carries. What libraries and children bring is seen when they come.
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
    let described = || events.iter().filter_map(|event| parse(&event.description).ok());
    conditional()
        .try_for_each(|rule| fits(rule, described(), mote_filter::Side::User))
        .map_err(|why| why.render())
}

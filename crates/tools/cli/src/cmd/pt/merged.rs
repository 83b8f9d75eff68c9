//! Recordings as they are shown: with the calls of their hardware trace among the events, if that is wanted.

use super::calls::Reported;
use super::{calls, output, shown};
use anyhow::ensure;
use mote_ctf::model::EnvValue;
use mote_timeline::Trace;
use std::path::Path;
use tempfile::TempDir;

/// A recording that was opened.
pub(crate) struct Merged {
    /// Its events, and the calls.
    pub(crate) trace: Trace,
    /// Where the calls are, as long as they are needed.
    _calls: Option<TempDir>,
}

/// Opens a recording, with the calls of its hardware trace or without. Those that were written into it (`mote pt calls
/// -o DIR/calls DIR`) are among the events anyway.
///
/// # Errors
/// It cannot be read; there is no hardware trace, or it has no times.
pub(crate) fn open(dir: &Path, with_calls: bool) -> anyhow::Result<Merged> {
    let trace = Trace::open(dir)?;
    let has_hardware = shown::recording_with_capture(dir).is_some();
    if !with_calls || has_calls(&trace) {
        if has_hardware && !has_calls(&trace) {
            say!("{} has a hardware trace, too: --pt shows its calls among the events", dir.display());
        }
        return Ok(Merged { trace, _calls: None });
    }
    ensure!(
        has_hardware,
        "{} has no hardware trace: record with mote record --pt, on a CPU with Intel PT",
        dir.display()
    );
    let place = tempfile::Builder::new().prefix("mote-calls-").tempdir()?;
    let folder = place.path().join("calls");
    output::make(&folder)?;
    // What was kept before events comes first: the last packets may have some of it again.
    let (mut reported, mut has_any, mut failed) = (Reported::default(), false, Vec::new());
    let captures = shown::snapshots(dir).into_iter().chain([dir.to_owned()]);
    for (number, capture) in captures.enumerate() {
        let to = folder.join(number.to_string());
        match calls::write_behind(&shown::Input::whole(&capture), None, &to, &mut reported) {
            Ok(_) => has_any = true,
            Err(why) => failed.push((capture, why)),
        }
    }
    if !has_any && let Some((_, why)) = failed.pop() {
        return Err(why);
    }
    failed.iter().for_each(|(capture, why)| say!("{}: no calls: {why:#}", capture.display()));
    Ok(Merged { trace: Trace::open_with(dir, Some(&folder))?, _calls: Some(place) })
}

/// Whether there are calls of a hardware trace among the events.
fn has_calls(trace: &Trace) -> bool {
    let is_domain = |(name, value): &(String, EnvValue)| {
        name == "domain" && matches!(value, EnvValue::Str(domain) if domain == calls::DOMAIN)
    };
    trace.origins().iter().any(|origin| origin.schema.trace().environment.iter().any(is_domain))
}

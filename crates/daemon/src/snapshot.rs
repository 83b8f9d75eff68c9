//! A snapshot of a flight recorder: what its rings hold now, as a recording beside the recording.
//!
//! The consumer copies the rings first ([`write`]); the loop then gives the directory its metadata and journal ([`complete`]).

use crate::consumer::Consumed;
use crate::stream::{Context, Stream, Take, Totals};
use crate::walk::Steps;
use mote_ring::reader::Channel;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// `DIRECTORY.snapshot-NUMBER`: beside it, because readers look for traces in and below a directory.
pub(crate) fn path(directory: &Path, number: u32) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(format!(".snapshot-{number}"));
    directory.with_file_name(name)
}

/// Makes the directory and copies into it what the rings hold. Writers go on meanwhile; what they overwrite is left out.
///
/// # Errors
/// Why the directory cannot be made. What goes wrong later is in the totals' problems.
pub(crate) fn write(
    channel: &Channel,
    context: &Context<'_>,
    directory: &Path,
    events: &[Steps],
) -> io::Result<Consumed> {
    fs::create_dir(directory)?;
    fs::create_dir(directory.join(mote_journal::DIRECTORY))?;
    let geometry = channel.geometry();
    let context = Context { directory, ..*context };
    let mut consumed = Consumed { totals: Totals::default(), lost: Default::default(), nameless: 0 };
    for ring in 0..geometry.rings() {
        let Some(reader) = channel.reader(ring) else { continue };
        let mut stream = Stream::new(reader, ring, geometry.cpus);
        stream.drain(&context, events, Take { flush: true, pressure: false }, &mut consumed.totals);
        stream.end(&context, &mut consumed.totals);
        for (sum, lost) in consumed.lost.iter_mut().zip(stream.lost()) {
            *sum = sum.wrapping_add(lost);
        }
    }
    Ok(consumed)
}

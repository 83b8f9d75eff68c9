//! A schedule as a capture: packets, what is to be known beside them, and the truth.

use super::play::Played;
use super::script::Script;
use crate::error::{Error, cannot};
use mote_capture::{Head, Of, Processor, SIDEBAND, name_of};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The file of the truth.
pub const TRUTH: &str = "truth-vm.jsonl";

/// Writes `cpuN.pt`, `sideband.jsonl` and `truth-vm.jsonl` into a directory, which must be there.
///
/// # Errors
/// A file cannot be made or written.
pub fn write(script: &Script, played: &Played, folder: &Path) -> Result<(), Error> {
    for (cpu, bytes) in (0..).zip(&played.streams) {
        let name = name_of(Of::Cpu(cpu));
        let written = File::create_new(folder.join(&name)).and_then(|mut file| file.write_all(bytes));
        written.map_err(cannot(format!("write {name}")))?;
    }
    let timing = &script.timing;
    let processor = Processor {
        art_hz: timing.art_hz,
        tsc_per_art: timing.tsc_per_art,
        core_ratio: timing.core_ratio,
        mtc: timing.mtc,
        cyc: timing.cyc.then_some(0),
        tsc: timing.tsc,
        ..Processor::default()
    };
    let head = serde_json::to_string(&Head::Processor(processor));
    let head = head.map_err(|why| cannot("write what is beside packets")(why.into()))?;
    std::fs::write(folder.join(SIDEBAND), head + "\n").map_err(cannot(format!("write {SIDEBAND}")))?;
    let truth = || {
        let mut file = BufWriter::new(File::create_new(folder.join(TRUTH))?);
        played.truth.iter().try_for_each(|line| writeln!(file, "{}", line.line()))?;
        file.flush()
    };
    truth().map_err(cannot(format!("write {TRUTH}")))
}

//! What is to be known beside packets, as lines of JSON: those of [`mote_capture::Processor`] and
//! [`mote_capture::Note`].
//!
//! Files that all threads of a process have mapped are noted by the first one that executes them; the others' clocks
//! are their own. Code of no file, which may change, is noted by each thread that executes it.

use crate::error::{Error, cannot};
use crate::observer::{Image, Note};
use crate::options::Options;
use mote_capture::{Head, Processor, What, hex};
use object::Object;
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where a thread or a processor was when a note was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The thread; of a processor the one that it runs.
    pub(crate) tid: i32,
    pub(crate) cpu: Option<u32>,
    pub(crate) instructions: u64,
    pub(crate) tsc: u64,
}

/// Build ids that were read, by file.
#[derive(Debug, Default)]
pub(crate) struct BuildIds(HashMap<PathBuf, Option<String>>);

/// The first line.
pub(crate) fn processor(options: &Options) -> Result<String, Error> {
    let clock = &options.clock;
    written(&Head::Processor(Processor {
        art_hz: clock.art_hz,
        tsc_per_art: clock.tsc_per_art,
        core_ratio: clock.core_ratio,
        mtc: options.mtc,
        cyc: options.cyc,
        tsc: options.tsc,
        return_compression: options.return_compression,
        ..Processor::default()
    }))
}

/// The line of a note.
pub(crate) fn line(moment: Moment, note: &Note, build_ids: &mut BuildIds) -> Result<String, Error> {
    let (pid, what) = match note {
        Note::Thread { pid, name } => (*pid, What::Thread { name: name.clone() }),
        Note::Exec { pid, path } => (*pid, What::Exec { path: path.clone() }),
        Note::Image(image) => (image.pid, What::Image(mapped(image, build_ids))),
        Note::Code { pid, start, bytes } => {
            (*pid, What::Code { start: *start, code: bytes.clone(), since: None })
        }
        Note::Switch { pid, .. } => (*pid, What::Switch),
        Note::AddressSpace { pid, cr3 } => (*pid, What::AddressSpace { cr3: *cr3 }),
        Note::Exit { pid, status } => (*pid, What::Exit { status: *status }),
    };
    let Moment { tid, cpu, instructions, tsc } = moment;
    let (instructions, time) = (Some(instructions), Some(tsc));
    written(&mote_capture::Note { pid, tid, cpu, instructions, time, what })
}

fn written(line: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(line).map_err(|why| cannot("write the sideband")(io::Error::other(why)))
}

fn mapped(image: &Image, build_ids: &mut BuildIds) -> mote_capture::Image {
    mote_capture::Image {
        start: image.start,
        bytes: image.bytes,
        path: image.path.clone(),
        offset: image.offset,
        build_id: build_ids.get(&image.path),
    }
}

impl BuildIds {
    fn get(&mut self, path: &Path) -> Option<String> {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let build_id = read(path);
        self.0.insert(path.to_owned(), build_id.clone());
        build_id
    }
}

fn read(path: &Path) -> Option<String> {
    let file = std::fs::read(path).ok()?;
    object::File::parse(&*file).ok()?.build_id().ok()?.map(hex::digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn notes_are_lines() {
        let moment = Moment { tid: 8, cpu: None, instructions: 77, tsc: 1 << 60 };
        let code = Note::Code { pid: 7, start: 0x7fff_0000_1000, bytes: vec![0x0f, 0x05] };
        let line = line(moment, &code, &mut BuildIds::default()).expect("a line");
        let read: Value = serde_json::from_str(&line).expect("JSON");
        let expected = json!({
            "kind": "code", "pid": 7, "tid": 8, "instructions": 77, "time": "0x1000000000000000",
            "start": "0x7fff00001000", "code": "0f05",
        });
        assert_eq!(read, expected);
        assert!(!line.contains('\n'));
    }
}

//! Files with nothing but packets, and the code that they lead through, as it is given beside them.

use crate::capture::Capture;
use crate::error::Error;
use crate::note::{Image, KERNEL, Note, Processor, What};
use crate::stream::{Bytes, Of};
use mote_symbol::Image as Elf;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Code that lies in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The file: its bytes, or, of an ELF file, what of it is executable.
    pub path: PathBuf,
    /// Where it lies; an ELF file so far above its own addresses.
    pub address: u64,
}

impl Capture {
    /// Puts a capture together of a file with packets, as bytes of one processor, and of code.
    ///
    /// # Errors
    /// A file cannot be read, or has no packets.
    pub fn of_packets(path: &Path, code: &[Given]) -> Result<Capture, Error> {
        let streams = BTreeMap::from([(Of::Cpu(0), Bytes::of_packets(path)?)]);
        let images: Vec<Vec<Note>> = code.iter().map(notes).collect::<Result<_, _>>()?;
        let notes: Vec<Note> = images.concat();
        let problem = "no code is given: use --image [ADDRESS:]FILE".to_owned();
        let problems = if notes.is_empty() { vec![problem] } else { Vec::new() };
        // A real one, of which nothing is known.
        let model = Some([0; 3]);
        let processor = Processor { tsc: true, return_compression: true, model, ..Processor::default() };
        Ok(Capture::new(None, processor, streams, notes, problems))
    }
}

fn notes(given: &Given) -> Result<Vec<Note>, Error> {
    let Given { path, address } = given;
    let unreadable = |why| Error::Read { path: path.clone(), why };
    let bytes = fs::read(path).map_err(unreadable)?;
    let image = |start: u64, bytes: u64, offset: u64| {
        let what = What::Image(Image { start, bytes, path: path.clone(), offset, build_id: None });
        // Of whoever runs: no other process is known.
        Note { pid: KERNEL, tid: -1, cpu: None, instructions: None, time: None, what }
    };
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(vec![image(*address, bytes.len() as u64, 0)]);
    }
    let elf = Elf::from_bytes(path, &bytes).map_err(|why| unreadable(std::io::Error::other(why)))?;
    let code = elf.segments.iter().filter(|segment| segment.executable);
    Ok(code.map(|code| image(address.wrapping_add(code.address), code.len, code.offset)).collect())
}

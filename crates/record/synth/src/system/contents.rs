//! What files a guest has: the program, what it is loaded with, the files that its words name, and whatever else is
//! wished; and from which of them a page of code is.

use super::archive::Archive;
use crate::arch::PAGE;
use crate::error::{Error, cannot};
use object::elf::PF_X;
use object::{Object, ObjectSegment, SegmentFlags};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// Files in a folder that is wished, and in those in it.
const FILES_MAX: usize = 20_000;

/// The files of a guest.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) archive: Archive,
    code: Code,
}

/// Pages of code by their bytes.
#[derive(Debug, Default)]
pub(super) struct Code(HashMap<Vec<u8>, (Rc<Part>, u64)>);

/// The code of a file: a segment that is executable.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    /// Where it begins in the file, at a page.
    pub(super) offset: u64,
    /// Its bytes, whole pages as they are in memory.
    pub(super) bytes: Vec<u8>,
}

impl Contents {
    /// Adds a file, and what it is loaded with. What is no file is left out.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), Error> {
        let Some(name) = path.to_str().filter(|name| !self.archive.has(name)) else { return Ok(()) };
        let Ok(data) = path.metadata() else { return Ok(()) };
        if !data.is_file() {
            return Ok(());
        }
        let bytes = std::fs::read(path).map_err(cannot(format!("read {}", path.display())))?;
        let interpreter = interpreter_of_script(&bytes).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let mut loader_path = None;
        if interpreter.is_none()
            && let Ok(file) = object::File::parse(&*bytes)
        {
            self.code.add(path, &file, &bytes);
            loader_path = loader(&bytes);
        }
        // It is there, before what it needs: that may need it.
        self.archive.file(name, data.permissions().mode(), bytes);
        if let Some(interpreter) = interpreter {
            return self.add(&interpreter);
        }
        let Some(loader) = loader_path else { return Ok(()) };
        self.add(&loader)?;
        libraries(&loader, path).iter().try_for_each(|library| self.add(library))
    }

    /// Adds a file, or a folder with all that is in it.
    pub(super) fn add_all(&mut self, path: &Path) -> Result<(), Error> {
        let path = std::path::absolute(path).map_err(cannot(format!("find {}", path.display())))?;
        path.metadata().map_err(cannot(format!("give the guest {}", path.display())))?;
        let mut left = vec![path];
        let mut seen = HashSet::new();
        while let Some(path) = left.pop() {
            if !path.is_dir() {
                self.add(&path)?;
            } else if let Some(name) = path.to_str().filter(|_| {
                // Links may lead round.
                path.canonicalize().is_ok_and(|real| seen.insert(real)) && seen.len() < FILES_MAX
            }) {
                self.archive.folder(name);
                let entries = path.read_dir().map_err(cannot(format!("read {}", path.display())))?;
                left.extend(entries.flatten().map(|entry| entry.path()));
            }
        }
        Ok(())
    }

    /// The archive, and the code that is in it.
    pub(super) fn into_parts(self) -> (Archive, Code) {
        (self.archive, self.code)
    }
}

impl Code {
    fn add(&mut self, path: &Path, file: &object::File<'_>, bytes: &[u8]) {
        for segment in file.segments() {
            let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { continue };
            if !p_flags.contains(PF_X) {
                continue;
            }
            let (at, length) = segment.file_range();
            let offset = at & !(PAGE as u64 - 1);
            let end = (at + length).next_multiple_of(PAGE as u64);
            let Some(mapped) = bytes.get(offset as usize..(end as usize).min(bytes.len())) else { continue };
            let mut mapped = mapped.to_owned();
            mapped.resize((end - offset) as usize, 0);
            let part = Rc::new(Part { path: path.to_owned(), offset, bytes: mapped });
            for (number, page) in part.bytes.chunks(PAGE).enumerate() {
                let at = (number * PAGE) as u64;
                self.0.entry(page.to_owned()).or_insert_with(|| (Rc::clone(&part), at));
            }
        }
    }

    /// The files, each of them once for a page.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.values().map(|(part, _)| part.path.as_path())
    }

    /// What a page is of, and how far behind the begin of that.
    pub(super) fn find(&self, page: &[u8]) -> Option<(Rc<Part>, u64)> {
        self.0.get(page).cloned()
    }
}

/// What is to run a script.
fn interpreter_of_script(bytes: &[u8]) -> Option<&[u8]> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    line.trim_ascii_start().split(|byte| byte.is_ascii_whitespace()).next()
}

/// What loads a program: PT_INTERP.
fn loader(bytes: &[u8]) -> Option<PathBuf> {
    use object::elf::{FileHeader64, PT_INTERP};
    use object::read::elf::{FileHeader, ProgramHeader};
    let header = FileHeader64::<object::Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, bytes).ok()?;
    let interpreter = headers.iter().find(|header| header.p_type(endian) == PT_INTERP)?;
    let path = interpreter.data(endian, bytes).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(path.split(|byte| *byte == 0).next()?)))
}

/// The libraries of a program, as its loader lists them without starting it.
fn libraries(loader: &Path, program: &Path) -> Vec<PathBuf> {
    let Ok(output) = Command::new(loader).arg("--list").arg(program).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = text.lines().filter_map(|line| {
        let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
        path.starts_with('/').then(|| path.split(" (").next().unwrap_or(path).into())
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_comes_with_its_libraries_and_a_script_with_its_interpreter() {
        let folder = tempfile::tempdir().expect("a directory");
        let script = folder.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e\necho").expect("a script");
        let mut contents = Contents::default();
        contents.add_all(folder.path()).expect("files");
        let (archive, code) = contents.into_parts();
        assert!(archive.has(script.to_str().expect("text")) && archive.has("/bin/sh"));
        let shell = std::fs::read("/bin/sh").expect("a shell");
        let loader = loader(&shell).expect("it is loaded");
        assert!(archive.has(loader.to_str().expect("text")));
        let libraries = libraries(&loader, Path::new("/bin/sh"));
        assert!(libraries.iter().any(|path| path.to_string_lossy().contains("libc")), "{libraries:?}");
        let (part, at) = code.0.values().find(|(part, _)| part.path.ends_with("sh")).expect("its code");
        let page = &part.bytes[*at as usize..][..PAGE];
        assert_eq!(code.find(page).map(|(_, found)| found), Some(*at));
        assert_eq!(page, &shell[(part.offset + at) as usize..][..PAGE]);
    }
}

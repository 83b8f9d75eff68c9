//! A program or library whose functions are wanted: a file, or what a process has mapped.

use crate::lists::{Listed, Lists};
use crate::{Function, Functions, Pattern, read_with};
use mote_pattern::similar;
use mote_symbol::functions::{Functions as Debug, Signature};
use mote_symbol::mapped::{self, FileId};
use mote_symbol::{Image, ImageError, demangle, names};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A binary that was looked through.
pub struct Object {
    /// As people, or the process, call it.
    pub path: PathBuf,
    /// How far from the addresses of its file it is loaded; 0 of a file.
    pub shift: u64,
    /// Its functions.
    pub found: Functions,
    /// What a process has mapped, and the file that it is.
    pub mapped: Option<Part>,
    /// What probe lists say of it.
    pub listed: Listed,
    debug: Option<Debug>,
}

/// Where the code of a file is in a process.
#[derive(Debug)]
pub struct Part {
    /// The address.
    pub start: u64,
    /// Of the file's byte at this offset.
    pub offset: u64,
    /// The file.
    pub file: File,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("path", &self.path).field("shift", &self.shift).finish_non_exhaustive()
    }
}

impl Object {
    /// Looks through a file; `lists` have names for it.
    ///
    /// # Errors
    /// As [`read`].
    pub fn of_file(path: &Path, lists: &Lists) -> Result<Object, ImageError> {
        let image = Image::open(path)?;
        let listed = lists.of_file(&image, path);
        Object::read(path, path, &image, listed)
    }

    /// Looks through all that a process has mapped as code, but for the files that are `known`; these become all that
    /// it has. Also returns what could not be read, and why. Nothing at all when it has ended, or belongs to another
    /// user.
    #[must_use]
    pub fn of_process(
        pid: u32,
        lists: &Lists,
        known: &mut HashSet<FileId>,
    ) -> (Vec<Object>, Vec<(PathBuf, String)>) {
        let (mut objects, mut left_out) = (Vec::new(), Vec::new());
        for mapped in mapped::code(pid) {
            let map = &mapped.map;
            let Some(id) = mapped.file.filter(|id| known.insert(*id)) else { continue };
            let path = PathBuf::from(&map.path);
            let opened = id.open(pid, (map.start, map.end), &map.path).map_err(|why| why.to_string());
            let found = opened.and_then(|file| {
                use std::os::fd::AsRawFd;
                let opened = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
                let why = |why: ImageError| why.to_string();
                let image = Image::open(&opened).map_err(why)?;
                let shift = image.shift_of_code(map.start, map.offset);
                let shift = shift.unwrap_or(map.start.wrapping_sub(map.offset));
                let listed = lists.of_mapped(&image, pid, (id, &file), map);
                let object = Object::read(&opened, &path, &image, listed).map_err(why)?;
                let part = Part { start: map.start, offset: map.offset, file };
                Ok(Object { shift, mapped: Some(part), ..object })
            });
            match found {
                Ok(object) => objects.push(object),
                Err(why) => left_out.push((path, why)),
            }
        }
        (objects, left_out)
    }

    /// Looks through a file, which is opened at `file` and called `path`.
    fn read(file: &Path, path: &Path, image: &Image, listed: Listed) -> Result<Object, ImageError> {
        let found = read_with(image, &listed.table())?;
        let debug = Debug::of(image, file);
        Ok(Object { path: path.to_owned(), shift: 0, found, mapped: None, listed, debug })
    }

    /// Its name without its directory.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The functions that one of the patterns means; all without patterns.
    #[must_use]
    pub fn meant(&self, patterns: &[Pattern]) -> Vec<Function> {
        let is_meant = |function: &&Function| {
            patterns.is_empty() || patterns.iter().any(|pattern| self.is_meant(function, pattern))
        };
        self.found.functions.iter().filter(is_meant).cloned().collect()
    }

    /// Whether a pattern means this function.
    #[must_use]
    pub fn is_meant(&self, function: &Function, pattern: &Pattern) -> bool {
        let symbol = function.name.as_deref().unwrap_or_default();
        pattern.fits_size(function.len)
            && pattern.fits(&self.name(), symbol, || Some(self.place(function)?.0))
    }

    /// Parameters and result of a function, where the debug information has them.
    #[must_use]
    pub fn signature(&self, function: &Function) -> Option<Signature> {
        self.debug.as_ref()?.signature(function.address)
    }

    /// File and line of a function.
    #[must_use]
    pub fn place(&self, function: &Function) -> Option<(String, u32)> {
        let listed = || {
            let function = self.listed.list.as_ref()?.function(function.address)?;
            Some((function.file.clone()?, function.line.unwrap_or(0)))
        };
        self.debug.as_ref().and_then(|debug| debug.place(function.address)).or_else(listed)
    }
}

/// `; similar names: a, b` for a pattern that nothing fits.
#[must_use]
pub fn similar_names(objects: &[Object], pattern: &Pattern) -> String {
    let functions = objects.iter().flat_map(|object| &object.found.functions);
    let names: BTreeSet<String> =
        functions.filter_map(|one| Some(names::bare(&demangle(one.name.as_ref()?)))).collect();
    let found = similar(pattern.name(), names.iter().map(String::as_str));
    if found.is_empty() { String::new() } else { format!("; similar names: {}", found.join(", ")) }
}

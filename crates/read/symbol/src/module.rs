//! One file of a recording, ready to name addresses in it; what was found out is kept.

use crate::debug::{self, DebugFiles, Reader};
use crate::demangle::demangle;
use crate::frames::{Frame, OfFile};
use crate::image::{Image, ImageError, with_elf};
use crate::location::{Doubt, Function};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What is known of a place in a file.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) functions: Vec<Function>,
    /// Where the function begins that has no name, in the file's own address space.
    pub(crate) begin: Option<u64>,
    pub(crate) doubt: Option<Doubt>,
}

/// A file as it was recorded, and what of it is there now.
pub(crate) struct Module {
    /// How people see it.
    pub(crate) label: Arc<str>,
    state: Result<Open, Doubt>,
    known: FxHashMap<u64, Arc<Known>>,
}

struct Open {
    image: Image,
    /// By address; read when a name is missing.
    frames: OnceCell<Vec<Frame>>,
    context: Option<addr2line::Context<Reader>>,
}

/// What the recording says of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) path: &'a str,
    pub(crate) build_id: &'a str,
    /// A file without a build id that was written after this is not the recorded one.
    pub(crate) not_after: Option<SystemTime>,
}

impl Module {
    /// The file `expected`, looked for below `root`.
    pub(crate) fn open(expected: Expected<'_>, root: Option<&Path>, files: &DebugFiles) -> Module {
        // The kernel puts it behind the path of a file that was removed; another may have come in its place.
        let plain = expected.path.strip_suffix(" (deleted)").unwrap_or(expected.path);
        let label: Arc<str> = Arc::from(plain);
        let path = match root {
            Some(root) => root.join(plain.trim_start_matches('/')),
            None => PathBuf::from(plain),
        };
        let state = match Image::open(&path) {
            Ok(image) => check(&image, expected, &label).map_or_else(|| Ok(Open::new(image, files)), Err),
            Err(ImageError::Unreadable { .. }) => Err(Doubt::Missing(label.clone())),
            Err(_) => Err(Doubt::Damaged(label.clone())),
        };
        Module { label, state, known: FxHashMap::default() }
    }

    /// A file of the recording itself.
    pub(crate) fn of_bytes(label: &str, bytes: &[u8]) -> Module {
        let label: Arc<str> = Arc::from(label);
        let state = match Image::from_bytes(Path::new(&*label), bytes) {
            Ok(image) => Ok(Open { image, frames: OnceCell::new(), context: None }),
            Err(_) => Err(Doubt::Damaged(label.clone())),
        };
        Module { label, state, known: FxHashMap::default() }
    }

    /// A file about which nothing can be known.
    pub(crate) fn unknown(label: &str, doubt: Doubt) -> Module {
        Module { label: Arc::from(label), state: Err(doubt), known: FxHashMap::default() }
    }

    /// What lies at `offset` of the file; the function is the one `back` bytes before.
    pub(crate) fn at(&mut self, offset: u64, back: u64) -> Arc<Known> {
        let key = offset << 1 | (back & 1);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let known = match &self.state {
            Ok(open) => open.find(offset, back),
            Err(doubt) => Err(doubt.clone()),
        };
        let known = match known {
            Ok(functions) if functions.is_empty() => {
                let begin = self.state.as_ref().ok().and_then(|open| open.begin(offset, back));
                Known { functions, begin, doubt: Some(Doubt::NoFunction(self.label.clone())) }
            }
            Ok(functions) => Known { functions, begin: None, doubt: None },
            Err(doubt) => Known { functions: Vec::new(), begin: None, doubt: Some(doubt) },
        };
        let known = Arc::new(known);
        self.known.insert(key, known.clone());
        known
    }
}

/// Why the file is not the recorded one.
fn check(image: &Image, expected: Expected<'_>, label: &Arc<str>) -> Option<Doubt> {
    if expected.build_id.is_empty() {
        // A recorded file without a build id: one that has one now was built anew, or the recorder could not read it.
        let newer = image.modified.zip(expected.not_after).is_some_and(|(modified, limit)| modified > limit);
        let removed = expected.path.ends_with(" (deleted)");
        return (newer || removed).then(|| Doubt::Newer(label.clone()));
    }
    (image.build_id != expected.build_id).then(|| Doubt::Changed(label.clone()))
}

impl Open {
    fn new(mut image: Image, files: &DebugFiles) -> Open {
        let separate = if image.has_dwarf { None } else { files.find(&image) };
        if let Some(table) = separate.as_deref().and_then(debug::table) {
            image.table.merge(&table);
        }
        let path = if image.has_dwarf { Some(image.path.as_path()) } else { separate.as_deref() };
        let dwarf = path.and_then(|path| debug::dwarf(path, files).ok());
        let context = dwarf.and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok());
        Open { image, frames: OnceCell::new(), context }
    }

    fn find(&self, offset: u64, back: u64) -> Result<Vec<Function>, Doubt> {
        let Some(address) = self.image.address_of(offset.saturating_sub(back)) else { return Ok(Vec::new()) };
        let symbol = self.image.table.find(address);
        let mut functions = self.described(address).unwrap_or_default();
        match (functions.last_mut(), symbol) {
            (Some(outermost), Some(symbol)) => {
                outermost.offset = Some(address - symbol.address + back);
                // The linker's name says which class or module; DWARF's may be the bare one.
                outermost.name = Arc::from(&*demangle(symbol.name));
            }
            (Some(outermost), None) => outermost.offset = Some(0),
            (None, Some(symbol)) => {
                let offset = address - symbol.address + back;
                let name = Arc::from(&*demangle(symbol.name));
                functions.push(Function { name, offset: Some(offset), line: None });
            }
            (None, None) => {}
        }
        Ok(functions)
    }

    /// Where the function begins that something belongs to, by the descriptions of frames.
    fn begin(&self, offset: u64, back: u64) -> Option<u64> {
        let address = self.image.address_of(offset.saturating_sub(back))?;
        let frames = self.frames.get_or_init(|| with_elf(&self.image.path, OfFile).unwrap_or_default());
        let behind = frames.partition_point(|frame| frame.address <= address);
        let frame = frames.get(behind.checked_sub(1)?)?;
        (address - frame.address < frame.len).then_some(frame.address)
    }

    /// Functions as the debug information has them, the innermost first.
    fn described(&self, address: u64) -> Option<Vec<Function>> {
        let context = self.context.as_ref()?;
        let mut frames = context.find_frames(address).skip_all_loads().ok()?;
        let mut functions = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            let line =
                frame.location.and_then(|place| Some((Arc::from(place.file?), place.line.unwrap_or(0))));
            match name {
                Some(name) => {
                    functions.push(Function { name: Arc::from(&*demangle(&name)), offset: None, line });
                }
                // A line without a function: the symbol table has the name.
                None => functions.push(Function { name: Arc::from("?"), offset: None, line }),
            }
        }
        Some(functions)
    }
}

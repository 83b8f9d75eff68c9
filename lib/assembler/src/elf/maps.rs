//! Maps of an object: defined by types (`.maps`), by `struct bpf_map_def` (`maps`), and sections of variables.

use super::btf::Btf;
use super::file::{File, Section};
use super::{Map, ObjectError};
use mote_bpf::{MapKind, MapShape};

/// Programs may only read it (`BPF_F_RDONLY_PROG`).
const READ_ONLY: u32 = 1 << 7;

/// Most maps of an object.
const MAPS_MAX: usize = 1024;

/// A map and where it lies in the file.
#[derive(Debug)]
struct Placed {
    section: usize,
    offset: u64,
    /// True for sections of variables, of which an address is taken, not the map.
    variables: bool,
    map: Map,
}

/// What an address in a section of the file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This map.
    Map(u32),
    /// This byte of a map's first value.
    Value { map: u32, offset: u32 },
}

#[derive(Debug)]
pub(super) struct Maps(Vec<Placed>);

type Result<T> = std::result::Result<T, ObjectError>;

/// What a definition says; zeros where it says nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Definition {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

impl Maps {
    pub(super) fn read(file: &File<'_>) -> Result<Maps> {
        let mut maps = Maps(Vec::new());
        for (index, section) in file.sections.iter().enumerate() {
            match section.name {
                ".maps" => maps.typed(file, index)?,
                "maps" => maps.plain(file, index, section)?,
                name if is_variables(name) && section.size > 0 => maps.variables(index, section)?,
                _ => {}
            }
        }
        // Definitions come first, in the order of the file; `sort_by_key` keeps it.
        maps.0.sort_by_key(|placed| (placed.variables, placed.section, placed.offset));
        Ok(maps)
    }

    pub(super) fn all(self) -> Vec<Map> {
        self.0.into_iter().map(|placed| placed.map).collect()
    }

    /// What lies at an offset in a section.
    pub(super) fn at(&self, section: usize, offset: u64) -> Option<Place> {
        for (map, placed) in (0..).zip(&self.0) {
            if placed.section != section {
                continue;
            }
            if placed.variables {
                let offset =
                    u32::try_from(offset).ok().filter(|offset| *offset <= placed.map.shape.value_bytes)?;
                return Some(Place::Value { map, offset });
            }
            if placed.offset == offset {
                return Some(Place::Map(map));
            }
        }
        None
    }

    fn typed(&mut self, file: &File<'_>, section: usize) -> Result<()> {
        let btf = file.sections.iter().find(|section| section.name == ".BTF");
        let Some(btf) = btf else { return Err(ObjectError::Btf("it is missing".into())) };
        let btf = Btf::read(btf.data)?;
        for (name, number) in btf.variables(".maps")? {
            let symbol = file.symbols.iter().find(|s| s.section == Some(section) && s.name == name);
            let Some(symbol) = symbol else { return Err(refused(name, "it is no symbol of the object")) };
            let mut definition = Definition::default();
            for (member, number) in btf.members(number)? {
                match member {
                    "type" => definition.kind = btf.number(number)?,
                    "max_entries" => definition.entries = btf.number(number)?,
                    "key_size" => definition.key = btf.number(number)?,
                    "value_size" => definition.value = btf.number(number)?,
                    "map_flags" => definition.flags = btf.number(number)?,
                    "key" => definition.key = btf.size(btf.pointed(number)?)?,
                    "value" => definition.value = btf.size(btf.pointed(number)?)?,
                    // Maps live as long as their session, pinned or not.
                    "pinning" => {}
                    other => return Err(refused(name, &format!("`{other}` is not supported"))),
                }
            }
            self.push(section, symbol.value, name, definition)?;
        }
        Ok(())
    }

    fn plain(&mut self, file: &File<'_>, index: usize, section: &Section<'_>) -> Result<()> {
        for symbol in file.symbols.iter().filter(|symbol| symbol.section == Some(index)) {
            // The section itself is a symbol too, and has no name.
            if symbol.name.is_empty() || symbol.size == 0 {
                continue;
            }
            let start = usize::try_from(symbol.value).ok();
            let bytes = start.and_then(|start| section.data.get(start..)?.get(..20));
            let Some(bytes) = bytes else { return Err(refused(symbol.name, "its definition is cut")) };
            let mut words =
                bytes.chunks_exact(4).map(|w| w.iter().rev().fold(0u32, |n, b| n << 8 | u32::from(*b)));
            let mut next = || words.next().unwrap_or(0);
            let definition =
                Definition { kind: next(), key: next(), value: next(), entries: next(), flags: next() };
            self.push(index, symbol.value, symbol.name, definition)?;
        }
        Ok(())
    }

    fn push(&mut self, section: usize, offset: u64, name: &str, definition: Definition) -> Result<()> {
        let Definition { kind, key, value, entries, flags } = definition;
        let Some(kind) = map_kind(kind) else {
            return Err(refused(name, &format!("type {kind} of the kernel's is not supported")));
        };
        let (key, value) = match kind {
            MapKind::Programs => (4, 4),
            _ => (key, value),
        };
        let read_only = flags & READ_ONLY != 0;
        let shape = MapShape { kind, key_bytes: key, value_bytes: value, entries, read_only };
        if !shape.is_sound() {
            return Err(refused(name, &format!("sizes are out of bounds: {shape:?}")));
        }
        let map = Map { name: name.to_owned(), shape, initial: Vec::new() };
        self.place(Placed { section, offset, variables: false, map })
    }

    fn place(&mut self, placed: Placed) -> Result<()> {
        if self.0.len() == MAPS_MAX {
            return Err(refused(&placed.map.name, &format!("there are more than {MAPS_MAX} maps")));
        }
        self.0.push(placed);
        Ok(())
    }

    fn variables(&mut self, index: usize, section: &Section<'_>) -> Result<()> {
        if !section.relocations.is_empty() {
            return Err(ObjectError::Section {
                section: section.name.to_owned(),
                problem: "it holds addresses, which variables of programs cannot; use offsets".into(),
            });
        }
        let shape = MapShape {
            kind: MapKind::Array,
            key_bytes: 4,
            value_bytes: u32::try_from(section.size).unwrap_or(0),
            entries: 1,
            read_only: section.name.starts_with(".rodata"),
        };
        if !shape.is_sound() {
            return Err(refused(section.name, &format!("{} bytes of variables are too many", section.size)));
        }
        let map = Map { name: section.name.to_owned(), shape, initial: section.data.to_vec() };
        self.place(Placed { section: index, offset: 0, variables: true, map })
    }
}

fn refused(map: &str, problem: &str) -> ObjectError {
    ObjectError::Map { map: map.to_owned(), problem: problem.to_owned() }
}

fn is_variables(section: &str) -> bool {
    [".rodata", ".data", ".bss"]
        .iter()
        .any(|name| section.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// From the kernel's numbers (`enum bpf_map_type`).
fn map_kind(number: u32) -> Option<MapKind> {
    Some(match number {
        1 => MapKind::Hash,
        2 => MapKind::Array,
        3 => MapKind::Programs,
        6 => MapKind::PerCpuArray,
        9 => MapKind::LruHash,
        27 => MapKind::RingBuffer,
        _ => return None,
    })
}

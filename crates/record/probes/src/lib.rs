//! Probes of programs that the kernel serves: any function (uprobes), and the static probes that programs carry for
//! SystemTap (USDT).
//!
//! | pattern | what |
//! |---|---|
//! | `uprobe:BIN:FUNCTION` | entry of a function; `+OFFSET` behind it: that instruction; `0xADDRESS` instead: that address of the file |
//! | `uprobe:BIN:FUNCTION(id: i32, path: str)` | names and types of the first arguments, for a binary without debug information |
//! | `uretprobe:BIN:FUNCTION` | return of a function |
//! | `usdt:BIN:PROVIDER:NAME`, `usdt:BIN:NAME` | a static probe |
//! | `usdt:BIN:NAME(file: str, line: i32)` | names and types of its first arguments |
//! | `kprobe:FUNCTION`, `kretprobe:FUNCTION` | a function of the kernel, where it was built with kprobes |
//! | `fentry:FUNCTION`, `fexit:FUNCTION` | the same without a trap, where the kernel can put a jump there; `fexit` has the arguments as well |
//! | `fentry:FUNCTION(buf: ptr)` | another type for an argument of this name |
//!
//! `BIN` is a path, a command in `PATH`, or a library (`libc`, `libpthread.so.0`); of a process that is chosen with
//! `-p`, what it has mapped. Functions, providers and names may be patterns with `*` and `?`, which fit at most
//! [`MATCHES_MAX`] functions, of the kernel [`KERNEL_MATCHES_MAX`].
//!
//! # Fields
//! `ip`, as LTTng's; then the parameters with names and types when there is debug information, else `arg1` to `arg6`,
//! the registers of C's calling convention; of a return, `ret`; of a static probe, `arg1` and so on with the sizes that
//! it states. `char *` is recorded as text. What is passed in registers that the kernel does not show (floating point)
//! is left out, and said ([`Selection::notes`]). Of the kernel's functions BTF tells the parameters; `const char *` is
//! text, wherever it lies. `fentry` and `fexit` have no `ip`.
//!
//! # Names
//! `uprobe_BIN_FUNCTION`, `uretprobe_BIN_FUNCTION`, `usdt_PROVIDER_NAME`; the provider is the first word. A static
//! probe that the compiler has put into several places is several events with one number more: `usdt_tick_tock_2`.
#![forbid(unsafe_code)]

mod arch;
mod argument;
mod binary;
mod error;
mod function;
mod kernel;
mod pattern;
pub mod pinned;
mod usdt;

pub use binary::Where;
pub use error::{Error, Wrong};

use mote_catalog::btf::Btf;
use mote_catalog::event::{Event, Hook};
use mote_symbol::Image;
use mote_sys::Errno;
use pattern::{Kind, Spec};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Most functions, or places of static probes, that one pattern may choose.
pub const MATCHES_MAX: usize = 1000;

/// Most functions of the kernel that one pattern may choose: each is attached by itself, and the kernel takes some
/// milliseconds for it.
pub const KERNEL_MATCHES_MAX: usize = 200;

/// What patterns of probes have chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The events, each once.
    pub events: Vec<Event>,
    /// What could not be had of them: arguments, places. For people.
    pub notes: Vec<String>,
}

/// Whether `pattern` is one of a probe: for this module, not for the catalogue.
#[must_use]
pub fn is_probe(pattern: &str) -> bool {
    pattern.split_once(':').is_some_and(|(kind, _)| Kind::of(kind).is_some())
}

/// The kernel's types, and whether programs can be attached to its functions.
#[derive(Clone, Copy, Debug)]
pub struct KernelTypes<'t> {
    /// Its functions and their parameters.
    pub btf: &'t Btf,
    /// Tries to attach a program to a function (`mote_kernel::attach::try_function`): this crate loads none.
    pub try_function: fn(&Btf) -> Result<(), Errno>,
}

/// The events that the patterns mean; `types` are the kernel's, if it tells them.
///
/// # Errors
/// The first pattern that means nothing, with the reason.
pub fn select(
    patterns: &[impl AsRef<str>],
    place: &Where,
    types: Option<KernelTypes<'_>>,
) -> Result<Selection, Error> {
    let mut selection = Selection::default();
    let mut known = Known { images: HashMap::new(), kernel: kernel::Kernel::new(types) };
    for pattern in patterns {
        let pattern = pattern.as_ref();
        add(pattern, place, &mut known, &mut selection)
            .map_err(|wrong| Error { pattern: pattern.to_owned(), wrong })?;
    }
    tell_apart(&mut selection.events);
    Ok(selection)
}

/// Entry point for fuzzing: reads `bytes` as the notes of static probes with their arguments, and returns how many of
/// these can be read.
#[must_use]
pub fn read_notes(bytes: &[u8], base: Option<u64>) -> usize {
    let probes = usdt::notes(bytes, base);
    probes.iter().flat_map(|probe| argument::arguments(&probe.arguments)).filter(Result::is_ok).count()
}

/// What was read for one pattern, and may be asked for the next.
struct Known<'t> {
    images: HashMap<String, Image>,
    kernel: kernel::Kernel<'t>,
}

fn add(pattern: &str, place: &Where, known: &mut Known<'_>, selection: &mut Selection) -> Result<(), Wrong> {
    let spec = Spec::parse(pattern)?;
    if spec.kind.is_of_kernel() {
        return kernel::add(&spec, &mut known.kernel, selection);
    }
    let images = &mut known.images;
    if !images.contains_key(&spec.binary) {
        let path = place.find(&spec.binary)?;
        let mut image = Image::open(&pinned::opened(&path)).map_err(Wrong::image)?;
        image.path.clone_from(&path);
        if image.machine != arch::MACHINE {
            return Err(Wrong::Machine { path, machine: format!("{:?}", image.machine) });
        }
        images.insert(spec.binary.clone(), image);
    }
    let Some(image) = images.get(&spec.binary) else { return Ok(()) };
    match spec.kind {
        Kind::Usdt => usdt::add(&spec, image, selection),
        _ => function::add(&spec, image, selection),
    }
}

/// Leaves away events of the same place, and numbers those that have one name.
fn tell_apart(events: &mut Vec<Event>) {
    let mut places = HashSet::new();
    events.retain(|event| {
        let (place, offset, returns) = match &event.hook {
            Hook::Uprobe { path, offset, returns, .. } => (path.clone(), *offset, *returns),
            Hook::Kprobe { function, offset, returns } => (function.into(), *offset, *returns),
            Hook::Fentry { function, returns, .. } => (function.into(), 0, *returns),
            _ => return true,
        };
        places.insert((place, offset, returns, event.provider.clone()))
    });
    let mut used: HashMap<String, usize> = HashMap::new();
    for event in events {
        let count = used.entry(event.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            event.name = format!("{}_{count}", event.name);
        }
    }
}

/// A name for an event, of letters, digits and `_`.
fn event_name(parts: &[&str]) -> String {
    let mut name = String::new();
    for byte in parts.join("_").bytes() {
        let plain = byte.is_ascii_alphanumeric() || byte == b'_';
        if plain || !name.ends_with('_') {
            name.push(if plain { char::from(byte) } else { '_' });
        }
    }
    name.trim_end_matches('_').to_owned()
}

/// The file's name up to the first dot: `libc` for `/lib/libc.so.6`.
fn short(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split_once(".so").map_or(name.as_str(), |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests;

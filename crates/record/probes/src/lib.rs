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
mod selection;
mod usdt;

pub use binary::Where;
pub use error::{Error, Wrong};
pub use kernel::KernelTypes;
pub use selection::{KERNEL_MATCHES_MAX, MATCHES_MAX, Selection};
pub use usdt::{StaticProbe, notes as static_probes};

use mote_symbol::Image;
use pattern::{Kind, Spec};
use std::collections::HashMap;

/// Whether `pattern` is one of a probe: for this module, not for the catalogue.
#[must_use]
pub fn is_probe(pattern: &str) -> bool {
    pattern.split_once(':').is_some_and(|(kind, _)| Kind::of(kind).is_some())
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
    selection::tell_apart(&mut selection.events);
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

#[cfg(test)]
mod tests;

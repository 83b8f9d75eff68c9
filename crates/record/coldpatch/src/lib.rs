//! Binaries prepared for probes: the calls that compilers were asked to put at the begin and end of functions become
//! NOPs, and a list says where they were.
//!
//! ```text
//! bytes ─ Binary ─▶ code, relocations ─ Hooks ─▶ where the compilers' hooks are, also by PLT and GOT
//!                                   ─ arch::uses ─▶ calls of and jumps to them   ┐
//!                                   ─ sections   ─▶ places that are NOPs already ┴ Names ─▶ Placeholders ─▶ List
//! bytes + Placeholders ─ patch ─▶ bytes of the same length ─ strip ─▶ without symbols
//! ```
//! The source of the idea is iProbe (Arora et al. 2013, sections II-A and IV-A: ColdPatch). Beyond that: tail jumps,
//! calls by the global offset table, and the places that later compilers leave.
//!
//! Nothing but these instructions is changed: where the code of arguments stands before a call, it stays, and what it
//! loads is not used. Registers that a hook may change are not relied upon after the call by any compiler, so that
//! leaving them unchanged is right.
//!
//! # Limits
//! A hook is known by its name: a binary that was stripped before has only those of other files. What loads a hook's
//! address, or jumps to it on a condition, is left as it is ([`Left`]).
#![forbid(unsafe_code)]

mod arch;
mod binary;
mod error;
mod hooks;
mod names;
mod patch;
mod rewrite;
mod sections;
mod site;
mod strip;

pub use error::Error;
pub use patch::patch;
pub use rewrite::{Refusal, Refused, Rewrite};
pub use site::{Left, Why};
pub use strip::strip;

use binary::Binary;
use hooks::Hooks;
use mote_probelist::{Kind, List, Placeholder};
use mote_symbol::{Image, TextDigest, with_bytes};
use names::Names;
use site::Site;
use std::path::Path;

/// What becomes of symbols and debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbols {
    /// The symbols stay in the file.
    Keep,
    /// The symbols are left out of the file.
    Strip,
}

/// A binary whose placeholders are NOPs.
#[derive(Clone, Debug)]
pub struct Cold {
    /// The file.
    pub bytes: Vec<u8>,
    /// The list that belongs to it.
    pub list: List,
    /// What goes on as before.
    pub left: Vec<Left>,
    /// Functions that were to be rewritten, and stay as they were.
    pub refused: Vec<Refused>,
    /// How many functions are as they were because a running process has room for a jump ([`Rewrite::Needed`]).
    pub unneeded: usize,
}

/// What was found in a file.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its functions and placeholders. The digest of the code is that of the file as it is.
    pub list: List,
    /// What cannot be made a NOP.
    pub left: Vec<Left>,
}

/// Prepares the program or library `bytes`, which lies at `path`: its separate debug information is looked for by that.
/// The functions that `rewrite` means get a placeholder each, besides those that compilers have left.
///
/// # Errors
/// It is no program or library of this processor, or it is damaged. Where functions are to be rewritten: it is static,
/// was rewritten before, or has no place for more.
///
/// # Cost
/// Decodes all code, some 100 MB/s, and reads the debug information of each function.
pub fn coldpatch(path: &Path, bytes: &[u8], symbols: Symbols, rewrite: Rewrite<'_>) -> Result<Cold, Error> {
    let names = Names::of(&Image::from_bytes(path, bytes)?);
    let Found { mut list, left } = find_with(path, bytes, &names)?;
    let mut cold = bytes.to_owned();
    patch(&mut cold, &list.placeholders)?;
    let whole = (!rewrite.patterns().is_empty()).then(|| cold.clone());
    if symbols == Symbols::Strip {
        cold = strip(path, &cold)?;
    }
    let (mut refused, mut unneeded) = (Vec::new(), 0);
    if let Some(whole) = whole {
        let mut done = rewrite::rewrite(path, (&whole, &cold), &list.placeholders, rewrite, &names)?;
        list.placeholders.append(&mut done.placeholders);
        list.placeholders.sort_by_key(|place| place.address);
        (cold, refused, unneeded) = (done.bytes, done.refused, done.unneeded);
    }
    list.text = digest(path, &cold)?;
    Ok(Cold { bytes: cold, list, left, refused, unneeded })
}

/// Finds functions and placeholders.
///
/// # Errors
/// As [`coldpatch`].
pub fn find(path: &Path, bytes: &[u8]) -> Result<Found, Error> {
    find_with(path, bytes, &Names::of(&Image::from_bytes(path, bytes)?))
}

fn find_with(path: &Path, bytes: &[u8], names: &Names) -> Result<Found, Error> {
    let binary = Binary::of(path, bytes, arch::ARCHITECTURE)?;
    let mut hooks = Hooks::of(&binary);
    for code in binary.code.iter().filter(|code| code.is_linkage) {
        let entries = arch::thunks(code, |slot| hooks.in_slot(slot));
        hooks.add_entries(entries);
    }
    let begins = binary.begins(names.addresses());
    let (mut sites, mut left) = (Vec::new(), Vec::new());
    for code in &binary.code {
        arch::uses(code, &begins, &hooks, &mut sites, &mut left);
    }
    sections::add(&binary, names, &mut sites, &mut left);
    let placeholders = apart(sites).iter().filter_map(|site| placeholder(&binary, names, site)).collect();
    left.sort_unstable_by_key(|left| (left.address, left.why));
    left.dedup();
    let list = List {
        build_id: names.build_id().to_owned(),
        text: digest(path, bytes)?,
        functions: names.functions(&binary),
        placeholders,
    };
    Ok(Found { list, left })
}

/// The sites by address, without those that lie in an earlier one: a NOP that two tables name is one place. What was
/// found first is kept. How many NOPs a patchable entry has no table says: they end where another place begins.
fn apart(mut sites: Vec<Site>) -> Vec<Site> {
    sites.sort_by_key(|site| site.address);
    let mut places: Vec<Site> = Vec::with_capacity(sites.len());
    for site in sites {
        if let Some(last) =
            places.last_mut().filter(|last| last.address.saturating_add(last.size) > site.address)
        {
            if last.kind != Kind::Patchable || last.address == site.address {
                continue;
            }
            last.size = site.address - last.address;
        }
        places.push(site);
    }
    places
}

fn placeholder(binary: &Binary<'_>, names: &Names, site: &Site) -> Option<Placeholder> {
    let Site { address, size, kind, was, ref event } = *site;
    let (place, inlined) = names.place(address);
    let (file, line) = place.unzip();
    Some(Placeholder {
        offset: binary.offset_of(address)?,
        address,
        size,
        kind,
        was,
        function: names.function_of(address, size).map(str::to_owned),
        file,
        line,
        inlined,
        event: event.clone(),
        entry: None,
    })
}

fn digest(path: &Path, bytes: &[u8]) -> Result<String, Error> {
    let digest = with_bytes(path, bytes, TextDigest)?;
    digest.ok_or_else(|| Error::damaged(path, "it has more than 512 MiB of code"))
}

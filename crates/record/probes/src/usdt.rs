//! Static probes: what `sys/sdt.h` leaves in the section `.note.stapsdt`.
//!
//! A note has the addresses of the probe, of `.stapsdt.base` when the file was linked, and of the semaphore; then
//! provider, name and arguments, as texts. When the file was relinked to other addresses (prelink), the section
//! `.stapsdt.base` moved with the code, the notes did not: the difference is added. See
//! <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>.

use crate::error::{Wrong, similar};
use crate::function::{apart, given_type};
use crate::pattern::Spec;
use crate::selection::{MATCHES_MAX, Selection, event_name};
use crate::{arch, argument, pinned};
use mote_catalog::event::{Event, Field, Hook, Operand, Origin, Type};
use mote_functions::arguments::ArgumentType;
use mote_layout::types::Scalar;
use mote_pattern::Glob;
use mote_symbol::Image;
use mote_symbol::mapped::Bounded;
use object::{Object, ObjectSection};
use std::fs::File;
use std::path::Path;

/// Type of the notes, whose owner is `stapsdt`.
const NOTE_TYPE: u32 = 3;
/// Most notes that are read from one file.
const NOTES_MAX: usize = 100_000;

/// Most bytes that are read of a file.
const READ_MAX: u64 = 1 << 30;

/// A static probe at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticProbe {
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// Address of its NOP.
    pub address: u64,
    /// Address of the counter that switches it on; 0: none.
    pub semaphore: u64,
    /// Arguments, as the assembler wrote them.
    pub arguments: String,
}

/// Adds the events of the static probes that `spec` means.
pub(crate) fn add(spec: &Spec, image: &Image, selection: &mut Selection) -> Result<(), Wrong> {
    let path = || image.path.clone();
    let probes = read(&image.path)?;
    if probes.is_empty() {
        return Err(Wrong::NoProbes { path: path() });
    }
    let provider = Glob::new(spec.provider.as_deref().unwrap_or("*"));
    let name = Glob::new(&spec.name);
    let fits = |probe: &&StaticProbe| provider.matches(&probe.provider) && name.matches(&probe.name);
    let chosen: Vec<&StaticProbe> = probes.iter().filter(fits).collect();
    if chosen.is_empty() {
        let full = |probe: &StaticProbe| format!("{}:{}", probe.provider, probe.name);
        let names: Vec<String> = probes.iter().map(full).collect();
        let wanted = format!("{}:{}", spec.provider.as_deref().unwrap_or("*"), spec.name);
        let mut similar = similar(&wanted, names.iter().map(String::as_str));
        if similar.is_empty() {
            let some: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
            similar = format!("; it has {}", some.join(", "));
        }
        return Err(Wrong::NoProbe { path: path(), name: wanted, similar });
    }
    if chosen.len() > MATCHES_MAX {
        return Err(Wrong::TooMany { path: path(), count: chosen.len() });
    }
    for probe in chosen {
        let given = spec.arguments.as_deref().unwrap_or_default();
        selection.events.push(event(probe, image, given, &mut selection.notes)?);
    }
    Ok(())
}

/// The event of a probe; `given` are names and types of its first arguments, as a person wrote them.
fn event(
    probe: &StaticProbe,
    image: &Image,
    given: &[(String, ArgumentType)],
    notes: &mut Vec<String>,
) -> Result<Event, Wrong> {
    let in_file = |address| {
        let wrong = || Wrong::NoAddress { path: image.path.clone(), address };
        image.offset_of(address).ok_or_else(wrong)
    };
    let semaphore = if probe.semaphore == 0 { 0 } else { in_file(probe.semaphore)? };
    let offset = in_file(probe.address)?;
    let ip = Origin::Operand(Operand::Register(arch::IP));
    let mut fields = vec![Field { name: "ip".to_owned(), ty: Type::Scalar(Scalar::hex(64)), from: ip }];
    let arguments = argument::arguments(&probe.arguments);
    if given.len() > arguments.len() {
        return Err(Wrong::TooManyArguments {
            name: probe.name.clone(),
            has: arguments.len(),
            given: given.len(),
        });
    }
    for (number, argument) in (1..).zip(arguments) {
        match argument {
            Ok((ty, operand)) => fields.push(match given.get(number - 1) {
                Some((name, given)) => typed(probe, name, *given, &ty, operand)?,
                None => Field { name: format!("arg{number}"), ty, from: Origin::Operand(operand) },
            }),
            Err(text) => notes.push(format!(
                "argument {number} of static probe {}:{} is not recorded: programs in the kernel cannot read `{text}`",
                probe.provider, probe.name
            )),
        }
    }
    apart(&mut fields);
    let name = event_name(&["usdt", &probe.provider, &probe.name]);
    let hook = Hook::Uprobe { path: image.path.clone(), offset, semaphore, returns: false };
    Ok(Event { provider: "usdt".to_owned(), name, fields, hook })
}

/// The field of an argument that a person has named; `stated` is the type that the probe itself has for it.
fn typed(
    probe: &StaticProbe,
    name: &str,
    given: ArgumentType,
    stated: &Type,
    operand: Operand,
) -> Result<Field, Wrong> {
    let bytes = |ty: &Type| if let Type::Scalar(scalar) = ty { scalar.bytes() } else { size_of::<u64>() };
    let ty = given_type(given);
    if bytes(&ty) > bytes(stated) {
        return Err(Wrong::TooWide {
            probe: probe.name.clone(),
            name: name.to_owned(),
            has: bytes(stated),
            given: bytes(&ty),
        });
    }
    let from = if ty == Type::Text { Origin::OperandText(operand) } else { Origin::Operand(operand) };
    Ok(Field { name: name.to_owned(), ty, from })
}

/// The static probes of a file.
fn read(path: &Path) -> Result<Vec<StaticProbe>, Wrong> {
    let unreadable =
        |error| Wrong::Image(mote_symbol::ImageError::Unreadable { path: path.to_owned(), error });
    let file = File::open(pinned::opened(path)).map_err(unreadable)?;
    in_elf(&Bounded::new(file, READ_MAX)).map_err(|error| {
        let what = error.to_string();
        Wrong::Image(mote_symbol::ImageError::Damaged { path: path.to_owned(), what })
    })
}

fn in_elf(data: &Bounded) -> Result<Vec<StaticProbe>, object::Error> {
    let elf = object::File::parse(data)?;
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Ok(Vec::new()) };
    let base = elf.section_by_name(".stapsdt.base").map(|section| section.address());
    Ok(notes(section.data()?, base))
}

/// The probes in the bytes of the section, in the order in which they stand; what is no such note, or cut, is passed
/// over. `base`: where `.stapsdt.base` is now.
#[must_use]
pub fn notes(mut bytes: &[u8], base: Option<u64>) -> Vec<StaticProbe> {
    let mut probes = Vec::new();
    while probes.len() < NOTES_MAX {
        let Some((note, rest)) = split_note(bytes) else { break };
        bytes = rest;
        if note.ty == NOTE_TYPE && note.owner == b"stapsdt\0" {
            probes.extend(probe(note.body, base));
        }
    }
    probes
}

struct Note<'a> {
    ty: u32,
    owner: &'a [u8],
    body: &'a [u8],
}

/// The first note and what is behind it: sizes of owner and body, type, owner, body, the last two padded to 4 bytes.
fn split_note(bytes: &[u8]) -> Option<(Note<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<12>()?;
    let (words, _) = head.as_chunks::<4>();
    let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
    let (owner_len, body_len, ty) = (words.next()?, words.next()?, words.next()?);
    let padded = |len: u32| usize::try_from(u64::from(len).next_multiple_of(4)).ok();
    let (owner, rest) = rest.split_at_checked(padded(owner_len)?)?;
    // The last one may lack its padding.
    let (body, rest) = match rest.split_at_checked(padded(body_len)?) {
        Some(parts) => parts,
        None => rest.split_at_checked(usize::try_from(body_len).ok()?)?,
    };
    let owner = owner.get(..usize::try_from(owner_len).ok()?)?;
    Some((Note { ty, owner, body: body.get(..usize::try_from(body_len).ok()?)? }, rest))
}

fn probe(body: &[u8], base: Option<u64>) -> Option<StaticProbe> {
    let (head, texts) = body.split_first_chunk::<24>()?;
    let (words, _) = head.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let (address, linked_base, semaphore) = (words.next()?, words.next()?, words.next()?);
    let mut texts = texts.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut text = || texts.next().map(|text| text.into_owned());
    let (provider, name) = (text()?, text()?);
    let arguments = text().unwrap_or_default();
    let moved = base.filter(|_| linked_base != 0).map_or(0, |base| base.wrapping_sub(linked_base));
    let semaphore = if semaphore == 0 { 0 } else { semaphore.wrapping_add(moved) };
    let address = address.wrapping_add(moved);
    (!provider.is_empty() && !name.is_empty()).then_some(StaticProbe {
        provider,
        name,
        address,
        semaphore,
        arguments,
    })
}

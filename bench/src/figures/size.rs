//! `size`: what the library adds to a program: sections of the file that are loaded, that is text and data.

use super::effort::Effort;
use super::figure::Figure;
use super::native;
use super::session::{Lab, built};
use anyhow::Context;
use object::{Object, ObjectSection, SectionFlags, elf};
use std::path::Path;

/// Compares programs with one event and programs that are the same without mote. Counting has no spread.
pub(super) fn run(_: Effort) -> anyhow::Result<Vec<Figure>> {
    let built = built()?;
    let rust = loaded(&built.join("mote-bench-event"))? - loaded(&built.join("mote-bench-plain"))?;
    let c = match of_c() {
        Ok(kib) => Figure::new("c", "KiB", &[kib]),
        Err(why) => Figure::absent("c", "KiB", &format!("{why:#}")),
    };
    Ok(vec![Figure::new("rust", "KiB", &[rust]), c])
}

fn of_c() -> anyhow::Result<f64> {
    let lab = Lab::new()?;
    let with = loaded(&native::build(&lab)?)?;
    Ok(with - loaded(&native::build_without(&lab)?)?)
}

/// KiB of the sections of a program that take memory and are in its file.
fn loaded(path: &Path) -> anyhow::Result<f64> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = object::File::parse(&*bytes).with_context(|| format!("{} is no program", path.display()))?;
    let is_loaded =
        |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(elf::SHF_ALLOC));
    let sections = file.sections().filter(|section| is_loaded(section.flags()));
    let in_file: u64 = sections.filter_map(|section| section.file_range()).map(|(_, size)| size).sum();
    Ok(in_file as f64 / 1024.0)
}

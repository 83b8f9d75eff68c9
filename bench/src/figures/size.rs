//! `size`: what the library adds to a program: sections of the file that are loaded, that is text and data.

use super::effort::Effort;
use super::figure::Figure;
use super::native;
use super::session::{Lab, built};
use anyhow::Context;
use object::{Object, ObjectSection, SectionFlags, elf};
use std::path::Path;

/// Where the subjects without filters are built, beside this program's profile.
const WITHOUT_FILTERS: &str = "../no-filters";
/// How they are.
const BUILD: &str = "not built; CARGO_TARGET_DIR=target/no-filters cargo build --no-default-features, with --release \
                     -p mote-tests --bin plain --bin spotted, and with --profile library -p mote-capi";

/// Compares programs with one event and programs that are the same without mote. Counting has no spread.
pub(super) fn run(_: Effort) -> anyhow::Result<Vec<Figure>> {
    let built = built()?;
    let apart = built.join(WITHOUT_FILTERS);
    Ok(vec![
        figure("rust", grown(&built.join("mote-bench-event"), &built.join("mote-bench-plain"))),
        figure(
            "rust/no-filters",
            grown(&apart.join("release/spotted"), &apart.join("release/plain")).context(BUILD),
        ),
        figure("c", native::library("libmote.a").and_then(|library| of_c(&library))),
        figure("c/no-filters", of_c(&apart.join("library/libmote.a")).context(BUILD)),
    ])
}

fn figure(case: &str, kib: anyhow::Result<f64>) -> Figure {
    match kib {
        Ok(kib) => Figure::new(case, "KiB", &[kib]),
        Err(why) => Figure::absent(case, "KiB", &format!("{why:#}")),
    }
}

fn of_c(library: &Path) -> anyhow::Result<f64> {
    let lab = Lab::new()?;
    grown(&native::build_with(&lab, library)?, &native::build_without(&lab)?)
}

fn grown(with: &Path, without: &Path) -> anyhow::Result<f64> {
    Ok(loaded(with)? - loaded(without)?)
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

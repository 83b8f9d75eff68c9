//! What stays of a file without symbols: all that is loaded, byte for byte, and notes.

use crate::build;
use mote_coldpatch::{Symbols, find, strip};
use mote_probelist::Kind;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::collections::BTreeMap;
use std::process::Command;

/// Sections that are loaded, with their bytes and numbers; and the dynamic symbols.
type Loaded = (BTreeMap<String, (usize, u64, Vec<u8>)>, Vec<(String, u64)>);

fn loaded(elf: &object::File<'_>) -> Loaded {
    let is_loaded = |section: &object::Section<'_, '_>| section.address() != 0;
    let sections = elf.sections().filter(is_loaded).map(|section| {
        let bytes = section.data().unwrap_or_default().to_vec();
        (section.name().expect("text").to_owned(), (section.index().0, section.address(), bytes))
    });
    let symbols = elf.dynamic_symbols().map(|one| (one.name().expect("text").to_owned(), one.address()));
    (sections.collect(), symbols.collect())
}

fn check(words: &[&str]) {
    let Some(built) = build("gcc", words, &["sites.c"]) else { return };
    let whole = built.bytes();
    let stripped = strip(&built.path, &whole).expect("it is whole");
    assert!(stripped.len() < whole.len(), "{} of {}", stripped.len(), whole.len());
    let (before, after) = (object::File::parse(&*whole), object::File::parse(&*stripped));
    let (before, after) = (before.expect("whole"), after.expect("whole"));
    assert_eq!(loaded(&before), loaded(&after), "{words:?}");
    assert_eq!(before.build_id().expect("whole"), after.build_id().expect("whole"));
    let segments = |elf: &object::File<'_>| {
        let all = elf.segments().map(|one| (one.address(), one.file_range(), one.data().unwrap().to_vec()));
        all.collect::<Vec<_>>()
    };
    // The headers' own numbers are in the first one.
    let skip = |all: Vec<(u64, (u64, u64), Vec<u8>)>| {
        all.into_iter().map(|(at, range, bytes)| (at, range, bytes.get(64..).unwrap_or_default().to_vec()))
    };
    assert!(skip(segments(&before)).eq(skip(segments(&after))));
    assert_eq!(after.symbols().count(), 0);
    assert!(!after.has_debug_symbols());
    for name in [".symtab", ".strtab", ".debug_info"] {
        assert!(after.section_by_name(name).is_none(), "{name}");
    }
    let notes = |elf: &object::File<'_>| {
        elf.section_by_name(".note.stapsdt").map(|section| section.data().expect("whole").to_vec())
    };
    assert!(notes(&after).is_some_and(|after| Some(after) == notes(&before)));
    // Once more changes nothing.
    assert_eq!(strip(&built.path, &stripped).expect("whole"), stripped);
    assert_eq!(built.output(Some(&stripped)), built.output(None));
    // What others make of it.
    let path = built.keep.path().join("stripped");
    std::fs::write(&path, &stripped).expect("a file");
    match Command::new("readelf").args(["-aW"]).arg(&path).output() {
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success() && !said.contains("arning") && !said.contains("rror"), "{said}");
        }
        Err(why) => mote_skip::skip(format!("no readelf: {why}")),
    }
}

#[test]
fn what_is_loaded_stays_and_symbols_go() {
    for words in [&["-g"][..], &["-g", "-no-pie", "-fno-pie"], &["-g3", "-static"], &["-gz", "-static-pie"]] {
        check(words);
    }
}

#[test]
fn a_stripped_file_has_no_more_to_find_than_a_table_says() {
    let Some(built) = build("gcc", &["-O2", "-g"], &["sites.c"]) else { return };
    let found = find(&built.path, &built.cold(Symbols::Strip).bytes).expect("whole").list;
    assert_eq!(found.functions.len(), 0, "{found:#?}");
    let kinds: Vec<Kind> = found.placeholders.iter().map(|place| place.kind).collect();
    assert_eq!(kinds.len(), 3, "the static probe and two sites: {kinds:?}");
    assert!(kinds.contains(&Kind::Usdt) && kinds.contains(&Kind::Mote), "{kinds:?}");
    assert!(found.placeholders.iter().all(|place| place.function.is_none()));
}

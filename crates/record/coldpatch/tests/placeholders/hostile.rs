//! Files that are damaged, or that are no programs: an error or an answer, and never more than they can hold.

use crate::build;
use mote_coldpatch::{Rewrite, Symbols, coldpatch, find, patch, strip};
use std::path::Path;

#[test]
fn what_is_no_program_is_refused_with_a_sentence() {
    let keep = tempfile::tempdir().expect("a directory");
    let object = keep.path().join("sites.o");
    if !crate::build_at(&object, "gcc", &["-c"], &["sites.c"]) {
        return;
    }
    let object = std::fs::read(object).expect("built");
    let mut other = object.clone();
    other[18..20].copy_from_slice(&183_u16.to_le_bytes());
    for (bytes, says) in [
        (&b"#!/bin/sh\n"[..], "it is a script"),
        (b"", "it is empty"),
        (b"\x7fELF", "is damaged"),
        (&object, "is not linked; give the program"),
        (&other, "is for another processor (Aarch64)"),
    ] {
        let why = coldpatch(Path::new("it"), bytes, Symbols::Keep, Rewrite::Needed(&[]))
            .expect_err(says)
            .to_string();
        assert!(why.starts_with("it ") && why.contains(says), "{says}: {why}");
    }
}

#[test]
fn damaged_files_are_prepared_or_refused() {
    let words = ["-O2", "-finstrument-functions", "-g", "-fno-plt"];
    let Some(built) = build("gcc", &words, &["calls.c", "hooks.c"]) else { return };
    let whole = built.bytes();
    // The headers of the file and of its sections, and some bytes of everything else.
    let headers = whole.len() - 64 * 40;
    let places = (0..64).chain((64..headers).step_by(37)).chain((headers..whole.len()).step_by(3));
    let (mut done, mut refused) = (0, 0);
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        match coldpatch(&built.path, &damaged, Symbols::Strip, Rewrite::Needed(&[])) {
            Ok(cold) => {
                assert!(cold.bytes.len() <= whole.len() + 8192, "{at}");
                done += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(done > 500 && refused > 50, "{done} done, {refused} refused");
    for len in (0..whole.len()).step_by(997) {
        // The headers of sections are at the end.
        assert!(
            coldpatch(&built.path, &whole[..len], Symbols::Strip, Rewrite::Needed(&[])).is_err(),
            "{len}"
        );
    }
}

#[test]
fn a_list_of_another_file_changes_nothing_outside() {
    let Some(built) = build("gcc", &["-O2", "-finstrument-functions"], &["calls.c", "hooks.c"]) else {
        return;
    };
    let found = find(&built.path, &built.bytes()).expect("whole");
    let mut short = vec![0; 64];
    let why = patch(&mut short, &found.list.placeholders).expect_err("outside").to_string();
    assert!(why.contains("is not in the file"), "{why}");
    assert_eq!(short, [0; 64]);
    let mut places = found.list.placeholders;
    for (offset, size) in [(u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX), (64, 1), (0, 65)] {
        places[0].offset = offset;
        places[0].size = size;
        assert!(patch(&mut short, &places[..1]).is_err(), "{offset} {size}");
    }
}

/// A file of 1 MiB whose sections are each the whole file: `kind` and `flags` of all of them.
fn overlapping(kind: u32, flags: u64) -> Vec<u8> {
    const SECTIONS: u16 = 1000;
    let mut file = vec![0; 1 << 20];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[3, 0, 62, 0, 1]);
    put(40, &64_u64.to_le_bytes());
    put(52, &64_u16.to_le_bytes());
    put(58, &64_u16.to_le_bytes());
    put(60, &SECTIONS.to_le_bytes());
    put(62, &1_u16.to_le_bytes());
    for section in 1..usize::from(SECTIONS) {
        let at = 64 + 64 * section;
        let (kind, flags, size) = if section == 1 { (3_u32, 0_u64, 1) } else { (kind, flags, 1 << 20) };
        put(at + 4, &kind.to_le_bytes());
        put(at + 8, &flags.to_le_bytes());
        put(at + 16, &(section as u64 * 0x1000).to_le_bytes());
        put(at + 32, &u64::to_le_bytes(size));
    }
    file
}

#[test]
fn sections_that_are_all_of_the_file_are_refused() {
    let path = Path::new("overlapping");
    let code = find(path, &overlapping(1, 6)).expect_err("they overlap").to_string();
    assert!(code.contains("sections of code overlap"), "{code}");
    let notes = strip(path, &overlapping(7, 0)).expect_err("too much").to_string();
    assert!(notes.contains("or several are all of it"), "{notes}");
}

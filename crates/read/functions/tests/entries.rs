//! Functions of a file of assembly, each with the way that is right for it; and files that are damaged.

#![cfg(target_arch = "x86_64")]

use mote_functions::{Function, Functions, LeftOut, Reason, Way};
use mote_symbol::{Image, ImageError};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the functions of `entries.s` as a library; `None`, as a skip, without a C compiler.
fn library(directory: &Path) -> Option<PathBuf> {
    built(directory, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/entries.s"))
}

/// Builds a file of assembly as a library; `None` as of [`library`].
fn built(directory: &Path, source: &Path) -> Option<PathBuf> {
    let output = directory.join("entries.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-nostdlib", "-o"]).arg(&output).arg(source);
    match command.status() {
        Ok(status) => assert!(status.success()),
        Err(why) => {
            mote_skip::skip(format!("no C compiler: {why}"));
            return None;
        }
    }
    Some(output)
}

fn read(path: &Path) -> Result<Functions, ImageError> {
    mote_functions::read(&Image::open(path)?)
}

fn way(found: &Functions, name: &str) -> Way {
    let named = |function: &&Function| function.name.as_deref() == Some(name);
    found.functions.iter().find(named).unwrap_or_else(|| panic!("no {name}: {found:#?}")).way
}

#[test]
fn each_function_has_its_way() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(file) = library(directory.path()) else { return };
    let found = read(&file).expect("it is whole");
    for (name, expected) in [
        ("placeholder", Way::Placeholder),
        ("behind_endbr", Way::Placeholder),
        ("long_first", Way::Jump),
        ("behind_short", Way::Jump),
        ("only_return", Way::Jump),
        ("window", Way::Window { instructions: 3, bytes: 5 }),
        ("jumped_into", Way::Trap(Reason::JumpedInto)),
        ("by_table", Way::Trap(Reason::JumpedInto)),
        ("short", Way::Trap(Reason::Short)),
        ("undecodable", Way::Unknown),
    ] {
        assert_eq!(way(&found, name), expected, "{name}");
    }
    // All four bytes of the offset are those behind the first instruction, which has one byte.
    let Way::Punned { nearest, targets } = way(&found, "punned") else { panic!("{found:#?}") };
    assert_eq!((nearest, targets), (i64::from(i32::from_le_bytes([0x48, 0xc7, 0xc0, 0x80])) + 5, 1));
    assert_eq!(found.left_out, LeftOut { parts: 1, resolvers: 1, linkage: 0 });
    assert!(found.functions.iter().all(|one| one.name.as_deref() != Some("moved.cold")));
}

#[test]
fn a_stripped_file_has_the_functions_of_its_frames() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("a.c");
    std::fs::write(&source, "int a(int x) { return x + 1; }\nint b(int x) { return a(x) * 2; }\n")
        .expect("written");
    let file = directory.path().join("a.so");
    let mut command = Command::new("cc");
    command.args(["-O0", "-shared", "-nostdlib", "-Wl,--build-id=sha1", "-o"]).arg(&file).arg(&source);
    match command.status() {
        Ok(status) => assert!(status.success()),
        Err(why) => return mote_skip::skip(format!("no C compiler: {why}")),
    }
    let whole = read(&file).expect("it is whole");
    let stripped = directory.path().join("stripped.so");
    let mut command = Command::new("objcopy");
    command.args(["--strip-all", "--remove-section=.dynsym"]).arg(&file).arg(&stripped);
    if !command.status().is_ok_and(|status| status.success()) {
        // What the loader needs cannot always be removed.
        return mote_skip::skip("objcopy does not strip it");
    }
    let bare = read(&stripped).expect("it is whole");
    let places =
        |found: &Functions| found.functions.iter().map(|one| (one.address, one.len)).collect::<Vec<_>>();
    assert_eq!(places(&whole), places(&bare));
    assert_eq!(whole.functions.len(), 2, "{whole:#?}");
    assert_eq!(whole.build_id, bare.build_id);
    assert_eq!(whole.build_id.len(), 40);
}

#[test]
fn damaged_files_are_read_or_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(file) = library(directory.path()) else { return };
    let bytes = std::fs::read(&file).expect("readable");
    let whole = mote_functions::from_bytes(&file, &bytes).expect("it is whole");
    let (mut read, mut refused) = (0, 0);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        match mote_functions::from_bytes(&file, &damaged) {
            Ok(found) => read += usize::from(found.functions.len() <= whole.functions.len() + 2),
            Err(_) => refused += 1,
        }
    }
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
    for len in (0..bytes.len()).step_by(7) {
        let cut = mote_functions::from_bytes(&file, &bytes[..len]);
        assert!(
            cut.is_err() || cut.is_ok_and(|found| found.functions.len() <= whole.functions.len()),
            "{len}"
        );
    }
}

#[test]
fn the_c_library_can_be_probed_nearly_whole() {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    if !path.exists() {
        return mote_skip::skip("no C library at its usual place");
    }
    let found = read(path).expect("it is whole");
    let by_jump = |one: &&Function| !matches!(one.way, Way::Trap(_) | Way::Unknown);
    let (jumps, all) = (found.functions.iter().filter(by_jump).count(), found.functions.len());
    assert!(all > 2000 && jumps * 100 >= all * 99, "{jumps} of {all}");
}

/// Instructions that each name another entry of one long table, which all may be tables of their own.
#[test]
fn tables_within_tables_are_read_up_to_a_bound() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("tables.s");
    let instructions: String = (0..2000).map(|n| format!("lea table+{}(%rip), %rax\n", 4 * n)).collect();
    let text = format!(
        ".text\n.type many, @function\nmany:\n{instructions}jmp *%rax\n.size many, . - many\n\
         .type window, @function\n.p2align 4, 0xcc\nwindow:\npush %rbp\nadd %al, (%rax)\nadd %al, (%rax)\nret\n\
         .size window, . - window\n.section .rodata\n.p2align 2\n\
         table:\n.rept 20000\n.long many + 0x1000 - table\n.endr\n"
    );
    std::fs::write(&source, text).expect("written");
    let Some(file) = built(directory.path(), &source) else { return };
    // What is not known is not guessed.
    assert_eq!(way(&read(&file).expect("it is whole"), "window"), Way::Trap(Reason::JumpedInto));
}

/// A file of 1 MiB whose sections are each the whole file.
#[test]
fn sections_that_overlap_are_loaded_up_to_a_bound() {
    const SECTIONS: u16 = 1000;
    let mut file = vec![0; 1 << 20];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    // A library for x86-64; section headers of 64 bytes from 64 on, the second with names.
    put(16, &[3, 0, 62, 0, 1]);
    put(40, &64_u64.to_le_bytes());
    put(52, &64_u16.to_le_bytes());
    put(58, &64_u16.to_le_bytes());
    put(60, &SECTIONS.to_le_bytes());
    put(62, &1_u16.to_le_bytes());
    for section in 1..usize::from(SECTIONS) {
        let at = 64 + 64 * section;
        let (kind, flags, size) = if section == 1 { (3_u32, 0_u64, 1) } else { (1, 6, 1 << 20) };
        put(at + 4, &kind.to_le_bytes());
        put(at + 8, &flags.to_le_bytes());
        put(at + 16, &(section as u64 * 0x1000).to_le_bytes());
        put(at + 32, &u64::to_le_bytes(size));
    }
    let refused = mote_functions::from_bytes(Path::new("overlapping"), &file).expect_err("too much");
    assert!(refused.to_string().contains("more than 512 MiB"), "{refused}");
}

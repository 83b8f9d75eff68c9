//! Probe lists of files: given ones, those beside them, and those that are not theirs.

#![cfg(target_arch = "x86_64")]

use mote_functions::{Lists, Object, Pattern, beside_of};
use mote_probelist::{Function, List};
use mote_symbol::{TextDigest, with_elf};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A stripped program, whose one function is `name`; `None`, as a skip, without a C compiler.
fn stripped(keep: &TempDir, words: &[&str]) -> Option<PathBuf> {
    let (source, path) = (keep.path().join("a.c"), keep.path().join("app"));
    fs::write(&source, "int a(int x) { return x + 1; }\n").expect("written");
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-nostdlib", "-s", "-fvisibility=hidden", "-o"])
        .arg(&path)
        .arg(&source)
        .args(words);
    match command.status() {
        Ok(status) => assert!(status.success()),
        Err(why) => {
            mote_skip::skip(format!("no C compiler: {why}"));
            return None;
        }
    }
    Some(path)
}

fn function(address: u64) -> Function {
    let (file, line) = (Some("/src/a.c".to_owned()), Some(7));
    Function { address, size: 0, name: "_Z6renamei".to_owned(), file, line }
}

/// The list of a file, with a name for its function.
fn list_of(path: &Path) -> List {
    let found = Object::of_file(path, &Lists::default()).expect("whole").found;
    let [ref only] = found.functions[..] else { panic!("{found:#?}") };
    assert_eq!(only.name, None, "it is stripped");
    let text = with_elf(path, TextDigest).expect("whole").expect("small");
    List { build_id: found.build_id, text, functions: vec![function(only.address)], placeholders: Vec::new() }
}

fn write(list: &List, path: &Path) {
    let mut bytes = Vec::new();
    list.write(&mut bytes).expect("memory");
    fs::write(path, bytes).expect("a file");
}

/// A name, and a line.
type Named = (Option<String>, Option<(String, u32)>);

/// The names that a pattern means, with their lines.
fn meant(object: &Object, pattern: &str) -> Vec<Named> {
    let patterns = [Pattern::new(pattern).expect("right")];
    let functions = object.meant(&patterns);
    functions.into_iter().map(|one| (one.name.clone(), object.place(&one))).collect()
}

#[test]
fn names_and_lines_are_those_of_the_list() {
    for words in [&["-Wl,--build-id=sha1"][..], &["-Wl,--build-id=none"]] {
        let keep = tempfile::tempdir().expect("a directory");
        let Some(path) = stripped(&keep, words) else { return };
        let (list, elsewhere) = (list_of(&path), keep.path().join("list"));
        assert_eq!(list.build_id.is_empty(), words[0].ends_with("none"));
        write(&list, &elsewhere);
        let given = Lists::open(std::slice::from_ref(&elsewhere)).expect("a list");
        let expected = [(Some("_Z6renamei".to_owned()), Some(("/src/a.c".to_owned(), 7)))];
        for pattern in ["rename", "app:ren*", "@a.c", "_Z6renamei"] {
            let object = Object::of_file(&path, &given).expect("whole");
            assert_eq!(meant(&object, pattern), expected, "{pattern}");
            assert_eq!(given.unused(object.listed.list.iter()), None);
        }
        assert_eq!(meant(&Object::of_file(&path, &Lists::default()).expect("whole"), "rename"), []);
        write(&list, &beside_of(&path));
        assert_eq!(meant(&Object::of_file(&path, &Lists::default()).expect("whole"), "rename"), expected);
    }
}

#[test]
fn a_list_that_is_not_the_files_is_not_used() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some(path) = stripped(&keep, &["-Wl,--build-id=sha1"]) else { return };
    let beside = beside_of(&path);
    let remark = || {
        let object = Object::of_file(&path, &Lists::default()).expect("whole");
        assert_eq!(meant(&object, "rename"), []);
        object.listed.remark.expect("it is said")
    };
    let other = List { build_id: "00".repeat(20), ..list_of(&path) };
    write(&other, &beside);
    assert!(remark().contains("of build 0000"), "{}", remark());
    let given = Lists::open(std::slice::from_ref(&beside)).expect("a list");
    let object = Object::of_file(&path, &given).expect("whole");
    assert!(given.unused(object.listed.list.iter()).is_some_and(|why| why.contains("of build 0000")));
    fs::write(&beside, "{}").expect("a file");
    assert!(remark().contains("it is no probe list"), "{}", remark());
    fs::remove_file(&beside).expect("it was there");
    fs::create_dir(&beside).expect("a directory");
    assert!(remark().contains("not a regular file"), "{}", remark());
    assert!(Lists::open(&[beside]).is_err());
}

#[test]
fn a_list_of_another_user_is_not_taken() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some(path) = stripped(&keep, &[]) else { return };
    let beside = beside_of(&path);
    write(&list_of(&path), &beside);
    if std::os::unix::fs::chown(&beside, Some(65534), None).is_err() {
        return mote_skip::skip("only root can give a file away");
    }
    let object = Object::of_file(&path, &Lists::default()).expect("whole");
    let remark = object.listed.remark.expect("it is said");
    assert!(remark.contains("belongs to another user than the binary"), "{remark}");
    // Who names it means it.
    let given = Lists::open(&[beside]).expect("a list");
    assert!(Object::of_file(&path, &given).expect("whole").listed.list.is_some());
}

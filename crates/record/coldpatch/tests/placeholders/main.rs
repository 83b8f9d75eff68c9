//! Real programs, each built with what leaves one kind of placeholder: all are found and become NOPs, nothing else is
//! changed, and the program does what it did.

#![cfg(target_arch = "x86_64")]

mod hooks;
mod hostile;
mod rewrite;
mod sites;
mod strip;

use mote_coldpatch::{Cold, Rewrite, Symbols, coldpatch, find};
use mote_probelist::{Kind, List, Placeholder, Was};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A program that was built for a test, in a directory of its own.
struct Built {
    keep: TempDir,
    path: PathBuf,
}

/// Builds `sources` of `tests/programs`; `None`, as a skip, without the compiler.
fn build(compiler: &str, words: &[&str], sources: &[&str]) -> Option<Built> {
    let keep = tempfile::tempdir().expect("a directory");
    let path = keep.path().join("program");
    build_at(&path, compiler, words, sources).then_some(Built { keep, path })
}

fn build_at(path: &Path, compiler: &str, words: &[&str], sources: &[&str]) -> bool {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut command = Command::new(compiler);
    command.arg("-o").arg(path).args(sources.iter().map(|source| programs.join(source))).args(words);
    match command.output() {
        Ok(done) if done.status.success() => true,
        Ok(done) => panic!("{command:?}: {}", String::from_utf8_lossy(&done.stderr)),
        Err(why) => {
            mote_skip::skip(format!("no {compiler}: {why}"));
            false
        }
    }
}

impl Built {
    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("it was built")
    }

    fn cold(&self, symbols: Symbols) -> Cold {
        coldpatch(&self.path, &self.bytes(), symbols, Rewrite::Needed(&[])).expect("it is whole")
    }

    /// What the program prints, as it is or with other bytes: lines, and the number of calls of hooks.
    fn output(&self, bytes: Option<&[u8]>) -> (Vec<String>, Option<u64>) {
        let program = match bytes {
            None => self.path.clone(),
            Some(bytes) => {
                let path = self.keep.path().join("changed");
                std::fs::write(&path, bytes).expect("a file");
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
                path
            }
        };
        let mut command = Command::new(&program);
        command.current_dir(self.keep.path()).env("LD_LIBRARY_PATH", self.keep.path());
        let done = loop {
            match command.output() {
                // A test beside us has forked while the file was open for writing, and has not called execve(2) yet.
                Err(why) if why.kind() == ErrorKind::ExecutableFileBusy => {}
                done => break done.expect("it starts"),
            }
        };
        assert!(done.status.success(), "{:?}: {}", done.status, String::from_utf8_lossy(&done.stderr));
        let text = String::from_utf8(done.stdout).expect("text");
        let calls = text.lines().find_map(|line| line.strip_prefix("calls ")?.parse().ok());
        (text.lines().filter(|line| !line.starts_with("calls ")).map(str::to_owned).collect(), calls)
    }
}

/// How many placeholders there are of each kind, by what stood there.
fn counts(list: &List) -> BTreeMap<(Kind, &'static str), usize> {
    let mut counts = BTreeMap::new();
    for Placeholder { kind, was, .. } in &list.placeholders {
        let was = match was {
            Was::Call => "call",
            Was::Jump => "jump",
            Was::Nop => "nop",
        };
        *counts.entry((*kind, was)).or_default() += 1;
    }
    counts
}

/// Checks that `cold` is `before` but for its placeholders, and has no more to be changed.
fn assert_only_placeholders_changed(before: &[u8], cold: &Cold) {
    let places = &cold.list.placeholders;
    let is_listed = |at: usize| {
        let behind = places.partition_point(|place| place.offset <= at as u64);
        let place = behind.checked_sub(1).map(|place| &places[place]);
        place.is_some_and(|place| place.was != Was::Nop && (at as u64) < place.offset + place.size)
    };
    assert_eq!(before.len(), cold.bytes.len());
    let changed = (0..before.len()).filter(|at| before[*at] != cold.bytes[*at]);
    let stray: Vec<usize> = changed.filter(|at| !is_listed(*at)).collect();
    assert_eq!(stray, [0; 0], "bytes that are not of placeholders");
    let again = find(Path::new("cold"), &cold.bytes).expect("it is whole");
    let more: Vec<&Placeholder> =
        again.list.placeholders.iter().filter(|place| place.was != Was::Nop).collect();
    assert!(more.is_empty(), "{more:#?}");
    assert_eq!(again.list.text, cold.list.text);
}

//! Programs that know nothing of mote: compiled for a test.

use super::{is_there, wait_for};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Whether programs can be compiled, and run under qemu-user; says so when not.
pub(crate) fn can_synthesize() -> bool {
    let can = is_there("qemu-x86_64") && is_there("cc");
    if !can {
        mote_skip::skip("mote pt synth: there is no qemu-user (package qemu-user), or no C compiler");
    }
    can
}

/// Whether there is a compiler of Rust; says so when not. A user without rights may not have what root has installed
/// for itself.
pub(crate) fn has_rustc() -> bool {
    let found = Command::new("rustc").arg("--version").output();
    if let Err(why) = &found {
        mote_skip::skip(format_args!("rustc: {why}"));
    }
    found.is_ok()
}

/// Builds a program of `tests/programs/c`, or of `tests/programs/rust`.
pub(crate) fn compile(keep: &TempDir, name: &str, words: &[&str]) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    if name.ends_with(".rs") {
        let program = keep.path().join(format!("{}{}", name.replace('.', "_"), words.concat()));
        let built = Command::new("rustc")
            .args(words)
            .arg("-o")
            .arg(&program)
            .arg(programs.join("rust").join(name))
            .output();
        let built = built.expect("a compiler");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        return program;
    }
    compile_by(if name.ends_with(".cpp") { "g++" } else { "gcc" }, keep, name, words)
}

/// Builds a program of `tests/programs/c` with this compiler.
pub(crate) fn compile_by(compiler: &str, keep: &TempDir, name: &str, words: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/c").join(name);
    // A word may have a path in it.
    let words_of_name = words.concat().replace('/', "_");
    let program = keep.path().join(format!("{}{words_of_name}", name.replace('.', "_")));
    let built =
        Command::new(compiler).args(words).arg("-o").arg(&program).arg(source).arg("-pthread").output();
    let built = built.expect("a compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// A program that calls the same functions again and again.
pub(crate) struct Steady {
    child: Child,
    out: PathBuf,
}

impl Steady {
    pub(crate) fn start(keep: &TempDir, words: &[&str]) -> Steady {
        let program = compile(keep, "steady.c", &["-O2"]);
        let out = keep.path().join("rounds");
        let file = fs::File::create(&out).expect("a file");
        let child = Command::new(program).args(words).stdout(file).stdin(Stdio::null()).spawn();
        let steady = Steady { child: child.expect("it starts"), out };
        steady.goes_on();
        steady
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn rounds(&self) -> usize {
        fs::read_to_string(&self.out).expect("rounds").lines().count()
    }

    /// Waits until it has done some more.
    pub(crate) fn goes_on(&self) {
        let before = self.rounds();
        wait_for("more rounds", || (self.rounds() > before + 5).then_some(()));
    }

    /// Files whose code in the process is not what is in them.
    pub(crate) fn changed_text(&self) -> Vec<String> {
        changed_text(self.pid()).expect("it runs")
    }
}

/// Files whose code in a process is not what is in them; `None` when it has ended.
pub(crate) fn changed_text(pid: u32) -> Option<Vec<String>> {
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut changed = Vec::new();
    for line in maps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, protection, offset, _, _, path, ..] = words[..] else { continue };
        if !protection.contains('x') || !path.starts_with('/') || path.starts_with("/memfd:") {
            continue;
        }
        let number = |digits| u64::from_str_radix(digits, 16).expect("an address");
        let (start, end) = range.split_once('-').expect("a range");
        let mut here = vec![0; (number(end) - number(start)) as usize];
        match memory.read_exact_at(&mut here, number(start)) {
            Ok(()) => (),
            // It is in work: a copy of the file's part has gone since its line was read.
            Err(why) if why.raw_os_error() == Some(libc::EIO) => {
                changed.push(path.to_owned());
                continue;
            }
            Err(_) => return None,
        }
        // The end of its last page is behind that of the file.
        let mut there = vec![0; here.len()];
        let len = read_up_to(&fs::File::open(path).ok()?, &mut there, number(offset)).ok()?;
        if here[..len] != there[..len] {
            changed.push(path.to_owned());
        }
    }
    Some(changed)
}

/// Reads from an offset on, up to the end of the file; returns how much that was.
fn read_up_to(file: &fs::File, into: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut len = 0;
    while len < into.len() {
        match file.read_at(&mut into[len..], offset + len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

impl Drop for Steady {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! The same event from C: builds a small program against `mote.h` and `libmote.a`.

use super::session::{Lab, built};
use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("programs/mote.c");
const STARTED: &str = include_str!("programs/started.c");
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/traced/capi/include");

/// Compiles the program.
///
/// # Errors
/// No compiler, no header, or no library beside this program.
pub(super) fn build(lab: &Lab) -> anyhow::Result<PathBuf> {
    build_with(lab, &library("libmote.a")?)
}

/// The library of this name, as users have it.
///
/// # Errors
/// It is not built.
pub(super) fn library(name: &str) -> anyhow::Result<PathBuf> {
    let library = built()?.join("../library").join(name);
    anyhow::ensure!(library.exists(), "{name} is not built; run cargo build --profile library -p mote-capi");
    Ok(library)
}

/// Compiles the program with this `libmote.a`.
///
/// # Errors
/// No compiler, or no header.
pub(super) fn build_with(lab: &Lab, library: &Path) -> anyhow::Result<PathBuf> {
    let (source, program) = (lab.path().join("mote.c"), lab.path().join("mote-c"));
    std::fs::write(&source, SOURCE).context("cannot write the C program")?;
    compile(Command::new("cc").arg("-I").arg(HEADERS).arg("-o").arg(&program).arg(&source).arg(library))?;
    Ok(program)
}

/// Compiles the same program without mote.
///
/// # Errors
/// No compiler.
pub(super) fn build_without(lab: &Lab) -> anyhow::Result<PathBuf> {
    let (source, program) = (lab.path().join("without.c"), lab.path().join("without"));
    std::fs::write(&source, SOURCE).context("cannot write the C program")?;
    compile(Command::new("cc").arg("-DWITHOUT_MOTE").arg("-o").arg(&program).arg(&source))?;
    Ok(program)
}

/// Compiles a program that says when its `main` began, with an event and `libmote.so`, or without both.
///
/// # Errors
/// No compiler, no header, or no library beside this program.
pub(super) fn build_started(lab: &Lab, with_mote: bool) -> anyhow::Result<PathBuf> {
    let name = if with_mote { "started" } else { "started-without" };
    let (source, program) = (lab.path().join("started.c"), lab.path().join(name));
    std::fs::write(&source, STARTED).context("cannot write the C program")?;
    let mut command = Command::new("cc");
    command.arg("-o").arg(&program).arg(&source);
    if with_mote {
        let library = library("libmote.so")?;
        let mut path = OsString::from("-Wl,-rpath,");
        path.push(library.parent().unwrap_or(Path::new(".")));
        command.arg("-I").arg(HEADERS).arg(library).arg(path);
    } else {
        command.arg("-DWITHOUT_MOTE");
    }
    compile(&mut command)?;
    Ok(program)
}

/// Runs a C compiler with the rest of what it needs.
///
/// # Errors
/// There is none, or it has failed.
pub(super) fn compile(command: &mut Command) -> anyhow::Result<()> {
    let output = command.args(["-O2", "-lpthread", "-ldl"]).output().context("cc is not installed")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "cc has failed: {}", said.lines().next().unwrap_or_default());
    Ok(())
}

/// How to run it; the result is added later.
pub(super) fn command(program: &Path, events: u64, repetitions: u64) -> Vec<OsString> {
    vec![program.into(), events.to_string().into(), repetitions.to_string().into()]
}

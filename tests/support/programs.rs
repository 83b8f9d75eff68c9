//! Where the programs are. Those that are recorded come from the build that runs the tests; the recorder, and what
//! is looked at as machine code, are built here, in release unless the tests' own build optimises, too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Target directory of this build.
pub(crate) fn target() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().expect("it lies in the target directory").to_owned()
}

/// The profile of what is built here: that of the programs, or release where these are a debug build.
fn profile() -> &'static str {
    match folder().file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "release",
        Some(profile) => profile,
    }
}

/// Directory of the programs: that of this build, or of another (`MOTE_TESTS_PROGRAMS`), which these tests are then
/// about.
fn folder() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("MOTE_TESTS_PROGRAMS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_BIN_EXE_scenes")).parent().expect("a directory").to_owned(),
    })
}

/// A program of this package that was built before.
pub(crate) fn program(name: &str) -> &'static str {
    folder().join(name).to_str().expect("text").to_owned().leak()
}

/// The profile of `libmote.so` and `libmote.a`: the release of these has its own.
fn profile_of_library() -> &'static str {
    if profile() == "release" { "library" } else { profile() }
}

/// Builds something, unless all of it was built before (`MOTE_TESTS_BUILT`), for tests that may not write to the target
/// directory.
fn cargo(words: &[&str], target: &Path) {
    build(profile(), words, target);
}

fn build(profile: &str, words: &[&str], target: &Path) {
    if std::env::var_os("MOTE_TESTS_BUILT").is_some() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args(["build", "--quiet", "--profile", profile]).args(words);
    // What is the same in all builds is built once.
    command.arg("--target-dir").arg(target).env("CARGO_BUILD_BUILD_DIR", self::target());
    super::output_of(&mut command);
}

/// The program `mote`: `MOTE_BIN`, or a build of ours.
pub(crate) fn mote() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("MOTE_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            cargo(&["-p", "mote-cli"], &target());
            target().join(profile()).join("mote")
        }
    })
}

/// Directory of optimised builds of `plain`, `spotted`, `scenes` and `examples/libplugin.so`.
pub(crate) fn release() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let bins = ["--bin", "plain", "--bin", "spotted", "--bin", "scenes", "--example", "plugin"];
        cargo(&[&["-p", "mote-tests"], &bins[..]].concat(), &target());
        target().join(profile())
    })
}

/// Directory of `libmote.so` and `libmote.a`.
pub(crate) fn library() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        build(profile_of_library(), &["-p", "mote-capi"], &target());
        target().join(profile_of_library())
    })
}

/// Directory of `plain`, `spotted` and `scenes` without the feature `filters`, with the library in several objects, as
/// other workspaces build it.
pub(crate) fn without_filters() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = target().join("no-filters");
        let bins = ["--bin", "plain", "--bin", "spotted", "--bin", "scenes", "--no-default-features"];
        // Only this workspace has the library in one object.
        let parts = format!("profile.{}.package.mote-trace.codegen-units=16", profile());
        cargo(&[&["-p", "mote-tests", "--config", &parts], &bins[..]].concat(), &target);
        target.join(profile())
    })
}

/// Directory of `libmote.so` and `libmote.a` without the feature `filters`.
pub(crate) fn library_without_filters() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = target().join("no-filters");
        build(profile_of_library(), &["-p", "mote-capi", "--no-default-features"], &target);
        target.join(profile_of_library())
    })
}

/// The library that carries events.
pub(crate) fn plugin() -> PathBuf {
    release().join("examples/libplugin.so")
}

/// `scenes` with the feature `tested-byte`.
pub(crate) fn scenes_with_tested_byte() -> PathBuf {
    let target = target().join("tested-byte");
    cargo(&["-p", "mote-tests", "--bin", "scenes", "--features", "tested-byte"], &target);
    target.join(profile()).join("scenes")
}

/// Tasks with spans.
pub(crate) fn asynchronous() -> &'static str {
    program("asynchronous")
}

/// A program with what the documents' everyday commands look for.
pub(crate) fn everyday() -> &'static str {
    program("everyday")
}

/// A program with `mote_tracing::layer()`, without `init`.
pub(crate) fn layered() -> &'static str {
    program("layered")
}

/// The program with most scenes.
pub(crate) fn scenes() -> &'static str {
    program("scenes")
}

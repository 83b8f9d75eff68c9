//! Nothing of ours ends somebody else's process: no way through the machine code leads to a panic.

use crate::support::panics::Image;
use crate::support::{has_tool, output_of, programs};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

#[test]
fn the_library_has_no_panic_left_in_it() {
    let image = Image::read(&programs::library().join("libmote.so"));
    // It is not stripped: names that are not exported are seen.
    assert!(image.names().any(|name| name.contains("mote_agent")), "no names");
    let left = image.panicking();
    assert!(left.is_empty(), "{left:#?} by {:#?}", image.ways_to_panic(|name| name.contains("mote")));
}

/// Whether it is a function of a crate that runs in traced processes, in either mangling.
fn is_ours(name: &str) -> bool {
    let ours = name.contains("mote_") && !name.contains("mote_tests");
    ours || name.contains("4mote9__private") || name.contains("mote..")
}

#[test]
fn no_function_of_ours_panics_in_a_program_of_rust() {
    for program in ["spotted", "scenes"] {
        let image = Image::read(&programs::release().join(program));
        // The program has the standard library, which panics; what is ours in it does not.
        assert!(image.panicking().len() > 5, "{:?}", image.panicking());
        assert!(image.names().filter(|name| is_ours(name)).count() > 50);
        let ways = image.ways_to_panic(is_ours);
        assert!(ways.is_empty(), "{program}: {ways:#?}");
    }
}

#[test]
fn no_function_of_ours_panics_in_a_program_of_c_that_contains_the_library() {
    if !has_tool("gcc") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    // With or without the linker's help: what nothing reaches is not in the library.
    for flags in ["-Wl,--gc-sections", "-Wl,--no-gc-sections"] {
        let program = directory.path().join("events");
        let mut command = Command::new("gcc");
        command.args(["-O2", "-I"]).arg(root.join("crates/traced/capi/include"));
        command.arg(root.join("tests/programs/c/events.c")).arg("-L").arg(programs::library());
        output_of(command.args(["-l:libmote.a", flags, "-o"]).arg(&program));
        let image = Image::read(&program);
        assert!(image.panicking().is_empty(), "{flags}: {:#?}", image.panicking());
        let ways = image.ways_to_panic(is_ours);
        assert!(ways.is_empty(), "{flags}: {ways:#?}");
    }
}

/// A library without `std`, as ours is: what is not used is not linked.
const LIBRARY: &str = r#"
#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
#[unsafe(no_mangle)]
pub extern "C" fn mote_entry(at: usize) -> u32 { inner(at) }
#[inline(never)]
fn inner(at: usize) -> u32 { let all = [at as u32, 2, 3, 4]; LOOK }
"#;

struct Fixture(TempDir);

impl Fixture {
    fn library(&self, look: &str) -> PathBuf {
        let (source, output) = (self.0.path().join("fixture.rs"), self.0.path().join("fixture.so"));
        std::fs::write(&source, LIBRARY.replace("LOOK", look)).expect("the source");
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command.args(["--crate-type", "cdylib", "--edition", "2024", "-Copt-level=2", "-Cpanic=abort"]);
        output_of(command.arg("-o").arg(&output).arg(&source));
        output
    }
}

#[test]
fn a_planted_panic_is_found() {
    let fixture = Fixture(tempfile::tempdir().expect("a directory"));
    for (look, panics) in [
        ("all[at & 3]", false),
        ("all.get(at).copied().unwrap_or(0)", false),
        ("all[at]", true),
        ("all[0] / at as u32", true),
        ("*all.get(at).unwrap()", true),
        ("{ let mut to = [0; 2]; to.copy_from_slice(&all[..at & 3]); to[0] }", true),
    ] {
        let image = Image::read(&fixture.library(look));
        assert_eq!(!image.panicking().is_empty(), panics, "{look}: {:#?}", image.panicking());
        let ways = image.ways_to_panic(|name| name == "mote_entry");
        assert_eq!(!ways.is_empty(), panics, "{look}: {ways:#?}");
        assert!(ways.iter().all(|way| way.last() == Some(&"mote_entry") && way.len() > 1), "{ways:#?}");
    }
}

//! `cargo xtask package`: packages as they would be published, each built from what its archive holds.
//!
//! cargo puts the archives into a registry of its own while it checks them, so that they need no other of ours to be
//! published before. It ends with an installation of `mote`, which has to record and to show a program.

use crate::plan::{self, Crate};
use crate::workspace::cargo;
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages everything that is published, and builds it; installs `mote`, and uses it.
///
/// # Errors
/// What cargo refuses; an installed `mote` that does not work.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let crates = plan::crates(root)?;
    let published: Vec<&Crate> = crates.iter().filter(|one| one.is_published).collect();
    forget_unpacked(root, &published)?;
    let packages = published.iter().flat_map(|one| ["-p", &one.package]);
    let mut command = cargo();
    // Changes that are not committed yet are packaged, too: it is a test.
    command.args(["package", "--allow-dirty"]).args(packages).current_dir(root);
    // What was compiled of the same versions before would be taken for theirs.
    let built = root.join("target/packages");
    if built.exists() {
        fs::remove_dir_all(&built).with_context(|| format!("cannot remove {}", built.display()))?;
    }
    command.arg("--target-dir").arg(&built);
    if !command.status().context("cannot start cargo")?.success() {
        bail!("the packages cannot be built from what they hold");
    }
    println!("{} packages were built from what they hold", published.len());
    installed(root)?;
    println!("test result: ok. {} passed; 0 failed", published.len() + 1);
    Ok(())
}

/// Removes what cargo has unpacked of the same packages before: it takes a version that it has for the one that it is
/// given, and ours stay the same until they are published. The folder of a registry without a host is a local one.
fn forget_unpacked(root: &Path, published: &[&Crate]) -> anyhow::Result<()> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let Some(registries) = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok()) else {
        return Ok(());
    };
    let version = plan::version(root)?;
    let is_local = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('-');
    for registry in registries.flatten().filter(is_local) {
        for one in published {
            let unpacked = registry.path().join(format!("{}-{version}", one.package));
            if unpacked.is_dir() {
                fs::remove_dir_all(&unpacked)
                    .with_context(|| format!("cannot remove {}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}

/// Installs `mote` into a directory of its own, records its demonstration with it, and shows that.
fn installed(root: &Path) -> anyhow::Result<()> {
    let place = root.join("target/installed");
    let mut install = cargo();
    install.args(["install", "--locked", "--force", "--path", "crates/tools/cli", "--root"]).arg(&place);
    if !install.current_dir(root).status().context("cannot start cargo")?.success() {
        bail!("`mote` cannot be installed");
    }
    let mote = place.join("bin/mote");
    let recording = place.join("recording");
    let output = |words: &[&str]| {
        let mut command = Command::new(&mote);
        command.args(words).arg(&recording).stdin(Stdio::null());
        command.output().with_context(|| format!("cannot start {}", mote.display()))
    };
    let made = output(&["demo", "--requests", "200", "--output"])?;
    if !made.status.success() {
        bail!("the installed `mote` does not record: {}", String::from_utf8_lossy(&made.stderr).trim());
    }
    let shown = output(&["view"])?;
    let events = shown.stdout.split(|byte| *byte == b'\n').count().saturating_sub(1);
    let _ = fs::remove_dir_all(&place);
    if !shown.status.success() || events == 0 {
        bail!("the installed `mote` does not show what it has recorded ({})", shown.status);
    }
    println!("`mote` was installed; it has recorded and shown {events} events");
    Ok(())
}

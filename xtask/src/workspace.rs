//! Where the project is, and the cargo that builds it.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's root, above this crate.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What rustc calls the machine that it runs on: `x86_64-unknown-linux-gnu`.
///
/// # Errors
/// There is no rustc, or it does not say so.
pub(crate) fn host() -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("-vV").output().context("cannot start rustc")?;
    let said = String::from_utf8(said.stdout).context("rustc -vV")?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say which machine this is")?.to_owned())
}

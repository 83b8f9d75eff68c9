//! C programs of ours, which are compiled where they are needed: plugins of qemu, a guest's first process.

use crate::error::{Error, cannot};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Memory, where there is a file system of it.
const MEMORY: &str = "/dev/shm";

/// A folder for a plugin and what it writes, removed with all in it.
pub(crate) fn folder() -> Result<TempDir, Error> {
    let place = Some(PathBuf::from(MEMORY)).filter(|place| place.is_dir()).unwrap_or_else(std::env::temp_dir);
    tempfile::Builder::new()
        .prefix("mote-synth-")
        .tempdir_in(place)
        .map_err(cannot("make a folder for qemu's plugin"))
}

/// Compiles a plugin, in this folder.
pub(crate) fn compile(folder: &Path, source: &str) -> Result<PathBuf, Error> {
    cc(folder, "plugin.so", source, &["-O2", "-shared", "-fPIC", "-pthread"])
}

/// Compiles a program of this name.
pub(crate) fn cc(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Result<PathBuf, Error> {
    let (text, made) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&text, source).map_err(cannot("write what is to be compiled for qemu"))?;
    match Command::new("cc").args(flags).args(["-w", "-o"]).arg(&made).arg(&text).output() {
        Ok(output) if output.status.success() => Ok(made),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Error::Qemu(format!("cannot compile qemu's {name}: {why}")))
        }
        Err(why) if why.kind() == ErrorKind::NotFound => {
            Err(Error::Qemu("there is no C compiler (cc) for qemu's plugin: apt-get install gcc".to_owned()))
        }
        Err(why) => Err(cannot("start cc")(why)),
    }
}

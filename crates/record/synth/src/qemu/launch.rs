//! qemu-user with our plugin, which is compiled into a folder that is removed with all in it.

use super::code::Code;
use crate::arch::QEMU;
use crate::error::{Error, cannot};
use crate::plugin::{compile, folder};
use crate::program::Program;
use nix::sys::stat::Mode;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use tempfile::TempDir;

const PLUGIN: &str = include_str!("plugin.c");

/// A program that runs.
pub(super) struct Launched {
    pub(super) child: Child,
    pub(super) folder: TempDir,
    /// The program's.
    pub(super) name: String,
    alive: File,
}

impl Launched {
    /// Whether a process holds the FIFO open for writing.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.alive.read(&mut [0]), Err(why) if why.kind() == ErrorKind::WouldBlock)
    }
}

/// Starts the program of this name and these arguments.
pub(super) fn launch(words: &[OsString], code: Code) -> Result<Launched, Error> {
    let program = Program::find(words)?;
    let folder = folder()?;
    let plugin = compile(folder.path(), PLUGIN)?;
    let alive = folder.path().join("alive");
    nix::unistd::mkfifo(&alive, Mode::S_IRUSR | Mode::S_IWUSR)
        .map_err(|errno| cannot("make a FIFO for qemu's plugin")(errno.into()))?;
    let alive = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&alive)
        .map_err(cannot("open the FIFO for qemu's plugin"))?;
    let mut argument = plugin.into_os_string();
    argument.push(",dir=");
    argument.push(folder.path());
    argument.push(format!(",words={}", program.words.len()));
    if code == Code::Copied {
        argument.push(",copies=1");
    }
    let mut command = Command::new(QEMU);
    command.arg("-plugin").arg(argument).arg("-0").arg(&program.name).args(&program.words);
    let child = command.spawn().map_err(no_qemu)?;
    Ok(Launched { child, name: program.short_name(), folder, alive })
}

/// Whether there is what the engine needs.
///
/// # Errors
/// Which program is missing, and how it comes to be there.
pub(super) fn check() -> Result<(), Error> {
    Command::new(QEMU).arg("--version").output().map_err(no_qemu)?;
    compile(folder()?.path(), PLUGIN).map(drop)
}

fn no_qemu(why: std::io::Error) -> Error {
    if why.kind() == ErrorKind::NotFound {
        return Error::Qemu(format!("there is no {QEMU}: apt-get install qemu-user"));
    }
    cannot(format!("start {QEMU}"))(why)
}

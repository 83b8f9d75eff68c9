//! qemu-system with our plugin, a kernel and the guest's files, all in a folder that is removed with all in it.

use super::Guest;
use super::contents::{Code, Contents};
use super::kernel::{self, Kernel};
use crate::arch::QEMU_SYSTEM as QEMU;
use crate::error::{Error, cannot};
use crate::plugin::{cc, compile, folder};
use crate::program;
use nix::fcntl::FcntlArg;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, PipeReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use tempfile::TempDir;

const PLUGIN: &str = include_str!("plugin.c");
const INIT: &str = include_str!("init.c");

/// A program without libraries.
const INIT_FLAGS: [&str; 8] = [
    "-O1",
    "-static",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-tree-loop-distribute-patterns",
    "-fno-pie",
];
/// What the kernel has to say goes there; so many of its last lines are shown where it has failed.
const CONSOLE: &str = "console";
const CONSOLE_LINES: usize = 20;
/// Bytes in the pipe at most.
const WAITING_MAX: i32 = 1 << 20;

/// A small machine, which is started at the kernel's own entry (PVH).
const MACHINE: &str = "microvm,x-option-roms=off,pit=on,pic=on,rtc=on,isa-serial=on,acpi=on";
/// As a processor that has Intel PT calls itself, and without randomness.
const PROCESSOR: &str = "max,-rdrand,-rdseed,vendor=GenuineIntel,family=6,model=143,stepping=8";
/// An instruction takes 16 ns of the guest's time, which goes on at once when the processor waits.
const TIME: &str = "shift=4,sleep=off";
/// Several processors have the host's time, and one thread of qemu: with time by instructions, the kernel does not get
/// beyond the second one's begin (7.2: a processor that waits for another one by PAUSE takes all turns).
const TURNS: &str = "tcg,thread=single";
/// The kernel does not find out how fast its clock is where it is interrupted each time that it looks.
const COMMAND_LINE_OF_SEVERAL: &str = "tsc_early_khz=2400000 no_timer_check";
const CLOCK: &str = "base=2026-01-01,clock=vm";
const COMMAND_LINE: &str = "console=ttyS0 nokaslr pci=off panic=-1 reboot=t loglevel=1 random.trust_cpu=off";
/// Megabytes of the guest's memory, beside three times its files.
const MEMORY_MB: usize = 256;

/// A guest that runs.
pub(super) struct Launched {
    pub(super) child: Child,
    /// What the plugin writes.
    pub(super) stream: PipeReader,
    folder: TempDir,
}

impl Launched {
    /// Ends it, where it has not done so itself.
    pub(super) fn end(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Why it has ended before its time.
    pub(super) fn failure(&mut self) -> String {
        let status = self.child.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        let console = std::fs::read(self.folder.path().join(CONSOLE)).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().collect();
        let last = lines.get(lines.len().saturating_sub(CONSOLE_LINES)..).unwrap_or_default().join("\n");
        format!("the guest has ended before the program was done ({QEMU}: {status})\n{last}")
            .trim_end()
            .to_owned()
    }
}

/// Starts the program of this name and these arguments. Returns its code, too, by file.
pub(super) fn launch(words: &[OsString], guest: &Guest) -> Result<(Launched, Code), Error> {
    let kernel = kernel::find(guest.kernel.as_deref())?;
    let folder = folder()?;
    let at = |name: &str| folder.path().join(name);
    let (archive, code) = files(words, guest, folder.path())?.into_parts();
    let files = archive.bytes();
    std::fs::write(at("files"), &files).map_err(cannot("write the guest's files"))?;
    let kernel = kernel::unpack(&kernel, folder.path())?;
    let plugin = compile(folder.path(), PLUGIN)?;
    let (reader, writer) = std::io::pipe().map_err(cannot("make a pipe for qemu's plugin"))?;
    // More than it has: fewer switches between qemu and us. It is no matter where that is not granted.
    let _ = nix::fcntl::fcntl(&reader, FcntlArg::F_SETPIPE_SZ(WAITING_MAX));
    let several = if guest.cpus() == 1 { "" } else { COMMAND_LINE_OF_SEVERAL };
    let mut command = Command::new(QEMU);
    command
        .args(["-M", MACHINE, "-cpu", PROCESSOR, "-rtc", CLOCK])
        .args(if guest.cpus() == 1 { ["-icount", TIME] } else { ["-accel", TURNS] })
        .args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none"])
        .args(["-smp", &guest.cpus().to_string()])
        .args(["-m", &(MEMORY_MB + 3 * files.len() / (1 << 20)).to_string()])
        .arg("-serial")
        .arg(named("file:", &at(CONSOLE)))
        .arg("-kernel")
        .arg(&kernel.path)
        .arg("-initrd")
        .arg(at("files"))
        .arg("-append")
        .arg(format!("{COMMAND_LINE} {several} {}", guest.append))
        .arg("-plugin")
        .arg(argument(&plugin, &kernel))
        .stdin(writer)
        // Ctrl-C is for us to take.
        .process_group(0);
    let child = command.spawn().map_err(no_qemu)?;
    Ok((Launched { child, stream: reader, folder }, code))
}

fn named(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

/// The plugin's file and arguments.
fn argument(plugin: &Path, kernel: &Kernel) -> OsString {
    let [pid, tgid, comm] = kernel.task;
    let mut argument = plugin.as_os_str().to_owned();
    argument.push(format!(",text={:x},bytes={:x}", kernel.text, kernel.bytes));
    argument.push(format!(",pid={pid:x},tgid={tgid:x},comm={comm:x}"));
    argument
}

/// The guest's files: `init.c` says what it reads.
fn files(words: &[OsString], guest: &Guest, folder: &Path) -> Result<Contents, Error> {
    let (first, arguments) = words.split_first().ok_or(Error::NoProgram)?;
    let not_executed = || Error::NotExecuted(first.to_string_lossy().into_owned());
    let found = program::find(first).ok_or_else(not_executed)?;
    let program = std::path::absolute(found).map_err(|_| not_executed())?;
    let here = std::env::current_dir().map_err(cannot("find the current directory"))?;
    let mut contents = Contents::default();
    contents.add(&program)?;
    for word in arguments {
        contents.add(&here.join(word))?;
    }
    guest.files.iter().try_for_each(|path| contents.add_all(path))?;
    let init = cc(folder, "init", INIT, &INIT_FLAGS)?;
    let init = std::fs::read(init).map_err(cannot("read the guest's first process"))?;
    let archive = &mut contents.archive;
    archive.file("/init", 0o755, init);
    let all: Vec<&OsStr> =
        [program.as_os_str(), first].into_iter().chain(arguments.iter().map(|word| &**word)).collect();
    archive.file("/.mote/words", 0o600, strings(all.into_iter()));
    let environment = std::env::vars_os().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    let environment: Vec<OsString> = environment.collect();
    archive.file("/.mote/environment", 0o600, strings(environment.iter().map(|word| &**word)));
    archive.file("/.mote/folder", 0o600, strings([here.as_os_str()].into_iter()));
    here.to_str().into_iter().chain(["/proc", "/sys", "/dev", "/tmp"]).for_each(|name| archive.folder(name));
    Ok(contents)
}

/// Each with a 0 behind it.
fn strings<'a>(words: impl Iterator<Item = &'a OsStr>) -> Vec<u8> {
    words.flat_map(|word| word.as_bytes().iter().copied().chain([0])).collect()
}

/// Whether there is what the engine needs beside a kernel.
///
/// # Errors
/// Which program is missing, and how it comes to be there.
pub(super) fn check() -> Result<(), Error> {
    Command::new(QEMU).arg("--version").output().map_err(no_qemu)?;
    compile(folder()?.path(), PLUGIN).map(drop)
}

fn no_qemu(why: std::io::Error) -> Error {
    if why.kind() == ErrorKind::NotFound {
        return Error::Qemu(format!("there is no {QEMU}: apt-get install qemu-system-x86"));
    }
    cannot(format!("start {QEMU}"))(why)
}

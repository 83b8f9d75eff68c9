//! The Debian packages that the tests use: installed where we may, named where we may not.

use crate::run::Counts;
use crate::workspace::root;
use anyhow::{Context, bail};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program that the tests run, or a file that they need, and the package that has it.
struct Tool {
    /// Its name, looked for in `PATH`; or its whole path.
    program: &'static str,
    package: &'static str,
    /// Without it the tests cannot pass at all; otherwise those that use it skip, loudly.
    needed: bool,
}

const TOOLS: [Tool; 21] = [
    Tool { program: "cc", package: "gcc", needed: true },
    Tool { program: "c++", package: "g++", needed: true },
    Tool { program: "babeltrace2", package: "babeltrace2", needed: true },
    Tool { program: "pkg-config", package: "pkg-config", needed: true },
    Tool { program: "clang", package: "clang", needed: false },
    Tool { program: "objdump", package: "binutils", needed: false },
    Tool { program: "strace", package: "strace", needed: false },
    Tool { program: "spin", package: "spin", needed: false },
    Tool { program: "qemu-aarch64", package: "qemu-user", needed: false },
    Tool { program: "qemu-system-x86_64", package: "qemu-system-x86", needed: false },
    Tool { program: "/usr/include/intel-pt.h", package: "libipt-dev", needed: false },
    Tool { program: "luajit", package: "luajit", needed: false },
    Tool { program: "script", package: "bsdutils", needed: false },
    Tool { program: "perf", package: "linux-perf", needed: false },
    Tool { program: "groff", package: "groff", needed: false },
    Tool { program: "zsh", package: "zsh", needed: false },
    Tool { program: "fish", package: "fish", needed: false },
    Tool { program: "redis-server", package: "redis-server", needed: false },
    Tool { program: "initdb", package: "postgresql", needed: false },
    Tool { program: "nginx", package: "nginx", needed: false },
    Tool { program: "ab", package: "apache2-utils", needed: false },
];

/// Services of the system that come with packages of [`TOOLS`]. The tests run servers of their own.
const SERVICES: [(&str, &str); 3] = [
    ("redis-server", "redis-server.service"),
    ("postgresql", "postgresql.service"),
    ("nginx", "nginx.service"),
];

/// Installs packages that are missing, where this is root and apt is there; fetches a kernel for guests.
///
/// # Errors
/// Something is still missing without which the tests cannot pass.
pub(crate) fn packages() -> anyhow::Result<()> {
    install()?;
    if let Err(why) = kernel() {
        println!("there is no kernel for a guest: {why:#}");
    }
    Ok(())
}

fn install() -> anyhow::Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !is_there(tool.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let command = format!("apt-get install -y {}", names.join(" "));
    if is_root() && is_there("apt-get") {
        println!("installing {}", names.join(" "));
        apt(&["update", "-qq"]).context("cannot read the package lists")?;
        let _unstarted = Unstarted::begin();
        for tool in &missing {
            // One by one: not every distribution has all of them. Nothing that is there has to go for it.
            if let Err(why) = apt(&["install", "-y", "-qq", "--no-remove", tool.package]) {
                println!("{} is not installed: {why:#}", tool.package);
            }
        }
        disable_services(&names);
    }
    let needed: Vec<&str> = missing
        .iter()
        .filter(|tool| tool.needed && !is_there(tool.program))
        .map(|tool| tool.program)
        .collect();
    if !needed.is_empty() {
        bail!("the tests need {}; as root, run: apt-get update && {command}", needed.join(", "));
    }
    Ok(())
}

/// The package with a small kernel, and where that is put for the tests: a package that is installed makes itself the
/// kernel of the machine.
const KERNEL: &str = "linux-image-cloud-amd64";
const KERNEL_FOLDER: &str = "target/kernel";

/// The kernel that was fetched for guests, if it was.
pub(crate) fn guest_kernel() -> Option<PathBuf> {
    Some(root().join(KERNEL_FOLDER).join("vmlinuz")).filter(|place| place.is_file())
}

/// Whether a program is there that only few chores need: installed first, where it is not and we may. Its package has
/// its name.
pub(crate) fn wanted(program: &str) -> bool {
    if !is_there(program) && is_root() && is_there("apt-get") {
        println!("installing {program}");
        let installed =
            apt(&["update", "-qq"]).and_then(|()| apt(&["install", "-y", "-qq", "--no-remove", program]));
        if let Err(why) = installed {
            println!("{program} is not installed: {why:#}");
        }
    }
    is_there(program)
}

/// Fetches a kernel for a guest, where none is there yet.
fn kernel() -> anyhow::Result<()> {
    let folder = root().join(KERNEL_FOLDER);
    let place = folder.join("vmlinuz");
    if place.is_file() || !is_there("apt-get") {
        return Ok(());
    }
    println!("fetching {KERNEL}");
    std::fs::create_dir_all(&folder)?;
    let depends = Command::new("apt-cache").args(["depends", KERNEL]).output()?;
    let depends = String::from_utf8_lossy(&depends.stdout).into_owned();
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image"));
    let package = package.with_context(|| format!("the package lists have no {KERNEL}"))?;
    run(Command::new("apt-get")
        .args(["download", "-qq", &format!("linux-image{package}")])
        .current_dir(&folder))?;
    let fetched = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
    let fetched = fetched.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "deb"));
    let fetched = fetched.context("apt-get has downloaded nothing")?;
    let files = folder.join("files");
    run(Command::new("dpkg-deb").arg("-x").arg(&fetched).arg(&files))?;
    let boot = std::fs::read_dir(files.join("boot"))?.flatten().map(|entry| entry.path());
    let mut kernels = boot.filter(|path| path.to_string_lossy().contains("vmlinuz"));
    std::fs::rename(kernels.next().context("the package has no kernel")?, &place)?;
    std::fs::remove_dir_all(&files)?;
    std::fs::remove_file(&fetched)?;
    Ok(())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}

fn apt(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("apt-get {} failed", arguments.join(" "));
    }
    Ok(())
}

/// While this lives, packages that are installed start no services: invoke-rc.d(8) asks a program first, which says
/// no (101).
struct Unstarted {
    ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl Unstarted {
    fn begin() -> Unstarted {
        // If the machine has a policy, that counts.
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY);
        let ours = file.and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 101\n")).is_ok();
        Unstarted { ours }
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        if self.ours {
            let _ = std::fs::remove_file(POLICY);
        }
    }
}

/// Nor do they start with the system, when the packages were installed for the tests.
fn disable_services(packages: &[&str]) {
    let of_them = SERVICES.iter().filter(|(package, _)| packages.contains(package));
    let services: Vec<&str> = of_them.map(|(_, service)| *service).collect();
    if services.is_empty() || !is_there("systemctl") {
        return;
    }
    println!("these services are not started: {}", services.join(", "));
    let _ = Command::new("systemctl").args(["--quiet", "disable"]).args(services).status();
}

/// Whether a program is installed; where it is not, what would use it is counted as a skip.
pub(crate) fn has(program: &str, counts: &mut Counts) -> bool {
    let is_there = is_there(program);
    if !is_there {
        counts.skip(&format!("{program} is not installed"));
    }
    is_there
}

/// Whether a program is in `PATH`, where Debian has those for root, or where it has PostgreSQL's.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .chain(versions.map(|version| version.path().join("bin")))
        .any(|directory| directory.join(program).is_file())
}

/// Whether real and effective user are root.
pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t0"))
}

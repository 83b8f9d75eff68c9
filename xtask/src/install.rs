//! The Debian packages that the tests use: installed where we may, named where we may not.

use anyhow::{Context, bail};
use std::process::{Command, Stdio};

/// A program that the tests run, and the package that has it.
struct Tool {
    program: &'static str,
    package: &'static str,
    /// Without it the tests cannot pass at all; otherwise those that use it skip, loudly.
    needed: bool,
}

const TOOLS: [Tool; 9] = [
    Tool { program: "cc", package: "gcc", needed: true },
    Tool { program: "c++", package: "g++", needed: true },
    Tool { program: "babeltrace2", package: "babeltrace2", needed: true },
    Tool { program: "clang", package: "clang", needed: false },
    Tool { program: "objdump", package: "binutils", needed: false },
    Tool { program: "strace", package: "strace", needed: false },
    Tool { program: "spin", package: "spin", needed: false },
    Tool { program: "qemu-aarch64", package: "qemu-user", needed: false },
    Tool { program: "script", package: "bsdutils", needed: false },
];

/// Installs what is missing.
pub(crate) fn packages() -> anyhow::Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !is_there(tool.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let command = format!("apt-get install -y {}", names.join(" "));
    if is_root() && is_there("apt-get") {
        println!("installing {}", names.join(" "));
        apt(&["update", "-qq"]).context("cannot read the package lists")?;
        let arguments: Vec<&str> = ["install", "-y", "-qq"].into_iter().chain(names).collect();
        apt(&arguments).with_context(|| format!("cannot run `{command}`"))?;
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

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t0"))
}

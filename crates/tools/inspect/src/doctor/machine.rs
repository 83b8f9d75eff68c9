//! CPUs and what surrounds us.

use super::facts::{count, line, status};
use super::finding::Finding;
use mote_sys::process;
use std::path::Path;

/// CPUs: possible, online, and those that we may use.
pub(super) fn cpus() -> Finding {
    const WHAT: &str = "CPUs";
    let possible = match process::possible_cpus() {
        Ok(possible) => u64::from(possible),
        Err(errno) => {
            let found = format!("cannot read /sys/devices/system/cpu/possible: {errno}");
            return Finding::warn(
                WHAT,
                found,
                "mount /sys in the sandbox; until then all events share one ring",
            );
        }
    };
    let online = line("/sys/devices/system/cpu/online").map_or(possible, |list| count(&list));
    let allowed = status("Cpus_allowed_list").map_or(online, |list| count(&list));
    let found = format!("{online} online of {possible} possible, {} usable here", allowed.min(online));
    if online > possible {
        return Finding::warn(
            WHAT,
            found,
            "report it: the kernel says that fewer CPUs are possible; events on the others share one ring",
        );
    }
    Finding::ok(WHAT, found)
}

/// Hints of a container or a virtual machine.
pub(super) fn container() -> Finding {
    const WHAT: &str = "surroundings";
    let mut hints = Vec::new();
    if Path::new("/.dockerenv").exists() {
        hints.push("docker container".to_owned());
    }
    if Path::new("/run/.containerenv").exists() {
        hints.push("podman container".to_owned());
    }
    if let Some(kind) = line("/run/systemd/container") {
        hints.push(format!("{kind} container"));
    }
    let levels = status("NSpid").map_or(1, |pids| pids.split_ascii_whitespace().count());
    if levels > 1 {
        hints.push(format!("process namespace, {levels} levels deep"));
    }
    // The first user namespace maps all 2^32 - 1 ids.
    if line("/proc/self/uid_map").is_some_and(|map| map.split_ascii_whitespace().nth(2) != Some("4294967295"))
    {
        hints.push("user namespace".to_owned());
    }
    if status("Seccomp").is_some_and(|mode| mode != "0") {
        hints.push("system calls are filtered (seccomp)".to_owned());
    }
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if cpu.lines().any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor")) {
        hints.push("virtual machine".to_owned());
    }
    if hints.is_empty() {
        hints.push("no container or virtual machine seen".to_owned());
    }
    Finding::ok(WHAT, hints.join(", "))
}

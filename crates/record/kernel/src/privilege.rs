//! Which right is missing for what.

use mote_sys::Errno;
use std::fmt;

/// A right that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What cannot be done.
    what: &'static str,
    /// What it needs.
    needs: Vec<&'static str>,
    /// Anything else that keeps it from being done.
    notes: Vec<&'static str>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not permitted to {}", self.what)?;
        if self.needs.is_empty() {
            write!(f, ", although all capabilities are there")?;
        } else {
            write!(f, ": {} {}", self.needs.join(" and "), if self.needs.len() == 1 { "is" } else { "are" })?;
            write!(f, " missing; run as root, or `setcap {}=ep` on mote", setcap(&self.needs))?;
        }
        for note in &self.notes {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Missing {}

fn setcap(needs: &[&str]) -> String {
    needs.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>().join(",")
}

/// Numbers of linux/capability.h, and what each one is needed for.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// The capabilities of the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    effective: u64,
    /// The last one that this kernel knows.
    last: u32,
}

impl Capabilities {
    /// As the kernel shows them in `/proc`.
    pub fn of_thread() -> Capabilities {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Capabilities::parse(&read("/proc/thread-self/status"), &read("/proc/sys/kernel/cap_last_cap"))
    }

    fn parse(status: &str, last: &str) -> Capabilities {
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        Capabilities { effective: effective.unwrap_or(0), last: last.trim().parse().unwrap_or(BPF) }
    }

    fn has(self, capability: u32) -> bool {
        self.effective & (1 << capability) != 0
    }

    /// What is missing for kernel events: names of capabilities.
    pub fn missing(self) -> Vec<&'static str> {
        if self.has(SYS_ADMIN) {
            return Vec::new();
        }
        if self.last < BPF {
            // Before Linux 5.8 there was only this one.
            return vec!["CAP_SYS_ADMIN"];
        }
        let needed = [(BPF, "CAP_BPF"), (PERFMON, "CAP_PERFMON")];
        needed.into_iter().filter(|(number, _)| !self.has(*number)).map(|(_, name)| name).collect()
    }
}

/// What is missing when the kernel has answered a try to do `what` with this error; `None` for errors of another kind,
/// or when nothing is missing as far as can be seen.
pub fn of(errno: Errno, what: &'static str) -> Option<Missing> {
    if !matches!(errno.0, libc::EPERM | libc::EACCES) {
        return None;
    }
    let needs = Capabilities::of_thread().missing();
    let notes = notes(&std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default());
    let some = !needs.is_empty() || !notes.is_empty();
    some.then_some(Missing { what, needs, notes })
}

fn notes(lockdown: &str) -> Vec<&'static str> {
    if lockdown.contains("[confidentiality]") {
        return vec![
            "the kernel is locked down (confidentiality): programs may not read its memory, not even root's",
        ];
    }
    Vec::new()
}

/// What is missing for kernel events, before anything is tried.
pub fn check() -> Option<Missing> {
    let needs = Capabilities::of_thread().missing();
    (!needs.is_empty()).then_some(Missing {
        what: "load programs into the kernel (bpf(2))",
        needs,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(effective: u64, last: u32) -> Vec<&'static str> {
        Capabilities::parse(&format!("Name:\tx\nCapEff:\t{effective:016x}\n"), &format!("{last}\n")).missing()
    }

    #[test]
    fn capabilities_are_named() {
        assert_eq!(missing(0, 40), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing(1 << BPF, 40), ["CAP_PERFMON"]);
        assert!(missing(1 << BPF | 1 << PERFMON, 40).is_empty());
        assert!(missing(1 << SYS_ADMIN, 40).is_empty());
        assert_eq!(missing(1 << BPF, 37), ["CAP_SYS_ADMIN"]);
    }

    #[test]
    fn the_text_says_what_to_do() {
        let missing = Missing {
            what: "load",
            needs: vec!["CAP_BPF", "CAP_PERFMON"],
            notes: notes("none integrity [confidentiality]"),
        };
        let text = missing.to_string();
        assert!(
            text.contains("CAP_BPF and CAP_PERFMON are missing") && text.contains("cap_bpf,cap_perfmon=ep"),
            "{text}"
        );
        assert!(text.contains("locked down"), "{text}");
    }
}

//! Names of address spaces and of vCPUs, as a person gives them.
//!
//! ```text
//! # a line each; what is behind the address is the name
//! vmcs 0x1f3a6000 web, vCPU 0
//! cr3  0x10c2e4000 web                 the VMM of a virtual machine, or another program of the host
//! cr3  0x10c2e4000:0x6a000 postgres    a process of this machine only
//! cr3  0x6a000 postgres                a process of any machine
//! idle 0x2a10000                       what the host executes there is idling
//! ```

use super::interval::{Space, Vmcs};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Names, and what is idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    vmcs: BTreeMap<Vmcs, String>,
    spaces: BTreeMap<(Option<Space>, Space), String>,
    idle: BTreeSet<Space>,
}

/// A line that is none of a map of names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "line {line} is not understood: `{text}`; lines are `vmcs 0x1f3a6000 NAME`, `cr3 0x6a000 NAME`, \
     `cr3 VMM:0x6a000 NAME` (VMM: the CR3 of the machine's VMM) and `idle 0x2a10000`"
)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// The text of the line that is refused.
    pub text: String,
}

impl Names {
    /// Reads a map. Empty lines, and those that begin with `#`, say nothing.
    ///
    /// # Errors
    /// The first line that is none.
    pub fn parse(text: &str) -> Result<Names, BadLine> {
        let mut names = Names::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let bad = || BadLine { line: number + 1, text: line.to_owned() };
                names.add(line).ok_or_else(bad)?;
            }
        }
        Ok(names)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(char::is_whitespace)?;
        let (place, name) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        let name = name.trim();
        match (kind, name.is_empty()) {
            ("vmcs", false) => drop(self.vmcs.insert(Vmcs::of(address(place)?)?, name.to_owned())),
            ("cr3", false) => {
                let (vm, space) = match place.split_once(':') {
                    Some((vm, space)) => (Some(Space::of(address(vm)?)), space),
                    None => (None, place),
                };
                self.spaces.insert((vm, Space::of(address(space)?)), name.to_owned());
            }
            ("idle", _) => drop(self.idle.insert(Space::of(address(place)?))),
            _ => return None,
        }
        Some(())
    }

    /// Names a vCPU that has no name.
    pub fn suggest_vmcs(&mut self, vmcs: Vmcs, name: &str) {
        self.vmcs.entry(vmcs).or_insert_with(|| name.to_owned());
    }

    /// Names an address space of the host that has no name.
    pub fn suggest_host(&mut self, space: Space, name: &str) {
        self.spaces.entry((None, space)).or_insert_with(|| name.to_owned());
    }

    /// The name of a vCPU.
    #[must_use]
    pub fn vmcs(&self, vmcs: Vmcs) -> Option<&str> {
        self.vmcs.get(&vmcs).map(String::as_str)
    }

    /// The name of an address space of the host: of a virtual machine, if it is that of its VMM.
    #[must_use]
    pub fn host(&self, space: Space) -> Option<&str> {
        self.spaces.get(&(None, space)).map(String::as_str)
    }

    /// The name of a process of a virtual machine.
    #[must_use]
    pub fn process(&self, vm: Option<Space>, process: Space) -> Option<&str> {
        let own = vm.and_then(|vm| self.spaces.get(&(Some(vm), process)));
        own.or_else(|| self.spaces.get(&(None, process))).map(String::as_str)
    }

    /// Whether what the host executes in an address space is idling.
    #[must_use]
    pub fn is_idle(&self, space: Space) -> bool {
        self.idle.contains(&space)
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names() {
        let text = "# all\n\nvmcs 0x1000 web, vCPU 0\ncr3 0x2000  web\ncr3 0x2000:0x6000 postgres\n\
                    cr3 0x6000 other\nidle 0x9000\n";
        let names = Names::parse(text).expect("a map");
        let vm = Some(Space::of(0x2000));
        assert_eq!(Vmcs::of(0x1000).and_then(|vmcs| names.vmcs(vmcs)), Some("web, vCPU 0"));
        assert_eq!(names.host(Space::of(0x2020)), Some("web"));
        assert_eq!(names.process(vm, Space::of(0x6000)), Some("postgres"));
        assert_eq!(names.process(None, Space::of(0x6000)), Some("other"));
        assert!(names.is_idle(Space::of(0x9000)) && !names.is_idle(Space::of(0x2000)));
    }

    #[test]
    fn other_lines_are_refused() {
        for (bad, line) in
            [("cr3 12 x", 1), ("\ncr3 0x12", 2), ("vm 0x12 x", 1), ("vmcs 0xffffffffffffffff x", 1)]
        {
            assert_eq!(Names::parse(bad).map_err(|bad| bad.line), Err(line), "{bad}");
        }
    }
}

//! What each processor was really busy with: a line of `truth-vm.jsonl` each.
//!
//! | member | |
//! |---|---|
//! | `cpu` | the processor |
//! | `begin`, `end` | its time-stamp counter |
//! | `state` | `vm`, `vmm`, `host`, `idle` |
//! | `vm` | CR3 of the machine's VMM (`vm`, `vmm`) |
//! | `vcpu` | the VMCS (`vm`; otherwise the one that was loaded last) |
//! | `cr3` | of the guest's process (`vm`), of the host's program (`host`) |
//! | `cleared` | that VMCS was cleared since |
//!
//! Addresses and times are strings with hexadecimal numbers.

use serde_json::{Value, json};

/// A processor was busy with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct True {
    /// The processor.
    pub cpu: usize,
    /// Its time-stamp counter when it began.
    pub begin: u64,
    /// The same when it ended.
    pub end: u64,
    /// The state that the processor was in.
    pub state: State,
    /// The VMCS: of the guest; otherwise the one that was loaded last.
    pub vmcs: Option<u64>,
    /// This VMCS was cleared since.
    pub is_cleared: bool,
}

/// What a processor is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A guest.
    Guest {
        /// CR3 of the machine's VMM.
        vm: u64,
        /// CR3 of the guest's process, in its kernel.
        process: u64,
    },
    /// A VMM.
    Vmm {
        /// Its CR3.
        vm: u64,
    },
    /// A program of the host.
    Host {
        /// Its CR3.
        cr3: u64,
    },
    /// Nothing.
    Idle {
        /// The processor has stopped in the guest.
        is_guest: bool,
    },
}

impl True {
    /// The interval as a line of JSON.
    #[must_use]
    pub fn line(&self) -> Value {
        let hex = |value: u64| json!(format!("{value:#x}"));
        let (state, vm, cr3) = match self.state {
            State::Guest { vm, process } => ("vm", Some(vm), Some(process)),
            State::Vmm { vm } => ("vmm", Some(vm), None),
            State::Host { cr3 } => ("host", None, Some(cr3)),
            State::Idle { .. } => ("idle", None, None),
        };
        json!({
            "cpu": self.cpu, "begin": hex(self.begin), "end": hex(self.end), "state": state,
            "vm": vm.map(hex), "vcpu": self.vmcs.map(hex), "cr3": cr3.map(hex), "cleared": self.is_cleared,
        })
    }
}

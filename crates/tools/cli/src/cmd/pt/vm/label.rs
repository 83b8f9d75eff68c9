//! What intervals are called.

use super::input::Input;
use mote_hardware::vm::{Doing, Interval, Names, Space, Summary, Vcpu, VcpuId, Vmcs};

/// What names are made of.
pub(super) struct Labels<'l> {
    pub(super) names: &'l Names,
    pub(super) summary: &'l Summary,
    pub(super) inputs: &'l [Input],
    /// When the trace begins: the first time of all.
    pub(super) begin: Option<u64>,
}

/// What an interval is of, by all that the whole trace tells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subject {
    pub(super) state: &'static str,
    pub(super) id: Option<VcpuId>,
    /// The guest's process, or the host's address space.
    pub(super) space: Option<Space>,
}

impl<'l> Labels<'l> {
    pub(super) fn new(names: &'l Names, summary: &'l Summary, inputs: &'l [Input]) -> Labels<'l> {
        let begin = summary.cpus().values().filter_map(|cpu| Some(cpu.seen?.0)).min();
        Labels { names, summary, inputs, begin }
    }

    /// What an interval is of.
    pub(super) fn subject(&self, interval: &Interval) -> Subject {
        match interval.doing {
            Doing::Guest { vmcs, vm, process } => {
                let id = VcpuId { vm, vmcs };
                let id = self.summary.whole(id).unwrap_or(id);
                Subject { state: "vm", id: Some(id), space: Some(process) }
            }
            Doing::Root { space, .. } if self.names.is_idle(space) => {
                Subject { state: "idle", id: None, space: Some(space) }
            }
            Doing::Root { vmcs, space } => match self.summary.machine_of(vmcs, space) {
                Some(id) => Subject { state: "vmm", id: Some(id), space: None },
                None => Subject { state: "host", id: None, space: Some(space) },
            },
            Doing::Idle { vmcs, .. } => {
                let id = vmcs.map(|vmcs| VcpuId { vm: None, vmcs: Some(vmcs) });
                Subject { state: "idle", id: id.and_then(|id| self.summary.whole(id)), space: None }
            }
            Doing::Unknown(_) => Subject { state: "unknown", id: None, space: None },
        }
    }

    /// `cpu 3`, and where it is from if that is not clear.
    pub(super) fn cpu(&self, place: usize) -> String {
        let Some(input) = self.inputs.get(place) else { return format!("cpu {place}") };
        match &input.from {
            Some(from) => format!("cpu {} of {from}", input.cpu),
            None => format!("cpu {}", input.cpu),
        }
    }

    /// What a virtual machine is called in tables and pictures.
    pub(super) fn machine(&self, vm: Option<Space>) -> String {
        match vm {
            Some(vm) => with_name(vm.to_string(), self.names.host(vm)),
            None => "not known".to_owned(),
        }
    }

    /// What a vCPU is called in tables and pictures.
    pub(super) fn vcpu(&self, vmcs: Option<Vmcs>) -> String {
        match vmcs {
            Some(vmcs) => with_name(vmcs.to_string(), self.names.vmcs(vmcs)),
            None => "not known".to_owned(),
        }
    }

    /// A vCPU, by its name or its address.
    pub(super) fn short(&self, id: &VcpuId) -> String {
        let Some(vmcs) = id.vmcs else { return "not known".to_owned() };
        self.names.vmcs(vmcs).map_or_else(|| vmcs.to_string(), str::to_owned)
    }

    /// A guest's process.
    pub(super) fn process(&self, vm: Option<Space>, process: Space) -> String {
        with_name(process.to_string(), self.names.process(vm, process))
    }

    /// An address space of the host.
    pub(super) fn host(&self, space: Space) -> String {
        with_name(space.to_string(), self.names.host(space))
    }

    /// How fast the time-stamp counter of a processor is.
    pub(super) fn hz(&self, place: usize) -> Option<u64> {
        self.inputs.get(place)?.tsc_hz
    }

    /// The same of a vCPU's first processor.
    pub(super) fn hz_of(&self, vcpu: &Vcpu) -> Option<u64> {
        self.hz(*vcpu.cpus.first()?)
    }
}

fn with_name(address: String, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{address} {name}"),
        None => address,
    }
}

/// Ticks of the time-stamp counter in nanoseconds.
pub(super) fn ns(ticks: u64, hz: Option<u64>) -> Option<u64> {
    let hz = hz.filter(|hz| *hz > 0)?;
    u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(hz)).ok()
}

/// Exits per second of the time in which a vCPU was seen.
pub(super) fn rate(vcpu: &Vcpu, hz: Option<u64>) -> Option<u64> {
    let (first, last) = vcpu.seen?;
    let ns = ns(last - first, hz).filter(|ns| *ns > 0)?;
    u64::try_from(u128::from(vcpu.exits) * 1_000_000_000 / u128::from(ns)).ok()
}

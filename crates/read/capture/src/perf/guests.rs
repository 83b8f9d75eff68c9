//! Code that perf keeps beside its records: that of the kernel, and of virtual machines.
//!
//! `perf record --kcore` makes a directory: `data`, and `kcore_dir` with a copy of `/proc/kcore` and `/proc/kallsyms`.
//! `perf inject --guest-data` adds `kcore_dir__PID` of a virtual machine, and its records, whose ids say of which vCPU
//! they are (tools/perf/Documentation/perf-intel-pt.txt, "Tracing Virtual Machines").

use super::Notes;
use super::found::Found;
use crate::guests::Guests;
use crate::kernel::{Code, Kcore};
use crate::note::{KERNEL, Note};
use mote_perfdata::SampleId;
use mote_perfdata::intel_pt::Clock;
use mote_words::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the copies are: of the host's kernel, and, with the VMM's process behind it, of a virtual machine's.
const KCORE: &str = "kcore_dir";
const KCORE_OF_GUEST: &str = "kcore_dir__";

/// Code beside records.
#[derive(Default)]
pub(super) struct Beside {
    /// The host's kernel.
    pub(super) kernel: Vec<Note>,
    pub(super) guests: Guests,
    /// Files that notes name, and that are not on the disk.
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    /// What could not be read.
    pub(super) problems: Vec<String>,
}

impl Beside {
    /// What there is: in perf's directory, if it is one, and in records of virtual machines.
    pub(super) fn read(folder: Option<&Path>, found: &Found, clock: Option<Clock>) -> Beside {
        let mut beside = Beside::default();
        let kernel = folder.map(|folder| folder.join(KCORE)).filter(|folder| folder.is_dir());
        beside.kernel = kernel.map_or_else(Vec::new, |folder| beside.kernel_in(&folder));
        let with_kernel: BTreeMap<i32, PathBuf> = folder.map_or_else(BTreeMap::new, kernels_of_guests);
        let threads = found.machines();
        let machines: BTreeSet<i32> = threads.keys().chain(with_kernel.keys()).copied().collect();
        for machine in machines {
            let notes = with_kernel.get(&machine).map_or_else(Vec::new, |folder| beside.kernel_in(folder));
            let guest = beside.guests.of(machine);
            guest.notes = notes;
            guest.vcpus = threads.get(&machine).cloned().unwrap_or_default();
            beside.records_of(machine, found, clock);
        }
        beside
    }

    /// Takes in the records of a virtual machine.
    fn records_of(&mut self, machine: i32, found: &Found, clock: Option<Clock>) {
        let build_ids = found.builds.get(&Some(machine)).cloned().unwrap_or_default();
        let mut notes = Notes::of_guest(clock).with_build_ids(build_ids);
        let guest = self.guests.of(machine);
        for (record, id, vcpu) in found.by_time() {
            if let Some(vcpu) = vcpu.filter(|vcpu| vcpu.machine == machine) {
                // Its CPU is that of the host, on which the vCPU ran.
                let id = SampleId { cpu: Some(vcpu.number), ..id };
                notes.take(record, &id, |note| guest.notes.push(note));
            }
        }
        let unknown: Vec<&Path> = notes.without_build_id().collect();
        if let Some(first) = unknown.first() {
            let count = counted(unknown.len() as u64, "file", "files");
            self.problems.push(format!(
                "code of {count} of the virtual machine {machine} is not known, {} among them: it has no build id",
                first.display()
            ));
        }
    }

    /// The code of a kernel, as notes.
    fn kernel_in(&mut self, folder: &Path) -> Vec<Note> {
        match read_kernel(folder) {
            Ok(code) => {
                self.problems.extend(code.problem.clone());
                // It is put together of two files, and is none of them.
                let path = folder.join("[kernel]");
                let note =
                    |what| Note { pid: KERNEL, tid: -1, cpu: None, instructions: None, time: None, what };
                let notes = code.images(&path).map(note).collect();
                self.files.push((path, code.file()));
                notes
            }
            Err(why) => {
                self.problems.push(format!("the kernel's code in {} is not known: {why}", folder.display()));
                Vec::new()
            }
        }
    }
}

fn read_kernel(folder: &Path) -> io::Result<Code> {
    let kcore = Kcore::open(&folder.join("kcore"))?;
    Code::by_symbols(&kcore, fs::read_to_string(folder.join("kallsyms"))?)
}

/// The directories with kernels of virtual machines, by the processes of their VMMs.
fn kernels_of_guests(folder: &Path) -> BTreeMap<i32, PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let machine = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        Some((name.strip_prefix(KCORE_OF_GUEST)?.parse().ok()?, path))
    };
    entries.filter_map(|entry| machine(entry.path())).collect()
}

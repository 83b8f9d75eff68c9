//! What a file of perf has of a capture, sorted.

use mote_perfdata::intel_pt::{self, Info};
use mote_perfdata::record::{Auxtrace, Mode, Vcpu};
use mote_perfdata::{Error as Damage, PerfData, Piece, Record, SampleId, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Which machine a file's build id was said of: the host, or that of a VMM.
pub(super) type Builds = BTreeMap<Option<i32>, BTreeMap<PathBuf, String>>;

/// Records by what they are for.
pub(super) struct Found {
    pub(super) info: Option<Info>,
    pub(super) pieces: Vec<(Auxtrace, Piece)>,
    /// Samples that have packets.
    pub(super) samples: Vec<(SampleId, Piece)>,
    /// How many were compressed: they are nowhere in the file as they are.
    pub(super) packed: u64,
    pub(super) builds: Builds,
    records: Vec<(Record, SampleId)>,
    /// Which ids are of virtual machines.
    guests: BTreeMap<u64, Vcpu>,
    /// Which thread of the host runs which vCPU.
    vcpus: BTreeSet<(Vcpu, i32)>,
    /// Why there is no more.
    pub(super) ends_with: Option<Damage>,
}

impl Found {
    pub(super) fn read<S: Source>(data: &PerfData<S>) -> Result<Found, Damage> {
        let mut found = Found {
            info: None,
            pieces: Vec::new(),
            samples: Vec::new(),
            packed: 0,
            builds: Builds::new(),
            records: Vec::new(),
            guests: BTreeMap::new(),
            vcpus: BTreeSet::new(),
            ends_with: None,
        };
        data.features().build_ids().iter().for_each(|build| found.build(build));
        for entry in data.records() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(why @ (Damage::Cut { .. } | Damage::Record { .. })) => {
                    found.ends_with = Some(why);
                    break;
                }
                Err(why) => return Err(why),
            };
            match entry.record {
                Record::AuxtraceInfo { kind: intel_pt::KIND, words } => found.info = Info::read(&words),
                Record::Auxtrace(piece) => found.pieces.extend(entry.piece.map(|bytes| (piece, bytes))),
                Record::Sample { sampled, .. } => {
                    found.samples.extend(entry.sampled.map(|bytes| (entry.id, bytes)));
                    found.packed += u64::from(sampled.is_some() && entry.sampled.is_none());
                }
                Record::IdIndex(entries) => {
                    for entry in entries {
                        let Some(vcpu) = entry.guest else { continue };
                        found.guests.insert(entry.id, vcpu);
                        found.vcpus.extend(i32::try_from(entry.tid).ok().map(|tid| (vcpu, tid)));
                    }
                }
                build @ Record::BuildId { .. } => found.build(&build),
                Record::FinishedRound | Record::Other { .. } | Record::Damaged { .. } => {}
                record => found.records.push((record, entry.id)),
            }
        }
        Ok(found)
    }

    fn build(&mut self, build: &Record) {
        let Record::BuildId { pid, mode, build_id, path } = build else { return };
        let machine = matches!(mode, Mode::GuestKernel | Mode::GuestUser).then_some(*pid);
        // Before Linux 5.10 there is no size, and short ones are filled up.
        let id = build_id.strip_suffix(&[0; 4]).unwrap_or(build_id);
        self.builds.entry(machine).or_default().insert(path.clone(), crate::hex::digits(id));
    }

    /// The records, in the order of time; those of no time first. Each comes with the vCPU that it is of, if it is a
    /// virtual machine's.
    pub(super) fn by_time(&self) -> impl Iterator<Item = (&Record, SampleId, Option<Vcpu>)> {
        let mut records: Vec<_> = self.records.iter().collect();
        records.sort_by_key(|(_, id)| id.time.unwrap_or(0));
        records.into_iter().map(|(record, id)| (record, *id, self.vcpu(id)))
    }

    fn vcpu(&self, id: &SampleId) -> Option<Vcpu> {
        self.guests.get(&id.id?).copied()
    }

    /// The virtual machines of which there are records, with the threads of the host that run their vCPUs.
    pub(super) fn machines(&self) -> BTreeMap<i32, BTreeMap<i32, u32>> {
        let mut machines: BTreeMap<i32, BTreeMap<i32, u32>> = BTreeMap::new();
        for (vcpu, tid) in &self.vcpus {
            machines.entry(vcpu.machine).or_default().insert(*tid, vcpu.number);
        }
        machines
    }
}

//! Virtual machines that ran in the host, as far as a capture has code of them.
//!
//! Packets say when a guest runs (PIP.NR, SDM 33.4.2.7), but not which: that is the one whose VMM the host runs then.
//! Where no code of a guest is known, its packets are followed through none, and certainly not through the host's.

use crate::code::Code;
use crate::files::Files;
use crate::moment::Moment;
use crate::note::Note;
use crate::versions::Versions;
use mote_pt::image::Space;
use std::collections::BTreeMap;

/// Virtual machines, by the processes that are their VMMs in the host.
#[derive(Debug, Default)]
pub(crate) struct Guests(BTreeMap<i32, Guest>);

/// A virtual machine.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    /// What is known of its processes and its kernel, as of a capture of its own: processors are its vCPUs, and times
    /// are the host's.
    pub(crate) notes: Vec<Note>,
    /// Which thread of the host runs which vCPU.
    pub(crate) vcpus: BTreeMap<i32, u32>,
}

/// A vCPU: its machine, and its number there; where that is not known, nothing but the kernel is.
type Key = (i32, Option<u32>);

/// A thread that runs from a moment on: process and thread.
pub(crate) type Run = (Moment, (i32, i32));

impl Guests {
    /// The virtual machine of a VMM.
    pub(crate) fn of(&mut self, machine: i32) -> &mut Guest {
        self.0.entry(machine).or_default()
    }

    /// Adds the code of guests to that of a stream, in which these threads of the host run; where none is known to, it
    /// is the only machine that there is.
    ///
    /// # Cost
    /// As [`Code::of_cpu`], for each vCPU that the threads run.
    pub(crate) fn add_to(&self, code: Code, runs: &[Run], files: &Files) -> Code {
        if self.0.is_empty() {
            return code;
        }
        let mut code = code.paired();
        let mut runs: Vec<(Moment, Option<Key>)> =
            runs.iter().map(|(from, thread)| (*from, self.vcpu(*thread))).collect();
        if let ([], Some((machine, _)), 1) = (runs.as_slice(), self.0.first_key_value(), self.0.len()) {
            runs.push((Moment::BEGIN, Some((*machine, None))));
        }
        let mut versions: BTreeMap<Key, Versions> = BTreeMap::new();
        for key @ (machine, number) in runs.iter().filter_map(|(_, key)| *key) {
            if let (Some(guest), false) = (self.0.get(&machine), versions.contains_key(&key)) {
                let made = match number {
                    Some(number) => Code::of_cpu(&guest.notes, number, files),
                    None => Code::of_kernel(&guest.notes, files),
                };
                versions.insert(key, code.adopt_pairs(made));
            }
        }
        code.set_guests(timeline(&runs, &versions));
        code
    }

    /// Which vCPU a thread of the host is.
    fn vcpu(&self, (pid, tid): (i32, i32)) -> Option<Key> {
        Some((pid, self.0.get(&pid)?.vcpus.get(&tid).copied()))
    }
}

/// What changes in a timeline.
enum Change {
    /// The code of a vCPU.
    Code(Key, Space),
    /// Which vCPU runs, if one does.
    Runs(Option<Key>),
}

/// From when on which version counts.
fn timeline(runs: &[(Moment, Option<Key>)], versions: &BTreeMap<Key, Versions>) -> Versions {
    let first = |(key, all): (&Key, &Versions)| Some((*key, all.first()?.1));
    let mut now: BTreeMap<Key, Space> = versions.iter().filter_map(first).collect();
    let mut changes: Vec<(Moment, Change)> = Vec::new();
    for (key, all) in versions {
        changes.extend(all.iter().skip(1).map(|(from, space)| (*from, Change::Code(*key, *space))));
    }
    changes.extend(runs.iter().map(|(from, key)| (*from, Change::Runs(*key))));
    // At the same moment, code changes first.
    changes.sort_by_key(|(from, change)| (from.count(), matches!(change, Change::Runs(_))));
    let (mut running, mut timeline) = (None, vec![(Moment::BEGIN, Code::NOTHING)]);
    for (from, change) in changes {
        match change {
            Change::Code(key, space) => drop(now.insert(key, space)),
            Change::Runs(key) => running = key,
        }
        let space = running.and_then(|key| now.get(&key)).copied().unwrap_or(Code::NOTHING);
        if timeline.last().is_none_or(|(_, last)| *last != space) {
            timeline.push((from, space));
        }
    }
    timeline
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::{KERNEL, What};
    use crate::test_notes::{self, code, note};
    use mote_pt::image::Image as _;

    /// The byte that a guest has at an address, at a time.
    fn byte(code: &Code, time: u64, address: u64) -> Option<u8> {
        test_notes::byte(code, code.guests(), time, address)
    }

    const KERNEL_CODE: u64 = 1 << 63;

    /// Two machines: 70 with the vCPUs 0 and 1, and 80 with a kernel only.
    fn guests() -> Guests {
        let mut guests = Guests::default();
        let first = guests.of(70);
        first.vcpus = BTreeMap::from([(71, 0), (72, 1)]);
        first.notes = vec![
            note(KERNEL, None, 0, code(KERNEL_CODE, 9)),
            note(5, None, 0, code(0x1000, 1)),
            note(6, None, 0, code(0x1000, 2)),
            note(5, Some(0), 10, What::Switch),
            note(6, Some(1), 10, What::Switch),
            note(6, Some(0), 30, What::Switch),
            note(6, None, 50, code(0x1000, 3)),
        ];
        guests.of(80).notes = vec![note(KERNEL, None, 0, code(KERNEL_CODE, 8))];
        guests
    }

    /// The host's own code, which has other bytes at the same addresses.
    fn host() -> Code {
        let notes = [note(1, None, 0, code(0x1000, 0xcc)), note(KERNEL, None, 0, code(KERNEL_CODE, 0xcc))];
        Code::of_cpu(&notes, 0, &Files::default())
    }

    #[test]
    fn it_is_that_of_the_machine_that_the_host_runs() {
        let runs = [
            (Moment::BEGIN, (70, 71)),
            (Moment::Time(20), (80, 81)),
            (Moment::Time(25), (1, 1)),
            (Moment::Time(28), (70, 72)),
            (Moment::Time(40), (70, 71)),
            (Moment::Time(60), (70, 99)),
        ];
        let code = guests().add_to(host(), &runs, &Files::default());
        let user = |time| byte(&code, time, 0x1000);
        assert_eq!([15, 22, 26, 28, 41, 55].map(user), [Some(1), None, None, Some(2), Some(2), Some(3)]);
        // A thread of the VMM that is no vCPU: the kernel is the same for all.
        let kernel = |time| byte(&code, time, KERNEL_CODE);
        assert_eq!([15, 22, 26, 61].map(kernel), [Some(9), Some(8), None, Some(9)]);
        assert_eq!(user(61), None);
        // The host's is what it was.
        let (_, own) = code.versions()[0];
        assert_eq!(code.read(own, 0x1000), Ok(&[0xcc][..]));
        assert_eq!(code.read(own, KERNEL_CODE), Ok(&[0xcc][..]));
    }

    #[test]
    fn a_thread_of_a_machine_has_its_code_too() {
        let notes = [note(70, None, 0, code(0x1000, 0xcc)), note(70, None, 9, code(0x1000, 0xcd))];
        let own = Code::of(notes.iter(), 71, &Files::default());
        let code = guests().add_to(own, &[(Moment::BEGIN, (70, 71))], &Files::default());
        assert_eq!([11, 35].map(|time| byte(&code, time, 0x1000)), [Some(1), Some(2)]);
        let bytes = code.versions().iter().map(|(_, space)| code.read(*space, 0x1000).ok());
        assert_eq!(bytes.collect::<Vec<_>>(), [Some(&[0xcc][..]), Some(&[0xcd][..])]);
    }

    #[test]
    fn where_nobody_says_who_runs_it_is_the_only_machine() {
        let both = guests().add_to(host(), &[], &Files::default());
        assert_eq!(byte(&both, 1, KERNEL_CODE), None);
        let mut one = Guests::default();
        one.of(80).notes = guests().of(80).notes.clone();
        let code = one.add_to(host(), &[], &Files::default());
        assert_eq!((byte(&code, 1, KERNEL_CODE), byte(&code, 1, 0x1000)), (Some(8), None));
        // Without machines nothing is added.
        assert!(Guests::default().add_to(host(), &[], &Files::default()).guests().is_empty());
    }
}

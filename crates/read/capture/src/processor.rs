//! The code that a processor's packets may lead through: of the processes that run there, one after the other.

use crate::code::{Code, Making};
use crate::files::Files;
use crate::guests::Run;
use crate::moment::Moment;
use crate::note::{KERNEL, Note, What};
use crate::versions::{Entries, Versions};
use mote_pt::image::Space;
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Code {
    /// From all notes, as processor `cpu` has met them: which process it ran is said by notes of switches. Where none
    /// is of it, packets say it (PIP), if there are notes of address spaces; or else it ran the only process of which
    /// code is known. Of several, nobody knows which: the kernel's code is all that there is then. It is that of all
    /// of them.
    ///
    /// # Cost
    /// Each process has versions of its own, and so has the kernel; switches between them have none.
    pub(crate) fn of_cpu(notes: &[Note], cpu: u32, files: &Files) -> Code {
        let is_here = |note: &&Note| note.what == What::Switch && note.cpu == Some(cpu);
        let here = || notes.iter().filter(is_here).map(|note| (moment(note, cpu), note));
        let runs: Vec<(Moment, i32)> = here().map(|(from, note)| (from, note.pid)).collect();
        let entries = if runs.is_empty() { entries(notes, cpu) } else { Vec::new() };
        let mut processes: BTreeSet<i32> = runs.iter().map(|(_, pid)| *pid).collect();
        processes.extend(entries.iter().map(|(_, _, pid)| *pid));
        let by_process = by_process(notes, cpu);
        if processes.is_empty() {
            processes = by_process.keys().copied().filter(|pid| *pid != KERNEL).collect();
            if processes.len() > 1 {
                processes.clear();
            }
        }
        if processes.is_empty() || !entries.is_empty() {
            processes.insert(KERNEL);
        }
        let mut all = Code::default();
        let made = |pid: i32| {
            let mut making = Making::of(pid, files);
            for number in by_process.get(&pid).into_iter().flatten() {
                making.take(moment(&notes[*number], cpu), &notes[*number]);
            }
            making.finish()
        };
        let kernel = all.adopt(made(KERNEL));
        // Without a process there is nothing but the kernel.
        let none = all.adopt(Making::of(KERNEL, files).finish());
        let mut versions = BTreeMap::new();
        for pid in processes {
            versions.insert(pid, if pid == KERNEL { none.clone() } else { all.adopt(made(pid)) });
        }
        let mut pairs = Pairs::default();
        if entries.is_empty() {
            all.set_versions(pairs.named(timeline(&runs, &versions, &kernel)));
        } else {
            let of_it = |(pid, own): (&i32, &Versions)| {
                (*pid, pairs.named(timeline(&[], &BTreeMap::from([(*pid, own.clone())]), &kernel)))
            };
            let versions: BTreeMap<i32, Versions> = versions.iter().map(of_it).collect();
            all.set_versions(versions.get(&KERNEL).cloned().unwrap_or_default());
            all.set_entries(Entries::new(entries, versions));
        }
        all.set_pairs(pairs.all);
        // Whoever is first was there from the begin on.
        let begin = |(number, (from, note)): (usize, (Moment, &Note))| {
            (if number == 0 { Moment::BEGIN } else { from }, note.tid)
        };
        all.set_runs(here().enumerate().map(begin).collect());
        all
    }

    /// From all notes, nothing but the kernel's code.
    pub(crate) fn of_kernel(notes: &[Note], files: &Files) -> Code {
        let kernel: Vec<Note> = notes.iter().filter(|note| note.pid == KERNEL).cloned().collect();
        Code::of_cpu(&kernel, 0, files)
    }
}

/// Which thread runs on a processor from when on; the first one from the begin.
pub(crate) fn threads_of(notes: &[Note], cpu: u32) -> Vec<Run> {
    let here = notes.iter().filter(|note| note.what == What::Switch && note.cpu == Some(cpu));
    let run = |(number, note): (usize, &Note)| {
        (if number == 0 { Moment::BEGIN } else { moment(note, cpu) }, (note.pid, note.tid))
    };
    here.enumerate().map(run).collect()
}

/// What a processor may lead through at a time: a version of a process, and one of the kernel.
#[derive(Default)]
struct Pairs {
    all: Vec<[Space; 2]>,
    numbers: HashMap<[Space; 2], Space>,
}

impl Pairs {
    /// With a name for each.
    fn named(&mut self, timeline: Vec<(Moment, [Space; 2])>) -> Versions {
        let Pairs { all, numbers } = self;
        let name = |(from, pair): (Moment, [Space; 2])| {
            let number = *numbers.entry(pair).or_insert_with(|| {
                all.push(pair);
                Space(all.len() as u64 - 1)
            });
            (from, number)
        };
        timeline.into_iter().map(name).collect()
    }
}

fn entries(notes: &[Note], cpu: u32) -> Vec<(Moment, u64, i32)> {
    let entry = |note: &Note| match note.what {
        What::AddressSpace { cr3 } => Some((moment(note, cpu), cr3, note.pid)),
        _ => None,
    };
    notes.iter().filter_map(entry).collect()
}

/// The numbers of each process's notes that say something of code. What is counted in instructions of another processor
/// was noted for that one; each has a note of its own then.
fn by_process(notes: &[Note], cpu: u32) -> BTreeMap<i32, Vec<usize>> {
    let mut all = BTreeMap::<i32, Vec<usize>>::new();
    let is_of_other = |note: &Note| note.instructions.is_some() && note.cpu.is_some_and(|noted| noted != cpu);
    for (number, note) in notes.iter().enumerate() {
        if is_of_other(note) {
            continue;
        }
        if matches!(note.what, What::Exec { .. } | What::Image(_) | What::Code { .. }) {
            all.entry(note.pid).or_default().push(number);
        }
    }
    all
}

/// When a note counts.
fn moment(note: &Note, cpu: u32) -> Moment {
    match (note.instructions, note.time) {
        (Some(count), _) if note.cpu == Some(cpu) => Moment::Instructions(count),
        // A switch happens while nothing of the program is traced: between two packets of time.
        (_, Some(time)) if note.what == What::Switch => Moment::Time(time),
        (_, Some(time)) => Moment::Return(time),
        (Some(count), None) => Moment::Instructions(count),
        (None, None) => Moment::BEGIN,
    }
}

/// What changes in a timeline.
enum Change {
    /// The code of a process.
    Code(i32, Space),
    /// The kernel's.
    Kernel(Space),
    /// The process that runs.
    Runs(i32),
}

/// When which versions count, where so many processes have run and each has its versions, and so has the kernel.
fn timeline(
    runs: &[(Moment, i32)],
    versions: &BTreeMap<i32, Versions>,
    kernel: &Versions,
) -> Vec<(Moment, [Space; 2])> {
    // What is known at the begin counts from there on, whenever it was said.
    let first = runs.first().map(|(_, pid)| *pid).or_else(|| versions.keys().next().copied());
    let mut now: BTreeMap<i32, Space> =
        versions.iter().filter_map(|(pid, all)| Some((*pid, all.first()?.1))).collect();
    let mut of_kernel = kernel.first().map_or(Space::default(), |(_, space)| *space);
    let mut running = first;
    let mut changes: Vec<(Moment, Change)> = Vec::new();
    for (pid, all) in versions {
        changes.extend(all.iter().skip(1).map(|(from, space)| (*from, Change::Code(*pid, *space))));
    }
    changes.extend(kernel.iter().skip(1).map(|(from, space)| (*from, Change::Kernel(*space))));
    changes.extend(runs.iter().map(|(from, pid)| (*from, Change::Runs(*pid))));
    // At the same moment, code changes first.
    changes.sort_by_key(|(from, change)| (from.count(), matches!(change, Change::Runs(_))));
    let mut timeline: Vec<(Moment, [Space; 2])> = Vec::new();
    timeline.extend(running.and_then(|pid| Some((Moment::BEGIN, [*now.get(&pid)?, of_kernel]))));
    for (from, change) in changes {
        match change {
            Change::Code(pid, space) => drop(now.insert(pid, space)),
            Change::Kernel(space) => of_kernel = space,
            Change::Runs(pid) => running = Some(pid),
        }
        let Some(space) = running.and_then(|pid| now.get(&pid)) else { continue };
        let pair = [*space, of_kernel];
        if timeline.last().is_none_or(|(_, last)| *last != pair) {
            timeline.push((from, pair));
        }
    }
    timeline
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Reached;
    use crate::test_notes::{self, code, note};
    use mote_pt::image::Image as _;

    /// The byte at an address at a time.
    fn byte(made: &Code, time: u64, address: u64) -> Option<u8> {
        test_notes::byte(made, made.versions(), time, address)
    }

    #[test]
    fn it_is_of_the_process_that_runs() {
        const KERNEL_CODE: u64 = 1 << 63;
        let notes = [
            note(KERNEL, None, 0, code(KERNEL_CODE, 9)),
            note(7, None, 0, code(0x1000, 1)),
            note(8, None, 0, code(0x1000, 2)),
            note(7, Some(0), 10, What::Switch),
            note(8, Some(1), 15, What::Switch),
            note(8, Some(0), 20, What::Switch),
            note(7, None, 25, What::Exec { path: "/bin/other".into() }),
            note(7, None, 25, code(0x1000, 3)),
            note(7, Some(0), 30, What::Switch),
            note(KERNEL, None, 40, code(KERNEL_CODE, 10)),
        ];
        let made = Code::of_cpu(&notes, 0, &Files::default());
        let at = |time| byte(&made, time, 0x1000);
        // Whoever is first was there from the begin on.
        assert_eq!([1, 10, 19, 20, 29, 30].map(at), [1, 1, 1, 2, 2, 3].map(Some));
        assert_eq!([1, 20, 39, 40].map(|time| byte(&made, time, KERNEL_CODE)), [9, 9, 9, 10].map(Some));
        let made = Code::of_cpu(&notes, 1, &Files::default());
        assert_eq!([1, 20, 29].map(|time| byte(&made, time, 0x1000)), [Some(2); 3]);
    }

    #[test]
    fn its_own_count_is_exact() {
        let note = |count, pid, what| Note { instructions: Some(count), ..note(pid, Some(0), 50, what) };
        let notes = [
            note(0, 7, What::Switch),
            note(0, 7, code(0x1000, 1)),
            note(10, 8, What::Switch),
            note(10, 8, code(0x1000, 2)),
            note(20, 8, code(0x1000, 3)),
        ];
        let made = Code::of_cpu(&notes, 0, &Files::default());
        let moments: Vec<u64> = made.versions().iter().map(|(from, _)| from.instructions()).collect();
        assert_eq!(moments, [0, 10, 20]);
    }

    /// Two processors, each of which counts for itself what both are told.
    #[test]
    fn what_another_processor_counts_is_for_that_one() {
        let note = |count, cpu, what| Note { instructions: Some(count), ..note(7, Some(cpu), 50, what) };
        let notes = [
            note(0, 0, What::Switch),
            note(0, 1, What::Switch),
            note(0, 0, code(0x1000, 1)),
            note(0, 1, code(0x1000, 1)),
            note(10, 0, code(0x1000, 2)),
            note(77, 1, code(0x1000, 2)),
        ];
        for (cpu, expect) in [(0, [0, 10]), (1, [0, 77])] {
            let made = Code::of_cpu(&notes, cpu, &Files::default());
            let moments: Vec<u64> = made.versions().iter().map(|(from, _)| from.instructions()).collect();
            assert_eq!(moments, expect);
        }
    }

    #[test]
    fn versions_of_the_kernel_are_those_of_all() {
        const KERNEL_CODE: u64 = 1 << 63;
        let mut notes: Vec<Note> = (1..=50).map(|pid| note(pid, None, 0, code(0x1000, pid as u8))).collect();
        notes.extend((1..=50).map(|pid| note(pid, Some(0), 1000 * pid as u64, What::Switch)));
        notes.extend((0..100).map(|number| note(KERNEL, None, 10 * number, code(KERNEL_CODE, number as u8))));
        let made = Code::of_cpu(&notes, 0, &Files::default());
        assert_eq!(byte(&made, 30_000, 0x1000), Some(30));
        assert_eq!([1, 15, 985, 30_000].map(|time| byte(&made, time, KERNEL_CODE)), [0, 1, 98, 99].map(Some));
        // A part for each process and each version of the kernel, not for each pair.
        assert_eq!(made.parts(), 50 + 100);
    }

    #[test]
    fn packets_say_which_process_runs_where_notes_do_not() {
        let space = |pid, time, cr3| note(pid, None, time, What::AddressSpace { cr3 });
        let notes = [
            note(KERNEL, None, 0, code(1 << 63, 9)),
            note(7, None, 0, code(0x1000, 1)),
            note(8, None, 0, code(0x1000, 2)),
            space(7, 5, 0x4000),
            space(8, 6, 0x8000),
            note(7, None, 50, code(0x1000, 3)),
            // A new process gets what the old one has left.
            note(9, None, 0, code(0x1000, 4)),
            space(9, 100, 0x4000),
        ];
        let made = Code::of_cpu(&notes, 0, &Files::default());
        let at = |time: u64, cr3: u64, address: u64| {
            let is_reached = |from: Moment| from.is_reached(0, Reached { time: Some(time), next: None });
            let versions = made.entered(cr3, is_reached).expect("versions");
            let (_, space) = versions.iter().rev().find(|(from, _)| is_reached(*from)).expect("a version");
            made.read(*space, address).ok().and_then(|bytes| bytes.first().copied())
        };
        assert_eq!(
            [at(1, 0x4000, 0x1000), at(49, 0x4abc, 0x1000), at(50, 0x5000, 0x1000)],
            [1, 1, 3].map(Some)
        );
        assert_eq!(
            [at(1, 0x8000, 0x1000), at(99, 0x4000, 0x1000), at(100, 0x4000, 0x1000)],
            [2, 3, 4].map(Some)
        );
        // Nobody's: the kernel is there all the same.
        assert_eq!([at(9, 0x10000, 0x1000), at(9, 0x10000, 1 << 63)], [None, Some(9)]);
        // Where switches are noted, they count.
        let switch = note(7, Some(0), 10, What::Switch);
        let made = Code::of_cpu(&[&notes[..], &[switch]].concat(), 0, &Files::default());
        assert!(made.entered(0x4000, |_| true).is_none());
    }

    #[test]
    fn one_process_needs_no_switches() {
        let notes = [note(7, None, 5, code(0x1000, 1)), note(7, None, 9, code(0x1000, 2))];
        let made = Code::of_cpu(&notes, 3, &Files::default());
        assert_eq!([1, 8, 9].map(|time| byte(&made, time, 0x1000)), [1, 1, 2].map(Some));
        assert_eq!(byte(&Code::of_cpu(&[], 3, &Files::default()), 1, 0x1000), None);
    }
}

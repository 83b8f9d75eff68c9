//! Rules that really run.

use super::*;
use crate::map::Buffers;
use crate::session::{Kernel, Request, Targets};
use mote_catalog::Catalog;
use mote_catalog::tracefs::Tracefs;
use mote_generate::Chosen;
use mote_ring::Mode;

/// A recording of this process's events with these rules; `None` where programs may not be loaded.
struct World {
    kernel: Kernel,
    rules: Rules,
    shared: Shared,
}

impl World {
    fn new(events: &[&str], rules: &[&str]) -> Option<World> {
        let parsed =
            rules.iter().map(|text| Rule::parse(text).unwrap_or_else(|why| panic!("{}", why.render())));
        World::of(events, parsed.collect())
    }

    fn of(events: &[&str], wanted: Vec<Rule>) -> Option<World> {
        let shared = match Shared::create() {
            Ok(shared) => shared,
            Err(why) => {
                mote_skip::skip(why);
                return None;
            }
        };
        let mut rules = Rules::new(SharedNames::default());
        let found = Catalog::open().select(events).unwrap_or_else(|why| panic!("{why}")).events;
        let mut chosen = Vec::new();
        for (id, event) in found.into_iter().enumerate() {
            let filter =
                match rules.decide(&wanted, &event).unwrap_or_else(|why| panic!("{}", why.render())).0 {
                    Outcome::Off => continue,
                    Outcome::Recorded => None,
                    Outcome::Filtered(filter) => Some(filter),
                };
            chosen.push(Chosen { id: id as u16 + 1, event, filter });
        }
        let maps = rules.create(&shared).unwrap();
        let request = Request {
            events: chosen,
            targets: Targets::Pids(vec![std::process::id()]),
            buffers: Buffers { sub_bits: 14, count_bits: 2, mode: Mode::Discard },
            maps,
            threads: 64,
        };
        let kernel = Kernel::start(request).unwrap_or_else(|why| panic!("{why}"));
        kernel.enable();
        Some(World { kernel, rules, shared })
    }

    fn end(self) -> String {
        self.kernel.disable();
        self.rules.aggregates().iter().map(|one| one.text(60, 20)).collect()
    }
}

/// A system call that no other program makes.
fn getpriority(times: usize) {
    for _ in 0..times {
        std::hint::black_box(std::fs::metadata("/proc/self/fdinfo/1/none/of/it").is_err());
    }
}

#[test]
fn system_calls_are_counted() {
    let rules = vec![
        Rule::count("syscalls:*", "by $event").unwrap(),
        Rule::histogram("syscalls:syscall_exit_statx", "ret").unwrap(),
        Rule::parse(
            "syscalls:syscall_entry_statx if filename == \"*/none/*\" do count by prefix(filename, 16)",
        )
        .unwrap(),
    ];
    let Some(world) = World::of(&["syscalls:*statx"], rules) else { return };
    getpriority(100);
    let text = world.end();
    assert!(text.contains("syscalls:syscall_entry_statx   100"), "\n{text}");
    assert!(text.contains("syscalls:syscall_exit_statx    100"), "\n{text}");
    assert!(text.contains("ret: 100 values"), "\n{text}");
    assert!(text.contains("/proc/self/fdinf…      100"), "\n{text}");
}

#[test]
fn flags_and_snapshots_are_words() {
    let rules = [
        "syscalls:syscall_entry_statx do set inside",
        "syscalls:syscall_exit_statx if $flag.inside do snapshot, clear inside",
    ];
    let Some(world) = World::new(&["syscalls:*statx"], &rules) else { return };
    assert_eq!(world.shared.snapshots(), 0);
    getpriority(3);
    assert_eq!(world.shared.snapshots(), 3);
    assert_eq!(world.shared.snapshot_thread().0, std::process::id());
    assert!(!world.shared.flag(0));
}

#[test]
fn keys_that_do_not_fit_are_counted() {
    let Some(world) = World::of(
        &["syscalls:syscall_entry_statx"],
        vec![Rule::count("*", "by prefix(filename, 40) if filename == \"/proc/self/nobody/*\"").unwrap()],
    ) else {
        return;
    };
    for number in 0..(16 << 10) + 412 {
        std::hint::black_box(std::fs::metadata(format!("/proc/self/nobody/{number:06}")).is_err());
    }
    world.kernel.disable();
    let all = world.rules.aggregates();
    assert_eq!((all.len(), all[0].dropped), (1, 412), "{all:?}");
}

#[test]
fn events_with_another_type_of_field_are_left_out() {
    let rules = [
        Rule::filter("syscalls:*", "filename == \"*host*\"").unwrap(),
        Rule::count("*", "by $event").unwrap(),
    ];
    // As Linux 6.18 tells of them, which it tells root only.
    let formats = Tracefs::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tracefs"));
    let catalog = Catalog::with(Some(formats), None);
    let found = catalog.select(&["syscalls:*_utime", "syscalls:syscall_entry_statx"]).unwrap().events;
    assert_eq!(found.len(), 3);
    let mut all = Rules::new(SharedNames::default());
    for event in &found {
        let (outcome, warnings) = all.decide(&rules, event).unwrap();
        assert!(matches!(outcome, Outcome::Filtered(_)), "{}", event.name);
        assert_eq!(warnings.is_empty(), event.name == "syscall_entry_statx", "{} {warnings:?}", event.name);
    }
    for event in &found {
        let (outcome, _) = all.decide(&rules[..1], event).unwrap();
        assert_eq!(matches!(outcome, Outcome::Off), event.name != "syscall_entry_statx", "{}", event.name);
    }
}

#[test]
fn filters_that_are_too_much_together_are_parted() {
    let parts =
        ["*a*", "*b*c*", "*d*e*f*", "*g*h*i*j*", "*k*l*m*"].map(|text| format!("filename == \"{text}\""));
    let rules = vec![
        Rule::filter("syscalls:*", &format!("{} || filename == \"/proc/self/nobody\"", parts.join(" || ")))
            .unwrap(),
    ];
    let Some(world) = World::of(&["syscalls:syscall_entry_*at*"], rules) else { return };
    assert!(world.kernel.refused().is_empty(), "{:?}", world.kernel.refused());
}

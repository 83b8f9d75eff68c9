//! Plans for functions of this process, carried out: what the functions return, and how many calls are counted.
//!
//! Each test does it in a child of its own, which has one thread.

#![cfg(target_arch = "x86_64")]

mod entries;
mod library;
#[path = "../support/mod.rs"]
mod support;

use mote_functions::Function;
use mote_layout::functions::Plan;
use mote_trampolines::{By, Planned, Space};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use support::{File, oracle};

/// Where this program's functions are, beside where its file has them.
fn bias(file: &File) -> u64 {
    let (first, name) = (entries::ALL[0].function as *const () as u64, entries::ALL[0].name);
    let is_it = |function: &&Function| function.name.as_deref() == Some(name);
    first - file.functions.iter().find(is_it).expect("it has a symbol").address
}

fn program() -> File {
    File::read(&std::env::current_exe().expect("known")).expect("it is there")
}

/// Plans probes in this program's functions of assembly, in a space that was changed.
fn planned(change: impl Fn(&mut Space, u64)) -> Planned {
    let file = program();
    let (bias, names) = (bias(&file), entries::ALL.iter().map(|entry| entry.name).collect::<Vec<_>>());
    let is_one = |function: &Function| function.name.as_deref().is_some_and(|name| names.contains(&name));
    let requests = file.requests(bias, is_one);
    assert_eq!(requests.len(), names.len());
    let mut space = Space::of(std::process::id()).expect("readable");
    change(&mut space, requests[0].address);
    let planned = mote_trampolines::plan(&requests, &mut space, 1 << 32);
    oracle::check(&requests, &planned);
    assert_eq!(planned.refused, []);
    let mut counts: BTreeMap<By, usize> = BTreeMap::new();
    planned.done.iter().for_each(|(_, by)| *counts.entry(*by).or_default() += 1);
    println!("{counts:?}");
    planned
}

/// Runs it in a child, which has one thread; it fails when the child does.
fn in_child(run: impl FnOnce()) {
    // SAFETY: the child runs what needs no other thread, and ends by itself.
    match unsafe { libc::fork() } {
        0 => {
            let is_right = catch_unwind(AssertUnwindSafe(run)).is_ok();
            // SAFETY: it ends the process.
            unsafe { libc::_exit(if is_right { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: it is our child; the status is ours.
            let answer = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((answer, status), (child, 0), "with a wrong trap it exits with 99");
        }
    }
}

/// Calls all functions, with probes and without; then each with a thread that stands where its guards will be.
fn try_out(planned: &Planned) {
    let plan = library::prepare(&planned.bytes);
    for round in 0..3 {
        call_all(0);
        library::enable(&plan);
        call_all(1);
        library::disable(&plan);
        call_all(0);
        stand_at_guards(&plan, round);
    }
}

fn call_all(counts: u64) {
    for entry in entries::ALL {
        for (a, b) in [(0, 7), (1, 2), (5, 5), (6, 100), (3, 1 << 40)] {
            let before = library::counted();
            let answer = (entry.function)(a, b);
            let counted = library::counted() - before;
            assert_eq!((answer, counted), ((entry.returns)(a, b), counts), "{} {a} {b}", entry.name);
        }
    }
}

fn stand_at_guards(plan: &Plan<'_>, a: u64) {
    let mut stopped = 0;
    for guard in plan.guards() {
        let before = plan.probes().enumerate().filter(|(_, one)| one.address < guard.address);
        let (number, probe) = before.max_by_key(|(_, one)| one.address).expect("one");
        let entry = entries::ALL.iter().find(|entry| entry.function as *const () as u64 == probe.address);
        let (entry, before) = (entry.expect("a function"), library::counted());
        let (answer, has_stopped) = library::call_and_stop(entry.function, a, 9, guard.address, number);
        stopped += u32::from(has_stopped);
        assert_eq!(answer, (entry.returns)(a, 9), "{} at {:x}", entry.name, guard.address);
        assert_eq!(library::counted(), before, "it had passed the entry");
        library::disable(plan);
    }
    // Some stand behind a branch.
    assert!(stopped * 4 >= plan.guards().count() as u32 * 3, "{stopped}");
}

#[test]
fn functions_return_what_they_did() {
    let planned = planned(|_, _| ());
    in_child(|| try_out(&planned));
}

/// Behind the program nothing is free: jumps over several instructions.
#[test]
fn with_memory_below_only() {
    let planned = planned(|space, code| space.take(code..u64::MAX));
    assert!(planned.done.iter().filter(|(_, by)| *by == By::Window).count() >= 5);
    in_child(|| try_out(&planned));
}

/// Little is free: breakpoints.
#[test]
fn with_little_memory() {
    let planned = planned(|space, code| {
        space.take(0..code - 0x6000_0000);
        space.take(code - 0x5800_0000..u64::MAX);
    });
    assert!(planned.done.iter().filter(|(_, by)| *by == By::Trap).count() >= 5);
    in_child(|| try_out(&planned));
}

/// The mapping of a file: its path, and where its first byte is.
fn c_library() -> Option<(PathBuf, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    let line = maps.lines().find(|line| line.ends_with("/libc.so.6"))?;
    let begin = u64::from_str_radix(line.split('-').next()?, 16).ok()?;
    Some((Path::new(line.split_whitespace().last()?).to_owned(), begin))
}

/// All functions of this program and of the C library at once.
#[test]
fn all_functions_of_a_process() {
    let Some((path, begin)) = c_library() else {
        return mote_skip::skip("linked without a C library's file");
    };
    let (program, library) = (program(), File::read(&path).expect("it is mapped"));
    // Not those that put probes on, and handle traps.
    let is_ours = |function: &Function| function.name.as_deref().is_some_and(|name| name.contains("library"));
    let mut requests = program.requests(bias(&program), |function| !is_ours(function));
    requests.extend(library.requests(begin, |_| true));
    let mut space = Space::of(std::process::id()).expect("readable");
    let planned = mote_trampolines::plan(&requests, &mut space, 1 << 32);
    oracle::check(&requests, &planned);
    println!("{} of {} functions", planned.done.len(), requests.len());
    in_child(|| {
        let plan = library::prepare(&planned.bytes);
        library::enable(&plan);
        let text = work();
        let counted = library::counted();
        library::disable(&plan);
        assert_eq!(text, work());
        assert!(counted > 10_000, "{counted}");
    });
}

/// Something that calls many functions.
fn work() -> String {
    let mut map = BTreeMap::new();
    for number in 0..2000_u64 {
        map.insert(
            format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            f64::from(number as u32) / 7.0,
        );
    }
    let mut lines: Vec<String> = map.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
    lines.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    let thread = std::thread::spawn(move || lines.join("\n"));
    let joined = thread.join().expect("it does not panic");
    let file = std::fs::read_to_string("/proc/sys/kernel/ostype").expect("readable");
    format!("{file}{joined}")
}

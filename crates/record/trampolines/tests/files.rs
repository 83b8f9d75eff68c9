//! All functions of real programs and libraries, as they are usually loaded.

#![cfg(target_arch = "x86_64")]

mod support;

use mote_layout::functions::Plan;
use mote_trampolines::{By, Space};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use support::{File, oracle};

/// Plans probes in all functions of a file, checks the plan, and returns the share of breakpoints in thousandths, with
/// those refused; `None` where the file is not there.
fn traps(path: &Path, is_library: bool) -> Option<usize> {
    let file = File::read(path)?;
    let bias = match (file.is_fixed, is_library) {
        (true, _) => 0,
        (false, false) => 0x5555_5555_4000,
        (false, true) => 0x7fff_f7c0_0000,
    };
    let (start, end) = (file.extent.start + bias, file.extent.end + bias);
    let mut maps = format!("{start:x}-{end:x} r-xp 0 fe:00 7 it\n");
    if !is_library {
        maps += "7ffff7c00000-7ffff7fff000 r-xp 0 fe:00 8 others\n";
    }
    maps += "7ffffffde000-7ffffffff000 rw-p 0 00:00 0 [stack]\n";
    let mut space = Space::from_maps(&maps, if is_library { 0x5555_5570_0000 } else { end });
    let requests = file.requests(bias, |_| true);
    let begun = Instant::now();
    let planned = mote_trampolines::plan(&requests, &mut space, 1 << 32);
    let took = begun.elapsed();
    oracle::check(&requests, &planned);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    planned.done.iter().for_each(|(_, by)| *counts.entry(format!("{by:?}")).or_default() += 1);
    planned.refused.iter().for_each(|(_, why)| *counts.entry(format!("{why:?}")).or_default() += 1);
    let plan = Plan::parse(&planned.bytes).expect("a plan");
    let pages: u64 = plan.memories().map(|memory| memory.len / 4096).sum();
    println!(
        "{}: {} functions, {counts:?}, {} memories of {pages} pages, {} kB, {took:?}",
        path.display(),
        requests.len(),
        plan.memories().count(),
        planned.bytes.len() >> 10,
    );
    let traps = planned.done.iter().filter(|(_, by)| *by == By::Trap).count() + planned.refused.len();
    Some(traps * 1000 / requests.len())
}

#[test]
fn nearly_all_functions_of_this_program_have_jumps() {
    let program = std::env::current_exe().expect("known");
    let traps = traps(&program, false).expect("it is there");
    assert!(traps < 50, "{traps} in 1000");
}

#[test]
fn so_have_those_of_the_c_library() {
    match traps(Path::new("/lib/x86_64-linux-gnu/libc.so.6"), true) {
        Some(traps) => assert!(traps < 50, "{traps} in 1000"),
        None => mote_skip::skip("no C library at its usual place"),
    }
}

#[test]
fn so_have_those_of_other_programs() {
    let mut found = 0;
    for name in ["python3", "sqlite3", "perl", "gdb"] {
        if let Some(traps) = traps(&Path::new("/usr/bin").join(name), false) {
            // Below a program at a fixed low address nothing is free.
            assert!(traps < 150, "{name}: {traps} in 1000");
            found += 1;
        }
    }
    if found == 0 {
        mote_skip::skip("none of the programs is there");
    }
}

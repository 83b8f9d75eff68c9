//! Recordings of real processes on a machine without Intel PT: what is noted beside packets, of which there are none.
#![allow(dead_code, reason = "each program of tests uses some of it")]

use mote_clock::Sample;
use mote_pmu::simulated::Simulated;
use mote_pmu::{Device, Error, Kept, Options, Recorded, Settings, Targets, TimeScale, record};
use mote_sys::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;

/// `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    clock_gettime(ClockId::Monotonic)
}

/// The kernel's clock, which is the machine's time stamp counter, too.
fn sample() -> Sample {
    let now = now();
    Sample { ticks: now, monotonic_ns: now, realtime_ns: now, error_ns: 0 }
}

/// A device of Intel PT that is read from files.
pub(crate) fn device(folder: &Path) -> Device {
    let format = folder.join("device/format");
    fs::create_dir_all(&format).expect("a directory");
    fs::write(folder.join("device/type"), "8").expect("a file");
    fs::write(format.join("tsc"), "config:10").expect("a file");
    Device::read(&folder.join("device")).expect("a device")
}

/// All of a process, with code that it makes where `jit` says so.
pub(crate) fn options(pid: i32, jit: bool) -> Options {
    Options {
        settings: Settings::default(),
        targets: Targets::Threads(vec![pid]),
        cpus: vec![0],
        memory: 64 << 10,
        kept: Kept::All,
        filter: None,
        jit,
    }
}

/// A machine without packets, where time passes.
pub(crate) fn machine() -> Simulated {
    Simulated::new(8, TimeScale { shift: 0, mult: 1, zero: 0 }, []).with_time(sample)
}

/// Records a process as long as `goes_on`; `None`, as a skip, where code cannot be copied.
pub(crate) fn recorded(folder: &Path, pid: i32, mut goes_on: impl FnMut() -> bool) -> Option<Recorded> {
    let output = folder.join("capture");
    fs::create_dir(&output).expect("a directory");
    match record(machine(), &device(folder), &options(pid, true), &output, &[pid], || {}, |_| goes_on()) {
        Ok((recorded, _)) => Some(recorded),
        Err(Error::Generated(why)) => {
            mote_skip::skip(why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

//! The recorder is killed with SIGKILL: the program goes on undisturbed, its sites are switched off, and what was
//! written is a valid trace.

use crate::support::event::named;
use crate::support::{Record, babeltrace, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

fn is_alive(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

#[test]
fn the_program_goes_on_with_its_sites_off() {
    let running = Record::scene(&["until-disarmed"]).start();
    running.wait_for("started");
    let pid = running.wait_for("pid") as i32;
    running.wait_until_recorded();
    assert!(is_alive(pid));
    running.signal(Signal::SIGKILL);
    // The program prints its last lines after the recorder's death.
    let off = running.wait_for("off-at-end");
    wait_for("the program's end", || (!is_alive(pid)).then_some(()));
    assert_eq!(off, running.wait_for("sites"), "sites that are NOPs again");
    let emitted = running.wait_for("emitted");
    let trace = running.wait().ends_with(1009);
    let events = trace.events();
    // What one CPU's buffer held may be missing, and what another's held be there.
    let recorded: Vec<u64> = named(&events, "e2e:waiting").iter().map(|event| event.number("seq")).collect();
    assert!(recorded.is_sorted_by(|a, b| a < b), "{recorded:?}");
    assert!(recorded.last().is_some_and(|last| *last < emitted), "{recorded:?} of {emitted}");
    assert_eq!(named(&events, "e2e:afterwards").len(), 0);
}

#[test]
fn at_any_moment_the_trace_is_valid() {
    for round in 0..5u64 {
        let running = Record::scene(&["threads", "2", "30000000"]).with(&["--buffers", "64kx4"]).start();
        running.wait_until_recorded();
        std::thread::sleep(Duration::from_millis(11 + 37 * round));
        running.signal(Signal::SIGKILL);
        let trace = running.wait();
        babeltrace::assert_valid(&trace.path);
        let view = trace.mote(&["view", "--format", "null"]);
        assert_eq!(view.status.code(), Some(0), "{view:?}");
    }
}

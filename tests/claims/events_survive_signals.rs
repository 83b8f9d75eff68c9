//! Signal handlers that emit, threads that block all signals, a program with a SIGTRAP handler of its own.

use crate::support::event::{assert_counts, named};
use crate::support::{Record, within};

#[test]
fn a_handler_that_interrupts_an_event() {
    let trace = Record::scene(&["handler", "500"]).run().ends_with(0);
    let events = trace.events();
    let emitted = trace.printed("emitted");
    assert_counts(&named(&events, "e2e:interrupted"), "seq", emitted);
    assert_counts(&named(&events, "e2e:small"), "seq", emitted);
    assert_counts(&named(&events, "e2e:in_handler"), "seq", trace.printed("handled"));
    assert!(trace.printed("handled") >= 500, "the timer came {} times", trace.printed("handled"));
    assert!(trace.printed("interrupted") > 0, "no event was interrupted");
}

#[test]
fn a_handler_that_interrupts_an_event_without_rseq() {
    let tunables = "glibc.pthread.rseq=0";
    let trace = Record::scene(&["handler", "500"]).env("GLIBC_TUNABLES", tunables).run();
    assert!(trace.printed("interrupted") > 0, "no event was interrupted");
    let events = trace.events();
    let emitted = 2 * trace.printed("emitted") + trace.printed("handled");
    assert_eq!(events.len() as u64 + trace.lost_total(), emitted, "lost {:?}", trace.lost());
}

#[test]
fn threads_that_block_all_signals_are_switched_off() {
    let record = |ms: u64| {
        let record = Record::scene(&["blocked", "3"]).env("MOTE_HOP", "1");
        record.with(&["--duration", &format!("{ms}ms")]).run()
    };
    let trace = within(100, record, |trace| trace.summary()["events"]["e2e:blocked"].as_u64().is_some());
    assert!(trace.status == 0 || trace.status == 3, "{}: {}", trace.status, trace.err);
    // Without a signal only a jump of two bytes can be stored, and only where it crosses no quadword: one site in eight
    // stays a jump, to code that finds its event off, until the threads have gone.
    let (off, sites) = (trace.printed("off-at-end"), trace.printed("sites"));
    assert!(off * 10 >= sites * 6, "{off} of {sites} sites are NOPs again");
    assert_eq!(
        trace.printed("off-later"),
        sites,
        "sites that are NOPs when no thread blocks signals any more"
    );
    let recorded = trace.summary()["events"]["e2e:blocked"].as_u64().expect("a count");
    assert!(recorded > 0 && recorded + trace.lost_total() < trace.printed("emitted"));
}

#[test]
fn a_program_keeps_its_own_traps() {
    let record = |ms: u64| Record::scene(&["own-trap"]).with(&["--duration", &format!("{ms}ms")]).run();
    let trace = within(100, record, |trace| trace.summary()["events"]["e2e:in_own_trap"].as_u64().is_some());
    assert!(trace.status == 0 || trace.status == 3, "{}: {}", trace.status, trace.err);
    assert_eq!(trace.printed("off-at-end"), 0, "sites that are not NOPs again");
    assert_eq!(trace.printed("made"), trace.printed("handled"), "traps");
}

//! Memory that processes, their filters and the kernel's side share: words with names, the state of threads,
//! thresholds.

use crate::support::event::named;
use crate::support::kernel;
use crate::support::{Event, Record, Trace, output_of, programs};

fn seqs(trace: &Trace, name: &str) -> Vec<u64> {
    named(&trace.view(), name).iter().map(|event| event.number("seq")).collect()
}

fn shared_words(options: &[&str]) -> Trace {
    let trace = Record::scene(&["shared-words", "24"]).with(options).run().ends_with(0);
    assert_eq!(trace.printed("shared"), 1, "{}", trace.err);
    trace
}

#[test]
fn filters_read_words_of_the_program() {
    let trace = shared_words(&["-e", "e2e:count", "--filter", "$shared.turn[1] == 2"]);
    assert_eq!(seqs(&trace, "e2e:count"), (0..24).filter(|seq| seq % 3 == 2).collect::<Vec<_>>());
    let trace = shared_words(&["-e", "e2e:count", "--filter", "$thread.phase == 1 || $thread.phase[0] == 3"]);
    assert_eq!(seqs(&trace, "e2e:count"), (0..24).filter(|seq| seq % 2 == 1).collect::<Vec<_>>());
    // A name that no program opens is words of zeros.
    let trace =
        shared_words(&["-e", "e2e:count", "--filter", "$shared.nobody[seq] == 0 && $shared.turn[1] == 0"]);
    assert_eq!(seqs(&trace, "e2e:count"), (0..24).step_by(3).collect::<Vec<_>>());
}

#[test]
fn words_are_of_all_processes() {
    let trace = Record::scene(&["share-add", "3"]).run().ends_with(0);
    assert_eq!((trace.printed("other"), trace.printed("sum")), (1, 3005), "{}", trace.err);
}

#[test]
fn words_have_bounds() {
    let trace = Record::scene(&["share-too-much"]).run().ends_with(0);
    assert_eq!((trace.printed("refused"), trace.printed("word")), (5, 7));
    // A process knows 256 names, which is as many as there are words for.
    assert_eq!(trace.printed("opened"), 255, "{}", trace.err);
}

#[test]
fn threads_without_a_slot_are_counted() {
    let trace = Record::scene(&["slots", "1200"]).run().ends_with(3);
    let had = trace.printed("had");
    assert!((200..=256).contains(&had), "{had} slots of 256");
    assert_eq!((trace.printed("sum"), trace.printed("again")), (had, 1));
    assert!(trace.err.contains(&format!("{} threads did not fit", 1200 - had)), "{}", trace.err);
    assert_eq!(seqs(&trace, "e2e:count").len(), 1200);
}

#[test]
fn few_threads_have_all_a_slot() {
    let trace = Record::scene(&["slots", "20"]).run().ends_with(0);
    assert_eq!((trace.printed("had"), trace.printed("sum"), trace.printed("again")), (20, 20, 1));
    assert!(!trace.err.contains("did not fit"), "{}", trace.err);
}

#[test]
fn nonsense_in_the_memory_harms_no_process() {
    let filter = "$thread.own != 1 || $shared.words != 1 || seq >= 0";
    let trace = Record::scene(&["scribble-area", "500"])
        .with(&["-e", "e2e:*", "--filter", filter])
        .run()
        .ends_with(0);
    assert!(trace.printed("areas") >= 2, "{}", trace.out);
    assert!(seqs(&trace, "e2e:count").len() > 100);
}

#[test]
fn what_needs_the_kernel_says_so() {
    for rule in
        ["e2e:* if $kernel.switches > 1", "e2e:* do threshold write 1ms", "e2e:* do open kernel for 1ms"]
    {
        let trace = Record::scene(&["count", "1"]).with(&["--on", rule]).run();
        assert!(trace.status != 0 && trace.err.contains("-k"), "{rule}: {} {}", trace.status, trace.err);
    }
}

#[test]
fn the_kernel_publishes_and_filters_read() {
    if !kernel::is_there() {
        return;
    }
    let options =
        ["-k", "sched:sched_process_exit", "--on", "e2e:* if $kernel.offcpu_since_last_event > 1ms"];
    let trace = Record::scene(&["state", "20"]).with(&options).run().ends_with(0);
    assert_eq!((trace.printed("published"), trace.printed("looked")), (1, 1), "{}", trace.err);
    // A sleep that is over before its thread has left the CPU is none: that is rare.
    assert!(trace.printed("switches") >= 16 && trace.printed("offcpu") >= 16 * 2_000_000);
    assert!(trace.printed("syscalls") >= 20);
    // Between two events of a kind it slept. The first one is since the thread began.
    let recorded = seqs(&trace, "e2e:count");
    assert!((1..20).filter(|seq| recorded.contains(seq)).count() >= 16, "{recorded:?}");
    assert_eq!((trace.printed("inside"), trace.printed("outside")), (200_000, 5_000_000));
    assert_eq!((trace.printed("child_inside"), trace.printed("child_kept")), (200_000, 1));
    assert_eq!((trace.printed("child_published"), trace.printed("open")), (1, 1));
}

#[test]
fn the_kernel_publishes_when_a_program_asks() {
    if !kernel::is_there() {
        return;
    }
    let options = ["-e", "e2e:*", "-k", "sched:sched_process_exit"];
    let trace = Record::scene(&["ask", "5", "code", "long"]).with(&options).run().ends_with(0);
    assert_eq!(trace.printed("published"), 1, "{}", trace.err);
    assert!(trace.printed("switches") >= 3, "{}", trace.out);
    // Its thresholds are looked at then, too.
    assert_inside(&trace.view(), 5);
    // Who has no kernel's side waits in vain, and is not held up.
    let trace = Record::scene(&["ask", "5", "code", "short"]).with(&["-e", "e2e:*"]).run().ends_with(0);
    assert_eq!(trace.printed("published"), 0, "{}", trace.err);
}

/// Each of a kind lies between two events of the program.
fn assert_inside(events: &[Event], count: usize) {
    let slow = named(events, "syscall_slow");
    let (enter, leave) = (named(events, "e2e:enter"), named(events, "e2e:leave"));
    assert_eq!((slow.len(), enter.len(), leave.len()), (count, count, count), "{slow:?}");
    for slow in slow {
        let is_inside = |(enter, leave): (&&Event, &&Event)| {
            // It is recorded when it returns.
            (enter.time..=leave.time).contains(&slow.time)
        };
        assert!(enter.iter().zip(&leave).any(is_inside), "{slow:?}");
    }
}

#[test]
fn a_function_says_what_is_slow_inside_of_it() {
    if !kernel::is_there() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let output = keep.path().join("trace");
    let mut latency = std::process::Command::new(programs::mote());
    latency.args(["latency", "-t", "clock_nanosleep=10s", "-e", "e2e:*", "-o"]).arg(&output).arg("--");
    let out = output_of(latency.arg(programs::scenes()).args(["slow-calls", "5", "code"]));
    let (err, took) = (String::new(), std::time::Duration::ZERO);
    let trace = Trace { path: output, status: 0, out, err, took, _keep: Some(keep) };
    assert_inside(&trace.view(), 5);
}

#[test]
fn a_filter_says_what_is_slow_in_a_function() {
    if !kernel::is_there() {
        return;
    }
    let options = [
        "-k",
        "sched:sched_process_exit",
        "--on",
        "e2e:enter do threshold clock_nanosleep 1ms, record",
        "--on",
        "e2e:leave do threshold clock_nanosleep default, record",
    ];
    let trace = Record::scene(&["slow-calls", "5"]).with(&options).run().ends_with(0);
    assert_inside(&trace.view(), 5);
}

#[test]
fn nonsense_in_the_memory_of_the_kernels_programs_harms_no_process() {
    if !kernel::is_there() {
        return;
    }
    let options =
        ["-k", "sched:sched_switch", "--on", "e2e:* if $kernel.switches >= 0 || $thread.own[seq] == 1"];
    let trace = Record::scene(&["scribble-area", "500"]).with(&options).run().ends_with(0);
    assert!(trace.printed("areas") >= 2, "{}", trace.out);
    assert!(seqs(&trace, "e2e:count").len() > 100);
    assert!(!named(&trace.view(), "sched_switch").is_empty());
}

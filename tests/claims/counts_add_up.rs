//! Counts and histograms are made in the program and come out whole.

use crate::support::{Record, Trace};

const COUNT: u64 = 4000;

fn record(options: &[&str]) -> Trace {
    Record::scene(&["net", &COUNT.to_string()]).with(options).run().ends_with(0)
}

#[test]
fn by_a_key() {
    let trace = record(&["-e", "net:packet", "--count", "by proto"]);
    for proto in ["tcp4", "tcp6", "udp", "icmp"] {
        let line =
            trace.err.lines().find(|line| line.contains(proto)).unwrap_or_else(|| panic!("{}", trace.err));
        assert!(line.contains("1000") || line.contains("1,000"), "{line}");
    }
    assert_eq!(trace.events().len(), 0, "counted instead of recorded");
    assert_eq!(trace.aggregates().len(), 1);
}

#[test]
fn with_a_condition_and_several_keys() {
    let trace = record(&["-e", "net:packet", "--count", "by direction, urgent if id < 100"]);
    let text = trace.aggregates()[0].to_string();
    // Of a hundred: 10 urgent ones, all of them In.
    assert!(text.contains("\"In\"") && text.contains("\"Out\""), "{text}");
    assert!(text.contains("50") && text.contains("40") && text.contains("10"), "{text}");
}

#[test]
fn as_histograms() {
    let trace = record(&["-e", "net:packet", "--hist", "len by proto"]);
    assert!(trace.err.contains("tcp4") && trace.err.contains("2560 .. 3071"), "{}", trace.err);
    let text = trace.aggregates()[0].to_string();
    assert!(text.contains("len"), "{text}");
}

#[test]
fn beside_a_recording() {
    let trace = record(&["-e", "net:packet", "--filter", "id == 3", "--on", "net:* do count by $pid"]);
    assert_eq!(trace.events().len(), 1);
    assert!(trace.err.contains("8000") || trace.err.contains("8,000"), "{}", trace.err);
}

#[test]
fn of_many_processes_together() {
    let trace = Record::scene(&["fork", "4", "500"]).with(&["--count", ""]).run().ends_with(0);
    let all = Record::scene(&["fork", "4", "500"]).run().ends_with(0).events().len();
    assert!(trace.err.contains(&all.to_string()), "{all} in {}", trace.err);
}

#[test]
fn keys_that_do_not_fit_are_counted() {
    let trace =
        Record::scene(&["net", "40000"]).with(&["-e", "net:packet", "--count", "by id"]).run().ends_with(3);
    assert!(
        trace.err.contains("missing in the table '"),
        "{}",
        &trace.err[trace.err.len().saturating_sub(400)..]
    );
}

#[test]
fn while_it_runs() {
    let running = Record::scene(&["net-until"]).with(&["--count", "by proto", "--interval", "200ms"]).start();
    crate::support::wait_for("two tables", || {
        (running.said().1.matches("after ").count() >= 2).then_some(())
    });
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.wait().ends_with(128 + 15);
}

#[test]
fn the_last_ones_are_kept() {
    let trace = record(&["--on", "net:packet if len > 100 do last 3 id, proto"]);
    assert!(
        trace.err.contains("3999") && trace.err.contains("3998") && trace.err.contains("3997"),
        "{}",
        trace.err
    );
    // Not the name of a temporary directory that holds the number.
    assert!(trace.err.split_whitespace().all(|word| word != "3990"), "{}", trace.err);
}

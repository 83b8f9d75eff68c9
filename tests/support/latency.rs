//! Runs `mote latency -p`, and reads what it says at the end.

use super::{Record, Running, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;

/// `mote latency` that watches processes.
pub(crate) struct Watching(Running);

impl Watching {
    /// Begins; returns when they are watched.
    pub(crate) fn begin(pids: &[u32], thresholds: &str) -> Watching {
        let list: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut record = Record::nothing().by("latency");
        for pid in &list {
            record = record.with(&["-p", pid]);
        }
        let options = ["-t", thresholds, "--format", "json", "--interval", "50ms"];
        let mut running = record.with(&options).start();
        wait_for("mote latency to begin", || {
            assert!(!running.has_ended(), "{:?}", running.said());
            running.said().0.contains("\"interval\"").then_some(())
        });
        Watching(running)
    }

    /// Ends it, and has its report.
    #[track_caller]
    pub(crate) fn end(self) -> Report {
        self.0.signal(Signal::SIGINT);
        let trace = self.0.wait();
        assert!(matches!(trace.status, 0 | 1), "{}: {}\n{}", trace.status, trace.out, trace.err);
        let report = trace.out.lines().next_back().and_then(|line| serde_json::from_str(line).ok());
        let report: Value = report.unwrap_or_else(|| panic!("no report in {:?}; {}", trace.out, trace.err));
        assert_eq!(report["type"], "report");
        assert_eq!(report["counters"]["lost"], 0, "{report}");
        assert_eq!(report["problems"], Value::Array(Vec::new()), "{report}");
        Report(report)
    }
}

/// The report of `mote latency`.
pub(crate) struct Report(Value);

impl Report {
    /// The worst calls.
    pub(crate) fn worst(&self) -> Vec<Call> {
        let calls = self.0["worst"].as_array().expect("a list");
        calls.iter().cloned().map(Call).collect()
    }

    /// How many system calls were made.
    pub(crate) fn calls(&self) -> u64 {
        let calls = self.0["calls"].as_array().expect("a list");
        calls.iter().filter_map(|call| call["count"].as_u64()).sum()
    }
}

/// A slow call.
#[derive(Debug)]
pub(crate) struct Call(Value);

impl Call {
    /// A member that is text.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// A member that is a number.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// Whether a stack, `callstack_kernel` or `callstack_user`, has a line with this.
    #[track_caller]
    pub(crate) fn has_frame(&self, stack: &str, word: &str) -> bool {
        let lines = self.0[stack].as_array().unwrap_or_else(|| panic!("no {stack} in {}", self.0));
        lines.iter().filter_map(Value::as_str).any(|line| line.contains(word))
    }
}

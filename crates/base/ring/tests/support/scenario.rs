//! What the writers go through.

use mote_ring::{Clock, Mode};

/// Which writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Restartable sequences.
    Rseq,
    /// Reserve and commit.
    Atomic,
    /// As an event does: the first where it can, else the second.
    Either,
    /// As an event with little in it does: the shortest way, else the first; one in two with the time of a record in
    /// another ring.
    Direct,
}

/// What the writers go through.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub processes: usize,
    /// Threads of each process.
    pub threads: usize,
    /// Processes end after at most so many microseconds, and others take their place.
    pub life_us: Option<u64>,
    /// They end by SIGKILL.
    pub killed: bool,
    /// They are stopped and continued now and then.
    pub stopped: bool,
    /// Timers and other threads send signals, whose handlers write too.
    pub signals: bool,
    /// Threads move themselves, and are moved, from CPU to CPU.
    pub migrate: bool,
    /// Only the first CPU has a ring.
    pub one_ring: bool,
    pub clock: Clock,
}

const PLAIN: Scenario = Scenario {
    name: "threads",
    processes: 1,
    threads: 8,
    life_us: None,
    killed: false,
    stopped: false,
    signals: false,
    migrate: false,
    one_ring: false,
    clock: Clock::Tsc,
};

/// All of them.
pub const ALL: [Scenario; 8] = [
    PLAIN,
    Scenario { name: "processes", processes: 4, threads: 2, life_us: Some(20_000), ..PLAIN },
    Scenario { name: "migrating", threads: 5, migrate: true, ..PLAIN },
    Scenario { name: "signals", threads: 4, signals: true, ..PLAIN },
    Scenario {
        name: "killed",
        processes: 3,
        threads: 2,
        life_us: Some(6_000),
        killed: true,
        signals: true,
        ..PLAIN
    },
    Scenario { name: "stopped", processes: 3, threads: 2, stopped: true, ..PLAIN },
    Scenario {
        name: "monotonic",
        threads: 4,
        signals: true,
        migrate: true,
        clock: Clock::Monotonic,
        ..PLAIN
    },
    Scenario {
        name: "everything",
        processes: 3,
        threads: 3,
        life_us: Some(8_000),
        killed: true,
        stopped: true,
        signals: true,
        migrate: true,
        ..PLAIN
    },
];

/// Half of the CPUs have no ring, so that threads change from writer to writer.
pub const FALLING_BACK: Scenario =
    Scenario { name: "falling_back", migrate: true, signals: true, threads: 4, one_ring: true, ..PLAIN };

/// A scenario for one writer in one mode.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub scenario: Scenario,
    pub kind: Kind,
    pub mode: Mode,
}

impl Case {
    /// Every scenario, by each writer, in each mode; without rseq only what the atomic writer serves.
    pub fn all(rseq: bool) -> Vec<Case> {
        let mut cases = Vec::new();
        for mode in [Mode::Discard, Mode::Overwrite] {
            for scenario in ALL {
                cases.push(Case { scenario, kind: Kind::Rseq, mode });
                cases.push(Case { scenario, kind: Kind::Atomic, mode });
                if scenario.clock == Clock::Tsc {
                    cases.push(Case { scenario, kind: Kind::Direct, mode });
                }
            }
            cases.push(Case { scenario: FALLING_BACK, kind: Kind::Either, mode });
        }
        cases.retain(|case| rseq || case.kind == Kind::Atomic);
        cases
    }

    /// `scenario/writer/mode`.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Rseq => "rseq",
            Kind::Atomic => "atomic",
            Kind::Either => "either",
            Kind::Direct => "direct",
        };
        let mode = match self.mode {
            Mode::Discard => "discard",
            Mode::Overwrite => "overwrite",
        };
        format!("{}/{kind}/{mode}", self.scenario.name)
    }
}

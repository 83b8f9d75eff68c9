//! The journal of a recording: `mote/journal.jsonl`, one JSON object a line, in the order in which the
//! facts became known.
//!
//! It holds what CTF has no place for: the session, clock samples, processes and their memory maps, names
//! of threads, the events' descriptions, loss and problems. The recorder appends each line with one write, so
//! that a journal cut anywhere is good up to its last whole line. A recording without an [`Fact::End`] was
//! cut short.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::ops::Range;

/// Directory in a recording that holds what is not CTF.
pub const DIRECTORY: &str = "mote";
/// The journal's file in [`DIRECTORY`].
pub const FILE: &str = "journal.jsonl";
/// What filters have counted, as text and as JSON (`{duration_ns, aggregates: [...]}`), in [`DIRECTORY`]; not there
/// when nothing was asked for.
pub const AGGREGATES: [&str; 2] = ["aggregates.txt", "aggregates.json"];

/// The table in [`AGGREGATES`] of calls that were counted in processes.
pub const CALLS: &str = "calls of functions";
/// Its column of functions.
pub const CALLS_FUNCTION: &str = "function";
/// Its column of calls that have not returned, where returns were counted.
pub const CALLS_UNDER_WAY: &str = "under way";

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fact {
    /// The first line.
    Session(Session),
    /// Ticks of the trace clock beside the kernel's clocks.
    Clock(ClockSample),
    /// A process has joined the session.
    Process(Process),
    /// A process has left.
    Exit {
        /// Process id.
        pid: i32,
        /// When, in ticks.
        at: u64,
    },
    /// A thread is about to write its first event.
    Thread {
        /// Thread id, as in the events.
        tid: u32,
        /// Its process.
        pid: u32,
        /// When, in ticks.
        at: u64,
        /// Its name then.
        name: String,
    },
    /// A thread of kernel events has another id for itself (`vtid`, as processes' events have it) than `mote record`
    /// has for it.
    Namespace {
        /// Thread id, as in the kernel's events.
        tid: u32,
        /// Its process.
        pid: u32,
        /// Thread id, as in the process's own events.
        vtid: u32,
        /// Its process, there.
        vpid: u32,
        /// When that began, or was found out, in ticks.
        at: u64,
    },
    /// An event of the trace and where it comes from.
    Event(EventSource),
    /// How far kernel events' times are from those of processes' events.
    Offset(ClockOffset),
    /// Functions are sampled from now on, as a rule has asked for that, or are not any more.
    Sampling {
        /// The pattern of these functions, as the rule has it.
        pattern: String,
        /// When, in ticks.
        at: u64,
        /// Whether they are sampled from now on.
        is_on: bool,
    },
    /// The recording has a hardware trace (Intel PT).
    Hardware {
        /// Where: a directory in that of the recording.
        directory: String,
    },
    /// An event of the kernel that was chosen and is not recorded.
    Refused {
        /// Its provider.
        provider: String,
        /// Its name.
        name: String,
        /// Why, in words.
        why: String,
    },
    /// Something went wrong, in words for a person.
    Problem {
        /// When, in ticks.
        at: u64,
        /// What, where, why and what to do.
        text: String,
    },
    /// The last line.
    End(Summary),
}

/// How the recording was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Version of the mote that recorded.
    pub version: String,
    /// The trace's id, 32 hex digits.
    pub uuid: String,
    /// Host name of the recorder's machine.
    pub host: String,
    /// The command that was recorded.
    pub command: Vec<String>,
    /// What became of events while a ring was full: `discard` or `overwrite`.
    pub mode: String,
    /// Bytes of a sub-buffer.
    pub sub_bytes: u64,
    /// Sub-buffers of a CPU.
    pub sub_count: u64,
    /// Number of CPUs that may have rings.
    pub cpus: u32,
    /// Clock of the records: `tsc` or `monotonic`.
    pub clock: String,
    /// Ticks of the clock in a second, as known at the start.
    pub frequency: u64,
    /// Event patterns that were chosen, and those left out (with a leading `!`).
    pub patterns: Vec<String>,
    /// The events are those of all threads of the system, not only of some that were followed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_system: bool,
}

/// One reading of all clocks at (nearly) the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockSample {
    /// The trace clock, in ticks.
    pub ticks: u64,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME in nanoseconds since 1970.
    pub realtime_ns: u64,
    /// How far apart the readings may be, in nanoseconds.
    pub error_ns: u64,
}

/// How far the clock of kernel events is from that of processes' events, as measured when the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Kernel's time less that of processes, in nanoseconds.
    pub offset_ns: i64,
    /// How far off that may be, in nanoseconds.
    pub error_ns: u64,
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
}

/// A process of the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process id, in the recorder's PID namespace.
    pub pid: i32,
    /// Process id of its parent.
    pub parent: i32,
    /// When it joined, in ticks.
    pub at: u64,
    /// What has led it to the session: `start`, `fork`, `library` or `attach`.
    pub how: String,
    /// Name of its first thread, at most 15 bytes.
    pub comm: String,
    /// Path of its executable.
    pub exe: String,
    /// Its executable mappings when it joined.
    pub maps: Vec<Map>,
}

/// One executable mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// First address, in bytes.
    pub start: u64,
    /// The address behind the last byte.
    pub end: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Path of the file that is mapped.
    pub path: String,
    /// GNU build id in hex, empty when there is none.
    pub build_id: String,
}

/// An event of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventSource {
    /// Event id in the streams.
    pub id: u32,
    /// First half of the event's name: who defines it.
    pub provider: String,
    /// Second half of the event's name.
    pub name: String,
    /// Level, 0 (emergency) to 14 (debug).
    pub level: u8,
    /// Source file, as the compiler names it.
    pub file: String,
    /// Line in the source file, from 1.
    pub line: u32,
    /// What it means; may be empty.
    pub text: String,
}

/// What a recording came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// From start to end, in nanoseconds.
    pub duration_ns: u64,
    /// Events in the trace, by `provider:name`.
    pub events: BTreeMap<String, u64>,
    /// Bytes of the data streams.
    pub bytes: u64,
    /// Packets of the data streams.
    pub packets: u64,
    /// Lost events by cause (`mote_loss::Cause` names them).
    pub lost: BTreeMap<String, u64>,
    /// How many times it is not known how many events were lost: a traced process has overwritten the counters.
    #[serde(default)]
    pub lost_unknown: u64,
    /// Texts of kernel events that could not be read, and are empty in their records.
    #[serde(default)]
    pub empty_texts: u64,
    /// Bytes that the flight recorder overwrote, as intended.
    pub overwritten_bytes: u64,
    /// Number of processes that joined.
    pub processes: u32,
    /// Number of threads that have left their names.
    pub threads: u32,
    /// Exit status of the command, or 128 plus the signal that ended it.
    pub status: Option<i32>,
    /// Why the recording stopped before its end (a full disk); `None` when it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// Name of the losses whose number is not known.
pub const UNKNOWN_LOSS: &str = "unknown";
/// What that means, and what to do about it.
pub const UNKNOWN_LOSS_ADVICE: &str = "a process joined late or not at all, or overwrote its buffers: the problems \
                                       above say which process, and what to do";

/// Causes of loss that only kernel events have, beside those of `mote_loss::Cause`.
pub const KERNEL_LOSSES: [(&str, &str); 3] = [
    ("nested", "an event happened while two others were being written on its CPU; nothing can be done"),
    ("threads", "more threads ran at a time than mote can follow: record fewer processes, or all with -a"),
    ("foreign_abi", "system calls of 32-bit programs, which mote does not record"),
];

/// What a cause of [`KERNEL_LOSSES`] means, and what to do about it.
pub fn kernel_loss_advice(cause: &str) -> Option<&'static str> {
    KERNEL_LOSSES.into_iter().find(|(name, _)| *name == cause).map(|(_, advice)| advice)
}

/// Why texts are empty, and what to do about it.
pub const EMPTY_TEXTS: &str =
    "of kernel events left empty: the address was bad, or its page was not in memory yet";

/// Provider of the records that tell the system's state when a recording of kernel events begins.
pub const STATE: &str = "statedump";

impl Summary {
    /// Number of events in the trace, of all names together.
    pub fn total(&self) -> u64 {
        self.events.values().sum()
    }

    /// Those of them that tell the system's state at the start.
    pub fn state(&self) -> u64 {
        let of_state = |name: &str| name.split_once(':').is_some_and(|(provider, _)| provider == STATE);
        self.events.iter().filter(|(name, _)| of_state(name)).map(|(_, count)| count).sum()
    }

    /// Number of lost events, of all causes together, as far as it is known.
    pub fn total_lost(&self) -> u64 {
        self.lost.values().fold(0, |sum: u64, lost| sum.saturating_add(*lost))
    }

    /// Whether any event was lost.
    pub fn is_lossy(&self) -> bool {
        self.total_lost() > 0 || self.lost_unknown > 0
    }
}

/// Appends facts to a journal.
#[derive(Debug)]
pub struct Journal<W> {
    to: W,
    /// The last line may be cut.
    cut: bool,
}

impl<W: Write> Journal<W> {
    /// A journal that goes to `to`.
    pub fn new(to: W) -> Journal<W> {
        Journal { to, cut: false }
    }

    /// Appends one fact with one write.
    ///
    /// # Errors
    /// As the writer.
    pub fn note(&mut self, fact: &Fact) -> io::Result<()> {
        let mut line = serde_json::to_vec(fact)?;
        line.push(b'\n');
        if self.cut {
            line.insert(0, b'\n');
        }
        self.cut = true;
        self.to.write_all(&line)?;
        self.cut = false;
        Ok(())
    }
}

/// A journal as read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// All lines of the journal in their order.
    pub facts: Vec<Fact>,
    /// Lines that could not be understood (a cut last line, a fact of a newer version).
    pub skipped: usize,
}

/// Reads a journal; broken lines are counted and skipped.
///
/// # Errors
/// As the reader.
pub fn read(from: impl BufRead) -> io::Result<Contents> {
    let mut contents = Contents::default();
    for line in from.split(b'\n') {
        match serde_json::from_slice(&line?) {
            Ok(fact) => contents.facts.push(fact),
            Err(_) => contents.skipped += 1,
        }
    }
    Ok(contents)
}

/// Makes one time of those that overlap or touch, in order: of samples, which several rules may have asked for at once.
pub fn merge_times<T: Ord + Copy>(times: &mut Vec<Range<T>>) {
    times.sort_by_key(|time| time.start);
    times.dedup_by(|next, before| {
        let overlap = next.start <= before.end;
        if overlap {
            before.end = before.end.max(next.end);
        }
        overlap
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_overlap_are_one() {
        let mut times = vec![30..40, 0..10, 5..12, 12..20, 35..36];
        merge_times(&mut times);
        assert_eq!(times, [0..20, 30..40]);
    }

    #[test]
    fn a_cut_journal_is_good_up_to_its_last_line() {
        let mut bytes = Vec::new();
        let mut journal = Journal::new(&mut bytes);
        let exit = Fact::Exit { pid: 7, at: 9 };
        let end = Fact::End(Summary { events: [("a:b".to_owned(), 3)].into(), ..Summary::default() });
        journal.note(&exit).expect("a vector takes it");
        journal.note(&end).expect("a vector takes it");
        let whole = read(&bytes[..]).expect("readable");
        assert_eq!(whole, Contents { facts: vec![exit.clone(), end], skipped: 0 });
        let cut = read(&bytes[..bytes.len() - 5]).expect("readable");
        assert_eq!(cut, Contents { facts: vec![exit], skipped: 1 });
    }
}

//! What a session is told when it begins.

use crate::layout::Layout;
use mote_filter::{Rule, SharedNames};
use mote_ring::Geometry;
use std::path::PathBuf;

/// What a person is told of a recording that holds no snapshots.
pub const NO_SNAPSHOTS: &str = "snapshots need a flight recorder: record with --mode overwrite";

/// What a person is told of rules that ask for the packets before events, where there are none.
pub const NO_PACKETS: &str = "`pt snapshot` needs a hardware trace of which the last packets are kept: record with \
                              --pt=snapshot=16M";

/// What a person is told of rules that ask for samples, where none are taken.
pub const NO_PROFILE: &str =
    "`profile for` needs samples: begin the recording with such a rule, or with --profile";

/// What a person is told of rules that ask for samples of functions which are not known since the recording began.
pub(crate) const NO_FUNCTIONS: &str = "finds its functions when a recording begins, and this one was begun without \
                                       that pattern: begin another one with the rule, or record all their calls (-f)";

/// What a person is told of rules that do something about events, and record none.
pub const NO_EVENT: &str = "no event is chosen, so nothing would be recorded: --on says what to do when an event occurs, \
                            -e and -k say which events to record; add for example -e '*'";

/// What a person is told of rules that ask for the kernel's side where it is not on.
pub const NEEDS_KERNEL: &str = "rules use the kernel's side (`$kernel`, `threshold`, `open kernel`): record kernel \
                                events, too, for example with -k sched";

/// Everything that a session is told: values, and one thing that others write, too ([`Settings::names`]).
pub struct Settings {
    /// What to do with which events of processes.
    pub rules: Vec<Rule>,
    /// Objects with filters that clang has compiled: their paths and bytes.
    pub objects: Vec<(PathBuf, Vec<u8>)>,
    /// Patterns of events to leave out.
    pub exclude: Vec<String>,
    /// An event whose filter has a fault is recorded, not dropped.
    pub keeps_on_fault: bool,
    /// It is a flight recorder: rings overwrite their oldest events, and snapshots can be taken.
    pub is_flight_recorder: bool,
    /// There is a hardware trace, of which the last packets are kept.
    pub keeps_last_packets: bool,
    /// Threads are sampled.
    pub is_profiled: bool,
    /// Patterns of functions of which samples can be asked for.
    pub functions: Vec<String>,
    /// The kernel's events are recorded, too.
    pub has_kernel: bool,
    /// The recorder's user.
    pub own: u32,
    /// Files that the recorder may have open.
    pub descriptors: usize,
    /// Sizes of the rings if there were one group of processes only.
    pub rings: Geometry,
    /// There may be several groups.
    pub many_groups: bool,
    /// The memory that a group shares with the session beside its rings.
    pub layout: Layout,
    /// Names of the words that all processes share. They are the directory of a recording: rules and processes take
    /// places there, which stay. So the order of inputs decides where a name is, and nothing else.
    pub names: SharedNames,
}

impl Settings {
    pub(crate) fn capabilities(&self) -> Capabilities {
        let Settings { is_flight_recorder, keeps_last_packets, is_profiled, has_kernel, .. } = *self;
        let functions = self.functions.clone();
        Capabilities { is_flight_recorder, keeps_last_packets, is_profiled, functions, has_kernel }
    }
}

/// What can be asked of a recording beside events of processes.
#[derive(Clone, Debug)]
pub(crate) struct Capabilities {
    /// Snapshots can be taken.
    pub(crate) is_flight_recorder: bool,
    /// Packets before an event can be asked for.
    pub(crate) keeps_last_packets: bool,
    /// Samples can be asked for.
    pub(crate) is_profiled: bool,
    /// Patterns of functions of which samples can be asked for.
    pub(crate) functions: Vec<String>,
    /// The kernel's events are recorded, too.
    pub(crate) has_kernel: bool,
}

impl Capabilities {
    /// Whether the recording can do what rules on events of processes, and on those of the kernel, ask for.
    ///
    /// # Errors
    /// What is missing, for a person.
    pub(crate) fn check(&self, rules: &[Rule], kernel: &[Rule]) -> Result<(), String> {
        if rules.iter().chain(kernel).any(Rule::snapshots) && !self.is_flight_recorder {
            return Err(NO_SNAPSHOTS.to_owned());
        }
        if rules.iter().chain(kernel).any(Rule::snapshots_packets) && !self.keeps_last_packets {
            return Err(NO_PACKETS.to_owned());
        }
        if rules.iter().chain(kernel).any(Rule::profiles) && !self.is_profiled {
            return Err(NO_PROFILE.to_owned());
        }
        let mut sampled = rules.iter().chain(kernel).flat_map(Rule::sampled_functions);
        if let Some(pattern) = sampled.find(|pattern| !self.functions.iter().any(|known| known == pattern)) {
            return Err(format!("`fperf \"{pattern}\"` {NO_FUNCTIONS}"));
        }
        if rules.iter().any(Rule::asks_kernel) && !self.has_kernel {
            return Err(NEEDS_KERNEL.to_owned());
        }
        Ok(())
    }
}

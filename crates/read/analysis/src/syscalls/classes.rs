//! Which event classes tell of system calls.

use mote_timeline::{ClassId, Record, Trace};

/// What names of system calls' entries begin with, by LTTng's and our convention.
const ENTRY: &str = "syscall_entry_";
/// What names of their returns begin with.
const EXIT: &str = "syscall_exit_";

/// What an event tells of a system call; the number is the call's, see [`SyscallClasses::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallRole {
    /// Nothing.
    None,
    /// It begins.
    Entry(usize),
    /// It returns.
    Exit(usize),
}

/// The roles of a trace's event classes.
#[derive(Debug)]
pub struct SyscallClasses {
    /// By [`ClassId`].
    roles: Vec<SyscallRole>,
    names: Vec<String>,
}

impl SyscallClasses {
    /// Finds out which events of `trace` begin and end system calls.
    #[must_use]
    pub fn new(trace: &Trace) -> SyscallClasses {
        let mut names: Vec<String> = Vec::new();
        let mut number = |call: &str| {
            names.iter().position(|known| known == call).unwrap_or_else(|| {
                names.push(call.to_owned());
                names.len() - 1
            })
        };
        let mut role = |id| {
            let name = trace.class(ClassId(id)).map_or("", |(_, class)| class.name.as_str());
            match (name.strip_prefix(ENTRY), name.strip_prefix(EXIT)) {
                (Some(call), _) => SyscallRole::Entry(number(call)),
                (_, Some(call)) => SyscallRole::Exit(number(call)),
                _ => SyscallRole::None,
            }
        };
        let ids = 0..u32::try_from(trace.classes()).unwrap_or(u32::MAX);
        let roles = ids.map(&mut role).collect();
        SyscallClasses { roles, names }
    }

    /// What `record` says of a system call, if anything.
    #[inline]
    #[must_use]
    pub fn role(&self, record: &Record<'_>) -> SyscallRole {
        self.roles.get(record.class().0 as usize).copied().unwrap_or(SyscallRole::None)
    }

    /// The name of a call, as `openat`.
    #[must_use]
    pub fn name(&self, call: usize) -> &str {
        self.names.get(call).map_or("", String::as_str)
    }

    /// Number of calls that the trace has names for.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.names.len()
    }

    /// Whether the trace may have returns.
    #[must_use]
    pub fn has_exits(&self) -> bool {
        self.roles.iter().any(|role| matches!(role, SyscallRole::Exit(_)))
    }
}

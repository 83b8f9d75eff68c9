//! System calls that had not returned when the recording ended.

use crate::report::OpenCall;
use mote_timeline::{ClassId, Record, Trace};
use rustc_hash::FxHashMap;

/// How an entry of a system call is called, by LTTng's and our convention.
const ENTRY: &str = "syscall_entry_";
/// And its return.
const EXIT: &str = "syscall_exit_";
/// Those that never return: their threads end in them.
const ENDS: [&str; 2] = ["exit", "exit_group"];

/// What an event class means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Other,
    Entry,
    Exit,
}

/// Follows the system calls of each thread.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    roles: Vec<Role>,
    /// By trace and thread: the class of the entry, and when it was.
    open: FxHashMap<(usize, u32), (ClassId, i64)>,
}

impl OpenCalls {
    pub(crate) fn new(trace: &Trace) -> OpenCalls {
        let name = |id| trace.class(ClassId(id)).map_or("", |(_, class)| class.name.as_str());
        let classes = 0..u32::try_from(trace.classes()).unwrap_or(u32::MAX);
        let has_exits = classes.clone().any(|id| role(name(id)) == Role::Exit);
        let roles = classes.map(|id| role(name(id)));
        // Where returns are not recorded, nothing is known of them.
        OpenCalls { roles: if has_exits { roles.collect() } else { Vec::new() }, open: FxHashMap::default() }
    }

    #[inline]
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let role = self.roles.get(record.class().0 as usize).copied().unwrap_or(Role::Other);
        if role == Role::Other {
            return;
        }
        let Some(tid) = record.tid() else { return };
        let thread = (record.origin_index(), tid);
        match role {
            Role::Entry => self.open.insert(thread, (record.class(), record.time())),
            _ => self.open.remove(&thread),
        };
    }

    /// Those that are open at `end`, the longest first.
    pub(crate) fn finish(self, trace: &Trace, end: i64) -> Vec<OpenCall> {
        let call = |((_, tid), (class, since)): ((usize, u32), (ClassId, i64))| {
            let name = trace.class(class)?.1.name.strip_prefix(ENTRY)?;
            let open_ns = end.abs_diff(since);
            (!ENDS.contains(&name)).then(|| OpenCall { name: name.to_owned(), tid, since_ns: since, open_ns })
        };
        let mut open: Vec<OpenCall> = self.open.into_iter().filter_map(call).collect();
        open.sort_by_key(|call| (call.since_ns, call.tid));
        open
    }
}

fn role(name: &str) -> Role {
    if name.starts_with(ENTRY) {
        Role::Entry
    } else if name.starts_with(EXIT) {
        Role::Exit
    } else {
        Role::Other
    }
}

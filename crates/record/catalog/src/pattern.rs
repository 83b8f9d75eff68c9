//! Which events a pattern means.
//!
//! | pattern | events |
//! |---|---|
//! | `sched` | a family |
//! | `kmem`, `sched_switch`, `*fault*` | a system of tracefs, and by LTTng's name or the kernel's; of system calls also by their own: `openat` |
//! | `mm:*alloc*`, `kmem:kfree` | by family or system, and name |

use crate::{Entry, FAMILIES, Kind};
use mote_pattern::Glob;
use std::fmt;

/// A pattern that no event fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The pattern.
    pub pattern: String,
    /// Names that are near.
    pub similar: Vec<String>,
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel has no event {}", self.pattern)?;
        match self.similar.split_last() {
            None => write!(f, "; see mote list -k"),
            Some((last, [])) => write!(f, "; did you mean {last}?"),
            Some((last, others)) => write!(f, "; did you mean {} or {last}?", others.join(", ")),
        }
    }
}

impl std::error::Error for Unmatched {}

/// The entries that fit at least one pattern.
pub(crate) fn select<'e>(
    entries: &'e [Entry],
    patterns: &[impl AsRef<str>],
) -> Result<Vec<&'e Entry>, Unmatched> {
    let mut chosen = vec![false; entries.len()];
    for pattern in patterns {
        let pattern = pattern.as_ref().trim();
        let wanted = Wanted::new(pattern);
        let mut any = false;
        for (entry, chosen) in entries.iter().zip(&mut chosen) {
            let fits = wanted.fits(entry);
            *chosen |= fits;
            any |= fits;
        }
        if !any {
            return Err(Unmatched { pattern: pattern.to_owned(), similar: similar(entries, pattern) });
        }
    }
    Ok(entries.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(entry, _)| entry).collect())
}

/// A pattern, taken apart.
enum Wanted<'p> {
    /// A family.
    Family(&'p str),
    /// A system, or a name.
    Word(Glob),
    /// Both family or system, and name.
    Both(Glob, Glob),
}

impl<'p> Wanted<'p> {
    fn new(pattern: &'p str) -> Wanted<'p> {
        match pattern.split_once(':') {
            Some((group, name)) => Wanted::Both(Glob::new(group), Glob::new(name)),
            None if FAMILIES.iter().any(|family| family.name == pattern) => Wanted::Family(pattern),
            None => Wanted::Word(Glob::new(pattern)),
        }
    }

    fn fits(&self, entry: &Entry) -> bool {
        let named = |glob: &Glob| entry.names().any(|name| glob.matches(name));
        match self {
            Wanted::Family(name) => entry.family == *name,
            Wanted::Word(glob) => glob.matches(&entry.system) || named(glob),
            Wanted::Both(group, name) => {
                (group.matches(&entry.family) || group.matches(&entry.system)) && named(name)
            }
        }
    }
}

impl Entry {
    /// All names by which people know it.
    fn names(&self) -> impl Iterator<Item = &str> {
        let call = match &self.kind {
            Kind::Traced => [None, None],
            Kind::Entry(call) | Kind::Exit(call) => [Some(call.name.as_str()), Some(call.table)],
        };
        [self.name.as_str(), &self.kernel_name].into_iter().chain(call.into_iter().flatten())
    }
}

/// Names like `pattern`: of its group where there is one, else of all.
fn similar(entries: &[Entry], pattern: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    match pattern.split_once(':') {
        Some((group, _)) => {
            let of = |entry: &&Entry| entry.family == group || entry.system == group;
            for entry in entries.iter().filter(of) {
                names.extend(entry.names().map(|name| format!("{group}:{name}")));
            }
            if names.is_empty() {
                names.extend(entries.iter().map(|entry| format!("{}:{}", entry.family, entry.name)));
            }
        }
        None => {
            names.extend(entries.iter().flat_map(|entry| entry.names().map(str::to_owned)));
            names.extend(entries.iter().flat_map(|entry| [entry.family.clone(), entry.system.clone()]));
        }
    }
    names.sort_unstable();
    names.dedup();
    mote_pattern::similar(pattern, names.iter().map(String::as_str)).into_iter().map(str::to_owned).collect()
}

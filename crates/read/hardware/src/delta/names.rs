//! Patterns with names: those that everybody needs, and those of a file.

use std::collections::BTreeMap;
use thiserror::Error;

/// What everybody needs, with what it is.
///
/// `superCLI` and `superSTI` are the thesis's (Sharma 2017, section 5.4.3): interrupts are not disabled by `cli` and
/// enabled by `sti` alone, but also by flags that are saved, and restored as a whole. Returns from the kernel are ours:
/// programs have interrupts enabled. `cpu_relax` of Linux is `pause`,
/// in a loop.
const BUILT_IN: [(&str, &str); 5] = [
    ("superCLI", "pushf ...8 cli"),
    ("superSTI", "sti/popf{if}/sysret/iret{if}"),
    ("cpu_relax", "pause+"),
    ("fpu", "x87/simd+"),
    ("locked", "lock:*"),
];

/// Patterns by name.
#[derive(Clone, Debug)]
pub struct Names(BTreeMap<String, String>);

impl Default for Names {
    /// Those that are built in.
    fn default() -> Names {
        Names(BUILT_IN.map(|(name, pattern)| (name.to_owned(), pattern.to_owned())).into())
    }
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {why}")]
pub struct BadName {
    line: usize,
    why: String,
}

impl Names {
    /// Reads lines `NAME = PATTERN`; `#` begins a remark. They come before those that are built in.
    ///
    /// # Errors
    /// A line is something else.
    pub fn parse(text: &str) -> Result<Names, BadName> {
        let mut names = Names::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let bad = |why: String| BadName { line: number, why };
            let Some((name, pattern)) = line.split_once('=') else {
                return Err(bad(format!(
                    "`{line}` has no `=`; write NAME = PATTERN, as in superSTI = sti | popf"
                )));
            };
            let (name, pattern) = (name.trim(), pattern.trim());
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            if !is_name {
                return Err(bad(format!("`{name}` is no name: letters, digits, _ and -")));
            }
            if pattern.is_empty() {
                return Err(bad(format!("the pattern of `{name}` is missing")));
            }
            names.0.insert(name.to_owned(), pattern.to_owned());
        }
        Ok(names)
    }

    /// The pattern of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All names with their patterns, in their order.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, pattern)| (name.as_str(), pattern.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::Pattern;

    #[test]
    fn what_is_built_in_can_be_read() {
        let names = Names::default();
        for (name, pattern) in names.all() {
            Pattern::parse(pattern, &names).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }

    #[test]
    fn a_file_has_names() {
        let names = Names::parse("# of ours\nenter = cli ... pushf  # so\n\nlocked = xchg\n").expect("names");
        assert_eq!((names.get("enter"), names.get("locked")), (Some("cli ... pushf"), Some("xchg")));
        assert_eq!(names.get("cpu_relax"), Some("pause+"));
        for (text, part) in
            [("\ncli", "line 2: `cli` has no `=`"), ("a b = c", "no name"), ("a =", "missing")]
        {
            let why = Names::parse(text).expect_err(text).to_string();
            assert!(why.contains(part), "{why}");
        }
    }
}

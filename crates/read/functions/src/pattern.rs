//! Which functions a person means.

use mote_pattern::Glob;
use mote_symbol::names;
use std::fmt;

/// A choice of functions: `NAME`; `FILE:NAME`, of one program or library; `@SOURCE`, of one source file.
///
/// Each part may have `*` and `?`. A name may be that of the symbol table, or as the language has it: with parameters
/// and generic arguments or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    file: Option<Glob>,
    source: Option<Glob>,
    name: Glob,
    text: String,
    whole: String,
}

impl Pattern {
    /// The pattern `text`; any text is one.
    #[must_use]
    pub fn new(text: &str) -> Pattern {
        if let Some(whole) = text.strip_prefix('@') {
            let source = if whole.starts_with('/') { whole.to_owned() } else { format!("*/{whole}") };
            return Pattern {
                file: None,
                source: Some(Glob::new(&source)),
                name: Glob::new("*"),
                text: String::new(),
                whole: format!("@{whole}"),
            };
        }
        let (file, name) = match single_colon(text).and_then(|at| text.split_at_checked(at)) {
            Some((file, rest)) => (Some(Glob::new(file)), rest.trim_start_matches(':')),
            None => (None, text),
        };
        Pattern { file, source: None, name: Glob::new(name), text: name.to_owned(), whole: text.to_owned() }
    }

    /// Whether it names a program or library.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// The part that is a function's name; empty where a source file is meant.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text
    }

    /// Whether it means the function `symbol` of the program or library `file`; `source` is asked for its source file
    /// where that matters.
    pub fn fits(&self, file: &str, symbol: &str, source: impl FnOnce() -> Option<String>) -> bool {
        if self.file.as_ref().is_some_and(|glob| !glob.matches(file)) {
            return false;
        }
        match &self.source {
            Some(glob) => {
                source().is_some_and(|path| glob.matches(&path) || glob.matches(&format!("/{path}")))
            }
            None => names::fits(symbol, |name| self.name.matches(name)),
        }
    }
}

/// The colon that stands alone: those of `db::open` do not.
fn single_colon(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_colon = |at: Option<usize>| at.is_some_and(|at| bytes.get(at) == Some(&b':'));
    (0..bytes.len()).find(|at| is_colon(Some(*at)) && !is_colon(Some(at + 1)) && !is_colon(at.checked_sub(1)))
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_files_and_sources() {
        for (pattern, file, symbol, fits) in [
            ("parse_*", "app", "parse_line", true),
            ("parse_*", "app", "reparse_line", false),
            ("libc.so.6:malloc", "libc.so.6", "malloc", true),
            ("libc.so.6:malloc", "app", "malloc", false),
            ("libc*:mall??", "libc.so.6", "malloc@@GLIBC_2.2.5", true),
            ("shop::checkout", "app", "_ZN4shop8checkoutEi", true),
            ("shop::**", "app", "_ZN4shop8checkoutEi", true),
            ("app:shop::*", "app", "_ZN4shop8checkoutEi", true),
            ("lib:shop::*", "app", "_ZN4shop8checkoutEi", false),
            ("@db.c", "app", "anything", true),
            ("@src/db.c", "app", "anything", true),
            ("@/build/src/db.c", "app", "anything", true),
            ("@b.c", "app", "anything", false),
            ("@src/*.rs", "app", "anything", false),
        ] {
            let source = || Some("/build/src/db.c".to_owned());
            assert_eq!(Pattern::new(pattern).fits(file, symbol, source), fits, "{pattern} {file} {symbol}");
        }
        assert!(!Pattern::new("@db.c").fits("app", "anything", || None));
        assert_eq!(Pattern::new("app:open").name(), "open");
    }
}

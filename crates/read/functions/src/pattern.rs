//! Which functions a person means.

use crate::arguments::{ArgumentType, argument_type, arguments};
use mote_pattern::Glob;
use mote_symbol::names;
use std::fmt;
use std::ops::RangeInclusive;

/// A choice of functions: `NAME`; `FILE:NAME`, of one program or library, whose version may be left out; `@SOURCE`, of
/// one source file. Behind it may stand how large they are, in bytes of code: `{>=256}`, `{<64}`; and which values are
/// wanted: `(..)`, those of the debug information, or `(path: str, flags: x32) -> i32`.
///
/// Each part may have `*` and `?`. A name may be that of the symbol table, or as the language has it: with parameters
/// and generic arguments or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Which values of its functions' calls are wanted.
    pub values: Values,
    file: Option<Glob>,
    source: Option<Glob>,
    name: Glob,
    size: RangeInclusive<u64>,
    text: String,
    whole: String,
}

/// Any size.
const ANY: RangeInclusive<u64> = 0..=u64::MAX;

/// The part of a pattern before a size, and that: `db::*{>=256}`. Braces may be those of a name: `f::{closure#0}`.
fn sized(text: &str) -> (&str, RangeInclusive<u64>) {
    let size = || {
        let (name, size) = text.trim_end().strip_suffix('}')?.rsplit_once('{')?;
        let number = size.trim_start_matches(['<', '>', '=']);
        let bytes: u64 = number.trim().parse().ok()?;
        let range = match size.strip_suffix(number)? {
            ">=" => bytes..=u64::MAX,
            ">" => bytes.checked_add(1)?..=u64::MAX,
            "<=" => 0..=bytes,
            "<" => 0..=bytes.checked_sub(1)?,
            _ => return None,
        };
        Some((name, range))
    };
    size().unwrap_or((text, ANY))
}

/// Values of calls: arguments and results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// None.
    #[default]
    Nothing,
    /// Those that the debug information has.
    Declared,
    /// These, which are passed as C does.
    Given {
        /// Name and type of each argument; those called `_` are not wanted.
        arguments: Vec<(String, ArgumentType)>,
        /// Type of the result, if it is wanted.
        result: Option<ArgumentType>,
    },
}

/// What [`Values::Declared`] is at the end of a pattern.
pub const DECLARED: &str = "(..)";

impl Values {
    /// The part of a pattern that is a name, and the values behind it. Parentheses may be those of a name: `f(int)`.
    fn parse(text: &str) -> Result<(&str, Values), String> {
        if let Some(name) = text.strip_suffix(DECLARED) {
            return Ok((name, Values::Declared));
        }
        let (head, result) = match text.rsplit_once("->") {
            Some((head, result)) if head.trim_end().ends_with(')') => (head.trim_end(), Some(result)),
            _ => (text, None),
        };
        let Some((name, list)) = head.strip_suffix(')').and_then(|head| head.rsplit_once('(')) else {
            return Ok((text, Values::Nothing));
        };
        let is_list = list.contains(':') && !list.contains("::");
        if !is_list && (result.is_none() || !list.trim().is_empty()) {
            return Ok((text, Values::Nothing));
        }
        let arguments = if is_list { arguments(list)? } else { Vec::new() };
        let result = result.map(argument_type).transpose()?;
        Ok((name, Values::Given { arguments, result }))
    }
}

impl Pattern {
    /// The pattern `text`.
    ///
    /// # Errors
    /// What is wrong with the arguments in it, for a person.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let (name, values) = Values::parse(text).map_err(|why| format!("pattern `{text}`: {why}"))?;
        let (name, size) = sized(name);
        Ok(Pattern { values, size, whole: text.to_owned(), ..Pattern::named(name) })
    }

    fn named(text: &str) -> Pattern {
        let values = Values::Nothing;
        if let Some(whole) = text.strip_prefix('@') {
            let source = if whole.starts_with('/') { whole.to_owned() } else { format!("*/{whole}") };
            return Pattern {
                values,
                file: None,
                source: Some(Glob::new(&source)),
                name: Glob::new("*"),
                size: ANY,
                text: String::new(),
                whole: String::new(),
            };
        }
        let (file, name) = match single_colon(text).and_then(|at| text.split_at_checked(at)) {
            Some((file, rest)) => (Some(Glob::new(file)), rest.trim_start_matches(':')),
            None => (None, text),
        };
        let (glob, text) = (Glob::new(name), name.to_owned());
        Pattern { values, file, source: None, name: glob, size: ANY, text, whole: String::new() }
    }

    /// Whether it names a program or library.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether it may mean functions of the program or library `file`. A library's version may be left out from any
    /// point on: programs know `libz.so.1.2.13` as `libz.so.1`, and compilers as `libz.so`.
    #[must_use]
    pub fn fits_file(&self, file: &str) -> bool {
        self.file.as_ref().is_none_or(|glob| shorter_names(file).any(|name| glob.matches(name)))
    }

    /// Whether it means the functions of a source file.
    #[must_use]
    pub fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// The part that is a function's name; empty where a source file is meant.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text
    }

    /// Whether it means functions of so many bytes.
    #[must_use]
    pub fn fits_size(&self, bytes: u64) -> bool {
        self.size.contains(&bytes)
    }

    /// Whether it means the function `symbol` of the program or library `file`; `source` is asked for its source file
    /// where that matters.
    pub fn fits(&self, file: &str, symbol: &str, source: impl FnOnce() -> Option<String>) -> bool {
        if !self.fits_file(file) {
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

/// A library's name, and those with less of its version; any other file's name.
fn shorter_names(file: &str) -> impl Iterator<Item = &str> {
    const LIBRARY: &str = ".so";
    let least = file.find(".so.").map_or(file.len(), |at| at + LIBRARY.len());
    std::iter::successors(Some(file), move |name| {
        let (shorter, _) = name.rsplit_once('.')?;
        (shorter.len() >= least).then_some(shorter)
    })
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
    use mote_layout::types::Scalar;

    #[test]
    fn names_files_and_sources() {
        for (pattern, file, symbol, fits) in [
            ("parse_*", "app", "parse_line", true),
            ("parse_*", "app", "reparse_line", false),
            ("libc.so.6:malloc", "libc.so.6", "malloc", true),
            ("libc.so.6:malloc", "app", "malloc", false),
            ("libc*:mall??", "libc.so.6", "malloc@@GLIBC_2.2.5", true),
            ("libz.so.1:crc32", "libz.so.1.2.13", "crc32", true),
            ("libz.so:crc32", "libz.so.1.2.13", "crc32", true),
            ("libz.so.1.2.13:crc32", "libz.so.1.2.13", "crc32", true),
            ("libz:crc32", "libz.so.1.2.13", "crc32", false),
            ("libz.so.1.3:crc32", "libz.so.1.2.13", "crc32", false),
            ("app:crc32", "app.1", "crc32", false),
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
            assert_eq!(pattern_of(pattern).fits(file, symbol, source), fits, "{pattern} {file} {symbol}");
        }
        assert!(!pattern_of("@db.c").fits("app", "anything", || None));
        assert_eq!(pattern_of("app:open").name(), "open");
    }

    #[test]
    fn sizes() {
        for (pattern, name, fits, not) in [
            ("*{>=256}", "*", 256, 255),
            ("app:db::*{>16}", "db::*", 17, 16),
            ("f{<64}", "f", 63, 64),
            ("f{<=64}(..)", "f", 64, 65),
            ("@db.c{>=1}", "", 1, 0),
        ] {
            let found = pattern_of(pattern);
            assert_eq!(found.name(), name, "{pattern}");
            assert!(found.fits_size(fits) && !found.fits_size(not), "{pattern}");
            assert_eq!(found.to_string(), pattern);
        }
        // Names of closures.
        for name in ["f::{closure#0}", "f::{{closure}}", "f{}", "f{<0}", "f{>x}"] {
            let found = pattern_of(name);
            assert!(found.name() == name && found.fits_size(0) && found.fits_size(u64::MAX), "{name}");
        }
    }

    fn pattern_of(text: &str) -> Pattern {
        Pattern::new(text).expect("right")
    }

    #[test]
    fn values_that_are_wanted() {
        let given = |arguments: &[(&str, ArgumentType)], result| Values::Given {
            arguments: arguments.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect(),
            result,
        };
        let (i32, text) = (ArgumentType::Scalar(Scalar::signed(32)), ArgumentType::Text);
        for (pattern, name, values) in [
            ("open", "open", Values::Nothing),
            ("open(..)", "open", Values::Declared),
            ("libc.so.6:open(..)", "open", Values::Declared),
            (
                "open(path: str, flags: i32) -> i32",
                "open",
                given(&[("path", text), ("flags", i32)], Some(i32)),
            ),
            ("app:open(path: str)", "open", given(&[("path", text)], None)),
            ("getpid() -> i32", "getpid", given(&[], Some(i32))),
            ("shop::f(int, char*)", "shop::f(int, char*)", Values::Nothing),
            ("f(std::string)", "f(std::string)", Values::Nothing),
            ("f()", "f()", Values::Nothing),
            ("operator->", "operator->", Values::Nothing),
        ] {
            let found = pattern_of(pattern);
            assert_eq!((found.name(), &found.values), (name, &values), "{pattern}");
            assert_eq!(found.to_string(), pattern);
        }
        for (wrong, says) in
            [("f(a: b)", "not a type"), ("f(a: i32, b)", "NAME: TYPE"), ("f() -> x", "not a type")]
        {
            let why = Pattern::new(wrong).expect_err(wrong);
            assert!(why.contains(says) && why.contains(wrong), "{why}");
        }
    }
}

//! Address filters, as perf and the kernel write them.
//!
//! ```text
//! filter 0x1000/0x200@/bin/app     only there          stop 0x1000/0x10@/bin/app    tracing ends there
//! filter 0xffffffff81000000/0x100  in the kernel       several: one behind the other
//! ```
//! Addresses are offsets in the file. Source: Linux, kernel/events/core.c (`perf_event_parse_addr_filter`);
//! arch/x86/events/intel/pt.c: Intel PT has ranges only, and none that begin tracing.

use std::ffi::CString;
use std::fmt::Write;
use std::path::PathBuf;

/// What can be found in a file: offset and size of a function.
pub type Find<'f> = dyn Fn(&str, &str) -> Result<(u64, u64), String> + 'f;

/// A filter, as the kernel reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: String,
    /// What it names.
    pub places: Vec<Place>,
}

/// A range of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Tracing ends there; otherwise it is what is traced.
    pub stops: bool,
    /// The first byte: by its offset in the file, or its address.
    pub start: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The file.
    pub file: Option<PathBuf>,
}

impl Filter {
    /// Reads a filter as people write it. `find` is asked for the functions of a file.
    ///
    /// # Errors
    /// A sentence about what is wrong, and what would be right.
    pub fn parse(text: &str, find: &Find<'_>) -> Result<Filter, String> {
        let text = text.replace('@', " @ ");
        // As the kernel does it: a path cannot have a comma.
        let words = text.split(|at: char| at.is_whitespace() || at == ',');
        let mut words = words.filter(|word| !word.is_empty()).peekable();
        let mut filter = Filter { text: String::new(), places: Vec::new() };
        while let Some(action) = words.next() {
            match action {
                "filter" | "stop" => {}
                "start" | "tracestop" => {
                    return Err(format!(
                        "Intel PT has no `{action}`: `filter` traces a range only, `stop` ends tracing at one"
                    ));
                }
                other => {
                    return Err(format!(
                        "`{other}` begins no filter: use `filter` or `stop`, as in {EXAMPLE}"
                    ));
                }
            }
            let mut place =
                words.next().ok_or_else(|| format!("`{action}` of what? as in {EXAMPLE}"))?.to_owned();
            // `4096 / 512`
            while let Some(more) = words.next_if(|more| place.ends_with('/') || more.starts_with('/')) {
                place += more;
            }
            let (place, size) = match place.split_once('/') {
                Some((place, size)) => (place, Some(size)),
                None => (&*place, None),
            };
            let file = words.next_if_eq(&"@").map(|_| words.next().ok_or("a file should follow `@`"));
            filter.add(action, place, size, file.transpose()?, find)?;
        }
        if filter.places.is_empty() {
            return Err(format!("the filter is empty; as in {EXAMPLE}"));
        }
        Ok(filter)
    }

    fn add(
        &mut self,
        action: &str,
        place: &str,
        size: Option<&str>,
        file: Option<&str>,
        find: &Find<'_>,
    ) -> Result<(), String> {
        let (start, bytes) = match (number(place), file) {
            (Some(start), _) => {
                let size = size.ok_or_else(|| {
                    format!("`{place}` needs a size: Intel PT has ranges only, as in {EXAMPLE}")
                })?;
                (start, number(size).ok_or_else(|| format!("`{size}` is no size"))?)
            }
            (None, Some(file)) => {
                let (start, bytes) = find(place, file)?;
                (start, size.and_then(number).unwrap_or(bytes))
            }
            (None, None) => {
                return Err(format!(
                    "`{place}` is a function of which file? as in filter {place} @ /bin/app"
                ));
            }
        };
        if bytes == 0 {
            return Err(format!("`{place}` has a size of 0: give one, as in {EXAMPLE}"));
        }
        let gap = if self.places.is_empty() { "" } else { " " };
        let _ = write!(self.text, "{gap}{action} {start:#x}/{bytes:#x}");
        let path = file.map(std::path::absolute).transpose();
        let path = path.map_err(|why| format!("{}: {why}", file.unwrap_or_default()))?;
        if let Some(path) = &path {
            let _ = write!(self.text, "@{}", path.display());
        }
        self.places.push(Place { stops: action == "stop", start, bytes, file: path });
        Ok(())
    }

    /// How many ranges.
    #[must_use]
    pub fn ranges(&self) -> u64 {
        self.places.len() as u64
    }

    /// Whether some are of files, which are filtered in processes only.
    #[must_use]
    pub fn of_files(&self) -> bool {
        self.places.iter().any(|place| place.file.is_some())
    }

    /// As the kernel reads it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same for a system call; `None` where a path has a NUL.
    #[must_use]
    pub fn for_kernel(&self) -> Option<CString> {
        CString::new(self.text.as_str()).ok()
    }
}

const EXAMPLE: &str = "`filter 0x1139/0x40 @ /bin/app`";

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str, file: &str) -> Result<(u64, u64), String> {
        match (name, file) {
            ("main", "/bin/app") => Ok((0x1139, 0x40)),
            _ => Err(format!("{file} has no function {name}")),
        }
    }

    #[test]
    fn filters_are_ranges() {
        let check = |text: &str, expect: Result<&str, &str>| match (Filter::parse(text, &find), expect) {
            (Ok(filter), Ok(expect)) => assert_eq!(filter.text(), expect),
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (found, expect) => panic!("{found:?} is not {expect:?}"),
        };
        check("filter 0x1000/0x200@/bin/app", Ok("filter 0x1000/0x200@/bin/app"));
        check("filter 4096 / 512 @ /usr/bin/a", Ok("filter 0x1000/0x200@/usr/bin/a"));
        check("filter main @ /bin/app", Ok("filter 0x1139/0x40@/bin/app"));
        check("filter main/0x10@/bin/app", Ok("filter 0x1139/0x10@/bin/app"));
        check(
            "filter main @ /bin/app, stop 0x10/0x20 @ /bin/app",
            Ok("filter 0x1139/0x40@/bin/app stop 0x10/0x20@/bin/app"),
        );
        check("filter 0x1/0x2@/opt/filter/app", Ok("filter 0x1/0x2@/opt/filter/app"));
        check("filter 0xffffffff81000000/0x100", Ok("filter 0xffffffff81000000/0x100"));
        check("", Err("empty"));
        check("start 0x1000/0x200@/bin/app", Err("Intel PT has no `start`"));
        check("main", Err("`main` begins no filter"));
        check("filter", Err("`filter` of what?"));
        check("filter main", Err("a function of which file?"));
        check("filter other @ /bin/app", Err("has no function other"));
        check("filter 0x1000 @ /bin/app", Err("needs a size"));
        check("filter 0x1000/0@/bin/app", Err("a size of 0"));
        check("filter 0x1000/many@/bin/app", Err("`many` is no size"));
        check("filter main @", Err("a file should follow"));
        let two = Filter::parse("filter 0x1/0x1 filter 0x2/0x2@/bin/app", &find).expect("two");
        assert_eq!((two.ranges(), two.of_files()), (2, true));
    }
}

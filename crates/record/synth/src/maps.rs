//! What a process has mapped (`/proc/PID/maps`, proc_pid_maps(5)).

use std::io;
use std::path::PathBuf;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_executable: bool,
    pub(crate) offset: u64,
    /// The file; `None` of memory that is of none, also where it has a name in brackets.
    pub(crate) path: Option<PathBuf>,
}

/// Reads them, in the order of their addresses.
///
/// # Errors
/// The process is not there any more.
pub(crate) fn read(pid: i32) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let offset = words.next()?;
    let path = words.nth(2).map(str::trim_start).filter(|path| path.starts_with('/'));
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        is_executable: permissions.contains('x'),
        offset: number(offset)?,
        path: path.map(|path| path.trim_end_matches(" (deleted)").into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mapping = |is_executable, path: Option<&str>| Mapping {
            start: 0x7f12_3000,
            end: 0x7f12_5000,
            is_executable,
            offset: 0x2000,
            path: path.map(PathBuf::from),
        };
        let cases = [
            (
                "7f123000-7f125000 r-xp 00002000 08:01 1234      /usr/lib/a b.so",
                Some(mapping(true, Some("/usr/lib/a b.so"))),
            ),
            ("7f123000-7f125000 rw-p 00002000 00:00 0 ", Some(mapping(false, None))),
            ("7f123000-7f125000 r-xp 00002000 00:00 0      [vdso]", Some(mapping(true, None))),
            ("7f123000-7f125000", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}

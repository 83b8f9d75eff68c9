//! The list from text, which may be anybody's: nothing in it is believed before it was checked.

use crate::{Function, List, Placeholder, VERSION};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Most bytes of a list: some 1.5 million lines.
pub const BYTES_MAX: u64 = 256 << 20;
/// Most bytes of a line, which may have long names.
const LINE_MAX: usize = 1 << 20;
/// Most characters of a build id or digest.
const ID_MAX: usize = 256;
/// Bytes that x86-64 can address, and more than any processor maps of one file.
const ADDRESS_MAX: u64 = 1 << 56;
/// The name may be that of a pipe without a writer.
const CAREFUL: i32 = libc::O_NONBLOCK | libc::O_NOCTTY;

/// A line.
#[derive(Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub(crate) enum Line {
    List(Header),
    Function(Function),
    Placeholder(Placeholder),
}

/// The first one.
#[derive(Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) build_id: String,
    pub(crate) text: String,
    pub(crate) functions: u64,
    pub(crate) placeholders: u64,
}

/// Why a file is no list that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It cannot be read.
    #[error("cannot read the probe list {path}: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Something in it is wrong.
    #[error("{path} cannot be used: {why}", path = path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong with the list.
        why: Wrong,
    },
}

/// What is wrong with a list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// It cannot be read any further.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// It does not begin as one.
    #[error("it is no probe list; `mote coldpatch` writes one")]
    NotAList,
    /// It is of another version.
    #[error(
        "it is of version {0}, and this mote reads version {VERSION}; write it anew with `mote coldpatch`"
    )]
    Version(u32),
    /// It does not say what it is the list of.
    #[error("it does not say of which binary it is")]
    NoSubject,
    /// It has fewer or more lines than it says.
    #[error("it says that it has {said} {what}, and has {found}: it was cut or changed")]
    Count {
        /// Functions or placeholders.
        what: &'static str,
        /// How many its first line says.
        said: u64,
        /// How many there are.
        found: u64,
    },
    /// A line cannot be what it should be.
    #[error("line {number}: {what}")]
    Line {
        /// The line, counted from 1.
        number: u64,
        /// What is wrong there.
        what: String,
    },
    /// It is too long.
    #[error("it has more than {} MiB", BYTES_MAX >> 20)]
    Long,
}

impl List {
    /// Reads the list in the file `path`, which has to be a regular one.
    ///
    /// # Errors
    /// [`ListError`].
    ///
    /// # Cost
    /// At most [`BYTES_MAX`] bytes are read, some 100 MB/s; they take about as much memory.
    pub fn open(path: &Path) -> Result<List, ListError> {
        let unreadable = |error| ListError::Unreadable { path: path.to_owned(), error };
        let file = OpenOptions::new().read(true).custom_flags(CAREFUL).open(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        List::of_file(path, &file)
    }

    /// The same of an open file, which is called `path`.
    ///
    /// # Errors
    /// [`ListError`].
    pub fn of_file(path: &Path, file: &File) -> Result<List, ListError> {
        List::read(BufReader::new(file)).map_err(|why| ListError::Wrong { path: path.to_owned(), why })
    }

    /// Reads a list from bytes.
    ///
    /// # Errors
    /// [`Wrong`].
    pub fn read(bytes: impl BufRead) -> Result<List, Wrong> {
        let mut lines = Lines { bytes: bytes.take(BYTES_MAX + 1), read: 0, number: 0 };
        let first = lines.next()?.ok_or(Wrong::NotAList)?;
        let header = header(&first)?;
        let mut list = List { build_id: header.build_id, text: header.text, ..List::default() };
        while let Some(line) = lines.next()? {
            let wrong = |what: String| Wrong::Line { number: lines.number, what };
            let line: Line = serde_json::from_slice(&line).map_err(|why| wrong(why.to_string()))?;
            list.add(line).map_err(|what| wrong(what.to_owned()))?;
        }
        for (what, said, found) in [
            ("functions", header.functions, list.functions.len()),
            ("placeholders", header.placeholders, list.placeholders.len()),
        ] {
            let found = found as u64;
            if said != found {
                return Err(Wrong::Count { what, said, found });
            }
        }
        Ok(list)
    }

    fn add(&mut self, line: Line) -> Result<(), &'static str> {
        match line {
            Line::List(_) => return Err("it is a second first line"),
            Line::Function(function) => {
                is_range(function.address, function.size)?;
                if function.name.is_empty() {
                    return Err("the function has no name");
                }
                if self.functions.last().is_some_and(|last| last.address >= function.address) {
                    return Err("functions are not in the order of addresses");
                }
                self.functions.push(function);
            }
            Line::Placeholder(placeholder) => {
                is_range(placeholder.address, placeholder.size)?;
                is_range(placeholder.offset, placeholder.size)?;
                let end = |last: &Placeholder| last.address + last.size;
                if self.placeholders.last().is_some_and(|last| end(last) > placeholder.address) {
                    return Err("placeholders overlap, or are not in the order of addresses");
                }
                self.placeholders.push(placeholder);
            }
        }
        Ok(())
    }
}

fn is_range(begin: u64, size: u64) -> Result<(), &'static str> {
    let end = begin.checked_add(size).filter(|end| *end <= ADDRESS_MAX);
    end.map(drop).ok_or("its address or size is larger than there are addresses")
}

/// The first line. What has another version may look otherwise, but for its version.
fn header(line: &[u8]) -> Result<Header, Wrong> {
    #[derive(Deserialize)]
    struct Version {
        line: String,
        version: u32,
    }
    let Version { line: kind, version } = serde_json::from_slice(line).map_err(|_| Wrong::NotAList)?;
    if kind != "list" {
        return Err(Wrong::NotAList);
    }
    if version != VERSION {
        return Err(Wrong::Version(version));
    }
    let header: Line =
        serde_json::from_slice(line).map_err(|why| Wrong::Line { number: 1, what: why.to_string() })?;
    let Line::List(header) = header else { return Err(Wrong::NotAList) };
    let is_hex = |text: &String| text.len() <= ID_MAX && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !(is_hex(&header.build_id) && is_hex(&header.text)) {
        return Err(Wrong::Line { number: 1, what: "the build id or digest is not hexadecimal".to_owned() });
    }
    if header.build_id.is_empty() && header.text.is_empty() {
        return Err(Wrong::NoSubject);
    }
    Ok(header)
}

/// Lines of bounded length.
struct Lines<R> {
    bytes: io::Take<R>,
    read: u64,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The next one; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Wrong> {
        let mut line = Vec::new();
        let len = (&mut self.bytes).take(LINE_MAX as u64 + 1).read_until(b'\n', &mut line)?;
        self.read += len as u64;
        self.number += 1;
        if self.read > BYTES_MAX {
            return Err(Wrong::Long);
        }
        if len > LINE_MAX {
            return Err(Wrong::Line { number: self.number, what: "it is longer than 1 MiB".to_owned() });
        }
        Ok((len > 0).then_some(line))
    }
}

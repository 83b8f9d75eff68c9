//! What the tests share: traces on disk, and their text in babeltrace2's form.
#![allow(dead_code, unreachable_pub)]

use mote_ctf::{Cursor, DecodeError, Schema, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file or folder of the test data.
pub fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

/// A trace in memory: metadata and data streams.
pub struct Trace {
    pub metadata: Vec<u8>,
    pub streams: Vec<Vec<u8>>,
}

impl Trace {
    /// Reads the folder that holds `metadata`.
    pub fn read(folder: &Path) -> Trace {
        let mut streams = Vec::new();
        let mut names: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        for path in names {
            if path.is_file() && path.file_name().is_some_and(|n| n != "metadata" && n != "mote") {
                streams.push(std::fs::read(path).unwrap());
            }
        }
        Trace { metadata: std::fs::read(folder.join("metadata")).unwrap(), streams }
    }

    /// Writes the trace to `folder`, for other readers.
    pub fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("metadata"), &self.metadata).unwrap();
        for (index, stream) in self.streams.iter().enumerate() {
            std::fs::write(folder.join(format!("stream_{index}")), stream).unwrap();
        }
    }

    /// All events by time, as lines of babeltrace2 with `--clock-cycles --no-delta`.
    pub fn lines(&self) -> Vec<String> {
        self.lines_with(&Schema::parse(&self.metadata).unwrap())
    }

    /// The same with another schema.
    pub fn lines_with(&self, schema: &Schema) -> Vec<String> {
        let mut events = Vec::new();
        for stream in &self.streams {
            let (lines, error) = stream_lines(schema, stream);
            assert_eq!(error, None);
            events.extend(lines);
        }
        events.sort_by_key(|(time, _)| *time);
        events.into_iter().map(|(_, line)| line).collect()
    }
}

/// Events of one data stream, and what ended it early.
pub fn stream_lines(schema: &Schema, stream: &[u8]) -> (Vec<(u64, String)>, Option<DecodeError>) {
    let mut cursor = Cursor::new();
    let mut lines = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let header = match cursor.begin(schema, rest) {
            Ok(header) => header,
            Err(error) => return (lines, Some(error)),
        };
        let size = header.packet_bytes().map_or(rest.len(), |n| usize::try_from(n).unwrap_or(usize::MAX));
        let packet = rest.get(..size).unwrap_or(rest);
        loop {
            match cursor.advance(schema, packet) {
                Ok(true) => lines.push((cursor.timestamp(), line(schema, &cursor, packet))),
                Ok(false) => break,
                Err(error) => return (lines, Some(error)),
            }
        }
        rest = rest.get(size..).unwrap_or(&[]);
    }
    (lines, None)
}

fn line(schema: &Schema, cursor: &Cursor, packet: &[u8]) -> String {
    let event = cursor.event(schema, packet).unwrap();
    let mut out = Vec::new();
    if event.stream.clock.is_some() {
        out.extend_from_slice(format!("[{:020}] ", event.timestamp).as_bytes());
    }
    if let Some(host) = schema.trace().env_str("hostname") {
        out.extend_from_slice(format!("{host} ").as_bytes());
    }
    out.extend_from_slice(format!("{}: ", event.class.name).as_bytes());
    text::body(&mut out, cursor.packet_context(schema, packet), &event);
    String::from_utf8_lossy(&out).into_owned()
}

/// What babeltrace2 prints of the trace in `folder`; `None`, loudly, where it is not installed.
pub fn babeltrace2(folder: &Path) -> Option<Vec<String>> {
    let run = Command::new("babeltrace2").args(["--clock-cycles", "--no-delta"]).arg(folder).output();
    let Ok(output) = run else {
        mote_skip::skip("babeltrace2 is not installed");
        return None;
    };
    assert!(output.status.success(), "babeltrace2: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Compares line by line; says where the first difference is.
pub fn assert_lines(ours: &[String], theirs: &[String]) {
    for (number, (our, their)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(our, their, "line {}", number + 1);
    }
    assert_eq!(ours.len(), theirs.len(), "number of lines");
}

/// A folder for one test, removed with the guard.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("mote-ctf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small generator of random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }
}

//! Prints a trace folder as `babeltrace2 --clock-cycles --no-delta` does, to compare the two by hand.
//!
//! `cargo run --release -p mote-trace-ctf --example ctf_text FOLDER |
//! diff - <(babeltrace2 --clock-cycles --no-delta FOLDER)`:
//! FOLDER is the one that holds `metadata`. Reads all of it into memory; `mote view` is the tool that does
//! not.

use mote_ctf::{Cursor, Schema, text};
use std::error::Error;
use std::io::Write;

/// A data stream with its cursor.
struct Stream {
    bytes: Vec<u8>,
    packet: std::ops::Range<usize>,
    cursor: Cursor,
}

impl Stream {
    /// Steps to the next event, through packets as needed.
    fn advance(&mut self, schema: &Schema) -> Result<bool, Box<dyn Error>> {
        while self.packet.is_empty() || !self.cursor.advance(schema, &self.bytes[self.packet.clone()])? {
            let begin = self.packet.end;
            if begin >= self.bytes.len() {
                return Ok(false);
            }
            let header = self.cursor.begin(schema, &self.bytes[begin..])?;
            let size = header.packet_bytes().map_or(Ok(self.bytes.len() - begin), usize::try_from)?;
            self.packet = begin..begin.saturating_add(size).min(self.bytes.len());
        }
        Ok(true)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).ok_or("give the folder of a trace")?);
    let schema = Schema::parse(&std::fs::read(folder.join("metadata"))?)?;
    let mut streams = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.is_file() && !path.ends_with("metadata") {
            let mut stream = Stream { bytes: std::fs::read(path)?, packet: 0..0, cursor: Cursor::new() };
            if stream.advance(&schema)? {
                streams.push(stream);
            }
        }
    }
    let mut out = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let host = schema.trace().env_str("hostname").map_or(String::new(), |host| format!("{host} "));
    let mut line = Vec::new();
    while let Some(first) = (0..streams.len()).min_by_key(|i| streams[*i].cursor.timestamp()) {
        let stream = &mut streams[first];
        let packet = &stream.bytes[stream.packet.clone()];
        if let Some(event) = stream.cursor.event(&schema, packet) {
            line.clear();
            write!(line, "[{:020}] {host}{}: ", event.timestamp, event.class.name)?;
            text::body(&mut line, stream.cursor.packet_context(&schema, packet), &event);
            line.push(b'\n');
            out.write_all(&line)?;
        }
        if !stream.advance(&schema)? {
            streams.remove(first);
        }
    }
    Ok(out.flush()?)
}

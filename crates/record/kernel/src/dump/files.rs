//! Open files and memory mappings of a process.

use super::event::{Kind, Record};
use super::process::numbers;
use super::write::Fields;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `FMODE_READ` and `FMODE_WRITE` (`include/linux/fs.h`).
const FMODE_READ: u32 = 1;
const FMODE_WRITE: u32 = 2;

/// The open files.
pub(super) fn descriptors(process: &Path, pid: u32, take: &mut dyn FnMut(Record)) {
    for fd in numbers(&process.join("fd")) {
        let Ok(target) = fs::read_link(process.join("fd").join(fd.to_string())) else { continue };
        let info = fs::read_to_string(process.join("fdinfo").join(fd.to_string())).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0);
        let mode = match flags & libc::O_ACCMODE.cast_unsigned() {
            0 => FMODE_READ,
            1 => FMODE_WRITE,
            _ => FMODE_READ | FMODE_WRITE,
        };
        let record = Fields::new(Kind::File)
            .u64(pid.into())
            .i32(pid.into())
            .i32(fd.into())
            .u32(flags)
            .u32(mode)
            .text(target.as_os_str().as_bytes());
        take(record.record());
    }
}

/// Gives a record for each line of `/proc/PID/maps`.
pub(super) fn mappings(process: &Path, pid: u32, take: &mut dyn FnMut(Record)) {
    let maps = fs::read(process.join("maps")).unwrap_or_default();
    for line in maps.split(|byte| *byte == b'\n') {
        if let Some(record) = mapping(pid, line) {
            take(record);
        }
    }
}

/// `7f00-7f10 r-xp 00001000 08:01 4711    /lib/x.so`; the path may hold blanks.
fn mapping(pid: u32, line: &[u8]) -> Option<Record> {
    let mut parts = line.splitn(6, |byte| *byte == b' ');
    let mut word = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (range, access, offset, _device, inode) = (word()?, word()?, word()?, word()?, word()?);
    let path = parts.next().unwrap_or_default().trim_ascii_start();
    let (start, end) = range.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let bits = access.bytes().zip([(b'r', 1u64), (b'w', 2), (b'x', 4), (b's', 8)]);
    let flags = bits.filter(|(is, (has, _))| is == has).map(|(_, (_, bit))| bit).sum();
    let record = Fields::new(Kind::Mapping)
        .i32(pid.into())
        .u64(hex(start)?)
        .u64(hex(end)?)
        .u64(flags)
        .u64(inode.parse().ok()?)
        .u64(hex(offset)?)
        .text(path);
    Some(record.record())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = b"7f00-7f10 r-xs 00001000 08:01 4711                       /lib/a b.so (deleted)";
        let bytes = mapping(1, line).expect("well formed").fields;
        assert_eq!(bytes[4..12], 0x7f00u64.to_le_bytes());
        assert_eq!(bytes[20..28], 13u64.to_le_bytes());
        assert!(bytes.ends_with(b"/lib/a b.so (deleted)\0"));
        assert!(mapping(1, b"7f00-7f10 rw-p 00000000 00:00 0 ").is_some());
        for bad in ["", "7f00", "7f00-7f10 r-xp", "x-y r-xp 0 0 0 ", "7f00-7f10 r-xp 0 0 x /a"] {
            assert_eq!(mapping(1, bad.as_bytes()), None, "{bad}");
        }
    }
}

//! A guest's first files as the archive that kernels unpack (initramfs): cpio, "newc"
//! (Documentation/driver-api/early-userspace/buffer-format.rst of the kernel).

use std::collections::BTreeMap;

/// Bits of a file's mode that say what it is.
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

/// Files by their path without the first `/`, in the order of names: a folder comes before what is in it.
#[derive(Debug, Default)]
pub(super) struct Archive {
    entries: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Archive {
    /// Adds a folder, with those that it is in.
    pub(super) fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for folder in ends.filter_map(|end| path.get(..end)).filter(|folder| !folder.is_empty()) {
            self.entries.entry(folder.to_owned()).or_insert((FOLDER | 0o755, Vec::new()));
        }
    }

    /// Adds a file, with the folders that it is in.
    pub(super) fn file(&mut self, path: &str, permissions: u32, bytes: Vec<u8>) {
        let path = path.trim_start_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        self.entries.insert(path.to_owned(), (FILE | permissions & 0o7777, bytes));
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path.trim_start_matches('/'))
    }

    /// The archive as the kernel reads it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (path, (mode, bytes)) in &self.entries {
            put(&mut out, path, *mode, bytes);
        }
        put(&mut out, "TRAILER!!!", 0, &[]);
        out
    }
}

/// Inode 1, user and group 0, one link, time 0, no device; fields of 8 digits.
fn put(out: &mut Vec<u8>, path: &str, mode: u32, bytes: &[u8]) {
    let fields = [1, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, 0, 0, path.len() as u32 + 1, 0];
    out.extend_from_slice(b"070701");
    fields.iter().for_each(|field| out.extend_from_slice(format!("{field:08x}").as_bytes()));
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut archive = Archive::default();
        archive.file("/usr/lib/it", 0o755, b"12345".to_vec());
        archive.folder("/usr");
        assert!(archive.has("/usr/lib") && archive.has("usr/lib/it"));
        let bytes = archive.bytes();
        let text = String::from_utf8_lossy(&bytes);
        let places: Vec<_> = ["usr\0", "usr/lib\0", "usr/lib/it\0", "12345\0\0\0", "TRAILER!!!\0"]
            .iter()
            .map(|part| text.find(part).expect(part))
            .collect();
        assert!(places.is_sorted());
        assert!(places[3].is_multiple_of(4) && bytes.len().is_multiple_of(4));
        assert!(text.contains("07070100000001000081ed"));
    }
}

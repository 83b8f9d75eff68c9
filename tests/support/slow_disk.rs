//! A file system whose disk can be made to stand still for a moment, on any machine and for sure.
//!
//! Two ext4 file systems in files, one inside the other: the outer one is frozen (`fsfreeze`, as snapshots of virtual
//! machines do it), and what is written to the inner one's device waits. Writers to the inner one still go into the
//! page cache, so it is their `fsync` that waits.
//!
//! They are mounted in a mount namespace of the calling thread: whatever becomes of it, nothing stays mounted.

use super::{has_tool, skip};
use nix::sched::{CloneFlags, unshare};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Bytes of the inner file system; the outer one has half as much besides.
const SIZE: u64 = 192 << 20;

/// The two file systems, mounted.
pub(crate) struct SlowDisk {
    outer: PathBuf,
    inner: PathBuf,
    _dir: TempDir,
}

impl SlowDisk {
    /// Makes them; `None`, said as a skip, where that cannot be. Root only.
    pub(crate) fn new() -> Option<SlowDisk> {
        for tool in ["mkfs.ext4", "mount", "fsfreeze"] {
            if !has_tool(tool) {
                return None;
            }
        }
        if let Err(why) = own_mounts() {
            skip(format_args!("no mount namespace: {why}"));
            return None;
        }
        let dir = tempfile::Builder::new().prefix("mote-disk-").tempdir().expect("a directory");
        // PostgreSQL is not root.
        let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("permissions");
        let (outer, inner) = (dir.path().join("outer"), dir.path().join("disk"));
        let disk = SlowDisk { outer, inner, _dir: dir };
        let made = mount_new(&disk._dir.path().join("image"), SIZE + SIZE / 2, &disk.outer)
            .and_then(|()| mount_new(&disk.outer.join("image"), SIZE, &disk.inner));
        match made {
            Ok(()) => Some(disk),
            Err(why) => {
                skip(format_args!("no file systems in files: {why}"));
                None
            }
        }
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.inner
    }

    /// Nothing gets to the disk for this time.
    pub(crate) fn stand_still(&self, time: Duration) {
        // By a process of its own, which thaws it also when this one is killed.
        let line = "fsfreeze -f \"$1\" && sleep \"$2\"; fsfreeze -u \"$1\"";
        let seconds = time.as_secs_f64().to_string();
        tool(Command::new("sh").args(["-c", line, "sh"]).arg(&self.outer).arg(seconds)).expect("it freezes");
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        for path in [&self.inner, &self.outer] {
            // Lazily: who uses it yet ends soon. It may not have been mounted.
            let _ = Command::new("umount").arg("-l").arg(path).output();
        }
    }
}

/// Gives the calling thread, and what it starts, mounts of its own.
pub(crate) fn own_mounts() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|why| why.to_string())?;
    tool(Command::new("mount").args(["--make-rprivate", "/"]))
}

/// A new file system in a new file, mounted on a new directory.
fn mount_new(image: &Path, size: u64, at: &Path) -> Result<(), String> {
    let text = |why: std::io::Error| why.to_string();
    File::create(image).and_then(|file| file.set_len(size)).map_err(text)?;
    std::fs::create_dir(at).map_err(text)?;
    tool(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image))?;
    tool(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at))
}

/// Runs a tool that must succeed; else answers what it said.
fn tool(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|why| why.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{:?}: {said}", command.get_program())) }
}

//! A control group that may use a part of a CPU, in cgroup v2 or v1, whichever has the controller.

use super::{skip, slow_disk, wait_for};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The time over which a group's part is given out, in us: long, so that who is held back is so for long.
const PERIOD_US: u64 = 100_000;

/// A group, until the value goes; who is in it must have ended before.
pub(crate) struct CpuLimit {
    dir: PathBuf,
    mount: Option<TempDir>,
}

impl CpuLimit {
    /// A group with this part of one CPU, in percent; `None`, said as a skip, where that cannot be. Root only.
    pub(crate) fn of(percent: u64) -> Option<CpuLimit> {
        let quota = PERIOD_US * percent / 100;
        let made = match mounted("cgroup", "cpu") {
            Some(root) => group_v1(&root, quota).map(|dir| CpuLimit { dir, mount: None }),
            None => group_v2(quota),
        };
        made.map_err(|why| skip(format_args!("no control group with a part of a CPU: {why}"))).ok()
    }

    /// Puts a process into it.
    pub(crate) fn take(&self, pid: u32) {
        std::fs::write(self.dir.join("cgroup.procs"), pid.to_string()).expect("a process that runs");
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        let gone = || std::fs::remove_dir(&self.dir).ok();
        if std::thread::panicking() {
            gone();
        } else {
            wait_for("the end of who is in a control group", gone);
        }
        if let Some(mount) = &self.mount {
            let _ = Command::new("umount").arg("-l").arg(mount.path()).output();
        }
    }
}

/// Where a hierarchy is mounted: of this type, with this word among its options (all have the empty one).
fn mounted(kind: &str, option: &str) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().find_map(|line| {
        let [_, at, of, options, ..] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let has = option.is_empty() || options.split(',').any(|word| word == option);
        (of == kind && has).then(|| PathBuf::from(at))
    })
}

fn name() -> String {
    format!("mote-claim-{}", nix::unistd::gettid())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|why| format!("{}: {why}", path.display()))
}

fn group_v1(root: &Path, quota: u64) -> Result<PathBuf, String> {
    let dir = root.join(name());
    std::fs::create_dir(&dir).map_err(|why| format!("{}: {why}", dir.display()))?;
    write(&dir.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
    write(&dir.join("cpu.cfs_quota_us"), &quota.to_string())?;
    Ok(dir)
}

fn group_v2(quota: u64) -> Result<CpuLimit, String> {
    let (root, mount) = match mounted("cgroup2", "") {
        Some(root) => (root, None),
        None => {
            slow_disk::own_mounts()?;
            let dir = tempfile::tempdir().map_err(|why| why.to_string())?;
            let said = Command::new("mount").args(["-t", "cgroup2", "none"]).arg(dir.path()).output();
            let done = said.map_err(|why| why.to_string())?.status.success();
            if !done {
                return Err("cgroup2 cannot be mounted".to_owned());
            }
            (dir.path().to_owned(), Some(dir))
        }
    };
    let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if !controllers.split_whitespace().any(|controller| controller == "cpu") {
        return Err(format!("{} has no controller of CPUs", root.display()));
    }
    write(&root.join("cgroup.subtree_control"), "+cpu")?;
    let dir = root.join(name());
    std::fs::create_dir(&dir).map_err(|why| format!("{}: {why}", dir.display()))?;
    write(&dir.join("cpu.max"), &format!("{quota} {PERIOD_US}"))?;
    Ok(CpuLimit { dir, mount })
}

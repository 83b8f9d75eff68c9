//! A user without rights, as whom tests run beside root: what root may, most users may not.

use anyhow::Context;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user's number. It is not that of `nobody`, which stands for users without a number.
const USER: u32 = 12345;

/// The user, for as long as tests run: with a directory, which goes when this goes.
pub(crate) struct User {
    home: PathBuf,
}

impl User {
    /// Makes the user's directory. Root only.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn make() -> anyhow::Result<User> {
        let home = std::env::temp_dir().join(format!("mote-tests-{}", std::process::id()));
        let made = std::fs::create_dir(&home).and_then(|()| chown(&home, Some(USER), Some(USER)));
        made.with_context(|| format!("cannot make {}", home.display()))?;
        Ok(User { home })
    }

    /// What stands before a program and its arguments, so that this user runs it.
    pub(crate) fn prefix(&self) -> Vec<String> {
        let home = self.home.display();
        let setpriv = ["setpriv", "--clear-groups"].map(str::to_owned);
        let ids = [format!("--reuid={USER}"), format!("--regid={USER}"), "--".to_owned()];
        let env = ["env", "--unset=XDG_RUNTIME_DIR", "PATH=/usr/local/bin:/usr/bin:/bin"].map(str::to_owned);
        let own = [format!("HOME={home}"), format!("TMPDIR={home}")];
        [&setpriv[..], &ids, &env, &own].concat()
    }

    /// A command of this user's.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let prefix = self.prefix();
        let mut command = Command::new(&prefix[0]);
        command.args(&prefix[1..]).arg(program);
        command
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// The first of the directories above a file that other users may not go through.
pub(crate) fn closed_above(file: &Path) -> Option<&Path> {
    let is_open = |directory: &Path| {
        std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
    };
    file.ancestors().skip(1).find(|directory| !is_open(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_directory_is_found() {
        let root = std::env::temp_dir().join(format!("mote-closed-{}", std::process::id()));
        let inner = root.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        let set = |mode| std::fs::set_permissions(&root, PermissionsExt::from_mode(mode)).unwrap();
        set(0o755);
        assert_eq!(closed_above(&inner.join("file")), None);
        set(0o700);
        assert_eq!(closed_above(&inner.join("file")), Some(root.as_path()));
        std::fs::remove_dir_all(&root).unwrap();
    }
}

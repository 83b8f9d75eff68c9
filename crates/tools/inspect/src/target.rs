//! What a person means by a word: a command, a process or a file.

use crate::error::Error;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A running process.
    Process(u32),
    /// A program or library.
    File(PathBuf),
}

impl Target {
    /// Finds out what `word` means: a number is a process (unless only a file has that name); a word with a slash is a
    /// file; any other word is a command in PATH, or else a file here.
    ///
    /// # Errors
    /// It is none of them.
    pub fn find(word: &OsStr) -> Result<Target, Error> {
        let path = Path::new(word);
        if let Some(pid) = word.to_str().and_then(|word| word.parse().ok()) {
            return match (Path::new("/proc").join(word).exists(), path.exists()) {
                (false, true) => Ok(Target::File(path.to_owned())),
                (false, false) => Err(Error::NoProcess(pid)),
                (true, _) => Ok(Target::Process(pid)),
            };
        }
        let has_slash = path.components().count() > 1 || path.is_absolute();
        let found = if has_slash { None } else { command(path) };
        match found {
            Some(file) => Ok(Target::File(file)),
            None if path.exists() => Ok(Target::File(path.to_owned())),
            None => Err(Error::NotFound(word.to_string_lossy().into_owned())),
        }
    }
}

/// The first executable file of that name in the directories of PATH.
fn command(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_processes_commands_or_files() {
        let own = std::process::id();
        assert_eq!(Target::find(own.to_string().as_ref()).ok(), Some(Target::Process(own)));
        assert!(
            matches!(Target::find("sh".as_ref()), Ok(Target::File(file)) if file.ends_with("sh") && file.is_absolute())
        );
        assert_eq!(Target::find("Cargo.toml".as_ref()).ok(), Some(Target::File("Cargo.toml".into())));
        assert!(matches!(Target::find("4000000000".as_ref()), Err(Error::NoProcess(_))));
        assert!(matches!(Target::find("no-such-command".as_ref()), Err(Error::NotFound(_))));
        assert!(matches!(Target::find("./sh".as_ref()), Err(Error::NotFound(_))));
    }
}

//! Programs by the words that a person names them with.

use crate::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Scripts whose interpreters are scripts.
const SCRIPTS_MAX: usize = 4;

/// A program of ELF, with its words.
pub(crate) struct Program {
    /// As it is called.
    pub(crate) name: OsString,
    /// Its path first.
    pub(crate) words: Vec<OsString>,
}

impl Program {
    /// The program of these words; of a script its interpreter, with what the script's first line says.
    pub(crate) fn find(words: &[OsString]) -> Result<Program, Error> {
        let (program, arguments) = words.split_first().ok_or(Error::NoProgram)?;
        let not_executed = || Error::NotExecuted(program.to_string_lossy().into_owned());
        let mut name = program.clone();
        let mut words = vec![find(program).ok_or_else(not_executed)?.into_os_string()];
        for _ in 0..SCRIPTS_MAX {
            let mut head = Vec::new();
            let path = words.first().ok_or_else(not_executed)?;
            let file = File::open(path).map_err(|_| not_executed())?;
            file.take(256).read_to_end(&mut head).map_err(|_| not_executed())?;
            let Some(line) = head.strip_prefix(b"#!") else { break };
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let mut first = line.trim_ascii().splitn(2, |byte| *byte == b' ');
            let before = first
                .by_ref()
                .map(|word| OsString::from_vec(word.trim_ascii().to_owned()))
                .collect::<Vec<_>>();
            words.splice(0..0, before);
            name = words.first().cloned().unwrap_or_default();
        }
        words.extend_from_slice(arguments);
        Ok(Program { name, words })
    }

    /// The last part of its name.
    pub(crate) fn short_name(&self) -> String {
        Path::new(&self.name).file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A program's path, by PATH where its name is no path; nothing where there is none that can be executed.
#[must_use]
pub fn find(program: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(is_program);
    }
    let places = std::env::var_os("PATH")?;
    std::env::split_paths(&places).map(|place| place.join(program)).find(is_program)
}

//! Which runs have ended as they must. A search of all states finds the same again as long as the model, the options
//! and the tools are the same, so that `cargo xtask test` makes only those runs that are new.

use super::Model;
use super::digest::{FNV_START, fnv};
use super::header::Run;
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that remembers them, one empty file for each run.
pub(super) struct Passed {
    folder: PathBuf,
    /// Digest of what all models share: the memory framework, and the versions of spin and the compiler.
    shared: u64,
}

impl Passed {
    /// # Errors
    /// `memory.h` cannot be read, or the tools do not say their versions.
    pub(super) fn read(root: &Path) -> anyhow::Result<Passed> {
        let memory = root.join("models/memory.h");
        let mut shared = digest(FNV_START, &fs::read(&memory).context("cannot read models/memory.h")?);
        for (tool, option) in [("spin", "-V"), ("cc", "--version")] {
            let said =
                Command::new(tool).arg(option).output().with_context(|| format!("cannot run {tool}"))?;
            shared = digest(shared, &said.stdout);
        }
        let folder = root.join("target/models/passed");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Passed { folder, shared })
    }

    /// Whether this run has ended as it must.
    pub(super) fn has(&self, model: &Model, run: &Run) -> bool {
        self.file(model, run).is_file()
    }

    /// Remembers that this run has ended as it must. Where that fails, the run is made again another time.
    pub(super) fn add(&self, model: &Model, run: &Run) {
        let _ = fs::write(self.file(model, run), "");
    }

    fn file(&self, model: &Model, run: &Run) -> PathBuf {
        let sum = digest(self.shared, model.code.as_bytes());
        let sum = digest(sum, format!("{:?} {}", run.expect, run.command_line()).as_bytes());
        self.folder.join(format!("{sum:016x}"))
    }
}

fn digest(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().copied().fold(start, fnv)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::header::Header;

    #[test]
    fn a_run_is_known_until_its_model_changes() {
        let folder = std::env::temp_dir().join(format!("mote-models-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let text = "/* T.\n * @digest none\n * @pass short | a | -DA\n * @pass short | b | -DB\n */\nbody";
        let header = Header::parse(text).unwrap();
        let mut model = Model { name: "m".to_owned(), file: "m".into(), header, code: "body".to_owned() };
        let passed = Passed { folder: folder.clone(), shared: 1 };
        passed.add(&model, &model.header.runs[0]);
        assert!(passed.has(&model, &model.header.runs[0]));
        assert!(!passed.has(&model, &model.header.runs[1]));
        model.code.push('x');
        assert!(!passed.has(&model, &model.header.runs[0]));
        fs::remove_dir_all(folder).unwrap();
    }
}

//! Which runs have ended as they must. A search of all states finds the same again as long as model and options are the
//! same, on any machine, so that `cargo xtask test` makes only those runs that are new.
//!
//! They are rows of `models/passed.txt`, which belongs to the source: who changes a model runs it, and commits what
//! passed with it.

use super::Model;
use super::digest::{FNV_START, fnv};
use super::header::Run;
use anyhow::Context;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How the file begins.
const HEAD: &str = "\
# Runs of the models that have ended as they must, as `cargo xtask models` notes them: model, run, and a digest of the
# model, of memory.h and of the options.
";

/// The file of the runs that have passed.
pub(super) struct Passed {
    file: PathBuf,
    /// Digest of what all models share: the memory framework.
    shared: u64,
    rows: BTreeSet<String>,
}

impl Passed {
    /// # Errors
    /// `memory.h` cannot be read.
    pub(super) fn read(root: &Path) -> anyhow::Result<Passed> {
        let memory = fs::read_to_string(root.join("models/memory.h"));
        let memory = memory.context("cannot read models/memory.h")?;
        let file = root.join("models/passed.txt");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let rows = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        Ok(Passed { file, shared: digest(FNV_START, &meant(&memory)), rows })
    }

    /// Whether this run has ended as it must.
    pub(super) fn has(&self, model: &Model, run: &Run) -> bool {
        self.rows.contains(&self.row(model, run))
    }

    /// Remembers that this run has ended as it must.
    pub(super) fn add(&mut self, model: &Model, run: &Run) {
        self.rows.insert(self.row(model, run));
    }

    /// Writes the file anew, without the rows that are of no run of `models` any more, where it says something else.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, models: &[Model]) -> anyhow::Result<()> {
        let runs = models.iter().flat_map(|model| model.header.runs.iter().map(move |run| (model, run)));
        let rows: BTreeSet<String> = runs.map(|(model, run)| self.row(model, run)).collect();
        let kept: Vec<&str> = self.rows.intersection(&rows).map(String::as_str).collect();
        let text = format!("{HEAD}{}\n", kept.join("\n"));
        if fs::read_to_string(&self.file).is_ok_and(|old| old == text) {
            return Ok(());
        }
        fs::write(&self.file, text).with_context(|| format!("cannot write {}", self.file.display()))
    }

    fn row(&self, model: &Model, run: &Run) -> String {
        let sum = digest(self.shared, &meant(&model.code));
        let sum = digest(sum, &format!("{:?} {}", run.expect, run.command_line()));
        format!("{} | {} | {sum:016x}", model.name, run.title)
    }
}

fn digest(start: u64, text: &str) -> u64 {
    text.bytes().fold(start, fnv)
}

/// What a text means to spin: without comments and white space, and without the `\` of a line that goes on.
fn meant(text: &str) -> String {
    let mut meant = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((code, comment)) = rest.split_once("/*") {
        meant.push_str(code);
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
    }
    meant.push_str(rest);
    meant.replace("\\\n", "").split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::header::Header;

    #[test]
    fn comments_and_space_mean_nothing() {
        assert_eq!(meant("a /* b\n * c */ d\n/* e */#define F \\\n\tg /* h"), "ad#defineFg");
    }

    #[test]
    fn a_run_is_known_until_its_model_changes() {
        let file = std::env::temp_dir().join(format!("mote-models-{}.txt", std::process::id()));
        let text = "/* T.\n * @digest none\n * @pass short | a | -DA\n * @pass short | b | -DB\n */\nbody";
        let header = Header::parse(text).unwrap();
        let mut models = [Model { name: "m".to_owned(), file: "m".into(), header, code: "body".to_owned() }];
        let mut passed = Passed { file: file.clone(), shared: 1, rows: BTreeSet::new() };
        let [model] = &models;
        passed.add(model, &model.header.runs[0]);
        assert!(passed.has(model, &model.header.runs[0]));
        assert!(!passed.has(model, &model.header.runs[1]));
        passed.write(&models).unwrap();
        assert!(fs::read_to_string(&file).unwrap().lines().any(|line| line.starts_with("m | a | ")));
        models[0].code.push_str(" /* why */\n");
        assert!(passed.has(&models[0], &models[0].header.runs[0]), "it means the same");
        models[0].code.push('x');
        assert!(!passed.has(&models[0], &models[0].header.runs[0]));
        passed.write(&models).unwrap();
        assert!(!fs::read_to_string(&file).unwrap().contains("m | a"), "it is of no run any more");
        fs::remove_file(file).unwrap();
    }
}

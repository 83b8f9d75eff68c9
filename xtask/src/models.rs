//! `cargo xtask models`: runs the models of `models/` through the model checker spin.
//!
//! What must pass has to pass, and what a model injects has to be found: a model that no longer finds its own
//! errors proves nothing. `--check` compares the code that the models stand for with what it was when somebody
//! last looked at the model; `--bless` says that somebody has looked.

mod digest;
mod header;
mod pan;
mod passed;

use anyhow::{Context, bail};
use header::{Expect, Header, Run};
use pan::{End, Result as Checked};
use passed::Passed;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;
use std::{fs, thread};

/// Which runs are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Those that take seconds.
    Short,
    /// Of these, those that `models/passed.txt` does not have; and of each model the first error that must be found.
    New,
    /// All runs, also the long ones.
    All,
}

/// One model file.
struct Model {
    name: String,
    file: PathBuf,
    header: Header,
    /// What stands behind the header.
    code: String,
}

/// Does what the words after `models` ask for.
pub(crate) fn chore(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    match words {
        ["--check"] => check(root),
        ["--bless", name] => bless(root, name),
        ["--long", names @ ..] => run(root, Which::All, names),
        ["--new", names @ ..] => run(root, Which::New, names),
        names => run(root, Which::Short, names),
    }
}

/// Fails when code that a model stands for has changed since the model was last looked at.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for model in all(root)? {
        let now = digest::of(root, &model.header.code)
            .with_context(|| format!("models/{} names code that is not there", model.name))?;
        if now != model.header.digest {
            let name = model.name.trim_end_matches(".pml");
            wrong.push(format!(
                "{}: the code it stands for has changed ({}); compare them, then: cargo xtask models --bless {name}",
                model.name,
                model.header.code.iter().map(|code| code.file.as_str()).collect::<Vec<_>>().join(", ")
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("models to look at:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn bless(root: &Path, name: &str) -> anyhow::Result<()> {
    let models = chosen(root, &[name])?;
    for model in models {
        let now = digest::of(root, &model.header.code)?;
        let text = fs::read_to_string(&model.file)?;
        fs::write(&model.file, header::with_digest(&text, &now))?;
        println!("{}: {} -> {now}", model.name, model.header.digest);
    }
    Ok(())
}

/// All models, by name.
fn all(root: &Path) -> anyhow::Result<Vec<Model>> {
    let folder = root.join("models");
    let mut models = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file.extension().is_some_and(|extension| extension == "pml") {
            let text = fs::read_to_string(&file)?;
            let header = Header::parse(&text).with_context(|| format!("models/{name}"))?;
            let code = text.split_once("*/").map_or("", |(_, code)| code).to_owned();
            models.push(Model { name, file, header, code });
        }
    }
    models.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(models)
}

/// The models with these names; all where none is given.
fn chosen(root: &Path, names: &[&str]) -> anyhow::Result<Vec<Model>> {
    let models = all(root)?;
    for name in names {
        if !models.iter().any(|model| is_called(model, name)) {
            let there: Vec<&str> = models.iter().map(|model| model.name.trim_end_matches(".pml")).collect();
            bail!("no model {name}; there are {}", there.join(", "));
        }
    }
    let wanted = |model: &Model| names.is_empty() || names.iter().any(|name| is_called(model, name));
    Ok(models.into_iter().filter(wanted).collect())
}

fn is_called(model: &Model, name: &str) -> bool {
    model.name.trim_end_matches(".pml") == name.trim_end_matches(".pml")
}

/// Runs models and prints a table for each.
fn run(root: &Path, which: Which, names: &[&str]) -> anyhow::Result<()> {
    let models = chosen(root, names)?;
    if !pan::is_there() {
        mote_skip::skip("no spin: the models were not run; install the package spin");
        return Ok(());
    }
    let began = Instant::now();
    let mut passed = Passed::read(root)?;
    let asked: Vec<(usize, &Run)> = models
        .iter()
        .enumerate()
        .flat_map(|(model, each)| each.header.runs.iter().map(move |run| (model, run)))
        .filter(|(_, run)| which == Which::All || !run.is_long)
        .collect();
    let mut shown = BTreeSet::new();
    let mut is_made = |(at, run): &(usize, &Run)| {
        let is_proof = matches!(run.expect, Expect::Find | Expect::Reach) && shown.insert(*at);
        which != Which::New || is_proof || !passed.has(&models[*at], run)
    };
    let jobs: Vec<(usize, &Run)> = asked.iter().copied().filter(|job| is_made(job)).collect();
    if jobs.len() < asked.len() {
        println!("{} runs have passed before, with the same models", asked.len() - jobs.len());
    }
    let failed = run_all(root, &models, &jobs, &mut passed)?;
    if let Err(why) = passed.write(&all(root)?) {
        println!("{why:#}: these runs will be made again");
    }
    let ended_well = jobs.len() as u64 - failed;
    println!("\n{} runs in {:.0} s", jobs.len(), began.elapsed().as_secs_f64());
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {ended_well} passed; {failed} failed");
    if failed > 0 {
        bail!("{failed} runs of models did not end as they must");
    }
    Ok(())
}

/// What came of the runs, in their order.
struct Table<'m> {
    models: &'m [Model],
    jobs: &'m [(usize, &'m Run)],
    passed: &'m mut Passed,
    results: Vec<Option<Checked>>,
    /// So many rows are printed: those whose runs have ended, up to the first that has not.
    printed: usize,
    /// Of these, how many did not end as they must.
    failed: u64,
}

impl Table<'_> {
    /// Takes a result, and prints what can be printed by now.
    fn take(&mut self, number: usize, result: Checked) {
        if let Some(slot) = self.results.get_mut(number) {
            *slot = Some(result);
        }
        while let (Some((at, run)), Some(Some(result))) =
            (self.jobs.get(self.printed), self.results.get(self.printed))
        {
            let is_first = self.printed.checked_sub(1).is_none_or(|before| self.jobs[before].0 != *at);
            if let Some(model) = self.models.get(*at).filter(|_| is_first) {
                println!("\n{}: {}", model.name, model.header.title);
                println!("| run | result | states | memory (MiB) | time (s) |\n|---|---|---|---|---|");
            }
            let is_good = print(run, result);
            self.failed += u64::from(!is_good);
            if let Some(model) = self.models.get(*at).filter(|_| is_good) {
                self.passed.add(model, run);
            }
            self.printed += 1;
        }
    }
}

/// Makes the runs, as many at once as there are processors, and prints a table for each model. Returns how many did not
/// end as they must.
fn run_all(
    root: &Path,
    models: &[Model],
    jobs: &[(usize, &Run)],
    passed: &mut Passed,
) -> anyhow::Result<u64> {
    let queue: Mutex<VecDeque<usize>> = Mutex::new((0..jobs.len()).collect());
    let results = jobs.iter().map(|_| None).collect();
    let table = Mutex::new(Table { models, jobs, passed, results, printed: 0, failed: 0 });
    // Of this process alone: somebody else may be running models, too.
    let place = root.join("target/models").join(std::process::id().to_string());
    let work = || -> anyhow::Result<()> {
        while let Some(number) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
            let Some((model, run)) = jobs.get(number) else { break };
            let model = models.get(*model).context("no such model")?;
            let result = pan::check(&model.file, run, &place.join(number.to_string()))?;
            table.lock().ok().context("a run of a model has panicked")?.take(number, result);
        }
        Ok(())
    };
    let ends: Vec<_> = thread::scope(|scope| {
        let workers = 0..thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = workers.map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let _ = fs::remove_dir_all(&place);
    for end in ends {
        end.ok().context("a run of a model has panicked")??;
    }
    let table = table.into_inner().ok().context("a run of a model has panicked")?;
    anyhow::ensure!(table.printed == jobs.len(), "a run of a model was lost");
    Ok(table.failed)
}

/// Prints a row in the form of the thesis's tables 7.1 to 7.6; false when the run did not end as it must.
fn print(run: &Run, result: &Checked) -> bool {
    let (word, good) = match (run.expect, &result.end) {
        (Expect::Pass, End::Nothing) => ("PASS", true),
        (Expect::Find, End::Error) => ("INJECT", true),
        (Expect::Reach, End::Error) => ("REACHED", true),
        (Expect::Miss, End::Nothing) => ("FNEG", true),
        (Expect::Find, End::Nothing) => ("FNEG, must be found", false),
        (Expect::Reach, End::Nothing) => ("FAIL: never reached", false),
        (Expect::Miss, End::Error) => ("INJECT, was thought to be harmless", false),
        (Expect::Pass, End::Error) => ("FAIL", false),
        (_, End::Cut(_)) => ("CUT", false),
    };
    println!(
        "| {} | {word} | {} | {:.0} | {:.1} |",
        run.title, result.states, result.mebibytes, result.seconds
    );
    if !good {
        println!("  {}\n  {}", run.command_line(), result.end.why());
    }
    good
}

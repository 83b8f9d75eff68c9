//! `rcu`: reading, grace periods and updates, beside liburcu and beside other ways to share a value.
//!
//! The shapes of the thesis's figures 6.12 to 6.22: cost of a read, rates by number of readers (`scaling`), by length
//! of the section (`section`), of readers against an updater of different speeds (`rates`), and of an updater by the
//! size of its batches (`batch`). With `MOTE_BENCH_PLOTS=DIRECTORY` the series
//! are drawn there as SVG.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::rcu_plot::{Plot, Series};
use super::rcu_work::Setting;
use super::session::{Lab, workload};
use super::{native, rcu_hash};
use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("programs/urcu.c");
const LIBURCU: &str = "liburcu";
const FLAVORS: [&str; 5] = ["qsbr", "expedited", "library", "general", "signal"];
/// Other things than RCU: case-names and peers.
const OTHERS: [&str; 6] =
    ["std RwLock", "std Mutex", "Mutex per thread", "parking_lot RwLock", "crossbeam-epoch", "arc-swap"];

/// Measures all cases in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut bench =
        Bench { lab: Lab::new()?, peer: None, missing: String::new(), samples: Samples::default() };
    match build(&bench.lab) {
        Ok(program) => bench.peer = Some(program),
        Err(why) => bench.missing = format!("{why:#}"),
    }
    let (reads, syncs, rounds, ms) = effort.choose((2_000_000, 20_000, 5, 60), (40_000_000, 200_000, 7, 400));
    for _ in 0..rounds {
        bench.measure("", "cost", &[reads, syncs])?;
        bench.measure(
            "update/",
            "run",
            &Setting { readers: 1, spins: 0, pause: Some(0), ms, batch: 0 }.numbers(),
        )?;
    }
    let mut figures = bench.costs();
    figures.extend(rcu_hash::run(&mut bench.lab, effort)?);
    if let Effort::Full = effort {
        figures.extend(series(&mut bench)?);
    }
    Ok(figures)
}

/// What is measured, and what has been.
struct Bench {
    lab: Lab,
    /// liburcu's program, or why there is none.
    peer: Option<PathBuf>,
    missing: String,
    samples: Samples,
}

impl Bench {
    /// Runs a workload of ours and liburcu's; cases get `prefix`, and liburcu's `liburcu/` before that.
    fn measure(&mut self, prefix: &str, kind: &str, numbers: &[u64]) -> anyhow::Result<()> {
        let ours = workload(&format!("rcu_{kind}"), numbers)?;
        let text = run_alone(&mut self.lab, ours)?;
        self.samples.read(&text, |case| Some(format!("{prefix}{case}")))?;
        if let Some(program) = &self.peer {
            let mut command: Vec<OsString> = vec![program.into(), kind.into()];
            command.extend(numbers.iter().map(|number| number.to_string().into()));
            let text = run_alone(&mut self.lab, command)?;
            self.samples.read(&text, |case| Some(format!("{LIBURCU}/{prefix}{case}")))?;
        }
        Ok(())
    }

    /// The figures of a case of liburcu's beside ours.
    fn pair(&self, figure: &str, case: &str, unit: &'static str) -> [Figure; 2] {
        let theirs = match self.peer {
            Some(_) => Figure::new(figure, unit, self.samples.of(&format!("{LIBURCU}/{case}"))),
            None => Figure::absent(figure, unit, &self.missing),
        };
        [Figure::new(figure, unit, self.samples.of(case)), theirs.of_peer(LIBURCU)]
    }

    fn costs(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for kind in ["read", "sync", "sync_beside"] {
            for flavor in FLAVORS {
                let case = format!("{kind}/{flavor}");
                figures.extend(self.pair(&case, &case, "ns"));
            }
        }
        for other in OTHERS {
            let values = self.samples.of(&format!("read/{}", other.replace(' ', "_")));
            figures.push(Figure::new("read", "ns", values).of_peer(other));
        }
        for (kind, rate) in [("update", "updates"), ("update_reads", "reads")] {
            for flavor in FLAVORS {
                figures.extend(self.pair(
                    &format!("{kind}/{flavor}"),
                    &format!("update/{rate}/{flavor}"),
                    "1/s",
                ));
            }
            for other in OTHERS {
                let values = self.samples.of(&format!("update/{rate}/{}", other.replace(' ', "_")));
                figures.push(Figure::new(kind, "1/s", values).of_peer(other));
            }
        }
        figures
    }
}

/// A figure of the thesis: rates against something that varies.
struct Shape {
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    settings: Vec<(u64, Setting)>,
    rate: &'static str,
}

/// Measures the series, prints them as figures `NAME/X/...`, draws them if asked to.
fn series(bench: &mut Bench) -> anyhow::Result<Vec<Figure>> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get()) as u64;
    let ms = 200;
    let alone = Setting { readers: 1, spins: 0, pause: None, ms, batch: 0 };
    let shapes = [
        Shape {
            name: "scaling",
            title: "Reads by number of readers",
            axis: "readers",
            settings: (1..=cpus.min(16)).map(|readers| (readers, Setting { readers, ..alone })).collect(),
            rate: "reads",
        },
        Shape {
            name: "section",
            title: "Reads by length of the section, all CPUs",
            axis: "spins in the section",
            settings: [1, 10, 100, 1_000]
                .map(|spins| (spins, Setting { readers: cpus.min(16), spins, ..alone }))
                .to_vec(),
            rate: "reads",
        },
        Shape {
            name: "rates",
            title: "Reads beside an updater that pauses",
            axis: "spins between updates",
            settings: [1, 10, 100, 1_000, 10_000]
                .map(|pause| (pause, Setting { pause: Some(pause), ..alone }))
                .to_vec(),
            rate: "reads",
        },
        Shape {
            name: "batch",
            title: "Updates by how many old values wait for one grace period, beside a reader",
            axis: "values that wait",
            settings: [1, 8, 64, 512, 4_096, 32_768]
                .map(|batch| (batch, Setting { pause: Some(0), batch, ..alone }))
                .to_vec(),
            rate: "updates",
        },
    ];
    let mut figures = Vec::new();
    for shape in &shapes {
        for (x, setting) in &shape.settings {
            for _ in 0..3 {
                bench.measure(&format!("{}/{x}/", shape.name), "run", &setting.numbers())?;
            }
        }
        figures.extend(shape.figures(bench));
        if let Some(directory) = std::env::var_os("MOTE_BENCH_PLOTS") {
            shape.draw(bench, Path::new(&directory))?;
        }
    }
    Ok(figures)
}

impl Shape {
    fn case(&self, x: u64, what: &str) -> String {
        format!("{}/{x}/{}/{}", self.name, self.rate, what.replace(' ', "_"))
    }

    fn figures(&self, bench: &Bench) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (x, _) in &self.settings {
            for flavor in FLAVORS {
                let name = format!("{}/{x}/{flavor}", self.name);
                figures.extend(bench.pair(&name, &self.case(*x, flavor), "1/s"));
            }
            for other in OTHERS {
                let values = bench.samples.of(&self.case(*x, other));
                figures.push(Figure::new(&format!("{}/{x}", self.name), "1/s", values).of_peer(other));
            }
        }
        figures
    }

    fn axis_of_rates(&self) -> &'static str {
        if self.rate == "reads" { "reads a second" } else { "updates a second" }
    }

    fn draw(&self, bench: &Bench, directory: &Path) -> anyhow::Result<()> {
        let of = |name: String, prefix: &str, what: &str| {
            let at = |x: u64| bench.samples.median(&format!("{prefix}{}", self.case(x, what)));
            let points = self.settings.iter().filter_map(|(x, _)| Some((*x as f64, at(*x)?))).collect();
            Series { name, points }
        };
        let mut series: Vec<Series> =
            FLAVORS.iter().map(|what| of(format!("mote {what}"), "", what)).collect();
        series.extend(FLAVORS.iter().map(|what| of(format!("liburcu {what}"), "liburcu/", what)));
        series.extend(OTHERS.iter().map(|what| of((*what).to_owned(), "", what)));
        series.retain(|series| !series.points.is_empty());
        let plot = Plot { title: self.title, x: self.axis, y: self.axis_of_rates(), series };
        let path = directory.join(format!("rcu-{}.svg", self.name));
        std::fs::write(&path, plot.svg()).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Runs a command that writes its figures to the file that is its last argument.
pub(super) fn run_alone(lab: &mut Lab, command: Vec<OsString>) -> anyhow::Result<String> {
    let result = lab.fresh("result");
    let [program, arguments @ ..] = command.as_slice() else { anyhow::bail!("no command") };
    let status = Command::new(program).args(arguments).arg(&result).status();
    anyhow::ensure!(status.context("cannot run a workload")?.success(), "a workload of rcu has failed");
    std::fs::read_to_string(&result).context("a workload of rcu has left no figures")
}

fn build(lab: &Lab) -> anyhow::Result<PathBuf> {
    let (source, program) = (lab.path().join("urcu.c"), lab.path().join("urcu-c"));
    std::fs::write(&source, SOURCE).context("cannot write the program for liburcu")?;
    let libraries =
        ["-lurcu-qsbr", "-lurcu-mb", "-lurcu-memb", "-lurcu-signal", "-lurcu-bp", "-lurcu-common"];
    native::compile(Command::new("cc").arg("-o").arg(&program).arg(&source).args(libraries))
        .context("liburcu 0.13 is not installed")?;
    Ok(program)
}

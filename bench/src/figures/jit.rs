//! `jit`: what it costs to copy code when programs make it (`mote_jitcode`).
//!
//! `call`: what a system call takes longer that has nothing to do with code, of any process. `page`: what making a page
//! executable takes longer, and `page/copy`, what a copy of so many bytes takes within a program. `sites/N`: a program
//! that compiles N programs of eBPF by our own compiler, each once, through the same without copies. `node`, `luajit`,
//! `java`: the same of scripts that keep their compilers busy. All in turns.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::session::{Lab, workload};
use super::stopwatch::wall_ns;
use anyhow::Context;
use mote_jitcode::Collector;
use std::convert::Infallible;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sites that are compiled, as in the thesis (figures 7.6 and 7.7).
const SITES: [u64; 4] = [10, 1_000, 10_000, 60_000];
/// How often a recorder reads.
const TICK: Duration = Duration::from_millis(5);

/// Measures all of it.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    if let Err(why) = Collector::attach() {
        return Ok(vec![Figure::absent("page", "us", &why.to_string())]);
    }
    let mut lab = Lab::new()?;
    let (rounds, calls, sites) = effort.choose((3, 20_000, &SITES[..3]), (9, 100_000, &SITES[..]));
    let mut samples = Samples::default();
    for _ in 0..rounds {
        calls_and_pages(&mut lab, calls, &mut samples)?;
        for count in sites {
            compiled(&mut lab, *count, &mut samples)?;
        }
    }
    let mut figures: Vec<Figure> = [("call", "ns"), ("page", "us"), ("page/copy", "us")]
        .map(|(case, unit)| Figure::new(case, unit, samples.of(case)))
        .into();
    let cases = sites.iter().map(|count| format!("sites/{count}"));
    figures.extend(cases.map(|case| Figure::new(&case, "x", samples.of(&case))));
    figures.extend(scripts(lab.path(), effort)?);
    Ok(figures)
}

/// Does something while the code of this process, and of those that it starts, is copied.
fn watched<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut collector = Collector::attach()?;
    collector.watch(std::process::id().cast_signed())?;
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let Ok(()) = collector.read(|_| Ok::<(), Infallible>(()));
                std::thread::sleep(TICK);
            }
            let Ok(()) = collector.read(|_| Ok::<(), Infallible>(()));
            collector.lost()
        });
        let done = work();
        ends.store(true, Ordering::Relaxed);
        let lost = reader.join().ok().context("the reader has failed")?;
        anyhow::ensure!(lost == [0, 0], "{lost:?} copies were lost");
        done
    })
}

/// Runs a workload, and returns what it has written.
fn run_workload(lab: &mut Lab, kind: &str, number: u64) -> anyhow::Result<String> {
    let result = lab.path().join("result");
    let words = workload(kind, &[number])?;
    let [program, words @ ..] = words.as_slice() else { anyhow::bail!("there is no program") };
    let status =
        Command::new(program).args(words).arg(&result).status().context("cannot start a workload")?;
    anyhow::ensure!(status.success(), "the workload {kind} has failed: {status}");
    std::fs::read_to_string(&result).context("a workload has written nothing")
}

/// What a workload has written of a case.
fn value(text: &str, case: &str) -> anyhow::Result<f64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let value = lines.find(|(name, _)| *name == case).map(|(_, value)| value);
    value.and_then(|value| value.parse().ok()).with_context(|| format!("a workload has written no {case}"))
}

fn calls_and_pages(lab: &mut Lab, calls: u64, samples: &mut Samples) -> anyhow::Result<()> {
    let bare = run_workload(lab, "jit_pages", calls)?;
    let with = watched(|| run_workload(lab, "jit_pages", calls))?;
    for (case, scale) in [("call", 1.0), ("page", 1e-3)] {
        samples.add(case, (value(&with, case)? - value(&bare, case)?) * scale);
    }
    samples.add("page/copy", value(&bare, "copy")? * 1e-3);
    Ok(())
}

fn compiled(lab: &mut Lab, count: u64, samples: &mut Samples) -> anyhow::Result<()> {
    let bare = run_workload(lab, "jit_sites", count)?;
    let with = watched(|| run_workload(lab, "jit_sites", count))?;
    samples.add(&format!("sites/{count}"), value(&with, "sites")? / value(&bare, "sites")?);
    Ok(())
}

const JAVASCRIPT: &str = "
const pieces = [];
for (let n = 0; n < COUNT; n++) {
  const f = new Function('a', 'b', `let s = ${n}; for (let i = 0; i < 2000; i++) s = (s * a + b + i * ${n}) % 1000003; return s`);
  let sum = 0;
  for (let i = 0; i < 40; i++) sum += f(i, n);
  pieces.push(sum);
}
console.log(pieces.reduce((a, b) => a + b, 0));
";
const LUA: &str = "
local sum = 0
for n = 1, COUNT do
  local text = string.format('local a, b = ... local s = %d for i = 1, 20000 do s = (s * a + b + i * %d) %% 1000003 end return s', n, n)
  local f = load(text)
  for i = 1, 5 do sum = sum + f(i, n) end
end
print(sum)
";
const JAVA: &str = "
public class Load {
  static long step(int i, int kind) { return kind == 1 ? i % 7 : kind == 2 ? i / 2 : Integer.toString(i).hashCode(); }
  public static void main(String[] words) {
    long sum = 0;
    for (int round = 0; round < COUNT; round++)
      for (int i = 0; i < 20000; i++) sum += step(i, round % 3);
    System.out.println(sum);
  }
}
";

/// Scripts that keep compilers busy: the wall time of each through the same without copies.
fn scripts(folder: &Path, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let (rounds, node, lua, java) = effort.choose((3, "200", "100", "100"), (9, "2000", "1000", "1000"));
    let write = |name: &str, text: &str, count: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text.replace("COUNT", count)).context("cannot write a script").map(|()| path)
    };
    let javac =
        |source: &Path| Command::new("javac").arg(source).status().is_ok_and(|status| status.success());
    let class = javac(&write("Load.java", JAVA, java)?);
    let mut commands = vec![
        ("node", vec!["node".into(), write("load.js", JAVASCRIPT, node)?.into_os_string()]),
        ("luajit", vec!["luajit".into(), write("load.lua", LUA, lua)?.into_os_string()]),
    ];
    if class {
        commands.push(("java", vec!["java".into(), "-cp".into(), folder.into(), "Load".into()]));
    }
    let mut figures = Vec::new();
    for (case, words) in commands {
        let once = || -> anyhow::Result<f64> {
            let begun = wall_ns();
            let status = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).status()?;
            anyhow::ensure!(status.success(), "{case}: {status}");
            Ok((wall_ns() - begun) as f64)
        };
        let mut ratios = Vec::new();
        if let Err(why) = once() {
            figures.push(Figure::absent(case, "x", &why.to_string()));
            continue;
        }
        for _ in 0..rounds {
            let bare = once()?;
            ratios.push(watched(once)? / bare);
        }
        figures.push(Figure::new(case, "x", &ratios));
    }
    Ok(figures)
}

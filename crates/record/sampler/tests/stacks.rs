//! Stacks of programs without frame pointers are followed to their begin.

use mote_sampler::{Error, Round, Sampler, Settings, Targets};
use mote_symbol::Image;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SOURCE: &str = r#"
#include <stdlib.h>
static volatile double value = 1;
__attribute__((noinline, noclone)) void innermost(long turns) {
    double local[64];
    for (long n = 0; n < turns; n++) { local[n & 63] = value; value = local[n & 63] * 1.0000001; }
}
__attribute__((noinline, noclone)) void middle(long turns, int depth) {
    volatile char room[200];
    room[depth] = 1;
    if (depth > 0) middle(turns, depth - 1); else innermost(turns);
    room[depth] = 2;
}
__attribute__((noinline, noclone)) int compare(const void *a, const void *b) {
    middle(1000000, 2);
    return *(const int *)a - *(const int *)b;
}
int main(void) {
    int numbers[] = {3, 1, 2, 5, 4, 9, 8, 7, 6, 0};
    for (int n = 0; n < 20; n++) qsort(numbers, 10, sizeof(int), compare);
    return numbers[0];
}
"#;

fn program(dir: &Path, flags: &[&str]) -> Option<PathBuf> {
    let (source, program) = (dir.join("app.c"), dir.join("app"));
    std::fs::write(&source, SOURCE).expect("a directory of the test");
    let built = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(&source).output();
    let Ok(built) = built else {
        mote_skip::skip(format_args!("there is no gcc"));
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// How threads are sampled.
fn settings(targets: Targets, stack: u32) -> Settings {
    Settings { frequency: 997, stack, off_cpu: false, cpus: cpus(), by_cpu: true, targets }
}

fn opened(settings: &Settings) -> Option<Sampler> {
    match Sampler::open(settings) {
        Ok(sampler) => Some(sampler),
        Err(why @ Error::Forbidden(_)) => {
            mote_skip::skip(format_args!("{why}"));
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Reads until a program has ended.
fn run(mut sampler: Sampler, program: &Path) -> (u32, Vec<Round>) {
    let mut child = Command::new(program).spawn().expect("it was just built");
    let mut rounds = Vec::new();
    while child.try_wait().expect("a child").is_none() {
        rounds.push(sampler.round(false));
        std::thread::sleep(Duration::from_millis(20));
    }
    sampler.disable();
    rounds.push(sampler.round(true));
    (child.id(), rounds)
}

#[test]
fn are_whole_without_frame_pointers() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = [&["-O2", "-fomit-frame-pointer"][..], &["-O0"], &["-O2", "-static"], &["-O2", "-s"]];
    for (flags, by_cpu) in flags.into_iter().zip([true, false].into_iter().cycle()) {
        let Some(program) = program(dir.path(), flags) else { return };
        let settings = Settings { by_cpu, ..settings(Targets::Started, 8192) };
        let Some(sampler) = opened(&settings) else { return };
        let (pid, rounds) = run(sampler, &program);
        let image = Image::open(&program).expect("just built");
        let samples: Vec<_> = rounds.iter().flat_map(|round| &round.samples).collect();
        assert!(samples.len() > 20, "{} samples with {flags:?}", samples.len());
        assert!(samples.iter().all(|sample| sample.pid == pid && sample.tid == pid));
        assert!(rounds.iter().flat_map(|round| &round.samples).is_sorted_by_key(|sample| sample.time));
        let whole = samples.iter().filter(|sample| sample.is_whole).count();
        assert!(100 * whole >= 95 * samples.len(), "{whole} of {} with {flags:?}", samples.len());
        assert!(rounds.iter().all(|round| round.lost.is_empty()));
        if flags.contains(&"-s") {
            continue;
        }
        // innermost, middle three times, compare, the C library's sorting, main.
        let maps: Vec<_> =
            rounds.iter().flat_map(|round| &round.news.processes).flat_map(|one| &one.maps).collect();
        let own = maps.iter().find(|map| Path::new(&map.path) == program).expect("it is mapped");
        let shift = image.shift_of_code(own.start, own.offset).expect("code");
        let name = |address: u64| {
            let symbol = image.table.find(address.wrapping_sub(shift))?;
            Some(symbol.name.to_owned())
        };
        let deep = samples.iter().filter(|sample| {
            let names: Vec<String> = sample.user.iter().filter_map(|address| name(*address - 1)).collect();
            names.starts_with(&["innermost", "middle", "middle", "middle", "compare"].map(str::to_owned))
                && names.contains(&"main".to_owned())
        });
        let deep = deep.count();
        assert!(10 * deep >= 9 * samples.len(), "{deep} of {} with {flags:?}", samples.len());
    }
}

#[test]
fn of_a_process_that_runs_and_by_frame_pointers() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = program(dir.path(), &["-O2", "-fno-omit-frame-pointer"]) else { return };
    for stack in [8192, 0] {
        let mut child = Command::new(&program).spawn().expect("it was just built");
        let settings = settings(Targets::Processes(vec![child.id()]), stack);
        let Some(mut sampler) = opened(&settings) else {
            let _ = child.kill().and_then(|()| child.wait());
            return;
        };
        assert!(sampler.known(0).processes.iter().any(|one| one.pid == child.id() && !one.maps.is_empty()));
        sampler.enable().expect("it was opened");
        let until = Instant::now() + Duration::from_secs(60);
        let mut samples = Vec::new();
        while samples.len() < 30 && Instant::now() < until {
            samples.extend(sampler.round(false).samples);
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        assert!(samples.len() >= 30, "{}", samples.len());
        let deep = samples.iter().filter(|sample| sample.user.len() >= 5).count();
        assert!(10 * deep >= 9 * samples.len(), "{deep} of {}", samples.len());
    }
}

#[test]
fn of_a_process_and_what_it_forks_and_of_no_other() {
    [true, false].into_iter().for_each(of_a_process_and_what_it_forks);
}

fn of_a_process_and_what_it_forks(by_cpu: bool) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = program(dir.path(), &["-O2"]) else { return };
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; \"$0\"; exit"]).arg(&program).stdin(Stdio::piped());
    let mut shell = shell.spawn().expect("every machine has it");
    let settings = Settings { by_cpu, ..settings(Targets::Processes(vec![shell.id()]), 8192) };
    let Some(mut sampler) = opened(&settings) else {
        let _ = shell.kill().and_then(|()| shell.wait());
        return;
    };
    sampler.enable().expect("it was opened");
    let mut other = Command::new(&program).spawn().expect("it was just built");
    shell.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    let (mut samples, mut processes) = (Vec::new(), Vec::new());
    while shell.try_wait().expect("a child").is_none() {
        let round = sampler.round(false);
        samples.extend(round.samples);
        processes.extend(round.news.processes);
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = other.kill().and_then(|()| other.wait());
    let forked = processes.iter().find(|one| one.maps.iter().any(|map| Path::new(&map.path) == program));
    let forked = forked.expect("the shell has run it").pid;
    let of_forked = samples.iter().filter(|sample| sample.pid == forked).count();
    assert!(of_forked > 20 && forked != shell.id(), "{of_forked} of {}", samples.len());
    let shells = |pid: u32| pid == forked || pid == shell.id();
    assert!(samples.iter().all(|sample| shells(sample.pid)));
    assert!(processes.iter().all(|one| one.pid != other.id()), "its mappings are none of ours");
}

#[test]
fn what_cannot_be_sampled_is_told() {
    let none = settings(Targets::Processes(vec![u32::MAX >> 2]), 0);
    assert_eq!(Sampler::open(&none).expect_err("no process"), Error::Gone(u32::MAX >> 2));
}

#[test]
fn samples_that_nobody_reads_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = program(dir.path(), &["-O2"]) else { return };
    let targets = Targets::Started;
    let settings = Settings { frequency: 10_000, ..settings(targets, 32 << 10) };
    let mut sampler = match Sampler::open(&settings) {
        Ok(sampler) => sampler,
        Err(why) => {
            mote_skip::skip(format_args!("{why}"));
            return;
        }
    };
    // More than the memory for them holds.
    let status = Command::new(&program).status().expect("it was just built");
    assert!(status.success());
    let round = sampler.round(true);
    let lost: u64 = round.lost.iter().map(|(_, count)| count).sum();
    assert!(!round.samples.is_empty());
    // It takes more than a tenth of a second on a CPU.
    let all = lost + round.samples.len() as u64;
    assert!(lost > 0 && all > 1000, "{lost} lost, {} not", round.samples.len());
}

//! Scripts as text.
//!
//! ```text
//! # two vCPUs of a machine share a processor
//! vm web 0x10c2e4000                     name, CR3 of the VMM
//! vcpu web/0 0x1f3a6000                  machine/name, address of the VMCS
//! vcpu web/1 0x1f3a7000
//! process web/postgres 0x6a000 split     machine/name, CR3; split: page-table isolation in the guest
//! host sshd 0x20a4000                    another program of the host
//!
//! cpu 0
//! repeat 100
//!   vmm web/0 3us
//!   guest web/0 postgres 250us
//!   vmm web/0 2us
//!   vmm web/1 1us                        its VMCS is loaded
//!   guest web/1 postgres 100us
//!   vmm web/1 1us
//!   host sshd 20us
//!   idle 50us
//! end
//! ```
//!
//! | more lines of `cpu` | |
//! |---|---|
//! | `nap 50us` | it rests, and no packet tells of it |
//! | `clear web/0` | VMCLEAR |
//! | `lose overflow`, `lose overflow psb`, `lose drop`, then `resume` | packets between are lost |
//! | `off`, then `on` | tracing is off between |
//! | `damage 20` | 20 bytes that are no packets |
//!
//! | lines at the beginning | |
//! |---|---|
//! | `art 24000000`, `tsc 100/1`, `tsc off` | the crystal clock, in Hz; the time-stamp counter by it; no TSC packets |
//! | `mtc 3`, `mtc off`, `cyc` | MTCFreq; no MTC packets; CYC packets |
//! | `psb 4096`, `branches 500ns` | bytes between PSB packets, time between packets of branches |
//! | `begin 300us` | the capture begins so late, and in the middle of a packet |
//! | `skew 1 5000000` | the time-stamp counter of processor 1 is ahead |
//! | `vm web 0x10c2e4000 offset 0x1000` | what the guest's counter has more than the host's |
//! | `random seed=7 cpus=2 machines=2 vcpus=2 length=20ms moves=3 lossy silent` | all by chance; nothing else is needed |

use super::random::{Random, random};
use super::script::{Host, How, Machine, Process, Script, Step, Vcpu};
use std::str::{FromStr, SplitWhitespace};
use thiserror::Error;

/// Most steps of a script, with what is repeated.
const STEPS_MAX: usize = 1_000_000;
/// Most processors.
const CPUS_MAX: usize = 4096;
/// Most machines of a random schedule, vCPUs of each, and moves.
const RANDOM_MAX: u64 = 256;
/// Longest random schedule, of all processors together, in nanoseconds.
const RANDOM_NS_MAX: u64 = 100_000_000_000;

/// A line that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the script: {why}")]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl FromStr for Script {
    type Err = BadLine;

    fn from_str(text: &str) -> Result<Script, BadLine> {
        let mut reader = Reader::default();
        let mut last = 0;
        for (number, line) in text.lines().enumerate() {
            last = number + 1;
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(first) = words.next() else { continue };
            let done = reader.line(first, &mut words).and_then(|()| match words.next() {
                Some(more) => Err(format!("`{more}` is too much")),
                None => Ok(()),
            });
            done.map_err(|why| BadLine { line: last, why })?;
        }
        match reader.open.last() {
            Some(_) => Err(BadLine { line: last, why: "`repeat` without `end`".to_owned() }),
            None if reader.script.cpus.iter().all(Vec::is_empty) => {
                Err(BadLine { line: last, why: "no processor does anything: `cpu 0`, then steps".to_owned() })
            }
            None => Ok(reader.script),
        }
    }
}

#[derive(Default)]
struct Reader {
    script: Script,
    cpu: Option<usize>,
    /// Where repetitions begin, and how often.
    open: Vec<(usize, usize)>,
}

type Words<'w> = SplitWhitespace<'w>;

impl Reader {
    fn line(&mut self, first: &str, words: &mut Words<'_>) -> Result<(), String> {
        let timing = &mut self.script.timing;
        match first {
            "art" => timing.art_hz = number(words)?,
            "tsc" => match next(words)? {
                "off" => timing.tsc = false,
                ratio => timing.tsc_per_art = pair(ratio)?,
            },
            "mtc" => match next(words)? {
                "off" => timing.mtc = None,
                value => timing.mtc = Some(value.parse().map_err(|_| format!("`{value}` is no MTCFreq"))?),
            },
            "cyc" => timing.cyc = true,
            "psb" => timing.psb_bytes = number(words)?,
            "branches" => timing.branch_ns = time(words)?,
            "begin" => timing.skip_ns = time(words)?,
            "skew" => self.skew(words)?,
            "vm" | "vcpu" | "process" | "host" if self.cpu.is_none() => self.cast(first, words)?,
            "random" => self.random(words)?,
            "cpu" => self.cpu(words)?,
            "repeat" => {
                let times = number(words)? as usize;
                let from = self.steps()?.len();
                self.open.push((from, times));
            }
            "end" => self.end()?,
            _ => {
                let step = self.step(first, words)?;
                let steps = self.steps()?;
                if steps.len() >= STEPS_MAX {
                    return Err(format!("more than {STEPS_MAX} steps"));
                }
                steps.push(step);
            }
        }
        self.script.timing.check()
    }

    fn skew(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let cpu = cpu_number(words)?;
        let ticks = number(words)?;
        self.script.skews.resize(self.script.skews.len().max(cpu + 1), 0);
        self.script.skews.iter_mut().skip(cpu).take(1).for_each(|skew| *skew = ticks);
        Ok(())
    }

    fn cpu(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        if !self.open.is_empty() {
            return Err("`end` is missing before".to_owned());
        }
        let cpu = cpu_number(words)?;
        self.cpu = Some(cpu);
        let cpus = &mut self.script.cpus;
        cpus.resize(cpus.len().max(cpu + 1), Vec::new());
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let (from, times) = self.open.pop().ok_or("`end` without `repeat`")?;
        let steps = self.steps()?;
        let part = steps.split_off(from.min(steps.len()));
        if part.len().saturating_mul(times) > STEPS_MAX.saturating_sub(steps.len()) {
            return Err(format!("more than {STEPS_MAX} steps"));
        }
        (0..times).for_each(|_| steps.extend_from_slice(&part));
        Ok(())
    }

    fn steps(&mut self) -> Result<&mut Vec<Step>, String> {
        let cpu = self.cpu.ok_or("which processor does it? `cpu 0` comes before")?;
        self.script.cpus.get_mut(cpu).ok_or_else(|| "there is no such processor".to_owned())
    }

    fn cast(&mut self, what: &str, words: &mut Words<'_>) -> Result<(), String> {
        let name = next(words)?.to_owned();
        let at = hex(next(words)?)?;
        let script = &mut self.script;
        match what {
            "vm" => {
                let tsc_offset = match words.next() {
                    Some("offset") => hex(next(words)?)?,
                    Some(other) => return Err(format!("`{other}` is too much")),
                    None => 0,
                };
                script.machines.push(Machine { name, cr3: at, tsc_offset });
            }
            "host" => script.hosts.push(Host { name, cr3: at }),
            _ => {
                let of = name.split('/').next().unwrap_or_default();
                let machine = place(script.machines.iter().map(|machine| &machine.name), of)?;
                if what == "vcpu" {
                    script.vcpus.push(Vcpu { name, machine, vmcs: at });
                    return Ok(());
                }
                let is_split = match words.next() {
                    Some("split") => true,
                    Some(other) => return Err(format!("`{other}` is too much")),
                    None => false,
                };
                script.processes.push(Process { name, machine, cr3: at, is_split });
            }
        }
        Ok(())
    }

    fn step(&self, first: &str, words: &mut Words<'_>) -> Result<Step, String> {
        Ok(match first {
            "host" => {
                let host = place(self.script.hosts.iter().map(|host| &host.name), next(words)?)?;
                Step::Host(host, time(words)?)
            }
            "vmm" => Step::Vmm(self.vcpu(words)?, time(words)?),
            "guest" => {
                let vcpu = self.vcpu(words)?;
                let machine = self.script.vcpus.get(vcpu).map(|vcpu| vcpu.machine);
                let of = machine.and_then(|machine| self.script.machines.get(machine));
                let short = next(words)?;
                let name = format!("{}/{short}", of.map_or("", |machine| &machine.name));
                let process = place(self.script.processes.iter().map(|process| &process.name), &name)?;
                Step::Guest(vcpu, process, time(words)?)
            }
            "idle" => Step::Idle(time(words)?),
            "nap" => Step::Nap(time(words)?),
            "clear" => Step::Clear(self.vcpu(words)?),
            "lose" => Step::Lose(match (next(words)?, words.next()) {
                ("overflow", None) => How::Overflow,
                ("overflow", Some("psb")) => How::OverflowPsb,
                ("drop", None) => How::Dropped,
                _ => return Err("packets are lost by `overflow`, `overflow psb` or `drop`".to_owned()),
            }),
            "resume" => Step::Resume,
            "off" => Step::Off,
            "on" => Step::On,
            "damage" => Step::Damage(number(words)?.min(1 << 20) as usize),
            other => {
                return Err(format!(
                    "`{other}` is no step: host, vmm, guest, idle, nap, clear, lose, resume, off, on, damage"
                ));
            }
        })
    }

    fn vcpu(&self, words: &mut Words<'_>) -> Result<usize, String> {
        place(self.script.vcpus.iter().map(|vcpu| &vcpu.name), next(words)?)
    }

    fn random(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let mut options = Random {
            seed: 1,
            cpus: 1,
            machines: 2,
            vcpus: 2,
            moves: 0,
            length_ns: 10_000_000,
            is_lossy: false,
            is_silent: false,
        };
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || value.parse::<u64>().map_err(|_| format!("`{word}` has no number"));
            let small = || match number()? {
                number if number <= RANDOM_MAX => Ok(number as usize),
                _ => Err(format!("`{word}` is too much: at most {RANDOM_MAX}")),
            };
            match name {
                "seed" => options.seed = number()?,
                "cpus" => options.cpus = small()?,
                "machines" => options.machines = small()?,
                "vcpus" => options.vcpus = small()?,
                "moves" => options.moves = small()? as u64,
                "length" => options.length_ns = ns(value)?,
                "lossy" => options.is_lossy = true,
                "silent" => options.is_silent = true,
                _ => return Err(format!("`{word}` is nothing of a random schedule")),
            }
        }
        if options.length_ns.saturating_mul(options.cpus as u64) > RANDOM_NS_MAX {
            return Err("all processors together have more than 100 s".to_owned());
        }
        let Script { timing, skews, .. } = std::mem::take(&mut self.script);
        self.script = Script { timing, skews, ..random(&options) };
        Ok(())
    }
}

fn next<'w>(words: &mut Words<'w>) -> Result<&'w str, String> {
    words.next().ok_or_else(|| "the line is too short".to_owned())
}

fn number(words: &mut Words<'_>) -> Result<u64, String> {
    let word = next(words)?;
    word.parse().map_err(|_| format!("`{word}` is no number"))
}

fn cpu_number(words: &mut Words<'_>) -> Result<usize, String> {
    match number(words)? as usize {
        cpu if cpu < CPUS_MAX => Ok(cpu),
        cpu => Err(format!("processor {cpu} is too many: at most {CPUS_MAX}")),
    }
}

fn hex(word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    digits.ok_or_else(|| format!("`{word}` is no address (0x...)"))
}

fn pair(word: &str) -> Result<(u32, u32), String> {
    let both = word.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    both.ok_or_else(|| format!("`{word}` is no ratio (100/1)"))
}

fn time(words: &mut Words<'_>) -> Result<u64, String> {
    ns(next(words)?)
}

fn ns(word: &str) -> Result<u64, String> {
    let unit = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(unit);
    let factor = match unit {
        "ns" => 1,
        "us" => 1000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(format!("`{word}` is no duration (20us)")),
    };
    let value: Option<u64> = digits.parse().ok();
    value.and_then(|value| value.checked_mul(factor)).ok_or_else(|| format!("`{word}` is no duration (20us)"))
}

/// Where a name is in a list.
fn place<'n>(mut names: impl Iterator<Item = &'n String>, name: &str) -> Result<usize, String> {
    names.position(|known| known == name).ok_or_else(|| format!("`{name}` was not named before"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAST: &str = "vm a 0x1000 offset 0xff\nvcpu a/0 0x8000\nprocess a/p 0x2000 split\nhost h 0x3000\n";

    #[test]
    fn lines_are_steps() {
        let text = format!(
            "{CAST}mtc 5 # more\ncpu 1\nrepeat 2\nvmm a/0 1us\nrepeat 2\nguest a/0 p 2ms\nend\nend\nlose overflow psb"
        );
        let script: Script = text.parse().expect("a script");
        let visit = [Step::Vmm(0, 1000), Step::Guest(0, 0, 2_000_000), Step::Guest(0, 0, 2_000_000)];
        let steps = [&visit[..], &visit[..], &[Step::Lose(How::OverflowPsb)]].concat();
        assert_eq!(script.cpus, [vec![], steps]);
        assert_eq!((script.timing.mtc, script.machines[0].tsc_offset), (Some(5), 0xff));
        assert!(script.processes[0].is_split);
    }

    #[test]
    fn other_lines_are_refused() {
        for (text, line, part) in [
            ("cpu 0\nsleep 1us", 2, "no step"),
            ("vmm a/0 1us", 1, "not named"),
            ("cpu 0\nidle 1", 2, "duration"),
            ("cpu 0\nrepeat 2\nidle 1us", 3, "without `end`"),
            ("idle 1us", 1, "which processor"),
            ("cpu 0\nrepeat 9999999\nidle 1us\nend", 4, "more than"),
            ("", 0, "no processor"),
            ("mtc 99", 1, "MTCFreq"),
            ("tsc 0/1", 1, "0"),
            ("random cpus=9 length=99s", 1, "more than 100 s"),
            ("random vcpus=999", 1, "at most 256"),
        ] {
            let bad = text.parse::<Script>().expect_err(text);
            assert!(bad.line == line && bad.why.contains(part), "{text}: {bad}");
        }
    }
}

//! Schedules at random, always the same for a seed.

use super::script::{Host, How, Machine, Process, Script, Step, Vcpu};

/// What a random schedule has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// Where it begins: another seed is another schedule.
    pub seed: u64,
    /// Processors.
    pub cpus: usize,
    /// Machines, each with as many vCPUs.
    pub machines: usize,
    /// vCPUs of each machine.
    pub vcpus: usize,
    /// How often vCPUs are spread over the processors anew. 0: each stays where it is.
    pub moves: u64,
    /// Nanoseconds of the whole, on each processor.
    pub length_ns: u64,
    /// Packets are lost, bytes damaged, tracing is switched off and on.
    pub is_lossy: bool,
    /// Idle processors stop without packets of power events.
    pub is_silent: bool,
}

const PROCESSES: usize = 3;
const HOSTS: usize = 2;

/// xorshift64 (Marsaglia 2003).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick(&mut self, from: &[usize]) -> Option<usize> {
        from.get(self.below(from.len() as u64) as usize).copied()
    }
}

/// A schedule at random, with clocks and packets as the default has them.
#[must_use]
pub fn random(options: &Random) -> Script {
    let mut dice = Dice(options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut script = cast(options, &mut dice);
    script.cpus = vec![Vec::new(); options.cpus.max(1)];
    let parts = options.moves + 1;
    for part in 0..parts {
        let mut of_cpu = vec![Vec::new(); script.cpus.len()];
        for vcpu in 0..script.vcpus.len() {
            let place = if options.moves == 0 { vcpu as u64 } else { dice.below(u64::MAX) };
            let cpu = place % script.cpus.len() as u64;
            of_cpu.get_mut(cpu as usize).into_iter().for_each(|vcpus| vcpus.push(vcpu));
        }
        for (steps, vcpus) in script.cpus.iter_mut().zip(of_cpu) {
            let mut line =
                Line { dice: &mut dice, options, vcpus, steps, used: 0, is_lost: false, is_off: false };
            line.begin(part == 0);
            line.fill(options.length_ns / parts);
        }
    }
    script
}

/// Draws the machines, vCPUs and processes of a schedule.
fn cast(options: &Random, dice: &mut Dice) -> Script {
    let mut script = Script::default();
    for machine in 0..options.machines {
        let cr3 = 0x1_0000_0000 + ((machine as u64) << 20);
        // Counters of guests begin when they are started.
        let tsc_offset = 0_u64.wrapping_sub(dice.below(1 << 36));
        script.machines.push(Machine { name: format!("vm{machine}"), cr3, tsc_offset });
        for vcpu in 0..options.vcpus {
            let vmcs = 0x2_0000_0000 + ((machine * options.vcpus + vcpu) as u64) * 0x1000;
            script.vcpus.push(Vcpu { name: format!("vm{machine}/{vcpu}"), machine, vmcs });
        }
        for process in 0..PROCESSES {
            // Guests have the same addresses as one another.
            let cr3 = 0x1_0000 + ((process as u64) << 14);
            let is_split = process == 1;
            script.processes.push(Process { name: format!("vm{machine}.{process}"), machine, cr3, is_split });
        }
    }
    for host in 0..HOSTS {
        script.hosts.push(Host { name: format!("host{host}"), cr3: 0x3_0000_0000 + ((host as u64) << 16) });
    }
    script
}

/// One processor's part of a schedule.
struct Line<'l> {
    dice: &'l mut Dice,
    options: &'l Random,
    vcpus: Vec<usize>,
    steps: &'l mut Vec<Step>,
    used: u64,
    is_lost: bool,
    is_off: bool,
}

impl Line<'_> {
    /// In the host. What was loaded before may be another processor's now.
    fn begin(&mut self, is_first: bool) {
        self.push(Step::Host(0, 2000));
        if !is_first {
            let all = self.options.machines * self.options.vcpus;
            self.steps.extend((0..all).map(Step::Clear));
        }
    }

    fn push(&mut self, step: Step) {
        self.used += match step {
            Step::Host(_, ns) | Step::Vmm(_, ns) | Step::Guest(_, _, ns) | Step::Idle(ns) | Step::Nap(ns) => {
                ns
            }
            _ => 0,
        };
        self.steps.push(step);
    }

    fn fill(&mut self, length: u64) {
        while self.used + 2_000_000 < length {
            match self.dice.pick(&self.vcpus) {
                Some(vcpu) if !self.dice.one_in(5) => self.visit(vcpu),
                _ => self.elsewhere(),
            }
            if self.options.is_lossy {
                self.spoil();
            }
        }
        if self.is_lost {
            self.steps.push(Step::Resume);
        }
        if self.is_off {
            self.steps.push(Step::On);
        }
        let left = length.saturating_sub(self.used);
        self.push(Step::Host(0, left));
    }

    /// A vCPU executes for a while.
    fn visit(&mut self, vcpu: usize) {
        let machine = vcpu / self.options.vcpus.max(1);
        let vmm = |line: &mut Self| {
            let ns = 500 + line.dice.below(6000);
            line.push(Step::Vmm(vcpu, ns));
        };
        vmm(self);
        for _ in 0..self.dice.below(4) {
            for _ in 0..=self.dice.below(3) {
                let process = machine * PROCESSES + self.dice.below(PROCESSES as u64) as usize;
                let ns = 500 + self.dice.below(60_000);
                self.push(Step::Guest(vcpu, process, ns));
                if self.dice.one_in(12) && !self.options.is_silent {
                    let ns = 2000 + self.dice.below(30_000);
                    self.push(Step::Idle(ns));
                }
                if self.options.is_lossy && self.dice.one_in(20) {
                    self.lose();
                }
            }
            vmm(self);
        }
    }

    /// The host does something else, or nothing.
    fn elsewhere(&mut self) {
        let host = self.dice.below(HOSTS as u64) as usize;
        let ns = 1000 + self.dice.below(20_000);
        self.push(Step::Host(host, ns));
        if self.dice.one_in(2) {
            let ns = 5000 + self.dice.below(200_000);
            self.push(if self.options.is_silent { Step::Nap(ns) } else { Step::Idle(ns) });
        }
    }

    /// In the host: something becomes of the packets.
    fn spoil(&mut self) {
        match self.dice.below(12) {
            0 if self.is_off => {
                self.steps.push(Step::On);
                self.is_off = false;
            }
            0 if !self.is_lost => {
                self.steps.push(Step::Off);
                self.is_off = true;
            }
            1 if !self.is_lost && !self.is_off => {
                let bytes = 1 + self.dice.below(40) as usize;
                self.steps.push(Step::Damage(bytes));
            }
            2 | 3 => self.lose(),
            _ => {}
        }
    }

    fn lose(&mut self) {
        if self.is_off {
            return;
        }
        let how = [How::Overflow, How::OverflowPsb, How::Dropped][self.dice.below(3) as usize];
        self.steps.push(if self.is_lost { Step::Resume } else { Step::Lose(how) });
        self.is_lost = !self.is_lost;
    }
}

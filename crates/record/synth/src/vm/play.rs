//! A script is played: packets and truth of each processor.

use super::script::{Script, Step};
use super::truth::{State, True};
use super::unplayable::Unplayable;
use super::writer::{Place, Writer};

/// The time-stamp counter at which schedules begin.
const BEGIN: u64 = 0x12_3456_789a;
/// What user mode's CR3 has that the kernel's has not, under page-table isolation with PCID (Linux 6.1,
/// `arch/x86/entry/calling.h`).
const USER_HALF: u64 = 0x1800;
/// How long a process is in its kernel or out of it, in nanoseconds, under page-table isolation.
const HALF_NS: u64 = 3000;

/// What a script gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// The packets of each processor.
    pub streams: Vec<Vec<u8>>,
    /// What they were busy with, one processor after the other.
    pub truth: Vec<True>,
}

/// Plays a script.
///
/// # Errors
/// A step is not possible where it is, or a value does not fit into a packet.
pub fn play(script: &Script) -> Result<Played, Unplayable> {
    let mut played = Played::default();
    for (cpu, steps) in script.cpus.iter().enumerate() {
        let mut player = Player::new(script, cpu);
        for (number, step) in steps.iter().enumerate() {
            let bad = |why| Unplayable::Step { cpu, step: number + 1, why };
            player.step(*step).map_err(bad)?;
        }
        player.close();
        let begun = player.begun_at;
        let mut stream = player.writer.finish()?;
        drop(stream.drain(..begun.min(stream.len())));
        played.streams.push(stream);
        played.truth.extend(player.truth);
    }
    Ok(played)
}

struct Player<'s> {
    script: &'s Script,
    cpu: usize,
    writer: Writer,
    state: Option<State>,
    since: u64,
    /// The vCPU that was loaded last, whether it was cleared, and the one that serves or runs now.
    loaded: Option<usize>,
    is_cleared: bool,
    running: Option<usize>,
    /// The bytes before are not in the capture.
    begun_at: usize,
    skip_until: u64,
    truth: Vec<True>,
}

impl<'s> Player<'s> {
    fn new(script: &'s Script, cpu: usize) -> Player<'s> {
        let skew = script.skews.get(cpu).copied().unwrap_or(0);
        let writer = Writer::new(script.timing, skew, BEGIN);
        Player {
            script,
            cpu,
            skip_until: writer.tsc() + script.timing.ticks(script.timing.skip_ns),
            writer,
            state: None,
            since: 0,
            loaded: None,
            is_cleared: false,
            running: None,
            begun_at: 0,
            truth: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) -> Result<(), &'static str> {
        match step {
            Step::Host(host, ns) => self.host(host, ns),
            Step::Vmm(vcpu, ns) => self.vmm(vcpu, ns),
            Step::Guest(vcpu, process, ns) => self.guest(vcpu, process, ns),
            Step::Idle(ns) => self.rest(ns, true),
            Step::Nap(ns) => self.rest(ns, false),
            Step::Clear(vcpu) => {
                if self.loaded == Some(vcpu) {
                    if matches!(self.state, Some(State::Guest { .. })) {
                        return Err("a VMCS cannot be cleared while its guest executes");
                    }
                    self.writer.clear();
                    self.close();
                    self.is_cleared = true;
                }
                Ok(())
            }
            Step::Lose(how) => {
                self.writer.lose(how);
                Ok(())
            }
            Step::Resume => {
                self.writer.resume();
                Ok(())
            }
            Step::Off => {
                self.writer.off();
                Ok(())
            }
            Step::On => {
                self.writer.on();
                Ok(())
            }
            Step::Damage(bytes) => {
                self.writer.damage(bytes);
                Ok(())
            }
        }
    }

    fn host(&mut self, host: usize, ns: u64) -> Result<(), &'static str> {
        let cr3 = self.script.hosts.get(host).ok_or("there is no such program of the host")?.cr3;
        self.reach_root(cr3)?;
        self.running = None;
        self.enter(State::Host { cr3 });
        self.execute(ns);
        Ok(())
    }

    fn vmm(&mut self, vcpu: usize, ns: u64) -> Result<(), &'static str> {
        let (vm, vmcs) = self.vcpu(vcpu)?;
        if matches!(self.state, Some(State::Guest { .. })) {
            if self.running != Some(vcpu) {
                return Err("the guest that executes leaves to its own VMM first");
            }
            self.writer.cross(self.place(vm, false, vcpu));
        } else {
            self.reach_root(vm)?;
        }
        self.enter(State::Vmm { vm });
        if self.loaded != Some(vcpu) || self.is_cleared {
            self.close();
            self.writer.load(vmcs);
            (self.loaded, self.is_cleared) = (Some(vcpu), false);
        }
        self.running = Some(vcpu);
        self.execute(ns);
        Ok(())
    }

    fn guest(&mut self, vcpu: usize, process: usize, ns: u64) -> Result<(), &'static str> {
        let (vm, _) = self.vcpu(vcpu)?;
        let of = self.script.processes.get(process).ok_or("there is no such process")?;
        if Some(of.machine) != self.script.vcpus.get(vcpu).map(|vcpu| vcpu.machine) {
            return Err("the process is of another machine than the vCPU");
        }
        let is_ready = self.running == Some(vcpu) && self.loaded == Some(vcpu) && !self.is_cleared;
        match self.state {
            Some(State::Guest { .. }) if is_ready => self.writer.move_to(of.cr3),
            Some(State::Vmm { .. }) if is_ready => self.writer.cross(self.place(of.cr3, true, vcpu)),
            _ => return Err("a guest is entered by its VMM: `vmm` comes before `guest`"),
        }
        self.enter(State::Guest { vm, process: of.cr3 });
        let mut left = ns;
        let mut is_user = false;
        while of.is_split && left > HALF_NS {
            self.execute(HALF_NS);
            left -= HALF_NS;
            is_user = !is_user;
            self.writer.move_to(of.cr3 | if is_user { USER_HALF } else { 0 });
        }
        self.execute(left);
        Ok(())
    }

    fn rest(&mut self, ns: u64, is_reported: bool) -> Result<(), &'static str> {
        let is_guest = match self.state {
            None | Some(State::Idle { .. }) => return Err("a processor that does nothing cannot rest"),
            Some(state) => matches!(state, State::Guest { .. }),
        };
        if is_guest && !is_reported {
            return Err("a rest in a guest that nothing tells of cannot be seen: use `idle`");
        }
        let before = self.state;
        self.enter(State::Idle { is_guest });
        self.begin_capture();
        self.writer.rest(self.script.timing.ticks(ns), is_reported);
        if let Some(before) = before {
            self.enter(before);
        }
        Ok(())
    }

    /// The host's code of an address space is next, by MOV to CR3 where it is another one.
    fn reach_root(&mut self, cr3: u64) -> Result<(), &'static str> {
        match self.state {
            None => {
                let vmcs = None;
                self.writer.begin(Place { cr3, is_guest: false, vmcs, tsc_offset: 0 });
            }
            Some(State::Guest { .. }) => {
                return Err("a guest leaves to its VMM: `vmm` comes after `guest`");
            }
            Some(State::Vmm { vm: same } | State::Host { cr3: same }) if same == cr3 => {}
            Some(_) => self.writer.move_to(cr3),
        }
        Ok(())
    }

    fn place(&self, cr3: u64, is_guest: bool, vcpu: usize) -> Place {
        let of = self.script.vcpus.get(vcpu);
        let machine = of.and_then(|vcpu| self.script.machines.get(vcpu.machine));
        let loaded = self.loaded.filter(|_| !self.is_cleared).and_then(|vcpu| self.script.vcpus.get(vcpu));
        let tsc_offset = machine.map_or(0, |machine| machine.tsc_offset);
        Place { cr3, is_guest, vmcs: loaded.map(|vcpu| vcpu.vmcs), tsc_offset }
    }

    /// CR3 of the vCPU's VMM, and its VMCS.
    fn vcpu(&self, vcpu: usize) -> Result<(u64, u64), &'static str> {
        let vcpu = self.script.vcpus.get(vcpu).ok_or("there is no such vCPU")?;
        let machine = self.script.machines.get(vcpu.machine).ok_or("there is no such machine")?;
        Ok((machine.cr3, vcpu.vmcs))
    }

    fn execute(&mut self, ns: u64) {
        self.begin_capture();
        let ticks = self.script.timing.ticks(ns);
        let left = self.skip_until.saturating_sub(self.writer.tsc());
        if (1..=ticks).contains(&left) {
            // The capture begins in the middle of this.
            self.writer.execute(left);
            // It need not begin with a packet.
            self.begun_at = self.writer.len() + 3;
            return self.writer.execute(ticks - left);
        }
        self.writer.execute(ticks);
    }

    /// Bytes that were written before the capture begins are not in it.
    fn begin_capture(&mut self) {
        if self.writer.tsc() < self.skip_until {
            self.begun_at = self.writer.len();
        }
    }

    fn enter(&mut self, state: State) {
        if self.state != Some(state) {
            self.close();
            self.state = Some(state);
        }
    }

    /// What was until here is a line of the truth.
    fn close(&mut self) {
        let end = self.writer.tsc();
        let begin = std::mem::replace(&mut self.since, end);
        let Some(state) = self.state.filter(|_| begin < end) else { return };
        let vmcs = self.loaded.and_then(|vcpu| self.script.vcpus.get(vcpu)).map(|vcpu| vcpu.vmcs);
        let line = True { cpu: self.cpu, begin, end, state, vmcs, is_cleared: self.is_cleared };
        match self.truth.last_mut() {
            Some(last)
                if True { end, begin: last.begin, ..line } == True { end, ..*last } && last.end == begin =>
            {
                last.end = end;
            }
            _ => self.truth.push(line),
        }
    }
}

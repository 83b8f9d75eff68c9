//! What a schedule is described by.

/// Machines, their vCPUs and processes, and what each processor does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Clocks, and which packets there are.
    pub timing: Timing,
    /// Virtual machines.
    pub machines: Vec<Machine>,
    /// Their vCPUs.
    pub vcpus: Vec<Vcpu>,
    /// Their processes.
    pub processes: Vec<Process>,
    /// Other programs of the host.
    pub hosts: Vec<Host>,
    /// What each processor does, in order.
    pub cpus: Vec<Vec<Step>>,
    /// How far the time-stamp counter of each processor is ahead; 0 where there is none.
    pub skews: Vec<u64>,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// CR3 of its VMM.
    pub cr3: u64,
    /// What its guest's time-stamp counter has more than the host's.
    pub tsc_offset: u64,
}

/// A vCPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpu {
    /// Its name.
    pub name: String,
    /// Its machine, by place.
    pub machine: usize,
    /// The address of its VMCS.
    pub vmcs: u64,
}

/// A process of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its machine, by place.
    pub machine: usize,
    /// CR3 in its kernel.
    pub cr3: u64,
    /// Under page-table isolation: it has another CR3 in user mode.
    pub is_split: bool,
}

/// A program of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// CR3.
    pub cr3: u64,
}

/// What a processor does next. Durations are in nanoseconds; vCPUs and others by their place in the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A program of the host.
    Host(usize, u64),
    /// The VMM works for a vCPU. Its VMCS is loaded if it is not.
    Vmm(usize, u64),
    /// A vCPU's guest executes a process.
    Guest(usize, usize, u64),
    /// It rests, in the host or in the guest, and packets of power events say so.
    Idle(u64),
    /// It rests, and nothing says so.
    Nap(u64),
    /// A VMCS is cleared; no packet says so.
    Clear(usize),
    /// Packets are lost from here on.
    Lose(How),
    /// No more packets are lost.
    Resume,
    /// Tracing is switched off.
    Off,
    /// Tracing is switched on.
    On,
    /// So many bytes that are no packets.
    Damage(usize),
}

/// How packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The processor's buffer is full: OVF.
    Overflow,
    /// The same, and PSB+ behind.
    OverflowPsb,
    /// Whoever should have saved them has not. What is saved again begins with a PSB.
    Dropped,
}

/// Clocks, and which packets there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The crystal clock (ART), in Hz.
    pub art_hz: u64,
    /// Ticks of the time-stamp counter by those of the crystal clock.
    pub tsc_per_art: (u32, u32),
    /// The core's clock, in 100 MHz.
    pub core_ratio: u8,
    /// TSC packets, with TMA where there are MTC packets.
    pub tsc: bool,
    /// MTC packets: MTCFreq.
    pub mtc: Option<u8>,
    /// CYC packets.
    pub cyc: bool,
    /// Bytes from one PSB to the next one.
    pub psb_bytes: u64,
    /// Nanoseconds from one packet of branches to the next one.
    pub branch_ns: u64,
    /// The capture begins so many nanoseconds after the schedule.
    pub skip_ns: u64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            art_hz: 24_000_000,
            tsc_per_art: (100, 1),
            core_ratio: 30,
            tsc: true,
            mtc: Some(3),
            cyc: false,
            psb_bytes: 4096,
            branch_ns: 500,
            skip_ns: 0,
        }
    }
}

impl Timing {
    /// Says what no processor has.
    ///
    /// # Errors
    /// A sentence about the first such value.
    pub fn check(&self) -> Result<(), String> {
        let Timing { art_hz, tsc_per_art: (numerator, denominator), mtc, .. } = *self;
        let ticks = u64::from(numerator) / u64::from(denominator.max(1));
        let wrong = [
            (numerator == 0 || denominator == 0, "the ratio of the clocks is not 0"),
            (
                !(1..512).contains(&ticks),
                "the time-stamp counter has 1 to 511 ticks in one of the crystal clock",
            ),
            (!(1_000_000..=1_000_000_000).contains(&art_hz), "the crystal clock has 1 MHz to 1 GHz"),
            (mtc.is_some_and(|mtc| mtc > 15), "MTCFreq is at most 15"),
            (self.core_ratio == 0, "the core's ratio is not 0"),
            (self.psb_bytes < 256, "PSB+ needs room: 256 bytes at least"),
        ];
        wrong.iter().find(|(is_so, _)| *is_so).map_or(Ok(()), |(_, why)| Err((*why).to_owned()))
    }

    /// The time-stamp counter, in Hz.
    #[must_use]
    pub fn tsc_hz(&self) -> u64 {
        let (numerator, denominator) = self.tsc_per_art;
        (u128::from(self.art_hz) * u128::from(numerator) / u128::from(denominator.max(1))) as u64
    }

    /// So many nanoseconds in ticks of the time-stamp counter.
    #[must_use]
    pub fn ticks(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.tsc_hz()) / 1_000_000_000) as u64
    }
}

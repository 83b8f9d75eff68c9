//! The state machine: packets of one processor become intervals.

use super::clock::{Clock, Rates};
use super::interval::{Doing, Edge, Interval, Rest, Space, Unknown, Vmcs};
use super::status::Status;
use mote_pt::errata::Errata;
use mote_pt::packet::{Damage, Decoder, Item, Packet};
use std::collections::BTreeMap;

mod time;

/// What was found in a processor's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes before the first PSB: where packets begin in them is not known.
    pub skipped: u64,
    /// Bytes that are no packets.
    pub damaged: u64,
    /// OVF.
    pub overflows: u64,
    /// PIP, those of PSB+ included.
    pub pips: u64,
    /// VMCS, those of PSB+ included.
    pub vmcs: u64,
    /// Packets that contradict others before.
    pub contradictions: u64,
    /// How often the time-stamp counter has gone back.
    pub clock_steps: u64,
    /// The longest time from the packet of time that an interval's begin has its time from, to the next one: how much
    /// later the change may have been, in ticks of the time-stamp counter. Changes that CYC packets tell the time of
    /// are exact, and not counted.
    pub late_max: u64,
}

/// Reads packets of one processor.
///
/// A bare stream is enough: no code, no names; it may begin anywhere.
///
/// # Cost
/// Linear in the bytes, without allocation: `mote-bench pt_analyses`.
#[derive(Clone, Debug)]
pub struct Machine {
    errata: Errata,
    clock: Clock,
    /// Where the processor is; `None` while that is not known.
    mode: Option<Mode>,
    /// The VMCS that was loaded last.
    vmcs: Option<Vmcs>,
    power: Power,
    /// Between TIP.PGD and TIP.PGE: since when.
    off: Option<Option<u64>>,
    /// In PSB+: what it has said.
    status: Option<Status>,
    /// The last packet before was a TSC packet of the guest.
    guest_tsc: Option<u64>,
    /// Whose counter the time is since the host's is not known.
    foreign: Option<Vmcs>,
    /// What the counters of guests have more than the host's.
    offsets: BTreeMap<Vmcs, u64>,
    /// That the address space is what it was before tracing was off is an assumption.
    is_assumed: bool,
    open: Open,
    /// When packets have said last that the state is what it is.
    confirmed: Option<u64>,
    /// The time of the first change since the last packet of time.
    late: Option<u64>,
    has_begun: bool,
    counts: Counts,
}

/// Where intervals go.
type To<'t> = &'t mut dyn FnMut(Interval);

/// VMX operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Root(Space),
    Guest { vm: Option<Space>, process: Space },
}

/// Whether the processor executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    Awake,
    /// It was asked to stop.
    Stopping,
    Stopped,
}

/// The interval that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    doing: Doing,
    begin: Option<u64>,
    offset: u64,
    begins: Edge,
    is_untraced: bool,
}

impl Machine {
    /// A machine that has read nothing. Without `rates` only TSC packets tell the time.
    #[must_use]
    pub fn new(rates: Option<Rates>) -> Machine {
        let doing = Doing::Unknown(Unknown::NotYet);
        Machine {
            errata: Errata::default(),
            clock: Clock::new(rates),
            mode: None,
            vmcs: None,
            power: Power::Awake,
            off: None,
            status: None,
            guest_tsc: None,
            foreign: None,
            offsets: BTreeMap::new(),
            is_assumed: false,
            open: Open { doing, begin: None, offset: 0, begins: Edge::Cut, is_untraced: false },
            confirmed: None,
            late: None,
            has_begun: false,
            counts: Counts::default(),
        }
    }

    /// Reads packets as a processor with these errata writes them.
    #[must_use]
    pub fn with_errata(self, errata: Errata) -> Machine {
        Machine { errata, ..self }
    }

    /// Reads more of the stream: bytes from `base` on, which begin with a packet, except for the stream's first ones.
    pub fn feed(&mut self, bytes: &[u8], base: u64, mut to: impl FnMut(Interval)) {
        self.counts.bytes += bytes.len() as u64;
        let mut decoder = Decoder::new(bytes, base).with_errata(self.errata);
        if !self.has_begun {
            let Some(psb) = decoder.sync_forward() else {
                self.counts.skipped += bytes.len() as u64;
                return;
            };
            self.has_begun = true;
            self.counts.skipped += psb.saturating_sub(base);
        }
        self.read(decoder, &mut to);
    }

    /// Not generic, so that it is compiled here, and once.
    fn read(&mut self, packets: Decoder<'_>, to: To<'_>) {
        packets.for_each(|item| self.item(&item, to));
    }

    /// The stream ends here.
    pub fn finish(mut self, mut to: impl FnMut(Interval)) -> Counts {
        let end = self.clock.now();
        self.close(end, Edge::Cut, &mut to);
        self.counts
    }

    #[inline(always)]
    fn item(&mut self, item: &Item, to: To<'_>) {
        match item.what {
            Ok(Packet::Tnt(_) | Packet::Tip(_)) => {
                if self.power != Power::Awake {
                    self.wake(item.offset, to);
                }
            }
            Ok(Packet::Cyc(cycles)) => self.clock.cyc(cycles),
            Ok(Packet::Pad | Packet::Fup(_)) => {}
            Ok(Packet::Mtc(value)) => {
                self.clock.mtc(value);
                self.timed();
            }
            what => self.rare(item.offset, item.length, what, to),
        }
    }

    #[inline(never)]
    fn rare(&mut self, offset: u64, length: usize, what: Result<Packet, Damage>, to: To<'_>) {
        let Ok(packet) = what else {
            self.counts.damaged += length as u64;
            return self.lose(offset, Unknown::Damage, to);
        };
        match packet {
            Packet::TipPgd(_) => self.off(),
            Packet::TipPge(_) => self.off = None,
            Packet::Psb => self.status = Some(Status::default()),
            Packet::PsbEnd => self.apply(offset, to),
            Packet::Ovf => {
                self.counts.overflows += 1;
                self.lose(offset, Unknown::Overflow, to);
            }
            Packet::Cbr(ratio) => self.clock.cbr(ratio),
            Packet::Tsc(tsc) => self.tsc(offset, tsc, to),
            Packet::Tma { ctc, fast } => self.tma(offset, (ctc, fast), to),
            Packet::Pip { cr3, is_guest } => self.pip(offset, cr3, is_guest, to),
            Packet::Vmcs(base) => self.vmcs(offset, base, to),
            Packet::Mwait { .. } | Packet::Pwre { .. } if self.power == Power::Awake => {
                self.power = Power::Stopping;
            }
            Packet::Exstop { .. } if self.power == Power::Stopping => {
                self.power = Power::Stopped;
                self.change(offset, to);
            }
            Packet::Pwrx { .. } => self.wake(offset, to),
            _ => {}
        }
    }

    #[inline(never)]
    fn wake(&mut self, offset: u64, to: To<'_>) {
        self.power = Power::Awake;
        self.change(offset, to);
    }

    fn off(&mut self) {
        self.off = Some(self.clock.now());
        self.open.is_untraced = true;
    }

    fn pip(&mut self, offset: u64, cr3: u64, is_guest: bool, to: To<'_>) {
        self.counts.pips += 1;
        if let Some(status) = &mut self.status {
            status.pip = Some((cr3, is_guest));
            return;
        }
        self.power = Power::Awake;
        let space = Space::of(cr3);
        let mode = match (is_guest, self.mode) {
            (false, mode) => {
                if let Some(Mode::Guest { vm, .. }) = mode {
                    self.exit(offset, vm, space, to);
                }
                Mode::Root(space)
            }
            (true, Some(Mode::Root(vm))) if !self.is_assumed => Mode::Guest { vm: Some(vm), process: space },
            (true, Some(Mode::Guest { vm, .. })) => Mode::Guest { vm, process: space },
            (true, _) => Mode::Guest { vm: None, process: space },
        };
        self.mode = Some(mode);
        self.is_assumed = false;
        self.change(offset, to);
        self.confirmed = self.clock.now();
    }

    /// A guest that was entered from `vm` leaves to `space`: these are the same.
    fn exit(&mut self, offset: u64, vm: Option<Space>, space: Space, to: To<'_>) {
        match (vm, &mut self.open.doing) {
            (Some(vm), _) if vm != space => self.contradict(offset, to),
            (None, Doing::Guest { vm, .. }) => *vm = Some(space),
            _ => {}
        }
    }

    fn vmcs(&mut self, offset: u64, base: u64, to: To<'_>) {
        self.counts.vmcs += 1;
        if let Some(status) = &mut self.status {
            status.vmcs = Some(base);
            return;
        }
        self.vmcs = Vmcs::of(base);
        if let Some(Mode::Guest { .. }) = self.mode {
            // VMPTRLD leaves a guest; this is an exit to SMM (33.4.2.15), or the exit is missing. PIP comes next.
            self.mode = None;
        }
        self.change(offset, to);
        self.confirmed = self.clock.now();
    }

    /// PSB+ has ended: what it says is so now.
    fn apply(&mut self, offset: u64, to: To<'_>) {
        let Some(status) = self.status.take() else { return };
        self.apply_time(offset, status, to);
        let vmcs = status.vmcs.and_then(Vmcs::of);
        if self.is_contradicted(status.pip, vmcs) {
            self.contradict(offset, to);
        }
        // A guest has a VMCS, whether it is said or not; the host need not have one any more.
        let is_guest = matches!(self.mode, Some(Mode::Guest { .. }));
        if vmcs.is_some() || !is_guest || status.vmcs.is_some() {
            self.vmcs = vmcs;
        }
        if let Some((cr3, is_guest)) = status.pip {
            let space = Space::of(cr3);
            self.is_assumed = false;
            self.mode = Some(match (is_guest, self.mode) {
                (false, _) => Mode::Root(space),
                (true, Some(Mode::Guest { vm, .. })) => Mode::Guest { vm, process: space },
                (true, _) => Mode::Guest { vm: None, process: space },
            });
        }
        if self.doing() != self.open.doing {
            self.close(self.clock.now(), Edge::Cut, to);
            self.open(offset, self.doing(), self.clock.now(), Edge::Cut);
        }
        self.confirmed = self.clock.now();
    }

    /// Whether PSB+ says something else than packets before: a packet that tells of the change is missing. Nothing
    /// tells that no VMCS is loaded any more.
    fn is_contradicted(&self, pip: Option<(u64, bool)>, vmcs: Option<Vmcs>) -> bool {
        let Some(mode) = self.mode else { return false };
        let other_vmcs = vmcs.is_some_and(|vmcs| self.vmcs.is_some_and(|known| known != vmcs));
        let other_space = pip.is_some_and(|(cr3, is_guest)| match mode {
            Mode::Root(space) => is_guest || Space::of(cr3) != space,
            Mode::Guest { process, .. } => !is_guest || Space::of(cr3) != process,
        });
        other_vmcs || other_space
    }

    /// What was said since the last packet that has confirmed it is not sure.
    fn contradict(&mut self, offset: u64, to: To<'_>) {
        self.counts.contradictions += 1;
        let is_untraced = self.open.is_untraced;
        let why = if is_untraced { Unknown::Untraced } else { Unknown::Contradiction };
        self.mode = None;
        self.power = Power::Awake;
        if !matches!(self.open.doing, Doing::Unknown(_)) {
            self.late = None;
            self.close(self.confirmed, Edge::Cut, to);
            self.open(offset, Doing::Unknown(why), self.confirmed, Edge::Cut);
        }
    }

    /// Packets are missing from here on.
    fn lose(&mut self, offset: u64, why: Unknown, to: To<'_>) {
        self.lose_at(offset, self.clock.now(), why, to);
    }

    #[cold]
    fn lose_at(&mut self, offset: u64, time: Option<u64>, why: Unknown, to: To<'_>) {
        self.status = None;
        self.mode = None;
        self.vmcs = None;
        self.power = Power::Awake;
        (self.guest_tsc, self.foreign) = (None, None);
        self.is_assumed = false;
        self.late = None;
        self.clock.lose();
        self.confirmed = None;
        if !matches!(self.open.doing, Doing::Unknown(_)) {
            self.close(time, Edge::Cut, to);
            self.open(offset, Doing::Unknown(why), time, Edge::Cut);
        }
    }

    /// What the packets say now.
    fn doing(&self) -> Doing {
        match (self.mode, self.open.doing) {
            (None, doing @ Doing::Unknown(_)) => doing,
            (None, _) => Doing::Unknown(Unknown::Contradiction),
            (Some(mode), _) if self.power == Power::Stopped => {
                let vmcs = self.vmcs.filter(|_| matches!(mode, Mode::Guest { .. }));
                Doing::Idle { by: Rest::Power, vmcs }
            }
            (Some(Mode::Root(space)), _) => Doing::Root { vmcs: self.vmcs, space },
            (Some(Mode::Guest { vm, process }), _) => Doing::Guest { vmcs: self.vmcs, vm, process },
        }
    }

    /// A packet says that it changes here, if it does.
    fn change(&mut self, offset: u64, to: To<'_>) {
        let doing = self.doing();
        if doing == self.open.doing {
            return;
        }
        let now = self.clock.now();
        self.close(now, Edge::Seen, to);
        self.open(offset, doing, now, Edge::Seen);
        if !self.clock.is_exact() {
            self.late = self.late.or(now);
        }
    }

    fn close(&mut self, end: Option<u64>, ends: Edge, to: To<'_>) {
        let Open { doing, mut begin, offset, begins, is_untraced } = self.open;
        // Where the time was lost meanwhile, the clock does not know that it was later.
        if begin.zip(end).is_some_and(|(begin, end)| end < begin) {
            self.counts.clock_steps += 1;
            begin = None;
        }
        to(Interval { doing, begin, end, offset, begins, ends, is_untraced });
    }

    fn open(&mut self, offset: u64, doing: Doing, begin: Option<u64>, begins: Edge) {
        let is_untraced = self.off.is_some() || self.is_assumed;
        self.open = Open { doing, begin, offset, begins, is_untraced };
    }
}

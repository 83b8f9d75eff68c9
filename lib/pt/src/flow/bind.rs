//! What each packet means: the goal that it sets, or what it binds to (SDM 33.4.1 and 33.4.2, "Application").

use super::bits::Bits;
use super::state::{Goal, Open, Overflow, Place, Then, Tracing};
use super::stuck::Stuck;
use super::{Cause, Event, Flow, Progress, Sink, Start, Transaction};
use crate::image::Image;
use crate::insn::Mode;
use crate::packet::ip::Ip;
use crate::packet::{Packet, Tnt};

/// Most events that wait for others. A processor has no more than a few, and hostile traces get no more memory.
const WAITING_MAX: usize = 16;

impl<P, D, I> Flow<P, I>
where
    P: Iterator<Item = (u64, Result<Packet, D>)>,
    I: Image,
{
    /// Reads one packet.
    #[inline]
    pub(super) fn read(&mut self, sink: &mut impl Sink) -> Progress {
        // Most packets are of branches: those are not moved.
        let (offset, packet) = match self.take_ahead() {
            Some(ahead) => ahead,
            None => match self.packets.next() {
                Some((offset, Ok(Packet::Tnt(tnt)))) if self.is_following() => {
                    self.offset = offset;
                    self.follow_tnt(tnt);
                    return Progress::More;
                }
                Some((offset, packet)) => (offset, packet.ok()),
                None => {
                    self.deliver(None, sink);
                    return Progress::End;
                }
            },
        };
        self.offset = offset;
        match packet {
            Some(Packet::Tip(ip)) if self.is_following() => {
                let to = self.last_ip.update(ip);
                self.start(Goal::Branch { to });
            }
            Some(packet) => {
                if let Packet::PsbEnd | Packet::Fup(_) = packet {
                    self.foresee(packet);
                }
                self.bind(packet, sink);
            }
            None => self.resynchronize(sink),
        }
        Progress::More
    }
}

impl<P, I: Image> Flow<P, I> {
    /// Whether packets of branches are all that may come.
    #[inline]
    fn is_following(&self) -> bool {
        let open = &self.open;
        self.tracing == Tracing::On && self.status.is_none() && open.events.is_empty() && open.from.is_none()
    }

    #[inline]
    fn follow_tnt(&mut self, tnt: Tnt) {
        self.bits = Bits::new(tnt);
        if !self.bits.is_empty() {
            self.start(Goal::Bits);
        }
    }

    /// Follows code to a goal.
    #[inline]
    pub(super) fn start(&mut self, goal: Goal) {
        self.goal = goal;
        self.stuck = Stuck::default();
        self.overflow = Overflow::None;
        self.is_fresh = false;
        self.open.is_mode_last = false;
        self.open.is_behind_cr3 = false;
    }

    /// Does what a packet says.
    fn bind(&mut self, packet: Packet, sink: &mut impl Sink) {
        if is_of_time(packet) {
            sink.event(self.offset, Event::Packet { packet, address: None });
        } else if packet == Packet::Pad {
        } else if packet == Packet::Psb {
            self.deliver(None, sink);
            if self.open.from.is_some() {
                self.lose(Cause::Unexpected, sink);
            }
            self.start_status();
        } else if self.status.is_some() {
            self.bind_status(packet, sink);
        } else if self.tracing != Tracing::Lost {
            self.bind_branch(packet, sink);
        }
    }

    /// Does what a packet outside of PSB+ says.
    pub(super) fn bind_branch(&mut self, packet: Packet, sink: &mut impl Sink) {
        if self.open.from.is_some() && !may_stand_in_branch(packet) {
            self.open.from = None;
            self.lose(Cause::Unexpected, sink);
        }
        if self.overflow == Overflow::Open && !may_stand_in_overflow(packet) {
            self.overflow = Overflow::Off;
        }
        match packet {
            Packet::Tnt(tnt) => self.tnt(tnt, sink),
            Packet::Tip(ip) => self.tip(ip, sink),
            Packet::TipPge(ip) => self.pge(ip, sink),
            Packet::TipPgd(ip) => self.pgd(ip, sink),
            Packet::Fup(ip) => return self.fup(ip, sink),
            Packet::Ovf => self.overflow(sink),
            Packet::Pip { cr3, is_guest } => self.pip(cr3, is_guest, sink),
            Packet::Vmcs(base) => self.set_vmcs(base, sink),
            Packet::ModeExec { is_64_bit, is_32_bit, interrupts } => {
                self.open.mode = Some((mode(is_64_bit, is_32_bit), interrupts));
                self.open.is_mode_last = true;
                return;
            }
            Packet::ModeTsx { in_transaction, is_aborted } => self.tsx(in_transaction, is_aborted, sink),
            Packet::TraceStop => self.stop(sink),
            _ => self.bind_event(packet, sink),
        }
        self.open.is_mode_last = false;
    }

    /// Packets of events, some of which wait for a FUP.
    fn bind_event(&mut self, packet: Packet, sink: &mut impl Sink) {
        let event = Event::Packet { packet, address: None };
        match packet {
            Packet::Ptw { has_fup, .. } => {
                self.wait(event, has_fup, sink);
                self.open.has_ptwrite |= has_fup;
                if !has_fup && self.tracing == Tracing::On {
                    self.start(Goal::Ptwrite { at: None });
                }
            }
            Packet::Exstop { has_fup: true }
            | Packet::Bep { has_fup: true }
            | Packet::Trig { has_fup: true, .. }
            | Packet::Mwait { .. } => self.wait(event, true, sink),
            Packet::Cfe { has_fup, .. } => self.wait(event, has_fup, sink),
            Packet::Pwre { .. } | Packet::Evd { .. } => self.wait(event, false, sink),
            Packet::Exstop { .. } | Packet::Bep { .. } | Packet::Trig { .. } | Packet::Pwrx { .. } => {
                self.deliver(None, sink);
                sink.event(self.offset, event);
            }
            // PSBEND has nothing to end when OVF has done so.
            _ => {}
        }
    }

    fn tnt(&mut self, tnt: Tnt, sink: &mut impl Sink) {
        self.deliver(None, sink);
        self.expect(Tracing::On, sink);
        self.follow_tnt(tnt);
    }

    fn tip(&mut self, ip: Ip, sink: &mut impl Sink) {
        let to = self.last_ip.update(ip);
        if self.open.owns_fup {
            self.deliver(None, sink);
        }
        if self.overflow != Overflow::None && self.errata.skd010 {
            self.resolve(to, sink);
            return self.end_branch(sink);
        }
        self.expect(Tracing::On, sink);
        let Some(from) = self.open.from.take() else { return self.start(Goal::Branch { to }) };
        self.start(Goal::Packet);
        match to {
            Some(to) => {
                sink.event(self.offset, Event::AsyncBranch { from, to });
                self.go(Place::Address(to));
            }
            None => self.lose(Cause::NoAddress, sink),
        }
        self.end_branch(sink);
    }

    fn pge(&mut self, ip: Ip, sink: &mut impl Sink) {
        let to = self.last_ip.update(ip);
        // Some processors write PSB+ as if tracing were on already.
        if !self.is_fresh {
            self.expect(Tracing::Off, sink);
        }
        self.start(Goal::Packet);
        self.tracing = Tracing::On;
        self.go(to.map_or(Place::Unknown, Place::Address));
        match to {
            Some(address) => sink.event(self.offset, Event::Enabled { address, by: Start::Pge }),
            None => self.lose(Cause::NoAddress, sink),
        }
        self.end_branch(sink);
    }

    fn pgd(&mut self, ip: Ip, sink: &mut impl Sink) {
        let to = self.last_ip.update(ip);
        if self.open.owns_fup {
            self.deliver(None, sink);
        }
        if self.overflow != Overflow::None {
            // Tracing has ended before the processor could say where it was.
            if !self.errata.apl11 && !self.errata.skd010 {
                self.lose(Cause::Unexpected, sink);
            }
            return self.start(Goal::Packet);
        }
        self.expect(Tracing::On, sink);
        let is_behind = self.open.is_behind_cr3 && to.is_none_or(|to| self.address() == Some(to));
        let from = self.open.from.take();
        if from.is_some() || is_behind {
            self.start(Goal::Packet);
            self.disable(from, to, sink);
        } else {
            self.start(Goal::Disable { to });
        }
    }

    fn fup(&mut self, ip: Ip, sink: &mut impl Sink) {
        let address = self.last_ip.update(ip);
        self.open.binds_mode = std::mem::take(&mut self.open.is_mode_last);
        if std::mem::take(&mut self.is_off_ahead) {
            self.overflow = Overflow::Off;
            return;
        }
        let is_owned = self.open.owns_fup || self.open.binds_mode;
        let overflow = std::mem::replace(&mut self.overflow, Overflow::None);
        match address {
            Some(address) if overflow != Overflow::None && self.has_branches => {
                let is_its_own = overflow == Overflow::Open && !is_owned;
                if self.tracing == Tracing::On {
                    // PSB+ has said it already, unless something else happens there.
                    let is_known = is_its_own && self.place == Place::Address(address);
                    if !is_known {
                        self.arrive(address, is_owned);
                    }
                    return;
                }
                if overflow == Overflow::Off && !self.errata.skd010 {
                    self.lose(Cause::Unexpected, sink);
                }
                self.resolve(Some(address), sink);
                self.arrive(address, is_owned || is_its_own);
            }
            Some(address) if self.tracing == Tracing::On => self.arrive(address, is_owned),
            _ => self.deliver(address, sink),
        }
    }

    /// A FUP says where the flow is: for events that wait for it, or because something interrupts it there.
    fn arrive(&mut self, at: u64, is_owned: bool) {
        if self.open.has_ptwrite {
            return self.start(Goal::Ptwrite { at: Some(at) });
        }
        if self.open.has_abort && self.errata.bdm64 {
            self.doubt_branch(at);
        }
        let is_interrupt = !is_owned || self.open.has_abort;
        let then = if is_interrupt { Then::Interrupt } else { Then::Deliver };
        self.start(Goal::Arrive { at, then });
    }

    /// An overflow has ended while tracing is on.
    fn resolve(&mut self, address: Option<u64>, sink: &mut impl Sink) {
        self.start(Goal::Packet);
        self.tracing = Tracing::On;
        let Some(address) = address else { return self.lose(Cause::NoAddress, sink) };
        self.go(Place::Address(address));
        sink.event(self.offset, Event::Enabled { address, by: Start::Overflow });
        self.set_open_mode(sink);
    }

    fn pip(&mut self, cr3: u64, is_guest: bool, sink: &mut impl Sink) {
        if self.open.from.is_some() {
            self.open.paging = Some((cr3, is_guest));
        } else if self.tracing == Tracing::On {
            self.start(Goal::Paging { cr3, is_guest });
        } else {
            self.set_paging(cr3, is_guest, sink);
        }
    }

    fn tsx(&mut self, in_transaction: bool, is_aborted: bool, sink: &mut impl Sink) {
        let state = match (in_transaction, is_aborted) {
            (true, _) => Transaction::Begun,
            (false, false) => Transaction::Committed,
            (false, true) => Transaction::Aborted,
        };
        // While tracing is off, no FUP follows (SDM 33.4.2.8).
        let has_fup = self.tracing == Tracing::On || self.overflow != Overflow::None;
        self.wait(Event::Transaction { state, address: None }, has_fup, sink);
        self.open.has_abort = has_fup && state == Transaction::Aborted;
    }

    /// OVF: packets are missing; the next one with an address says where the flow is.
    pub(super) fn overflow(&mut self, sink: &mut impl Sink) {
        self.deliver(None, sink);
        self.start(Goal::Packet);
        sink.event(self.offset, Event::Overflow);
        self.turn_off();
        self.returns.clear();
        self.open = Open::default();
        self.state.is_speculative = false;
        self.overflow = Overflow::Open;
    }

    /// TraceStop, behind the TIP.PGD of the branch into such a region; or behind TIP.PGE, where tracing was started in
    /// one (SDM 33.4.2.9).
    fn stop(&mut self, sink: &mut impl Sink) {
        self.deliver(None, sink);
        self.turn_off();
        sink.event(self.offset, Event::Stopped);
    }

    /// Bytes that are no packet: nothing is known before the next PSB.
    fn resynchronize(&mut self, sink: &mut impl Sink) {
        self.deliver(None, sink);
        self.start(Goal::Packet);
        self.lose(Cause::Damage, sink);
        self.turn_off();
        self.tracing = Tracing::Lost;
        self.state.is_speculative = false;
        self.open = Open::default();
        self.status = None;
    }

    /// A packet is only written while tracing is on, or off. If it seems not to be, packets are missing.
    fn expect(&mut self, tracing: Tracing, sink: &mut impl Sink) {
        if self.tracing != tracing {
            self.lose(Cause::Unexpected, sink);
            self.tracing = tracing;
        }
    }

    /// An event that waits: for a FUP that is its own, or for what follows it.
    fn wait(&mut self, event: Event, owns_fup: bool, sink: &mut impl Sink) {
        if self.open.events.len() == WAITING_MAX {
            self.deliver(None, sink);
        }
        self.open.events.push((self.offset, event));
        self.open.owns_fup |= owns_fup;
        let follows = self.open.events.len() > 1;
        let is_alone = !owns_fup && !follows;
        if is_alone && self.tracing != Tracing::On {
            self.deliver(None, sink);
        }
    }

    /// Events that were waiting happen here.
    pub(super) fn deliver(&mut self, address: Option<u64>, sink: &mut impl Sink) {
        if std::mem::take(&mut self.open.binds_mode) {
            self.set_open_mode(sink);
        }
        for (offset, event) in self.open.events.drain(..) {
            if let Event::Transaction { state, .. } = event {
                self.state.is_speculative = state == Transaction::Begun;
            }
            sink.event(offset, event.at(address));
        }
        self.open.owns_fup = false;
        self.open.has_ptwrite = false;
        self.open.has_abort = false;
    }

    /// Something interrupts the flow here; a TIP says what follows.
    pub(super) fn interrupt(&mut self, at: u64, sink: &mut impl Sink) {
        self.deliver(Some(at), sink);
        self.open.from = Some(at);
    }

    /// PIP, at a far branch: its TIP follows.
    pub(super) fn wait_for_branch(&mut self) {
        if let Goal::Paging { cr3, is_guest } = std::mem::take(&mut self.goal) {
            self.open.paging = Some((cr3, is_guest));
        }
    }

    /// Behind a branch that a TIP was about: what bound to it holds.
    pub(super) fn end_branch(&mut self, sink: &mut impl Sink) {
        if let Some((cr3, is_guest)) = self.open.paging.take() {
            self.set_paging(cr3, is_guest, sink);
        }
        self.set_open_mode(sink);
        if !self.open.events.is_empty() {
            self.deliver(None, sink);
        }
    }

    fn set_open_mode(&mut self, sink: &mut impl Sink) {
        if let Some((mode, interrupts)) = self.open.mode.take() {
            self.set_mode(mode, interrupts, sink);
        }
    }

    /// Tracing ends here.
    pub(super) fn disable(&mut self, from: Option<u64>, to: Option<u64>, sink: &mut impl Sink) {
        let from = from.filter(|&at| !self.errata.skd022 || !self.doubt_fup(at, sink));
        sink.event(self.offset, Event::Disabled { from, to });
        self.turn_off();
        self.end_branch(sink);
    }

    /// The flow is known again.
    pub(super) fn resume(&mut self, address: u64, sink: &mut impl Sink) {
        self.go(Place::Address(address));
        sink.event(self.offset, Event::Enabled { address, by: Start::Gap });
    }

    pub(super) fn set_mode(&mut self, mode: Mode, interrupts: bool, sink: &mut impl Sink) {
        if (self.state.mode, self.state.interrupts) != (mode, Some(interrupts)) {
            self.state.interrupts = Some(interrupts);
            sink.event(self.offset, Event::Mode { mode, interrupts });
        }
        if self.state.mode != mode {
            self.leave_code();
            self.state.mode = mode;
        }
    }

    pub(super) fn set_paging(&mut self, cr3: u64, is_guest: bool, sink: &mut impl Sink) {
        if self.state.paging.replace((cr3, is_guest)) != Some((cr3, is_guest)) {
            sink.event(self.offset, Event::AddressSpace { cr3, is_guest });
            let space = self.image.space(cr3, is_guest);
            self.set_space(space);
            sink.space(space);
        }
    }

    pub(super) fn set_vmcs(&mut self, base: u64, sink: &mut impl Sink) {
        if self.state.vmcs.replace(base) != Some(base) {
            sink.event(self.offset, Event::Vmcs(base));
        }
    }
}

/// The mode that MODE.Exec names.
pub(super) fn mode(is_64_bit: bool, is_32_bit: bool) -> Mode {
    match (is_64_bit, is_32_bit) {
        (true, _) => Mode::Bits64,
        (false, true) => Mode::Bits32,
        (false, false) => Mode::Bits16,
    }
}

/// Whether a packet says nothing about the flow.
pub(super) fn is_of_time(packet: Packet) -> bool {
    matches!(
        packet,
        Packet::Cbr(_)
            | Packet::Tsc(_)
            | Packet::Mtc(_)
            | Packet::Tma { .. }
            | Packet::Cyc(_)
            | Packet::Mnt(_)
            | Packet::Bbp { .. }
            | Packet::Bip { .. }
    )
}

/// Whether a packet may stand between OVF and the FUP that says where the flow goes on (SDM 33.4.1, table "Compound
/// Packet Event Summary"). Some processors say the mode before.
fn may_stand_in_overflow(packet: Packet) -> bool {
    matches!(
        packet,
        Packet::Fup(_)
            | Packet::ModeExec { .. }
            | Packet::PsbEnd
            | Packet::Tnt(_)
            | Packet::Tip(_)
            | Packet::TipPge(_)
            | Packet::TipPgd(_)
            | Packet::Ovf
    )
}

/// Whether a packet may stand between a FUP and its TIP (SDM 33.4.1, table "Compound Packet Event Summary"), or is of
/// a processor's sleep, which begins and ends at any time.
fn may_stand_in_branch(packet: Packet) -> bool {
    matches!(
        packet,
        Packet::Tip(_)
            | Packet::TipPgd(_)
            | Packet::Pip { .. }
            | Packet::Vmcs(_)
            | Packet::ModeExec { .. }
            | Packet::Ovf
            | Packet::Pwre { .. }
            | Packet::Pwrx { .. }
            | Packet::Exstop { has_fup: false }
    )
}

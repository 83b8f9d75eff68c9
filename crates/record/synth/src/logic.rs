//! The processor's packet generator: from facts of one thread to packets, as IA32_RTIT_CTL has it with User=1 and OS=0
//! (SDM 3C, 33.2.5: the kernel is not in context), or from facts of one processor, with OS=1.
//!
//! A state machine without IO: the same facts and options make the same packets. The cases are those of the table
//! "Packet Generation under Different Enable Conditions" (33.7), for a thread whose kernel is not traced:
//!
//! | fact | packets |
//! |---|---|
//! | the first one | PSB+ without FUP: tracing is switched on in the kernel (case 2b) |
//! | conditional branch, compressed return | a bit of TNT (7d, 8d) |
//! | indirect jump, call, other return | TIP (9d) |
//! | SYSCALL | TIP.PGD without an address (10c; 33.4.2.5: ContextEn is cleared) |
//! | return to the program | MODE.Exec if there is none since the last PSB, TIP.PGE (10b) |
//! | interrupt, fault | FUP, TIP.PGD without an address (11c, 13c) |
//!
//! Where the kernel is traced ([`Options::kernel`]), ContextEn is always set:
//!
//! | fact | packets |
//! |---|---|
//! | SYSCALL, SYSRET, IRET, far branch | TIP (10e) |
//! | interrupt, fault, and what they lead to | FUP, TIP (11e, 13e) |
//! | MOV to CR3 | PIP (5d); PSB+ has one, too |
//! | the last one | FUP, TIP.PGD without an address: tracing is switched off (3b) |
//!
//! Where addresses are filtered ([`Ranges`]), FilterEn and TraceStop follow from where taken branches and events lead
//! to (33.2.4.3): what is next in memory is traced as what was before it.
//!
//! | a taken branch or an event leads | packets |
//! |---|---|
//! | out of what is traced | TIP.PGD, with the address unless the branch is conditional (6b, 7e, 9c, 10d, 11d) |
//! | into it | MODE.Exec if there is none since the last PSB, TIP.PGE (6c, 7b, 9b, 10b, 11b) |
//! | into a region that stops | the same TIP.PGD where tracing was on, TraceStop, and nothing any more |
//!
//! A return is not compressed over code that was not traced (33.4.2.2). TNT is flushed before every other packet,
//! except TIP packets that are deferred (33.4.2.3). A processor may hold it back behind timing packets, too: that is
//! not done here. Neither are transactions and event trace.

use crate::branches::Branches;
use crate::fact::{Exit, Fact, Run};
use crate::options::{Loss, Options};
use crate::ranges::{Landing, Ranges};
use crate::returns::Returns;
use crate::sink::{Sink, bytes_of};
use crate::time::Time;
use mote_pt::packet::Packet;
use mote_pt::packet::ip::{Compression, Ip, LastIp};
use std::ops::Range;

/// Makes the packets of one thread.
#[derive(Debug)]
pub struct Generator<S> {
    options: Options,
    sink: S,
    time: Time,
    branches: Branches,
    /// The targets of TIP packets that wait for the TNT packet before them.
    deferred: Vec<u64>,
    returns: Returns,
    last_ip: LastIp,
    ranges: Ranges,
    /// ContextEn: the thread is in its program.
    is_in_context: bool,
    /// PacketEn.
    is_enabled: bool,
    /// TriggerEn is cleared by a region that stops tracing.
    has_stopped: bool,
    /// The FUP of an event was written that leads to where the next fact says.
    is_leading: bool,
    /// CR3, where the kernel is traced.
    cr3: Option<u64>,
    has_begun: bool,
    /// MODE.Exec has been written since the last PSB.
    has_mode: bool,
    bytes: u64,
    bytes_at_psb: u64,
    /// Instructions so far, and those that were traced.
    executed: u64,
    traced: u64,
    /// How many of these packets tell of, also such that are not written yet.
    reported: u64,
    next_interrupt: u64,
    next_mtc_ps: u64,
    /// What comes is not executed before.
    waits_until_ps: u64,
    /// Core cycles at the last CYC, and at the first branch that is not written yet.
    cycles_at_cyc: u64,
    cycles_at_branch: u64,
    /// Since which instruction packets are lost.
    lost_since: Option<u64>,
    /// The losses that are wished, and how many of them are over.
    wishes: Vec<(Range<u64>, Loss)>,
    granted: usize,
    losses: Vec<Range<u64>>,
}

impl<S: Sink> Generator<S> {
    /// A thread that has executed nothing.
    ///
    /// # Errors
    /// As [`Options::check`].
    pub fn new(options: Options, sink: S) -> Result<Generator<S>, String> {
        options.check()?;
        let time = Time::new(options.clock);
        let generator = Generator {
            time,
            branches: Branches::new(options.long_tnt),
            deferred: Vec::new(),
            returns: Returns::new(),
            last_ip: LastIp::default(),
            ranges: Ranges::default(),
            is_in_context: false,
            is_enabled: false,
            has_stopped: false,
            is_leading: false,
            cr3: None,
            has_begun: false,
            has_mode: false,
            bytes: 0,
            bytes_at_psb: 0,
            executed: 0,
            traced: 0,
            reported: 0,
            next_interrupt: options.interrupt_every.unwrap_or(u64::MAX),
            next_mtc_ps: next_mtc(&time, options.mtc),
            waits_until_ps: 0,
            cycles_at_cyc: time.cycles(),
            cycles_at_branch: 0,
            lost_since: None,
            wishes: options.losses(),
            granted: 0,
            losses: Vec::new(),
            options,
            sink,
        };
        Ok(generator)
    }

    /// Only these addresses are traced: from where the next branch leads to.
    pub fn set_ranges(&mut self, ranges: Ranges) {
        self.ranges = ranges;
    }

    /// What comes is not executed before this time, in picoseconds since the clocks were 0: others had the processor.
    pub fn wait_until(&mut self, ps: u64) {
        self.waits_until_ps = self.waits_until_ps.max(ps);
    }

    /// The time, in picoseconds since the clocks were 0.
    pub fn now(&self) -> u64 {
        self.time.now().max(self.waits_until_ps)
    }

    /// Whether what is executed now is traced.
    pub fn is_tracing(&self) -> bool {
        !self.has_stopped && (self.is_enabled || self.ranges.is_all())
    }

    /// How many of the instructions that are traced packets tell of, also such that wait to be written. The others are
    /// told of by the next packet, or not at all, where that is lost.
    pub fn reported(&self) -> u64 {
        self.reported
    }

    /// Whether packets are being lost. What is executed is not traced then.
    pub fn is_losing(&self) -> bool {
        self.lost_since.is_some()
    }

    /// Takes the thread's next fact.
    pub fn fact(&mut self, fact: &Fact<'_>) {
        if let Fact::Space(cr3) = *fact {
            self.cr3 = Some(cr3).filter(|_| self.options.kernel);
        }
        if !self.has_begun {
            self.begin();
        }
        if !self.has_stopped || self.lost_since.is_some() {
            self.lose(fact);
        }
        if self.has_stopped {
            self.executed += instructions(fact);
            return;
        }
        match *fact {
            Fact::Run(ref run) => self.run(run),
            Fact::Enter(ip) => self.enter(ip),
            Fact::Interrupt(ip) => self.interrupt(ip),
            Fact::Space(_) => {}
            Fact::Data { ip, value, is_wide } => self.data(ip, value, is_wide),
            Fact::End => self.end(),
        }
    }

    /// Bytes that the packets have so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The thread's time stamp counter.
    pub fn tsc(&self) -> u64 {
        let mut time = self.time;
        time.set(self.waits_until_ps);
        time.tsc()
    }

    /// Which instructions were executed while packets were lost, by their number in the thread.
    pub fn losses(&self) -> &[Range<u64>] {
        &self.losses
    }

    /// Where the packets went.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Where the packets go.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    fn begin(&mut self) {
        self.has_begun = true;
        self.time.set(std::mem::take(&mut self.waits_until_ps));
        self.next_mtc_ps = next_mtc(&self.time, self.options.mtc);
        self.boundary(None);
    }

    fn run(&mut self, run: &Run<'_>) {
        self.sleep();
        self.pass(self.time.after(run.count()));
        self.executed += run.count();
        if self.is_tracing() && !self.is_losing() {
            self.traced += run.count();
        }
        if run.exit == Exit::System {
            return self.leave();
        }
        if self.ranges.is_all() || !is_taken(run) || self.stays(run.to, !is_conditional(run)) {
            self.exit(run);
        }
        if self.has_stopped {
            return;
        }
        if self.executed >= self.next_interrupt {
            self.next_interrupt =
                self.executed.saturating_add(self.options.interrupt_every.unwrap_or(u64::MAX));
            self.interrupt(run.to);
            self.enter(run.to);
        }
        self.boundary_if_due(Some(run.to).filter(|_| self.is_tracing()));
    }

    /// What is written of a run's last instruction, unless tracing is switched on or off by it.
    fn exit(&mut self, run: &Run<'_>) {
        match run.exit {
            Exit::Space { cr3 } => self.space(cr3),
            _ if !self.is_tracing() => {}
            Exit::Plain | Exit::System => {}
            Exit::Conditional { is_taken } => self.branch(is_taken),
            Exit::Call { back } => self.call(back, run.to),
            Exit::IndirectCall { back } => {
                self.returns.push(back);
                self.target(run.to);
            }
            Exit::IndirectJump => self.target(run.to),
            Exit::Return => self.returns_to(run.to),
            Exit::Far => self.address(Packet::Tip, run.to),
        }
    }

    /// A taken branch or an event leads to an address that is in context: whether PacketEn is set before and behind it.
    /// Otherwise what there is to be written is. `is_reported`: where tracing ends, the address is said.
    fn stays(&mut self, to: u64, is_reported: bool) -> bool {
        let landing = self.ranges.at(to);
        match (self.is_enabled, landing == Landing::Traced) {
            (true, true) => return true,
            (true, false) => self.disable(Some(to).filter(|_| is_reported)),
            (false, true) => self.enable(to),
            (false, false) => {}
        }
        if landing == Landing::Stop {
            self.has_stopped = true;
            self.event(Packet::TraceStop);
        }
        false
    }

    fn enable(&mut self, ip: u64) {
        if !self.has_mode {
            self.event(MODE);
            self.has_mode = self.lost_since.is_none();
        }
        self.address(Packet::TipPge, ip);
        self.is_enabled = true;
    }

    fn disable(&mut self, to: Option<u64>) {
        match to {
            Some(to) => self.address(Packet::TipPgd, to),
            None => self.event(Packet::TipPgd(SUPPRESSED)),
        }
        self.is_enabled = false;
        self.returns.clear();
    }

    /// A call to the next instruction has no return of its own: code reads its address so (33.4.2.2).
    fn call(&mut self, back: u64, to: u64) {
        if back != to {
            self.returns.push(back);
        }
    }

    fn returns_to(&mut self, to: u64) {
        let expected = self.returns.pop();
        if self.options.return_compression && expected == Some(to) {
            self.branch(true);
        } else {
            // Not deferred: bits that are read before it would be taken for its own (33.4.2.2).
            self.address(Packet::Tip, to);
        }
    }

    fn target(&mut self, to: u64) {
        self.reported = self.traced;
        if self.branches.is_empty() || !self.options.deferred_tips {
            return self.address(Packet::Tip, to);
        }
        self.deferred.push(to);
        if self.deferred.len() == DEFERRED_MAX {
            self.flush();
        }
    }

    fn space(&mut self, cr3: u64) {
        self.cr3 = Some(cr3).filter(|_| self.options.kernel);
        if self.cr3.is_some() {
            self.event(Packet::Pip { cr3, is_guest: false });
        }
    }

    fn end(&mut self) {
        if self.is_leading {
            self.leave();
        }
        self.flush();
    }

    /// To the kernel by an instruction.
    fn leave(&mut self) {
        if self.is_tracing() {
            self.event(Packet::TipPgd(SUPPRESSED));
        }
        self.is_in_context = false;
        self.is_enabled = false;
        self.boundary_if_due(None);
    }

    /// From the kernel; or where it is traced, to it.
    fn enter(&mut self, ip: u64) {
        if !self.is_in_context {
            self.pass(self.time.after_kernel());
            self.is_in_context = true;
        }
        let is_leading = std::mem::take(&mut self.is_leading);
        if self.ranges.is_all() {
            if is_leading {
                self.address(Packet::Tip, ip);
            } else {
                self.enable(ip);
            }
        } else if self.stays(ip, true) {
            self.address(Packet::Tip, ip);
        }
        self.boundary_if_due(Some(ip).filter(|_| self.is_tracing()));
    }

    /// To the kernel before an instruction.
    fn interrupt(&mut self, ip: u64) {
        if !self.is_in_context {
            return;
        }
        if self.is_enabled {
            self.address(Packet::Fup, ip);
        }
        if self.options.kernel {
            self.is_leading = self.is_enabled;
        } else {
            self.leave();
        }
    }

    fn data(&mut self, ip: u64, value: u64, is_wide: bool) {
        if !self.options.ptwrite || !self.is_enabled {
            return;
        }
        let has_fup = self.options.ptwrite_fup;
        self.event(Packet::Ptw { value, is_wide, has_fup });
        if has_fup {
            self.address(Packet::Fup, ip);
        }
    }

    fn branch(&mut self, is_taken: bool) {
        if self.lost_since.is_some() {
            return;
        }
        self.reported = self.traced;
        if self.branches.is_empty() && self.options.cyc.is_some() {
            self.cycles_at_branch = self.time.cycles();
        }
        if self.branches.push(is_taken) {
            self.flush();
        }
    }

    /// Writes the TNT packet that is being filled, and the TIP packets that wait for it.
    fn flush(&mut self) {
        if let Some(tnt) = self.branches.take() {
            self.count_cycles(self.cycles_at_branch);
            self.put(Packet::Tnt(tnt));
        }
        for to in std::mem::take(&mut self.deferred) {
            let ip = self.last_ip.compress(to);
            self.put(Packet::Tip(ip));
        }
    }

    /// A packet with an address, compressed.
    fn address(&mut self, packet: fn(Ip) -> Packet, address: u64) {
        if self.lost_since.is_none() {
            // Deferred addresses come first.
            self.flush();
            let ip = self.last_ip.compress(address);
            self.event(packet(ip));
        }
    }

    /// Any packet but TNT.
    fn event(&mut self, packet: Packet) {
        if self.lost_since.is_some() {
            return;
        }
        self.flush();
        if is_timed(&packet) {
            self.count_cycles(self.time.cycles());
        }
        if binds(&packet) {
            self.reported = self.traced;
        }
        self.put(packet);
    }

    /// CYC before a packet, one in a cycle (33.3.6).
    fn count_cycles(&mut self, now: u64) {
        let Some(threshold) = self.options.cyc else { return };
        let passed = now.saturating_sub(self.cycles_at_cyc);
        if passed >= threshold.max(1) {
            self.put(Packet::Cyc(passed));
            self.cycles_at_cyc = now;
        }
    }

    fn put(&mut self, packet: Packet) {
        self.bytes += bytes_of(&packet);
        self.sink.packet(packet);
    }

    /// Has the time pass that there was to wait. Over a long one the clocks stand still, as in sleep: TSC and TMA say
    /// when it is over (33.4.2.11), instead of many MTC packets.
    fn sleep(&mut self) {
        let until = std::mem::take(&mut self.waits_until_ps);
        let is_long = until.saturating_sub(self.time.now()) > SLEEP_PS;
        if !is_long || !self.options.tsc {
            return self.pass(until);
        }
        self.flush();
        self.time.set(until);
        self.tell_time();
        self.next_mtc_ps = next_mtc(&self.time, self.options.mtc);
    }

    /// Has time pass, with the MTC packets of it: also while the kernel runs (33.4.2.12 needs TriggerEn only).
    fn pass(&mut self, until_ps: u64) {
        while self.next_mtc_ps <= until_ps {
            self.time.set(self.next_mtc_ps);
            let bit = self.options.mtc.unwrap_or(0);
            self.event(Packet::Mtc((self.time.art() >> bit) as u8));
            self.next_mtc_ps = next_mtc(&self.time, self.options.mtc);
        }
        self.time.set(until_ps);
    }

    fn boundary_if_due(&mut self, ip: Option<u64>) {
        let is_due = self.bytes - self.bytes_at_psb >= self.options.psb_bytes;
        if is_due && self.lost_since.is_none() && !self.has_stopped {
            self.boundary(ip);
        }
    }

    /// PSB+ (33.3.7), with a FUP where PacketEn is set: the address at which a reader begins.
    fn boundary(&mut self, ip: Option<u64>) {
        self.event(Packet::Psb);
        self.bytes_at_psb = self.bytes;
        self.last_ip.reset();
        self.returns.clear();
        if self.options.tsc {
            self.tell_time();
        }
        if let Some(cr3) = self.cr3 {
            self.event(Packet::Pip { cr3, is_guest: false });
        }
        self.event(Packet::Cbr(self.options.clock.core_ratio));
        if let Some(address) = self.options.vmcs {
            self.event(Packet::Vmcs(address));
        }
        self.has_mode = ip.is_some();
        if let Some(ip) = ip {
            self.event(Packet::ModeTsx { in_transaction: false, is_aborted: false });
            self.event(MODE);
            self.address(Packet::Fup, ip);
        }
        self.event(Packet::PsbEnd);
    }

    fn tell_time(&mut self) {
        self.event(Packet::Tsc(self.time.tsc() & 0xff_ffff_ffff_ffff));
        if self.options.mtc.is_some() {
            let (ctc, fast) = (self.time.art() as u16, (self.time.fast() & 0x1ff) as u16);
            self.event(Packet::Tma { ctc, fast });
        }
    }

    /// Begins and ends the losses that are wished, before a fact.
    fn lose(&mut self, fact: &Fact<'_>) {
        let Some((wish, how)) = self.wishes.get(self.granted).cloned() else { return };
        match self.lost_since {
            None if self.executed >= wish.start || reaches(fact, self.executed, wish.start) => {
                self.flush();
                // What is behind the last packet nobody knows.
                self.lost_since = Some(self.executed.saturating_sub(self.traced - self.reported));
                self.traced = self.reported;
            }
            Some(since) if self.executed >= wish.end || *fact == Fact::End => {
                let Some(ip) = resumes(fact) else { return };
                self.granted += 1;
                self.losses.push(since..self.executed);
                let ip = ip.filter(|_| self.is_enabled);
                match how {
                    Loss::Overflow => self.resolve(ip),
                    Loss::Truncation => self.restart(ip),
                }
            }
            _ => {}
        }
    }

    /// The kernel has switched tracing on anew: PSB+ and TIP.PGE (2b, 10b), unless the program is not there.
    fn restart(&mut self, ip: Option<u64>) {
        self.lost_since = None;
        self.is_leading = false;
        self.is_enabled = false;
        if self.has_stopped {
            return;
        }
        self.boundary(None);
        if let Some(ip) = ip {
            self.enable(ip);
        }
    }

    /// OVF (33.3.8), and where tracing goes on, unless that is in the kernel: TIP.PGE follows then. No return after it
    /// is compressed by a call before it (33.4.2.16). Its address is written without regard to the last one, so that
    /// readers that forget that one understand it, too. A region that was met meanwhile stops tracing now (33.2.4.3).
    fn resolve(&mut self, ip: Option<u64>) {
        self.lost_since = None;
        self.returns.clear();
        self.event(Packet::Ovf);
        if self.has_stopped {
            self.event(Packet::TraceStop);
        } else if let Some(ip) = ip {
            let whole = whole(ip);
            self.last_ip.update(whole);
            self.event(Packet::Fup(whole));
        } else {
            self.last_ip.reset();
            self.is_leading = false;
            self.is_enabled = false;
        }
    }
}

/// What is longer than this is slept.
const SLEEP_PS: u64 = 20_000_000;

/// TIP packets that are held back at most. A processor may hold back any number.
const DEFERRED_MAX: usize = 32;

/// No address: it is out of context.
const SUPPRESSED: Ip = Ip { compression: Compression::Suppressed, bits: 0 };

/// 64-bit code, the only kind there is here.
const MODE: Packet = Packet::ModeExec { is_64_bit: true, is_32_bit: false, interrupts: false };

/// An address that needs no other one before it.
fn whole(ip: u64) -> Ip {
    let is_extended = ((ip << 16) as i64 >> 16) as u64 == ip;
    if is_extended {
        Ip { compression: Compression::Sext48, bits: ip & 0xffff_ffff_ffff }
    } else {
        Ip { compression: Compression::Full, bits: ip }
    }
}

/// Whether a run ends with a branch that is taken. A jump to the next instruction is not known to be one.
fn is_taken(run: &Run<'_>) -> bool {
    match run.exit {
        Exit::Plain => run.to != run.end(),
        Exit::Conditional { is_taken } => is_taken,
        Exit::Space { .. } => false,
        _ => true,
    }
}

fn is_conditional(run: &Run<'_>) -> bool {
    matches!(run.exit, Exit::Conditional { .. })
}

fn instructions(fact: &Fact<'_>) -> u64 {
    match fact {
        Fact::Run(run) => run.count(),
        _ => 0,
    }
}

/// Whether an instruction of this number is in the fact.
fn reaches(fact: &Fact<'_>, executed: u64, number: u64) -> bool {
    matches!(fact, Fact::Run(run) if executed + run.count() > number)
}

/// Where packets begin again with this fact: an address, or `None` in the kernel; nowhere between an instruction and
/// its data.
fn resumes(fact: &Fact<'_>) -> Option<Option<u64>> {
    match fact {
        Fact::Run(run) => Some(Some(run.start)),
        Fact::Interrupt(ip) => Some(Some(*ip)),
        Fact::Enter(_) | Fact::Space(_) | Fact::End => Some(None),
        Fact::Data { .. } => None,
    }
}

/// Whether a packet says how far a thread has come.
fn binds(packet: &Packet) -> bool {
    matches!(
        packet,
        Packet::Tip(_)
            | Packet::TipPge(_)
            | Packet::TipPgd(_)
            | Packet::Fup(_)
            | Packet::Pip { .. }
            | Packet::Ptw { .. }
            | Packet::TraceStop
    )
}

/// Whether a packet has a CYC before it (33.3.6). FUP, which is not of these, is the first packet of its event.
fn is_timed(packet: &Packet) -> bool {
    !matches!(
        packet,
        Packet::Psb | Packet::PsbEnd | Packet::Cbr(_) | Packet::Tma { .. } | Packet::Cyc(_) | Packet::Pad
    )
}

/// When bit `mtc` of the crystal clock's count changes next.
fn next_mtc(time: &Time, mtc: Option<u8>) -> u64 {
    match mtc {
        Some(bit) => time.when(((time.art() >> bit) + 1) << bit),
        None => u64::MAX,
    }
}

#[cfg(test)]
mod range_tests;
#[cfg(test)]
mod tests;

//! From blocks that began to what was executed: of one processor, kernel and programs.
//!
//! That a block has begun is all that is reported of it. That it was executed to its end is known when the next one
//! begins where its last instruction leads. It was cut where an exception says so; and where the next one begins in its
//! middle: so qemu goes on behind an instruction that is to reach a device.

use super::record::Event;
use crate::arch::{Instruction, Kind, is_fault};
use crate::block::Block;
use crate::error::Error;
use crate::fact::{Exit, Fact};
use crate::observer::Observer;
use std::rc::Rc;

/// INT n: its first byte.
const INT: u8 = 0xcd;

/// A processor.
#[derive(Debug)]
pub(super) struct Walk {
    cpu: i32,
    /// CR3, as packets have it.
    cr3: u64,
    /// The block that has begun last.
    pending: Option<Rc<Block>>,
    /// The next block is where an event leads, or the first one.
    is_entered: bool,
    /// Where the last branch or event has led to: from there on it was straight to the last block.
    straight: u64,
}

impl Walk {
    pub(super) fn new(cpu: i32) -> Walk {
        Walk { cpu, cr3: 0, pending: None, is_entered: true, straight: 0 }
    }

    /// CR3 is this, from the last block's end on.
    pub(super) fn space(&mut self, cr3: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        self.cr3 = cr3;
        if self.pending.is_none() && self.is_entered {
            return observer.fact(self.cpu, &Fact::Space(cr3));
        }
        Ok(())
    }

    /// What has begun is at its end, and leads to a block that begins.
    #[inline]
    pub(super) fn leads_to(&mut self, block: &Block, observer: &mut dyn Observer) -> Result<(), Error> {
        let Some(last) = self.pending.take() else { return Ok(()) };
        if block.is_round() && last.is_repeated() && last.last_ip == block.start {
            // One more round of the same instruction.
            self.pending = Some(last);
            return Ok(());
        }
        self.leads(&last, block.start, observer)
    }

    /// A block begins.
    #[inline]
    pub(super) fn begins(&mut self, block: Rc<Block>, observer: &mut dyn Observer) -> Result<(), Error> {
        if std::mem::take(&mut self.is_entered) {
            self.straight = block.start;
            observer.fact(self.cpu, &Fact::Enter(block.start))?;
        }
        self.pending.get_or_insert(block);
        Ok(())
    }

    /// An interrupt or an exception.
    pub(super) fn event(&mut self, event: Event, observer: &mut dyn Observer) -> Result<(), Error> {
        let from = self.interrupted(event, observer)?;
        self.is_entered = true;
        observer.fact(self.cpu, &Fact::Interrupt(from))
    }

    /// Whether some of these bytes were executed since the last branch, or are about to be.
    pub(super) fn passes(&self, start: u64, bytes: usize) -> bool {
        let end = |block: &Rc<Block>| block.start.wrapping_add(block.bytes.len() as u64);
        self.pending
            .as_ref()
            .is_some_and(|block| start < end(block) && self.straight < start.saturating_add(bytes as u64))
    }

    /// Whether a branch or an event has led to this address, which is the next one.
    pub(super) fn is_led_to(&self, address: u64) -> bool {
        self.is_entered || self.straight == address
    }

    /// Recording ends, wherever the processor is: before the instruction at this address, unless it was about to be led
    /// elsewhere.
    pub(super) fn ends_elsewhere(&mut self, address: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        let Some(last) = self.pending.clone() else { return self.ends(address, observer) };
        let leads = last.last.is_some_and(|way| way.exit(last.last_ip, address).is_ok());
        if leads || last.position(address).is_some() {
            return self.ends(address, observer);
        }
        self.breaks_off(observer)
    }

    /// Nobody knows whether the last block was executed: recording ends before it.
    pub(super) fn breaks_off(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        if let Some(last) = self.pending.take() {
            observer.fact(self.cpu, &Fact::Interrupt(last.start))?;
        }
        observer.fact(self.cpu, &Fact::End)
    }

    /// Recording ends before the instruction at this address.
    pub(super) fn ends(&mut self, address: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        if let Some(last) = self.pending.take() {
            self.leads(&last, address, observer)?;
            observer.fact(self.cpu, &Fact::Interrupt(address))?;
        }
        observer.fact(self.cpu, &Fact::End)
    }

    /// What was executed before an event; returns its address.
    fn interrupted(&mut self, event: Event, observer: &mut dyn Observer) -> Result<u64, Error> {
        let from = event.from;
        let Some(block) = self.pending.take() else { return Ok(from) };
        let end = block.start.wrapping_add(block.bytes.len() as u64);
        if from == end && is_trap(&block) {
            // The address of INT3 or INT n is that of the event, and it does not count.
            self.cut(&block, block.lengths.len() - 1, observer)?;
            return Ok(block.last_ip);
        }
        let is_fault = is_fault(event.vector, event.error);
        match block.position(from) {
            Some(count) if is_fault || (block.is_repeated() && from == block.last_ip) => {
                self.cut(&block, count, observer)?;
            }
            _ => self.leads(&block, from, observer)?,
        }
        Ok(from)
    }

    /// A block was left for `to`.
    #[inline]
    fn leads(&mut self, block: &Block, to: u64, observer: &mut dyn Observer) -> Result<(), Error> {
        match block.last.map(|last| (last.kind, last.exit(block.last_ip, to))) {
            Some((Kind::MovCr3, Ok(_))) => self.whole(block, Exit::Space { cr3: self.cr3 }, to, observer),
            Some((Kind::System, Ok(_))) if !is_trap(block) => self.whole(block, Exit::Far, to, observer),
            // No return or indirect branch leads to the middle of its own block.
            Some((Kind::Return | Kind::IndirectJump | Kind::IndirectCall | Kind::Far, Ok(exit)))
                if block.position(to).is_none_or(|count| count == 0) =>
            {
                self.whole(block, exit, to, observer)
            }
            Some((
                Kind::Plain
                | Kind::Repeated
                | Kind::Data
                | Kind::Jump(_)
                | Kind::Conditional(_)
                | Kind::Call(_),
                Ok(exit),
            )) => self.whole(block, exit, to, observer),
            _ => match block.position(to) {
                Some(count) => self.cut(block, count, observer),
                None => Err(Error::Code {
                    tid: self.cpu,
                    ip: block.last_ip,
                    why: "the processor went on where this does not lead",
                }),
            },
        }
    }

    #[inline]
    fn whole(
        &mut self,
        block: &Block,
        exit: Exit,
        to: u64,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        if exit != Exit::Plain || to != block.start.wrapping_add(block.bytes.len() as u64) {
            self.straight = to;
        }
        observer.fact(self.cpu, &Fact::Run(block.run(exit, to)))
    }

    /// Only so many instructions of the block were executed.
    fn cut(&self, block: &Block, count: usize, observer: &mut dyn Observer) -> Result<(), Error> {
        block.cut(count).map_or(Ok(()), |run| observer.fact(self.cpu, &Fact::Run(run)))
    }
}

/// It ends with INT3, INT1, INTO, or INT n.
fn is_trap(block: &Block) -> bool {
    let first = block.bytes.get(block.last_ip.wrapping_sub(block.start) as usize);
    match block.last {
        Some(Instruction { kind: Kind::Trap, .. }) => true,
        Some(Instruction { kind: Kind::System, .. }) => first == Some(&INT),
        _ => false,
    }
}

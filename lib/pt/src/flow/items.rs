//! The flow as iterators.

use super::{Event, Flow, Gap, Item, Progress, Sink};
use crate::image::{Image, Space};
use crate::insn::{Block, Class, Graph, Mode};
use crate::packet::Packet;

/// The flow, block by block.
#[derive(Debug)]
pub struct Items<P, I> {
    flow: Flow<P, I>,
    ready: Ready,
}

/// What was read ahead: what one call of [`Flow::advance`] gives.
#[derive(Debug, Default)]
struct Ready {
    items: Vec<Item<Block>>,
    next: usize,
}

impl Sink for Ready {
    #[inline]
    fn block(&mut self, block: &Block, _: &Graph) {
        self.items.push(Item::Code(*block));
    }

    fn event(&mut self, offset: u64, event: Event) {
        self.items.push(Item::Event { offset, event });
    }

    fn gap(&mut self, gap: Gap) {
        self.items.push(Item::Gap(gap));
    }
}

impl<P, I> Items<P, I> {
    pub(super) fn new(flow: Flow<P, I>) -> Self {
        Items { flow, ready: Ready::default() }
    }

    /// The flow, which may be ahead of what the iterator has given.
    pub fn flow(&self) -> &Flow<P, I> {
        &self.flow
    }

    /// Says in which address space code is executed behind the event that was given last, as [`Flow::set_space`] does.
    pub fn set_space(&mut self, space: Space)
    where
        I: Image,
    {
        self.flow.set_space(space);
    }

    /// Gives up the flow, with what it has not told yet.
    pub fn into_flow(self) -> Flow<P, I> {
        self.flow
    }
}

impl<P, D, I> Iterator for Items<P, I>
where
    P: Iterator<Item = (u64, Result<Packet, D>)>,
    I: Image,
{
    type Item = Item<Block>;

    #[inline]
    fn next(&mut self) -> Option<Item<Block>> {
        loop {
            if let Some(&item) = self.ready.items.get(self.ready.next) {
                self.ready.next += 1;
                return Some(item);
            }
            self.ready.items.clear();
            self.ready.next = 0;
            if self.flow.advance(&mut self.ready) == Progress::End && self.ready.items.is_empty() {
                return None;
            }
        }
    }
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its length in bytes. The image has the bytes.
    pub len: u8,
    /// What it does to the flow.
    pub class: Class,
    /// The mode in which it was executed.
    pub mode: Mode,
    /// It was executed in a transaction (TSX), which may have been aborted after it.
    pub is_speculative: bool,
}

/// The flow, instruction by instruction.
#[derive(Debug)]
pub struct Instructions<P, I> {
    items: Items<P, I>,
    /// What is left of a block, with no instructions if nothing is.
    block: Block,
}

impl<P, I> Instructions<P, I> {
    pub(super) fn new(flow: Flow<P, I>) -> Self {
        Instructions { items: Items::new(flow), block: Block::default() }
    }

    /// The flow, which may be ahead of what the iterator has given.
    pub fn flow(&self) -> &Flow<P, I> {
        &self.items.flow
    }

    /// Says in which address space code is executed behind the event that was given last, as [`Flow::set_space`] does.
    pub fn set_space(&mut self, space: Space)
    where
        I: Image,
    {
        self.items.set_space(space);
    }

    /// The first instruction of what is left of a block.
    #[inline]
    fn next_of_block(&mut self) -> Option<Instruction> {
        let block = &mut self.block;
        block.instructions = block.instructions.checked_sub(1)?;
        let len = self.items.flow.graph.length(block.lengths)?;
        block.lengths += 1;
        let address = block.start;
        block.start = address.wrapping_add(u64::from(len));
        Some(Instruction {
            address,
            len,
            class: if block.instructions == 0 { block.class } else { Class::Sequential },
            mode: block.mode,
            is_speculative: block.is_speculative,
        })
    }
}

impl<P, D, I> Iterator for Instructions<P, I>
where
    P: Iterator<Item = (u64, Result<Packet, D>)>,
    I: Image,
{
    type Item = Item<Instruction>;

    #[inline]
    fn next(&mut self) -> Option<Item<Instruction>> {
        loop {
            if let Some(instruction) = self.next_of_block() {
                return Some(Item::Code(instruction));
            }
            match self.items.next()? {
                Item::Code(block) => self.block = block,
                Item::Event { offset, event } => return Some(Item::Event { offset, event }),
                Item::Gap(gap) => return Some(Item::Gap(gap)),
            }
        }
    }
}

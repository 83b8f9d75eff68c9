//! Follows code until a goal is reached.
//!
//! Nearly all time is spent in [`Flow::follow_bits`] and [`Flow::follow_branch`]; everything else goes node by node in
//! [`Flow::follow`].

use super::bind::is_of_time;
use super::bits::Bits;
use super::returns::Call;
use super::state::{Goal, Place, Then};
use super::stuck::Stuck;
use super::{Cause, Event, Flow, Sink};
use crate::image::Image;
use crate::insn::{Block, Class, Mode, NONE, Node};
use crate::packet::Packet;

/// What a goal means at a node.
enum Step {
    /// The goal is where the node begins.
    Here,
    /// It is behind so many of its instructions, at an address.
    Inside(u32, u64),
    /// It is behind the node.
    Behind,
    /// It is the branch at the node's end, which a later packet is about.
    Branch,
    /// It is not here, and the node leads on without a packet.
    On,
    /// It is not here, and a packet is missing.
    Never,
}

impl<P, D, I> Flow<P, I>
where
    P: Iterator<Item = (u64, Result<Packet, D>)>,
    I: Image,
{
    /// Follows conditional branches and compressed returns, and what lies between, for some nodes. TNT packets that
    /// come one after the other are read here.
    pub(super) fn follow_bits(&mut self, sink: &mut impl Sink) -> Result<(), Cause> {
        let mut at = self.enter()?;
        let mut bits = self.bits;
        // The edge that has led to the node.
        let mut edge = (at, 0);
        for _ in 0..self.blocks_max {
            let Some(node) = self.graph.get(at) else { break };
            match node.class {
                Class::Conditional => edge = (at, usize::from(bits.take())),
                Class::Sequential | Class::Ptwrite | Class::MovCr3 => edge = (at, 0),
                Class::Jump | Class::CallNext => edge = (at, 1),
                Class::Call => {
                    edge = (at, 1);
                    self.returns.push(node.end(), at);
                }
                Class::Return => match bits.take().then(|| self.returns.pop()).flatten() {
                    Some(call) if call.node != NONE && self.state.mode == Mode::Bits64 => {
                        edge = (call.node, 0)
                    }
                    call => {
                        let node = *node;
                        return self.return_to(call, node, bits, sink);
                    }
                },
                _ => {
                    let node = *node;
                    (self.place, self.bits) = (Place::Node(at), bits);
                    return self.follow_deferred(at, &node, sink);
                }
            }
            sink.block(&self.block(node), &self.graph);
            at = self.graph.node(edge.0).edges[edge.1];
            if bits.is_empty() {
                match self.next_bits() {
                    Some(next) => bits = next,
                    None => break,
                }
            }
        }
        self.leave_bits(edge, bits)
    }

    /// The bits of the next packets, if they are TNT, as many as fit: where the bits of a packet end is what no
    /// processor can predict. The packet behind them is read, too.
    #[inline]
    fn next_bits(&mut self) -> Option<Bits> {
        let mut bits = Bits::EMPTY;
        while self.ahead.is_none() && self.target_ahead.is_none() {
            match self.packets.next() {
                Some((offset, Ok(Packet::Tnt(tnt)))) if bits.append(tnt) => self.offset = offset,
                Some((offset, Ok(Packet::Tip(ip)))) => {
                    self.target_ahead = Some((offset, self.last_ip.update(ip)));
                }
                Some((offset, packet)) => self.ahead = Some((offset, packet.ok())),
                None => break,
            }
        }
        if bits.is_empty() {
            return None;
        }
        self.stuck = Stuck::default();
        Some(bits)
    }

    /// Follows a branch whose address stands behind the bits of branches after it (SDM 33.4.2.3, "Deferred TIPs").
    #[cold]
    fn follow_deferred(&mut self, at: u32, node: &Node, sink: &mut impl Sink) -> Result<(), Cause> {
        if !node.class.needs_address() {
            return Err(self.contradiction(node));
        }
        let to = loop {
            if let Some((offset, to)) = self.target_ahead.take() {
                self.offset = offset;
                break to;
            }
            let Some((offset, packet)) = self.next_packet() else { return Err(self.contradiction(node)) };
            match packet {
                Some(Packet::Pad) => {}
                Some(Packet::Tip(ip)) => {
                    self.target_ahead = Some((offset, self.last_ip.update(ip)));
                }
                Some(packet) if is_of_time(packet) => {
                    sink.event(offset, Event::Packet { packet, address: None });
                }
                _ => {
                    self.put_back((offset, packet));
                    return Err(self.contradiction(node));
                }
            }
        };
        self.defers_tips = true;
        self.stuck = Stuck::default();
        sink.block(&self.block(node), &self.graph);
        self.branch(at, node, to)
    }
}

impl<P, I: Image> Flow<P, I> {
    /// Goes on where an edge leads to, with what is left of the bits.
    fn leave_bits(&mut self, edge: (u32, usize), bits: Bits) -> Result<(), Cause> {
        self.take_edge(edge);
        let has_used = std::mem::replace(&mut self.bits, bits) != bits;
        self.end_bits();
        if has_used {
            self.stuck = Stuck::default();
            return Ok(());
        }
        self.visit()
    }

    /// Follows code over the next branch that needs an address.
    pub(super) fn follow_branch(&mut self, to: Option<u64>, sink: &mut impl Sink) -> Result<(), Cause> {
        let mut at = self.enter()?;
        let mut edge = (at, 0);
        for _ in 0..self.blocks_max {
            let Some(node) = self.graph.get(at) else { break };
            edge = (at, 0);
            match node.class {
                Class::Sequential | Class::Ptwrite | Class::MovCr3 => {}
                Class::Jump | Class::CallNext => edge.1 = 1,
                Class::Call => {
                    edge.1 = 1;
                    self.returns.push(node.end(), at);
                }
                Class::Conditional | Class::Exception => return Err(self.contradiction(&{ *node })),
                _ => {
                    let node = *node;
                    sink.block(&self.block(&node), &self.graph);
                    self.branch(at, &node, to)?;
                    self.reach(sink);
                    return Ok(());
                }
            }
            sink.block(&self.block(node), &self.graph);
            at = node.edges[edge.1];
        }
        self.take_edge(edge);
        self.visit()
    }

    /// Goes where an edge leads to.
    fn take_edge(&mut self, (from, edge): (u32, usize)) {
        let node = self.graph.node(from);
        let next = node.edges[edge];
        if next == NONE {
            self.place = Place::Address(if edge == 0 { node.end() } else { node.target });
            self.edge = Some((from, edge));
        } else {
            self.go(Place::Node(next));
        }
    }

    /// Notes where the flow is, while no packet is used up.
    fn visit(&mut self) -> Result<(), Cause> {
        match self.address() {
            Some(address) if self.stuck.visit(address) => Err(Cause::Loop { address }),
            _ => Ok(()),
        }
    }

    /// Returns to a call whose node is not known, or in a mode that reads a part of its address.
    #[cold]
    fn return_to(
        &mut self,
        call: Option<Call>,
        node: Node,
        bits: Bits,
        sink: &mut impl Sink,
    ) -> Result<(), Cause> {
        let call = call.ok_or_else(|| self.contradiction(&node))?;
        sink.block(&self.block(&node), &self.graph);
        self.go(Place::Address(self.truncate(call.address)));
        self.stuck = Stuck::default();
        self.bits = bits;
        self.end_bits();
        Ok(())
    }

    /// Follows one node towards the goal.
    pub(super) fn follow(&mut self, sink: &mut impl Sink) -> Result<(), Cause> {
        if matches!(self.goal, Goal::Arrive { at, .. } if self.address() == Some(at)) {
            self.reach(sink);
            return Ok(());
        }
        let at = self.enter()?;
        let node = *self.graph.node(at);
        let step = self.step(&node);
        match step {
            Step::Here => self.reach(sink),
            Step::Inside(instructions, address) => {
                let block = self.block(&node);
                let first = Block { end: address, instructions, class: Class::Sequential, ..block };
                if instructions > 0 {
                    sink.block(&first, &self.graph);
                }
                if let Goal::Arrive { at, .. } = &mut self.goal {
                    *at = address;
                }
                self.go(Place::Address(address));
                self.reach(sink);
            }
            Step::Behind | Step::On => {
                if self.stuck.visit(node.start) {
                    return Err(Cause::Loop { address: node.start });
                }
                sink.block(&self.block(&node), &self.graph);
                if !matches!((self.goal, &step), (Goal::Disable { .. }, Step::Behind)) {
                    self.pass(at, &node);
                }
                if matches!(step, Step::Behind) {
                    if let Goal::Ptwrite { at } = &mut self.goal {
                        *at = Some(self.graph.last_address(&node));
                    }
                    self.reach(sink);
                }
            }
            Step::Branch => self.wait_for_branch(),
            Step::Never => return Err(self.contradiction(&node)),
        }
        Ok(())
    }

    /// The node where the flow is.
    pub(super) fn enter(&mut self) -> Result<u32, Cause> {
        let address = match self.place {
            Place::Node(node) => return Ok(node),
            Place::Address(address) => address,
            Place::Unknown => return Err(Cause::NoAddress),
        };
        let state = self.state;
        let context = *self.context.get_or_insert_with(|| self.graph.context(state.space, state.mode));
        let node = self.graph.enter(context, address, &self.image)?;
        if let Some((from, edge)) = self.edge.take() {
            self.graph.set_edge(from, edge, node);
        }
        self.place = Place::Node(node);
        Ok(node)
    }

    /// Leaves a node by its indirect branch.
    fn branch(&mut self, at: u32, node: &Node, to: Option<u64>) -> Result<(), Cause> {
        match node.class {
            Class::IndirectCall => self.returns.push(node.end(), at),
            Class::Return => drop(self.returns.pop()),
            _ => {}
        }
        let to = to.ok_or(Cause::NoAddress)?;
        let last = node.edges[1];
        if last != NONE && self.graph.node(last).start == to {
            self.go(Place::Node(last));
        } else {
            self.place = Place::Address(to);
            self.edge = Some((at, 1));
        }
        Ok(())
    }

    /// Leaves a node that leads on without a packet.
    fn pass(&mut self, at: u32, node: &Node) {
        if node.class == Class::Call {
            self.returns.push(node.end(), at);
        }
        let is_taken = matches!(node.class, Class::Jump | Class::Call | Class::CallNext);
        self.take_edge((at, usize::from(is_taken)));
    }

    /// What the goal means at a node.
    fn step(&self, node: &Node) -> Step {
        let is_there = match self.goal {
            Goal::Arrive { at, .. } if at == node.start => return Step::Here,
            Goal::Arrive { at, then } => {
                if let Some(instructions) = self.graph.instructions_before(node, at) {
                    return Step::Inside(instructions, at);
                }
                if self.errata.fup_nlip
                    && then != Then::Status
                    && at == node.end()
                    && node.class.needs_address()
                {
                    return Step::Inside(u32::from(node.instructions) - 1, self.graph.last_address(node));
                }
                false
            }
            Goal::Paging { .. } if node.class == Class::Far => return Step::Branch,
            Goal::Paging { .. } => node.class == Class::MovCr3,
            Goal::Disable { to } => self.is_disabled_by(node, to),
            Goal::Ptwrite { at } => {
                let is_it = |at| at == self.graph.last_address(node);
                node.class == Class::Ptwrite && at.is_none_or(is_it)
            }
            Goal::Packet | Goal::Bits | Goal::Branch { .. } => false,
        };
        match node.class {
            _ if is_there => Step::Behind,
            Class::Conditional | Class::Exception => Step::Never,
            class if class.needs_address() => Step::Never,
            _ => Step::On,
        }
    }

    /// Whether tracing is disabled at a node's end, when TIP.PGD says that it is by a branch to `to`.
    fn is_disabled_by(&self, node: &Node, to: Option<u64>) -> bool {
        let is_outside =
            |to: u64| !self.filter.is_empty() && !self.filter.iter().any(|traced| traced.contains(&to));
        match (node.class, to) {
            (Class::Conditional, _) => true,
            (Class::MovCr3, Some(to)) => to == node.end(),
            (Class::MovCr3, None) => true,
            (Class::Jump | Class::Call | Class::CallNext, Some(to)) => to == node.target,
            (Class::Jump | Class::Call | Class::CallNext, None) => {
                self.errata.skl014 && is_outside(node.target)
            }
            (class, _) => class.needs_address(),
        }
    }

    /// If no bits are left, the packet behind them is next.
    fn end_bits(&mut self) {
        if !self.bits.is_empty() {
            return;
        }
        self.goal = Goal::Packet;
        if let Some((offset, to)) = self.target_ahead.take() {
            self.offset = offset;
            self.start(Goal::Branch { to });
        }
    }

    /// An address as a return of the mode reads it.
    fn truncate(&self, address: u64) -> u64 {
        if self.state.mode == Mode::Bits64 { address } else { address & 0xffff_ffff }
    }

    /// A whole node, as it was executed.
    #[inline]
    pub(super) fn block(&self, node: &Node) -> Block {
        Block {
            start: node.start,
            end: node.end(),
            instructions: u32::from(node.instructions),
            class: node.class,
            mode: self.state.mode,
            is_speculative: self.state.is_speculative,
            lengths: node.lengths,
        }
    }

    #[cold]
    fn contradiction(&self, node: &Node) -> Cause {
        Cause::Contradiction { address: self.graph.last_address(node), class: node.class }
    }

    /// What a goal says that is reached.
    pub(super) fn reach(&mut self, sink: &mut impl Sink) {
        let is_known = self.place != Place::Unknown;
        match std::mem::take(&mut self.goal) {
            Goal::Packet => {}
            Goal::Bits => {
                self.bits = Bits::EMPTY;
                self.end_bits();
            }
            Goal::Branch { to } => {
                if let (false, Some(to), false) = (is_known, to, self.defers_tips) {
                    self.resume(to, sink);
                }
                self.end_branch(sink);
            }
            Goal::Arrive { at, then } => {
                if !is_known {
                    self.resume(at, sink);
                }
                match then {
                    Then::Deliver => self.deliver(Some(at), sink),
                    Then::Interrupt => self.interrupt(at, sink),
                    Then::Status => self.apply_status(sink),
                }
            }
            Goal::Ptwrite { at } => {
                if let (false, Some(at)) = (is_known, at) {
                    self.resume(at, sink);
                }
                self.deliver(at, sink);
            }
            Goal::Paging { cr3, is_guest } => {
                self.open.is_behind_cr3 = is_known;
                self.set_paging(cr3, is_guest, sink);
            }
            Goal::Disable { to } => self.disable(None, to, sink),
        }
    }
}

//! From packets to instructions: what was executed, in its order.
//!
//! [`Flow`] follows the code of an image as the packets say. It gives [`Block`]s, whose instructions
//! [`Graph::lengths`] tells apart, the events between them, and a [`Gap`] wherever code is missing.
//!
//! | | |
//! |---|---|
//! | [`Flow::items`] | an iterator by blocks |
//! | [`Flow::instructions`] | an iterator by instructions |
//! | [`Flow::advance`] | into a [`Sink`], which is fastest |
//! | [`calls::Calls`] | a sink: by calls |
//!
//! # How it works
//! A packet gives a goal: bits to use up, a branch to reach, an address to arrive at. Code is followed until the goal
//! is reached, and only then the next packet is read, because what it says may bind to where the flow is then. Packets
//! that bind to others are kept in between (SDM 33.4.1, compound packet events).
//!
//! Sources: SDM 33.4 (packets), 33.7 (what is written when), and where it leaves room libipt's
//! `pt_insn_decoder.c` and perf's `intel-pt-decoder.c`.
//!
//! # Cost
//! Code is decoded once. Then a block costs a few loads, no hashing and no allocation, as long as its branch has led to
//! the same place before.

mod ahead;
mod bind;
mod bits;
pub mod calls;
mod doubt;
mod event;
mod follow;
mod items;
mod returns;
mod state;
mod status;
mod stuck;

pub use crate::insn::{Block, Graph};
pub use event::{Cause, Event, Gap, Item, Start, Transaction};
pub use items::{Instruction, Instructions, Items};

use crate::errata::Errata;
use crate::image::{Image, Space};
use crate::insn::Context;
use crate::packet::Packet;
use crate::packet::ip::LastIp;
use bits::Bits;
use returns::Returns;
use state::{Goal, Open, Overflow, Place, State, Status, Tracing};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use stuck::Stuck;

/// How much memory decoded code takes, unless something else is said.
const GRAPH_BYTES: usize = 64 << 20;

/// A receiver of what was executed.
pub trait Sink {
    /// Packets of time mean something here. A reader of packets for a sink to which they do not may leave CYC out,
    /// which is half of all packets where there are any.
    const NEEDS_TIME: bool = true;

    /// These instructions were executed. `graph` tells them apart.
    fn block(&mut self, block: &Block, graph: &Graph);

    /// Something happened then, as the packet at `offset` says.
    fn event(&mut self, offset: u64, event: Event);

    /// Code is missing here.
    fn gap(&mut self, gap: Gap);

    /// Code is of another address space from here on, or of another version of one: that of the image.
    fn space(&mut self, space: Space) {
        let _ = space;
    }

    /// Another thread runs from here on, as the caller of the flow says: packets do not.
    fn thread(&mut self, tid: i32) {
        let _ = tid;
    }
}

/// Whether there is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Packets may be left.
    More,
    /// All packets were read.
    End,
}

/// The flow of one processor's trace, or one thread's.
///
/// Packets come with their offsets; an error is bytes that are no packet, behind which nothing is believed before the
/// next PSB.
#[derive(Debug)]
pub struct Flow<P, I> {
    packets: P,
    image: I,
    graph: Graph,
    /// The address space and mode in the graph, when code of them is needed.
    context: Option<Context>,
    filter: Vec<RangeInclusive<u64>>,
    errata: Errata,
    /// BranchEn: there are packets of branches.
    has_branches: bool,
    state: State,
    tracing: Tracing,
    place: Place,
    /// The edge that leads to the address where the flow is, if it does so by an edge that is not known yet.
    edge: Option<(u32, usize)>,
    goal: Goal,
    bits: Bits,
    returns: Returns,
    stuck: Stuck,
    last_ip: LastIp,
    open: Open,
    /// What PSB+ has said so far.
    status: Option<Status>,
    overflow: Overflow,
    /// Nothing was read since PSB+ said where the flow is.
    is_fresh: bool,
    /// TIPs may stand behind bits of later branches.
    defers_tips: bool,
    /// Most blocks that one call of `advance` gives.
    blocks_max: usize,
    /// The offset of the last packet.
    offset: u64,
    /// The packet that comes next, if it was read already; no packet is damage.
    ahead: Option<(u64, Option<Packet>)>,
    /// Those behind it that were looked at; none if there is none ahead.
    later: VecDeque<(u64, Option<Packet>)>,
    /// Packets to come say that tracing is off, though the one that is read now says that it is on.
    is_off_ahead: bool,
    /// The same of a TIP behind bits that are not used up: its offset, and where it leads to.
    target_ahead: Option<(u64, Option<u64>)>,
}

impl<P, D, I> Flow<P, I>
where
    P: Iterator<Item = (u64, Result<Packet, D>)>,
    I: Image,
{
    /// The flow of `packets` through the code of `image`. It begins in [`Space::ANY`] and 64-bit mode, until packets
    /// say something else.
    pub fn new(packets: P, image: I) -> Self {
        let state = State { space: Space::ANY, ..State::default() };
        Flow {
            packets,
            image,
            graph: Graph::new(GRAPH_BYTES),
            context: None,
            filter: Vec::new(),
            errata: Errata::default(),
            has_branches: true,
            state,
            tracing: Tracing::Lost,
            place: Place::Unknown,
            edge: None,
            goal: Goal::Packet,
            bits: Bits::EMPTY,
            returns: Returns::default(),
            stuck: Stuck::default(),
            last_ip: LastIp::default(),
            open: Open::default(),
            status: None,
            overflow: Overflow::None,
            is_fresh: false,
            defers_tips: false,
            blocks_max: Self::BLOCKS_MAX,
            offset: 0,
            ahead: None,
            later: VecDeque::new(),
            is_off_ahead: false,
            target_ahead: None,
        }
    }

    /// Takes code that was decoded before, from the same image, and its limit of memory.
    pub fn with_graph(mut self, graph: Graph) -> Self {
        self.leave_code();
        self.graph = graph;
        self
    }

    /// Says which addresses are traced, if the processor filters by address (IA32_RTIT_ADDRn_A and _B). It is needed
    /// only for processors that do not tell where a direct branch has left them ([`Errata::skl014`]).
    pub fn with_filter(mut self, addresses: impl IntoIterator<Item = RangeInclusive<u64>>) -> Self {
        self.filter.extend(addresses);
        self
    }

    /// Says what the processor does otherwise than the manual says.
    pub fn with_errata(mut self, errata: Errata) -> Self {
        self.errata = errata;
        self
    }

    /// Says that no branches were traced (BranchEn is clear, SDM 33.2.8.2): FUP only says where something happened, and
    /// no code can be followed.
    pub fn without_branches(mut self) -> Self {
        self.has_branches = false;
        self
    }

    /// Says that the processor defers TIPs (SDM 33.4.2.3, "Deferred TIPs"). Behind a gap, it is not known then which of
    /// the bits before a TIP are of branches behind it, and so the flow goes on at a FUP only. Without this, that is so
    /// from the first deferred TIP on; no processor that is known defers any.
    pub fn with_deferred_tips(mut self) -> Self {
        self.defers_tips = true;
        self
    }

    /// Code is of another address space from here on, or of another version of one, as something else says than the
    /// packets.
    pub fn change_space(&mut self, space: Space, sink: &mut impl Sink) {
        if self.state.space != space {
            self.set_space(space);
            sink.space(space);
        }
    }

    /// The address of the next instruction, where it is known and tracing is on.
    pub fn place(&self) -> Option<u64> {
        self.address()
    }

    /// The code that was decoded, for the next flow.
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// The flow as an iterator by blocks.
    pub fn items(self) -> Items<P, I> {
        Items::new(self)
    }

    /// The flow as an iterator by instructions.
    pub fn instructions(self) -> Instructions<P, I> {
        Instructions::new(self)
    }

    /// Gives everything to `sink`.
    pub fn run(&mut self, sink: &mut impl Sink) {
        while self.advance(sink) == Progress::More {}
    }

    /// Reads one packet, or follows code for at most [`BLOCKS_MAX`](Self::BLOCKS_MAX) blocks, or as many as
    /// [`set_blocks_max`](Self::set_blocks_max) says.
    #[inline]
    pub fn advance(&mut self, sink: &mut impl Sink) -> Progress {
        if self.goal == Goal::Packet {
            return self.read(sink);
        }
        if self.graph.is_full() {
            self.leave_code();
            self.graph.clear();
        }
        let followed = match (self.place, self.goal) {
            (Place::Unknown, _) => {
                self.reach(sink);
                Ok(())
            }
            (_, Goal::Bits) => self.follow_bits(sink),
            (_, Goal::Branch { to }) => self.follow_branch(to, sink),
            _ => self.follow(sink),
        };
        if let Err(cause) = followed {
            self.lose(cause, sink);
        }
        Progress::More
    }
}

impl<P, I: Image> Flow<P, I> {
    /// Most blocks that one call of `advance` gives, and so many unless something else is said.
    pub const BLOCKS_MAX: usize = 128;

    /// Says how many blocks one call of `advance` gives at most, from 1 to [`BLOCKS_MAX`](Self::BLOCKS_MAX): for a
    /// caller that changes something in between.
    pub fn set_blocks_max(&mut self, blocks: usize) {
        self.blocks_max = blocks.clamp(1, Self::BLOCKS_MAX);
    }

    /// Says in which address space code is executed from here on, for traces whose PIP packets do not.
    pub fn set_space(&mut self, space: Space) {
        self.leave_code();
        self.state.space = space;
    }

    /// The code that was decoded.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The code that the flow leads through.
    pub fn image(&self) -> &I {
        &self.image
    }

    /// Knows the address instead of the node, because code means something else from here on.
    fn leave_code(&mut self) {
        if let Some(address) = self.address() {
            self.go(Place::Address(address));
        }
        self.context = None;
        self.returns.forget_nodes();
    }

    /// The address of the next instruction.
    fn address(&self) -> Option<u64> {
        match self.place {
            Place::Unknown => None,
            Place::Address(address) => Some(address),
            Place::Node(node) => Some(self.graph.node(node).start),
        }
    }

    /// Notes that code is missing. What the goal says is done at once: where the flow is then, it goes on.
    fn lose(&mut self, cause: Cause, sink: &mut impl Sink) {
        let is_guest = self.state.paging.is_some_and(|(_, is_guest)| is_guest);
        sink.gap(Gap { offset: self.offset, cause, is_guest });
        self.returns.clear();
        self.go(Place::Unknown);
    }

    /// Goes to a place by no edge.
    fn go(&mut self, place: Place) {
        self.place = place;
        self.edge = None;
    }

    /// Nothing is traced from here on. Calls are remembered: no return of a call that was not traced is compressed (SDM
    /// 33.4.2.2), but it is not said of those before.
    fn turn_off(&mut self) {
        self.tracing = Tracing::Off;
        self.go(Place::Unknown);
    }
}

//! Code, decoded once: runs of instructions, with edges between them.
//!
//! A node is a straight run of instructions: it ends with the first one that is not sequential, after
//! [`INSTRUCTIONS_MAX`], or where no further instruction can be decoded. Nodes may overlap, as each begins where the
//! flow was once found to be. Edges are filled in by the flow that follows them; they lead to nodes of the same address
//! space and mode.

use super::table::Table;
use super::{Class, Insn, Kind, LEN_MAX, Mode, NoInsn, decode_kind};
use crate::image::{Image, NoImage, Space};
use std::collections::HashMap;
use thiserror::Error;

/// An edge that is not known yet.
pub(crate) const NONE: u32 = u32::MAX;

/// Most instructions of a node.
pub const INSTRUCTIONS_MAX: usize = 255;

/// Instructions that were executed one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The first one's address.
    pub start: u64,
    /// The address behind the last one.
    pub end: u64,
    /// How many they are, at least 1.
    pub instructions: u32,
    /// What the last one does; all others are sequential.
    pub class: Class,
    /// The mode in which they were executed.
    pub mode: Mode,
    /// They were executed in a transaction (TSX), which may have been aborted after them.
    pub is_speculative: bool,
    /// Where the graph has their lengths.
    pub(crate) lengths: u32,
}

impl Block {
    /// What tells its code from other code of the same graph, for a sink that keeps something beside it: blocks of the
    /// same number begin with the same instruction, of the same address space, and one is as long as the other or is
    /// cut short. Numbers are small; they mean nothing in another generation of the graph ([`Graph::generation`]).
    #[inline]
    pub fn number(&self) -> u32 {
        self.lengths
    }
}

/// Why there is no code at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The image has none.
    #[error(transparent)]
    NoImage(#[from] NoImage),
    /// The image has bytes that are no instruction.
    #[error("the bytes at {address:#x} are no instruction; the image may be of another version of the file")]
    NoInsn {
        /// Their address.
        address: u64,
    },
}

/// A run of instructions, with its edges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) start: u64,
    /// Where the direct branch at its end leads to.
    pub(crate) target: u64,
    /// The nodes behind it: of the next instruction, and of the branch's target, for indirect ones the last one.
    pub(crate) edges: [u32; 2],
    /// Where the lengths of its instructions are.
    pub(crate) lengths: u32,
    /// In bytes, at most 15 for each instruction.
    pub(crate) len: u16,
    pub(crate) instructions: u8,
    pub(crate) class: Class,
}

const _: () = assert!(size_of::<Node>() == 32);

impl Node {
    /// The address behind it.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.start.wrapping_add(u64::from(self.len))
    }
}

/// All code that was met, by address space, mode and address.
#[derive(Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    /// The context of each node.
    contexts: Vec<u32>,
    lengths: Vec<u8>,
    /// Of each instruction that has a length.
    kinds: Vec<Kind>,
    table: Table,
    numbers: HashMap<(Space, Mode), u32>,
    bytes_max: usize,
    generation: u32,
}

/// An address space and a mode, by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    number: u32,
    space: Space,
    mode: Mode,
}

impl Graph {
    /// A graph that is emptied when it takes more than `bytes_max` bytes. About 70 bytes are needed for each place
    /// where a branch leads to.
    pub fn new(bytes_max: usize) -> Self {
        Graph {
            nodes: Vec::new(),
            contexts: Vec::new(),
            lengths: Vec::new(),
            kinds: Vec::new(),
            table: Table::default(),
            numbers: HashMap::new(),
            bytes_max,
            generation: 0,
        }
    }

    /// How many times it was emptied.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// How many bytes its code takes, without what is reserved for more.
    pub fn bytes(&self) -> usize {
        let of_node = size_of::<Node>() + size_of::<u32>();
        let of_context = size_of::<((Space, Mode), u32)>();
        let of_instruction = size_of::<u8>() + size_of::<Kind>();
        self.nodes.len() * of_node
            + self.lengths.len() * of_instruction
            + self.table.bytes()
            + self.numbers.len() * of_context
    }

    /// The lengths in bytes of a block's instructions. The block comes from this graph, which has not been emptied
    /// since.
    pub fn lengths(&self, block: &Block) -> &[u8] {
        let first = block.lengths as usize;
        self.lengths.get(first..first + block.instructions as usize).unwrap_or_default()
    }

    /// What a block's instructions are, in short. The block comes from this graph, as above.
    pub fn kinds(&self, block: &Block) -> &[Kind] {
        let first = block.lengths as usize;
        self.kinds.get(first..first + block.instructions as usize).unwrap_or_default()
    }

    /// The length of one instruction.
    #[inline]
    pub(crate) fn length(&self, index: u32) -> Option<u8> {
        self.lengths.get(index as usize).copied()
    }

    pub(crate) fn is_full(&self) -> bool {
        // Indices are of 32 bits, and one of them means none.
        self.bytes() > self.bytes_max || self.lengths.len() > (NONE / 2) as usize
    }

    /// Forgets everything: indices and contexts mean nothing from now on.
    pub(crate) fn clear(&mut self) {
        let generation = self.generation.wrapping_add(1);
        *self = Graph { generation, ..Graph::new(self.bytes_max) };
    }

    pub(crate) fn context(&mut self, space: Space, mode: Mode) -> Context {
        let number = self.numbers.len() as u32;
        Context { number: *self.numbers.entry((space, mode)).or_insert(number), space, mode }
    }

    #[inline]
    pub(crate) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    /// The node that an edge leads to, if it is known.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize)
    }

    #[inline]
    pub(crate) fn set_edge(&mut self, index: u32, edge: usize, to: u32) {
        self.nodes[index as usize].edges[edge] = to;
    }

    /// The node at an address, which is decoded if it is new.
    #[inline]
    pub(crate) fn enter(&mut self, context: Context, address: u64, image: &impl Image) -> Result<u32, Fault> {
        let hash = hash(context.number, address);
        let is_only = self.numbers.len() == 1;
        let is_it = |index: u32| {
            self.nodes[index as usize].start == address
                && (is_only || self.contexts[index as usize] == context.number)
        };
        if let Some(index) = self.table.find(hash, is_it) {
            return Ok(index);
        }
        self.add(context, address, hash, image)
    }

    #[cold]
    fn add(&mut self, context: Context, address: u64, hash: u64, image: &impl Image) -> Result<u32, Fault> {
        let node = self.decode(context, address, image)?;
        let index = self.nodes.len() as u32;
        self.nodes.push(node);
        self.contexts.push(context.number);
        let Graph { nodes, contexts, table, .. } = self;
        table.insert(hash, index, |of| self::hash(contexts[of as usize], nodes[of as usize].start));
        Ok(index)
    }

    /// How many instructions of a node lie before an address that one of them, but the first, begins at.
    pub(crate) fn instructions_before(&self, node: &Node, address: u64) -> Option<u32> {
        let offset = address.wrapping_sub(node.start);
        if offset == 0 || offset >= u64::from(node.len) {
            return None;
        }
        let mut end = 0;
        let lengths = &self.lengths[node.lengths as usize..][..usize::from(node.instructions)];
        let before = lengths.iter().position(|&len| {
            end += u64::from(len);
            end >= offset
        })?;
        (end == offset).then_some(before as u32 + 1)
    }

    /// The address of a node's last instruction.
    pub(crate) fn last_address(&self, node: &Node) -> u64 {
        let last = node.lengths as usize + usize::from(node.instructions) - 1;
        node.end().wrapping_sub(u64::from(self.lengths[last]))
    }

    fn decode(&mut self, context: Context, start: u64, image: &impl Image) -> Result<Node, Fault> {
        let lengths = self.lengths.len();
        let (mut insn, mut kind) = insn_at(context, start, image)?;
        let mut address = start;
        let mut code: &[u8] = &[];
        loop {
            self.lengths.push(insn.len);
            self.kinds.push(kind);
            address = address.wrapping_add(u64::from(insn.len));
            let is_full = self.lengths.len() - lengths == INSTRUCTIONS_MAX;
            if insn.class != Class::Sequential || is_full || address < start {
                break;
            }
            code = code.get(usize::from(insn.len)..).unwrap_or_default();
            if code.len() < LEN_MAX {
                code = image.read(context.space, address).unwrap_or_default();
            }
            let here = decode_kind(context.mode, address, code).ok();
            match here.or_else(|| insn_at(context, address, image).ok()) {
                Some(next) => (insn, kind) = next,
                None => break,
            }
        }
        Ok(Node {
            start,
            target: insn.target,
            edges: [NONE; 2],
            lengths: lengths as u32,
            len: address.wrapping_sub(start) as u16,
            instructions: (self.lengths.len() - lengths) as u8,
            class: insn.class,
        })
    }
}

/// One instruction, whose bytes may lie in several segments.
fn insn_at(context: Context, address: u64, image: &impl Image) -> Result<(Insn, Kind), Fault> {
    let mut bytes = [0; LEN_MAX];
    let mut len = 0;
    loop {
        let at = address.wrapping_add(len as u64);
        let more = image.read(context.space, at)?;
        let more = &more[..more.len().min(LEN_MAX - len)];
        bytes[len..len + more.len()].copy_from_slice(more);
        len += more.len();
        match decode_kind(context.mode, address, &bytes[..len]) {
            Ok(insn) => return Ok(insn),
            Err(NoInsn::Short) if !more.is_empty() => {}
            Err(_) => return Err(Fault::NoInsn { address }),
        }
    }
}

/// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
fn hash(context: u32, address: u64) -> u64 {
    (address ^ u64::from(context).rotate_right(16)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Memory;

    fn image(segments: &[(u64, &'static [u8])]) -> Memory<'static> {
        let mut memory = Memory::new();
        for &(address, bytes) in segments {
            memory.add(Space::ANY, address, bytes).unwrap();
        }
        memory
    }

    fn enter(graph: &mut Graph, image: &Memory, address: u64) -> Result<Node, Fault> {
        let context = graph.context(Space(0), Mode::Bits64);
        graph.enter(context, address, image).map(|index| *graph.node(index))
    }

    #[test]
    fn a_run_ends_with_a_branch_or_where_code_ends() {
        let image = image(&[
            (0x1000, &[0x90, 0x31, 0xc0, 0x74, 0x01, 0x90, 0x06, 0, 0]),
            // An instruction in two segments.
            (0x2000, &[0x90, 0xe9, 1]),
            (0x2003, &[0, 0, 0, 0x90]),
        ]);
        let mut graph = Graph::new(1 << 20);
        let node = enter(&mut graph, &image, 0x1000).unwrap();
        assert_eq!((node.end(), node.instructions, node.class), (0x1005, 3, Class::Conditional));
        assert_eq!((node.target, graph.last_address(&node)), (0x1006, 0x1003));
        let before = [0x1000, 0x1001, 0x1002, 0x1003, 0x1005].map(|at| graph.instructions_before(&node, at));
        assert_eq!(before, [None, Some(1), None, Some(2), None]);
        let node = enter(&mut graph, &image, 0x1005).unwrap();
        assert_eq!((node.end(), node.class), (0x1006, Class::Sequential));
        let node = enter(&mut graph, &image, 0x2000).unwrap();
        assert_eq!((node.end(), node.target, node.class), (0x2006, 0x2007, Class::Jump));
        let node = enter(&mut graph, &image, 0x2006).unwrap();
        assert_eq!((node.end(), node.instructions), (0x2007, 1));
        assert_eq!(enter(&mut graph, &image, 0x1006).unwrap_err(), Fault::NoInsn { address: 0x1006 });
        let none = NoImage { address: 0x2007 };
        assert_eq!(enter(&mut graph, &image, 0x2007).unwrap_err(), Fault::NoImage(none));
    }

    #[test]
    fn code_is_decoded_once_for_each_context() {
        let image = image(&[(0, &[0x90; 4096])]);
        let mut graph = Graph::new(1 << 20);
        let first = graph.context(Space(0), Mode::Bits64);
        let second = graph.context(Space(0), Mode::Bits32);
        let index = graph.enter(first, 0, &image).unwrap();
        assert_eq!(graph.node(index).instructions, 255);
        assert_eq!(graph.enter(first, 0, &image), Ok(index));
        assert_ne!(graph.enter(second, 0, &image), Ok(index));
        assert_eq!(graph.context(Space(0), Mode::Bits64).number, first.number);
    }
}

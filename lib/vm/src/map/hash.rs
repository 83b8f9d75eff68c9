//! The hash: chains of nodes, found by key, without locks.
//!
//! # Parties
//! Threads of any number of processes that run programs, and tools that read and change the map from outside. Any of
//! them may be killed at any instruction, or write nonsense.
//!
//! # Memory
//! Heads of chains, one [`Link`] each, a power of two of them; then nodes of a fixed size: a link, the hash of the key
//! (bit 0: used of late, for [`lru`](super::lru)), the key, the value, each filled up with zeros to words. In the
//! header: the head of the free list, and how many nodes were ever taken, so that fresh memory, all zeros, is an empty
//! map.
//!
//! # State word
//! The node's link ([`State`]), with a version that each change makes larger.
//!
//! # Who may touch what
//! 1. A `Free` node is no thread's; the one that takes it off the free list (or past the mark of used ones) makes it
//!    `Claimed` and its own.
//! 2. Hash and key are written by the owner of a `Claimed` node, and never while it is `Live`.
//! 3. The value of a `Live` node may be written by any thread, word by word.
//! 4. A link in a chain changes by exchange only. The link of a `Deleted` node never changes until it is out of its
//!    chain; the thread that took it out owns it, and frees it.
//!
//! # Transitions
//! `Free` → `Claimed` (`take`) → `Live` (`insert`: the head of the chain is exchanged, the link of the node set before)
//! → `Deleted` (`delete`) → `Free` (`pass`, by any thread that finds it). `Claimed` → `Free` when another thread
//! inserted the same key.
//!
//! # One entry a key
//! Nodes come into a chain at its head only. A thread that inserts has seen the whole chain without the key, beginning
//! with the head's word, and exchanges that very word.
//!
//! # Ordering
//! A. Contents of a node happen before its place in the chain (release in the exchange of the head, acquire in the
//!    walk).
//! B. `Claimed` happens before new contents (`before_contents`); a reader of contents looks at the link again after
//!    them (`after_contents`): if it is the same, the contents were those of that entry.
//! C. A walk reads a node's link, and then again the link that led there: if that is the same, the node was in the
//!    chain when its own link was read (Michael 2002, "High performance dynamic lock-free hash tables and list-based
//!    sets").
//!
//! # Progress
//! Lock-free while all is well; and each operation ends after at most [`STEPS_MAX`] nodes, and [`TRIES_MAX`] lost
//! exchanges, whatever others write (`Missed::Busy`). A killed process leaves at most one node that no thread can use
//! (`Claimed`, or `Deleted` and out of its chain).
//!
//! # What it does not promise
//! A program that holds a value's address while another deletes the entry writes to the node's next entry, as in the
//! kernel's preallocated hashes. Values are whole word by word only.
//!
//! # Signals, fork
//! Like any other thread: a handler that interrupts an operation may do one of its own.

use super::key::Key;
use super::link::{Link, State};
use super::memory::{Memory, after_contents, before_contents};
use super::place::{FREE, FRESH, HashPlace};

/// Most nodes that one operation looks at. A chain has 0.5 to 1 nodes on average.
pub(crate) const STEPS_MAX: u32 = if cfg!(loom) { 12 } else { 4096 };
/// Most exchanges that one operation loses to others before it gives up.
pub(crate) const TRIES_MAX: u32 = 256;

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// No node is free.
    Full,
    /// Too long a chain, too many others, or damaged memory.
    Busy,
}

/// An entry that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Index of its node.
    pub(crate) node: usize,
    /// Its link when its key was compared.
    link: Link,
    /// The word that led to it, and what that was.
    from: (usize, Link),
}

/// What a walk along a chain ends with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Find {
    /// The entry.
    Found(Found),
    /// None; the head's word, of which that is true.
    None(Link),
    /// [`Missed::Busy`].
    Busy,
}

/// What [`Hash::insert`] did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inserted {
    /// There is a new entry.
    New,
    /// The key has an entry already.
    Present(Found),
}

/// What to do when no node is free.
pub(crate) trait Spare<M: Memory> {
    /// Tries to make one free; true when it is worth another look.
    fn make(&self, hash: &Hash<M>) -> bool;
}

/// Nothing gives way.
pub(crate) struct Nothing;

impl<M: Memory> Spare<M> for Nothing {
    fn make(&self, _: &Hash<M>) -> bool {
        false
    }
}

/// A hash in its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash<M> {
    pub(crate) memory: M,
    pub(crate) place: HashPlace,
}

/// One step of a walk.
enum Step {
    /// At this node, alive, its link being this.
    At(usize, Link),
    /// A deleted node was taken out: the word is now this.
    Passed(Link),
    /// The chain's end.
    End,
    /// Others changed the chain.
    Again,
    /// An index that no node has.
    Damaged,
}

impl<M: Memory> Hash<M> {
    /// Finds the entry of a key.
    ///
    /// # Cost
    /// Two cache misses when the map is cold: the head, and a node.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Key<'_>) -> Find {
        let head_at = self.place.head(key.hash());
        let mut steps = 0;
        'again: loop {
            let mut head = Link(self.memory.load(head_at));
            let mut from = (head_at, head);
            loop {
                steps += 1;
                if steps > STEPS_MAX {
                    return Find::Busy;
                }
                match self.step(from) {
                    Step::At(node, link) => {
                        if self.holds(node, key) {
                            let found = Found { node, link, from };
                            if self.is_still(&found) {
                                return Find::Found(found);
                            }
                            continue 'again;
                        }
                        from = (self.place.node(node), link);
                    }
                    Step::Passed(link) => {
                        if from.0 == head_at {
                            head = link;
                        }
                        from.1 = link;
                    }
                    Step::End => return Find::None(head),
                    Step::Again => continue 'again,
                    Step::Damaged => return Find::Busy,
                }
            }
        }
    }

    /// Looks where the link `from` leads.
    #[inline(always)]
    fn step(&self, from: (usize, Link)) -> Step {
        let (from_at, from) = from;
        // It was the chain's end when `from` was read, and nodes do not come in behind.
        let Some(node) = from.next() else { return Step::End };
        if node >= self.place.entries {
            return Step::Damaged;
        }
        let link = Link(self.memory.load(self.place.node(node)));
        if self.memory.load(from_at) != from.0 {
            return Step::Again;
        }
        match link.state() {
            State::Live => Step::At(node, link),
            State::Deleted => self.pass(from_at, from, node, link),
            State::Free | State::Claimed => Step::Again,
        }
    }

    /// Takes a deleted node out of its chain.
    #[cold]
    fn pass(&self, from_at: usize, from: Link, node: usize, link: Link) -> Step {
        let around = from.pointing(link.next());
        if !self.memory.swap_if(from_at, from.0, around.0) {
            return Step::Again;
        }
        self.give_back(node, link);
        Step::Passed(around)
    }

    #[inline(always)]
    fn holds(&self, node: usize, key: &Key<'_>) -> bool {
        let at = self.place.key(node);
        key.words().iter().enumerate().all(|(i, word)| self.memory.peek(at + i) == *word)
    }

    /// Makes an entry, if there is none: `fill` writes the value's words from the given index on. It may be called
    /// though the entry is not made in the end; when it returns false, that is so.
    pub(crate) fn insert(
        &self,
        key: &Key<'_>,
        spare: &impl Spare<M>,
        mut fill: impl FnMut(&M, usize) -> bool,
    ) -> Result<Option<Inserted>, Missed> {
        let mut mine: Option<(usize, Link)> = None;
        for _ in 0..TRIES_MAX {
            let head = match self.find(key) {
                Find::None(head) => head,
                found => {
                    mine.into_iter().for_each(|(node, link)| self.give_back(node, link));
                    let Find::Found(found) = found else { return Err(Missed::Busy) };
                    return Ok(Some(Inserted::Present(found)));
                }
            };
            let (node, claimed) = match mine {
                Some(mine) => mine,
                None => {
                    let taken = self.take_or_make(spare)?;
                    if !self.write(taken.0, key, &mut fill) {
                        self.give_back(taken.0, taken.1);
                        return Ok(None);
                    }
                    taken
                }
            };
            let live = claimed.then(head.next(), State::Live);
            self.memory.publish(self.place.node(node), live.0);
            let head_at = self.place.head(key.hash());
            if self.memory.swap_if(head_at, head.0, head.pointing(Some(node)).0) {
                return Ok(Some(Inserted::New));
            }
            mine = Some((node, live));
        }
        mine.into_iter().for_each(|(node, link)| self.give_back(node, link));
        Err(Missed::Busy)
    }

    /// Writes the contents of a claimed node.
    fn write(&self, node: usize, key: &Key<'_>, fill: &mut impl FnMut(&M, usize) -> bool) -> bool {
        self.memory.put(self.place.mark(node), key.mark());
        for (i, word) in key.words().iter().enumerate() {
            self.memory.put(self.place.key(node) + i, *word);
        }
        fill(&self.memory, self.place.value(node))
    }

    /// Removes the entry of a key; true when there was one.
    pub(crate) fn delete(&self, key: &Key<'_>) -> Result<bool, Missed> {
        for _ in 0..TRIES_MAX {
            match self.find(key) {
                Find::Found(found) => {
                    if self.delete_found(key, found) {
                        return Ok(true);
                    }
                }
                Find::None(_) => return Ok(false),
                Find::Busy => return Err(Missed::Busy),
            }
        }
        Err(Missed::Busy)
    }

    /// Removes this very entry; false when it was changed meanwhile.
    pub(crate) fn delete_found(&self, key: &Key<'_>, found: Found) -> bool {
        let deleted = found.link.becoming(State::Deleted);
        if !self.memory.swap_if(self.place.node(found.node), found.link.0, deleted.0) {
            return false;
        }
        let (from_at, from) = found.from;
        if let Step::Again = self.pass(from_at, from, found.node, deleted) {
            // Others changed the chain: another walk takes the node out.
            let _ = self.find(key);
        }
        true
    }

    fn take_or_make(&self, spare: &impl Spare<M>) -> Result<(usize, Link), Missed> {
        for _ in 0..TRIES_MAX {
            match self.take() {
                Err(Missed::Full) if spare.make(self) => {}
                taken => return taken,
            }
        }
        Err(Missed::Full)
    }

    /// Takes a free node: claimed, and the caller's alone.
    fn take(&self) -> Result<(usize, Link), Missed> {
        for _ in 0..TRIES_MAX {
            let top = Link(self.memory.load(FREE));
            let node = match top.next() {
                Some(node) if node < self.place.entries => {
                    let link = Link(self.memory.load(self.place.node(node)));
                    self.memory.swap_if(FREE, top.0, top.pointing(link.next()).0).then_some(node)
                }
                Some(_) => return Err(Missed::Busy),
                None => {
                    let fresh = self.memory.load(FRESH);
                    if fresh >= self.place.entries as u64 {
                        return Err(Missed::Full);
                    }
                    self.memory.swap_if(FRESH, fresh, fresh + 1).then_some(fresh as usize)
                }
            };
            if let Some(node) = node {
                let link = Link(self.memory.peek(self.place.node(node)));
                let claimed = link.then(None, State::Claimed);
                self.memory.put(self.place.node(node), claimed.0);
                before_contents();
                return Ok((node, claimed));
            }
        }
        Err(Missed::Busy)
    }

    /// Puts a node that is the caller's alone into the free list; after too many lost exchanges it is left out for
    /// good.
    fn give_back(&self, node: usize, link: Link) {
        for _ in 0..TRIES_MAX {
            let top = Link(self.memory.load(FREE));
            self.memory.publish(self.place.node(node), link.then(top.next(), State::Free).0);
            if self.memory.swap_if(FREE, top.0, top.pointing(Some(node)).0) {
                return;
            }
        }
    }

    /// Whether an entry is still the one that was found, after its value was read.
    pub(crate) fn is_still(&self, found: &Found) -> bool {
        after_contents();
        self.memory.peek(self.place.node(found.node)) == found.link.0
    }

    /// What looks like an entry in a node: `copy` copies it. False when there is none, or when it changed in between
    /// each time.
    ///
    /// It is an entry if [`Hash::find`] finds this node by its key; else another thread is just making it, or was
    /// killed then.
    pub(crate) fn visit(&self, node: usize, mut copy: impl FnMut(&M, usize, usize)) -> bool {
        for _ in 0..TRIES_MAX {
            let link = self.memory.load(self.place.node(node));
            if Link(link).state() != State::Live {
                return false;
            }
            copy(&self.memory, self.place.key(node), self.place.value(node));
            after_contents();
            if self.memory.peek(self.place.node(node)) == link {
                return true;
            }
        }
        false
    }

    /// Nodes that were ever taken.
    pub(crate) fn used(&self) -> usize {
        self.place.entries.min(self.memory.load(FRESH) as usize)
    }

    /// Nodes that are neither entries nor free: on their way, or left behind by a killed process. Exact when no thread
    /// is at work.
    pub(crate) fn lost(&self) -> u64 {
        let mut kept = self.length(FREE);
        for head in 0..self.place.heads {
            kept += self.length(self.place.heads_at + head);
        }
        (self.used() as u64).saturating_sub(kept)
    }

    /// Nodes behind the link at `at`.
    fn length(&self, at: usize) -> u64 {
        let mut count = 0;
        let mut next = Link(self.memory.load(at)).next();
        while let Some(node) = next.filter(|node| *node < self.place.entries) {
            if count > self.place.entries as u64 {
                break;
            }
            count += 1;
            next = Link(self.memory.load(self.place.node(node))).next();
        }
        count
    }
}

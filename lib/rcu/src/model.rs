//! What loom's models see: the core of a flavour with readers that are no real threads.

use crate::domain::{Domain, Ticket};
use crate::phases::{self, ByReader, FenceInReader};
use crate::qsbr::{self, QuiescentStates};
use crate::registry::Registry;
use crate::slot::{GUARDED, Slot};

/// The general flavour. The others differ from it in which side fences, which loom cannot express.
#[derive(Debug)]
pub struct General(Domain<FenceInReader>);

/// The flavour of readers that say themselves when they hold nothing (QSBR).
#[derive(Debug)]
pub struct Qsbr(Domain<QuiescentStates>);

/// A grace period that is polled for.
#[derive(Clone, Copy, Debug)]
pub struct Token(Ticket);

/// A reader of a model, which stands for a registered thread.
#[derive(Debug)]
pub struct Reader<'a>(&'a Slot);

impl General {
    /// A domain without readers.
    pub fn new() -> General {
        General(Domain::new(Registry::new()))
    }

    /// Registers a reader; `None` when there is no room.
    pub fn register(&self) -> Option<Reader<'_>> {
        self.0.registry.claim(1, 1).map(Reader)
    }

    /// Gives the reader's slot back; it must not be in a section.
    pub fn unregister(&self, reader: Reader<'_>) {
        self.0.registry.release(reader.0);
    }

    /// Runs `section` in a section.
    pub fn read<T>(&self, reader: &Reader<'_>, section: impl FnOnce() -> T) -> T {
        phases::enter::<ByReader, GUARDED>(reader.0, &self.0.gp);
        let read = section();
        phases::exit::<GUARDED>(reader.0);
        read
    }

    /// Runs `section` in a section of a thread that has no slot.
    pub fn read_as_guest<T>(&self, section: impl FnOnce() -> T) -> T {
        let phase = phases::enter_as_guest(&self.0);
        let read = section();
        phases::exit_as_guest(&self.0, phase);
        read
    }

    /// Waits for a grace period.
    pub fn synchronize(&self) {
        self.0.synchronize(None);
    }

    /// Asks for a grace period that begins from now on, without waiting for it.
    pub fn start_poll(&self) -> Token {
        Token(self.0.ticket())
    }

    /// Moves it on; true when it is over.
    pub fn is_done(&self, token: Token) -> bool {
        self.0.poll(token.0, None)
    }
}

impl Qsbr {
    /// A domain without readers.
    pub fn new() -> Qsbr {
        Qsbr(Domain::new(Registry::new()))
    }

    /// Registers a reader, which is online; `None` when there is no room.
    pub fn register(&self) -> Option<Reader<'_>> {
        let slot = self.0.registry.claim(1, 1)?;
        qsbr::online(slot, &self.0.gp);
        Some(Reader(slot))
    }

    /// Gives the reader's slot back.
    pub fn unregister(&self, reader: Reader<'_>) {
        qsbr::offline(reader.0);
        self.0.registry.release(reader.0);
    }

    /// Says that the reader holds nothing from before.
    pub fn quiescent(&self, reader: &Reader<'_>) {
        qsbr::quiescent(reader.0, &self.0.gp);
    }

    /// Takes the reader offline and online again: grace periods do not wait for it in between.
    pub fn pause(&self, reader: &Reader<'_>) {
        qsbr::offline(reader.0);
        qsbr::online(reader.0, &self.0.gp);
    }

    /// Waits for a grace period.
    pub fn synchronize(&self) {
        self.0.synchronize(None);
    }
}

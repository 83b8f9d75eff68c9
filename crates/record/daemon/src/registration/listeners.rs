//! Where processes say hello: a way in for the command and the recorder's own processes, and one more for each other
//! user whose processes root records.
//!
//! A process that inherits the mailbox of the first may be of any user by now (su(1), servers that give up their
//! rights): its user comes with each letter. Only processes of its own user come through one of the others.

use crate::error::Error;
use crate::registration::listener::Listener;
use crate::registration::principal;
use crate::registration::sockets::Sockets;
use mote_session::trust::Trust;
use mote_sys::fd::Fd;
use mote_wire::{ENVIRONMENT, PLACES_APART};
use std::env;

/// All ways in.
pub(crate) struct Listeners {
    trust: Trust,
    own: Listener,
    others: Vec<(u32, Listener)>,
}

impl Listeners {
    /// Opens the first.
    pub(crate) fn open() -> Result<Listeners, Error> {
        let trust = principal::trust();
        Ok(Listeners { trust, own: Listener::open(trust)?, others: Vec::new() })
    }

    /// Who may do what.
    pub(crate) fn trust(&self) -> Trust {
        self.trust
    }

    /// The environment variable by which processes find the listeners, and those of the recordings that we run inside
    /// of.
    pub(crate) fn variable(&self) -> Result<(&'static str, String), Error> {
        let number = self.own.theirs().map_or(-1, Fd::raw);
        let own = self.own.place(number)?;
        let value = match env::var(ENVIRONMENT) {
            Ok(others) if !others.is_empty() => format!("{own}{PLACES_APART}{others}"),
            _ => own,
        };
        Ok((ENVIRONMENT, value))
    }

    /// The place for a user's process that runs already, and the mailbox that goes with it; `None` when that was handed
    /// over. Another user gets a way in of its own.
    pub(crate) fn place_for(&mut self, uid: u32) -> Result<Option<(String, &Fd)>, Error> {
        let listener = self.listener_for(uid)?;
        listener.theirs().map(|theirs| Ok((listener.place(-1)?, theirs))).transpose()
    }

    /// The place alone, at any time: for a process that brings no other one with it.
    pub(crate) fn place_of(&mut self, uid: u32) -> Result<String, Error> {
        self.listener_for(uid)?.place(-1)
    }

    fn listener_for(&mut self, uid: u32) -> Result<&Listener, Error> {
        if uid == self.trust.own() {
            return Ok(&self.own);
        }
        if self.trust.own() != 0 {
            return Err(Error::Others);
        }
        if !self.others.iter().any(|(known, _)| *known == uid) {
            self.others.push((uid, Listener::open_for(self.trust, uid)?));
        }
        let found = self.others.iter().find(|(known, _)| *known == uid);
        Ok(found.map_or(&self.own, |(_, listener)| listener))
    }

    /// The recorder's own sockets.
    pub(crate) fn sockets(&self) -> &Sockets {
        self.own.sockets()
    }

    /// All ways in.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Listener> {
        std::iter::once(&self.own).chain(self.others.iter().map(|(_, listener)| listener))
    }

    /// Closes our copies of what processes have inherited or were sent, so that we see when no process holds it any
    /// more.
    pub(crate) fn hand_over(&mut self) {
        self.own.hand_over();
        self.others.iter_mut().for_each(|(_, listener)| listener.hand_over());
    }

    /// No process holds the other end of the mailbox that the command has inherited.
    pub(crate) fn is_deserted(&self) -> bool {
        self.own.is_deserted()
    }

    /// The descriptors to poll, negative ones among them.
    pub(crate) fn polled(&self) -> impl Iterator<Item = i32> {
        self.all().flat_map(Listener::polled)
    }
}

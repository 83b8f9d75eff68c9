//! Letters of the session to processes.

use super::group_memory::GroupMemory;
use super::peers::Peers;
use super::requests::Requests;
use mote_session::layout::Layout;
use mote_session::{Letter, PeerId, SendError};
use mote_wire::Message;

/// What letters are made of, and sent over.
pub(super) struct Post<'r> {
    pub(super) peers: &'r Peers,
    pub(super) memory: &'r mut GroupMemory,
    pub(super) requests: &'r Requests,
    pub(super) layout: &'r Layout,
    /// Most bytes of a stack that go with each record.
    pub(super) stack: u32,
}

impl Post<'_> {
    /// Sends a letter.
    ///
    /// # Errors
    /// Why it was not taken.
    pub(super) fn deliver(&mut self, peer: PeerId, letter: &Letter) -> Result<(), SendError> {
        match letter {
            Letter::Welcome { group, whose, with_maps } => {
                let (geometry, fds) = self.memory.rings_of(*group, *with_maps, self.layout)?;
                let welcome = Message::Welcome { whose: *whose, geometry, stack: self.stack };
                self.peers.send(peer, &welcome, &fds)
            }
            Letter::Renew { group, with_maps, .. } => {
                let (sizes, fds) = self.memory.rings_of(*group, *with_maps, self.layout)?;
                self.peers.send(peer, &Message::Renew(sizes), &fds)
            }
            Letter::Refused(why) => {
                let connection = self.peers.get(peer).ok_or(SendError::Gone)?;
                // It may have ended meanwhile: then nothing of it is missing.
                self.peers.send(peer, &Message::Refused(*why), &[])?;
                if connection.has_hung_up() { Err(SendError::Gone) } else { Ok(()) }
            }
            Letter::Filters { group, generation } => {
                let fds = self.memory.filters_of(*group, self.layout)?;
                self.peers.send(peer, &Message::Filters { generation: *generation }, &fds)
            }
            Letter::Ids(words) => {
                let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                self.peers.send(peer, &Message::Ids(&words), &[])
            }
            Letter::Invitation { place, mailbox, .. } => {
                let mailbox = self.requests.mailbox(*mailbox).ok_or(SendError::Gone)?;
                self.peers.send(peer, &Message::Join { place: place.as_bytes() }, &[mailbox.raw()])
            }
            Letter::Replaces(find) => self.peers.send(peer, &Message::Replaces { find: *find }, &[]),
            Letter::Stop => self.peers.send(peer, &Message::Stop, &[]),
        }
    }
}

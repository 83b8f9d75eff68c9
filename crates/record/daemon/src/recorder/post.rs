//! Letters to processes, and whether they were taken.

use super::Recorder;
use mote_session::{GroupId, Input, Letter, PeerId, SendError};
use mote_sys::Errno;
use mote_wire::Message;

impl Recorder<'_> {
    /// Sends a letter, and tells the session what came of it, if it wants to know.
    pub(super) fn post(&mut self, peer: PeerId, letter: &Letter) {
        let done = self.deliver(peer, letter);
        if let Some(receipt) = letter.receipt() {
            self.take(Input::Sent { peer, receipt, done });
        }
    }

    fn deliver(&mut self, peer: PeerId, letter: &Letter) -> Result<(), SendError> {
        match letter {
            Letter::Welcome { group, whose, with_maps } => {
                let channel = self.rings.of(*group).ok_or(SendError::Gone)?.clone();
                let message = Message::Welcome(*whose, channel.geometry());
                self.send_rings(peer, &message, (*group, channel.memfd().raw()), *with_maps)
            }
            Letter::Renew { group, with_maps, .. } => {
                let channel = self.rings.of(*group).ok_or(SendError::Gone)?.clone();
                let message = Message::Renew(channel.geometry());
                self.send_rings(peer, &message, (*group, channel.memfd().raw()), *with_maps)
            }
            Letter::Refused(why) => {
                let connection = self.connections.get(&peer).ok_or(SendError::Gone)?;
                // It may have ended meanwhile: then nothing of it is missing.
                self.send(peer, &Message::Refused(*why), &[])?;
                if connection.has_hung_up() { Err(SendError::Gone) } else { Ok(()) }
            }
            Letter::Filters { group, generation } => self.send_filters(peer, *group, *generation),
            Letter::Ids(words) => {
                let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                self.send(peer, &Message::Ids(&words), &[])
            }
            Letter::Invitation { place, mailbox, .. } => {
                let mailbox = self.mailboxes.get(mailbox).ok_or(SendError::Gone)?;
                self.send(peer, &Message::Join { place: place.as_bytes() }, &[mailbox.raw()])
            }
            Letter::Stop => self.send(peer, &Message::Stop, &[]),
        }
    }

    fn send(&self, peer: PeerId, message: &Message<'_>, fds: &[i32]) -> Result<(), SendError> {
        let connection = self.connections.get(&peer).ok_or(SendError::Gone)?;
        connection.send(message, fds).map_err(|why| match why {
            Errno(libc::EPIPE | libc::ECONNRESET) => SendError::Gone,
            Errno(libc::EACCES) => SendError::Locked,
            why => SendError::System(why),
        })
    }

    /// Sends rings, with the memory of filters if there is one.
    fn send_rings(
        &mut self,
        peer: PeerId,
        message: &Message<'_>,
        (group, rings): (GroupId, i32),
        with_maps: bool,
    ) -> Result<(), SendError> {
        // When there is no memory for filters that is told with the filters.
        let area = with_maps.then(|| self.areas.of(group, self.session.layout()).ok()).flatten();
        let maps = area.map(|area| area.memfd().raw());
        let fds: Vec<i32> = std::iter::once(rings).chain(maps).collect();
        self.send(peer, message, &fds)
    }

    fn send_filters(&mut self, peer: PeerId, group: GroupId, generation: u32) -> Result<(), SendError> {
        let area = self.areas.of(group, self.session.layout()).map_err(SendError::Memory)?;
        let bundle = self.bundle.as_ref().ok_or(SendError::System(Errno(libc::ENOMEM)))?;
        let fds = [area.memfd().raw(), bundle.raw()];
        self.send(peer, &Message::Filters { generation }, &fds)
    }
}

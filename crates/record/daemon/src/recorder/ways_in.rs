//! The ways in: for processes, and for requests.

use crate::control::server::Server;
use crate::error::Error;
use crate::output::folder::Folder;
use crate::registration::listeners::Listeners;

/// All ways in; they are closed when this is dropped.
pub(crate) struct WaysIn {
    /// Closed first: commands that wait for an answer learn that the recording has ended.
    pub(crate) server: Server,
    pub(crate) listeners: Listeners,
}

impl WaysIn {
    /// Opens the listeners for processes, and the server for requests, to which a link in `inner` leads.
    ///
    /// # Errors
    /// [`Error::Loop`].
    pub(crate) fn open(inner: &Folder) -> Result<WaysIn, Error> {
        let listeners = Listeners::open()?;
        let server = Server::open(listeners.sockets(), listeners.trust(), inner)?;
        Ok(WaysIn { server, listeners })
    }
}

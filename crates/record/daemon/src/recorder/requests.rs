//! What persons and other recorders ask of the recording, until they have their answers.

use crate::control::server::Server;
use crate::control::{Answer, Given, Request};
use mote_filter::Rule;
use mote_session::{MailboxId, Ticket};
use mote_sys::fd::Fd;
use mote_words::COLUMNS;
use std::collections::BTreeMap;

/// Patterns of functions, and of those whose calls have to be around the others'.
type Functions = (Vec<String>, Vec<String>);

/// Requests that are being served.
#[derive(Default)]
pub(crate) struct Requests {
    /// Answers that are still to be given.
    answers: Vec<(Ticket, Answer)>,
    /// Columns of the terminals of commands that ask how it is.
    columns: BTreeMap<Ticket, usize>,
    /// Mailboxes of other recorders.
    mailboxes: BTreeMap<MailboxId, Fd>,
    /// Functions that are to have probes, before the rules about them are looked at.
    functions: Vec<(Ticket, Functions)>,
}

impl Requests {
    /// Takes in the requests that have come, as the session knows them. What cannot be understood is answered so.
    pub(super) fn read(&mut self, server: &mut Server) -> Vec<(Ticket, mote_session::Request)> {
        let mut understood = Vec::new();
        for (ticket, request, beside) in server.serve() {
            match self.understand(ticket, request, beside) {
                Ok(request) => understood.push((ticket, request)),
                Err(text) => self.answer(ticket, Answer { done: false, text }),
            }
        }
        understood
    }

    fn understand(
        &mut self,
        ticket: Ticket,
        request: Request,
        beside: Option<Fd>,
    ) -> Result<mote_session::Request, String> {
        let rules = |given: &[Given]| given.iter().map(Given::rule).collect::<Result<Vec<Rule>, String>>();
        Ok(match request {
            Request::Enable { rules: about, kernel, functions, under } => {
                let request =
                    mote_session::Request::Enable { rules: rules(&about)?, kernel: rules(&kernel)? };
                self.functions.extend((!functions.is_empty()).then_some((ticket, (functions, under))));
                request
            }
            Request::Disable { patterns, kernel } => mote_session::Request::Disable { patterns, kernel },
            Request::Snapshot => mote_session::Request::Snapshot,
            Request::Status { columns } => {
                self.columns.insert(ticket, columns.map_or(COLUMNS, usize::from));
                mote_session::Request::Status
            }
            Request::Join { pid, place } => {
                // Numbers of requests are used once.
                let mailbox = beside.map(|mailbox| {
                    self.mailboxes.insert(MailboxId(ticket.0), mailbox);
                    MailboxId(ticket.0)
                });
                mote_session::Request::Join { pid, place, mailbox }
            }
        })
    }

    /// The functions that a request is about, beside its rules.
    pub(super) fn functions(&mut self, ticket: Ticket) -> Functions {
        let at = self.functions.iter().position(|(other, _)| *other == ticket);
        at.map(|at| self.functions.swap_remove(at).1).unwrap_or_default()
    }

    /// Keeps the answer to a request.
    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.answers.push((ticket, answer));
    }

    /// Gives the answers that are ready.
    pub(super) fn give(&mut self, server: &mut Server) {
        self.answers.drain(..).for_each(|(ticket, answer)| server.answer(ticket, &answer));
    }

    /// Columns of the terminal at which this was asked; asked once.
    pub(super) fn columns(&mut self, ticket: Ticket) -> usize {
        self.columns.remove(&ticket).unwrap_or(COLUMNS)
    }

    /// The mailbox of another recorder.
    pub(super) fn mailbox(&self, mailbox: MailboxId) -> Option<&Fd> {
        self.mailboxes.get(&mailbox)
    }

    /// Closes the mailbox of another recorder.
    pub(super) fn drop_mailbox(&mut self, mailbox: MailboxId) {
        self.mailboxes.remove(&mailbox);
    }
}

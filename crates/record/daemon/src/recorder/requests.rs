//! What persons and other recorders ask of the recording.

use super::Recorder;
use crate::consumer::state::Figures;
use crate::control::server::Server;
use crate::control::{Answer, Given, Request};
use mote_filter::Rule;
use mote_session::{Input, MailboxId, Ticket};
use mote_sys::fd::Fd;
use mote_words::{COLUMNS, counted};

impl Recorder<'_> {
    /// Takes in the requests that have come, and gives the answers that are ready.
    pub(super) fn serve_requests(&mut self, server: &mut Server) {
        for (ticket, request, beside) in server.serve() {
            match self.understand(ticket, request, beside) {
                Ok(request) => self.take(Input::Request { ticket, request }),
                Err(text) => self.answers.push((ticket, Answer { done: false, text })),
            }
        }
        self.give_answers(server);
    }

    pub(super) fn give_answers(&mut self, server: &mut Server) {
        self.answers.drain(..).for_each(|(ticket, answer)| server.answer(ticket, &answer));
    }

    /// A request as the session knows it.
    fn understand(
        &mut self,
        ticket: Ticket,
        request: Request,
        beside: Option<Fd>,
    ) -> Result<mote_session::Request, String> {
        let rules = |given: &[Given]| given.iter().map(Given::rule).collect::<Result<Vec<Rule>, String>>();
        Ok(match request {
            Request::Enable { rules: about, kernel } => {
                mote_session::Request::Enable { rules: rules(&about)?, kernel: rules(&kernel)? }
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

    /// Has the consumer write down what the flight recorder holds. Returns the number of the request.
    pub(crate) fn ask_for_snapshot(&mut self) -> Result<u64, &'static str> {
        if self.options.mode != mote_ring::Mode::Overwrite {
            return Err(mote_session::NO_SNAPSHOTS);
        }
        Ok(self.shared.snapshots.ask())
    }

    /// What has come of both traces so far.
    pub(super) fn figures(&self) -> Figures {
        let kernel = self.kernel.as_ref().map(|kernel| kernel.trace.state.figures());
        self.figures_of_processes() + kernel.unwrap_or_default()
    }

    /// What has come of the processes' trace so far.
    fn figures_of_processes(&self) -> Figures {
        self.trace.state.figures() + Figures { unknown: self.session.missed(), ..Figures::default() }
    }

    /// How it is, for the person who asks.
    pub(super) fn status(&mut self, ticket: Ticket) -> String {
        let columns = self.columns.remove(&ticket).unwrap_or(COLUMNS);
        let (events, filters) = (self.session.events(), self.session.filters());
        let on = (0..events.len()).filter(|id| filters.is_on(*id)).count();
        let mut text = format!(
            "recording for {:.1} s: {}, {}, {on} of {} on",
            self.began.elapsed().as_secs_f64(),
            self.figures_of_processes(),
            counted(self.session.processes(), "process", "processes"),
            counted(events.len(), "kind of event", "kinds of events"),
        );
        for line in filters.lines() {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        if let Some(kernel) = &self.kernel {
            text.push_str(&kernel.status());
        }
        let counted = super::aggregates::text(&self.aggregates(), columns);
        if !counted.is_empty() {
            text.push_str("\n\n");
            text.push_str(counted.trim_end());
        }
        text
    }
}

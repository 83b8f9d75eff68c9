//! What processes say, and what becomes of it.

use crate::action::{Action, Letter};
use crate::events::Announced;
use crate::peer::{Peer, PeerId};
use crate::problems::Kind;
use crate::session::{Now, Session};
use mote_sys::Errno;
use mote_sys::socket::Credentials;
use mote_wire::{Installed, Message, Ready, Reason};
use mote_words::counted;

impl Session {
    /// A message has come over a connection.
    pub(crate) fn message(&mut self, id: PeerId, sender: Option<Credentials>, bytes: &[u8], now: Now) {
        let Some(peer) = self.peers.get(id) else { return };
        let (pid, has_said_hello) = (peer.pid, peer.hello.is_some());
        let Some(sender) = sender.filter(|sender| sender.pid == pid) else {
            let other = sender.map_or(0, |sender| sender.pid);
            return self.nonsense(id, &format!("process {other} sent a message over its connection"), now);
        };
        match Message::decode(bytes) {
            Ok(Message::Hello(hello)) if !has_said_hello => self.hello(id, sender, hello, now),
            Ok(message) if has_said_hello => self.heard(id, message, now),
            Ok(_) => self.nonsense(id, "it sent a message that does not belong there", now),
            Err(error) => self.nonsense(id, &error.to_string(), now),
        }
    }

    fn heard(&mut self, id: PeerId, message: Message<'_>, now: Now) {
        let Some(pid) = self.peers.get(id).map(|peer| peer.pid) else { return };
        match message {
            Message::Events { texts, has_more, .. } => self.announced(id, texts, has_more),
            Message::Installed(done) => self.installed(pid, done),
            Message::Share { words, each_thread, name } => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.act(Action::Share { peer: id, name, words, each_thread });
            }
            Message::WantsCounts { number } => self.act(Action::GiveCounts { peer: id, number }),
            Message::Ready(ready) => self.ready(id, ready),
            Message::GoesOn => {
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.goes_on = true;
                }
                self.act(Action::Listens(id));
            }
            Message::Keeper => self.act(Action::Keep(id)),
            Message::Renewed => {}
            Message::Declined(why) => self.declined(pid, why),
            Message::Failed(errno) => {
                let why = Errno(errno as i32);
                self.missing(pid, &format!("cannot join: {why}{}", join_hint(why)));
                self.close(id, now);
            }
            _ => self.nonsense(id, "it sent a message that does not belong there", now),
        }
    }

    /// Takes in descriptions of events. Their ids are told when the metadata has them ([`Session::publish`]), or at
    /// once where more of them follow.
    fn announced(&mut self, id: PeerId, texts: &[u8], has_more: bool) {
        let Some((pid, uid)) = self.peers.get(id).map(|peer| (peer.pid, peer.uid)) else { return };
        let room = self.peers.events_left(uid);
        let (mut ids, mut count, mut wrong) = (Vec::new(), 0, None);
        for text in mote_wire::texts(texts) {
            let known = self.selection.events.id_of(text).map(Announced::Known);
            let announced = known.unwrap_or_else(|| match count < room {
                true => self.selection.events.announce(text),
                false => Announced::TooMany,
            });
            ids.push(match announced {
                Announced::New(id) => {
                    count += 1;
                    self.unpublished.announce(id);
                    self.act(Action::KnowEvent(id));
                    Some(id)
                }
                Announced::Known(id) => Some(id),
                Announced::Malformed(error) => {
                    wrong.get_or_insert_with(|| error.to_string());
                    None
                }
                Announced::TooMany => {
                    wrong.get_or_insert_with(|| too_many(room, uid));
                    None
                }
            });
        }
        self.peers.take_events(uid, count);
        if let Some(peer) = self.peers.get_mut(id) {
            peer.announced = Some(ids);
            peer.has_more = has_more;
        }
        if let Some(why) = wrong {
            self.problem(Kind::Event, pid, format!("an event of process {pid} cannot be recorded: {why}"));
        }
    }

    /// A process has loaded filters, or not.
    fn installed(&mut self, pid: i32, Installed { interpreted, refused, why, .. }: Installed<'_>) {
        let why = String::from_utf8_lossy(why).replace(char::is_control, "?");
        if refused > 0 || !why.is_empty() {
            let text = format!(
                "{} of process {pid} off, because their filters could not be loaded: {why}",
                counted(refused, "event stays", "events stay")
            );
            self.problem(Kind::Filters, pid, text);
        }
        if interpreted > 0 {
            self.act(Action::Say(format!(
                "{} of process {pid} in the interpreter, which is slower: the process could not make machine code; \
                 `mote doctor` may say why",
                counted(interpreted, "filter runs", "filters run")
            )));
        }
    }

    fn ready(&mut self, id: PeerId, ready: Ready) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.is_ready = true;
        let pid = peer.pid;
        self.act(Action::Listens(id));
        self.part(id);
        if ready.replaces != 0 && self.known.replaces(pid) != Some(ready.replaces) {
            self.known.note_replaces(pid, ready.replaces);
            let of_it = |peer: &Peer| peer.pid == pid && peer.is_process() && peer.listens();
            for other in self.peers.that(of_it).into_iter().filter(|other| *other != id) {
                self.send(other, Letter::Replaces(ready.replaces));
            }
        }
        if ready.late_ms > 0 {
            self.problems.note_missing();
            let text = format!(
                "process {pid} joined {} s late, and its events before that are missing: the recorder was busy or \
                 stopped, or the process had no descriptors left (ulimit -n)",
                f64::from(ready.late_ms) / 1e3
            );
            self.problem(Kind::Missing, pid, text);
        }
        if ready.failed > 0 {
            let why = match ready.errno {
                0 => "their code could not be patched safely".to_owned(),
                errno => Errno(errno as i32).to_string(),
            };
            let text = format!(
                "{} of {} event sites of process {pid} could not be switched on: {why}; see `mote doctor`, or build \
                 with the feature tested-byte",
                ready.failed, ready.sites
            );
            self.problem(Kind::Sites, pid, text);
        }
        self.report_patterns();
        self.forward(id);
    }

    /// Says which patterns match no event, when the first process has announced all of its own.
    fn report_patterns(&mut self) {
        for (pattern, similar) in self.selection.unmatched_once() {
            let similar =
                if similar.is_empty() { String::new() } else { format!("; similar: {}", similar.join(", ")) };
            self.actions
                .push_back(Action::Say(format!("no event matches '{pattern}' yet; waiting for it{similar}")));
        }
    }

    fn declined(&mut self, pid: i32, why: Reason) {
        self.problem(Kind::Declined, pid, match why {
            Reason::Full => format!(
                "process {pid} is not recorded: {} other recordings have it already, and no more are possible; end \
                 one of them",
                mote_wire::SESSIONS_MAX
            ),
            Reason::Stranger => format!(
                "process {pid} is not recorded: it does not trust this recorder, whose user does not exist in its \
                 user namespace; run `mote record` inside that namespace"
            ),
        });
    }
}

/// Why an event was not taken that could have been.
fn too_many(room: usize, uid: u32) -> String {
    match room {
        usize::MAX => {
            "the recording has as many kinds of events as it can hold; choose fewer with -e".to_owned()
        }
        _ => format!("the processes of user {uid} have reached their limit of kinds of events"),
    }
}

/// What to do about a process that cannot join.
fn join_hint(why: Errno) -> &'static str {
    match why.0 {
        libc::ENOMEM => "; its address space is limited (ulimit -v): give smaller --buffers",
        libc::EMFILE => "; it has too few descriptors (ulimit -n)",
        _ => "",
    }
}

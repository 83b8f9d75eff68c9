//! The control messages between a traced process and its session.
//!
//! Each message is one datagram of a `SOCK_SEQPACKET` socket: little-endian `u32` words, first the kind.
//! Encoding and decoding need no allocation, so that both ends use the same code.
//!
//! ```text
//! process                                       session
//! Hello {how, pid, parent, comm}  + socket  ->            through the inherited mailbox, or
//! Hello {...}                               ->            on a connection to the session's path
//! GoesOn                                    ->            when the welcome does not come soon
//!                                           <-  Welcome {whose, geometry, stack} + memfd [+ maps memfd]   |  Refused
//! Events {count, descriptions}              ->            as often as needed
//!                                           <-  Filters {generation} + maps memfd + bundle memfd
//!                                           <-  Ids {count, id and on/off}
//! Installed {generation, counts, why}       ->            if filters were loaded or refused
//! Ready {sites, armed, ..., replaces}       ->            | Failed {errno}
//!                                           <-  Filters {...}                at any time after: other rules
//! Installed {...}                           ->
//!                                           <-  Cooperate {slots} + area + shared memory   before the first Ids, or at any time after
//! Share {words, name}                       ->            at any time after: words with a name
//!                                           <-  Shared {at, words, slots} + shared memory [+ area]
//! WantsCounts {number}                      ->            before functions are announced whose calls are counted
//!                                           <-  Counts [+ memfd]
//!                                           <-  Join {place} + mailbox       at any time after: another session wants the process, too
//!                                           <-  Renew {geometry} + memfd [+ maps memfd]   at any time after: other rings from now on
//! Renewed                                   ->            nothing goes to the former ones any more
//!                                           <-  Replaces {find}              at any time after another copy's Ready
//!                                           <-  Stop                         at any time after
//! ```
//! A forked child says `Hello {how: Fork}` and waits for nothing: it has all it needs. Not so a child of a process that
//! has rings of its own ([`Whose::Own`]): it says `Hello {how: Apart}` and waits for its `Welcome`. A process that is
//! in [`SESSIONS_MAX`] sessions already says `Hello` and `Declined`, and nothing more; so does one that does not
//! believe the process that has answered. Each message says whose it is (`SCM_CREDENTIALS`): both ends look at that
//! (`docs/security.md`).
//!
//! `Filters` comes before the `Ids` of the events that it is for, so that no event is ever on without its filter.
//! [`bundle`] says what the second memfd holds, [`filter_counters`] what the first begins with. The maps' memfd is
//! shared by those that share rings. So one that has mapped something of it is sent another with other rings (a child
//! that has said `Apart` with its welcome, others with `Renew`), in which all lies where it lay.
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]
#![forbid(unsafe_code)]

use mote_ring::{Clock, Geometry, Mode};

pub mod bundle;
pub mod filter_counters;
mod words;
pub use words::{Reader, Writer};

/// Version of this protocol and of the ring's layout.
pub const VERSION: u32 = 5;

/// Environment variable by which a process finds its sessions: `VERSION,FD,INODE,PATH`, and the same of further
/// sessions behind semicolons.
pub const ENVIRONMENT: &str = "MOTE_SESSION";

/// Most sessions that a process is in at the same time.
pub const SESSIONS_MAX: usize = 8;

/// Between the places of several sessions in [`ENVIRONMENT`].
pub const PLACES_APART: char = ';';

/// Longest message, in bytes.
pub const MESSAGE_MAX: usize = 32 << 10;

/// Set in a word of `Ids` when the event is to be recorded.
pub const ID_ON: u32 = 1 << 31;

/// How a process came to say hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum How {
    /// A program has started.
    Start = 0,
    /// A child of a traced process, which inherited everything.
    Fork = 1,
    /// More events of a process that is known: a library was loaded.
    Library = 2,
    /// A process that has run for a while, and was asked to come ([`Message::Join`]).
    Attach = 3,
    /// A child of a process with rings of its own: it inherited everything but these.
    Apart = 4,
}

impl How {
    /// Whether this is a child of a process of the session.
    pub fn is_child(self) -> bool {
        matches!(self, How::Fork | How::Apart)
    }

    /// Whether a `Welcome` is waited for.
    pub fn wants_rings(self) -> bool {
        matches!(self, How::Start | How::Attach | How::Apart)
    }
}

/// Which other processes write to the rings that a process gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Whose {
    /// Processes of the same user; a forked child goes on with them.
    Shared = 0,
    /// No other process: this one could become another user. Its forked children ask for rings of theirs.
    Own = 1,
}

/// First message of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What has led it to the session.
    pub how: How,
    /// Process id as the process sees it.
    pub pid: u32,
    /// Process id of its parent, as the process sees it.
    pub parent: u32,
    /// Name of the thread, NUL-terminated.
    pub comm: [u8; 16],
}

/// What a process did with its event sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Event sites that it has.
    pub sites: u32,
    /// Sites that were switched on.
    pub armed: u32,
    /// Sites that should have been, and could not.
    pub failed: u32,
    /// Why the first of those failed, an error number, or 0.
    pub errno: u32,
    /// How long after it had wanted to join it did, in milliseconds: events of that time are missing. 0 when it was in
    /// time.
    pub late_ms: u32,
    /// Where the function is that finds return addresses which this copy of the library has replaced
    /// (`mote_agent::stack::Replaced`); 0 when it replaces none.
    pub replaces: u64,
}

/// What a process did with the filters that it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Installed<'a> {
    /// The newest bundle that it has.
    pub generation: u32,
    /// Events that have a filter now.
    pub running: u32,
    /// Of these, events whose filter is interpreted because machine code could not be made.
    pub interpreted: u32,
    /// Events that stay off because their filter was refused or could not be loaded.
    pub refused: u32,
    /// Why the first of those was refused, UTF-8; empty when none was. To be cut at [`WHY_MAX`].
    pub why: &'a [u8],
}

/// Longest reason in [`Installed`], in bytes.
pub const WHY_MAX: usize = 1024;

/// Why a session does not take a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// It speaks another version.
    Version = 0,
    /// The session is ending.
    Ending = 1,
    /// There is no memory left for rings of its own.
    Memory = 2,
}

/// Why a process does not take a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// It is in [`SESSIONS_MAX`] others.
    Full = 0,
    /// The process that has answered is neither its user's nor root's, as the process sees users.
    Stranger = 1,
}

/// A message, decoded. `Events` and `Ids` carry a tail that is read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// See [`Hello`].
    Hello(Hello),
    /// The channel's sizes, and what goes with records; the memfd comes beside the message.
    Welcome {
        /// Which other processes write to its rings.
        whose: Whose,
        /// The channel's sizes.
        geometry: Geometry,
        /// Most bytes of a thread's stack that go with each record (`mote_layout::stack`); 0: none.
        stack: u32,
    },
    /// Sizes of another channel that takes the place of the process's; the memfd comes beside the message.
    Renew(Geometry),
    /// The process writes to the channel of the last `Renew` only.
    Renewed,
    /// The session does not want the process.
    Refused(Refusal),
    /// Descriptions of events, each NUL-terminated.
    Events {
        /// How many; below 2^31.
        count: u32,
        /// More follow with the next message, and none of these occurs before that is answered: until then the session
        /// need not have them in its metadata.
        has_more: bool,
        /// The texts.
        texts: &'a [u8],
    },
    /// Ids of the events of the last `Events`, in order.
    Ids(&'a [u8]),
    /// See [`Ready`].
    Ready(Ready),
    /// Filters, and what else is to become of events; the maps' memfd and the bundle's come beside the message, in this
    /// order.
    Filters {
        /// Grows with each bundle of the session; an older one than the process has is ignored.
        generation: u32,
    },
    /// See [`Installed`].
    Installed(Installed<'a>),
    /// Switch everything off; the session is ending.
    Stop,
    /// The main thread has left, and nothing seems to be there but agents' threads: they are to look, and to end then.
    Look {
        /// How many agents the process has.
        agents: u32,
    },
    /// A socket comes beside the message that keeps what is sent to it for as long as the process lives: when the
    /// process has locked itself in, the session sends its end of the link there, so that its own end wakes no thread
    /// up.
    Keeper,
    /// Threads that have no time-stamp counter may make system calls for the time: none is in strict seccomp.
    MayCall,
    /// Another copy of the library in the process replaces return addresses: see [`Ready::replaces`].
    Replaces {
        /// Where the function is.
        find: u64,
    },
    /// The process has told of more events on another connection: its agent, which may have more to do now, is awake.
    Attend,
    /// Another session wants the process, too; its mailbox comes beside the message.
    Join {
        /// The session's place, as in [`ENVIRONMENT`], with a mailbox of number -1.
        place: &'a [u8],
    },
    /// The process does not want the session.
    Declined(Reason),
    /// The process cannot join, for the reason of this error number.
    Failed(u32),
    /// The program goes on without its welcome; it is taken when it comes, but events are missing from now on.
    GoesOn,
    /// The process shares an area with the kernel's programs (`mote_layout::cooperation`): the area and the session's
    /// shared memory come beside the message, in this order.
    Cooperate {
        /// Threads that have a place in the area.
        slots: u32,
    },
    /// The process wants memory for the counts of a plan of this number (`mote_layout::functions`).
    WantsCounts {
        /// Of the plan.
        number: u64,
    },
    /// Answer to `WantsCounts`. The memory comes beside the message, all zeros; without it there is none to be had, or
    /// the plan is not this session's.
    Counts,
    /// The process wants words of the shared memory by their name.
    Share {
        /// How many.
        words: u32,
        /// Each thread has words of its own, in its slot of the area.
        each_thread: bool,
        /// The name, UTF-8.
        name: &'a [u8],
    },
    /// Answer to `Share`. The shared memory comes beside the message; behind it the area, if `slots` is not 0.
    Shared {
        /// Index of the first of the words.
        at: u32,
        /// How many there are; 0: there are none to be had.
        words: u32,
        /// As in `Cooperate`; 0 when no words of threads were wanted.
        slots: u32,
    },
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It is cut, or longer than its kind.
    Length,
    /// There is no such kind.
    Kind(u32),
    /// The peer speaks another version.
    Version(u32),
    /// A word is out of bounds.
    Value,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Length => write!(f, "message is cut or too long"),
            Error::Kind(kind) => write!(f, "message is of unknown kind {kind}"),
            Error::Version(version) => write!(
                f,
                "peer speaks version {version} of the protocol, not {VERSION}; build program and tool from the same version of mote"
            ),
            Error::Value => write!(f, "message holds a value that is out of bounds"),
        }
    }
}

impl core::error::Error for Error {}

/// Of the count of events.
const MORE_EVENTS: u32 = 1 << 31;
const HELLO: u32 = 1;
const WELCOME: u32 = 2;
const REFUSED: u32 = 3;
const EVENTS: u32 = 4;
const IDS: u32 = 5;
const READY: u32 = 6;
const STOP: u32 = 7;
const FILTERS: u32 = 8;
const INSTALLED: u32 = 9;
const RENEW: u32 = 10;
const RENEWED: u32 = 11;
const FAILED: u32 = 12;
const GOES_ON: u32 = 13;
const LOOK: u32 = 50;
const MAY_CALL: u32 = 51;
const KEEPER: u32 = 52;
const ATTEND: u32 = 53;
const REPLACES: u32 = 54;
const JOIN: u32 = 40;
const DECLINED: u32 = 41;
const COOPERATE: u32 = 16;
const SHARE: u32 = 17;
const SHARED: u32 = 18;
const WANTS_COUNTS: u32 = 60;
const COUNTS: u32 = 61;

impl Message<'_> {
    /// Encodes into `buffer`, which must take [`MESSAGE_MAX`] bytes for the longest; returns the bytes
    /// used, or `None` when it does not fit.
    pub fn encode<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut to = Writer::new(buffer);
        match self {
            Message::Hello(hello) => {
                to.words(&[HELLO, VERSION, hello.how as u32, hello.pid, hello.parent]);
                to.bytes(&hello.comm);
            }
            Message::Welcome { whose, geometry, stack } => {
                to.words(&[WELCOME, VERSION, *whose as u32, *stack]);
                to.words(&sizes(geometry));
            }
            Message::Renew(geometry) => {
                to.words(&[RENEW]);
                to.words(&sizes(geometry));
            }
            Message::Renewed => to.words(&[RENEWED]),
            Message::Refused(why) => to.words(&[REFUSED, *why as u32]),
            Message::Events { count, has_more, texts } => {
                to.words(&[EVENTS, *count | if *has_more { MORE_EVENTS } else { 0 }]);
                to.bytes(texts);
            }
            Message::Ids(ids) => {
                to.words(&[IDS]);
                to.bytes(ids);
            }
            Message::Ready(ready) => {
                to.words(&[READY, ready.sites, ready.armed, ready.failed, ready.errno, ready.late_ms]);
                to.long(ready.replaces);
            }
            Message::Filters { generation } => to.words(&[FILTERS, *generation]),
            Message::Installed(done) => {
                to.words(&[INSTALLED, done.generation, done.running, done.interpreted, done.refused]);
                to.bytes(done.why.get(..WHY_MAX).unwrap_or(done.why));
            }
            Message::Stop => to.words(&[STOP]),
            Message::Look { agents } => to.words(&[LOOK, *agents]),
            Message::MayCall => to.words(&[MAY_CALL]),
            Message::Attend => to.words(&[ATTEND]),
            Message::Replaces { find } => {
                to.words(&[REPLACES]);
                to.long(*find);
            }
            Message::Keeper => to.words(&[KEEPER]),
            Message::Join { place } => {
                to.words(&[JOIN]);
                to.bytes(place);
            }
            Message::Declined(why) => to.words(&[DECLINED, *why as u32]),
            Message::Failed(errno) => to.words(&[FAILED, *errno]),
            Message::GoesOn => to.words(&[GOES_ON]),
            Message::Cooperate { slots } => to.words(&[COOPERATE, *slots]),
            Message::WantsCounts { number } => {
                to.words(&[WANTS_COUNTS]);
                to.long(*number);
            }
            Message::Counts => to.words(&[COUNTS]),
            Message::Share { words, each_thread, name } => {
                to.words(&[SHARE, *words, u32::from(*each_thread)]);
                to.bytes(name);
            }
            Message::Shared { at, words, slots } => to.words(&[SHARED, *at, *words, *slots]),
        }
        to.finish()
    }

    /// Decodes a message. Nothing in it is trusted.
    ///
    /// # Errors
    /// [`Error`].
    pub fn decode(bytes: &[u8]) -> Result<Message<'_>, Error> {
        let mut from = Reader::new(bytes);
        let message = match from.word()? {
            HELLO => Message::Hello(hello(&mut from)?),
            WELCOME => welcome(&mut from)?,
            RENEW => Message::Renew(geometry(&mut from)?),
            RENEWED => Message::Renewed,
            REFUSED => Message::Refused(match from.word()? {
                0 => Refusal::Version,
                1 => Refusal::Ending,
                2 => Refusal::Memory,
                _ => return Err(Error::Value),
            }),
            EVENTS => {
                let word = from.word()?;
                let (count, has_more) = (word & !MORE_EVENTS, word & MORE_EVENTS != 0);
                Message::Events { count, has_more, texts: from.rest() }
            }
            IDS => Message::Ids(from.rest()),
            READY => Message::Ready(Ready {
                sites: from.word()?,
                armed: from.word()?,
                failed: from.word()?,
                errno: from.word()?,
                late_ms: from.word()?,
                replaces: from.long()?,
            }),
            FILTERS => Message::Filters { generation: from.word()? },
            INSTALLED => Message::Installed(Installed {
                generation: from.word()?,
                running: from.word()?,
                interpreted: from.word()?,
                refused: from.word()?,
                why: Some(from.rest()).filter(|why| why.len() <= WHY_MAX).ok_or(Error::Value)?,
            }),
            STOP => Message::Stop,
            LOOK => Message::Look { agents: from.word()? },
            MAY_CALL => Message::MayCall,
            ATTEND => Message::Attend,
            REPLACES => Message::Replaces { find: from.long()? },
            KEEPER => Message::Keeper,
            JOIN => Message::Join { place: from.rest() },
            DECLINED => Message::Declined(match from.word()? {
                0 => Reason::Full,
                1 => Reason::Stranger,
                _ => return Err(Error::Value),
            }),
            FAILED => Message::Failed(from.word()?),
            GOES_ON => Message::GoesOn,
            WANTS_COUNTS => Message::WantsCounts { number: from.long()? },
            COUNTS => Message::Counts,
            COOPERATE => Message::Cooperate { slots: from.word()? },
            SHARE => Message::Share { words: from.word()?, each_thread: from.flag()?, name: from.rest() },
            SHARED => Message::Shared { at: from.word()?, words: from.word()?, slots: from.word()? },
            kind => return Err(Error::Kind(kind)),
        };
        if from.rest().is_empty() { Ok(message) } else { Err(Error::Length) }
    }
}

fn hello(from: &mut Reader<'_>) -> Result<Hello, Error> {
    let version = from.word()?;
    if version != VERSION {
        return Err(Error::Version(version));
    }
    let how = match from.word()? {
        0 => How::Start,
        1 => How::Fork,
        2 => How::Library,
        3 => How::Attach,
        4 => How::Apart,
        _ => return Err(Error::Value),
    };
    Ok(Hello { how, pid: from.word()?, parent: from.word()?, comm: from.array()? })
}

fn welcome<'a>(from: &mut Reader<'_>) -> Result<Message<'a>, Error> {
    let version = from.word()?;
    if version != VERSION {
        return Err(Error::Version(version));
    }
    let whose = match from.word()? {
        0 => Whose::Shared,
        1 => Whose::Own,
        _ => return Err(Error::Value),
    };
    let stack = from.word()?;
    Ok(Message::Welcome { whose, stack, geometry: geometry(from)? })
}

fn sizes(g: &Geometry) -> [u32; 6] {
    [g.cpus, g.shared, g.sub_bits, g.count_bits, g.mode as u32, g.clock as u32]
}

fn geometry(from: &mut Reader<'_>) -> Result<Geometry, Error> {
    let geometry = Geometry {
        cpus: from.word()?,
        shared: from.word()?,
        sub_bits: from.word()?,
        count_bits: from.word()?,
        mode: match from.word()? {
            0 => Mode::Discard,
            1 => Mode::Overwrite,
            _ => return Err(Error::Value),
        },
        clock: match from.word()? {
            0 => Clock::Tsc,
            1 => Clock::Monotonic,
            _ => return Err(Error::Value),
        },
    };
    geometry.check().map_err(|_| Error::Value)
}

/// The ids in the tail of [`Message::Ids`].
pub fn ids(tail: &[u8]) -> impl Iterator<Item = u32> {
    tail.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// The descriptions in the tail of [`Message::Events`], each with its NUL; a last one without NUL is left out.
pub fn texts(tail: &[u8]) -> impl Iterator<Item = &[u8]> {
    tail.split_inclusive(|byte| *byte == 0).filter(|text| text.last() == Some(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(message: Message<'_>) {
        let mut buffer = [0; 256];
        let bytes = message.encode(&mut buffer).expect("it fits");
        assert_eq!(Message::decode(bytes), Ok(message));
        for end in 0..bytes.len() {
            let _ = Message::decode(&bytes[..end]);
        }
    }

    #[test]
    fn messages_are_read_back() {
        let geometry = Geometry {
            cpus: 2,
            shared: 2,
            sub_bits: 20,
            count_bits: 5,
            mode: Mode::Overwrite,
            clock: Clock::Monotonic,
        };
        there_and_back(Message::Hello(Hello { how: How::Fork, pid: 7, parent: 1, comm: [b'x'; 16] }));
        there_and_back(Message::Welcome { whose: Whose::Shared, geometry, stack: 0 });
        there_and_back(Message::Welcome { whose: Whose::Own, geometry, stack: 8192 });
        there_and_back(Message::Renew(geometry));
        there_and_back(Message::Renewed);
        there_and_back(Message::Hello(Hello { how: How::Apart, pid: 7, parent: 1, comm: [b'z'; 16] }));
        there_and_back(Message::Refused(Refusal::Ending));
        there_and_back(Message::Events { count: 2, has_more: false, texts: b"a\0b\0" });
        there_and_back(Message::Events { count: 1, has_more: true, texts: b"a\0" });
        there_and_back(Message::Ids(&[1, 0, 0, 0x80]));
        there_and_back(Message::Ready(Ready {
            sites: 3,
            armed: 2,
            failed: 1,
            errno: 13,
            late_ms: 70,
            replaces: 1 << 46,
        }));
        there_and_back(Message::Filters { generation: 7 });
        let why = b"the filter of net:in was refused";
        let done = Installed { generation: 7, running: 4, interpreted: 1, refused: 2, why };
        there_and_back(Message::Installed(done));
        there_and_back(Message::Stop);
        there_and_back(Message::Look { agents: 2 });
        there_and_back(Message::MayCall);
        there_and_back(Message::Attend);
        there_and_back(Message::Replaces { find: 1 << 46 });
        there_and_back(Message::Keeper);
        there_and_back(Message::Join { place: b"2,-1,77,/tmp/mote-1/session" });
        there_and_back(Message::Declined(Reason::Full));
        there_and_back(Message::Failed(12));
        there_and_back(Message::GoesOn);
        there_and_back(Message::Declined(Reason::Stranger));
        there_and_back(Message::Hello(Hello { how: How::Attach, pid: 7, parent: 1, comm: [b'y'; 16] }));
        there_and_back(Message::Cooperate { slots: 256 });
        there_and_back(Message::WantsCounts { number: 7 << 32 | 9 });
        there_and_back(Message::Counts);
        there_and_back(Message::Share { words: 4, each_thread: true, name: b"requests" });
        let mut share = [0; 32];
        let len = Message::Share { words: 4, each_thread: true, name: b"x" }
            .encode(&mut share)
            .expect("room")
            .len();
        share[8] = 147;
        assert_eq!(Message::decode(&share[..len]), Err(Error::Value), "no flag");
        there_and_back(Message::Shared { at: 512, words: 4, slots: 0 });
    }

    #[test]
    fn hostile_messages_are_refused() {
        assert_eq!(Message::decode(&[]), Err(Error::Length));
        assert_eq!(Message::decode(&[99, 0, 0, 0]), Err(Error::Kind(99)));
        assert_eq!(Message::decode(&[7, 0, 0, 0, 1]), Err(Error::Length));
        let mut welcome = [0u8; 40];
        welcome[0] = 2;
        welcome[4..8].copy_from_slice(&VERSION.to_le_bytes());
        assert_eq!(Message::decode(&welcome), Err(Error::Value));
        // A reason is never longer.
        let mut installed = [b'?'; 20 + WHY_MAX + 1];
        installed[..4].copy_from_slice(&INSTALLED.to_le_bytes());
        assert_eq!(Message::decode(&installed), Err(Error::Value));
        assert!(Message::decode(&installed[..20 + WHY_MAX]).is_ok());
    }
}
